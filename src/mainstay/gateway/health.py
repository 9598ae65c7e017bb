"""Health checks of the gateway: the running server, channels, the database of people, workspaces.

No channel is connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mainstay import __version__
from mainstay.config.check_gateway import find_missing_setting
from mainstay.config.schema import FILE, Config
from mainstay.core.channel_settings import ChannelSettings, channel_kind, find_channel_component
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.outcome_text import format_count
from mainstay.gateway.channel_factory import build_channel
from mainstay.gateway.home_client import execute_on_home, load_server_status
from mainstay.gateway.workspace_folders import list_workspace_names
from mainstay.operations.people import ListKeys
from mainstay.operations.runtime_protocols import ServerStatus
from mainstay.store.home import read_lock_owner

# --- the server ----------------------------------------------------------------------------------


async def check_running_server(data_folder: Path) -> tuple[ServerStatus | None, list[CheckFinding]]:
    """Return the status of the server that owns the home, if there is one, and findings about it."""
    try:
        server = await load_server_status(data_folder)
    except MainstayError as error:
        return None, [CheckFinding("Server", "FAIL", str(error), "look at its log, and restart it")]
    if server is None:
        return None, []
    at = f" at {' and '.join(server.at)}" if server.at else ""
    pid = read_lock_owner(data_folder).get("pid")
    message = f"process {pid} serves {format_count(len(server.workspaces), 'workspace')}{at}"
    findings = [CheckFinding("Server", "ok", message)]
    if server.version != __version__:
        message = f"the server runs version {server.version}, but {__version__} is installed"
        findings.append(CheckFinding("Server", "warn", message, "restart it"))
    findings += [
        CheckFinding("Server", "warn" if name == "server" else "FAIL", f"not ready: {name}: {why}")
        for name, why in server.unready.items()  # "server": it is starting or stopping
    ]
    findings += [CheckFinding("Server", "warn", f"{name}: {why}") for name, why in server.failed_tasks.items()]
    return server, findings


async def check_api_keys(config: Config, data_folder: Path) -> list[CheckFinding]:
    """Check that there is an API key, for a server that listens on an address which other machines can reach."""
    host = config.server.host
    try:
        keys = (await execute_on_home(config, data_folder, ListKeys())).keys
    except MainstayError as error:
        return [CheckFinding("Keys", "warn", f"the API keys cannot be read now: {error}")]
    usable = sum(key.usable for key in keys)
    if usable:
        return [CheckFinding("Keys", "ok", f"{format_count(usable, 'API key')} for clients of {host}")]
    message = f"there is no API key, and the server refuses to listen on {host} without one"
    return [CheckFinding("Keys", "FAIL", message, "mainstay user add NAME; mainstay user key NAME")]


# --- channels ------------------------------------------------------------------------------------


def check_channels(config: Config, server: ServerStatus | None, context: CheckContext) -> Iterator[CheckFinding]:
    """Check the enabled channels, as the running server reports them if there is one: its environment may differ from
    ours. Without a server, channels of other distributions are built, and the checks of the manifests run."""
    for name, settings in config.channels.items():
        if not settings.enabled:
            continue
        kind = channel_kind(name, settings)
        about = f"{name}: {kind} in {settings.workspace or config.workspace}"
        state = server.channels.get(name) if server is not None else None
        if state == "connected":
            yield CheckFinding("Channel", "ok", f"{about}, connected")
        elif state is not None:
            yield CheckFinding("Channel", "warn", f"{about}: {state}", "see the server's log")
        elif problem := find_channel_problem(name, settings):
            install = find_channel_component(kind).install_command()
            fix = install if problem.endswith(install) else f"set it, or edit channels.{name} in {FILE}"
            yield CheckFinding("Channel", "FAIL", f"{name}: {problem}", fix)
        elif server is not None:
            yield CheckFinding("Channel", "warn", f"{about}: the server has not loaded it yet", "send it SIGHUP")
        else:
            own = list(_check_unconnected(name, settings, context))
            if all(finding.verdict != "FAIL" for finding in own):
                yield CheckFinding("Channel", "ok", f"{about}; test it with `mainstay channel test {name}`")
            yield from own


def find_channel_problem(name: str, settings: ChannelSettings) -> str:
    """Return what is missing to connect a channel, as the rest of a sentence about it; "" if nothing is."""
    if problem := find_missing_setting(name, settings):
        return problem.removeprefix(f"the channel {name!r} ")
    component = find_channel_component(channel_kind(name, settings))
    if missing := component.missing_libraries():
        return f"needs {' and '.join(missing)}: {component.install_command()}"
    return ""


def _check_unconnected(name: str, settings: ChannelSettings, context: CheckContext) -> Iterator[CheckFinding]:
    """Build a channel of another distribution, without starting it, and run the check of the channel's manifest."""
    component = find_channel_component(channel_kind(name, settings))
    try:
        if component.distribution:
            build_channel(name, settings, context.data, lambda channel, user: False)
        check = component.load_check()
        if check is not None:
            yield from check(name, settings, context)
    except ConfigError as error:
        upgrade = (
            f"upgrade {component.distribution}, or edit channels.{name} in {FILE}" if component.distribution else ""
        )
        yield CheckFinding("Channel", "FAIL", str(error), error.fix or upgrade or component.install)


# --- people and workspaces -----------------------------------------------------------------------


def has_people(path: Path) -> bool:
    """Whether the gateway's database has people, keys or pairings. The file exists anyway, for its projections."""
    from mainstay.store.sqlite.connection import connect, map_sqlite_errors

    if not path.exists():
        return False
    try:
        with map_sqlite_errors(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                return any(
                    db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in ("people", "keys", "pairings")
                )
            finally:
                db.close()
    except MainstayError:  # the database's own check reports this
        return True


def check_people_database(path: Path, *, fix: bool) -> Iterator[CheckFinding]:
    from mainstay.store.sqlite.connection import connect, map_sqlite_errors

    if not path.exists():
        return
    how = "restore a backup; without it no person is known and no API key works"
    try:
        with map_sqlite_errors(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                verdict = db.execute("PRAGMA quick_check(1)").fetchall()[0][0]
            finally:
                db.close()
    except MainstayError as error:
        yield CheckFinding("People", "FAIL", str(error), how)
        return
    if verdict != "ok":
        yield CheckFinding("People", "FAIL", f"{path} is damaged: {verdict}", how)
        return
    shared = bool(path.stat().st_mode & 0o077)
    if shared and not fix:
        yield CheckFinding("People", "warn", f"other users can read {path}", f"doctor --fix, or: chmod 600 {path}")
        return
    if shared:
        path.chmod(0o600)
    message = f"{path} is intact and private" + (" (fixed)" if shared else "")
    yield CheckFinding("People", "ok", message, is_fixed=shared)


def check_workspaces(config: Config, data: Path) -> Iterator[CheckFinding]:
    """Find workspaces that are configured but do not exist: messages for them are refused."""
    named: dict[str, str] = {}
    for name, channel in config.channels.items():
        for workspace in filter(None, (channel.workspace, *channel.rooms.values())):
            named.setdefault(workspace, f"channels.{name}")
    for name, person in config.people.items():
        for workspace in person.workspaces:
            named.setdefault(workspace, f"people.{name}")
    for name, hook in config.triggers.webhooks.items():
        if hook.workspace:
            named.setdefault(hook.workspace, f"triggers.webhooks.{name}")
    there = list_workspace_names(data, config)
    for workspace, key in named.items():
        if workspace not in there:
            message = f"{key} names the workspace {workspace}, which does not exist"
            yield CheckFinding("Workspace", "warn", message, f"mainstay workspace create {workspace}")
