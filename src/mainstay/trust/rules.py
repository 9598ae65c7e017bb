"""Rules: which calls may happen, as text that a person can write and read.

    bash   web__*   bash(git *)   write(docs/**)   fetch(https://docs.python.org/**)   message(to=ops:*)   cap:net.*

An allow is read narrowly, `ask` and `deny` broadly. Deny comes first, then ask, then allow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.ports import Tool
from mainstay.trust.calls import PATHS, URLS, Call, runs_commands
from mainstay.trust.commands import allows, concerns, escaped, pattern_words, plain_redirects
from mainstay.trust.globs import (
    PATTERN_MAX,
    fold,
    glob,
    led_to,
    path_matches,
    split_url,
    url_matches,
    url_pattern_is_sound,
)
from mainstay.trust.shell.analysis import Script

RULES_MAX = 1000
_NAME = re.compile(r"[A-Za-z0-9_.*?:-]+")
_CAPABILITY = re.compile(r"[A-Za-z0-9_.*-]+")
_NAMED = re.compile(r"\s*([a-z_][a-z0-9_]*)=", re.ASCII)
_NEXT = re.compile(r"\s*(?:[a-z_][a-z0-9_]*=|cap:)", re.ASCII)
_OPERATORS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "|&"))
_SUGGESTED_MAX = 300

ANY = ("*", "**")


class Rule(msgspec.Struct, frozen=True):
    """`arguments` are patterns by argument name; an empty name stands for what the call is about."""

    text: str
    name: str
    capabilities: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Raises ConfigError with what is wrong with it."""
        rule = text.strip()
        if not rule:
            raise ConfigError("A rule is empty.")
        if len(rule) > PATTERN_MAX:
            raise ConfigError(f"The rule {rule[:40]!r}… is longer than {PATTERN_MAX} characters.")
        if rule.startswith("cap:"):
            return cls(rule, "*", (_capability(rule, rule[4:]),))
        name, parenthesis, inner = rule.partition("(")
        if not _NAME.fullmatch(name):
            raise ConfigError(f"The rule {rule!r} does not begin with the name of a tool, like bash or web__*.")
        if not parenthesis:
            return cls(rule, name)
        if not _balanced(rule):
            raise ConfigError(f"The rule {rule!r} has parentheses that do not match; write \\( for one that is meant.")
        capabilities, arguments = [], []
        for part in _parts(inner[:-1]):
            if not part.strip():
                raise ConfigError(f"The rule {rule!r} has an empty pattern; without one, write {name}.")
            if part.strip().startswith("cap:"):
                capabilities.append(_capability(rule, part.strip()[4:]))
            elif found := _NAMED.match(part):
                arguments.append((found[1], _checked(rule, found[1], part[found.end() :].strip())))
            else:
                arguments.append(("", _checked(rule, "", part.strip())))
        return cls(rule, name, tuple(capabilities), tuple(arguments))

    def covers(self, name: str, capabilities: Sequence[str], *, broad: bool) -> bool:
        """True if it is about a tool with this name and these capabilities, whatever the call."""
        own, name = _dotted(self.name), _dotted(name)
        if not (glob(fold(own))(fold(name)) if broad else glob(own)(name)):
            return False
        if not self.capabilities:
            return True
        given = [any(_granted(pattern, one, broad=broad) for pattern in self.capabilities) for one in capabilities]
        return bool(given) and (any(given) if broad else all(given))

    def may_cover(self, prefix: str, capability: str) -> bool:
        """True if it may be about some tool whose name begins like this."""
        return _dotted(self.name).startswith(_dotted(prefix)) or self.covers(f"{prefix}x", (capability,), broad=False)

    def matches(self, call: Call, *, broad: bool) -> bool:
        """All of its patterns, on this call; those over a command are left to `command_patterns`."""
        commands = self.command_patterns(call)
        return all(
            pattern in commands or self._one_matches(name, pattern, call, broad) for name, pattern in self.arguments
        )

    def command_patterns(self, call: Call) -> tuple[str, ...]:
        """Its patterns over the call's command, if the call has one and they are about it."""
        if call.script is None:
            return ()
        return tuple(pattern for name, pattern in self.arguments if name in ("", "command") and pattern not in ANY)

    def _one_matches(self, name: str, pattern: str, call: Call, broad: bool) -> bool:
        names = [name] if name else list(call.principals())
        if not broad:
            names = names[:1]
        for one in names:
            texts = call.texts(one)
            if not texts:
                continue
            found = (_text_matches(one, pattern, text, call, broad) for text in texts)
            if any(found) if broad else all(found):
                return True
        return False


def _text_matches(name: str, pattern: str, text: str, call: Call, broad: bool) -> bool:
    if pattern in ANY:
        return True
    if "://" in pattern or name in URLS:
        return url_matches(pattern, text, broad=broad)
    if name in PATHS:
        led = led_to(text, call.cwd)  # a link is what it leads to: an allow has to be for both, a refusal for either
        found = path_matches(pattern, text, call.cwd, broad=broad)
        return found if found is broad or led == text else path_matches(pattern, led, call.cwd, broad=broad)
    if broad:
        return glob(fold(pattern))(fold(text))
    return glob(unicodedata.normalize("NFC", pattern))(unicodedata.normalize("NFC", text))


def _dotted(name: str) -> str:
    return name.replace("__", ".")


def _granted(pattern: str, capability: str, *, broad: bool) -> bool:
    if pattern in ANY or glob(pattern, ".")(capability):
        return True
    return broad and (capability.startswith(pattern + ".") or pattern.removesuffix(".*") == capability)


def _capability(rule: str, text: str) -> str:
    if not _CAPABILITY.fullmatch(text):
        raise ConfigError(f"The rule {rule!r} does not name a capability, like cap:net or cap:send.*.")
    return text


def _checked(rule: str, name: str, pattern: str) -> str:
    if not pattern:
        raise ConfigError(f"The rule {rule!r} has an empty pattern.")
    if name in ("", "command") and _OPERATORS & set(pattern_words(pattern)):
        raise ConfigError(f"The rule {rule!r} joins commands; a rule is about one command, and every one is looked at.")
    if ("://" in pattern or name in URLS) and not url_pattern_is_sound(pattern):
        raise ConfigError(f"The rule {rule!r} has an address that cannot be read, like https://docs.python.org/**.")
    return pattern


def _balanced(rule: str) -> bool:
    """One pair around everything, and pairs inside of it."""
    depth, at, closed = 0, 0, False
    while at < len(rule):
        char = rule[at]
        if closed:
            return False
        if char == "\\":
            at += 1
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            closed = depth == 0
        if depth < 0:
            return False
        at += 1
    return closed


def _parts(inner: str) -> list[str]:
    """Split where a comma is followed by another name: commands have commas of their own."""
    parts, start, at = [], 0, 0
    while at < len(inner):
        if inner[at] == "\\":
            at += 1
        elif inner[at] == "," and _NEXT.match(inner, at + 1):
            parts.append(inner[start:at])
            start = at + 1
        at += 1
    return [*parts, inner[start:]]


# --- layers --------------------------------------------------------------------------------------


class PolicyRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workspace or a person allows. `destinations` may be reached whatever was read before."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ("*",)
    read_only: bool = False
    destinations: tuple[str, ...] = ()


class Layer:
    """Rules, compiled. `about(tool)` is the part of it that concerns one tool."""

    def __init__(self, rules: PolicyRules) -> None:
        self.rules = rules
        if sum(len(some) for some in (rules.allow, rules.ask, rules.deny, rules.destinations)) > RULES_MAX:
            raise ConfigError(f"There are more than {RULES_MAX} rules.")
        self.allow = tuple(Rule.parse(text) for text in rules.allow)
        self.ask = tuple(Rule.parse(text) for text in rules.ask)
        self.deny = tuple(Rule.parse(text) for text in rules.deny)
        for one in rules.capabilities:
            _capability(one, one)

    def withheld(self, capabilities: Sequence[str]) -> str:
        """The first of these capabilities that nobody granted."""
        for one in capabilities:
            if not any(_granted(pattern, one, broad=False) for pattern in self.rules.capabilities):
                return one
        return ""

    def about(self, tool: Tool, capabilities: Sequence[str]) -> Share:
        return Share(
            deny=tuple(rule for rule in self.deny if rule.covers(tool.name, capabilities, broad=True)),
            ask=tuple(rule for rule in self.ask if rule.covers(tool.name, capabilities, broad=True)),
            allow=tuple(rule for rule in self.allow if rule.covers(tool.name, capabilities, broad=False)),
        )


class Share(msgspec.Struct, frozen=True):
    """The rules of a layer that are about one tool."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()


def first_concerned(rules: tuple[Rule, ...], call: Call) -> Rule | None:
    """The first rule that this call falls under, read broadly."""
    for rule in rules:
        if not rule.matches(call, broad=True):
            continue
        patterns = rule.command_patterns(call)
        simples = call.script.commands if call.script is not None else ()
        if not patterns or any(concerns(pattern, simple) for pattern in patterns for simple in simples):
            return rule
    return None


def allowing(rules: tuple[Rule, ...], call: Call) -> Rule | None:
    """A rule that this call keeps to, read narrowly: of a script, every command has to keep to one of them."""
    fitting = [rule for rule in rules if rule.matches(call, broad=False)]
    for rule in fitting:
        if not rule.command_patterns(call):
            return rule
    script = call.script
    if not fitting or script is None or script.opaque or not script.commands or not plain_redirects(script):
        return None
    used = None
    for simple in script.commands:
        if simple.wraps:
            continue
        used = next((rule for rule in fitting if all(allows(one, simple) for one in rule.command_patterns(call))), None)
        if used is None:
            return None
    return used


def unsure(rules: tuple[Rule, ...], call: Call) -> bool:
    """True if one of these is about commands, and what the script runs cannot be told."""
    if call.script is None or not call.script.opaque:
        return False
    return any(rule.command_patterns(call) and rule.matches(call, broad=True) for rule in rules)


def suggest(call: Call) -> str:
    """The narrowest rule that would have allowed this call; empty if none would do."""
    text = _suggestion(call)
    if not text or len(text) > _SUGGESTED_MAX or "\n" in text:
        return ""
    try:
        rule = Rule.parse(text)
    except ConfigError:
        return ""
    return (
        text
        if rule.covers(call.tool.name, call.tool.capabilities, broad=False) and allowing((rule,), call) is not None
        else ""
    )


def _suggestion(call: Call) -> str:
    name = call.tool.name
    if call.script is not None:
        return _command_suggestion(name, call.script)
    if runs_commands(call.tool):
        return ""
    principal = next(iter(call.principals()), "")
    texts = call.texts(principal)
    if not texts:
        return name if not call.values else ""
    if len(texts) != 1:
        return ""
    if principal in URLS:
        given = split_url(texts[0])
        authority = re.match(r"[a-z][a-z0-9+.-]*://[^/?#]*", texts[0], re.I)
        return f"{name}({escaped(authority[0])}/**)" if given is not None and authority is not None else ""
    return f"{name}({principal}={escaped(texts[0])})"


def _command_suggestion(name: str, script: Script) -> str:
    wanted = [simple for simple in script.commands if not simple.wraps]
    if len(wanted) != 1 or None in wanted[0].argv:
        return ""
    return f"{name}({' '.join(escaped(word or '') for word in wanted[0].argv)})"


Decision = Literal["allow", "ask", "deny"]
