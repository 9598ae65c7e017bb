"""A session with a workspace, for the tests of tools other than the file tools: real folders, real commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.events import Event, ToolProgress
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import FileOriginLabel, SessionFolders
from mainstay.tools.base import SessionFileAccess


class RecordedNotes:
    """What a watcher was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.came = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ToolProgress):
            self.notes.append(event.note)
            self.came.set()


def calling(session: str = "s", call: str = "c1", told: RecordedNotes | None = None) -> ToolContext:
    return ToolContext(session, 1, 1, call, told or RecordedNotes())


class KnownFiles:
    """Labels in a dict."""

    def __init__(self) -> None:
        self.known: dict[str, FileOriginLabel] = {}

    def get(self, path: str) -> FileOriginLabel | None:
        return self.known.get(path)

    def has_untrusted(self, folder: str) -> bool:
        return any(path.startswith(f"{folder}/") and label.origin for path, label in self.known.items())

    async def save(self, labels: Sequence[FileOriginLabel]) -> None:
        self.known.update({label.path: label for label in labels})

    async def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.known.pop(path, None)


class Workspace:
    """Folders on disk: `work` for everything, `scratch/<session>` for what is too long."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.work = self.root / "work"
        self.work.mkdir()
        self.labels = KnownFiles()
        self.files = SessionFileAccess(self.grounds, self.labels)

    def grounds(self, session: str) -> SessionFolders:
        scratch = self.root / "scratch" / session
        scratch.mkdir(parents=True, exist_ok=True)
        return SessionFolders(cwd=str(self.work), writable=(str(self.work),), scratch=str(scratch))


async def call(tool: Tool, context: ToolContext | None = None, /, **given: Any) -> str:
    return await tool.run(tool.parse(msgspec.json.encode(given).decode()), context or calling())


def running_with(marker: str) -> list[int]:
    """Processes whose command line holds this."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line:
                found.append(int(entry.name))
    return found
