"""The patterns of a few folders, and what becomes of them when their files change.

What is in use is one immutable snapshot. A reload reads the files that have changed, builds the next snapshot beside
it and puts it in place by one assignment: whoever searches has the old one or the new one, and never half of either.
A file that cannot be read keeps what it said last, and says why.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from mainstay.core.recall import NOTE, is_untrusted, origin_of
from mainstay.io.watch import Watch
from mainstay.patterns.files import File, Look, look
from mainstay.patterns.index import Index, Match
from mainstay.patterns.pattern import Pattern
from mainstay.patterns.read import Trouble

log = logging.getLogger("mainstay.patterns")

PATTERNS_MAX = 20_000
DEBOUNCE_S = 0.05
LOGGED_MAX = 10


class Snapshot(msgspec.Struct, frozen=True):
    """What a library holds at one moment, by name and in the order of names."""

    patterns: Mapping[str, Pattern]
    index: Index
    troubles: tuple[Trouble, ...] = ()


class Changed(msgspec.Struct, frozen=True):
    """What a reload brought: names, in order. `troubles` are all that there are now."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()


NOTHING = Snapshot(MappingProxyType({}), Index((), ()))


class Library:
    """`folders` are given with the broadest first: a pattern of a later one takes the place of its namesake."""

    def __init__(
        self,
        folders: Sequence[str],
        *,
        on_change: Callable[[Changed], None] | None = None,
        labels: Callable[[str], str] = lambda path: "",
    ) -> None:
        """`labels` says where a file's words are from: what an agent wrote that had read something from outside is
        not its owner's. `on_change` is called from the thread that reloads."""
        self.folders = tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(folder)) for folder in folders))
        self.on_change = on_change
        self.snapshot = NOTHING
        self._labels = labels
        self._lock = threading.Lock()  # one reload at a time; reading needs none
        self._looks: dict[str, Look] = {}
        self._watch: Watch | None = None

    def load(self) -> Snapshot:
        """Read everything for the first time. Whatever is wrong is among the snapshot's troubles."""
        self.reload()
        return self.snapshot

    def reload(self) -> Changed:
        """Look at the files, read those that changed, and say what came of it."""
        with self._lock:
            before = self.snapshot
            looks = {folder: look(folder, self._looks.get(folder)) for folder in self.folders}
            if not self._looks or any(not new.same(self._looks[folder]) for folder, new in looks.items()):
                self.snapshot = _made(list(looks.values()))
            self._looks = looks
            report = _compared(before, self.snapshot)
        _log(before.troubles, report.troubles)
        if self.on_change is not None and report != Changed(troubles=before.troubles):
            self.on_change(report)
        return report

    def match(self, text: str, limit: int, threshold: float) -> list[Match]:
        return self.snapshot.index.match(text, limit, threshold)

    def origin(self, pattern: Pattern) -> str:
        """For the journal: the owner's own words, unless the file is known to hold somebody else's."""
        source = f"{NOTE}:pattern:{pattern.name}"
        label = self._labels(os.path.realpath(pattern.path))  # labels know files by what they really are
        return origin_of(source, untrusted=True) if is_untrusted(label) else source

    def watch(self) -> None:
        """From now on every change is loaded, by a thread of its own."""
        if self._watch is None and self.folders:
            self._watch = Watch(self.folders, self._noticed, debounce_s=DEBOUNCE_S)
            self._watch.start()

    def close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _noticed(self) -> None:
        self.reload()


def _log(before: Sequence[Trouble], now: Sequence[Trouble]) -> None:
    fresh = [trouble for trouble in now if trouble not in set(before)]
    for trouble in fresh[:LOGGED_MAX]:
        log.warning("%s", trouble)
    if len(fresh) > LOGGED_MAX:
        log.warning("%d more pattern files or patterns cannot be used as they are", len(fresh) - LOGGED_MAX)


def _made(looks: Sequence[Look]) -> Snapshot:
    """The broadest first: the narrower wins. Within a folder the first file does, and the other one is told."""
    found: dict[str, tuple[Pattern, Mapping[str, float]]] = {}
    troubles: list[Trouble] = []
    for one in looks:
        troubles += one.troubles
        here: dict[str, Pattern] = {}
        for file in one.files.values():
            troubles += file.troubles
            _take(file, here, found, troubles)
    names = sorted(found)
    patterns = {name: found[name][0] for name in names}
    index = Index(tuple(patterns.values()), [found[name][1] for name in names])
    return Snapshot(MappingProxyType(patterns), index, tuple(troubles))


def _take(
    file: File,
    here: dict[str, Pattern],
    found: dict[str, tuple[Pattern, Mapping[str, float]]],
    troubles: list[Trouble],
) -> None:
    for pattern, terms in file.entries:
        if (other := here.get(pattern.name)) is not None:
            reason = f"there is another pattern {pattern.name!r} in {other.path}, which is used"
            troubles.append(Trouble(pattern.path, pattern.line, reason))
        elif len(found) >= PATTERNS_MAX and pattern.name not in found:
            reason = f"there are more than {PATTERNS_MAX} patterns, and {pattern.name!r} is left out"
            troubles.append(Trouble(pattern.path, pattern.line, reason))
        else:
            here[pattern.name] = pattern
            found[pattern.name] = pattern, terms


def _compared(old: Snapshot, new: Snapshot) -> Changed:
    before, after = old.patterns, new.patterns
    return Changed(
        added=tuple(name for name in after if name not in before),
        changed=tuple(name for name, one in after.items() if name in before and not one.same(before[name])),
        removed=tuple(name for name in before if name not in after),
        troubles=new.troubles,
    )
