"""Policy rules in text form (allow, ask, deny), and how they match tool calls.

    bash   web__*   bash(git *)   write(docs/**)   fetch(https://docs.python.org/**)   message(to=ops:*)   cap:net.*

Allow rules match narrowly, ask and deny rules broadly. Deny is applied first, then ask, then allow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.ports import Tool
from mainstay.trust.command_patterns import (
    escape_pattern,
    has_only_plain_redirects,
    matches_broadly,
    matches_strictly,
    split_pattern,
)
from mainstay.trust.rule_patterns import (
    PATTERN_CHARS_MAX,
    compile_glob,
    fold_case,
    is_valid_url_pattern,
    path_matches,
    resolve_links,
    split_url,
    url_matches,
)
from mainstay.trust.tool_invocation import PATH_ARGUMENTS, URL_ARGUMENTS, ToolInvocation, can_run_commands

if TYPE_CHECKING:
    from mainstay.trust.shell.analysis import AnalysedCommand, ScriptAnalysis

RULES_MAX = 1000
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.*?:-]+")
_CAPABILITY = re.compile(r"[A-Za-z0-9_.*-]+")
_NAMED_ARGUMENT = re.compile(r"\s*([a-z_][a-z0-9_]*)=", re.ASCII)
_NEXT_ARGUMENT = re.compile(r"\s*(?:[a-z_][a-z0-9_]*=|cap:)", re.ASCII)
_SHELL_OPERATORS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "|&"))
_SUGGESTION_CHARS_MAX = 300

WILDCARDS = ("*", "**")


class ToolRule(msgspec.Struct, frozen=True):
    """One parsed rule. `arguments` are (argument name, pattern); an empty name means the call's main argument."""

    text: str
    name: str
    capabilities: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> ToolRule:
        """Parse a rule; raises ConfigError that says what is wrong."""
        rule = text.strip()
        if not rule:
            raise ConfigError("A rule is empty.")
        if len(rule) > PATTERN_CHARS_MAX:
            raise ConfigError(f"The rule {rule[:40]!r}… is longer than {PATTERN_CHARS_MAX} characters.")
        if rule.startswith("cap:"):
            return cls(rule, "*", (_validate_capability(rule, rule[4:]),))
        name, parenthesis, inner = rule.partition("(")
        if not _TOOL_NAME.fullmatch(name):
            raise ConfigError(f"The rule {rule!r} does not begin with the name of a tool, like bash or web__*.")
        if not parenthesis:
            return cls(rule, name)
        if not _has_balanced_parentheses(rule):
            raise ConfigError(f"The rule {rule!r} has parentheses that do not match; write \\( for a literal one.")
        capabilities, arguments = [], []
        for part in _split_arguments(inner[:-1]):
            if not part.strip():
                raise ConfigError(f"The rule {rule!r} has an empty pattern; to match every call, write {name}.")
            if part.strip().startswith("cap:"):
                capabilities.append(_validate_capability(rule, part.strip()[4:]))
            elif match := _NAMED_ARGUMENT.match(part):
                arguments.append((match[1], _validate_pattern(rule, match[1], part[match.end() :].strip())))
            else:
                arguments.append(("", _validate_pattern(rule, "", part.strip())))
        return cls(rule, name, tuple(capabilities), tuple(arguments))

    def covers_tool(self, name: str, capabilities: Sequence[str], *, broad: bool) -> bool:
        """Return True if the rule applies to a tool with this name and these capabilities, whatever the arguments."""
        rule_name, name = _to_dotted_name(self.name), _to_dotted_name(name)
        if not (compile_glob(fold_case(rule_name))(fold_case(name)) if broad else compile_glob(rule_name)(name)):
            return False
        if not self.capabilities:
            return True
        matches = [
            any(_capability_matches(pattern, capability, broad=broad) for pattern in self.capabilities)
            for capability in capabilities
        ]
        return bool(matches) and (any(matches) if broad else all(matches))

    def may_cover_prefix(self, prefix: str, capability: str) -> bool:
        """Return True if the rule may apply to a tool whose name begins with this prefix."""
        return _to_dotted_name(self.name).startswith(_to_dotted_name(prefix)) or self.covers_tool(
            f"{prefix}x", (capability,), broad=False
        )

    def matches_arguments(self, call: ToolInvocation, *, broad: bool) -> bool:
        """Return True if all argument patterns match this call, except those that `command_patterns` returns."""
        commands = self.command_patterns(call)
        return all(
            pattern in commands or self._argument_matches(name, pattern, call, broad)
            for name, pattern in self.arguments
        )

    def command_patterns(self, call: ToolInvocation) -> tuple[str, ...]:
        """Return the patterns that apply to the call's shell command; empty if it runs none."""
        if call.script is None:
            return ()
        return tuple(
            pattern for name, pattern in self.arguments if name in ("", "command") and pattern not in WILDCARDS
        )

    def _argument_matches(self, name: str, pattern: str, call: ToolInvocation, broad: bool) -> bool:
        names = [name] if name else list(call.main_argument_names())
        if not broad:
            names = names[:1]
        for argument in names:
            texts = call.argument_texts(argument)
            if not texts:
                continue
            matches = (_text_matches(argument, pattern, text, call, broad) for text in texts)
            if any(matches) if broad else all(matches):
                return True
        return False


def _text_matches(name: str, pattern: str, text: str, call: ToolInvocation, broad: bool) -> bool:
    if pattern in WILDCARDS:
        return True
    if "://" in pattern or name in URL_ARGUMENTS:
        return url_matches(pattern, text, broad=broad)
    if name in PATH_ARGUMENTS:
        target = resolve_links(text, call.cwd)  # an allow must match the link and its target, a deny either
        matches = path_matches(pattern, text, call.cwd, broad=broad)
        return matches if matches is broad or target == text else path_matches(pattern, target, call.cwd, broad=broad)
    if broad:
        return compile_glob(fold_case(pattern))(fold_case(text))
    return compile_glob(unicodedata.normalize("NFC", pattern))(unicodedata.normalize("NFC", text))


def _to_dotted_name(name: str) -> str:
    return name.replace("__", ".")


def _capability_matches(pattern: str, capability: str, *, broad: bool) -> bool:
    if pattern in WILDCARDS or compile_glob(pattern, ".")(capability):
        return True
    return broad and (capability.startswith(pattern + ".") or pattern.removesuffix(".*") == capability)


def _validate_capability(rule: str, text: str) -> str:
    if not _CAPABILITY.fullmatch(text):
        raise ConfigError(f"The rule {rule!r} does not name a capability, like cap:net or cap:send.*.")
    return text


def _validate_pattern(rule: str, name: str, pattern: str) -> str:
    if not pattern:
        raise ConfigError(f"The rule {rule!r} has an empty pattern.")
    if name in ("", "command") and _SHELL_OPERATORS & set(split_pattern(pattern)):
        raise ConfigError(f"The rule {rule!r} joins commands; a rule matches one command, and each command is checked.")
    if ("://" in pattern or name in URL_ARGUMENTS) and not is_valid_url_pattern(pattern):
        raise ConfigError(f"The rule {rule!r} has an invalid address; write one like https://docs.python.org/**.")
    return pattern


def _has_balanced_parentheses(rule: str) -> bool:
    """Return True for one outer pair of parentheses that closes at the end, with balanced pairs inside."""
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


def _split_arguments(inner: str) -> list[str]:
    """Split at commas that are followed by another `name=` or `cap:`; other commas belong to the pattern."""
    parts, start, at = [], 0, 0
    while at < len(inner):
        if inner[at] == "\\":
            at += 1
        elif inner[at] == "," and _NEXT_ARGUMENT.match(inner, at + 1):
            parts.append(inner[start:at])
            start = at + 1
        at += 1
    return [*parts, inner[start:]]


# --- layers --------------------------------------------------------------------------------------


class PolicyRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of a workspace or a user, as text. `destinations` stay allowed under taint."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ("*",)
    read_only: bool = False
    destinations: tuple[str, ...] = ()


class RuleLayer:
    """The compiled rules of one workspace or user."""

    def __init__(self, rules: PolicyRules) -> None:
        self.rules = rules
        if sum(len(texts) for texts in (rules.allow, rules.ask, rules.deny, rules.destinations)) > RULES_MAX:
            raise ConfigError(f"There are more than {RULES_MAX} rules.")
        self.allow = tuple(ToolRule.parse(text) for text in rules.allow)
        self.ask = tuple(ToolRule.parse(text) for text in rules.ask)
        self.deny = tuple(ToolRule.parse(text) for text in rules.deny)
        for capability in rules.capabilities:
            _validate_capability(capability, capability)

    def find_missing_capability(self, capabilities: Sequence[str]) -> str:
        """Return the first of these capabilities that is not granted; empty if all are."""
        for capability in capabilities:
            if not any(_capability_matches(pattern, capability, broad=False) for pattern in self.rules.capabilities):
                return capability
        return ""

    def select_rules(self, tool: Tool, capabilities: Sequence[str]) -> ApplicableRules:
        return ApplicableRules(
            deny=tuple(rule for rule in self.deny if rule.covers_tool(tool.name, capabilities, broad=True)),
            ask=tuple(rule for rule in self.ask if rule.covers_tool(tool.name, capabilities, broad=True)),
            allow=tuple(rule for rule in self.allow if rule.covers_tool(tool.name, capabilities, broad=False)),
        )


class ApplicableRules(msgspec.Struct, frozen=True):
    """The rules of one layer that apply to one tool."""

    deny: tuple[ToolRule, ...] = ()
    ask: tuple[ToolRule, ...] = ()
    allow: tuple[ToolRule, ...] = ()


def find_matching_rule(rules: tuple[ToolRule, ...], call: ToolInvocation) -> ToolRule | None:
    """Return the first rule that matches this call broadly."""
    for rule in rules:
        if not rule.matches_arguments(call, broad=True):
            continue
        patterns = rule.command_patterns(call)
        commands = call.script.commands if call.script is not None else ()
        if not patterns or any(matches_broadly(pattern, command) for pattern in patterns for command in commands):
            return rule
    return None


def find_allowing_rule(rules: tuple[ToolRule, ...], call: ToolInvocation) -> ToolRule | None:
    """Return a rule that matches this call narrowly. Every command of a script must match one of the rules."""
    candidates = [rule for rule in rules if rule.matches_arguments(call, broad=False)]
    for rule in candidates:
        if not rule.command_patterns(call):
            return rule
    script = call.script
    if (
        not candidates
        or script is None
        or script.is_ambiguous
        or not script.commands
        or not has_only_plain_redirects(script)
    ):
        return None
    matched = None
    for command in script.commands:
        if command.is_wrapper and not command.accepted_by:
            continue
        matched = _find_command_rule(candidates, call, command)
        if matched is None:
            return None
    return matched


def _find_command_rule(
    candidates: Sequence[ToolRule], call: ToolInvocation, command: AnalysedCommand
) -> ToolRule | None:
    """Return the first rule whose command patterns match this command; every candidate has some."""
    return next(
        (
            rule
            for rule in candidates
            if all(matches_strictly(pattern, command) for pattern in rule.command_patterns(call))
        ),
        None,
    )


def is_undecidable(rules: tuple[ToolRule, ...], call: ToolInvocation) -> bool:
    """Return True if one of these rules has command patterns, and what the script runs cannot be determined."""
    if call.script is None or not call.script.opaque_reasons:
        return False
    return any(rule.command_patterns(call) and rule.matches_arguments(call, broad=True) for rule in rules)


def accepts_opaque_commands(rules: tuple[ToolRule, ...], call: ToolInvocation) -> bool:
    """Return True if these allow rules name every command of the script whose effect cannot be known."""
    script = call.script
    if script is None or script.is_ambiguous:
        return False
    candidates = [rule for rule in rules if rule.command_patterns(call) and rule.matches_arguments(call, broad=False)]
    opaque = [command for command in script.commands if command.accepted_by]
    return all(_find_command_rule(candidates, call, command) is not None for command in opaque)


def suggest_rule(call: ToolInvocation) -> str:
    """Return the narrowest rule that would allow this call; empty if there is none."""
    text = _build_suggestion(call)
    if not text or len(text) > _SUGGESTION_CHARS_MAX or "\n" in text:
        return ""
    try:
        rule = ToolRule.parse(text)
    except ConfigError:
        return ""
    return (
        text
        if rule.covers_tool(call.tool.name, call.tool.capabilities, broad=False)
        and find_allowing_rule((rule,), call) is not None
        else ""
    )


def _build_suggestion(call: ToolInvocation) -> str:
    name = call.tool.name
    if call.script is not None:
        return _build_command_suggestion(name, call.script)
    if can_run_commands(call.tool):
        return ""
    principal = next(iter(call.main_argument_names()), "")
    texts = call.argument_texts(principal)
    if not texts:
        return name if not call.arguments_by_name else ""
    if len(texts) != 1:
        return ""
    if principal in URL_ARGUMENTS:
        parts = split_url(texts[0])
        authority = re.match(r"[a-z][a-z0-9+.-]*://[^/?#]*", texts[0], re.I)
        return f"{name}({escape_pattern(authority[0])}/**)" if parts is not None and authority is not None else ""
    return f"{name}({principal}={escape_pattern(texts[0])})"


def _build_command_suggestion(name: str, script: ScriptAnalysis) -> str:
    commands = [command for command in script.commands if not command.is_wrapper]
    if len(commands) != 1 or None in commands[0].argv:
        return ""
    return f"{name}({' '.join(escape_pattern(word or '') for word in commands[0].argv)})"


Decision = Literal["allow", "ask", "deny"]
