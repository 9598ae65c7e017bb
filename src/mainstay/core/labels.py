"""What is known of files, held in memory: as it is for an agent that keeps nothing, and beneath whatever keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mainstay.core.outside import FileLabel
from mainstay.core.recall import is_untrusted

LABELS_MAX = 200_000


class MemoryLabels:
    """The Labels port for as long as the process lives."""

    def __init__(self, labels: Sequence[FileLabel] = ()) -> None:
        self._labels: dict[str, FileLabel] = {}
        self._folders: dict[str, int] = {}  # how many files in a folder, at any depth, come from outside
        for label in labels:
            self._set(label)

    def get(self, path: str) -> FileLabel | None:
        return self._labels.get(path)

    def any_untrusted(self, folder: str) -> bool:
        return (folder.rstrip("/") or "/") in self._folders

    async def disown(self, session: str) -> None:
        made = [msgspec.structs.replace(one, session="") for one in self._labels.values() if one.session == session]
        await self.put(made)

    async def put(self, labels: Sequence[FileLabel]) -> None:
        self._put(labels)

    async def remove(self, paths: Sequence[str]) -> None:
        self._remove(paths)

    def _put(self, labels: Sequence[FileLabel]) -> list[str]:
        """The paths that had to go for these: the oldest of what the agent wrote, which then counts as from outside."""
        for label in labels:
            self._set(label)
        over = len(self._labels) - LABELS_MAX
        if over <= 0:
            return []
        clean = (path for path, label in self._labels.items() if not is_untrusted(label.origin))
        gone = [path for path, _ in zip(clean, range(over), strict=False)]
        self._remove(gone)
        return gone

    def _set(self, label: FileLabel) -> None:
        self._remove((label.path,))  # so that the newest is last
        self._labels[label.path] = label
        if is_untrusted(label.origin):
            for folder in _above(label.path):
                self._folders[folder] = self._folders.get(folder, 0) + 1

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            old = self._labels.pop(path, None)
            if old is not None and is_untrusted(old.origin):
                for folder in _above(path):
                    self._folders[folder] -= 1
                    if not self._folders[folder]:
                        del self._folders[folder]


def _above(path: str) -> Iterator[str]:
    """The folders that a file is in, and itself."""
    while path and path != "/":
        yield path
        path = path.rpartition("/")[0]
    yield "/"
