"""Tools from elsewhere, as the configuration and the home have them: plugins, MCP servers, backends.

What is broken is left out and told (`troubles`): a plugin whose files have changed keeps nobody from talking.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from mainstay.agent.names import clashes, installed
from mainstay.agent.remembering import Place
from mainstay.backends.common import Backend, BackendNotes
from mainstay.config.schema import Config, secrets_in
from mainstay.config.schema_external_tools import Entry, McpEntry, PluginEntry, why_not
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.outside import Needs, PluginState, Sandbox, ToolSource, origin_of_tool
from mainstay.core.ports import Contributor, Tool
from mainstay.core.remove import remove_tree
from mainstay.core.workers import in_thread
from mainstay.plugins.grants import given_beside, refuse_moved, unlinked
from mainstay.plugins.host import PluginHost
from mainstay.plugins.lock import Installed, read_lock
from mainstay.plugins.manifest import Manifest, fill_env, read_manifest
from mainstay.plugins.mcp.names import tool_name
from mainstay.plugins.mcp.server import McpServer, check, slug_of
from mainstay.plugins.mcp.servers import McpServers
from mainstay.plugins.package import verify
from mainstay.plugins.plugin import Plugin
from mainstay.plugins.tool import Plugins
from mainstay.sandbox.choose import choose
from mainstay.sandbox.host import HostSandbox
from mainstay.sandbox.limits import SandboxRules
from mainstay.trust.policy import Policy

PLUGINS, SECRETS = "plugins", "secrets"  # folders of a home
START_S = 20.0  # for backends to find out what they have; a conversation does not wait longer for it
SECRET = "${secret:"
BACKGROUND = 256  # processes from elsewhere

log = logging.getLogger("mainstay")


class Veil(Protocol):
    """What hides secrets, and takes new ones: guards, or less."""

    def hide(self, text: str) -> str: ...
    def keep_secret(self, value: str) -> None: ...


class Grounds(msgspec.Struct, frozen=True):
    """Where things from elsewhere are kept, and where they run."""

    home: Path
    workspace: Path
    sandbox: Sandbox
    host: Sandbox  # for what its owner lets run unconfined
    veil: Veil
    changeable: tuple[str, ...] = ()  # folders that programs, or the agent itself, may change

    async def close(self) -> None:
        await self.sandbox.close()
        await self.host.close()


class Elsewhere:
    """All of it, opened; closed together."""

    def __init__(self, grounds: Grounds, temporary: str = "") -> None:
        self.grounds = grounds
        self.plugins: Plugins | None = None
        self.mcp: McpServers | None = None
        self.backends: tuple[Backend, ...] = ()
        self.troubles: list[str] = []
        self.only: dict[str, frozenset[str]] = {}  # by origin: no other tools of it than these
        self.without: dict[str, frozenset[str]] = {}  # and not these
        self._temporary = temporary

    @property
    def tools(self) -> tuple[Tool, ...]:
        sources: list[ToolSource] = [*self.backends]
        sources += [one for one in (self.plugins, self.mcp) if one is not None]
        return tuple(tool for one in sources for tool in one.tools if self._is_wanted(tool))

    def _is_wanted(self, tool: Tool) -> bool:
        origin = origin_of_tool(tool)
        return tool.name in self.only.get(origin, (tool.name,)) and tool.name not in self.without.get(origin, ())

    def offered(self, policy: Policy, taken: Sequence[Tool]) -> tuple[Tool, ...]:
        """What a rule names, and no name twice: whoever was here first has it."""
        names = {tool.name.lower() for tool in taken}
        found: list[Tool] = []
        for tool in self.tools:
            if tool.name.lower() in names:
                self.trouble(f"{tool.name} is left out: there is a tool of that name already")
            elif policy.names(tool):
                names.add(tool.name.lower())
                found.append(tool)
        return tuple(found)

    def contributors(self, policy: Policy) -> tuple[Contributor, ...]:
        reached = [one for one in self.backends if any(policy.names(tool) for tool in one.tools)]
        return (BackendNotes(reached),) if reached else ()

    def trouble(self, said: str) -> None:
        self.troubles.append(said)
        log.warning("%s", said)

    async def close(self) -> None:
        try:
            closing = [one.close() for one in (self.plugins, self.mcp) if one is not None]
            await asyncio.gather(*closing, *(one.close() for one in self.backends))
        finally:
            await self.grounds.close()
            if self._temporary:
                await in_thread(lambda: remove_tree(self._temporary))  # a plugin's home is in it


async def open_elsewhere(
    config: Config, place: Place | None, state: PluginState, policy: Policy, veil: Veil
) -> Elsewhere:
    """Nothing is started but what has to be asked what it offers, and only if a rule could let that be used."""
    temporary = "" if place is not None else tempfile.mkdtemp(prefix="mainstay-")
    home, workspace = (place.home, place.workspace) if place is not None else (Path(temporary), Path(temporary))
    opened = Elsewhere(grounds_of(config, home, workspace, veil), temporary)
    try:
        opened.plugins = open_plugins(config, opened.grounds, state, opened.trouble)
        if config.mcpServers:
            opened.mcp = open_mcp(config, opened.grounds, opened.trouble)
            opened.only = _tools_of({name: one.includeTools for name, one in config.mcpServers.items()})
            opened.without = _tools_of({name: one.excludeTools for name, one in config.mcpServers.items()})
        if config.backends:
            from mainstay.agent.backends import make_backends  # and their libraries, for those who have some

            opened.backends = make_backends(config, opened.grounds, opened.mcp, opened.trouble)
        await asyncio.gather(_discovered(opened, policy), _started(opened, policy))
    except BaseException:
        await opened.close()
        raise
    return opened


def grounds_of(config: Config, home: Path, workspace: Path, veil: Veil) -> Grounds:
    """Programs from elsewhere always run behind walls, whatever commands do, unless their owner has chosen the host."""
    rules = SandboxRules(background=BACKGROUND)
    host = HostSandbox(rules)
    held = host if config.sandbox.kind == "host" else choose("auto", rules)
    return Grounds(home, workspace, held, host, veil, _changeable(config, home, workspace))


def _changeable(config: Config, home: Path, workspace: Path) -> tuple[str, ...]:
    """Where a link may be somebody's who has no business laying one."""
    found = [os.path.abspath(os.path.expanduser(root)) for root in config.tools.roots]
    found += [path for entry in config.mcpServers.values() for path in entry.write]
    with suppress(ConfigError):  # told when plugins are opened
        found += [path for one in read_lock(home / PLUGINS).values() for path in one.needs.write]
    for entry in config.plugins.values():
        with suppress(ConfigError):
            found += read_manifest(home / os.path.expanduser(entry.path)).needs.write if entry.path else ()
    return (str(workspace), *(str(home / os.path.expanduser(path)) for path in found))


# --- plugins -------------------------------------------------------------------------------------


def open_plugins(
    config: Config, grounds: Grounds, state: PluginState, trouble: Callable[[str], None]
) -> Plugins | None:
    """Those that were added, and those that the configuration names a folder for."""
    folder = grounds.home / PLUGINS
    try:
        added = read_lock(folder)
    except ConfigError as error:
        trouble(str(error))
        added = {}
    hosts: list[PluginHost] = []
    for name in sorted({*added, *config.plugins}):
        entry = config.plugins.get(name, PluginEntry())
        if not entry.enabled:
            continue
        try:
            plugin = plugin_of(name, entry, added.get(name), config, grounds)
            hosts.append(PluginHost(plugin, grounds.sandbox, state, redact=grounds.veil.hide))
        except MainstayError as error:
            trouble(f"the plugin {name} is left out: {error}")
    return Plugins(hosts) if hosts else None


def plugin_of(name: str, entry: PluginEntry, added: Installed | None, config: Config, grounds: Grounds) -> Plugin:
    """Raises ConfigError: it is not there, has changed, or lacks something."""
    refuse_unready(entry)
    if entry.path:
        folder = grounds.home / os.path.expanduser(entry.path)
        manifest = read_manifest(folder)
        if manifest.name != name:
            raise ConfigError(f"the plugin in {folder} calls itself {manifest.name}")
        return made_plugin(manifest, folder, None, config, grounds)
    folder = grounds.home / PLUGINS / name
    manifest = verify(name, grounds.home / PLUGINS)
    assert added is not None, "what could be verified was added"
    return made_plugin(manifest, folder, added.needs, config, grounds)


def made_plugin(manifest: Manifest, folder: Path, needs: Needs | None, config: Config, grounds: Grounds) -> Plugin:
    """`needs` are those that were kept when it was added; without, the manifest's count as they are now."""
    if needs is None:
        needs = given_beside(manifest.needs, grounds.changeable)
    refuse_moved((*needs.read, *needs.write), f"the plugin {manifest.name}")
    entry = config.plugins.get(manifest.name, PluginEntry())
    refuse_unready(entry)
    env = fill_env(manifest, entry.env, os.environ, grounds.home / SECRETS)
    kept = [value for name, value in env.items() if SECRET in manifest.env[name]]
    for secret in {*kept, *secrets_in(env)}:
        grounds.veil.keep_secret(secret)
    return Plugin(
        manifest=manifest,
        folder=os.path.realpath(folder),
        data=os.path.realpath(grounds.workspace / PLUGINS / manifest.name),
        env=env,
        needs=needs,
        workspace=config.workspace,
        timeout_s=entry.timeout_s,
        trusted=entry.trusted,
        unconfined=config.sandbox.kind == "host",
        protected=(os.path.realpath(grounds.home),),
    )


# --- MCP -----------------------------------------------------------------------------------------


def open_mcp(config: Config, grounds: Grounds, trouble: Callable[[str], None] | None = None) -> McpServers:
    """Nothing is started. Raises ConfigError, unless there is somebody to tell about a server that is left out."""
    servers = []
    clashing = clashes(config, installed(grounds.home))
    for name, entry in config.mcpServers.items():
        if entry.disabled:
            continue
        try:
            refuse_unready(entry, clashing.get(("mcpServers", name), ""))
            server = server_of(name, entry, grounds)
            check(server)
            servers.append(server)
        except ConfigError as error:
            if trouble is None:
                raise ConfigError(f"the MCP server {name} cannot be used: {error}") from None
            trouble(f"the MCP server {name} is left out: {error}")
    return McpServers(servers, grounds.workspace, grounds.sandbox, host=grounds.host, redact=grounds.veil.hide)


def refuse_unready(entry: Entry, otherwise: str = "") -> None:
    """Raises ConfigError if it cannot be used as things are."""
    if why := why_not(entry) or otherwise:
        raise ConfigError(why)


def _tools_of(named: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """By origin, what the tools are called that servers' entries name as the servers do."""
    return {
        f"mcp:{name}": frozenset(tool_name(slug_of(name), one) for one in tools)
        for name, tools in named.items()
        if tools
    }


def server_of(name: str, entry: McpEntry, grounds: Grounds) -> McpServer:
    return McpServer(
        name=name,
        command=entry.command,
        args=entry.args,
        env=entry.env,
        cwd=_placed(entry.cwd, grounds),
        url=entry.url,
        headers=entry.headers,
        timeout_s=entry.timeout_s,
        needs=Needs(
            network=entry.network,
            read=tuple(_placed(one, grounds) for one in entry.read),
            write=tuple(_placed(one, grounds) for one in entry.write),
        ),
        confined=entry.confined and grounds.sandbox is not grounds.host,
        protected=(os.path.realpath(grounds.home),),
    )


def _placed(path: str, grounds: Grounds) -> str:
    """Relative to the home, as everything in the configuration is."""
    return unlinked(str(grounds.home / os.path.expanduser(path)), grounds.changeable) if path else ""


# --- finding out ---------------------------------------------------------------------------------


async def _discovered(opened: Elsewhere, policy: Policy) -> None:
    """Servers that were never asked before, if a rule could be about their tools."""
    if (mcp := opened.mcp) is None:
        return
    known = [name for name in mcp.names if policy.may_name(f"{slug_of(name)}__", f"mcp.{slug_of(name)}")]
    await mcp.discover(known)
    opened.troubles += mcp.troubles.values()


async def _started(opened: Elsewhere, policy: Policy) -> None:
    async def start(backend: Backend) -> None:
        try:
            async with asyncio.timeout(START_S):
                await backend.start()
        except TimeoutError:
            opened.trouble(f"the backend {backend.name} did not say what it has within {START_S:g} s")
        except MainstayError as error:
            from mainstay.agent.backends import why  # it is loaded, where there are backends

            said = opened.grounds.veil.hide(why(backend, error))
            opened.trouble(f"the backend {backend.name} cannot be used yet: {said}")

    await asyncio.gather(*(start(one) for one in opened.backends if any(policy.names(tool) for tool in one.tools)))
