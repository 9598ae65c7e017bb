"""Pattern library: loads patterns from folders, with search and hot reload.

Readers use an immutable snapshot. A reload reads the changed files, builds the next snapshot and replaces the old one
by a single assignment, so that a search sees either of them, never a mixture. A file that cannot be read keeps its
last valid patterns and is reported.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from mainstay.core.memory_tiers import CONTEXT_ORIGIN, format_origin, is_untrusted
from mainstay.io.file_watcher import FileWatcher
from mainstay.patterns.folder import PatternFile, PatternFolder, read_folder
from mainstay.patterns.index import PatternIndex, PatternMatch
from mainstay.patterns.pattern_template import InstructionPattern, PatternFileProblem

log = logging.getLogger("mainstay.patterns")

PATTERNS_MAX = 20_000
DEBOUNCE_S = 0.05
LOGGED_PROBLEMS_MAX = 10
ORIGIN_PREFIX = f"{CONTEXT_ORIGIN}:pattern:"


class PatternSnapshot(msgspec.Struct, frozen=True):
    """Contents of a library at one moment. `patterns` is sorted by name."""

    patterns: Mapping[str, InstructionPattern]
    index: PatternIndex
    problems: tuple[PatternFileProblem, ...] = ()


class PatternChanges(msgspec.Struct, frozen=True):
    """Result of a reload: names of patterns, in order. `problems` are all current ones."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problems: tuple[PatternFileProblem, ...] = ()


EMPTY_SNAPSHOT = PatternSnapshot(MappingProxyType({}), PatternIndex((), ()))


class PatternLibrary:
    """Patterns of several folders, broadest first: a later folder's pattern replaces one of the same name."""

    def __init__(
        self,
        folders: Sequence[str],
        *,
        on_change: Callable[[PatternChanges], None] | None = None,
        file_origin: Callable[[str], str] = lambda path: "",
    ) -> None:
        """`file_origin` returns a file's recorded origin: a file that a tainted agent wrote is not trusted.

        `on_change` is called in the thread that reloads.
        """
        self.folders = tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(folder)) for folder in folders))
        self.on_change = on_change
        self.snapshot = EMPTY_SNAPSHOT
        self._file_origin = file_origin
        self._lock = threading.Lock()  # one reload at a time; reading needs none
        self._folder_states: dict[str, PatternFolder] = {}
        self._watch: FileWatcher | None = None

    def load(self) -> PatternSnapshot:
        """Read all files for the first time. Errors are in the snapshot's problems."""
        self.reload()
        return self.snapshot

    def reload(self) -> PatternChanges:
        """Read the files that changed, and return what changed. Thread-safe."""
        with self._lock:
            before = self.snapshot
            folders = {folder: read_folder(folder, self._folder_states.get(folder)) for folder in self.folders}
            if not self._folder_states or any(
                not new.is_same(self._folder_states[folder]) for folder, new in folders.items()
            ):
                self.snapshot = _build_snapshot(list(folders.values()))
            self._folder_states = folders
            changes = _compare_snapshots(before, self.snapshot)
        _log_new_problems(before.problems, changes.problems)
        if self.on_change is not None and changes != PatternChanges(problems=before.problems):
            self.on_change(changes)
        return changes

    def match(self, text: str, limit: int, threshold: float) -> list[PatternMatch]:
        return self.snapshot.index.match(text, limit, threshold)

    def pattern_origin(self, pattern: InstructionPattern) -> str:
        """Return the origin label for the journal: trusted, unless the file's recorded origin is untrusted."""
        source = f"{ORIGIN_PREFIX}{pattern.name}"
        label = self._file_origin(os.path.realpath(pattern.path))  # origins are recorded by real path
        return format_origin(source, untrusted=True) if is_untrusted(label) else source

    def start_watching(self) -> None:
        """Start a thread that reloads after every change of the files."""
        if self._watch is None and self.folders:
            self._watch = FileWatcher(self.folders, self._on_files_changed, debounce_s=DEBOUNCE_S)
            self._watch.start()

    def close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _on_files_changed(self) -> None:
        self.reload()


def _log_new_problems(before: Sequence[PatternFileProblem], now: Sequence[PatternFileProblem]) -> None:
    new = [problem for problem in now if problem not in set(before)]
    for problem in new[:LOGGED_PROBLEMS_MAX]:
        log.warning("%s", problem)
    if len(new) > LOGGED_PROBLEMS_MAX:
        log.warning(
            "%d more problems with patterns: `mainstay pattern validate` lists them", len(new) - LOGGED_PROBLEMS_MAX
        )


def _build_snapshot(folders: Sequence[PatternFolder]) -> PatternSnapshot:
    """Merge the folders, broadest first: a later folder wins; within a folder the first file wins, with a problem."""
    merged: dict[str, tuple[InstructionPattern, Mapping[str, float]]] = {}
    problems: list[PatternFileProblem] = []
    for folder in folders:
        problems += folder.problems
        names_in_folder: dict[str, InstructionPattern] = {}
        for file in folder.files.values():
            problems += file.problems
            _add_file(file, names_in_folder, merged, problems)
    names = sorted(merged)
    patterns = {name: merged[name][0] for name in names}
    index = PatternIndex(tuple(patterns.values()), [merged[name][1] for name in names])
    return PatternSnapshot(MappingProxyType(patterns), index, tuple(problems))


def _add_file(
    file: PatternFile,
    folder_patterns: dict[str, InstructionPattern],
    merged: dict[str, tuple[InstructionPattern, Mapping[str, float]]],
    problems: list[PatternFileProblem],
) -> None:
    for pattern, terms in file.entries:
        if (duplicate := folder_patterns.get(pattern.name)) is not None:
            reason = f"there is another pattern {pattern.name!r} in {duplicate.path}, which is used"
            problems.append(PatternFileProblem(pattern.path, pattern.line, reason))
        elif len(merged) >= PATTERNS_MAX and pattern.name not in merged:
            reason = f"there are more than {PATTERNS_MAX} patterns, and {pattern.name!r} is left out"
            problems.append(PatternFileProblem(pattern.path, pattern.line, reason))
        else:
            folder_patterns[pattern.name] = pattern
            merged[pattern.name] = pattern, terms


def _compare_snapshots(old: PatternSnapshot, new: PatternSnapshot) -> PatternChanges:
    before, after = old.patterns, new.patterns
    return PatternChanges(
        added=tuple(name for name in after if name not in before),
        changed=tuple(
            name for name, pattern in after.items() if name in before and not pattern.has_same_content(before[name])
        ),
        removed=tuple(name for name in before if name not in after),
        problems=new.problems,
    )
