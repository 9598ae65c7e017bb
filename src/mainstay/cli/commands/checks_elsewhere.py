"""What `doctor` looks at of tools from elsewhere. Backends that a rule names are opened; no program is started."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mainstay.agent.trust import has_elsewhere, known_secrets, make_policy
from mainstay.backends.common import Backend
from mainstay.cli.chat.words import count
from mainstay.cli.commands.checks import Finding
from mainstay.config.schema import FILE, Config, data_home
from mainstay.core.outside import origin_of_tool
from mainstay.trust.policy import Policy

Hide = Callable[[str], str]

_REMEDY = re.compile(r"(.*'): (put it into .*)")  # a sentence that says itself what to do
_HOST = "sandbox.kind is host: plugins and MCP servers on this machine run as you, and can do whatever you can"


async def elsewhere(config: Config | None, home: Path) -> list[Finding]:
    if config is None or not has_elsewhere(config, data_home(home, config)):
        return []
    return await _found(config, home)


async def _found(config: Config, home: Path) -> list[Finding]:
    from mainstay.agent.backends import make_backends  # and all that they need, for those who have some
    from mainstay.agent.elsewhere import grounds_of, open_mcp, open_plugins
    from mainstay.agent.grants import Grants
    from mainstay.core.plugin_state import MemoryPluginState
    from mainstay.plugins.mcp.server import slug_of
    from mainstay.store.home import workspace_path
    from mainstay.trust.guards.guard import GuardRules, Guards

    data = data_home(home, config)
    workspace = workspace_path(data, config.workspace).parent
    guards = Guards(GuardRules(), b"", known_secrets(config, os.environ))
    grounds = grounds_of(config, data, workspace, guards)
    policy = make_policy(config, Grants(workspace if workspace.is_dir() else None), None)
    troubles: list[str] = []
    plugins = open_plugins(config, grounds, MemoryPluginState(), troubles.append)
    mcp = None
    try:
        mcp = open_mcp(config, grounds, troubles.append) if config.mcpServers else None
        backends = make_backends(config, grounds, mcp, troubles.append)
        found = [] if grounds.sandbox.confined else list(_unconfined(config, programs=plugins is not None))
        found += [_told(said, home) for said in troubles]
        for host in plugins.hosts if plugins is not None else ():
            name, version = host.plugin.name, host.plugin.manifest.version
            named = policy.may_name(f"{name}__", f"plugin.{name}")
            found.append(_about("Plugin", name, f"version {version}", name, named))
        for name in mcp.names if mcp is not None else ():
            slug = slug_of(name)
            tools = [tool for tool in mcp.tools if origin_of_tool(tool) == f"mcp:{name}"] if mcp is not None else []
            says = f"{count(len(tools), 'tool')} approved" if tools else "not asked yet what it offers"
            found.append(_about("MCP server", name, says, slug, policy.may_name(f"{slug}__", f"mcp.{slug}")))
        return found + await _opened(backends, config, policy, guards.hide, home)
    finally:
        if mcp is not None:
            await mcp.close()
        await grounds.close()


def _unconfined(config: Config, *, programs: bool) -> Iterator[Finding]:
    """`programs`: there are plugins."""
    if not programs and not any(one.command for one in config.mcpServers.values()):
        return
    if config.sandbox.kind == "host":
        yield Finding("Elsewhere", "warn", _HOST, "mainstay config set sandbox.kind auto")
    else:
        yield Finding("Elsewhere", "warn", "there is no sandbox here: plugins and local MCP servers do not start")


def _told(said: str, home: Path) -> Finding:
    """What is left out and why, once, and what to do about it."""
    said = re.sub(r"^(the (plugin [\w-]+) is left out: )\2: ", r"\1", said)
    if remedy := _REMEDY.fullmatch(said):
        return Finding("Elsewhere", "FAIL", remedy[1], remedy[2])
    if "environment variable" in said:
        return Finding("Elsewhere", "FAIL", said, f"set it, or give the value in {home / FILE}")
    return Finding("Elsewhere", "FAIL", said, "" if "`" in said else f"edit {home / FILE}")


async def _opened(backends: Sequence[Backend], config: Config, policy: Policy, hide: Hide, home: Path) -> list[Finding]:
    """Those that a rule names, side by side; the others only as they are configured."""
    if not backends:
        return []
    from mainstay.cli.commands.checks_backends import look_at  # and the libraries of all kinds

    named = [one for one in backends if any(policy.names(tool) for tool in one.tools)]
    looks = dict(zip(named, await asyncio.gather(*(look_at(one, hide) for one in named)), strict=True))
    found: list[Finding] = []
    for one in backends:
        kind, look = config.backends[one.name].kind, looks.get(one)
        if look is None:
            found.append(_about("Backend", one.name, kind, one.name, False))
        elif look.trouble:
            fix = f"mend it, or backends.{one.name} in {home / FILE}; then: mainstay backend test {one.name}"
            found.append(Finding("Backend", "FAIL", f"{one.name}: {kind}: {look.trouble}", fix))
        elif look.odd or look.has.startswith("0 "):
            fix = f"see backends.{one.name}.scope in {home / FILE}" if look.odd else ""
            found.append(Finding("Backend", "warn", f"{one.name}: {kind}, {look.state}", fix))
        else:
            found.append(Finding("Backend", "ok", f"{one.name}: {kind}, {look.has}"))
    return found


def _about(kind: str, name: str, says: str, prefix: str, named: bool) -> Finding:
    if named:
        return Finding(kind, "ok", f"{name}: {says}")
    fix = f'add "{prefix}__*" to policy.allow, or to policy.ask'
    return Finding(kind, "warn", f"{name}: {says}; no rule names its tools, so they are not offered", fix)
