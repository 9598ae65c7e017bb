"""Translates a skill's `allowed-tools` field into policy rules.

The format does not define the names. Published skills write `Bash(git:*) Read`, with spaces or commas, or lists.
What cannot be parsed becomes a rule that no call matches: a skill can only restrict tools.
"""

from __future__ import annotations

import re
from functools import lru_cache

RULES_MAX = 100
RULE_CHARS_MAX = 500
UNREADABLE_PREFIX = "unreadable"  # prefix before a colon, which no tool name has

_TOOL_ALIASES: dict[str, tuple[str, ...]] = {
    "read": ("read",),
    "readfile": ("read",),
    "view": ("read",),
    "notebookread": ("read",),
    "write": ("write",),
    "writefile": ("write",),
    "createfile": ("write",),
    "edit": ("edit", "apply_patch"),
    "editfile": ("edit", "apply_patch"),
    "multiedit": ("edit", "apply_patch"),
    "notebookedit": ("edit", "apply_patch"),
    "applypatch": ("apply_patch",),
    "bash": ("bash",),
    "shell": ("bash",),
    "terminal": ("bash",),
    "runshellcommand": ("bash",),
    "bashoutput": ("process",),
    "killbash": ("process",),
    "killshell": ("process",),
    "process": ("process",),
    "grep": ("grep",),
    "glob": ("glob",),
    "ls": ("ls",),
    "listfiles": ("ls",),
    "listdirectory": ("ls",),
    "webfetch": ("fetch",),
    "fetch": ("fetch",),
    "websearch": ("web_search",),
    "task": ("spawn",),
    "agent": ("spawn",),
    "spawn": ("spawn",),
    "skill": ("skill",),
}
_COMMAND_TOOLS = frozenset(("bash", "process"))
_WILDCARDS = frozenset(("*", "**", ":*"))
_SHELL_OPERATORS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "|&"))
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.*-]+")
_MCP_TOOL = re.compile(r"mcp__([A-Za-z0-9_.-]+?)(?:__([A-Za-z0-9_.*-]+))?")
_SERVER_TOOL = re.compile(r"([A-Za-z0-9_.-]+):([A-Za-z0-9_.*-]+)")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9*-]+\.)*[A-Za-z0-9*-]+(?::\d{1,5})?")
_URL = re.compile(r"(https?://)([^/?#@\s]+)(/\S*)?")
_RULE_SYNTAX = re.compile(r"\s*(?:[a-z_][a-z0-9_]*=|cap:)")  # has another meaning in a policy rule


@lru_cache(maxsize=512)
def parse_allowed_tools(allowed_tools: str) -> tuple[str, ...]:
    """Return the policy rules of all named tools, in order."""
    rules: dict[str, None] = {}
    for word in _split_words(allowed_tools):
        rules.update(dict.fromkeys(_word_to_rules(word)))
    return tuple(rules)[:RULES_MAX]


def _split_words(text: str) -> list[str]:
    """Split at spaces and commas outside of parentheses, and strip brackets, bullets and quotes."""
    words, start, depth = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")" and depth > 0)
        if depth == 0 and (char.isspace() or char == ","):
            words.append(text[start:index])
            start = index + 1
    words.append(text[start:])
    return [word for word in (part.strip("[]\"'`") for part in words) if word not in ("", "-", "*,")]


def _word_to_rules(word: str) -> list[str]:
    name, parenthesis, inner = word.partition("(")
    if parenthesis and not inner.endswith(")"):
        return [_unmatchable_rule(word)]
    inner = inner[:-1].strip()
    if mcp := _MCP_TOOL.fullmatch(name):
        return [f"{mcp[1]}__{mcp[2] or '*'}" if not inner or inner in _WILDCARDS else _unmatchable_rule(word)]
    if server := _SERVER_TOOL.fullmatch(name):
        return [f"{server[1]}__{server[2]}" if not inner else _unmatchable_rule(word)]
    tools = _TOOL_ALIASES.get(name.lower().replace("_", "").replace("-", ""), (name,))
    if not _TOOL_NAME.fullmatch(name):
        return [_unmatchable_rule(word)]
    if not inner or inner in _WILDCARDS:
        return list(tools)
    rules = []
    for tool in tools:
        patterns = _argument_patterns(tool, inner)
        rules += [f"{tool}({pattern})" if pattern != "*" else tool for pattern in patterns] or [_unmatchable_rule(word)]
    return [rule if len(rule) <= RULE_CHARS_MAX else _unmatchable_rule(word) for rule in rules]


def _argument_patterns(tool: str, inner: str) -> list[str]:
    """Translate the text in the parentheses into rule patterns; empty if it cannot be parsed."""
    if tool in _COMMAND_TOOLS:
        alternatives = [pattern.strip() for pattern in inner.split(",")]
        parts = alternatives if all(pattern.endswith("*") for pattern in alternatives) else [inner]
        patterns = [_command_pattern(part) for part in parts]
    elif tool == "fetch":
        patterns = [_url_pattern(inner)]
    else:
        patterns = [_escape(inner.removeprefix("/") if inner.startswith("//") else inner)]
    return patterns if all(pattern and not _RULE_SYNTAX.match(pattern) for pattern in patterns) else []


def _command_pattern(text: str) -> str:
    """Translate a command pattern: `git:*` and `git *` match any call of git; `scripts/*` also allows arguments."""
    if text.endswith("*") and text != "*":
        text = f"{text.removesuffix('*').removesuffix(':')} *" if text[-2:-1] in (":", " ") else f"{text} *"
    if _SHELL_OPERATORS & set(text.split()):
        return ""
    return _escape(text)


def _url_pattern(text: str) -> str:
    domain = text.removeprefix("domain:").strip()
    if domain == "*":
        return "*"
    if _DOMAIN.fullmatch(domain):
        return f"https://{domain}/**"
    if address := _URL.fullmatch(domain):
        whole = f"{address[1]}{address[2]}{address[3] or '/**'}"
        return whole if _DOMAIN.fullmatch(address[2]) and not set(whole) & set("(),\\") else ""
    return ""


def _escape(text: str) -> str:
    return re.sub(r"([\\?(),])", r"\\\1", " ".join(text.split()))


def _unmatchable_rule(word: str) -> str:
    return f"{UNREADABLE_PREFIX}:{re.sub('[^A-Za-z0-9_]+', '-', word)[:40].strip('-') or 'tool'}"
