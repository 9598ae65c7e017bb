"""In-memory file labels (origin and creating session), for agents without a home and as a cache for stored labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.tool_ports import FileOriginLabel

LABELS_MAX = 200_000


class InMemoryFileLabels:
    """The FileLabelStore port in memory."""

    def __init__(self, labels: Sequence[FileOriginLabel] = ()) -> None:
        self._labels: dict[str, FileOriginLabel] = {}  # by path, least recently set first
        self._untrusted_counts: dict[str, int] = {}  # by folder: number of untrusted files in it at any depth
        for label in labels:
            self._set(label)

    def get(self, path: str) -> FileOriginLabel | None:
        return self._labels.get(path)

    def has_untrusted(self, folder: str) -> bool:
        return (folder.rstrip("/") or "/") in self._untrusted_counts

    async def clear_session(self, session: str) -> None:
        labels = [label for label in self._labels.values() if label.session == session]
        await self.save([msgspec.structs.replace(label, session="") for label in labels])

    async def save(self, labels: Sequence[FileOriginLabel]) -> None:
        self._save_evicting(labels)

    async def remove(self, paths: Sequence[str]) -> None:
        self._remove(paths)

    def _save_evicting(self, labels: Sequence[FileOriginLabel]) -> list[str]:
        """Save labels and return the paths evicted for them: the oldest trusted ones, whose files then count as
        untrusted."""
        for label in labels:
            self._set(label)
        over = len(self._labels) - LABELS_MAX
        if over <= 0:
            return []
        clean = (path for path, label in self._labels.items() if not is_untrusted(label.origin))
        evicted = [path for path, _ in zip(clean, range(over), strict=False)]
        self._remove(evicted)
        return evicted

    def _set(self, label: FileOriginLabel) -> None:
        self._remove((label.path,))  # so that the most recent is last
        self._labels[label.path] = label
        if is_untrusted(label.origin):
            for folder in _path_and_parents(label.path):
                self._untrusted_counts[folder] = self._untrusted_counts.get(folder, 0) + 1

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            old = self._labels.pop(path, None)
            if old is not None and is_untrusted(old.origin):
                for folder in _path_and_parents(path):
                    self._untrusted_counts[folder] -= 1
                    if not self._untrusted_counts[folder]:
                        del self._untrusted_counts[folder]


def _path_and_parents(path: str) -> Iterator[str]:
    """Yield the path itself and all folders that contain it."""
    while path and path != "/":
        yield path
        path = path.rpartition("/")[0]
    yield "/"
