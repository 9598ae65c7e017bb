"""What `doctor` looks at, one function a thing."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shutil
import stat
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import msgspec

from mainstay.app.commands.checks_owner import works_with_old
from mainstay.app.commands.homes import kept_in, reading
from mainstay.app.commands.talking import reaching
from mainstay.app.config import FILE, Config, load_config
from mainstay.app.discover import KEYS, Found, find_model, servers
from mainstay.core.errors import ConfigError, HomeUnusable, MainstayError
from mainstay.core.messages import Message, Text, Usage
from mainstay.core.ports import Context, Finished, Options, Provider
from mainstay.store.home import describe, is_owned, owner, prepare, workspace_path

PYTHON_MIN = (3, 11)
SQLITE_MIN = (3, 38)
DISK_FAIL_BYTES = 50 * 1024 * 1024
DISK_WARN_BYTES = 1024 * 1024 * 1024
MODEL_S = 60.0
RELEASED = 1_780_000_000  # a clock before the release, or long after it, is wrong
LATE = 4_100_000_000


class Finding(msgspec.Struct, frozen=True):
    check: str
    verdict: Literal["ok", "warn", "FAIL"]
    says: str
    fix: str = ""


def python() -> Finding:
    version = platform.python_version()
    if sys.version_info < PYTHON_MIN:
        return Finding("Python", "FAIL", version, "install Python 3.11 or newer")
    if sys.platform not in ("linux", "darwin"):
        return Finding("Python", "warn", f"{version} on {sys.platform}", "use Linux or macOS; on Windows, WSL")
    return Finding("Python", "ok", f"{version} on {sys.platform}")


def libraries() -> list[Finding]:
    missing = [one for one in ("rich", "prompt_toolkit") if importlib.util.find_spec(one) is None]
    if missing:
        says = f"{' and '.join(missing)} not installed: the chat is plain"
        return [Finding("Chat", "warn", says, "pip install 'mainstay[chat]'"), _memory()]
    return [Finding("Chat", "ok", "rich and prompt_toolkit are installed"), _memory()]


def _memory() -> Finding:
    missing = [one for one in ("sqlite_vec", "wordllama") if importlib.util.find_spec(one) is None]
    if missing:
        says = f"search is by words only: {' and '.join(missing)} not installed"
        return Finding("Memory", "warn", says, "pip install 'mainstay[memory]'")
    return Finding("Memory", "ok", "search by words and by meaning, with the model inside the wheel")


def sqlite() -> Finding:
    import apsw  # the one that the store uses, not Python's own

    version = apsw.sqlite_lib_version()
    database = apsw.Connection(":memory:")
    try:
        database.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        database.execute("""SELECT json_extract('{"a": 1}', '$.a')""").fetchall()
    except apsw.Error as error:
        return Finding("SQLite", "FAIL", f"{version}: {error}", "reinstall apsw: pip install --force-reinstall apsw")
    finally:
        database.close()
    if tuple(map(int, version.split(".")[:2])) < SQLITE_MIN:
        return Finding("SQLite", "FAIL", f"{version} is too old", "pip install --upgrade apsw")
    return Finding("SQLite", "ok", f"{version} with FTS5 and JSON")


_ON_HOST = "commands run on this machine itself, with its network; every command is asked about first"


def sandbox(config: Config | None) -> Finding:
    """The one that is in force by the configuration, or by the defaults where that cannot be read."""
    given = (config or Config()).sandbox
    if given.kind == "host":
        return Finding("Sandbox", "ok", f"host: {_ON_HOST}")
    if given.kind == "docker":
        return _docker(given.container)
    from mainstay.sandbox.choose import trouble  # it tries one, which takes a moment

    if (why := trouble()) is None:
        network = "the network, which is granted" if given.network else "no network"
        return Finding("Sandbox", "ok", f"bubblewrap works: commands see only their folders, and {network}")
    fix = "install bubblewrap, or allow user namespaces"
    if given.kind == "bubblewrap":
        return Finding("Sandbox", "FAIL", f"no command can run: {why}", f"{fix}, or set sandbox.kind to auto")
    return Finding("Sandbox", "warn", f"{why}; {_ON_HOST}", f"{fix}; until then it is as with sandbox.kind: host")


def _docker(container: str) -> Finding:
    if not container:
        fix = "mainstay config set sandbox.container NAME"
        return Finding("Sandbox", "FAIL", "docker: no container is named, so no command can run", fix)
    from mainstay.sandbox.docker import DockerSandbox  # docker itself is asked
    from mainstay.sandbox.limits import SandboxUnusable

    says = f"docker: commands run in the container {container}"
    try:
        confined = DockerSandbox(container).confined
    except SandboxUnusable as error:
        return Finding("Sandbox", "FAIL", f"docker: {error}", "start it, or set sandbox.kind to auto")
    return Finding(
        "Sandbox",
        "ok",
        f"{says}, {'without' if confined else 'with its'} network"
        + ("" if confined else "; every command is asked about first"),
    )


# --- the home ------------------------------------------------------------------------------------


def home_private(home: Path, *, fix: bool) -> Finding:
    if not home.exists():
        if not fix:
            return Finding("Home", "ok", f"{home} will be made when it is needed")
        prepare(home)
    try:
        mode = home.stat().st_mode
        shared = bool(mode & 0o077)
        if shared and stat.S_ISDIR(mode) and not fix:
            return Finding("Home", "warn", f"other users can look into {home}", f"doctor --fix, or: chmod 700 {home}")
        prepare(home)
    except (OSError, HomeUnusable) as error:
        return Finding("Home", "FAIL", str(error), "choose another with --home or MAINSTAY_HOME")
    return Finding("Home", "ok", f"{home} is writable and private" + (" (mended)" if shared else ""))


_ADVICE = "; stop it, or choose another --home"  # which nobody needs who only looks


def home_free(home: Path) -> list[Finding]:
    """Whether somebody uses it, and if so, whether with the configuration that is there now."""
    data = kept_in(home)
    if not is_owned(data):
        return [Finding("Lock", "ok", "no other process uses the home")]
    used = Finding("Lock", "ok", f"in use by {describe(owner(data)).removesuffix(_ADVICE)}")
    if not (said := works_with_old(home, data)):
        return [used]
    fix = "stop that process and start it again; if it is `mainstay serve`, SIGHUP will do"
    return [used, Finding("Lock", "warn", said, fix)]


def disk(home: Path) -> Finding:
    place = next(one for one in (home, *home.parents) if one.exists())
    free = shutil.disk_usage(place).free
    says = f"{free / 1e9:.1f} GB free"
    if free < DISK_FAIL_BYTES:
        return Finding("Disk", "FAIL", says, f"free some space on the disk of {place}")
    return Finding("Disk", "warn" if free < DISK_WARN_BYTES else "ok", says)


def database(home: Path) -> Finding:
    """The whole file is looked at, so this takes a moment on a large one."""
    from mainstay.store.sqlite.database import connect, migrations, named

    path = workspace_path(kept_in(home))
    if not path.exists():
        return Finding("Database", "ok", "none yet")
    how = "restore a backup, or choose another home"
    try:
        with named(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                said = db.execute("PRAGMA quick_check(1)").fetchall()[0][0]
                version = db.pragma("user_version")
            finally:
                db.close()
    except MainstayError as error:
        return Finding("Database", "FAIL", str(error), how)
    if said != "ok":
        return Finding("Database", "FAIL", f"{path} is damaged: {said}", how)
    if version > len(migrations()):
        return Finding("Database", "FAIL", f"{path} was written by a newer release", "use that release")
    return Finding("Database", "ok", f"{path.stat().st_size / 1e6:.1f} MB, sound")


async def clock(home: Path) -> Finding:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    if not RELEASED < now < LATE:
        return Finding("Clock", "FAIL", f"it says {shown}", "set the system's date and time")
    try:
        async with reading(home) as store:
            newest = next(iter(await store.sessions(limit=1)), None)
    except MainstayError as error:
        return Finding("Store", "FAIL", str(error), "restore a backup, or choose another home")
    if newest is not None and newest.updated / 1000 > now + 60:
        return Finding("Clock", "warn", f"it says {shown}, but a session was written later than that", "set the clock")
    return Finding("Clock", "ok", shown)


# --- configuration and model ---------------------------------------------------------------------


def configuration(home: Path) -> tuple[Config | None, Finding]:
    try:
        loaded = load_config(home, env=os.environ)
    except ConfigError as error:
        return None, Finding("Configuration", "FAIL", str(error), f"edit {home / FILE}")
    if not loaded.path.exists():
        return loaded.config, Finding("Configuration", "ok", f"no {loaded.path}; the defaults hold")
    return loaded.config, Finding("Configuration", "ok", f"{loaded.path} is valid")


def rules(config: Config | None, home: Path) -> list[Finding]:
    """Rules that are about nothing, and folders that are none."""
    from mainstay.app.config_warn import looked_over  # and the tools that rules may name

    try:
        said = looked_over(config) if config is not None else []
    except ConfigError as error:
        return [Finding("Folders", "FAIL", str(error), f"make it, or edit {home / FILE}")]
    return [Finding("Rules", "warn", one, f"edit {home / FILE}") for one in said]


async def model(config: Config | None) -> Finding:
    """Asks it something tiny: only an answer shows that address, key and name are right."""
    if config is None:
        return Finding("Model", "warn", "not tried, because the configuration cannot be read")
    found = find_model(config, os.environ)
    if found is None:
        return Finding("Model", "warn", f"none was found: {_looked_for()}", _HOW_TO)
    started = time.monotonic()
    try:
        async with asyncio.timeout(MODEL_S):
            usage = await _try(_provider(config, found))
    except TimeoutError:
        return Finding("Model", "FAIL", f"{found.spec} did not answer within {MODEL_S:.0f} s", _check_address(found))
    except MainstayError as error:
        return Finding("Model", "FAIL", f"{found.spec}: {error}", _check_address(found))
    ms = (time.monotonic() - started) * 1000
    says = f"{found.spec} answered in {ms:.0f} ms ({usage.prompt + usage.completion} tokens); {found.how}"
    return Finding("Model", "ok", says)


_HOW_TO = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama, or: mainstay config set model <provider>/<model>"


def _looked_for() -> str:
    keys = ", ".join(variable for variable, _ in KEYS)
    places = ", ".join(f"{one.name} at {one.base_url}" for one in servers(os.environ))
    return f"none is configured, none of {keys} is set, and there is no {places}"


def _check_address(found: Found) -> str:
    return f"it was chosen because {found.how}; check its name, key and address with `mainstay config show`"


def _provider(config: Config, found: Found) -> Provider:
    """This model only, and asked once."""
    from mainstay.app.models import Models  # the HTTP client is loaded only by those who use it

    limits = msgspec.structs.replace(config.limits, retries_max=0)
    return Models(found.spec, None, None, msgspec.structs.replace(reaching(config, found), limits=limits)).choose("")


async def _try(provider: Provider) -> Usage:
    question = Message(1, "user", (Text("Say ok."),))
    try:
        stream = provider.stream(Context("", [question]), Options(output_tokens=16))
        async with aclosing(stream) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if isinstance(piece, Finished):
                    return piece.usage
    finally:
        await provider.close()
    return Usage()
