"""Previous contents of what turns changed, for undoing: one folder per turn, bounded in size, number and age.

A change is written to the turn's log, and the previous content kept, before the change is made. So a crash at any
moment leaves a log from which the turn can be undone. Nothing is synced: after a power cut the newest entries may be
missing, and a content that is not complete is noticed by its size or its hash.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mainstay.core.file_changes import EntryLocation, EntryState, NewEntry
from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.limits import Limits
from mainstay.core.tool_ports import FileOriginLabel
from mainstay.core.tree_removal import remove_tree
from mainstay.io.paths import encode_folder_name

log = logging.getLogger("mainstay")

HASHED_BYTES_MAX = 4 * 1024 * 1024  # a larger file counts as unchanged if its size and time of change are the same
NOT_KEPT_NAMED_MAX = 20
# Folders that programs fill with what they can compute again.
_CACHE_FOLDERS = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"))
_LOG = "log"
_OMITTED = "omitted"  # one byte for each path that was not recorded
_UNDONE = "undone"
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOB_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_COPY_BYTES = 1024 * 1024

GetLabel = Callable[[str], FileOriginLabel | None]


class PathChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of one path. It is written down before it is made."""

    path: str  # absolute, without symbolic links
    before: EntryState
    after: EntryState
    label: FileOriginLabel | None = None  # the label of the previous content
    is_label_valid: bool = False  # the label was for exactly that content


class UndoStore:
    """The kept contents of one workspace's sessions, in a folder that only the owner may read."""

    def __init__(self, folder: str, limits: Limits, now_s: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.limits = limits
        self._now_s = now_s
        self._lock = threading.Lock()
        self._sizes: dict[str, int] | None = None  # kept bytes by turn folder; None: not counted yet

    # --- recording -------------------------------------------------------------------------------

    def recorder(
        self, session: str, turn: int, get_label: GetLabel, ignored: tuple[str, ...] = ()
    ) -> TurnChangeRecorder:
        """Return what records the changes of a turn; those in the `ignored` folders are not recorded."""
        return TurnChangeRecorder(self, self._turn_folder(session, turn), get_label, ignored)

    def reserve(self, turn_folder: str, size: int) -> bool:
        """Return whether so many more bytes of a turn may be kept. Drops the oldest turns if the workspace is full."""
        with self._lock:
            sizes = self._count_sizes()
            used = sizes.get(turn_folder, 0)
            if used + size > self.limits.undo_turn_bytes_max or size > self.limits.undo_workspace_bytes_max:
                return False
            excess = sum(sizes.values()) + size - self.limits.undo_workspace_bytes_max
            for folder in sorted(sizes, key=_modified_at) if excess > 0 else ():
                if excess > 0 and folder != turn_folder:
                    excess -= sizes.pop(folder)
                    remove_tree(folder)
            if excess > 0:
                return False
            sizes[turn_folder] = used + size
            return True

    def release(self, turn_folder: str, size: int) -> None:
        """Give back what `reserve` returned True for."""
        with self._lock:
            sizes = self._count_sizes()
            sizes[turn_folder] = max(sizes.get(turn_folder, 0) - size, 0)

    def prepare_turn(self, turn_folder: str) -> None:
        """Create the folder of a turn, and drop the turns that are too old. Raises OSError."""
        if not os.path.isdir(turn_folder):
            self.drop_expired()
            for folder in (self.folder, os.path.dirname(turn_folder), turn_folder):
                os.makedirs(folder, mode=0o700, exist_ok=True)
        elif os.path.exists(f"{turn_folder}/{_UNDONE}") and not os.path.exists(f"{turn_folder}/{_LOG}"):
            os.unlink(f"{turn_folder}/{_UNDONE}")  # a background command of the turn changes files after the undo

    def drop_expired(self) -> None:
        """Drop the turns that are older than the limit."""
        oldest_s = self._now_s() - self.limits.undo_kept_s
        with self._lock:
            for folder in [folder for folder in self._count_sizes() if _modified_at(folder) < oldest_s]:
                self._count_sizes().pop(folder)
                remove_tree(folder)

    def _count_sizes(self) -> dict[str, int]:
        if self._sizes is None:
            self._sizes = {folder: _folder_bytes(folder) for folder in self._iter_turn_folders()}
        return self._sizes

    def _iter_turn_folders(self) -> Iterator[str]:
        for session in _list_names(self.folder):
            for turn in _list_names(f"{self.folder}/{session}"):
                yield f"{self.folder}/{session}/{turn}"

    # --- reading ---------------------------------------------------------------------------------

    def list_turn_numbers(self, session: str) -> list[int]:
        """Return the turns of a session that changed files, the newest first."""
        self.drop_expired()
        numbers = [int(name) for name in _list_names(self._session_folder(session)) if name.isdecimal()]
        return sorted(numbers, reverse=True)

    def changed_at_ms(self, session: str, turn: int) -> int:
        return round(_modified_at(self._turn_folder(session, turn)) * 1000)

    def count_kept_bytes(self, session: str, turn: int) -> int:
        return _folder_bytes(self._turn_folder(session, turn))

    def is_undone(self, session: str, turn: int) -> bool:
        return os.path.exists(f"{self._turn_folder(session, turn)}/{_UNDONE}")

    def read_changes(self, session: str, turn: int) -> list[PathChange]:
        """Return the changes of a turn in order. What a crash left incomplete is skipped."""
        return read_log(self._turn_folder(session, turn))

    def count_omitted(self, session: str, turn: int) -> int:
        """Return how many changed paths were not recorded."""
        try:
            return os.stat(f"{self._turn_folder(session, turn)}/{_OMITTED}").st_size
        except OSError:
            return 0

    def read_blob(self, session: str, turn: int, state: EntryState) -> bytes | None:
        """Return a kept content; None if it was not kept, or is damaged."""
        if not state.blob:
            return None
        try:
            with open(f"{self._turn_folder(session, turn)}/{state.blob}", "rb") as file:
                data = file.read(state.size + 1)
        except OSError:
            return None
        is_whole = len(data) == state.size and state.sha256 in ("", hashlib.sha256(data).hexdigest())
        return data if is_whole else None

    # --- removing --------------------------------------------------------------------------------

    def mark_undone(self, session: str, turn: int, refused: set[str]) -> None:
        """Drop what was restored of a turn, and keep what was refused: it can be tried again by the turn's number."""
        folder = self._turn_folder(session, turn)
        kept = [change for change in self.read_changes(session, turn) if change.path in refused]
        if not kept:
            self._leave_mark(folder)
            return
        try:
            draft = f"{folder}/{_LOG}.part"
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(b"".join(b"\n" + msgspec.json.encode(change) for change in kept))
            os.replace(draft, f"{folder}/{_LOG}")
            os.close(os.open(f"{folder}/{_UNDONE}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            blobs = {change.before.blob for change in kept}
            for name in set(_list_names(folder)) - blobs - {_LOG, _OMITTED, _UNDONE}:
                os.unlink(f"{folder}/{name}")
        except OSError as error:
            log.warning("the kept contents of turn %d could not be tidied up: %s", turn, error)
        with self._lock:
            self._count_sizes()[folder] = _folder_bytes(folder)

    def _leave_mark(self, folder: str) -> None:
        """Remove everything that was kept for a turn but the mark that says that it was undone."""
        with self._lock:
            self._count_sizes()[folder] = 0
            remove_tree(folder)
            try:
                os.mkdir(folder, 0o700)
                os.close(os.open(f"{folder}/{_UNDONE}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            except OSError as error:
                log.warning("a turn that was undone could not be marked: %s", error)

    def remove_session(self, session: str) -> None:
        """Remove everything that is kept for a deleted session."""
        folder = self._session_folder(session)
        with self._lock:
            self._sizes = {
                path: size for path, size in self._count_sizes().items() if not path.startswith(f"{folder}/")
            }
        remove_tree(folder)

    def _session_folder(self, session: str) -> str:
        return f"{self.folder}/{encode_folder_name(session)}"

    def _turn_folder(self, session: str, turn: int) -> str:
        return f"{self._session_folder(session)}/{turn}"


class TurnChangeRecorder:
    """Implements `ChangeRecorder` for the changes of one call. `not_kept` are paths whose content was not kept."""

    def __init__(self, store: UndoStore, folder: str, get_label: GetLabel, ignored: tuple[str, ...]) -> None:
        self._store = store
        self._folder = folder
        self._get_label = get_label
        self._ignored = tuple(f"{path}/" for path in ignored)
        self._labels: dict[str, FileOriginLabel | None] = {}
        self._recorded: dict[str, EntryState] | None = None  # the newest state by path in this turn; None: not loaded
        self.not_kept: list[tuple[str, int]] = []  # the first ones, with their sizes
        self.not_kept_count = 0

    def remember_labels(self, paths: Sequence[str]) -> None:
        """Note the labels of the previous contents before they are replaced by those of new ones."""
        for path in paths:
            self._labels.setdefault(path, self._get_label(path))

    def record(self, path: str, old: EntryLocation | None, new: NewEntry) -> None:
        if path.startswith(self._ignored) or not _CACHE_FOLDERS.isdisjoint(path.split("/")):
            return
        try:
            self._record(path, old, new)
        except (OSError, ValueError) as error:  # a full disk, a folder that cannot be created, a name that is no text
            log.warning("the previous content of %r cannot be kept: %s", path, error)
            self._note_not_kept(path, old)

    def _record(self, path: str, old: EntryLocation | None, new: NewEntry) -> None:
        if self._recorded is None:
            self._store.prepare_turn(self._folder)
            self._recorded = {change.path: change.after for change in read_log(self._folder)}
        recorded = self._recorded.get(path)
        if recorded is None and len(self._recorded) >= self._store.limits.undo_turn_paths_max:
            self._append(_OMITTED, b".")
            if old is not None:
                self._note_not_kept(path, old)
            return
        before, after = describe_location(old), describe_location(new)
        if isinstance(new, bytes):
            after = msgspec.structs.replace(after, mode=before.mode)
        if is_same_entry(before, after) and before.mode == after.mode:
            return
        if before.kind == "file" and before.size and (recorded is None or not is_same_entry(recorded, before)):
            assert old is not None
            before = msgspec.structs.replace(before, blob=self._keep(old))
            if not before.blob:
                self._note_not_kept(path, old)
        label = self._labels[path] if path in self._labels else self._get_label(path)
        valid = label is not None and old is not None and label.fingerprint in ("", compute_fingerprint(old.status))
        self._append(_LOG, b"\n" + msgspec.json.encode(PathChange(path, before, after, label, valid)))
        self._recorded[path] = after

    def _note_not_kept(self, path: str, old: EntryLocation | None) -> None:
        self.not_kept_count += 1
        if len(self.not_kept) < NOT_KEPT_NAMED_MAX:
            self.not_kept.append((path, old.status.st_size if old is not None else 0))

    def _append(self, name: str, data: bytes) -> None:
        file = os.open(f"{self._folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(file, data) != len(data):
                raise OSError("the disk is full")
        finally:
            os.close(file)

    def _keep(self, old: EntryLocation) -> str:
        """Copy a file's content; return the name of the copy, or "" if it does not fit. Raises OSError."""
        size = old.status.st_size
        if not self._store.reserve(self._folder, size):
            return ""
        blob = os.urandom(8).hex()
        try:
            _copy_file(old, f"{self._folder}/{blob}")
        except OSError:
            self._store.release(self._folder, size)
            raise
        return blob


def _copy_file(old: EntryLocation, target: str) -> None:
    # A copy, not a hard link: a file with a second name in the home would count as protected.
    source = os.open(old.name, _READ_FLAGS, dir_fd=old.folder_fd)
    try:
        copy = os.open(target, _BLOB_FLAGS, 0o600)
        try:
            _copy_content(source, copy, old.status.st_size)
        except OSError:
            os.unlink(target)
            raise
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy_content(source: int, target: int, size: int) -> None:
    """Copy the content; in the kernel where that works, which shares the blocks on some file systems."""
    copied = 0
    while copied < size:
        try:
            count = os.copy_file_range(source, target, size - copied)
        except OSError:
            count = 0
        if not count:
            break
        copied += count
    while copied < size:
        data = os.read(source, _COPY_BYTES)
        if not data:
            raise OSError("the file became shorter meanwhile")
        copied += os.write(target, data)


# --- states of entries ---------------------------------------------------------------------------


def describe_location(entry: NewEntry, hashed_bytes_max: int = HASHED_BYTES_MAX) -> EntryState:
    """Return the state of an entry; large files without the hash of their content. Raises OSError."""
    if entry is None:
        return EntryState()
    if isinstance(entry, EntryState):
        return entry
    if isinstance(entry, bytes):
        return EntryState("file", size=len(entry), sha256=hashlib.sha256(entry).hexdigest())
    status = entry.status
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return EntryState("link", target=os.readlink(entry.name, dir_fd=entry.folder_fd))
    if stat.S_ISDIR(status.st_mode):
        return EntryState("folder", mode)
    if not stat.S_ISREG(status.st_mode):
        return EntryState("other", mode)
    state = EntryState("file", mode, status.st_size, status.st_mtime_ns)
    if status.st_size > hashed_bytes_max:
        return state
    with os.fdopen(os.open(entry.name, _READ_FLAGS, dir_fd=entry.folder_fd), "rb") as file:
        return msgspec.structs.replace(state, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def is_same_entry(first: EntryState, second: EntryState) -> bool:
    """Return whether two states agree in everything but the permissions. Of a file without a hash, size and time of
    change are compared."""
    if first.kind != second.kind:
        return False
    match first.kind:
        case "file" if first.sha256 and second.sha256:
            return first.sha256 == second.sha256
        case "file":
            times = (first.mtime_ns, second.mtime_ns)
            return first.size == second.size and (0 in times or times[0] == times[1])
        case "link":
            return first.target == second.target
    return True


def read_log(turn_folder: str) -> list[PathChange]:
    changes: list[PathChange] = []
    try:
        with open(f"{turn_folder}/{_LOG}", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    for line in filter(None, lines):
        try:
            changes.append(msgspec.json.decode(line, type=PathChange))
        except msgspec.DecodeError:
            continue
    return changes


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _folder_bytes(folder: str) -> int:
    total = 0
    for name in _list_names(folder):
        if name not in (_LOG, _OMITTED, _UNDONE):
            try:
                total += os.lstat(f"{folder}/{name}").st_size
            except OSError:
                continue
    return total


def _modified_at(folder: str) -> float:
    """Return when a turn last changed something; 0 if there is no such turn."""
    try:
        return os.stat(f"{folder}/{_LOG}").st_mtime
    except OSError:
        try:
            return os.stat(folder).st_mtime
        except OSError:
            return 0.0
