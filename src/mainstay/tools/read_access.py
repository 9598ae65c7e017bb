"""What a session may read, for the proof that a command only reads: its folders, without protected files."""

from __future__ import annotations

import glob
import os
import re
import stat
from itertools import islice

from mainstay.core.tool_ports import SessionFolders
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathRefused, is_inside

GLOB_MATCHES_MAX = 1_000
GIT_CONFIG_BYTES_MAX = 64 * 1024
_GIT_CONFIG_SECTION = re.compile(r'\[\s*(core|remote|branch|user|pull|push|init|submodule)\s*(?:"[^"\\]*")?\s*\]')
_GIT_CONFIG_KEY = re.compile(
    r"(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf"
    r"|url|pushurl|fetch|tagopt|prune|remote|merge|rebase|name|email|ff|default|defaultbranch|active|autosetupremote)"
    r"\s*=[^\\]*",
    re.IGNORECASE,
)


class SessionReadAccess:
    """Implements `ReadAccess`. Every answer is about the files as they are now."""

    def __init__(self, folders: SessionFolders) -> None:
        self._confined = ConfinedFiles(folders)
        self._protected = [path.rstrip("/") for path in folders.protected]

    def may_read(self, path: str, *, is_glob: bool, whole_tree: bool) -> bool:
        if not is_glob:
            return self._may_read(path, whole_tree)
        matches = list(islice(glob.iglob(path, recursive=True, include_hidden=True), GLOB_MATCHES_MAX + 1))
        return len(matches) <= GLOB_MATCHES_MAX and all(self._may_read(match, whole_tree) for match in (*matches, path))

    def _may_read(self, path: str, whole_tree: bool) -> bool:
        try:
            with self._confined.resolve(path) as resolved:
                real, is_folder = resolved.path, resolved.is_folder
                special = resolved.stat is not None and not (is_folder or stat.S_ISREG(resolved.stat.st_mode))
        except (PathRefused, ValueError):
            return False
        if special:
            return False
        return not (
            whole_tree
            and is_folder
            and any(is_inside(protected, real) and os.path.lexists(protected) for protected in self._protected)
        )

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_plain_repository(self, folder: str) -> bool:
        """Look for the repository upwards. A `.git` that is a file or a link, objects of other repositories, an active
        hook that reading runs, and settings that are not known to be harmless are not plain."""
        try:
            real = self._confined.real_path(folder)
        except PathRefused:
            return False
        while not os.path.lexists(f"{real}/.git"):
            parent = os.path.dirname(real)
            if parent == real or not self._may_read(parent, False):
                return False
            real = parent
        control = f"{real}/.git"
        if os.path.islink(control) or not os.path.isdir(control):
            return False
        if any(
            os.path.lexists(f"{control}/{name}")
            for name in ("commondir", "config.worktree", "objects/info/alternates", "hooks/post-index-change")
        ):
            return False
        try:
            text = self._confined.read_bytes(f"{control}/config", GIT_CONFIG_BYTES_MAX)[0].decode()
        except (PathRefused, UnicodeDecodeError):
            return False
        lines = [line.strip() for line in text.splitlines()]
        return all(
            _GIT_CONFIG_SECTION.fullmatch(line) or _GIT_CONFIG_KEY.fullmatch(line)
            for line in lines
            if line and not line.startswith(("#", ";"))
        )
