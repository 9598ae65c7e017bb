"""Warnings about a configuration: policy rules that match no tool or argument, external tools that are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from mainstay.config.schema import BUILTIN_TOOLS, Config
from mainstay.core.errors import InputRefused
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import ScheduledPrompt, SessionFolders
from mainstay.core.tools import parameter_names
from mainstay.trust.rules import ToolRule

_CHANNEL_TOOLS = ("upload", "search_channel")  # built in, offered only where a gateway has connected channels
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
    from mainstay.turn.tool_catalogue import CALL_TOOL, SEARCH_TOOL  # tools that are offered in place of a long list

    others = dict.fromkeys((*BUILTIN_TOOLS, *_CHANNEL_TOOLS, *_SKILL_TOOLS, SEARCH_TOOL, CALL_TOOL))
    return {**others, **{tool.name: _argument_names(tool) for tool in tools}}


def build_inspection_tools() -> list[Tool]:
    """Return every built-in tool, for inspection only: they cannot be run."""
    from mainstay.agent.builtin_tools import BuiltInToolDependencies, BuiltInTools, build_sandbox  # only for checks
    from mainstay.config.schema import SandboxSettings
    from mainstay.memory.tools import build_memory_tools
    from mainstay.store.memory.file_labels import InMemoryFileLabels
    from mainstay.tools.base import SessionFileAccess

    dependencies = BuiltInToolDependencies(
        file_access=SessionFileAccess(lambda session: SessionFolders(cwd="/", writable=()), InMemoryFileLabels()),
        sandbox=build_sandbox(Config(sandbox=SandboxSettings(kind="host"))),
        scheduler=_NullScheduler(),
    )
    return [*BuiltInTools(BUILTIN_TOOLS, dependencies).tools, *build_memory_tools(None)]


class _NullScheduler:
    """A Scheduler of tools that are not run."""

    def check_time(self, when: str, timezone: str) -> None:
        raise InputRefused("nothing can be scheduled here")

    async def add(self, prompt: ScheduledPrompt) -> str:
        raise InputRefused("nothing can be scheduled here")

    async def list(self, session: str) -> list[ScheduledPrompt]:
        return []

    async def remove(self, session: str, id: str) -> bool:
        return False


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
