"""Judges a command's changes to files that other programs obey, before they are moved into the real folders.

Most such files are known by their names. Git folders are judged by content, because git itself writes there all the
time: what makes git run a program or follow another folder is held back, the rest is not.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from mainstay.core.git_configured_paths import find_git_configured_paths
from mainstay.core.obeyed_files import find_obeyed_topic
from mainstay.sandbox.git_config_rules import is_config_change_harmless

CONTENT_BYTES_MAX = 256 * 1024  # of a file that is judged by its content

FolderRole = Literal["", "git", "hooks"]
ChangeVerdict = Literal["move", "hold", "skip"]
MayChange = Callable[[str, str], bool]
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NESTED_GIT_FOLDER = re.compile(r".*/\.git/(?:.+/)?(?:modules|worktrees)/.+", re.IGNORECASE | re.DOTALL)
_WORKTREE_FOLDER = re.compile(r".*/worktrees/[^/]+", re.IGNORECASE | re.DOTALL)
_GIT_LINK = re.compile(rb"gitdir: ([^\n\x00]+)\n?")
_GIT_LINK_TARGET = re.compile(r".*/\.git/(?:.+/)?(?:modules|worktrees)/[^/]+(?:/[^/]+)*", re.DOTALL)
_REBASE_COMMAND = re.compile(rb"^[ \t]*(?:exec|x)[ \t]", re.MULTILINE)
_HOME_TOPICS = ("git-config", "npm", "shell")
_GIT_PARTS = frozenset(("HEAD", "objects", "refs", "commondir"))


class LayerEntry(msgspec.Struct, frozen=True):
    """One entry of an upper layer, with the open folders that it and the real entry are in."""

    name: str
    path: str
    status: os.stat_result
    upper: int
    lower: int
    role: FolderRole = ""  # of the folder that it is in

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_removal(self) -> bool:
        return stat.S_ISCHR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


class ObeyedFileGuard:
    """Decides about the changes of one command.

    `fixed` paths are never written. `obeyed` paths, and those known by name, are written only if `may_change` says so.
    With `accepts_harmless`, changes of git folders that make git run nothing are accepted without being asked for.
    """

    def __init__(
        self,
        roots: Iterable[str],
        fixed: Iterable[str],
        *,
        obeyed: Iterable[str] = (),
        may_change: MayChange = lambda path, topic: False,
        accepts_harmless: bool = False,
        home: str = "",
    ) -> None:
        self._roots = sorted((root.rstrip("/") for root in roots), key=len, reverse=True)
        self._fixed = {path.casefold() for path in fixed}
        self._obeyed = {path.rstrip("/").casefold() for path in obeyed}
        self._configured: set[str] = set()  # named by the configuration of git
        for root in self._roots:
            self._note_configured_paths(root)
        self._may_change = may_change
        self._accepts_harmless = accepts_harmless
        self._home = home.rstrip("/")  # HOME of commands: only commands obey the dotfiles in it

    def is_fixed(self, path: str) -> bool:
        return path.casefold() in self._fixed

    def find_topic(self, path: str) -> str | None:
        """Return what an obeyed file configures, by its path alone."""
        folded = path.casefold()
        while len(folded) > 1:
            if folded in self._obeyed:
                return "other"
            if folded in self._configured:
                return "git-hooks"
            folded = folded.rpartition("/")[0]
        root = next((root for root in self._roots if path.startswith(f"{root}/")), "")
        topic = find_obeyed_topic(path[len(root) + 1 :])
        # settings of the commands' own programs
        is_own_setting = topic in _HOME_TOPICS and self._home and path.startswith(f"{self._home}/.")
        return None if is_own_setting else topic

    def _note_configured_paths(self, folder: str) -> None:
        """Note what git obeys in a work tree, and in those around it."""
        while len(folder) > 1:
            if os.path.lexists(f"{folder}/.git"):
                self._configured |= {path.casefold() for path in find_git_configured_paths(folder)}
            folder = os.path.dirname(folder)

    def find_role(self, path: str, parent_role: FolderRole, names: Iterable[str], lower: int) -> FolderRole:
        """Return what a folder is for git. `names` are its entries in the upper layer."""
        name = os.path.basename(path).casefold()
        lower_names = os.listdir(lower)
        if ".git" in lower_names and path not in self._roots:
            self._configured |= {path.casefold() for path in find_git_configured_paths(path)}
        if parent_role == "hooks" or (parent_role == "git" and name == "hooks"):
            return "hooks"
        if name == ".git" or _NESTED_GIT_FOLDER.fullmatch(path) or _looks_like_git({*names, *lower_names}):
            return "git"
        return ""

    def judge(self, entry: LayerEntry) -> ChangeVerdict:
        """Judge one change: move it into place, hold it back, or skip a file that is the same as before."""
        if self.is_fixed(entry.path):
            return "hold"
        topic = self._find_protected_topic(entry)
        if topic is None:
            return "move"
        if entry.is_removal and _stat_entry(entry.name, entry.lower) is None:
            return "skip"
        if not entry.is_removal and _is_unchanged(entry):
            return "skip"
        return "move" if self._may_change(entry.path, topic) else "hold"

    def holds_removal(self, path: str) -> bool:
        """Return whether an obeyed file must stay."""
        topic = self.find_topic(path)
        return topic is not None and not self._may_change(path, topic)

    # --- git ---------------------------------------------------------------------------------------

    def _find_protected_topic(self, entry: LayerEntry) -> str | None:
        """Return the topic of a change that needs the user's word; None for all others."""
        if entry.role == "git" and entry.name in _GIT_PARTS and not self._may_become_git_folder(entry):
            return "git-folder"
        if entry.is_folder:
            return None
        if entry.role == "" and (topic := self.find_topic(entry.path)) is not None:
            return topic
        if entry.name.casefold() == ".git":
            return None if entry.is_removal or self._is_git_link_harmless(entry) else "git-folder"
        if entry.role == "hooks":
            harmless = entry.name.endswith(".sample") and stat.S_ISREG(entry.status.st_mode)
            return None if harmless else "git-hooks"
        if entry.role == "git":
            return self._find_git_topic(entry)
        if "/.git/" in entry.path.casefold():
            if entry.is_link:
                return "git-folder"
            if entry.name == "git-rebase-todo" and not entry.is_removal:
                content = _read_file(entry.name, entry.upper)
                return "git-hooks" if content is None or _REBASE_COMMAND.search(content) else None
        return None

    def _find_git_topic(self, entry: LayerEntry) -> str | None:
        match entry.name.casefold():
            case "config" | "config.worktree":
                return None if not entry.is_removal and self._is_config_harmless(entry) else "git-config"
            case "commondir":
                content = None if entry.is_removal else _read_file(entry.name, entry.upper)
                own = content is not None and content.strip() == b"../.."
                is_worktree = _WORKTREE_FOLDER.fullmatch(os.path.dirname(entry.path)) is not None
                return None if self._accepts_harmless and own and is_worktree else "git-folder"
            case "hooks":
                return "git-hooks"
        return "git-folder" if entry.is_link else None

    def _is_config_harmless(self, entry: LayerEntry) -> bool:
        new = _read_file(entry.name, entry.upper)
        exists = _stat_entry(entry.name, entry.lower) is not None
        old = _read_file(entry.name, entry.lower) if exists else None
        if new is None or (exists and old is None):
            return False
        return is_config_change_harmless(
            old,
            new,
            lambda key: self._may_change(entry.path, f"git-config:{key}"),
            is_submodule="/modules/" in entry.path,
            accepts_harmless=self._accepts_harmless,
        )

    def _is_git_link_harmless(self, entry: LayerEntry) -> bool:
        """Return True for a `.git` file that leads to a worktree's or submodule's folder, where changes are judged."""
        content = None if entry.is_link or not self._accepts_harmless else _read_file(entry.name, entry.upper)
        match = _GIT_LINK.fullmatch(content) if content is not None else None
        if match is None:
            return False
        target = os.path.join(os.path.dirname(entry.path), os.fsdecode(match[1]))
        target = os.path.normpath(target)
        is_inside = any(target.startswith(f"{root}/") for root in self._roots)
        # A folder of the same command need not exist yet. An existing one must not lead elsewhere.
        return is_inside and _GIT_LINK_TARGET.fullmatch(target) is not None and os.path.realpath(target) == target

    def _may_become_git_folder(self, entry: LayerEntry) -> bool:
        """Return False if this entry would complete a git folder around a configuration or hooks that were not judged
        as git's before."""
        names = set(os.listdir(entry.lower))
        if os.path.basename(os.path.dirname(entry.path)).casefold() == ".git" or _looks_like_git(names):
            return True
        if "config" in names:
            old = _read_file("config", entry.lower)
            if old is None or not is_config_change_harmless(None, old, lambda key: False):
                return False
        if "hooks" not in names:
            return True
        try:
            hooks = os.open("hooks", os.O_DIRECTORY | _READ_FLAGS, dir_fd=entry.lower)
        except OSError:
            return False
        try:
            return all(name.endswith(".sample") for name in os.listdir(hooks))
        finally:
            os.close(hooks)


def _looks_like_git(names: set[str]) -> bool:
    """Return whether git takes a folder with these entries for a repository, whatever its name is."""
    return "HEAD" in names and (names >= {"objects", "refs"} or "commondir" in names)


def _is_unchanged(entry: LayerEntry) -> bool:
    old = _stat_entry(entry.name, entry.lower)
    if old is None or stat.S_IFMT(old.st_mode) != stat.S_IFMT(entry.status.st_mode):
        return False
    if entry.is_link:
        return os.readlink(entry.name, dir_fd=entry.upper) == os.readlink(entry.name, dir_fd=entry.lower)
    if (old.st_size, stat.S_IMODE(old.st_mode)) != (entry.status.st_size, stat.S_IMODE(entry.status.st_mode)):
        return False
    content = _read_file(entry.name, entry.upper)
    return content is not None and content == _read_file(entry.name, entry.lower)


def _read_file(name: str, folder: int) -> bytes | None:
    """Return the content of a regular file; None if it is larger than the limit, or anything else."""
    try:
        file = os.open(name, _READ_FLAGS, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        content = opened.read(CONTENT_BYTES_MAX + 1)
    return content if len(content) <= CONTENT_BYTES_MAX else None


def _stat_entry(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
