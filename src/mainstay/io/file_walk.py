"""Walks all files below a folder, without symlinks and gitignored files, within limits."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mainstay.io.atomic_write import open_for_listing
from mainstay.io.confined_files import ConfinedFiles, OpenFile
from mainstay.io.globs import compile_component, compile_components, split_components
from mainstay.io.path_resolver import OPEN_FOLDER_FLAGS, PathRefused, is_inside

ENTRIES_MAX = 200_000
DEPTH_MAX = 64
WALK_SECONDS_MAX = 20.0
IGNORE_RULES_MAX = 2_000
IGNORE_BYTES_MAX = 256 * 1024
IGNORE_FILE_NAMES = (".gitignore",)


class WalkedFile(msgspec.Struct, frozen=True, gc=False):
    """A file found by a walk; `folder_fd` is open only until the next file is requested."""

    folder_fd: int
    name: str
    path: str  # real, absolute
    relative_path: str  # relative to the start of the walk


class FileWalk:
    """Iterates over the files below a path, once. `cut_reason` says afterwards why it ended early; "" if it did not."""

    def __init__(
        self,
        files: ConfinedFiles,
        path: str,
        *,
        include_hidden: bool = True,
        should_stop: Callable[[], bool] | None = None,
    ):
        self._files = files
        self._path = path
        self._include_hidden = include_hidden
        self._should_stop = should_stop or (lambda: False)
        self._deadline = time.monotonic() + WALK_SECONDS_MAX
        self._entry_count = 0
        self.cut_reason = ""
        self.root = ""

    def __iter__(self) -> Iterator[WalkedFile]:
        with self._files.resolve(self._path) as resolved:
            self.root = resolved.path
            if not resolved.is_folder:
                if resolved.stat is not None and stat.S_ISREG(resolved.stat.st_mode):
                    yield WalkedFile(resolved.folder_fd, resolved.name, resolved.path, resolved.name)
                    return
                self._files.open_read(self._path)  # raises PathRefused with the reason
                return
            names_above, rules = self._load_parent_rules(resolved.path)
            yield from self._walk_folder(resolved.folder_fd, [], names_above, rules)

    def open_file(self, file: WalkedFile) -> OpenFile:
        return self._files.open_at(file.folder_fd, file.name, file.path)

    def _load_parent_rules(self, path: str) -> tuple[list[str], IgnoreRules]:
        """Load the rules of the parent folders up to the root of the repository, as far as they are readable."""
        folders = self._files.folders
        roots = [root for root in (*folders.writable, *folders.readable) if is_inside(path, root)]
        top = min(roots, key=len, default=path)
        repository = path
        while not os.path.lexists(f"{repository}/.git") and repository != top and is_inside(repository, top):
            repository = os.path.dirname(repository)
        if not os.path.lexists(f"{repository}/.git"):
            repository = path
        components = [component for component in path[len(repository) :].split("/") if component]
        rules = IgnoreRules()
        if exclude := self._read_text(f"{repository}/.git/info/exclude"):
            rules = rules.with_rules(0, exclude)
        for depth in range(len(components)):
            for name in IGNORE_FILE_NAMES:
                rules = rules.with_rules(depth, self._read_text("/".join((repository, *components[:depth], name))))
        return components, rules

    def _read_text(self, path: str) -> str:
        try:
            with self._files.open_read(path) as opened:
                return opened.file.read(IGNORE_BYTES_MAX).decode(errors="replace")
        except PathRefused:
            return ""

    def _walk_folder(
        self, folder_fd: int, names_below: list[str], names_above: Sequence[str], rules: IgnoreRules
    ) -> Iterator[WalkedFile]:
        try:
            with open_for_listing(folder_fd) as inner:
                entries = sorted(self._scan_folder(inner))
        except OSError:  # not readable
            return
        components = [*names_above, *names_below]
        folder_path = "/".join((self.root.rstrip("/"), *names_below))
        for name in IGNORE_FILE_NAMES:
            if (name, False) in entries:
                rules = rules.with_rules(len(components), self._read_text(f"{folder_path}/{name}"))
        inner_folders: list[str] = []
        for name, is_folder in entries:
            if self.cut_reason or self._is_over():
                return
            if (name.startswith(".") and not self._include_hidden) or rules.is_ignored(
                [*components, name], is_folder=is_folder
            ):
                continue
            path = f"{folder_path}/{name}"
            if self._files.may_be_protected(name) and self._files.is_protected(path):
                continue
            if is_folder:
                inner_folders.append(name)
            else:
                yield WalkedFile(folder_fd, name, path, "/".join((*names_below, name)))
        if len(names_below) >= DEPTH_MAX:
            return
        for name in inner_folders:
            yield from self._walk_subfolder(folder_fd, name, names_below, names_above, rules)

    def _walk_subfolder(
        self, folder_fd: int, name: str, names_below: list[str], names_above: Sequence[str], rules: IgnoreRules
    ) -> Iterator[WalkedFile]:
        try:
            inner = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder_fd)
        except OSError:  # removed, or replaced by a symlink meanwhile
            return
        try:
            yield from self._walk_folder(inner, [*names_below, name], names_above, rules)
        finally:
            os.close(inner)

    def _scan_folder(self, folder_fd: int) -> Iterator[tuple[str, bool]]:
        """Yield each file and folder name, and whether it is a folder. Symlinks are skipped."""
        with os.scandir(folder_fd) as entries:
            for entry in entries:
                self._entry_count += 1
                if self._entry_count > ENTRIES_MAX:
                    self.cut_reason = f"only the first {ENTRIES_MAX} files and folders were looked at"
                    return
                if entry.name == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, True
                elif entry.is_file(follow_symlinks=False):
                    yield entry.name, False

    def _is_over(self) -> bool:
        if self._should_stop():
            self.cut_reason = "it was stopped"
        elif time.monotonic() > self._deadline:
            self.cut_reason = f"it was stopped after {WALK_SECONDS_MAX:g} s"
        return bool(self.cut_reason)


# --- .gitignore, as git reads it -----------------------------------------------------------------


class IgnoreRule(msgspec.Struct, frozen=True):
    """One line of a .gitignore. `matches` takes the path components below the folder of the file."""

    is_negated: bool
    is_folders_only: bool
    matches: Callable[[Sequence[str]], bool]


def parse_rules(text: str) -> list[IgnoreRule]:
    lines = text.removeprefix("\ufeff").split("\n")[:IGNORE_RULES_MAX]
    return [rule for line in lines if (rule := _parse_rule(line.removesuffix("\r"))) is not None]


def _parse_rule(line: str) -> IgnoreRule | None:
    if line.startswith("#"):
        return None
    line = _strip_trailing_spaces(line)
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    if "/" not in line:
        name = compile_component(line)
        return IgnoreRule(negated, folders_only, lambda steps: name(steps[-1]))
    return IgnoreRule(negated, folders_only, compile_components(split_components(line.removeprefix("/"))))


def _strip_trailing_spaces(line: str) -> str:
    """Strip trailing spaces, unless they are escaped."""
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


class IgnoreRules:
    """The rules that apply in one folder: those of its parents, then its own. The last matching rule decides."""

    __slots__ = ("_levels",)

    def __init__(self, levels: Sequence[tuple[int, list[IgnoreRule]]] = ()) -> None:
        self._levels = tuple(levels)  # depth of the folder, and its rules

    def with_rules(self, depth: int, text: str) -> IgnoreRules:
        """Return these rules with those of a deeper folder added."""
        rules = parse_rules(text)
        return IgnoreRules((*self._levels, (depth, rules))) if rules else self

    def is_ignored(self, components: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether a path is ignored. `components` are all names from the folder at depth 0 on."""
        for depth, rules in reversed(self._levels):
            for rule in reversed(rules):
                if rule.is_folders_only and not is_folder:
                    continue
                if rule.matches(components[depth:]):
                    return not rule.is_negated
        return False
