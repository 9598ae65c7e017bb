"""Being told when something below a folder has changed.

The truth is a look at what is there, every few seconds: that works on disks of other machines, for folders that do not
exist yet or were replaced, and where the system has no watches left. The system's own notifications only make it fast.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

log = logging.getLogger("mainstay.watch")

ENTRIES_MAX = 50_000
DEPTH_MAX = 32
CLOSE_S = 0.4
AGAIN_S = 60.0  # after which notifications are asked for once more where they could not be had
_STEP_MS = 30  # how often the library looks whether it was notified; at most two of them pass before it says so
_SETTLED_NS = 2_000_000_000  # a file written this recently may be written again without its times showing it

Mark = tuple[int, ...]
Look = dict[str, Mark]


class Watch:
    """Calls `changed` from a thread of its own: once when it has begun to watch, and then some time after something
    below one of the folders was added, removed, renamed or written; now and then also without a cause.

    What happens while `changed` runs is told by the next call. Folders whose names begin with a dot are not looked
    into; links to files are followed, links to folders below a watched one are not.
    """

    def __init__(
        self, folders: Sequence[str], changed: Callable[[], None], *, debounce_s: float = 0.1, poll_s: float = 2.0
    ) -> None:
        """Changes that come together are told together, `debounce_s` after the first at the latest."""
        self._folders = tuple(dict.fromkeys(os.path.abspath(folder) for folder in folders))
        self._changed = changed
        self._poll_s = poll_s
        self._debounce_ms = max(1, int(debounce_s * 1000))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._said = ""
        self._cut = False

    def start(self) -> None:
        """Returns at once; a second time does nothing."""
        if self._thread is not None or self._stop.is_set():
            return
        thread = threading.Thread(target=self._run, name="mainstay-watch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread can be had: then changes are seen at the next start
            self._complain("Changes in %s are not noticed: %s", error)
            return
        self._thread = thread

    def close(self) -> None:
        """`changed` is not called any more, unless it is running longer than we wait here."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_S)

    def _run(self) -> None:
        notices = _Notices(self._complain)
        try:
            notices.follow(self._folders)
            seen, young = self._look()
            self._tell()
            while not self._stop.is_set():
                notified = notices.wait(self._debounce_ms, self._poll_s, self._stop)
                notices.follow(self._folders)
                if notified:  # the next look finds a difference, and tells once more in case something was lost
                    self._tell()
                    continue
                now, still_young = self._look()
                # What was just written may have been written again unseen, so it is told once more when it has settled.
                if now != seen or (young and not still_young):
                    self._tell()
                seen, young = now, still_young
        finally:
            notices.close()

    def _tell(self) -> None:
        if self._stop.is_set():
            return
        try:
            self._changed()
        except Exception:  # it is somebody else's and may raise anything; watching goes on
            log.exception("What was to be done about a change failed.")

    def _look(self) -> tuple[Look, bool]:
        """All that is there now, and whether something of it is so new that its times say little."""
        found: Look = {}
        for folder in self._folders:
            found[folder] = _identity(folder)
            if not _look_into(folder, DEPTH_MAX, found) and not self._cut:
                self._cut = True
                log.warning("Only the first %d files below %s are watched.", ENTRIES_MAX, folder)
        now = time.time_ns()
        return found, any(len(mark) > 2 and abs(now - max(mark[2:])) < _SETTLED_NS for mark in found.values())

    def _complain(self, sentence: str, reason: object) -> None:
        if not self._said:
            self._said = sentence
            log.warning(sentence, ", ".join(self._folders), reason)


class _Notices:
    """The system's notifications, where they can be had. Waits all the same where not."""

    def __init__(self, complain: Callable[[str, object], None]) -> None:
        self._complain = complain
        self._source: Any = None
        self._roots: tuple[str, ...] = ()
        self._followed: tuple[tuple[str, Mark], ...] | None = None
        self._again_at = 0.0

    def follow(self, folders: Sequence[str]) -> None:
        """Those that exist, anew where one came, went or was replaced."""
        wanted = tuple((folder, mark) for folder in folders if (mark := _identity(folder)))
        missing = self._source is None and time.monotonic() >= self._again_at
        if wanted == self._followed and not (missing and wanted):
            return
        self.close()
        self._followed = wanted
        if not wanted:
            return
        self._roots = tuple(os.path.realpath(folder) for folder, _ in wanted)
        try:
            from watchfiles._rust_notify import RustNotify  # 40 ms, and only here: the thread is its own

            self._source = RustNotify(list(self._roots), False, False, 1000, True, True)
        except (ImportError, OSError, RuntimeError) as error:
            self._give_up(error)

    def wait(self, debounce_ms: int, poll_s: float, stop: threading.Event) -> bool:
        """Whether there was a notification before it was time to look anyway."""
        if self._source is None:
            stop.wait(poll_s)
            return False
        try:
            found = self._source.watch(debounce_ms, min(_STEP_MS, debounce_ms), max(1, int(poll_s * 1000)), stop)
        except (OSError, RuntimeError) as error:
            self._give_up(error)
            return True
        return not isinstance(found, str) and any(self._matters(path) for _, path in found)

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _give_up(self, error: Exception) -> None:
        self.close()
        self._again_at = time.monotonic() + AGAIN_S
        self._complain("The system does not tell of changes in %s, so they are looked for now and then: %s", error)

    def _matters(self, path: str) -> bool:
        root = next((root for root in self._roots if path.startswith(root)), "")
        return not any(step.startswith(".") for step in path[len(root) :].split("/")[:-1])


def _identity(folder: str) -> Mark:
    """Which folder it is; empty if there is none."""
    try:
        found = os.stat(folder)
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino


def _look_into(folder: str, depth: int, found: Look) -> bool:
    """False if there is more than is looked at."""
    inner: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= ENTRIES_MAX:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        found[entry.path] = (entry.inode(),)
                        inner.append(entry.path)
                else:
                    found[entry.path] = _mark(entry)
    except (OSError, ValueError):  # gone meanwhile, not ours to read, or not a name at all
        return True
    whole = bool(depth) or not inner
    for path in inner if depth else ():
        whole = _look_into(path, depth - 1, found) and whole
    return whole


def _mark(entry: os.DirEntry[str]) -> Mark:
    try:
        now = entry.stat()
    except OSError:  # a link that leads nowhere, or gone by now
        return ()
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
