"""Event files: written slowly, renamed into place, edited, deleted, hostile, many; none is lost, none is taken twice
(F11)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstay.core.triggers import Trigger, TriggerTarget
from mainstay.core.worker_threads import run_in_thread
from mainstay.testing.virtual_time import CountingIds
from mainstay.triggers.event_file_io import EventFolderUnusable
from mainstay.triggers.event_folder import (
    DONE_MAX,
    DONE_SLACK,
    FOLDER_KEY,
    EventFileClaim,
    EventFolder,
    EventFolderScan,
)
from mainstay.triggers.trigger_json import FILE_BYTES_MAX, TriggerRefused, encode_trigger

WHOLE = os.environ.get("MAINSTAY_TEST_ALL") == "1"


class HandClock:
    """Begins now, as the files' own times do, and goes on by hand."""

    def __init__(self) -> None:
        self.at = time.time()

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandClock()
        self.folder = self.open()

    def open(self) -> EventFolder:
        """As another process would."""
        return EventFolder(str(self.path), self.clock, ids=CountingIds())

    def put(self, name: str, fields: Any = None) -> Path:
        """As a careful writer does: made aside, renamed into place."""
        self.path.mkdir(exist_ok=True)
        draft = self.path / f".{name}.draft"
        draft.write_text(json.dumps(GO if fields is None else fields))
        draft.rename(self.path / f"{name}.json")
        return self.path / f"{name}.json"

    def scan(self, after: float = 0.0) -> EventFolderScan:
        self.clock.at += after
        return self.folder.scan()

    def claim(self, name: str = "go") -> EventFileClaim:
        claim = self.folder.claim(name, self.folder.scan().triggers[name][1])
        assert claim is not None
        return claim

    def files(self) -> dict[str, list[str]]:
        """What lies where, but for folders."""
        places = {"": self.path, **{name: self.path / name for name in ("firing", "done", "failed")}}
        return {
            name: found
            for name, place in places.items()
            if place.is_dir()
            and (found := sorted(one.name for one in place.iterdir() if place != self.path or is_event_file(one)))
        }


def is_event_file(one: Path) -> bool:
    return one.name not in ("firing", "done", "failed")


GO = {"type": "immediate", "threadId": "t", "text": "go"}
DAILY = {"type": "periodic", "threadId": "t", "text": "news", "schedule": "@daily"}
LATER = {"type": "one-shot", "threadId": "t", "text": "later", "schedule": "2030-01-01T00:00:00"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "events")


# --- watching what is really opened, renamed, removed --------------------------------------------

_watchers: list[Callable[[str, tuple[Any, ...]], None]] = []
_hooked = False


@contextmanager
def watching(watcher: Callable[[str, tuple[Any, ...]], None]) -> Iterator[None]:
    """Told of every use of the file system right before it happens; what it raises prevents it."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(lambda event, arguments: [one(event, arguments) for one in _watchers] and None)
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def opened(event: str, arguments: tuple[Any, ...]) -> str:
    return str(arguments[0]) if event == "open" and isinstance(arguments[0], str) else ""


# --- what is found -------------------------------------------------------------------------------


def test_files_that_are_there_at_start_are_read_all_three_kinds(world: World) -> None:
    """GUPPY-061, GUPPY-104"""
    world.put("a", GO)
    world.put("b", LATER)
    world.put("c", DAILY)
    found = world.scan()
    kinds = [(name, trigger.kind) for name, (trigger, _) in found.triggers.items()]
    assert kinds == [("a", "immediate"), ("b", "one-shot"), ("c", "periodic")]
    assert found.problems == {}
    assert found.unfinished_claims == []


def test_a_missing_folder_is_created_for_its_owner_alone(world: World) -> None:
    assert world.scan() == EventFolderScan({}, [], {})
    for name in ("", "firing", "done", "failed"):
        assert stat.S_IMODE((world.path / name).stat().st_mode) == 0o700


def test_hidden_files_and_other_names_are_ignored(world: World) -> None:
    world.put("a")
    for name in (".b.json", "c.json~", "d.json.tmp", "e.txt", "f", ".json", "#g.json#", "h.JSON"):
        (world.path / name).write_text("not ours")
    assert set(world.scan().triggers) == {"a"}
    assert set(world.scan(1000).triggers) == {"a"}
    assert "failed" not in world.files()


def test_only_what_changed_is_read_again(world: World) -> None:
    for number in range(20):
        world.put(f"n{number}")
    world.clock.at += 10  # the files are not brand-new any more
    before = world.scan()
    seen: list[str] = []
    with watching(lambda event, arguments: seen.append(opened(event, arguments))):
        assert world.scan() == before
        assert not [path for path in seen if path.endswith(".json")]
        world.put("n7", DAILY)
        assert world.scan().triggers["n7"][0].kind == "periodic"
    assert {path for path in seen if path.endswith(".json")} == {str(world.path / "n7.json")}


def test_a_change_without_new_size_and_time_is_seen_while_a_file_is_young_f11(world: World) -> None:
    """Same file, same length, and the clock of the disk has not ticked."""
    path = world.put("a", {**GO, "text": "one"})
    assert world.scan().triggers["a"][0].text == "one"
    times = path.stat()
    with path.open("r+") as file:
        file.write(json.dumps({**GO, "text": "two"}))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert world.scan().triggers["a"][0].text == "two"


def test_edited_renamed_and_deleted_files_are_what_they_are_now(world: World) -> None:
    world.put("a", DAILY)
    digest = world.scan().triggers["a"][1]
    world.put("a", {**DAILY, "schedule": "@hourly"})
    trigger, other = world.scan().triggers["a"]
    assert (trigger.schedule, other != digest) == ("@hourly", True)
    (world.path / "a.json").rename(world.path / "b.json")
    assert set(world.scan().triggers) == {"b"}
    (world.path / "b.json").unlink()
    assert world.scan().triggers == {}


def test_the_layout_of_a_file_makes_no_other_trigger_of_it(world: World) -> None:
    world.put("a", DAILY)
    digest = world.scan().triggers["a"][1]
    (world.path / "a.json").write_text(json.dumps(DAILY, indent=8) + "\n\n")
    assert world.scan().triggers["a"][1] == digest


def test_a_file_that_vanishes_between_listing_and_opening_is_ignored_f11(world: World) -> None:
    path = world.put("a")
    world.put("b")

    def vanish(event: str, arguments: tuple[Any, ...]) -> None:
        if opened(event, arguments) == str(path):
            path.unlink(missing_ok=True)

    with watching(vanish):
        found = world.scan()
    assert set(found.triggers) == {"b"}
    assert found.problems == {}


# --- what is being written -----------------------------------------------------------------------

RAW = json.dumps({**GO, "text": "gö", "data": {"a": [1]}}, ensure_ascii=False).encode()


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 40])
def test_a_file_written_in_pieces_is_waited_for_and_then_read_f11(world: World, pieces: int) -> None:
    """GUPPY-105"""
    world.scan()
    with (world.path / "slow.json").open("wb", buffering=0) as file:
        for start in range(0, len(RAW), pieces):
            found = world.scan(after=59.0)  # it changed less than a minute ago
            assert found.triggers == {}
            assert "will be read again" in found.problems["slow"]
            file.write(RAW[start : start + pieces])
            os.fsync(file.fileno())
        assert world.scan().triggers["slow"][0].text == "gö"
        claim = world.claim("slow")
        file.write(b"\n")  # a line break that comes after it was taken
    assert (claim.trigger.text, world.scan().problems) == ("gö", {})
    world.folder.move_to_done(claim)
    assert world.files() == {"done": ["slow.json"]}


@pytest.mark.parametrize("cut", range(len(RAW)))
def test_cut_anywhere_a_file_is_moved_aside_after_a_minute_and_restored_when_the_rest_comes_f11(
    world: World, cut: int
) -> None:
    world.scan()
    path = world.path / "slow.json"
    with path.open("wb", buffering=0) as file:
        file.write(RAW[:cut])
        assert "will be read again" in world.scan().problems["slow"]
        assert "will be read again" in world.scan(59.9).problems["slow"]
        assert path.read_bytes() == RAW[:cut]
        assert "failed/slow.json" in world.scan(0.2).problems["slow"]
        assert world.files() == {"failed": ["slow.json", "slow.reason.txt"]}
        assert (world.path / "failed" / "slow.json").read_bytes() == RAW[:cut]
        world.scan(100)
        assert world.files() == {"failed": ["slow.json", "slow.reason.txt"]}
        before = (world.path / "failed" / "slow.json").stat()
        file.write(RAW[cut:])  # the writer has it open still, wherever it lies
        os.utime(file.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))  # as later as a write is
    assert world.scan(6).triggers["slow"][0].text == "gö"
    assert world.files() == {"": ["slow.json"]}
    assert world.scan().problems == {}


def test_the_rest_may_come_while_another_process_is_there_f11(world: World) -> None:
    (world.path).mkdir()
    path = world.path / "slow.json"
    with path.open("wb", buffering=0) as file:
        file.write(RAW[:20])
        world.scan()
        world.scan(61)
        file.write(RAW[20:])
        os.utime(file.fileno(), (time.time() + 1, time.time() + 1))
    world.folder = world.open()
    assert set(world.scan().triggers) == {"slow"}


def test_the_file_of_a_periodic_one_that_is_being_rewritten_says_what_it_said_f11(world: World) -> None:
    """Same inode, emptied first: it was not deleted, and must not start again."""
    path = world.put("a", DAILY)
    before = world.scan().triggers["a"]
    raw = json.dumps({**DAILY, "text": "other"}).encode()
    with path.open("wb", buffering=0) as file:
        for byte in range(len(raw)):
            found = world.scan()
            assert found.triggers["a"] == before
            assert "will be read again" in found.problems["a"]
            file.write(raw[byte : byte + 1])
    assert world.scan().triggers["a"][0].text == "other"
    path.write_text('{"type": "peri')
    assert set(world.scan(59).triggers) == {"a"}
    assert world.scan(61).triggers == {}  # and if nothing comes, it is gone
    assert world.files() == {"failed": ["a.json", "a.reason.txt"]}


def test_the_file_of_an_immediate_one_that_is_being_rewritten_is_not_fired_f11(world: World) -> None:
    path = world.put("a")
    digest = world.scan().triggers["a"][1]
    path.write_bytes(RAW[:10])
    assert world.folder.claim("a", digest) is None
    assert path.read_bytes() == RAW[:10]
    assert world.scan().triggers == {}


# --- what cannot be used -------------------------------------------------------------------------


def test_an_invalid_file_is_left_for_two_seconds_and_then_kept_with_the_reason(world: World) -> None:
    world.scan()
    (world.path / "bad.json").write_text('{"type": "weekly"}')
    (world.path / "good.json").write_text(json.dumps(GO))
    assert "not 'weekly'" in world.scan().problems["bad"]
    assert "will be read again" in world.scan(1.9).problems["bad"]
    assert world.files() == {"": ["bad.json", "good.json"]}
    found = world.scan(0.2)
    assert "It was moved to failed/bad.json." in found.problems["bad"]
    assert set(found.triggers) == {"good"}
    assert world.files() == {"": ["good.json"], "failed": ["bad.json", "bad.reason.txt"]}
    assert (world.path / "failed" / "bad.json").read_text() == '{"type": "weekly"}'
    name, reason = (world.path / "failed" / "bad.reason.txt").read_text().splitlines()
    assert (name, "not 'weekly'" in reason) == ("bad.json", True)
    assert "bad" in world.scan(100).problems  # and it stays named
    world.put("bad", GO)
    assert "bad" not in world.scan().problems


def test_an_invalid_file_that_still_changes_is_left_where_it_is(world: World) -> None:
    world.scan()
    for number in range(20):
        (world.path / "bad.json").write_text(f"not JSON {'x' * number}")
        assert "bad" in world.scan(1.5).problems
    assert world.files() == {"": ["bad.json"]}


def test_of_several_with_one_name_none_takes_the_place_of_another(world: World) -> None:
    world.scan()
    for number in range(4):
        (world.path / "bad.json").write_text(f"no {number}")
        world.scan()
        world.scan(3)
    found = {one.name: one.read_text() for one in (world.path / "failed").glob("*.json")}
    assert found == {"bad.json": "no 0", "bad.2.json": "no 1", "bad.3.json": "no 2", "bad.4.json": "no 3"}
    assert len(world.files()["failed"]) == 8
    mended = world.path / "failed" / "bad.3.json"  # a file repaired in place is restored under its name
    mended.write_text(json.dumps(GO))
    os.utime(mended, (time.time() + 1, time.time() + 1))
    assert set(world.scan(6).triggers) == {"bad"}
    assert len(world.files()["failed"]) == 6


def test_a_repaired_file_waits_while_its_name_is_in_use(world: World) -> None:
    world.scan()
    (world.path / "a.json").write_text("no")
    world.scan()
    world.scan(3)
    world.put("a", DAILY)
    mended = world.path / "failed" / "a.json"
    mended.write_text(json.dumps(GO))
    os.utime(mended, (time.time() + 1, time.time() + 1))
    assert world.scan(6).triggers["a"][0].kind == "periodic"
    (world.path / "a.json").unlink()
    assert world.scan(6).triggers["a"][0].kind == "immediate"


def make_link(path: Path) -> None:
    (path.parent / "target.txt").write_text(json.dumps(GO))
    path.symlink_to("target.txt")


def make_socket(path: Path) -> None:
    cwd = os.getcwd()
    os.chdir(path.parent)  # their names must be short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(cwd)


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (make_link, "is a link"),
        (os.mkfifo, "not a plain file"),
        (make_socket, "not a plain file"),
        (Path.mkdir, "is a folder"),
        (make_large, "it has 104857600 bytes"),
    ],
    ids=["link", "fifo", "socket", "folder", "100 MB"],
)
def test_a_special_or_large_file_is_never_opened_but_named_and_kept(
    world: World, make: Callable[[Path], None], said: str
) -> None:
    world.put("good")
    world.scan()
    make(world.path / "odd.json")
    seen: list[str] = []
    with watching(lambda event, arguments: seen.append(opened(event, arguments))):
        assert said in world.scan().problems["odd"]
        found = world.scan(3)
    assert not [path for path in seen if path.endswith("odd.json")]
    assert "failed/odd.json" in found.problems["odd"]
    assert set(found.triggers) == {"good"}
    assert os.path.lexists(world.path / "failed" / "odd.json")
    assert said in (world.path / "failed" / "odd.reason.txt").read_text()
    world.scan(100)
    assert os.path.lexists(world.path / "failed" / "odd.json")


def test_a_file_that_becomes_a_link_or_a_pipe_at_the_last_moment_is_not_followed(world: World) -> None:
    (world.path.parent / "secret").write_text(json.dumps({**GO, "text": "secret"}))
    for number, swap in enumerate([lambda path: path.symlink_to("../secret"), os.mkfifo]):
        path = world.put(f"a{number}")

        def swapped(event: str, arguments: tuple[Any, ...], path: Path = path, swap: Any = swap) -> None:
            if opened(event, arguments) == str(path) and path.is_file() and not path.is_symlink():
                path.unlink()
                swap(path)

        with watching(swapped):
            found = world.scan()
        assert found.triggers == {}
        assert found.problems[f"a{number}"]
        path.unlink()


@pytest.mark.parametrize(
    "name",
    [b"\xff\xfe", "é".encode() * 120, b"a\nb", b"x" * 250, b"tab\t", b" space"],
    ids=["bytes", "long", "break", "longest", "tab", "space"],
)
def test_an_invalid_name_is_kept_too(world: World, name: bytes) -> None:
    world.scan()
    path = os.fsencode(world.path) + b"/" + name + b".json"
    with open(path, "wb") as file:
        file.write(RAW)
    world.scan()
    found = world.scan(3)
    assert found.triggers == {}
    assert len(found.problems) == 1
    assert all(key.encode() and sentence.encode() for key, sentence in found.problems.items())
    assert not os.path.lexists(path)
    (kept,) = (world.path / "failed").glob("*.json")
    assert kept.read_bytes() == RAW
    (reason,) = (world.path / "failed").glob("*.reason.txt")
    assert reason.read_bytes().startswith(name + b".json\n") or name == b"a\nb"


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\x7fELF" + bytes(range(256)), b"\xff" * 99], ids=range(4))
def test_empty_and_binary_files_are_kept_named_and_explained(world: World, content: bytes) -> None:
    world.put("good")
    (world.path / "odd.json").write_bytes(content)
    world.scan()
    found = world.scan(61)
    assert set(found.triggers) == {"good"}
    assert "failed/odd.json" in found.problems["odd"]
    assert (world.path / "failed" / "odd.json").read_bytes() == content


# --- taking one to be fired ----------------------------------------------------------------------


def test_a_claim_is_a_rename_and_from_then_on_it_is_that_claims_alone(world: World) -> None:
    """GUPPY-097: what appeared can be fired, once."""
    world.put("go")
    digest = world.scan().triggers["go"][1]
    claim = world.folder.claim("go", digest)
    assert claim is not None
    assert (claim.id, claim.name, claim.trigger.text, claim.digest) == ("id-1", "go", "go", digest)
    assert world.files() == {"firing": ["id-1--go.json"]}
    assert world.folder.claim("go", digest) is None
    assert world.scan() == EventFolderScan({}, [], {})
    world.put("go", {**GO, "text": "again"})  # the same name is free for the next
    assert world.scan().triggers["go"][0].text == "again"
    world.folder.move_to_done(claim, "said to t")
    world.folder.move_to_done(claim)  # said twice
    assert world.files() == {"": ["go.json"], "done": ["go.json", "go.note.txt"]}
    assert (world.path / "done" / "go.note.txt").read_text() == "said to t\n"


def test_a_file_with_changed_content_is_put_back(world: World) -> None:
    world.put("a", LATER)
    digest = world.scan().triggers["a"][1]
    world.put("a", {**LATER, "schedule": "2031-01-01T00:00:00"})
    assert world.folder.claim("a", digest) is None
    assert world.folder.claim("b", digest) is None
    assert world.files() == {"": ["a.json"]}
    assert world.scan().triggers["a"][0].schedule == "2031-01-01T00:00:00"


def test_a_restored_file_overwrites_no_newer_one(world: World) -> None:
    path = world.put("a")
    world.put("a-2")
    digest = world.scan().triggers["a"][1]
    world.put("a", {**GO, "text": "second"})

    def third(event: str, arguments: tuple[Any, ...]) -> None:
        if "/firing/." in opened(event, arguments) and not path.exists():
            path.write_text(json.dumps({**GO, "text": "third"}))

    with watching(third):
        assert world.folder.claim("a", digest) is None
    found = {name: trigger.text for name, (trigger, _) in world.scan().triggers.items()}
    assert found == {"a": "third", "a-2": "go", "a-3": "second"}


def test_a_claim_of_an_earlier_process_stays_that_claim(world: World) -> None:
    world.put("go")
    world.put("gone", {**GO, "text": "damaged"})
    first, second = world.claim("go"), world.claim("gone")
    (world.path / "firing" / second.file_name).write_bytes(b"\xff\xff")
    world.folder = world.open()
    found = world.scan()
    assert found.unfinished_claims == [first]
    assert "being fired when the process ended" in found.problems["gone"]
    assert world.files()["failed"] == ["gone.json", "gone.reason.txt"]
    world.folder.move_to_done(first)
    assert world.scan().unfinished_claims == []


def test_a_file_not_yet_claimed_when_the_process_ended_waits_again(world: World) -> None:
    world.put("go")
    world.scan()
    (world.path / "go.json").rename(world.path / "firing" / ".id-9--go.json")
    world.folder = world.open()
    found = world.scan()
    assert (set(found.triggers), found.unfinished_claims) == ({"go"}, [])


def test_another_process_may_look_write_and_remove_but_moves_nothing(world: World) -> None:
    world.put("go")
    claim = world.claim()
    world.put("half")
    (world.path / "half.json").rename(world.path / "firing" / ".id-9--half.json")  # being claimed at this moment
    (world.path / "bad.json").write_text("no")
    before = world.files()
    other = EventFolder(str(world.path), world.clock, owned=False)
    assert "not a JSON object" in other.scan().problems["bad"]
    world.clock.at += 1000
    assert other.scan().unfinished_claims == []
    assert other.exists("go")
    assert other.exists("half")
    assert world.files() == before
    other.write(NEW)
    assert other.pause("new")
    assert other.remove("new")
    assert world.files() == before
    world.folder.move_to_done(claim)
    assert EventFolder(str(world.path / "nowhere"), world.clock, owned=False).scan() == EventFolderScan({}, [], {})
    assert not (world.path / "nowhere").exists()


def test_of_many_concurrent_claims_one_gets_the_file(world: World) -> None:
    world.put("go")
    digest = world.scan().triggers["go"][1]
    others = [EventFolder(str(world.path), world.clock) for _ in range(8)]
    for other in others:
        other.scan()
    start, claims = threading.Barrier(8), list[EventFileClaim | None]()

    def want(folder: EventFolder) -> None:
        start.wait(120)
        claims.append(folder.claim("go", digest))

    threads = [threading.Thread(target=want, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(claims) == 8
    assert sum(claim is not None for claim in claims) == 1


def test_a_refused_file_is_kept_with_the_reason_and_can_be_repaired(world: World) -> None:
    world.put("go")
    world.folder.move_to_failed(world.claim(), "the session is archived.")
    assert world.files() == {"failed": ["go.json", "go.reason.txt"]}
    assert "the session is archived. It was moved to failed/go.json." in world.scan().problems["go"]
    mended = world.path / "failed" / "go.json"
    mended.write_text(json.dumps({**GO, "threadId": "other"}))
    os.utime(mended, (time.time() + 1, time.time() + 1))
    assert world.scan(6).triggers["go"][0].target.session == "other"


def test_earlier_files_of_the_same_name_are_kept_and_the_oldest_are_removed(world: World) -> None:
    world.clock.at = 1_767_225_600  # 2026-01-01
    for _ in range(3):
        world.put("go")
        world.folder.move_to_done(world.claim())
    assert world.files()["done"] == ["go.20260101T000000Z.2.json", "go.20260101T000000Z.json", "go.json"]
    for number in range(DONE_MAX + DONE_SLACK):
        (world.path / "done" / f"old{number:04}.json").write_text("{}")
    world.folder = world.open()
    for _ in range(2):
        world.put("go", {**GO, "text": "new"})
        world.folder.move_to_done(world.claim(), "noted")
    left = list((world.path / "done").glob("*.json"))
    assert len(left) == DONE_MAX + 1  # and so on, until there are a hundred more again
    assert [json.loads(one.read_text())["text"] for one in left if one.name.startswith("go.")] == ["new", "new"]


# --- making and changing them --------------------------------------------------------------------

NEW = Trigger(name="new", kind="periodic", text="news", target=TriggerTarget(session="t"), schedule="@daily")


def test_a_trigger_is_written_whole_and_for_its_owner_alone(world: World) -> None:
    world.folder.write(NEW)
    assert world.files() == {"": ["new.json"]}
    assert stat.S_IMODE((world.path / "new.json").stat().st_mode) == 0o600
    assert (world.path / "new.json").read_bytes() == encode_trigger(NEW)
    assert world.scan().triggers["new"][0] == NEW
    other = msgspec.structs.replace(NEW, text="other")
    with pytest.raises(TriggerRefused, match="there is a trigger 'new' already"):
        world.folder.write(other)
    world.folder.write(other, replace=True)
    assert world.scan().triggers["new"][0] == other


@pytest.mark.parametrize(
    "wrong",
    [
        msgspec.structs.replace(NEW, schedule="never"),
        msgspec.structs.replace(NEW, name="../out"),
        msgspec.structs.replace(NEW, text=""),
        msgspec.structs.replace(NEW, kind="webhook", schedule=""),
        msgspec.structs.replace(NEW, target=TriggerTarget()),
    ],
    ids=["schedule", "name", "text", "kind", "target"],
)
def test_a_trigger_that_could_not_be_read_back_is_not_written(world: World, wrong: Trigger) -> None:
    with pytest.raises(TriggerRefused):
        world.folder.write(wrong)
    world.scan()
    assert world.files() == {}


def test_pausing_and_resuming_rewrites_the_file_and_keeps_the_rest(world: World) -> None:
    world.put("a", {**DAILY, "missed": "skip"})
    assert world.folder.pause("a")
    assert json.loads((world.path / "a.json").read_text()) == {**DAILY, "missed": "skip", "paused": True}
    assert world.scan().triggers["a"][0].paused
    assert world.folder.pause("a", False)
    assert json.loads((world.path / "a.json").read_text()) == {**DAILY, "missed": "skip"}
    assert not world.folder.pause("b")
    (world.path / "bad.json").write_text("no")
    with pytest.raises(TriggerRefused):
        world.folder.pause("bad")
    assert (world.path / "bad.json").read_text() == "no"


def test_a_write_during_a_change_is_not_lost(world: World) -> None:
    world.put("a", DAILY)
    edits = 0

    def edit(trigger: Trigger) -> Trigger:
        nonlocal edits
        edits += 1
        if edits == 1:
            world.put("a", {**DAILY, "text": "theirs"})
        return msgspec.structs.replace(trigger, paused=True)

    changed = world.folder.change("a", edit)
    assert changed is not None
    assert (changed.text, changed.paused, edits) == ("theirs", True, 2)
    assert world.files() == {"": ["a.json"]}


def test_removing_removes_what_waits_and_nothing_else(world: World) -> None:
    world.put("go")
    world.folder.move_to_done(world.claim())
    world.put("go")
    assert world.folder.exists("go")
    assert world.folder.remove("go")
    assert not world.folder.remove("go")
    assert world.files() == {"done": ["go.json"]}
    assert world.folder.exists("go")
    assert not world.folder.exists("other")
    with pytest.raises(TriggerRefused):
        world.folder.remove("../events/go")


# --- when the disk says no -----------------------------------------------------------------------


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow: every write fails as on a full disk, a rename does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_on_a_full_disk_nothing_is_lost_and_it_goes_on_afterwards(world: World) -> None:
    world.put("good", DAILY)
    (world.path / "bad.json").write_text("no")
    world.scan()
    with full_disk():
        found = world.scan(3)
        assert "cannot be moved to failed" in found.problems["bad"]
        assert set(found.triggers) == {"good"}
        with pytest.raises(EventFolderUnusable):
            world.folder.write(NEW)
        with pytest.raises(EventFolderUnusable):
            world.folder.pause("good")
    assert world.files() == {"": ["bad.json", "good.json"]}
    assert (world.path / "good.json").read_text() == json.dumps(DAILY)
    world.scan(3)
    assert world.files() == {"": ["good.json"], "failed": ["bad.json", "bad.reason.txt"]}


@pytest.mark.parametrize("name", ["failed", "firing", "done"])
def test_an_unusable_folder_is_reported_and_known_triggers_stay(world: World, name: str) -> None:
    world.put("good", DAILY)
    world.scan()
    (world.path / name).rmdir()
    (world.path / name).write_text("a file where the folder should be")
    found = world.scan()
    assert "cannot be used" in found.problems[FOLDER_KEY]
    assert set(found.triggers) == {"good"}
    (world.path / name).unlink()
    assert world.scan().problems == {}


def test_an_unmounted_folder_removes_no_trigger(world: World) -> None:
    world.put("good", DAILY)
    world.scan()
    away = world.path.rename(world.path.parent / "away")
    world.path.write_text("not a folder")
    found = world.scan()
    assert "cannot be used" in found.problems[FOLDER_KEY]
    assert set(found.triggers) == {"good"}
    with pytest.raises(EventFolderUnusable):
        world.folder.claim("good", found.triggers["good"][1])
    world.path.unlink()
    away.rename(world.path)
    assert world.scan().problems == {}


class Crash(BaseException):
    """The process ends here."""


USES = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.utime", "os.listdir", "os.scandir"}


def run_once(world: World, returned: list[EventFileClaim]) -> None:
    world.folder = world.open()
    found = world.scan()
    for name, (trigger, digest) in found.triggers.items():
        if trigger.kind != "periodic" and (claim := world.folder.claim(name, digest)) is not None:
            returned.append(claim)
            world.folder.move_to_done(claim, "noted")
    world.scan(3)
    world.folder.write(NEW, replace=True)
    world.folder.pause("new")


def test_stopped_at_any_point_each_file_is_in_one_place_and_a_claim_stays_claimed_f11(
    tmp_path: Path,
) -> None:
    """Stopped before every single use of the file system, in turn."""
    stopped = 0
    for number in range(10_000):
        world = World(tmp_path / f"{number}")
        world.put("go")
        (world.path / "bad.json").write_text("no")
        count, returned = 0, list[EventFileClaim]()

        def stop(event: str, arguments: tuple[Any, ...], number: int = number, ours: str = str(world.path)) -> None:
            nonlocal count
            if event in USES and (ours in str(arguments[0]) or str(arguments[0])[:1] != "/"):
                count += 1
                if count > number:
                    raise Crash

        try:
            with watching(stop):
                run_once(world, returned)
        except Crash:
            stopped += 1
        else:
            break
        world.folder = world.open()
        world.scan()
        found = world.scan(3)
        for name, content in (("go", json.dumps(GO)), ("bad", "no")):
            lying = [one for one in world.path.rglob(f"*{name}.json") if one.is_file()]
            assert len(lying) == 1, (number, lying)
            assert lying[0].read_text() == content
        if returned:  # it may have been fired: it is not fired under another id
            assert "go" not in found.triggers
            assert all(claim == returned[0] for claim in found.unfinished_claims)
        else:
            assert "go" in found.triggers or [claim.name for claim in found.unfinished_claims] == ["go"]
    assert stopped > 30


LOOP = """
import sys, time
from mainstay.triggers.event_folder import EventFolder
class Clock:
    def now_ms(self): return int(time.time() * 1000)
    def monotonic(self): return time.monotonic()
folder = EventFolder(sys.argv[1], Clock())
print("ready", flush=True)
found = folder.scan()
for claim in found.unfinished_claims:
    folder.move_to_done(claim)
for name, (_, digest) in found.triggers.items():
    folder.move_to_done(folder.claim(name, digest))
print("done", flush=True)
"""


def test_killed_again_and_again_all_files_are_done_in_the_end_and_none_twice(world: World) -> None:
    names = {f"n{number:03}" for number in range(200)}
    for name in names:
        world.put(name, {**GO, "text": name})
    chance = random.Random(11)
    for _ in range(12 if WHOLE else 3):
        with subprocess.Popen([sys.executable, "-c", LOOP, str(world.path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            try:
                process.wait(chance.random() * 0.2)
            except subprocess.TimeoutExpired:
                process.kill()
    subprocess.run([sys.executable, "-c", LOOP, str(world.path)], check=True, stdout=subprocess.DEVNULL, timeout=120)
    assert world.files() == {"done": sorted(f"{name}.json" for name in names)}


# --- many ----------------------------------------------------------------------------------------


async def test_ten_thousand_files_at_start_take_seconds_and_the_loop_goes_on_f11(world: World) -> None:
    world.path.mkdir()
    for number in range(10_000):
        fields = {**DAILY, "text": f"n{number}", "schedule": f"{number % 60} {number % 24} * * *"}
        with open(f"{world.path}/n{number}.json", "w") as file:
            file.write(json.dumps(fields))
    world.clock.at += 10
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    before = time.process_time()
    found: EventFolderScan = await run_in_thread(world.folder.scan)
    first, beats_of_first = time.process_time() - before, beats
    before = time.process_time()
    again: EventFolderScan = await run_in_thread(world.folder.scan)
    second = time.process_time() - before
    beating.cancel()
    print(f"10,000 files: {first:.2f} s of CPU, again {second * 1000:.0f} ms; {beats_of_first} turns of the loop")
    assert len(found.triggers) == 10_000
    assert again == found
    assert first < 60
    assert second < first
    assert beats_of_first > 3, "the loop went on meanwhile"


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not(world: World) -> None:
    raw = json.dumps(GO).encode()
    world.scan()
    (world.path / "a.json").write_bytes(raw + b" " * (FILE_BYTES_MAX - len(raw)))
    (world.path / "b.json").write_bytes(raw + b" " * (FILE_BYTES_MAX + 1 - len(raw)))
    found = world.scan()
    assert set(found.triggers) == {"a"}
    assert str(FILE_BYTES_MAX) in found.problems["b"]
