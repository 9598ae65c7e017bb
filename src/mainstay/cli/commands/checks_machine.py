"""What `doctor` looks at of the machine and the terminal: bounds, memory, locale, versions of what is installed."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mainstay import __version__
from mainstay.cli.commands.checks import Finding
from mainstay.config.schema import Config
from mainstay.config.schema_gateway import ServerSettings

OPEN_FILES_MIN = 1024
OPEN_FILES_SPARE = 256  # beside connections: databases, folders that are watched, processes
RAM_WARN_MB = 256
_PACKAGE = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:\s*>=\s*([0-9.]+))?[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_NOT_FOR_USERS = ("bench", "dev", "docs")


# --- bounds --------------------------------------------------------------------------------------


def open_files(config: Config | None) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Finding("Open files", "ok", "as many as wanted")
    server = (config or Config()).server
    serves = config is not None and (bool(config.channels or config.people) or server != ServerSettings())
    wanted = server.connections_max + OPEN_FILES_SPARE if serves else OPEN_FILES_MIN
    if soft >= wanted:
        return Finding("Open files", "ok", f"{soft:,} at a time")
    reachable = hard == resource.RLIM_INFINITY or hard >= wanted
    fix = f"ulimit -n {wanted}" if reachable else f"have its bound raised to {wanted} (limits.conf, LimitNOFILE=)"
    more = f", or a smaller server.connections_max than {server.connections_max:,}" if serves else ""
    return Finding("Open files", "warn", f"only {soft:,} at a time, and {wanted:,} may be wanted", fix + more)


def ram() -> list[Finding]:
    left = available_mb()
    if left is None:
        return []
    if left < RAM_WARN_MB:
        fix = "end something else, or give the machine more"
        return [Finding("RAM", "warn", f"only {left} MB are free", fix)]
    return [Finding("RAM", "ok", f"{left / 1024:.1f} GB free")]


def available_mb(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What a new process may have: of the machine, and within the bound that a container has. None: not known."""
    found = [one for one in (_of_machine(proc), _of_container(cgroup)) if one is not None]
    return min(found) // (1024 * 1024) if found else None


def _of_machine(proc: Path) -> int | None:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return None
    except (OSError, ValueError, IndexError):
        pass  # not Linux
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _of_container(cgroup: Path) -> int | None:
    try:
        bound = (cgroup / "memory.max").read_text().strip()
        return None if bound == "max" else max(int(bound) - int((cgroup / "memory.current").read_text()), 0)
    except (OSError, ValueError):
        return None


# --- the terminal --------------------------------------------------------------------------------


def terminal(env: Mapping[str, str], encoding: str, *, interactive: bool) -> Finding:
    """What it says of itself: Python makes UTF-8 of a locale that says nothing, and the terminal may not."""
    utf8 = "export LANG=en_US.UTF-8" if sys.platform == "darwin" else "export LANG=C.UTF-8"
    if encoding.lower().replace("-", "") != "utf8":
        says = f"it is written to in {encoding}, so other scripts and signs are shown as codes"
        return Finding("Terminal", "warn", says, f"{utf8}; and unset PYTHONIOENCODING")
    variable = "LC_ALL" if env.get("LC_ALL") else "LANG"
    named = env.get(variable, "")
    if not _says_utf8(named) and (named or interactive) and not _says_utf8(env.get("LC_CTYPE", ""), own=True):
        what = f"{variable} is {named}" if named else "no locale is set (LANG)"
        return Finding("Terminal", "warn", f"{what}, which does not say UTF-8: some signs may be shown wrong", utf8)
    if not interactive:
        return Finding("Terminal", "ok", "UTF-8; the output is no terminal, so it is plain")
    if env.get("TERM", "dumb") == "dumb":
        return Finding("Terminal", "warn", "TERM is dumb: the chat is plain", "export TERM=xterm-256color")
    colour = "no colour, as NO_COLOR wants it" if env.get("NO_COLOR") else "colour"
    return Finding("Terminal", "ok", f"UTF-8, {colour}, {env['TERM']}")


def _says_utf8(locale: str, *, own: bool = False) -> bool:
    """`own`: not what Python has put there itself."""
    if own and locale == "C.UTF-8" and sys.flags.utf8_mode:
        return False
    return "utf8" in locale.lower().replace("-", "")


# --- what is installed ---------------------------------------------------------------------------


def extras() -> Iterator[Finding]:
    """Which extras are whole, and what of them is older than we want. Nothing of it is imported."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        wanted = requires("mainstay") or [] if version("mainstay") == __version__ else []
    except PackageNotFoundError:  # run from its source
        return
    whole: list[str] = []
    lacking: list[str] = []
    for extra, packages in sorted(of_extras(wanted).items()):
        versions = {package: _version(package) for package, _ in packages}
        for package, least in packages:
            if (found := versions[package]) and _number(found) < _number(least):
                fix = f"pip install --upgrade '{package}>={least}'"
                yield Finding("Extras", "warn", f"{package} is {found}, and {least} or newer is wanted", fix)
        if not extra or extra in _NOT_FOR_USERS:
            continue
        if all(versions.values()):
            whole.append(f"{extra} ({', '.join(f'{name} {one}' for name, one in versions.items())})")
        else:
            lacking.append(extra)
    says = f"{', '.join(whole) or 'none'}" + (f"; not installed: {', '.join(lacking)}" if lacking else "")
    yield Finding("Extras", "ok", says)


def of_extras(wanted: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """By extra ("" is what all have): packages, and the oldest version that will do."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in wanted:
        matched = _PACKAGE.fullmatch(line.strip())
        if matched is None or matched[1] == "mainstay":
            continue
        condition = matched[3] or ""
        extra = _EXTRA.search(condition)
        if extra is None and condition:
            continue  # for some machines only: whoever needs it notices
        packages = found.setdefault(extra[1] if extra else "", [])
        packages.append((matched[1], matched[2] or "0"))
    return found


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _number(version: str) -> tuple[int, ...]:
    parts = re.match(r"\d+(?:\.\d+)*", version)
    made = [int(one) for one in parts[0].split(".")] if parts else [0]
    while made and made[-1] == 0:
        made.pop()  # 2.0 is 2
    return tuple(made)
