"""Warnings about a configuration: rules that match no tool or argument, unknown providers, unusable external tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from mainstay.config.schema import Config, ModelEntry
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS
from mainstay.core.components import find_similar_component, has_component, suggest_component
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import SessionFolders
from mainstay.core.tools import parameter_names
from mainstay.trust.rules import ToolRule

_SKILL_TOOLS = ("skill", "pattern")  # offered only where there are skills or patterns
_UNCHECKED_MARKS = ("*", "?", ".", "__")  # in a rule: it names several tools, or one of a plugin; not checked

KnownTools = Mapping[str, frozenset[str] | None]  # argument names by tool name; None: not known


def find_rule_warnings(config: Config, known: KnownTools) -> list[str]:
    """Return one sentence for every policy rule that can match no call of the known tools."""
    return [
        f"{key}: {problem}"
        for key, rule, broad in _iter_rules(config)
        if (problem := _find_problem(rule, known, broad))
    ]


def check_without_home(config: Config) -> list[str]:
    """Return the warnings about a configuration by itself, with only the built-in tools known. Raises ConfigError if a
    configured folder does not exist."""
    from mainstay.agent.session_folders import check_configured_folders  # reads the disk: only for checks

    check_configured_folders(config)
    return (
        find_rule_warnings(config, describe_known_tools(build_inspection_tools()))
        if next(_iter_rules(config), None) is not None
        else []
    )


def find_unknown_providers(config: Config) -> list[str]:
    """Return one sentence for every provider that a model or `providers` names, that does not exist, and that has no
    base URL either: then it would be a server with OpenAI's API."""
    entries = {entry.model: entry for entry in config.models if isinstance(entry, ModelEntry)}
    specs = {"model": config.model, **{f"models.{n}": _model_name(entry) for n, entry in enumerate(config.models)}}
    specs |= {f"workspaces.{name}.model": workspace.model for name, workspace in config.workspaces.items()}
    specs["sessions.memory.compaction.summary_model"] = config.sessions.memory.compaction.summary_model
    named = {key: spec.partition("/")[0] for key, spec in specs.items() if spec}
    named |= {f"providers.{name}": name for name in config.providers}
    with_address = {name for name, settings in config.providers.items() if settings.base_url}
    with_address |= {spec.partition("/")[0] for spec, entry in entries.items() if entry.base_url}
    return [
        f"{key}: there is no provider {name!r}; {suggest_component('provider', name)}"
        for key, name in named.items()
        if name not in with_address and not has_component("provider", name)
    ]


def find_misspelled_providers(config: Config) -> list[str]:
    """Return one sentence for every server in `providers` whose name is nearly that of a provider."""
    return [
        f"providers.{name}: there is no provider {name!r}, so requests to it use OpenAI's API; did you mean {near!r}?"
        for name, settings in config.providers.items()
        if settings.base_url and (near := find_similar_component("provider", name))
    ]


def _model_name(entry: str | ModelEntry) -> str:
    return entry if isinstance(entry, str) else entry.model


def find_unusable_tools(config: Config, home: Path) -> list[str]:
    """Return one sentence for every configured plugin, MCP server or backend that cannot be used in this home."""
    if not (config.plugins or config.mcpServers or config.backends):
        return []
    from mainstay.agent.tool_name_clashes import find_prefix_clashes, list_installed_plugins

    # only for configurations with external tools
    from mainstay.config.check_plugins_mcp_backends import find_unusable_entries

    return list(find_unusable_entries(config, find_prefix_clashes(config, list_installed_plugins(home))))


def describe_known_tools(tools: Iterable[Tool]) -> KnownTools:
    """Return these tools with their arguments, and the names of all others that Mainstay may offer."""
    from mainstay.turn.tool_search import CALL_TOOL, SEARCH_TOOL  # tools that are offered in place of a long list

    others = dict.fromkeys((*BUILT_IN_TOOLS, *_SKILL_TOOLS, SEARCH_TOOL, CALL_TOOL))
    return {**others, **{tool.name: _argument_names(tool) for tool in tools}}


def build_inspection_tools() -> list[Tool]:
    """Return every built-in tool, for inspection only: they cannot be run."""
    from mainstay.agent.builtin_tool_factory import BuiltInTools, build_sandbox  # only for checks
    from mainstay.config.schema import SandboxSettings
    from mainstay.memory.tools import build_memory_tools
    from mainstay.store.memory.file_labels import InMemoryFileLabels
    from mainstay.tools.base import SessionFileAccess
    from mainstay.tools.dependencies import ToolDependencies

    dependencies = ToolDependencies(
        file_access=SessionFileAccess(lambda session: SessionFolders(cwd="/", writable=()), InMemoryFileLabels()),
        sandbox=build_sandbox(Config(sandbox=SandboxSettings(kind="host"))),
        can_schedule=True,
    )
    return [*BuiltInTools(tuple(BUILT_IN_TOOLS), dependencies).tools, *build_memory_tools(None)]


def _iter_rules(config: Config) -> Iterator[tuple[str, ToolRule, bool]]:
    """Yield each rule with its key; True: upper and lower case are alike in its tool name."""
    policy = config.policy
    layers = [("policy", policy), *((f"policy.people.{name}", rules) for name, rules in policy.people.items())]
    for section, layer in layers:
        for kind in ("allow", "ask", "deny"):
            for text in getattr(layer, kind):
                yield f"{section}.{kind}", ToolRule.parse(text), kind != "allow"


def _find_problem(rule: ToolRule, known: KnownTools, ignore_case: bool) -> str:
    if any(mark in rule.name for mark in _UNCHECKED_MARKS):
        return ""
    name = next((tool for tool in known if tool.lower() == rule.name.lower()), "") if ignore_case else rule.name
    if name not in known:
        near = _find_similar_name(rule.name, known)
        hint = f"; did you mean {near!r}?" if near else ", unless code adds one of this name"
        return f"there is no tool {rule.name!r}{hint}"
    arguments = known[name]
    for argument, _ in rule.arguments:
        if argument and arguments is not None and argument not in arguments:
            near = _find_similar_name(argument, arguments)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(arguments)) or 'none'}"
            return f"{name} has no argument {argument!r}; {hint}"
    return ""


def _argument_names(tool: Tool) -> frozenset[str] | None:
    """Return the argument names that a rule may use: the tool's parameters, and `path` if it names the paths it
    touches itself."""
    names = frozenset(parameter_names(tool.schema))
    return names | {"path"} if hasattr(tool, "subjects") else names


def _find_similar_name(name: str, names: Collection[str]) -> str:
    from difflib import get_close_matches  # only needed for a mistake

    by_lower = {known.lower(): known for known in names}
    close = get_close_matches(name.lower()[:100], by_lower, n=1)
    return by_lower[close[0]] if close else ""
