"""Health check of event files."""

from __future__ import annotations

from pathlib import Path

from mainstay.triggers.health import check_event_files


def test_waiting_and_unusable_event_files_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    assert list(check_event_files(folder)) == []
    (folder / "failed").mkdir(parents=True)
    assert list(check_event_files(folder)) == []
    (folder / "daily.json").touch()
    for name in ("a.json", "b.json", "a.reason.txt"):
        (folder / "failed" / name).touch()
    waiting, failed = check_event_files(folder)
    assert (waiting.check, waiting.verdict, waiting.message) == ("Triggers", "ok", f"1 event file in {folder}")
    assert (failed.verdict, failed.message.partition(";")[0]) == ("warn", "2 event files could not be used")
