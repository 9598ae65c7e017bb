"""Judges changes of a repository's git configuration: which keys a command may set without being asked about it.

Git runs programs that its configuration names (`core.hooksPath`, `core.fsmonitor`, aliases, filters …), and sends
commits where it says. So only keys that git itself writes for ordinary work are accepted, and values of the owner stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable

CONFIG_BYTES_MAX = 256 * 1024
_SECTION = re.compile(r'[ \t]*\[([A-Za-z0-9-]+)(?:[ \t]+"((?:[^"\\\n]|\\["\\])*)")?\][ \t]*')
_ENTRY = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*?))?[ \t]*")
_COMMENT = re.compile(r"[ \t]*(?:[#;].*)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]")

# of the repository format: they say how data is stored
_FORMAT_KEYS = frozenset((
    "core.repositoryformatversion", "core.filemode", "core.logallrefupdates", "core.ignorecase",
    "core.precomposeunicode", "core.symlinks", "extensions.worktreeconfig", "extensions.objectformat",
    "lfs.repositoryformatversion",
))  # fmt: skip
# harmless, but a choice of the user: only in a new repository, or if the user asked for it
_CHOICE_KEYS = frozenset((
    "core.bare", "core.autocrlf", "core.eol", "core.quotepath", "user.name", "user.email", "init.defaultbranch",
    "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "fetch.prune", "rebase.autosquash",
    "rebase.autostash", "rerere.enabled", "gc.auto", "merge.conflictstyle", "diff.algorithm",
))  # fmt: skip
_BRANCH_KEYS = frozenset(("remote", "merge", "rebase", "description"))
_REMOTE_KEYS = frozenset(("url", "fetch", "tagopt", "mirror"))
_SUBMODULE_KEYS = frozenset(("url", "active"))

ConfigValues = dict[tuple[str, str, str], tuple[str, ...]]  # values by section, subsection and key


def parse_git_config(data: bytes) -> ConfigValues | None:
    """Return the values; None if the file uses anything but the plain form that git itself writes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if len(data) > CONFIG_BYTES_MAX or _CONTROL.search(text):
        return None
    values: ConfigValues = {}
    section = subsection = ""
    for line in text.split("\n"):
        if match := _SECTION.fullmatch(line):
            section, subsection = match[1].lower(), match[2] or ""
        elif _COMMENT.fullmatch(line):
            continue
        elif not section or not (match := _ENTRY.fullmatch(line)) or line.endswith("\\"):
            return None
        else:
            key = (section, subsection, match[1].lower())
            values[key] = (*values.get(key, ()), match[2] if match[2] is not None else "true")
    return values


def is_config_change_harmless(
    old: bytes | None,
    new: bytes,
    is_requested: Callable[[str], bool],
    *,
    is_submodule: bool = False,
    accepts_harmless: bool = True,
) -> bool:
    """Return whether a command may write this configuration. `old` is None for a new repository; `is_requested` tells
    whether the user asked for a key, named in lower case. Without `accepts_harmless` only those keys may change."""
    before, after = parse_git_config(old) if old is not None else {}, parse_git_config(new)
    if before is None or after is None:
        return False
    return all(
        before.get(key) == after.get(key)
        or is_requested(_format_key(key))
        or (accepts_harmless and _is_key_harmless(key, before, after, is_new=old is None, is_submodule=is_submodule))
        for key in before.keys() | after.keys()
    )


def _format_key(key: tuple[str, str, str]) -> str:
    section, subsection, name = key
    return f"{section}.{subsection}.{name}" if subsection else f"{section}.{name}"


def _is_key_harmless(
    key: tuple[str, str, str], before: ConfigValues, after: ConfigValues, *, is_new: bool, is_submodule: bool
) -> bool:
    section, subsection, name = key
    values, plain = after.get(key), f"{section}.{name}"
    if not subsection:
        if plain == "core.worktree":
            return is_new and is_submodule and values is not None
        return values is not None and (plain in _FORMAT_KEYS or (is_new and plain in _CHOICE_KEYS))
    if values is None:
        return section == "branch"  # a branch was deleted or renamed
    if key in before or any("::" in value or value.startswith("-") for value in values):
        return False
    match section:
        case "branch" if name in _BRANCH_KEYS:  # it must not lead pushes and pulls to a new place
            known = {sub for sec, sub, _ in (before or after) if sec == "remote"} | {"."}
            return name != "remote" or known.issuperset(values)
        case "remote":
            return is_new and name in _REMOTE_KEYS
        case "submodule":
            return name in _SUBMODULE_KEYS
    return False
