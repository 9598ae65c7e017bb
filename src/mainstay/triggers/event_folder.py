"""The folder of event files, one per trigger: scan, claim for firing, done/, failed/.

    events/NAME.json               waits to be read, or to become due
    events/firing/ID--NAME.json    an immediate or one-shot trigger that is being fired; the id makes it exactly once
    events/done/NAME.json          it has fired
    events/failed/NAME.json        it could not be used; NAME.reason.txt beside it says why

A file is renamed from folder to folder and is in exactly one of them at any moment. Files are deleted only by `remove`,
and the oldest of done/. A file that cannot be parsed stays as long as it changes: a program may still be writing it. It
is moved back from failed/ if it is written to there, so that a very slow writer, or a user who repairs it in place,
succeeds.

Everything here blocks, and may be called from any thread.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import msgspec

from mainstay.core.ports import Clock, IdGenerator
from mainstay.core.triggers import Trigger
from mainstay.triggers import event_file_io
from mainstay.triggers.event_file_io import (
    REASON_SUFFIX,
    SUFFIX,
    EventFolderUnusable,
    FileSignature,
    disk_errors,
    file_signature,
    trigger_digest,
)
from mainstay.triggers.trigger_json import TriggerRefused, check_trigger_name, encode_trigger, parse_trigger

FILES_MAX = 20_000
DONE_MAX = 1_000
DONE_SLACK = 100  # so many more before they are counted and the oldest deleted
FAILED_SHOWN_MAX = 1_000
FAILED_SCAN_INTERVAL_S = 5.0  # between two scans of failed/
SIGNATURE_SETTLE_S = 2.0  # a file younger than this may change without its signature changing
FOLDER_KEY = "."  # key of a problem with the folder itself, in place of a trigger's name


class EventFileClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was claimed for firing. It is claimed once; its id stays the same until it is done."""

    id: str
    name: str
    trigger: Trigger
    digest: str

    @property
    def file_name(self) -> str:
        return f"{self.id}--{self.name}{SUFFIX}"


class EventFolderScan(msgspec.Struct, frozen=True):
    """The state of the folder."""

    triggers: dict[str, tuple[Trigger, str]]  # by name, with the digest of the definition; the oldest file first
    unfinished_claims: list[EventFileClaim]  # by an earlier process, and not finished
    problems: dict[str, str]  # by name: what is wrong, as a sentence


class _EventFileState:
    """A file as it was last read: its trigger, or why it cannot be used."""

    __slots__ = ("error", "is_settled", "signature", "since", "trigger_and_digest")

    def __init__(self, signature: FileSignature, since: float) -> None:
        self.signature = signature
        self.since = since  # monotonic: when it first had this signature
        self.is_settled = False  # an unchanged signature means unchanged content
        self.trigger_and_digest: tuple[Trigger, str] | None = None
        self.error: TriggerRefused | None = None


class _RandomFileIds:
    def new_id(self) -> str:
        return secrets.token_hex(16)

    def random(self) -> float:
        return secrets.randbelow(1 << 53) / (1 << 53)


class EventFolder:
    """`owned`: this process fires the triggers. Other processes may scan, write and remove, but move nothing."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        *,
        ids: IdGenerator | None = None,
        owned: bool = True,
        settle_s: float = 2.0,
        incomplete_s: float = 60.0,
    ) -> None:
        self.path = path.rstrip("/") or "/"
        self._clock = clock
        self._ids: IdGenerator = ids or _RandomFileIds()
        self._owned = owned
        self._settle_s = settle_s  # how long an invalid file must be unchanged before it is moved to failed/
        self._incomplete_s = incomplete_s  # the same for an incomplete file
        self._lock = threading.RLock()
        self._files: dict[str, _EventFileState] = {}
        self._claims: dict[str, EventFileClaim] = {}  # by file, made by this process
        self._unfinished_claims: dict[str, EventFileClaim] = {}  # by file, of an earlier process
        self._failures: dict[str, str] = {}  # moved to failed/ since the start: name and reason
        self._failed_scanned_at = float("-inf")  # monotonic: last scan of failed/
        self._done_count = DONE_MAX + DONE_SLACK  # files in done/, at most

    # --- scanning --------------------------------------------------------------------------------

    def scan(self) -> EventFolderScan:
        """Scan the folder; only changed files are read. Never raises: problems are part of the result, and what was
        known before stays until they are over."""
        with self._lock:
            problems: dict[str, str] = {}
            steps = (self._create_folders, self._load_unfinished_claims, self._restore_rewritten) if self._owned else ()
            for step in (*steps, lambda: self._scan_files(problems)):
                try:
                    with disk_errors(f"The folder {self.path} cannot be used"):
                        step()
                except EventFolderUnusable as error:
                    problems[FOLDER_KEY] = str(error)
            triggers = {
                name: file.trigger_and_digest
                for name, file in sorted(self._files.items(), key=lambda item: (item[1].signature[3], item[0]))
                if file.trigger_and_digest is not None
            }
            return EventFolderScan(triggers, list(self._unfinished_claims.values()), {**self._failures, **problems})

    def _create_folders(self) -> None:
        for folder in ("", "/firing", "/done", "/failed"):
            if not os.path.isdir(self.path + folder):
                os.makedirs(self.path + folder, 0o700, exist_ok=True)

    def _scan_files(self, problems: dict[str, str]) -> None:
        files = self._list_files()
        if len(files) > FILES_MAX:
            problems[FOLDER_KEY] = f"There are {len(files)} event files; {FILES_MAX} are read, and the others wait."
        names = sorted(files)[:FILES_MAX]
        for name in self._files.keys() - set(names):
            del self._files[name]
        for name in names:
            shown_name = name.encode(errors="replace").decode()
            try:
                with disk_errors("it cannot be read"):
                    self._read_if_changed(name, files[name])
            except EventFolderUnusable as error:
                problems[shown_name] = str(error)
            else:
                if (file := self._files.get(name)) is not None and file.error is not None:
                    self._handle_invalid(name, shown_name, file, problems)

    def _list_files(self) -> dict[str, os.stat_result]:
        files: dict[str, os.stat_result] = {}
        if not self._owned and not os.path.isdir(self.path):  # there were no triggers yet
            return files
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                    try:
                        files[entry.name[: -len(SUFFIX)]] = entry.stat(follow_symlinks=False)
                    except OSError:  # it was removed meanwhile
                        continue
        return files

    def _read_if_changed(self, name: str, status: os.stat_result) -> None:
        """Read a file if it is new, changed, or so young that a change may not show."""
        signature, now = file_signature(status), self._clock.monotonic()
        previous = self._files.get(name)
        if previous is not None and previous.signature == signature and previous.is_settled:
            return
        is_same = previous is not None and previous.signature == signature
        fresh = _EventFileState(signature, previous.since if previous is not None and is_same else now)
        is_old = self._clock.now_ms() - status.st_mtime_ns // 1_000_000 > SIGNATURE_SETTLE_S * 1000
        fresh.is_settled = is_old or (is_same and now - fresh.since >= SIGNATURE_SETTLE_S)
        try:
            trigger = event_file_io.read_event_file(f"{self.path}/{name}{SUFFIX}", name)
            fresh.trigger_and_digest = (trigger, trigger_digest(trigger))
            self._failures.pop(name, None)
        except FileNotFoundError:
            self._files.pop(name, None)
            return
        except TriggerRefused as refused:
            fresh.error = refused
            # A periodic trigger whose file is being rewritten is not deleted: its old definition stays meanwhile.
            if (
                previous is not None
                and previous.trigger_and_digest is not None
                and previous.trigger_and_digest[0].kind == "periodic"
            ):
                fresh.trigger_and_digest = previous.trigger_and_digest
        self._files[name] = fresh

    def _handle_invalid(self, name: str, shown_name: str, state: _EventFileState, problems: dict[str, str]) -> None:
        """Move an invalid file to failed/ once it has not changed for a while."""
        assert state.error is not None
        wait_s = self._incomplete_s if state.error.incomplete else self._settle_s
        if not self._owned or self._clock.monotonic() - state.since < wait_s:
            problems[shown_name] = f"{state.error} It may be incomplete, and will be read again."
            return
        try:
            with disk_errors(f"{state.error} It cannot be moved to failed"):
                self._move_path_to_failed(f"{self.path}/{name}{SUFFIX}", name, str(state.error))
                del self._files[name]
        except EventFolderUnusable as error:
            problems[shown_name] = str(error)

    def _move_path_to_failed(self, path: str, name: str, reason: str) -> None:
        try:
            stem = event_file_io.move_to_failed(path, f"{self.path}/failed", name, reason)
        except FileNotFoundError:  # it was removed meanwhile
            return
        if len(self._failures) < FAILED_SHOWN_MAX:
            shown_name = name.encode(errors="replace").decode()
            self._failures[shown_name] = (
                f"{reason} It was moved to failed/{stem.encode(errors='replace').decode()}{SUFFIX}."
            )

    def _restore_rewritten(self) -> None:
        """Move files back that were written to after they were moved to failed/."""
        now = self._clock.monotonic()
        if now - self._failed_scanned_at < FAILED_SCAN_INTERVAL_S:
            return
        self._failed_scanned_at = now
        for stem, name in event_file_io.find_rewritten(f"{self.path}/failed"):
            try:
                if event_file_io.restore_file(f"{self.path}/failed", stem, f"{self.path}/{name}{SUFFIX}"):
                    self._failures.pop(name, None)
            except FileNotFoundError:
                continue

    # --- firing ----------------------------------------------------------------------------------

    def claim(self, name: str, digest: str) -> EventFileClaim | None:
        """Claim a file for firing; None if it was removed or changed meanwhile. On disk when this returns.

        The file is moved under a hidden name and read there, where no other process replaces it, and only then gets its
        id. Raises EventFolderUnusable for a disk error; the file is where it was, or is put back by the next scan.
        """
        assert self._owned
        with self._lock, disk_errors(f"{name} cannot be claimed"):
            id = self._ids.new_id()
            assert id.replace("-", "").isalnum(), "an id is part of a file's name"
            assert "--" not in id, "and ends before the trigger's"
            hidden = f"{self.path}/firing/.{id}--{name}{SUFFIX}"
            try:
                os.rename(f"{self.path}/{name}{SUFFIX}", hidden)
            except FileNotFoundError:
                return None
            try:
                trigger = event_file_io.read_event_file(hidden, name)
            except TriggerRefused:
                trigger = None
            if trigger is None or trigger_digest(trigger) != digest:
                self._undo_claim(hidden, name)
                return None
            claim = EventFileClaim(id=id, name=name, trigger=trigger, digest=digest)
            os.rename(hidden, f"{self.path}/firing/{claim.file_name}")
            event_file_io.sync_folders(f"{self.path}/firing", self.path)
            self._claims[claim.file_name] = claim
            self._files.pop(name, None)
            return claim

    def _undo_claim(self, hidden: str, name: str) -> None:
        """Undo a claim; under another name if a new file has the old one."""
        number, stem = 2, name
        while os.path.lexists(f"{self.path}/{stem}{SUFFIX}"):
            stem, number = f"{name}-{number}", number + 1
        os.rename(hidden, f"{self.path}/{stem}{SUFFIX}")

    def _load_unfinished_claims(self) -> None:
        folder = f"{self.path}/firing"
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX) and "--" in name]
        for file in self._unfinished_claims.keys() - set(names):
            del self._unfinished_claims[file]
        for file in sorted(names):
            id, _, name = file[: -len(SUFFIX)].partition("--")
            if file in self._claims or file in self._unfinished_claims:
                continue
            if id.startswith("."):  # the claim was not complete, and the file may not be the one that was due
                self._undo_claim(f"{folder}/{file}", name)
                continue
            try:
                trigger = event_file_io.read_event_file(f"{folder}/{file}", name)
                self._unfinished_claims[file] = EventFileClaim(
                    id=id, name=name, trigger=trigger, digest=trigger_digest(trigger)
                )
            except FileNotFoundError:
                continue
            except TriggerRefused as refused:
                sentence = f"It was being fired when the process ended, and cannot be read any more: {refused}"
                self._move_path_to_failed(f"{folder}/{file}", name, sentence)

    def move_to_done(self, claim: EventFileClaim, note: str = "") -> None:
        """Move a fired file to done/. A second call changes nothing."""
        with self._lock, disk_errors(f"{claim.name} cannot be moved to done"):
            folder = f"{self.path}/done"
            stamp = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
            stem = event_file_io.find_free_stem(folder, claim.name, stamp)
            try:
                os.rename(f"{self.path}/firing/{claim.file_name}", f"{folder}/{stem}{SUFFIX}")
            except FileNotFoundError:
                self._forget_claim(claim)
                return
            self._forget_claim(claim)
            if note:
                event_file_io.write_file_atomically(folder, f"{stem}.note.txt", f"{note}\n".encode(errors="replace"))
            self._done_count += 1
            if self._done_count > DONE_MAX + DONE_SLACK:
                self._done_count = event_file_io.prune_oldest(folder, DONE_MAX)

    def move_to_failed(self, claim: EventFileClaim, reason: str) -> None:
        """Move a file that will not be fired to failed/, with the reason beside it."""
        with self._lock, disk_errors(f"{claim.name} cannot be moved to failed"):
            self._move_path_to_failed(f"{self.path}/firing/{claim.file_name}", claim.name, reason)
            self._forget_claim(claim)

    def _forget_claim(self, claim: EventFileClaim) -> None:
        self._claims.pop(claim.file_name, None)
        self._unfinished_claims.pop(claim.file_name, None)

    # --- changing --------------------------------------------------------------------------------

    def write(self, trigger: Trigger, *, replace: bool = False) -> None:
        """Write the file of a trigger; on disk when this returns. Raises TriggerRefused if it could not be parsed
        again, or, unless `replace`, if a trigger of that name exists."""
        raw = encode_trigger(trigger)
        if parse_trigger(trigger.name, raw) != trigger:
            raise TriggerRefused("it cannot be written as an event file.")
        file = f"{trigger.name}{SUFFIX}"
        with self._lock, disk_errors(f"{file} cannot be written"):
            self._create_folders()
            if not replace and os.path.lexists(f"{self.path}/{file}"):
                raise TriggerRefused(f"there is a trigger {trigger.name!r} already.")
            event_file_io.write_file_atomically(self.path, file, raw)

    def change(self, name: str, edit: Callable[[Trigger], Trigger]) -> Trigger | None:
        """Replace a trigger with what `edit` returns; None if there is none of that name. If another process writes the
        file meanwhile, its version is read and edited again, so that no write is lost."""
        check_trigger_name(name)
        path = f"{self.path}/{name}{SUFFIX}"
        with self._lock, disk_errors(f"{name} cannot be changed"):
            for _ in range(10):
                try:
                    before = file_signature(os.lstat(path))
                    trigger = edit(event_file_io.read_event_file(path, name))
                    raw = encode_trigger(trigger)
                    parse_trigger(name, raw)
                    if event_file_io.write_file_atomically(
                        self.path, f"{name}{SUFFIX}", raw, partial(_has_signature, path, before)
                    ):
                        return trigger
                except FileNotFoundError:
                    return None
            raise EventFolderUnusable(f"{name} cannot be changed: another process keeps writing it.")

    def pause(self, name: str, paused: bool = True) -> bool:
        """Pause or resume a trigger; False if there is none of that name."""
        return self.change(name, lambda trigger: msgspec.structs.replace(trigger, paused=paused)) is not None

    def remove(self, name: str) -> bool:
        """Delete a trigger's file; False if there is none of that name."""
        check_trigger_name(name)
        with self._lock, disk_errors(f"{name} cannot be removed"):
            try:
                os.unlink(f"{self.path}/{name}{SUFFIX}")
            except FileNotFoundError:
                return False
            event_file_io.sync_folders(self.path)
            self._files.pop(name, None)
            return True

    def remove_failed(self, name: str) -> bool:
        """Delete an invalid trigger from the folder failed, with its reason file; False if there is none."""
        stem = f"{self.path}/failed/{check_trigger_name(name)}"
        with self._lock, disk_errors(f"{name} cannot be removed"):
            if not os.path.lexists(stem + SUFFIX):
                return False
            for path in (stem + SUFFIX, stem + REASON_SUFFIX):
                if os.path.lexists(path):
                    os.unlink(path)
            event_file_io.sync_folders(f"{self.path}/failed")
            self._failures.pop(name, None)
            return True

    def exists(self, name: str) -> bool:
        """True if there is a file of that name: waiting, being fired, done or failed."""
        check_trigger_name(name)
        file = f"{name}{SUFFIX}"
        with disk_errors(f"The folder {self.path} cannot be used"):
            if any(os.path.lexists(f"{self.path}/{subfolder}{file}") for subfolder in ("", "done/", "failed/")):
                return True
            firing = os.listdir(f"{self.path}/firing") if os.path.isdir(f"{self.path}/firing") else []
            return any(claimed.partition("--")[2] == file for claimed in firing)


def _has_signature(path: str, signature: FileSignature) -> bool:
    return file_signature(os.lstat(path)) == signature
