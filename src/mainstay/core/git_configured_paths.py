"""Files of a work tree that the git configuration names: hooks folders, included files, programs that git runs."""

from __future__ import annotations

import os
import re
import shlex

CONFIG_CHARS_MAX = 256 * 1024
_KEYS = (
    *("hookspath", "path", "fsmonitor", "external", "editor", "pager", "sshcommand", "clean", "smudge", "process"),
    *("textconv", "command", "cmd", "program", "driver", "helper", "askpass", "attributesfile", "gitproxy"),
)
# lenient, unlike the parser of changes: a value too many only protects one file more
_ENTRY = re.compile(
    rf"^[ \t]*(?:\[[^\]\n]*\][ \t]*)?(?:{'|'.join(_KEYS)})[ \t]*=[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE
)


def find_git_configured_paths(folder: str) -> set[str]:
    """Return the files and folders, existing or not, that git obeys in the work tree `folder`, by its configuration and
    by that of the user."""
    git_folder = _find_git_folder(folder)
    if git_folder is None:
        return set()
    home = os.path.expanduser("~")
    configs = [
        f"{git_folder}/config",
        f"{git_folder}/config.worktree",
        f"{home}/.gitconfig",
        f"{home}/.config/git/config",
    ]
    paths: set[str] = set()
    for config in configs:
        for value in _ENTRY.findall(_read_text(config)):
            for word in _split_words(value):
                paths |= {os.path.normpath(os.path.join(base, word)) for base in (folder, os.path.dirname(config))}
    return {path for path in paths if path.startswith(f"{folder}/")}


def _find_git_folder(folder: str) -> str | None:
    """Return the folder with the configuration of a work tree: that of the repository for a worktree or submodule."""
    path = f"{folder}/.git"
    if os.path.isfile(path):
        target = _read_text(path).removeprefix("gitdir:").strip()
        path = os.path.normpath(os.path.join(folder, target)) if target else path
        if common := _read_text(f"{path}/commondir").strip():
            path = os.path.normpath(os.path.join(path, common))
    return path if os.path.isdir(path) else None


def _split_words(value: str) -> list[str]:
    """Return the words of a value that may be paths, without those that name programs on the PATH."""
    try:
        words = shlex.split(value.strip().removeprefix("!"), comments=True)
    except ValueError:
        words = value.split()
    return [os.path.expanduser(word) for word in words if re.search(r"\w", word) and not word.startswith("-")]


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(CONFIG_CHARS_MAX)
    except OSError:
        return ""
