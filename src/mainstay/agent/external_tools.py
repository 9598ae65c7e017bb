"""External tools of an agent: plugins, MCP servers and backends, from the configuration and the home.

What cannot be used is left out and reported (`problems`): a plugin whose files have changed does not stop the agent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.tool_name_clashes import find_prefix_clashes, list_installed_plugins
from mainstay.backends.base import Backend, BackendContextContributor, explain_error
from mainstay.config.schema import Config, find_secrets
from mainstay.config.schema_external_tools import ExternalToolEntry, McpEntry, PluginEntry, find_unusable_reason
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.ports import ContextContributor, Tool
from mainstay.core.resource_errors import create_temporary_folder
from mainstay.core.tool_ports import PluginState, ProcessPermissions, Sandbox, ToolSource, tool_origin
from mainstay.core.tree_removal import remove_tree
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.folder_grants import refuse_redirected, resolve_trusted_path, resolve_unpinned_grants
from mainstay.plugins.host import PluginHost
from mainstay.plugins.installer import verify_plugin
from mainstay.plugins.lock_file import InstalledPlugin, read_lock
from mainstay.plugins.manifest import PluginManifest, fill_env, read_manifest
from mainstay.plugins.mcp.server_config import McpServerConfig, check_server, server_slug
from mainstay.plugins.mcp.tool_names import build_tool_name
from mainstay.plugins.mcp.tool_source import McpToolSource
from mainstay.plugins.plugin import Plugin
from mainstay.plugins.tool import PluginToolSource
from mainstay.sandbox.limits import SandboxLimits
from mainstay.sandbox.selection import create_sandbox
from mainstay.trust.policy import Policy

PLUGINS_FOLDER, SECRETS_FOLDER = "plugins", "secrets"  # folders of a home
BACKEND_START_TIMEOUT_S = 20.0  # how long opening an agent waits for backends to read their schemas
SECRET_REFERENCE = "${secret:"  # in a manifest's `env`: a file in the home's folder of secrets
PROCESSES_MAX = 256  # processes of plugins and MCP servers at a time

log = logging.getLogger("mainstay")


class SecretRedactor(Protocol):
    """Redacts secrets in texts, and takes new secrets. `Guardrails` are one."""

    def redact_text(self, text: str) -> str: ...
    def add_secret(self, value: str) -> None: ...


class ExternalToolEnvironment(msgspec.Struct, frozen=True):
    """Folders, sandboxes and redaction that external tools share."""

    home: Path
    workspace: Path  # its folder
    sandbox: Sandbox
    host_sandbox: Sandbox  # unconfined, for MCP servers with `confined: false`
    redactor: SecretRedactor
    writable_folders: tuple[str, ...] = ()  # folders that external programs, or the agent itself, may write

    async def close(self) -> None:
        await self.sandbox.close()
        await self.host_sandbox.close()


class ExternalToolSources(msgspec.Struct, frozen=True, kw_only=True):
    """Where external tools come from, and which of them are wanted."""

    plugins: PluginToolSource | None = None
    mcp: McpToolSource | None = None
    backends: tuple[Backend, ...] = ()
    allowed_names: Mapping[str, frozenset[str]] = {}  # by origin: allowlist of tool names; no entry: all
    excluded_names: Mapping[str, frozenset[str]] = {}  # by origin: denylist of tool names


class ExternalTools:
    """The open external tools of an agent. `problems` says why some are left out. `temporary_folder` is removed when
    they are closed."""

    def __init__(
        self,
        environment: ExternalToolEnvironment,
        sources: ExternalToolSources,
        problems: list[str],
        temporary_folder: str = "",
    ) -> None:
        self.environment = environment
        self.plugins = sources.plugins
        self.mcp = sources.mcp
        self.backends = sources.backends
        self.problems = problems
        self._sources = sources
        self._temporary_folder = temporary_folder

    @property
    def tools(self) -> tuple[Tool, ...]:
        sources: list[ToolSource] = [*self.backends]
        sources += [source for source in (self.plugins, self.mcp) if source is not None]
        return tuple(tool for source in sources for tool in source.tools if self._is_wanted(tool))

    def _is_wanted(self, tool: Tool) -> bool:
        origin, sources = tool_origin(tool), self._sources
        is_allowed = tool.name in sources.allowed_names.get(origin, (tool.name,))
        return is_allowed and tool.name not in sources.excluded_names.get(origin, ())

    def select_tools(self, policy: Policy, taken: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools that a policy rule names. A tool whose name is in `taken`, or was seen before, is left out
        with a warning."""
        names = {tool.name.lower() for tool in taken}
        offered: list[Tool] = []
        for tool in self.tools:
            if tool.name.lower() in names:
                self.report_problem(f"{tool.name} is left out: there is a tool of that name already")
            elif policy.has_rule_for(tool):
                names.add(tool.name.lower())
                offered.append(tool)
        return tuple(offered)

    def list_denied_names(self, policy: Policy) -> list[str]:
        """Return the names of the tools that no policy rule names."""
        return [tool.name for tool in self.tools if not policy.has_rule_for(tool)]

    def build_contributors(self, policy: Policy) -> tuple[ContextContributor, ...]:
        reached = [backend for backend in self.backends if any(policy.has_rule_for(tool) for tool in backend.tools)]
        return (BackendContextContributor(reached),) if reached else ()

    def report_problem(self, problem: str) -> None:
        _report_problem(self.problems, problem)

    async def close(self) -> None:
        try:
            closing = [source.close() for source in (self.plugins, self.mcp) if source is not None]
            await asyncio.gather(*closing, *(backend.close() for backend in self.backends))
        finally:
            await self.environment.close()
            if self._temporary_folder:
                await run_in_thread(lambda: remove_tree(self._temporary_folder))  # plugins had their data there


async def open_external_tools(
    config: Config, folders: AgentFolders | None, state: PluginState, policy: Policy, redactor: SecretRedactor
) -> ExternalTools:
    """Open the configured external tools. Only backends, and MCP servers whose tools are not known yet, are started,
    and only if a policy rule could allow their tools."""
    temporary = "" if folders is not None else create_temporary_folder()
    home, workspace = (folders.home, folders.workspace) if folders is not None else (Path(temporary), Path(temporary))
    environment = build_environment(config, home, workspace, redactor)
    problems: list[str] = []
    external = ExternalTools(environment, ExternalToolSources(), problems, temporary)
    try:
        sources = _build_sources(config, environment, state, partial(_report_problem, problems))
        external = ExternalTools(environment, sources, problems, temporary)
        await asyncio.gather(_discover_mcp_tools(external, policy), _start_backends(external, policy))
    except BaseException:
        await external.close()
        raise
    return external


def _report_problem(problems: list[str], problem: str) -> None:
    problems.append(problem)
    log.warning("%s", problem)


def _build_sources(
    config: Config, environment: ExternalToolEnvironment, state: PluginState, report_problem: Callable[[str], None]
) -> ExternalToolSources:
    """Build plugins, MCP servers and backends; none is started."""
    servers = config.mcpServers
    plugins = open_plugins(config, environment, state, report_problem)
    mcp = open_mcp_servers(config, environment, report_problem) if servers else None
    backends: tuple[Backend, ...] = ()
    if config.backends:
        from mainstay.agent.backend_factory import build_backends  # imports their libraries

        backends = build_backends(config, environment, mcp, report_problem)
    return ExternalToolSources(
        plugins=plugins,
        mcp=mcp,
        backends=backends,
        allowed_names=_mcp_tool_names({name: server.includeTools for name, server in servers.items()}),
        excluded_names=_mcp_tool_names({name: server.excludeTools for name, server in servers.items()}),
    )


def build_environment(config: Config, home: Path, workspace: Path, redactor: SecretRedactor) -> ExternalToolEnvironment:
    """Return the environment of external programs. They always run in a sandbox, whichever one commands use, unless
    the owner has set `sandbox.kind: host`."""
    rules = SandboxLimits(background=PROCESSES_MAX)
    host = create_sandbox("host", rules)
    sandbox = host if config.sandbox.kind == "host" else create_sandbox("auto", rules)
    return ExternalToolEnvironment(
        home, workspace, sandbox, host, redactor, _list_writable_folders(config, home, workspace)
    )


def _list_writable_folders(config: Config, home: Path, workspace: Path) -> tuple[str, ...]:
    """Return the folders that the agent or an external program may write: a symbolic link there is not the owner's and
    must not widen what a program may reach."""
    folders = [os.path.abspath(os.path.expanduser(root)) for root in config.tools.roots]
    folders += [path for entry in config.mcpServers.values() for path in entry.write]
    with suppress(ConfigError):  # reported when plugins are opened
        folders += [path for plugin in read_lock(home / PLUGINS_FOLDER).values() for path in plugin.needs.write]
    for entry in config.plugins.values():
        with suppress(ConfigError):
            folders += read_manifest(home / os.path.expanduser(entry.path)).needs.write if entry.path else ()
    return (str(workspace), *(str(home / os.path.expanduser(path)) for path in folders))


# --- plugins -------------------------------------------------------------------------------------


def open_plugins(
    config: Config, environment: ExternalToolEnvironment, state: PluginState, report_problem: Callable[[str], None]
) -> PluginToolSource | None:
    """Open the installed plugins and those that the configuration runs from a folder; `report_problem` gets
    a sentence for each that is left out. No process is started."""
    folder = environment.home / PLUGINS_FOLDER
    try:
        installed_plugins = read_lock(folder)
    except ConfigError as error:
        report_problem(str(error))
        installed_plugins = {}
    hosts: list[PluginHost] = []
    for name in sorted({*installed_plugins, *config.plugins}):
        entry = config.plugins.get(name, PluginEntry())
        if not entry.enabled:
            continue
        try:
            plugin = load_plugin(name, entry, installed_plugins.get(name), config, environment)
            hosts.append(PluginHost(plugin, environment.sandbox, state, redact=environment.redactor.redact_text))
        except MainstayError as error:
            report_problem(f"the plugin {name} is left out: {error}")
    return PluginToolSource(hosts) if hosts else None


def load_plugin(
    name: str,
    entry: PluginEntry,
    installed_plugin: InstalledPlugin | None,
    config: Config,
    environment: ExternalToolEnvironment,
) -> Plugin:
    """Build a configured or installed plugin. Raises ConfigError if it is missing, has changed since it was installed,
    or needs a variable that is not set."""
    refuse_unusable(entry)
    if entry.path:
        folder = environment.home / os.path.expanduser(entry.path)
        manifest = read_manifest(folder)
        if manifest.name != name:
            raise ConfigError(f"the manifest in {folder} has the name {manifest.name}; use that name under `plugins`")
        return build_plugin(manifest, folder, None, config, environment)
    folder = environment.home / PLUGINS_FOLDER / name
    manifest = verify_plugin(name, environment.home / PLUGINS_FOLDER)
    assert installed_plugin is not None, "a plugin that verifies is in the lock file"
    return build_plugin(manifest, folder, installed_plugin.needs, config, environment)


def build_plugin(
    manifest: PluginManifest,
    folder: Path,
    permissions: ProcessPermissions | None,
    config: Config,
    environment: ExternalToolEnvironment,
) -> Plugin:
    """Build a plugin from its manifest. `permissions` are those that were granted when it was installed; None: the
    current ones of the manifest."""
    if permissions is None:
        permissions = resolve_unpinned_grants(manifest.needs, environment.writable_folders)
    refuse_redirected((*permissions.read, *permissions.write), f"the plugin {manifest.name}")
    entry = config.plugins.get(manifest.name, PluginEntry())
    refuse_unusable(entry)
    env = fill_env(manifest, entry.env, os.environ, environment.home / SECRETS_FOLDER)
    stored = [value for name, value in env.items() if SECRET_REFERENCE in manifest.env[name]]
    for secret in {*stored, *find_secrets(env)}:
        environment.redactor.add_secret(secret)
    return Plugin(
        manifest=manifest,
        folder=os.path.realpath(folder),
        data_folder=os.path.realpath(environment.workspace / PLUGINS_FOLDER / manifest.name),
        env=env,
        permissions=permissions,
        workspace=config.workspace,
        timeout_s=entry.timeout_s,
        trusted=entry.trusted,
        allow_unconfined=config.sandbox.kind == "host",
        protected=(os.path.realpath(environment.home),),
    )


# --- MCP -----------------------------------------------------------------------------------------


def open_mcp_servers(
    config: Config, environment: ExternalToolEnvironment, report_problem: Callable[[str], None] | None = None
) -> McpToolSource:
    """Build the configured MCP servers; none is started. A server that cannot be used is left out and reported to
    `report_problem`; without that, raises ConfigError."""
    servers = []
    clashing = find_prefix_clashes(config, list_installed_plugins(environment.home))
    for name, entry in config.mcpServers.items():
        if entry.disabled:
            continue
        try:
            refuse_unusable(entry, clashing.get(("mcpServers", name), ""))
            server = build_server_config(name, entry, environment)
            check_server(server)
            servers.append(server)
        except ConfigError as error:
            if report_problem is None:
                raise ConfigError(f"the MCP server {name} cannot be used: {error}") from None
            report_problem(f"the MCP server {name} is left out: {error}")
    return McpToolSource(
        servers,
        environment.workspace,
        environment.sandbox,
        unconfined_sandbox=environment.host_sandbox,
        redact=environment.redactor.redact_text,
    )


def refuse_unusable(entry: ExternalToolEntry, other_reason: str = "") -> None:
    """Raise ConfigError if an entry cannot be used now; `other_reason` is one that the caller found."""
    if reason := find_unusable_reason(entry) or other_reason:
        raise ConfigError(reason)


def _mcp_tool_names(names_by_server: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Map the tool names that entries use, which are the servers' own, to ours; by origin."""
    return {
        f"mcp:{name}": frozenset(build_tool_name(server_slug(name), tool) for tool in tools)
        for name, tools in names_by_server.items()
        if tools
    }


def build_server_config(name: str, entry: McpEntry, environment: ExternalToolEnvironment) -> McpServerConfig:
    return McpServerConfig(
        name=name,
        command=entry.command,
        args=entry.args,
        env=entry.env,
        cwd=_resolve_path(entry.cwd, environment),
        url=entry.url,
        headers=entry.headers,
        timeout_s=entry.timeout_s,
        permissions=ProcessPermissions(
            network=entry.network,
            read=tuple(_resolve_path(path, environment) for path in entry.read),
            write=tuple(_resolve_path(path, environment) for path in entry.write),
        ),
        confined=entry.confined and environment.sandbox is not environment.host_sandbox,
        trusted=entry.trusted,
        protected=(os.path.realpath(environment.home),),
    )


def _resolve_path(path: str, environment: ExternalToolEnvironment) -> str:
    """Resolve a configured path, which is relative to the home."""
    return (
        resolve_trusted_path(str(environment.home / os.path.expanduser(path)), environment.writable_folders)
        if path
        else ""
    )


# --- discovery -----------------------------------------------------------------------------------


async def _discover_mcp_tools(external: ExternalTools, policy: Policy) -> None:
    """Ask MCP servers for their tools, if they are not known yet and a policy rule could name one."""
    if (mcp := external.mcp) is None:
        return
    servers = [
        name for name in mcp.names if policy.may_have_rule_for(f"{server_slug(name)}__", f"mcp.{server_slug(name)}")
    ]
    await mcp.discover(servers)
    external.problems.extend(mcp.problems.values())


async def _start_backends(external: ExternalTools, policy: Policy) -> None:
    """Start the backends whose tools a policy rule names; one that fails is reported."""

    async def start(backend: Backend) -> None:
        try:
            async with asyncio.timeout(BACKEND_START_TIMEOUT_S):
                await backend.start()
        except TimeoutError:
            external.report_problem(
                f"the backend {backend.name} did not describe its data within {BACKEND_START_TIMEOUT_S:g} s"
            )
        except MainstayError as error:
            reason = external.environment.redactor.redact_text(explain_error(backend, error))
            external.report_problem(f"the backend {backend.name} cannot be used yet: {reason}")
        except Exception as error:  # a backend of another distribution may raise anything
            log.exception("the backend %s failed in start", backend.name)
            reason = external.environment.redactor.redact_text(f"{type(error).__name__}: {error}")
            external.report_problem(f"the backend {backend.name} cannot be used: its code failed in start: {reason}")

    wanted = [backend for backend in external.backends if any(policy.has_rule_for(tool) for tool in backend.tools)]
    await asyncio.gather(*map(start, wanted))
