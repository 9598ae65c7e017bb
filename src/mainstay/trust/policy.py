"""May this call happen: what the tool, the workspace and the person allow, and where data may go.

The decision is the strictest of all. Rules say who may use a tool, and how; flow says where data may go once content
from outside is in a conversation. Neither lifts the other.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Reach, origin_of_tool
from mainstay.core.ports import Tool, ToolContext
from mainstay.trust.calls import Call, runs_commands
from mainstay.trust.commands import escaped
from mainstay.trust.flow import (
    DESTINATION,
    REMOVES,
    UNKNOWN,
    Confinement,
    named,
    opened,
    reach_of,
    script_reach,
)
from mainstay.trust.globs import url_pattern_is_sound
from mainstay.trust.guards.lines import one_line
from mainstay.trust.narrow import Narrowing, outside
from mainstay.trust.rules import Decision, Layer, PolicyRules, Rule, Share, allowing, first_concerned, suggest, unsure
from mainstay.trust.wishes import asks_to_remove

__all__ = ["Circumstances", "Confinement", "Narrowing", "Policy", "PolicyRules", "Verdict"]

READING = frozenset(("fs.read", "memory.read"))
CACHE_MAX = 4096
_SHOWN = 3
_SHOWN_CHARS = 200
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """Whose call it is, and what is in their conversation. `spoken` gives what the person wrote."""

    session: str = ""
    person: str = ""
    tainted: bool = False  # content from outside is in the conversation
    secret: bool = False  # so is something private
    spoken: Callable[[], Sequence[str]] = tuple
    cwd: str = ""
    alone: bool = False  # a sub-agent: there is nobody to be asked
    made: Callable[[str], bool] = lambda path: False  # this session made that file (absolute, dots and all)
    narrowing: tuple[Narrowing, ...] = ()  # what the skills of this turn use, where they say so


class Verdict(msgspec.Struct, frozen=True):
    """`why` is a sentence for a person. `always` is the rule that would let calls like this one pass from now on."""

    decision: Decision
    why: str = ""
    rule: str = ""
    always: str = ""
    guarded: bool = False  # run it so that what was there before is not removed
    removable: tuple[str, ...] = ()  # but these may be, in the words of the command


ALLOWED = Verdict("allow")
GUARDED = Verdict("allow", guarded=True)


class _Standing(msgspec.Struct, frozen=True):
    """What is true of every call of one tool by one person."""

    tool: Tool  # held, so that nothing else can have its id
    shares: tuple[Share, ...]
    grants: tuple[Rule, ...]
    refused: Verdict | None
    foreign: bool  # from a plugin or the like: nothing without a rule
    executes: bool
    free: bool  # nothing to look at in an ordinary conversation


class Policy:
    """`people` have rules of their own, which narrow those of the workspace. `grants` are what somebody allowed for
    good: rules that allow, or `destination:…`."""

    def __init__(
        self,
        workspace: PolicyRules,
        *,
        people: Mapping[str, PolicyRules] | None = None,
        grants: Sequence[str] = (),
        confinement: Confinement,
    ) -> None:
        self.confinement = confinement
        self._workspace = Layer(workspace)
        self._people = {name: Layer(rules) for name, rules in (people or {}).items()}
        for layer in (self._workspace, *self._people.values()):
            for one in layer.rules.destinations:
                _checked_destination(one)
        self._guests = Layer(PolicyRules(read_only=True))
        self.is_guest: Callable[[str], bool] = lambda person: False  # somebody who may only have things read
        self._standings: dict[tuple[int, str, tuple[str, ...], bool], _Standing] = {}
        self.regrant(grants)

    def regrant(self, grants: Sequence[str]) -> None:
        """These instead of those before. Raises ConfigError, and changes nothing, if one is no rule."""
        rules = tuple(Rule.parse(one) for one in grants if not one.startswith(DESTINATION))
        opened_up = tuple(
            _checked_destination(one.removeprefix(DESTINATION)) for one in grants if one.startswith(DESTINATION)
        )
        self._granted, self._grants, self._opened = tuple(grants), rules, opened_up
        self._standings.clear()

    def grant(self, rule: str) -> None:
        """One more."""
        if rule not in self._granted:
            self.regrant((*self._granted, rule))

    def names(self, tool: Tool) -> bool:
        """A rule is about it. What comes from elsewhere and no rule names is not even offered."""
        share = self._workspace.about(tool, tool.capabilities)
        granted = any(rule.covers(tool.name, tool.capabilities, broad=False) for rule in self._grants)
        return bool(share.allow or share.ask or granted)

    def may_name(self, prefix: str, capability: str) -> bool:
        """A rule could be about a tool whose name begins like this, as far as can be told without knowing it."""
        rules = (*self._workspace.allow, *self._workspace.ask, *self._grants)
        return any(rule.may_cover(prefix, capability) for rule in rules)

    def judge(self, tool: Tool, arguments: Any, context: ToolContext, circumstances: Circumstances) -> Verdict:
        needs = getattr(tool, "needs", None)
        capabilities = tool.capabilities if needs is None else tuple(needs(arguments))
        person = circumstances.person
        key = (id(tool), person, capabilities, bool(person) and self.is_guest(person))
        standing = self._standings.get(key) or self._stand(key, tool)
        careful = circumstances.tainted or circumstances.secret
        narrowing = circumstances.narrowing
        if standing.free and not careful and not narrowing:
            return ALLOWED
        if standing.refused is not None:
            return standing.refused
        call = Call(tool, arguments, circumstances.cwd)
        verdict = self._by_rules(standing, call)
        if careful and verdict.decision != "deny":
            verdict = _strictest(verdict, self._by_flow(standing, call, context, circumstances))
        if narrowing and verdict.decision == "allow" and (why := outside(narrowing, call)):
            verdict = Verdict("ask", why, guarded=verdict.guarded, removable=verdict.removable)
        if verdict.decision == "ask" and circumstances.alone:
            return Verdict("deny", f"{verdict.why} A sub-agent has nobody to ask for it.", verdict.rule)
        return verdict

    # --- rules ---------------------------------------------------------------------------------

    def _stand(self, key: tuple[int, str, tuple[str, ...], bool], tool: Tool) -> _Standing:
        _, person, capabilities, guest = key
        layers = [self._workspace, *([self._guests] if guest else [])]
        if (own := self._people.get(person)) is not None:
            layers.append(own)
        shares = tuple(layer.about(tool, capabilities) for layer in layers)
        grants = tuple(rule for rule in self._grants if rule.covers(tool.name, capabilities, broad=False))
        refused = next((said for layer in layers if (said := _refusal(layer, tool, capabilities)) is not None), None)
        foreign = bool(origin_of_tool(tool))
        executes = runs_commands(tool)
        ruled = any(share.deny or share.ask or share.allow for share in shares)
        free = not (ruled or foreign or refused) and not (executes and not self.confinement.confined)
        standing = _Standing(tool, shares, grants, refused, foreign, executes, free)
        if len(self._standings) >= CACHE_MAX:
            self._standings.clear()
        self._standings[key] = standing
        return standing

    def _by_rules(self, standing: _Standing, call: Call) -> Verdict:
        for share in standing.shares:
            if (rule := first_concerned(share.deny, call)) is not None:
                return Verdict("deny", f"A rule forbids it: {rule.text}.", rule.text)
        granted = allowing(standing.grants, call)
        asks = [said for share in standing.shares if (said := _asked(share, call)) is not None]
        if granted is not None:
            return Verdict("allow", rule=granted.text)
        if asks:
            return msgspec.structs.replace(asks[0], always=suggest(call))
        allowed = [allowing(share.allow, call) for share in standing.shares]
        if standing.foreign and allowed[0] is None:
            return Verdict("deny", f"{call.tool.name} comes from outside, and no rule names it.")
        for share, rule in zip(standing.shares, allowed, strict=True):
            if rule is None and share.allow:
                patterns = ", ".join(one.text for one in share.allow[:_SHOWN])
                return Verdict(
                    "ask", f"The rules allow {call.tool.name} only like this: {patterns}.", always=suggest(call)
                )
        found = next((rule for rule in allowed if rule is not None), None)
        if found is None and self._on_the_host(standing, call):
            why = "Commands run on this machine itself, without a sandbox, and no rule allows this one."
            return Verdict("ask", why, always=suggest(call))
        return Verdict("allow", rule=found.text if found is not None else "")

    def _on_the_host(self, standing: _Standing, call: Call) -> bool:
        if not standing.executes or self.confinement.confined:
            return False
        return call.script is not None or "command" not in call.tool.schema.get("properties", {})

    # --- flow ----------------------------------------------------------------------------------

    def _by_flow(self, standing: _Standing, call: Call, context: ToolContext, circumstances: Circumstances) -> Verdict:
        reach = reach_of(call.tool, call.arguments, context)
        if call.script is not None:
            reach = _joined(reach, script_reach(call.script, self.confinement, _folder(call), circumstances.cwd))
        guarded = self._guarded(call, circumstances)
        if not reach.sink or not (circumstances.tainted or reach.outward):
            return GUARDED if guarded else ALLOWED
        allowed = self._destinations(circumstances.person)
        spoken = circumstances.spoken()
        gone = _removed(call, reach)
        wished = [text for text in spoken if asks_to_remove(text)] if REMOVES in reach.what else spoken
        left = [
            one
            for one in reach.destinations
            if not named(one, wished if one in gone else spoken, circumstances.cwd)
            and not opened(one, allowed, circumstances.cwd)
            and not (one in gone and circumstances.made(posixpath.join(circumstances.cwd, one)))
        ]
        if reach.destinations and not left:
            return Verdict("allow", guarded=True, removable=gone) if guarded else ALLOWED
        always = f"{DESTINATION}{escaped(left[0])}" if len(left) == 1 and opened(left[0], (escaped(left[0]),)) else ""
        return Verdict("ask", _why(reach, left, circumstances), always=always, guarded=guarded)

    def _destinations(self, person: str) -> tuple[str, ...]:
        own = self._people.get(person)
        return (*self._workspace.rules.destinations, *(own.rules.destinations if own else ()), *self._opened)

    def _guarded(self, call: Call, circumstances: Circumstances) -> bool:
        """Under taint removals are held back, but for those that were looked at: by name, so that whoever puts a link
        in a folder's place meanwhile has gained nothing."""
        return call.script is not None and circumstances.tainted and self.confinement.guards


def _refusal(layer: Layer, tool: Tool, capabilities: tuple[str, ...]) -> Verdict | None:
    if withheld := layer.withheld(capabilities):
        return Verdict("deny", f"{tool.name} needs {withheld}, which is not granted here.")
    if layer.rules.read_only and tool.effect != "pure" and not (capabilities and READING.issuperset(capabilities)):
        return Verdict("deny", f"Only reading is allowed here, and {tool.name} does more.")
    return None


def _asked(share: Share, call: Call) -> Verdict | None:
    if (rule := first_concerned(share.ask, call)) is not None:
        return Verdict("ask", f"A rule says to ask: {rule.text}.", rule.text)
    if unsure((*share.deny, *share.ask), call):
        assert call.script is not None
        return Verdict("ask", f"Whether it does what a rule forbids cannot be told. {call.script.opaque[0]}")
    return None


def _strictest(rules: Verdict, flow: Verdict) -> Verdict:
    """If both ask, no one rule would let it pass from now on."""
    if _STRICTNESS[flow.decision] > _STRICTNESS[rules.decision]:
        return flow
    guarded, removable = flow.guarded, flow.removable
    if flow.decision == "ask":
        return msgspec.structs.replace(rules, why=f"{flow.why} {rules.why}", always="", guarded=guarded)
    return msgspec.structs.replace(rules, guarded=guarded, removable=removable) if guarded else rules


def _joined(one: Reach, other: Reach) -> Reach:
    if not one.sink:
        return other
    if not other.sink or not one.destinations:
        return one
    return Reach(
        sink=True,
        outward=one.outward or other.outward,
        destinations=(*one.destinations, *other.destinations),
        what=one.what or other.what,
    )


def _removed(call: Call, reach: Reach) -> tuple[str, ...]:
    """Those of its destinations that a command would remove; the others it talks to."""
    if call.script is None:
        return ()
    talks_to = set(call.script.reaches) - set(call.script.removes)
    return tuple(one for one in reach.destinations if one not in talks_to and one != UNKNOWN)


def _folder(call: Call) -> str:
    folder = call.values.get("cwd")
    return folder if isinstance(folder, str) else ""


def _why(reach: Reach, left: Sequence[str], circumstances: Circumstances) -> str:
    held = "Content from outside" if circumstances.tainted else "Something private"
    does = f" It {reach.what}." if reach.what else ""
    if not left:
        return f"{held} is in this conversation, and this would carry it on or act on it.{does}"
    if all(one == UNKNOWN for one in left):
        return f"{held} is in this conversation, and where this goes cannot be known before it runs.{does}"
    known = [one_line(one[:_SHOWN_CHARS]) for one in left if one != UNKNOWN]
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    rest = ", and elsewhere, which cannot be known before it runs" if UNKNOWN in left else ""
    shown = f"{', '.join(known[:_SHOWN])}{more}{rest}"
    if not reach.outward and reach.what == REMOVES:
        return f"{held} is in this conversation, and nobody asked for this to be removed or changed: {shown}."
    return f"{held} is in this conversation, and nobody named where this goes: {shown}.{does}"


def _checked_destination(pattern: str) -> str:
    if not pattern.strip() or ("://" in pattern and not url_pattern_is_sound(pattern)):
        raise ConfigError(f"The destination {pattern!r} cannot be read; write an address like https://example.com/**.")
    return pattern
