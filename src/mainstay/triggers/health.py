"""Health check of triggers: the event files that wait, and those that could not be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mainstay.core.health import CheckFinding
from mainstay.core.outcome_text import format_count


def check_event_files(folder: Path) -> Iterator[CheckFinding]:
    """Count the files of a folder of triggers, which may be missing."""
    if not folder.is_dir():
        return
    if waiting := len(list(folder.glob("*.json"))):
        yield CheckFinding("Triggers", "ok", f"{format_count(waiting, 'event file')} in {folder}")
    if failed := len(list((folder / "failed").glob("*.json"))):
        message = f"{format_count(failed, 'event file')} could not be used; the reasons are in {folder / 'failed'}"
        yield CheckFinding("Triggers", "warn", message, f"correct it and move it back to {folder}, or remove it")
