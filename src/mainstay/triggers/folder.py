"""The folder of event files: what waits there, what is being fired, what fired, and what could not be used.

    events/NAME.json               waits to be read, to come due, or to come due again
    events/firing/ID--NAME.json    an immediate or one-shot trigger on its way: the id is what makes it happen once
    events/done/NAME.json          it fired
    events/failed/NAME.json        it could not be used; NAME.reason.txt beside it says why

A file is renamed from place to place and is in one of them at any moment. None is removed but by `remove`, and the
oldest of done/. One that cannot be read is waited for as long as it changes: somebody may be writing it. It is
brought back if it is written to after it was set aside, so that a writer who is slow beyond all bounds, or a person
who mends it where it lies, is heard.

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

from mainstay.core.ports import Clock, Ids
from mainstay.core.triggers import Trigger
from mainstay.triggers import filing
from mainstay.triggers.definition import TriggerRefused, check_trigger_name, read_trigger, write_trigger
from mainstay.triggers.filing import REASON, SUFFIX, EventsUnusable, Signature, digest_of, signature_of, told

FILES_MAX = 20_000
DONE_MAX = 1_000
DONE_SLACK = 100  # so many more before they are counted and the oldest removed
FAILED_SHOWN_MAX = 1_000
LOOK_S = 5.0  # between two looks at what was set aside
RACE_S = 2.0  # a file as young as this may change without looking any different
FOLDER = "."  # as whose trouble that of the folder itself is told


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was taken to be fired. Nobody else takes it; its id stays the same until it is done."""

    id: str
    name: str
    trigger: Trigger
    digest: str

    @property
    def file(self) -> str:
        return f"{self.id}--{self.name}{SUFFIX}"


class Scan(msgspec.Struct, frozen=True):
    """What is there: triggers with the digest of what they say, what an earlier process left on its way, and what is
    wrong, in a sentence, by name."""

    triggers: dict[str, tuple[Trigger, str]]
    claimed: list[Claim]
    troubles: dict[str, str]


class _Seen:
    """A file as it was found: what it says, or why it cannot be used."""

    __slots__ = ("good", "refused", "signature", "since", "sure")

    def __init__(self, signature: Signature, since: float) -> None:
        self.signature = signature
        self.since = since  # when it was first seen like this
        self.sure = False  # that it is still what was read, if it looks the same
        self.good: tuple[Trigger, str] | None = None
        self.refused: TriggerRefused | None = None


class _RandomIds:
    def new(self) -> str:
        return secrets.token_hex(16)

    def random(self) -> float:
        return secrets.randbelow(1 << 53) / (1 << 53)


class EventFolder:
    """`owned`: this process fires what is there. Another one may look, write and remove, but moves nothing."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        *,
        ids: Ids | None = None,
        owned: bool = True,
        settle_s: float = 2.0,
        waited_s: float = 60.0,
    ) -> None:
        self.path = path.rstrip("/") or "/"
        self._clock = clock
        self._ids: Ids = ids or _RandomIds()
        self._owned = owned
        self._settle_s = settle_s  # how long one that is wrong is left to its writer
        self._waited_s = waited_s  # and one that merely ends too early
        self._lock = threading.RLock()
        self._seen: dict[str, _Seen] = {}
        self._claims: dict[str, Claim] = {}  # by file, made here
        self._left: dict[str, Claim] = {}  # by file, of an earlier process
        self._aside: dict[str, str] = {}  # what was set aside since the start, and why
        self._looked = float("-inf")
        self._done = DONE_MAX + DONE_SLACK  # files there, at most

    # --- looking ---------------------------------------------------------------------------------

    def scan(self) -> Scan:
        """What is there now. Only files that changed are read. Never raises: trouble is told, and what was known
        before holds until it is over."""
        with self._lock:
            troubles: dict[str, str] = {}
            steps = (self._make, self._take_up, self._look_aside) if self._owned else ()
            for step in (*steps, lambda: self._look(troubles)):
                try:
                    with told(f"The folder {self.path} cannot be used"):
                        step()
                except EventsUnusable as error:
                    troubles[FOLDER] = str(error)
            triggers = {name: seen.good for name, seen in self._seen.items() if seen.good is not None}
            return Scan(triggers, list(self._left.values()), {**self._aside, **troubles})

    def _make(self) -> None:
        for folder in ("", "/firing", "/done", "/failed"):
            if not os.path.isdir(self.path + folder):
                os.makedirs(self.path + folder, 0o700, exist_ok=True)

    def _look(self, troubles: dict[str, str]) -> None:
        found = self._list()
        if len(found) > FILES_MAX:
            troubles[FOLDER] = f"There are {len(found)} event files; {FILES_MAX} are read, and the others wait."
        names = sorted(found)[:FILES_MAX]
        for name in self._seen.keys() - set(names):
            del self._seen[name]
        for name in names:
            shown = name.encode(errors="replace").decode()
            try:
                with told("it cannot be read"):
                    self._visit(name, found[name])
            except EventsUnusable as error:
                troubles[shown] = str(error)
            else:
                if (seen := self._seen.get(name)) is not None and seen.refused is not None:
                    self._judge(name, shown, seen, troubles)

    def _list(self) -> dict[str, os.stat_result]:
        found: dict[str, os.stat_result] = {}
        if not self._owned and not os.path.isdir(self.path):  # nobody has had any yet
            return found
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                    try:
                        found[entry.name[: -len(SUFFIX)]] = entry.stat(follow_symlinks=False)
                    except OSError:  # it has gone
                        continue
        return found

    def _visit(self, name: str, found: os.stat_result) -> None:
        """Read a file if it is new, or not surely the same."""
        signature, now = signature_of(found), self._clock.monotonic()
        seen = self._seen.get(name)
        if seen is not None and seen.signature == signature and seen.sure:
            return
        same = seen is not None and seen.signature == signature
        fresh = _Seen(signature, seen.since if seen is not None and same else now)
        old = self._clock.now_ms() - found.st_mtime_ns // 1_000_000 > RACE_S * 1000
        fresh.sure = old or (same and now - fresh.since >= RACE_S)
        try:
            trigger = filing.read_file(f"{self.path}/{name}{SUFFIX}", name)
            fresh.good = (trigger, digest_of(trigger))
            self._aside.pop(name, None)
        except FileNotFoundError:
            self._seen.pop(name, None)
            return
        except TriggerRefused as refused:
            fresh.refused = refused
            # who rewrites the file of a periodic one has not deleted it: what it said holds until it says something
            if seen is not None and seen.good is not None and seen.good[0].kind == "periodic":
                fresh.good = seen.good
        self._seen[name] = fresh

    def _judge(self, name: str, shown: str, seen: _Seen, troubles: dict[str, str]) -> None:
        """What cannot be used is set aside once nobody seems to be writing it."""
        assert seen.refused is not None
        wait_s = self._waited_s if seen.refused.incomplete else self._settle_s
        if not self._owned or self._clock.monotonic() - seen.since < wait_s:
            troubles[shown] = f"{seen.refused} It is waited for, in case it is being written."
            return
        try:
            with told(f"{seen.refused} It cannot be moved to failed"):
                self._set_aside(f"{self.path}/{name}{SUFFIX}", name, str(seen.refused))
                del self._seen[name]
        except EventsUnusable as error:
            troubles[shown] = str(error)

    def _set_aside(self, path: str, name: str, sentence: str) -> None:
        try:
            stem = filing.set_aside(path, f"{self.path}/failed", name, sentence)
        except FileNotFoundError:  # it has gone by itself
            return
        if len(self._aside) < FAILED_SHOWN_MAX:
            shown = name.encode(errors="replace").decode()
            self._aside[shown] = f"{sentence} It lies in failed/{stem.encode(errors='replace').decode()}{SUFFIX} now."

    def _look_aside(self) -> None:
        """Bring back what was written to since it was set aside."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        for stem, name in filing.changed_since(f"{self.path}/failed"):
            try:
                if filing.bring_back(f"{self.path}/failed", stem, f"{self.path}/{name}{SUFFIX}"):
                    self._aside.pop(name, None)
            except FileNotFoundError:
                continue

    def failures(self, most: int = 100) -> list[tuple[str, str]]:
        """What lies in failed/, by file name, with the reason; the newest first."""
        folder = f"{self.path}/failed"
        try:
            with os.scandir(folder) as entries:
                found = [(one.stat().st_ctime_ns, one.name) for one in entries if one.name.endswith(REASON)]
        except OSError:
            return []
        shown = []
        for _, name in sorted(found, reverse=True)[:most]:
            try:
                reason = filing.read_reason(folder, name[: -len(REASON)])[1]
                shown.append((f"{name[: -len(REASON)]}{SUFFIX}", reason))
            except OSError:
                continue
        return shown

    # --- firing ----------------------------------------------------------------------------------

    def claim(self, name: str, digest: str) -> Claim | None:
        """Take a file to be fired; None if it has gone, or says something else by now. What returned is on disk.

        It is moved under a hidden name first and read there, where nobody replaces it, and only then has its id.
        Raises EventsUnusable if the disk says no; the file is where it was, or is put back by the next scan.
        """
        assert self._owned
        with self._lock, told(f"{name} cannot be taken to be fired"):
            id = self._ids.new()
            assert id.replace("-", "").isalnum(), "an id is part of a file's name"
            assert "--" not in id, "and ends before the trigger's"
            hidden = f"{self.path}/firing/.{id}--{name}{SUFFIX}"
            try:
                os.rename(f"{self.path}/{name}{SUFFIX}", hidden)
            except FileNotFoundError:
                return None
            try:
                trigger = filing.read_file(hidden, name)
            except TriggerRefused:
                trigger = None
            if trigger is None or digest_of(trigger) != digest:
                self._put_back(hidden, name)
                return None
            claim = Claim(id=id, name=name, trigger=trigger, digest=digest)
            os.rename(hidden, f"{self.path}/firing/{claim.file}")
            filing.sync(f"{self.path}/firing", self.path)
            self._claims[claim.file] = claim
            self._seen.pop(name, None)
            return claim

    def _put_back(self, hidden: str, name: str) -> None:
        """Under another name, if somebody has put a new one in its place."""
        number, stem = 2, name
        while os.path.lexists(f"{self.path}/{stem}{SUFFIX}"):
            stem, number = f"{name}-{number}", number + 1
        os.rename(hidden, f"{self.path}/{stem}{SUFFIX}")

    def claimed(self) -> list[Claim]:
        """What an earlier process left on its way, and nobody has finished since."""
        assert self._owned
        with self._lock, told(f"The folder {self.path} cannot be used"):
            self._make()
            self._take_up()
            return list(self._left.values())

    def _take_up(self) -> None:
        folder = f"{self.path}/firing"
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX) and "--" in name]
        for file in self._left.keys() - set(names):
            del self._left[file]
        for file in sorted(names):
            id, _, name = file[: -len(SUFFIX)].partition("--")
            if file in self._claims or file in self._left:
                continue
            if id.startswith("."):  # it was not claimed yet, and it may be another than the one that was due
                self._put_back(f"{folder}/{file}", name)
                continue
            try:
                trigger = filing.read_file(f"{folder}/{file}", name)
                self._left[file] = Claim(id=id, name=name, trigger=trigger, digest=digest_of(trigger))
            except FileNotFoundError:
                continue
            except TriggerRefused as refused:
                sentence = f"It was on its way when the process ended, and cannot be read any more: {refused}"
                self._set_aside(f"{folder}/{file}", name, sentence)

    def done(self, claim: Claim, note: str = "") -> None:
        """It fired. Said again, this changes nothing."""
        with self._lock, told(f"{claim.name} cannot be moved to done"):
            folder = f"{self.path}/done"
            stamp = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
            stem = filing.free_stem(folder, claim.name, stamp)
            try:
                os.rename(f"{self.path}/firing/{claim.file}", f"{folder}/{stem}{SUFFIX}")
            except FileNotFoundError:
                self._forget(claim)
                return
            self._forget(claim)
            if note:
                filing.write_file(folder, f"{stem}.note.txt", f"{note}\n".encode(errors="replace"))
            self._done += 1
            if self._done > DONE_MAX + DONE_SLACK:
                self._done = filing.prune(folder, DONE_MAX)

    def failed(self, claim: Claim, reason: str) -> None:
        """It will not be fired; the reason is kept beside it."""
        with self._lock, told(f"{claim.name} cannot be moved to failed"):
            self._set_aside(f"{self.path}/firing/{claim.file}", claim.name, reason)
            self._forget(claim)

    def _forget(self, claim: Claim) -> None:
        self._claims.pop(claim.file, None)
        self._left.pop(claim.file, None)

    # --- changing --------------------------------------------------------------------------------

    def write(self, trigger: Trigger, *, replace: bool = False) -> None:
        """Make the file of a trigger; on disk when it returns. Raises TriggerRefused if it could not be read back,
        or if there is one of that name."""
        raw = write_trigger(trigger)
        if read_trigger(trigger.name, raw) != trigger:
            raise TriggerRefused("it cannot be written as an event file.")
        file = f"{trigger.name}{SUFFIX}"
        with self._lock, told(f"{file} cannot be written"):
            self._make()
            if not replace and os.path.lexists(f"{self.path}/{file}"):
                raise TriggerRefused(f"there is a trigger {trigger.name!r} already.")
            filing.write_file(self.path, file, raw)

    def change(self, name: str, edit: Callable[[Trigger], Trigger]) -> Trigger | None:
        """Write a trigger anew as `edit` returns it; None if there is none of that name. What somebody else writes
        meanwhile is not lost: then it is edited once more."""
        check_trigger_name(name)
        path = f"{self.path}/{name}{SUFFIX}"
        with self._lock, told(f"{name} cannot be changed"):
            for _ in range(10):
                try:
                    before = signature_of(os.lstat(path))
                    trigger = edit(filing.read_file(path, name))
                    raw = write_trigger(trigger)
                    read_trigger(name, raw)
                    if filing.write_file(self.path, f"{name}{SUFFIX}", raw, partial(_looks_like, path, before)):
                        return trigger
                except FileNotFoundError:
                    return None
            raise EventsUnusable(f"{name} is being written by somebody else all the time.")

    def pause(self, name: str, paused: bool = True) -> bool:
        """Or resume; False if there is none of that name."""
        return self.change(name, lambda trigger: msgspec.structs.replace(trigger, paused=paused)) is not None

    def remove(self, name: str) -> bool:
        """False if there is none of that name."""
        check_trigger_name(name)
        with self._lock, told(f"{name} cannot be removed"):
            try:
                os.unlink(f"{self.path}/{name}{SUFFIX}")
            except FileNotFoundError:
                return False
            filing.sync(self.path)
            self._seen.pop(name, None)
            return True

    def knows(self, name: str) -> bool:
        """True if there is a file of that name, in whatever state."""
        check_trigger_name(name)
        file = f"{name}{SUFFIX}"
        with told(f"The folder {self.path} cannot be used"):
            if any(os.path.lexists(f"{self.path}/{place}{file}") for place in ("", "done/", "failed/")):
                return True
            firing = os.listdir(f"{self.path}/firing") if os.path.isdir(f"{self.path}/firing") else []
            return any(one.partition("--")[2] == file for one in firing)


def _looks_like(path: str, signature: Signature) -> bool:
    return signature_of(os.lstat(path)) == signature
