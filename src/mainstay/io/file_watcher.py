"""File watcher: calls back when something below a folder has changed.

Polling every few seconds is the reliable part: it works on network disks, for folders that do not exist yet or were
replaced, and where the system has no inotify watches left. The system's notifications only make it fast.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstay.core.supervision import TaskHealth, run_supervised

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

log = logging.getLogger("mainstay.watch")

ENTRIES_MAX = 50_000
DEPTH_MAX = 32
CLOSE_TIMEOUT_S = 0.4
NOTIFICATION_RETRY_S = 60.0  # before retrying notifications that could not be set up
_STEP_MS = 30  # how often watchfiles checks for notifications; it reports after at most two steps
_RECENT_WRITE_NS = 2_000_000_000  # a file written this recently may be written again with the same timestamps

Fingerprint = tuple[int, ...]
FolderSnapshot = dict[str, Fingerprint]


class FileWatcher:
    """Calls `on_change` from its own thread: once when watching has begun, and then after something below one of the
    folders was added, removed, renamed or written; sometimes also without a change.

    Changes during a call of `on_change` cause another call. Folders whose names begin with a dot are skipped; symlinks
    to files are followed, symlinks to folders below a watched one are not.
    """

    def __init__(
        self, folders: Sequence[str], on_change: Callable[[], None], *, debounce_s: float = 0.1, poll_s: float = 2.0
    ) -> None:
        """Changes that come together cause one call, at the latest `debounce_s` after the first of them."""
        self._folders = tuple(dict.fromkeys(os.path.abspath(folder) for folder in folders))
        self._on_change = on_change
        self._poll_s = poll_s
        self._debounce_ms = max(1, int(debounce_s * 1000))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._warning = ""
        self._is_truncated = False

    def start(self) -> None:
        """Start the thread and return at once; a second call does nothing."""
        if self._thread is not None or self._stop.is_set():
            return
        health = TaskHealth(f"watcher of {', '.join(self._folders)}")
        thread = threading.Thread(
            target=run_supervised, args=(health, self._run, self._stop), name="mainstay-watch", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # no thread available: changes are seen at the next start
            self._warn_once("Changes in %s will not be noticed, because the watcher thread cannot start: %s", error)
            return
        self._thread = thread

    def close(self) -> None:
        """Stop watching. `on_change` is not called again, but may still run if it takes longer than CLOSE_TIMEOUT_S."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        notifications = _SystemNotifications(self._warn_once)
        try:
            notifications.watch(self._folders)
            seen, has_recent = self._take_snapshot()
            self._notify()
            while not self._stop.is_set():
                notified = notifications.wait(self._debounce_ms, self._poll_s, self._stop)
                notifications.watch(self._folders)
                if notified:  # the next snapshot differs and notifies once more, in case an event was lost
                    self._notify()
                    continue
                current, still_recent = self._take_snapshot()
                # A file just written may have been written again unseen, so notify once more when it has settled.
                if current != seen or (has_recent and not still_recent):
                    self._notify()
                seen, has_recent = current, still_recent
        finally:
            notifications.close()

    def _notify(self) -> None:
        if self._stop.is_set():
            return
        try:
            self._on_change()
        except Exception:  # the callback may raise anything; watching goes on
            log.exception("The callback for a file change failed.")

    def _take_snapshot(self) -> tuple[FolderSnapshot, bool]:
        """Return a snapshot, and whether it has a file so recent that its timestamps may not show the next write."""
        snapshot: FolderSnapshot = {}
        for folder in self._folders:
            snapshot[folder] = _folder_identity(folder)
            if not _scan_into(folder, DEPTH_MAX, snapshot) and not self._is_truncated:
                self._is_truncated = True
                log.warning(
                    "Only the first %d files below %s are watched; changes of the others will not be noticed.",
                    ENTRIES_MAX,
                    folder,
                )
        now = time.time_ns()
        return snapshot, any(
            len(mark) > 2 and abs(now - max(mark[2:])) < _RECENT_WRITE_NS for mark in snapshot.values()
        )

    def _warn_once(self, message: str, reason: object) -> None:
        if not self._warning:
            self._warning = message
            log.warning(message, ", ".join(self._folders), reason)


class _SystemNotifications:
    """File notifications of the operating system (by watchfiles). Without them, `wait` only waits."""

    def __init__(self, on_warning: Callable[[str, object], None]) -> None:
        self._on_warning = on_warning
        self._notifier: RustNotify | None = None
        self._roots: tuple[str, ...] = ()
        self._watched: tuple[tuple[str, Fingerprint], ...] | None = None
        self._retry_at = 0.0

    def watch(self, folders: Sequence[str]) -> None:
        """Watch the folders that exist; start over if one was created, removed or replaced."""
        existing = tuple((folder, mark) for folder in folders if (mark := _folder_identity(folder)))
        missing = self._notifier is None and time.monotonic() >= self._retry_at
        if existing == self._watched and not (missing and existing):
            return
        self.close()
        self._watched = existing
        if not existing:
            return
        self._roots = tuple(os.path.realpath(folder) for folder, _ in existing)
        try:
            # takes 40 ms, so it is imported here, in the watcher's thread
            from watchfiles._rust_notify import RustNotify

            self._notifier = RustNotify(list(self._roots), False, False, 1000, True, True)
        except (ImportError, OSError, RuntimeError) as error:
            self._fall_back_to_polling(error)

    def wait(self, debounce_ms: int, poll_s: float, stop: threading.Event) -> bool:
        """Wait for a notification, at most `poll_s`; return whether there was one."""
        if self._notifier is None:
            stop.wait(poll_s)
            return False
        try:
            changes = self._notifier.watch(debounce_ms, min(_STEP_MS, debounce_ms), max(1, int(poll_s * 1000)), stop)
        except (OSError, RuntimeError) as error:
            self._fall_back_to_polling(error)
            return True
        return not isinstance(changes, str) and any(self._is_relevant(path) for _, path in changes)

    def close(self) -> None:
        source, self._notifier = self._notifier, None
        if source is not None:
            source.close()

    def _fall_back_to_polling(self, error: Exception) -> None:
        self.close()
        self._retry_at = time.monotonic() + NOTIFICATION_RETRY_S
        self._on_warning("File notifications are not available for %s; polling instead: %s", error)

    def _is_relevant(self, path: str) -> bool:
        root = next((root for root in self._roots if path.startswith(root)), "")
        return not any(component.startswith(".") for component in path[len(root) :].split("/")[:-1])


def _folder_identity(folder: str) -> Fingerprint:
    """Return device and inode of a folder; empty if it does not exist."""
    try:
        status = os.stat(folder)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino


def _scan_into(folder: str, depth: int, snapshot: FolderSnapshot) -> bool:
    """Add all entries below the folder to `snapshot`; return False if a limit was reached."""
    subfolders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(snapshot) >= ENTRIES_MAX:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        snapshot[entry.path] = (entry.inode(),)
                        subfolders.append(entry.path)
                else:
                    snapshot[entry.path] = _entry_fingerprint(entry)
    except (OSError, ValueError):  # removed meanwhile, not readable, or not a valid name
        return True
    is_complete = bool(depth) or not subfolders
    for path in subfolders if depth else ():
        is_complete = _scan_into(path, depth - 1, snapshot) and is_complete
    return is_complete


def _entry_fingerprint(entry: os.DirEntry[str]) -> Fingerprint:
    try:
        status = entry.stat()
    except OSError:  # a dangling symlink, or removed meanwhile
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
