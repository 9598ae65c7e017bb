"""What a configuration says that nobody answers to: rules about tools, or arguments of tools, that are not there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from mainstay.config.schema import NAMES, Config
from mainstay.core.outside import Scheduler
from mainstay.core.ports import Tool
from mainstay.trust.rules import Rule

_MADE_IN_CODE = ("upload", "search_channel")  # built in too, for those who hand them over
_KNOW_HOW = ("skill", "pattern")  # and these, for those who have some
_LEFT_ALONE = ("*", "?", ".", "__")  # more than one tool, or one of a plugin

Known = Mapping[str, frozenset[str] | None]  # tools by name, with their arguments where these are known


def warnings(config: Config, known: Known) -> list[str]:
    """One sentence for every rule that will never be about anything."""
    return [f"{key}: {said}" for key, rule, broad in _rules(config) if (said := _wrong(rule, known, broad))]


def looked_over(config: Config) -> list[str]:
    """The same of a configuration alone: of tools, those that are built in. Raises ConfigError where it names a folder
    that is none."""
    from mainstay.agent.workplace import check_folders  # they are looked at, which only those want who check

    check_folders(config)
    return warnings(config, known_tools(own_tools())) if next(_rules(config), None) is not None else []


def left_out(config: Config, home: Path) -> list[str]:
    """One sentence for every plugin, server or backend that cannot be used as things are in this home."""
    if not (config.plugins or config.mcpServers or config.backends):
        return []
    from mainstay.agent.names import clashes, installed
    from mainstay.config.check_external_tools import unusable  # only for those who have some

    return list(unusable(config, clashes(config, installed(home))))


def known_tools(tools: Iterable[Tool]) -> Known:
    """These, and whatever else there could be, of which only the names are known."""
    from mainstay.turn.catalogue import CALL, SEARCH  # which is there with many tools

    others = dict.fromkeys((*NAMES, *_MADE_IN_CODE, *_KNOW_HOW, SEARCH, CALL))
    return {**others, **{tool.name: _arguments(tool) for tool in tools}}


def own_tools() -> list[Tool]:
    """Every tool that is built in, to be looked at and not to be run."""
    from mainstay.agent.builtin_tools import Builtins  # everything that tools work with: only for those who check
    from mainstay.agent.workplace import Workplace
    from mainstay.config.schema import SandboxSettings
    from mainstay.core.labels import MemoryLabels
    from mainstay.memory.library import Library
    from mainstay.memory.tools import memory_tools

    config = Config(sandbox=SandboxSettings(kind="host"))
    scheduler = cast(Scheduler, object())
    made = Builtins(config, NAMES, Workplace(config, None, lambda session: ()), MemoryLabels(), scheduler)
    return [*made.tools, *memory_tools(cast(Library, None))]  # none of them is run


def _rules(config: Config) -> Iterator[tuple[str, Rule, bool]]:
    given = config.policy
    layers = [("policy", given), *((f"policy.people.{name}", one) for name, one in given.people.items())]
    for where, layer in layers:
        for kind in ("allow", "ask", "deny"):
            for text in getattr(layer, kind):
                yield f"{where}.{kind}", Rule.parse(text), kind != "allow"


def _wrong(rule: Rule, known: Known, broad: bool) -> str:
    if any(mark in rule.name for mark in _LEFT_ALONE):
        return ""
    name = next((one for one in known if one.lower() == rule.name.lower()), "") if broad else rule.name
    if name not in known:
        near = _nearest(rule.name, known)
        return f"there is no tool {rule.name!r}" + (f"; did you mean {near!r}?" if near else ", unless code brings it")
    arguments = known[name]
    for argument, _ in rule.arguments:
        if argument and arguments is not None and argument not in arguments:
            near = _nearest(argument, arguments)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(arguments)) or 'none'}"
            return f"{name} has no argument {argument!r}; {hint}"
    return ""


def _arguments(tool: Tool) -> frozenset[str] | None:
    """What a pattern may name: its parameters, and what it says itself that its calls are about."""
    names = frozenset(tool.schema.get("properties", {}))
    return names | {"path"} if hasattr(tool, "subjects") else names


def _nearest(name: str, names: Collection[str]) -> str:
    from difflib import get_close_matches  # only for those who made a mistake

    by_fold = {one.lower(): one for one in names}
    close = get_close_matches(name.lower()[:100], by_fold, n=1)
    return by_fold[close[0]] if close else ""
