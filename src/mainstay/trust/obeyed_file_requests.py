"""Whether the user asked, in this turn, for a change to files that other programs obey: by name, or by what they do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstay.core.obeyed_files import find_obeyed_topic
from mainstay.trust.named_destinations import is_named_by_user
from mainstay.trust.user_statements import iterate_change_clauses

GIT_KEY_PREFIX = "git-config:"
_IDENTITY_KEYS = ("user.name", "user.email")

# what a user calls the thing that a file configures; the terms are the same in most languages
_TERMS = {
    "git-hooks": r"(?:git|pre-?commit|post-?\w+|commit|push)[- ]?hooks?|hooks|husky|lefthook|pre-commit"
    r"|core\.hookspath",
    "editor": r"vs ?code|visual studio code|editor (?:config\w*|settings?)|intellij|pycharm|jetbrains|launch\.json"
    r"|tasks\.json",
    "ci": r"github (?:actions?|workflows?)|workflows?|ci|ci/cd|pipelines?|circle ?ci|gitlab[- ]ci|dependabot"
    r"|(?:pr|issue|pull request) templates?|codeowners",
    "devcontainer": r"dev ?-?containers?",
    "direnv": r"direnv|envrc",
    "npm": r"npmrc|yarnrc|npm (?:config\w*|settings?|registry)",
    "shell": r"(?:bash|zsh|shell|fish)[- ]?(?:rc|profile|config\w*|alias\w*|startup)|shell profiles?|dotfiles?",
    "agent": r"(?:agent|claude|cursor|gemini|codex|copilot)[- ]?(?:instructions?|rules?|config\w*|settings?)"
    r"|mcp (?:servers?|config\w*)",
}
_TERM_PATTERNS = {
    topic: re.compile(rf"(?<![\w.-])(?:{terms})(?![\w-])", re.IGNORECASE) for topic, terms in _TERMS.items()
}
_ANY_KEY = re.compile(r"(?<![\w.-])(?:git[- ]?config\w*|[a-z]+\.[a-z]\w+)(?![\w-])", re.IGNORECASE)
_REMOTE_TERMS = re.compile(r"(?<![\w.-])(?:git )?(?:remotes?|upstream|origin)(?![\w-])", re.IGNORECASE)
_IDENTITY_TERMS = re.compile(
    r"(?<![\w.-])(?:user\.name|user\.email|(?:git|commit|author)[- ](?:user|name|e-?mail|author|identity)"
    r"|(?:my|the|your) (?:name|e-?mail))(?![\w-])",
    re.IGNORECASE,
)


def is_obeyed_change_requested(path: str, topic: str, turn_texts: Sequence[str], cwd: str) -> bool:
    """Return whether these texts of the user name the file or its folder, or ask for what it does. `topic` is as in
    `core/obeyed_files.py`, or `git-config:KEY` for one key of git's configuration."""
    if not turn_texts:
        return False
    if topic.startswith(GIT_KEY_PREFIX):
        return _is_git_key_requested(topic.removeprefix(GIT_KEY_PREFIX), turn_texts)
    if topic in ("git-config", "git-folder"):  # the keys that were asked for have been accepted already
        return is_named_by_user(path, turn_texts, cwd)
    if any(is_named_by_user(name, turn_texts, cwd) for name in _list_names(path, cwd)):
        return True
    pattern = _TERM_PATTERNS.get(topic)
    return pattern is not None and _asks_for(pattern, turn_texts)


def _list_names(path: str, cwd: str) -> list[str]:
    """Return what names a file: its path, and the name by which programs obey it (`.envrc`, `.vscode`)."""
    below = path.removeprefix(f"{cwd.rstrip('/')}/").split("/")
    return [path, *(name for name in below if find_obeyed_topic(name) is not None)]


def _is_git_key_requested(key: str, turn_texts: Sequence[str]) -> bool:
    """Return whether the texts ask for a key of git's configuration; an empty key stands for any."""
    if not key:
        return any(_asks_for(pattern, turn_texts) for pattern in (_ANY_KEY, _IDENTITY_TERMS, _REMOTE_TERMS))
    section, name = key.partition(".")[0], key.rpartition(".")[2]
    patterns = [_compile_key(key)]
    if key in _IDENTITY_KEYS:
        patterns.append(_IDENTITY_TERMS)
    if section in ("remote", "branch") and name in ("url", "fetch", "pushurl", "remote", "merge"):
        patterns.append(_REMOTE_TERMS)
    return any(_asks_for(pattern, turn_texts) for pattern in patterns)


def is_change_in_script(path: str, topic: str, script: str, cwd: str) -> bool:
    """Return whether a script that a person approved names the file, or the key of git's configuration."""
    if topic.startswith(GIT_KEY_PREFIX):
        return _compile_key(topic.removeprefix(GIT_KEY_PREFIX)).search(script) is not None
    return any(is_named_by_user(name, (script,), cwd) for name in _list_names(path, cwd))


def _compile_key(key: str) -> re.Pattern[str]:
    section, name = key.partition(".")[0], key.rpartition(".")[2]
    return re.compile(rf"(?<![\w.-]){re.escape(section)}\.(?:\S+\.)?{re.escape(name)}(?![\w-])", re.IGNORECASE)


def _asks_for(pattern: re.Pattern[str], turn_texts: Sequence[str]) -> bool:
    clauses = ((text, start, end) for text in turn_texts for start, end in iterate_change_clauses(text))
    return any(pattern.search(text, start, end) is not None for text, start, end in clauses)
