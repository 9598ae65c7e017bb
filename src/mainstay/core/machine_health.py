"""Health checks of the machine: Python, open file limit, memory, system clock, versions of installed packages."""

from __future__ import annotations

import os
import platform
import re
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mainstay.core.health import CheckFinding

PYTHON_MIN = (3, 11)
OPEN_FILES_MIN = 1024
OPEN_FILES_SPARE = 256  # in addition to connections: databases, watched folders, processes
RAM_WARN_MB = 256
CLOCK_MIN_S = 1_780_000_000  # Unix time; a system clock before this is wrong
CLOCK_MAX_S = 4_100_000_000  # Unix time; a system clock after this is wrong
CLOCK_ADVICE = "set the system's date and time (timedatectl set-ntp true, or: sntp -sS time.apple.com)"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:\s*>=\s*([0-9.]+))?[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_DEVELOPER_EXTRAS = ("bench", "dev", "docs")


def check_python() -> CheckFinding:
    version = platform.python_version()
    if sys.version_info < PYTHON_MIN:
        return CheckFinding("Python", "FAIL", version, "install Python 3.11 or newer")
    if sys.platform not in ("linux", "darwin"):
        return CheckFinding("Python", "warn", f"{version} on {sys.platform}", "use Linux or macOS; on Windows, WSL")
    return CheckFinding("Python", "ok", f"{version} on {sys.platform}")


# --- limits --------------------------------------------------------------------------------------


def check_open_files(connections_max: int | None = None) -> CheckFinding:
    """Check the limit of open files. `connections_max`: of the server, if this machine runs one; the server raises the
    soft limit to the hard one, and accepts fewer connections if that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reached = soft if connections_max is None else hard
    if reached == resource.RLIM_INFINITY:
        return CheckFinding("Open files", "ok", "unlimited")
    wanted = connections_max + OPEN_FILES_SPARE if connections_max is not None else OPEN_FILES_MIN
    if reached >= wanted:
        return CheckFinding("Open files", "ok", f"{reached:,} at a time")
    reachable = hard == resource.RLIM_INFINITY or hard >= wanted
    fix = f"ulimit -n {wanted}" if reachable else f"raise the limit to {wanted} (limits.conf, LimitNOFILE=)"
    message = f"only {reached:,} at a time, but {wanted:,} may be needed"
    if connections_max is not None:
        fix += f", or lower server.connections_max (now {connections_max:,})"
        message += "; the server accepts fewer connections"
    return CheckFinding("Open files", "warn", message, fix)


def check_ram() -> list[CheckFinding]:
    left = available_memory_mb()
    if left is None:
        return []
    if left < RAM_WARN_MB:
        fix = "close other programs, or add memory"
        return [CheckFinding("RAM", "warn", f"only {left} MB are free", fix)]
    return [CheckFinding("RAM", "ok", f"{left / 1024:.1f} GB free")]


def available_memory_mb(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the memory that a new process can get, within the container's limit. None: unknown."""
    limits = [limit for limit in (_machine_memory_bytes(proc), _container_memory_bytes(cgroup)) if limit is not None]
    return min(limits) // (1024 * 1024) if limits else None


def _machine_memory_bytes(proc: Path) -> int | None:
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


def _container_memory_bytes(cgroup: Path) -> int | None:
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        return None if limit == "max" else max(int(limit) - int((cgroup / "memory.current").read_text()), 0)
    except (OSError, ValueError):
        return None


# --- system clock --------------------------------------------------------------------------------


def check_system_clock() -> CheckFinding:
    now = time.time()
    local_time = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    if not CLOCK_MIN_S < now < CLOCK_MAX_S:
        return CheckFinding("Clock", "FAIL", f"the system's time is wrong: {local_time}", CLOCK_ADVICE)
    if problem := _find_monotonic_problem():
        return CheckFinding("Clock", "FAIL", problem, "restart the machine; if it is virtual, check its clock source")
    return CheckFinding("Clock", "ok", local_time)


def _find_monotonic_problem() -> str:
    """Return what is wrong with the monotonic clock, which timeouts are measured with; "" if nothing is."""
    before = first = time.monotonic()
    for _ in range(1000):
        now = time.monotonic()
        if now < before:
            return "the machine's monotonic clock went backwards"
        before = now
    time.sleep(0.002)
    return "" if time.monotonic() > first else "the machine's monotonic clock does not advance"


# --- installed packages --------------------------------------------------------------------------


def check_extras(mainstay_version: str) -> Iterator[CheckFinding]:
    """Report which extras are installed completely, and packages that are too old. Nothing is imported."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        wanted = requires("mainstay") or [] if version("mainstay") == mainstay_version else []
    except PackageNotFoundError:  # not installed: run from its source folder
        return
    complete: list[str] = []
    missing: list[str] = []
    for extra, packages in sorted(group_by_extra(wanted).items()):
        versions = {package: _installed_version(package) for package, _ in packages}
        for package, least in packages:
            if (installed := versions[package]) and _parse_version(installed) < _parse_version(least):
                fix = f"pip install --upgrade '{package}>={least}'"
                yield CheckFinding("Extras", "warn", f"{package} is {installed}, but {least} or newer is needed", fix)
        if not extra or extra in _DEVELOPER_EXTRAS:
            continue
        if all(versions.values()):
            complete.append(f"{extra} ({', '.join(f'{name} {installed}' for name, installed in versions.items())})")
        else:
            missing.append(extra)
    message = f"{', '.join(complete) or 'none'}" + (f"; not installed: {', '.join(missing)}" if missing else "")
    yield CheckFinding("Extras", "ok", message)


def group_by_extra(requirements: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Group requirements by extra ("": required by all), each with its package and minimum version."""
    by_extra: dict[str, list[tuple[str, str]]] = {}
    for line in requirements:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None or match[1] == "mainstay":
            continue
        condition = match[3] or ""
        extra = _EXTRA.search(condition)
        if extra is None and condition:
            continue  # for some platforms only
        packages = by_extra.setdefault(extra[1] if extra else "", [])
        packages.append((match[1], match[2] or "0"))
    return by_extra


def _installed_version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _parse_version(version: str) -> tuple[int, ...]:
    parts = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in parts[0].split(".")] if parts else [0]
    while numbers and numbers[-1] == 0:
        numbers.pop()  # 2.0 is 2
    return tuple(numbers)
