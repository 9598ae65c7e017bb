"""From what a skill writes under `allowed-tools` to rules of ours.

The format leaves open what the names mean. Published skills write `Bash(git:*) Read`, with spaces or commas between;
some write lists. What cannot be read becomes a rule that no call keeps to: a skill can only take away.
"""

from __future__ import annotations

import re
from functools import lru_cache

RULES_MAX = 100
RULE_CHARS_MAX = 500
UNREADABLE = "unreadable"  # no tool has a name with a colon in it

_OURS: dict[str, tuple[str, ...]] = {
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
_COMMANDS = frozenset(("bash", "process"))
_ANY = frozenset(("*", "**", ":*"))
_OPERATORS = frozenset(("|", "||", "&&", ";", "&", ">", ">>", "<", "|&"))
_NAME = re.compile(r"[A-Za-z0-9_.*-]+")
_MCP = re.compile(r"mcp__([A-Za-z0-9_.-]+?)(?:__([A-Za-z0-9_.*-]+))?")
_OF_SERVER = re.compile(r"([A-Za-z0-9_.-]+):([A-Za-z0-9_.*-]+)")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9*-]+\.)*[A-Za-z0-9*-]+(?::\d{1,5})?")
_ADDRESS = re.compile(r"(https?://)([^/?#@\s]+)(/\S*)?")
_ARGUMENT = re.compile(r"\s*(?:[a-z_][a-z0-9_]*=|cap:)")  # which a rule would take for something else


@lru_cache(maxsize=512)
def rules_of(allowed_tools: str) -> tuple[str, ...]:
    """One rule or more for every tool that is named, in the same order."""
    found: dict[str, None] = {}
    for word in _words(allowed_tools):
        found.update(dict.fromkeys(_rules(word)))
    return tuple(found)[:RULES_MAX]


def _words(text: str) -> list[str]:
    """Split at spaces and commas that are in no parentheses; without brackets, bullets and quotes around."""
    words, start, depth = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")" and depth > 0)
        if depth == 0 and (char.isspace() or char == ","):
            words.append(text[start:at])
            start = at + 1
    words.append(text[start:])
    return [word for word in (one.strip("[]\"'`") for one in words) if word not in ("", "-", "*,")]


def _rules(word: str) -> list[str]:
    name, parenthesis, inner = word.partition("(")
    if parenthesis and not inner.endswith(")"):
        return [_nothing(word)]
    inner = inner[:-1].strip()
    if mcp := _MCP.fullmatch(name):
        return [f"{mcp[1]}__{mcp[2] or '*'}" if not inner or inner in _ANY else _nothing(word)]
    if server := _OF_SERVER.fullmatch(name):
        return [f"{server[1]}__{server[2]}" if not inner else _nothing(word)]
    ours = _OURS.get(name.lower().replace("_", "").replace("-", ""), (name,))
    if not _NAME.fullmatch(name):
        return [_nothing(word)]
    if not inner or inner in _ANY:
        return list(ours)
    made = []
    for one in ours:
        patterns = _patterns(one, inner)
        made += [f"{one}({pattern})" if pattern != "*" else one for pattern in patterns] or [_nothing(word)]
    return [rule if len(rule) <= RULE_CHARS_MAX else _nothing(word) for rule in made]


def _patterns(tool: str, inner: str) -> list[str]:
    """Of what stands in the parentheses; none if it cannot be read."""
    if tool in _COMMANDS:
        several = [one.strip() for one in inner.split(",")]
        parts = several if all(one.endswith("*") for one in several) else [inner]
        found = [_command(part) for part in parts]
    elif tool == "fetch":
        found = [_address(inner)]
    else:
        found = [_escaped(inner.removeprefix("/") if inner.startswith("//") else inner)]
    return found if all(one and not _ARGUMENT.match(one) for one in found) else []


def _command(text: str) -> str:
    """`git:*` and `git *` are any call of git; with `scripts/*`, too, anything may follow."""
    if text.endswith("*") and text != "*":
        text = f"{text.removesuffix('*').removesuffix(':')} *" if text[-2:-1] in (":", " ") else f"{text} *"
    if _OPERATORS & set(text.split()):
        return ""
    return _escaped(text)


def _address(text: str) -> str:
    domain = text.removeprefix("domain:").strip()
    if domain == "*":
        return "*"
    if _DOMAIN.fullmatch(domain):
        return f"https://{domain}/**"
    if address := _ADDRESS.fullmatch(domain):
        whole = f"{address[1]}{address[2]}{address[3] or '/**'}"
        return whole if _DOMAIN.fullmatch(address[2]) and not set(whole) & set("(),\\") else ""
    return ""


def _escaped(text: str) -> str:
    return re.sub(r"([\\?(),])", r"\\\1", " ".join(text.split()))


def _nothing(word: str) -> str:
    return f"{UNREADABLE}:{re.sub('[^A-Za-z0-9_]+', '-', word)[:40].strip('-') or 'tool'}"
