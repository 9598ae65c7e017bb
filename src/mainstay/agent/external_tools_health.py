"""Health checks of external tools: plugins, MCP servers and backends.

Backends whose tools a rule names are opened; no program is started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mainstay.agent.tool_name_clashes import list_installed_plugins
from mainstay.agent.trust_setup import build_policy, has_external_tools, list_known_secrets
from mainstay.config.schema import FILE, Config, resolve_data_folder
from mainstay.core.health import CheckFinding
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import tool_origin
from mainstay.trust.tool_declaration import find_undeclared_tools

_REMEDY = re.compile(r"(.*'): (put it into .*)")  # a message that contains its own remedy
_HOST_WARNING = "sandbox.kind is host: plugins and local MCP servers run as you, with all your permissions"


async def check_external_tools(config: Config, home: Path) -> list[CheckFinding]:
    if not has_external_tools(config, resolve_data_folder(home, config)):
        return []
    return await _check_all(config, home)


async def _check_all(config: Config, home: Path) -> list[CheckFinding]:
    from mainstay.agent.allow_rule_store import AllowRuleStore
    from mainstay.agent.backend_factory import build_backends  # slow to import, and only needed if there are some
    from mainstay.agent.external_tools import build_environment, open_mcp_servers, open_plugins
    from mainstay.backends.health import check_backends
    from mainstay.guards.guardrails import GuardrailOptions, Guardrails
    from mainstay.plugins.mcp.server_config import server_slug
    from mainstay.store.home import workspace_folder
    from mainstay.store.memory.plugin_state import InMemoryPluginState

    data = resolve_data_folder(home, config)
    workspace = workspace_folder(data, config.workspace)
    guards = Guardrails(GuardrailOptions(), b"", list_known_secrets(config, os.environ))
    environment = build_environment(config, data, workspace, guards)
    policy = build_policy(config, AllowRuleStore(workspace if workspace.is_dir() else None), None)
    problems: list[str] = []
    plugins = open_plugins(config, environment, InMemoryPluginState(), problems.append)
    mcp = None
    try:
        mcp = open_mcp_servers(config, environment, problems.append) if config.mcpServers else None
        backends = build_backends(config, environment, mcp, problems.append)
        findings = (
            [] if environment.sandbox.is_confined else list(_warn_unsandboxed(config, has_plugins=plugins is not None))
        )
        findings += [_build_problem_finding(message, home) for message in problems]
        for host in plugins.hosts if plugins is not None else ():
            name, version = host.plugin.name, host.plugin.manifest.version
            named = policy.may_have_rule_for(f"{name}__", f"plugin.{name}")
            findings.append(_build_tools_finding("Plugin", name, f"version {version}", name, named))
        for name in mcp.names if mcp is not None else ():
            slug = server_slug(name)
            tools = [tool for tool in mcp.tools if tool_origin(tool) == f"mcp:{name}"] if mcp is not None else []
            state = f"{format_count(len(tools), 'tool')} approved" if tools else "its tools have not been listed yet"
            findings.append(
                _build_tools_finding(
                    "MCP server", name, state, slug, policy.may_have_rule_for(f"{slug}__", f"mcp.{slug}")
                )
            )
        findings += await check_backends(backends, policy, guards.redact_text, home / FILE)
        sources = [source for source in (plugins, mcp, *backends) if source is not None]
        return findings + _list_undeclared([tool for source in sources for tool in source.tools], config)
    finally:
        if mcp is not None:
            await mcp.close()
        await environment.close()


async def find_denied_plugin_tools(config: Config, home: Path) -> list[str]:
    """Return one sentence for every plugin with tools that no rule names. No program is started."""
    if not (config.plugins or list_installed_plugins(resolve_data_folder(home, config))):
        return []
    from mainstay.agent.allow_rule_store import AllowRuleStore
    from mainstay.agent.external_tools import build_environment, open_plugins
    from mainstay.guards.guardrails import GuardrailOptions, Guardrails
    from mainstay.store.home import workspace_folder
    from mainstay.store.memory.plugin_state import InMemoryPluginState

    data = resolve_data_folder(home, config)
    workspace = workspace_folder(data, config.workspace)
    guards = Guardrails(GuardrailOptions(), b"", list_known_secrets(config, os.environ))
    environment = build_environment(config, data, workspace, guards)
    policy = build_policy(config, AllowRuleStore(workspace if workspace.is_dir() else None), None)
    try:
        plugins = open_plugins(config, environment, InMemoryPluginState(), lambda problem: None)  # reported by others
        denied: dict[str, list[str]] = {}
        for tool in plugins.tools if plugins is not None else ():
            if not policy.has_rule_for(tool):
                denied.setdefault(tool_origin(tool).partition(":")[2], []).append(tool.name)
    finally:
        await environment.close()
    return [
        f"the plugin {name}: no rule names {', '.join(tools)}, so the model cannot use "
        f'{"it" if len(tools) == 1 else "them"}; add "{name}__*" to policy.allow, or to policy.ask'
        for name, tools in denied.items()
    ]


def _warn_unsandboxed(config: Config, *, has_plugins: bool) -> Iterator[CheckFinding]:
    """Warn that plugins and local MCP servers run without a sandbox. `has_plugins`: there are plugins."""
    if not has_plugins and not any(server.command for server in config.mcpServers.values()):
        return
    if config.sandbox.kind == "host":
        yield CheckFinding("Elsewhere", "warn", _HOST_WARNING, "mainstay config set sandbox.kind auto")
    else:
        yield CheckFinding("Elsewhere", "warn", "no sandbox is available: plugins and local MCP servers do not start")


def _list_undeclared(tools: list[Tool], config: Config) -> list[CheckFinding]:
    """List the tools that declare neither `untrusted` nor `sink`, whether a rule names them or not."""
    names = find_undeclared_tools(tools, config.tools.declare)
    if not names or config.trust == "open":
        return []
    message = (
        f"{format_count(len(names), 'tool')} declared neither untrusted nor sink, so results are taken for content "
        f"from outside, and calls that may send data out ask once there is such content: {', '.join(names)}"
    )
    return [CheckFinding("Tools", "warn", message, f"declare it: tools.declare.{names[0]}: {{sink: false}}")]


def _build_problem_finding(message: str, home: Path) -> CheckFinding:
    """Report something that is not loaded, why, and what to do about it."""
    message = re.sub(r"^(the (plugin [\w-]+) is left out: )\2: ", r"\1", message)
    if remedy := _REMEDY.fullmatch(message):
        return CheckFinding("Elsewhere", "FAIL", remedy[1], remedy[2])
    if "environment variable" in message:
        return CheckFinding("Elsewhere", "FAIL", message, f"set it, or give the value in {home / FILE}")
    return CheckFinding("Elsewhere", "FAIL", message, "" if "`" in message else f"edit {home / FILE}")


def _build_tools_finding(kind: str, name: str, message: str, prefix: str, is_allowed: bool) -> CheckFinding:
    if is_allowed:
        return CheckFinding(kind, "ok", f"{name}: {message}")
    fix = f'add "{prefix}__*" to policy.allow, or to policy.ask'
    return CheckFinding(kind, "warn", f"{name}: {message}; no rule names its tools, so the model cannot use them", fix)
