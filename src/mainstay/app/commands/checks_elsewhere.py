"""What `doctor` looks at of tools from elsewhere. Nothing of them is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mainstay.app.commands.checks import Finding
from mainstay.app.schema import FILE, Config, data_home
from mainstay.app.trust import has_elsewhere, make_policy
from mainstay.core.errors import MainstayError


def elsewhere(config: Config | None, home: Path) -> list[Finding]:
    if config is None or not has_elsewhere(config, data_home(home, config)):
        return []
    return list(_found(config, home))


def _found(config: Config, home: Path) -> Iterator[Finding]:
    from mainstay.app.backends import make_backends  # and all that they need, for those who have some
    from mainstay.app.elsewhere import grounds_of, open_mcp, open_plugins
    from mainstay.app.grants import Grants
    from mainstay.core.plugin_state import MemoryPluginState
    from mainstay.guards.guard import GuardRules, Guards
    from mainstay.plugins.mcp.server import slug_of
    from mainstay.store.home import workspace_path

    data = data_home(home, config)
    workspace = workspace_path(data, config.workspace).parent
    grounds = grounds_of(config, data, workspace, Guards(GuardRules(), b"", ()))
    policy = make_policy(config, Grants(workspace if workspace.is_dir() else None), None)
    edit = f"edit {home / FILE}"
    troubles: list[str] = []
    if not grounds.sandbox.confined and config.sandbox.kind != "host":
        yield Finding("Elsewhere", "warn", "there is no sandbox here: plugins and local MCP servers do not start")
    plugins = open_plugins(config, grounds, MemoryPluginState(), troubles.append)
    mcp = None
    try:
        mcp = open_mcp(config, grounds) if config.mcpServers else None
    except MainstayError as error:
        troubles.append(str(error))
    backends = make_backends(config, grounds, mcp, troubles.append)
    for said in troubles:
        yield Finding("Elsewhere", "FAIL", said, "" if "`mainstay" in said else edit)
    for host in plugins.hosts if plugins is not None else ():
        name, version = host.plugin.name, host.plugin.manifest.version
        named = policy.may_name(f"{name}__", f"plugin.{name}")
        yield _about("Plugin", name, f"version {version}", name, named)
    for name in mcp.names if mcp is not None else ():
        slug, count = slug_of(name), len(mcp.listed(name)) if mcp is not None else 0
        says = f"{count} tools approved" if count else "not asked yet what it offers"
        yield _about("MCP server", name, says, slug, policy.may_name(f"{slug}__", f"mcp.{slug}"))
    for backend in backends:
        named = any(policy.names(tool) for tool in backend.tools)
        yield _about("Backend", backend.name, config.backends[backend.name].kind, backend.name, named)


def _about(kind: str, name: str, says: str, prefix: str, named: bool) -> Finding:
    if named:
        return Finding(kind, "ok", f"{name}: {says}")
    fix = f'add "{prefix}__*" to policy.allow, or to policy.ask'
    return Finding(kind, "warn", f"{name}: {says}; no rule names its tools, so they are not offered", fix)
