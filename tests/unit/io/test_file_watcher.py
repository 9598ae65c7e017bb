"""Notifications about changed files: by the system where it has watches, by polling where it does not."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainstay.io.file_watcher import FileWatcher

SOON_S = 120.0  # for what must happen, on a loaded machine
SCRIPT_S = 280.0  # for a process that waits for several of these


class ChangeCounter:
    """Counts what was told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.calls = 0
        self._condition = threading.Condition()

    def __call__(self) -> None:
        with self._condition:
            self.calls += 1
            self._condition.notify_all()

    def more_than(self, calls: int) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: self.calls > calls, SOON_S)


@pytest.fixture
def change_counter() -> ChangeCounter:
    return ChangeCounter()


@pytest.fixture
def watch(change_counter: ChangeCounter) -> Iterator[Callable[..., FileWatcher]]:
    begun: list[FileWatcher] = []

    def begin(*folders: Path, poll_s: float = 2.0) -> FileWatcher:
        watch = FileWatcher([str(folder) for folder in folders], change_counter, poll_s=poll_s)
        begun.append(watch)
        watch.start()
        assert change_counter.more_than(0), "it tells once that it has begun"
        return watch

    yield begin
    for one in begun:
        one.close()


CHANGES = {
    "added": lambda folder: (folder / "new.yaml").write_text("new"),
    "written": lambda folder: (folder / "old.yaml").write_text("other"),
    "rewritten with as many bytes": lambda folder: (folder / "old.yaml").write_text("OLD"),
    "removed": lambda folder: (folder / "old.yaml").unlink(),
    "renamed": lambda folder: (folder / "old.yaml").rename(folder / "other.yaml"),
    "moved into place": lambda folder: os.replace(folder.parent / "outside.yaml", folder / "old.yaml"),
    "written in a folder below": lambda folder: (folder / "below" / "deep.yaml").write_text("deeper"),
    "made in a new folder": lambda folder: ((folder / "new").mkdir(), (folder / "new" / "x.yaml").write_text("x")),
}


@pytest.mark.parametrize("poll_s", [2.0, 60.0], ids=["also by looking", "by notice alone"])
@pytest.mark.parametrize("change", CHANGES, ids=[name.replace(" ", "-") for name in CHANGES])
def test_changes_below_a_folder_are_reported(
    change: str, poll_s: float, tmp_path: Path, change_counter: ChangeCounter, watch: Callable[..., FileWatcher]
) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "old.yaml").write_text("old")
    (folder / "below" / "deep.yaml").write_text("deep")
    (tmp_path / "outside.yaml").write_text("from outside")
    watch(folder, poll_s=poll_s)
    before = change_counter.calls
    CHANGES[change](folder)
    assert change_counter.more_than(before)


def test_changes_that_come_together_are_reported_together_every_tenth_of_a_second(
    tmp_path: Path, change_counter: ChangeCounter, watch: Callable[..., FileWatcher]
) -> None:
    """GUPPY-103: the debounce is 100 ms."""
    watch(tmp_path, poll_s=60.0)
    before, began = change_counter.calls, time.monotonic()
    number = 0
    while time.monotonic() - began < 0.6 or change_counter.calls - before < 3:
        (tmp_path / f"{number}.json").write_text("{}")
        number += 1
        time.sleep(0.003)
    took_s = time.monotonic() - began
    # every tenth of a second; on a loaded machine at least every two seconds
    assert took_s / 2 - 1 <= change_counter.calls - before <= took_s / 0.1 + 1


def test_a_folder_that_comes_later_is_watched_from_then_on(
    tmp_path: Path, change_counter: ChangeCounter, watch: Callable[..., FileWatcher]
) -> None:
    later = tmp_path / "not" / "yet"
    watch(tmp_path / "never", later, poll_s=0.05)
    before = change_counter.calls
    later.mkdir(parents=True)
    assert change_counter.more_than(before)
    before = change_counter.calls
    (later / "a.yaml").write_text("a")
    assert change_counter.more_than(before)


def test_a_folder_that_is_replaced_by_another_is_followed(
    tmp_path: Path, change_counter: ChangeCounter, watch: Callable[..., FileWatcher]
) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    watch(folder, poll_s=0.05)
    before = change_counter.calls
    folder.rename(tmp_path / "away")
    other.rename(folder)
    assert change_counter.more_than(before)
    before = change_counter.calls
    (folder / "in-the-new-one.yaml").write_text("new")
    assert change_counter.more_than(before)


def test_a_link_to_a_file_tells_when_what_it_leads_to_changes(
    tmp_path: Path, change_counter: ChangeCounter, watch: Callable[..., FileWatcher]
) -> None:
    folder, target = tmp_path / "folder", tmp_path / "target.yaml"
    folder.mkdir()
    target.write_text("a")
    (folder / "link.yaml").symlink_to(target)
    watch(folder, poll_s=0.05)
    before = change_counter.calls
    target.write_text("abc")
    assert change_counter.more_than(before)


def test_a_callback_that_raises_does_not_end_the_watching(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = ChangeCounter()

    def changed() -> None:
        told()
        raise ValueError("a bug of whoever listens")

    watch = FileWatcher([str(tmp_path)], changed, poll_s=0.05)
    watch.start()
    try:
        assert told.more_than(0)
        before = told.calls
        (tmp_path / "a.yaml").write_text("a")
        assert told.more_than(before)
    finally:
        watch.close()
    assert "The callback for a file change failed." in caplog.text


def test_closing_is_quick_and_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    """In a process of its own, where no other code opens anything."""
    script = f"""
import os, threading, time
from mainstay.io.file_watcher import FileWatcher
def open_now():
    descriptors = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else os.listdir("/dev/fd")
    return len(descriptors)
begun = threading.Event()
first = FileWatcher([{str(tmp_path)!r}], begun.set)
first.start()
begun.wait(120)
first.close()  # what the library keeps for good has been opened by now
until = time.monotonic() + 120
while threading.active_count() > 1 and time.monotonic() < until:
    pass
before = open_now()
for _ in range(5):
    begun.clear()
    watch = FileWatcher([{str(tmp_path)!r}], begun.set, poll_s=600)
    watch.start()
    begun.wait(120)
    at = time.monotonic()
    watch.close()
    assert time.monotonic() - at < 120, "closing waits for no poll: the next one is in ten minutes"
    until = time.monotonic() + 120  # far sooner than the next poll
    while threading.active_count() > 1 and time.monotonic() < until:
        pass
    assert threading.active_count() == 1, threading.enumerate()
until = time.monotonic() + 120
while open_now() > before and time.monotonic() < until:  # the library closes its own in the background
    pass
assert open_now() <= before, (open_now(), before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SCRIPT_S, check=False)
    assert done.returncode == 0, done.stderr


def test_closing_from_within_the_callback_does_not_wait_for_itself(tmp_path: Path) -> None:
    closed = threading.Event()

    def changed() -> None:
        watch.close()
        closed.set()

    watch = FileWatcher([str(tmp_path)], changed)
    watch.start()
    assert closed.wait(SOON_S)
    watch.close()
    watch.start()  # does nothing any more


def test_where_the_system_has_no_watches_left_changes_are_looked_for_and_it_is_said_once(tmp_path: Path) -> None:
    """With two descriptors to spare a folder can be listed, but no notifications can be had."""
    script = f"""
import logging, os, resource, threading
import watchfiles._rust_notify
logging.basicConfig(format="%(message)s")
from mainstay.io.file_watcher import FileWatcher
told = threading.Semaphore(0)
top = max(int(name) for name in os.listdir("/dev/fd"))  # the listing's own is the highest
resource.setrlimit(resource.RLIMIT_NOFILE, (top + 2, top + 2))
watch = FileWatcher([{str(tmp_path)!r}], told.release, poll_s=0.05)
watch.start()
assert told.acquire(timeout=120)
for name in ("a", "b", "c"):
    os.mkdir(os.path.join({str(tmp_path)!r}, name))
    assert told.acquire(timeout=120)
watch.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SCRIPT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("File notifications are not available for") == 1


def test_changes_in_a_watched_hidden_folder_are_not_reported(
    tmp_path: Path, change_counter: ChangeCounter, watch: Callable[..., FileWatcher]
) -> None:
    hidden = tmp_path / ".git"
    hidden.mkdir()
    old = time.time() - 3600
    os.utime(hidden, (old, old))
    watch(tmp_path, poll_s=0.02)
    before = change_counter.calls
    for number in range(5):
        (hidden / f"{number}").write_text("x")
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:  # ten looks and several notices
        assert change_counter.calls == before


def test_an_idle_watcher_blocks_no_caller(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An unreadable folder is no error, and starting returns before anything was looked at."""
    returned, told = threading.Event(), ChangeCounter()
    early: list[bool] = []

    def changed() -> None:
        early.append(not returned.wait(SOON_S))
        told()

    with caplog.at_level(logging.WARNING):
        watch = FileWatcher([str(tmp_path / "none"), "/proc/1/fd", "bad\x00name"], changed)
        watch.start()
        returned.set()
        assert told.more_than(0)
        watch.close()
    assert not any(early), "starting waited for the first call"
    assert "Exception" not in caplog.text
