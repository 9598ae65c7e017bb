"""The list of errors: from journals and logs, grouped, and bounded."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.error_reports import (
    REPORTS_MAX,
    RETENTION_DAYS,
    SENTENCE_CHARS_MAX,
    ErrorKind,
    ErrorQuery,
    ErrorReport,
    normalise_sentence,
)
from mainstay.core.errors import StoreFailed
from mainstay.core.events import Delivered, Event, Judged, Score, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.journal_wording import WORDINGS, JournalWording
from mainstay.core.messages import ToolResult
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import SessionInfo
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.turn_location import ENDS_TURN, TurnLocation, TurnLocationContext, trace_id
from mainstay.guards.redaction import Redactor
from mainstay.observe.error_log_handler import REPORTS_PER_SECOND_MAX, ErrorLogHandler
from mainstay.observe.error_projection import DECISION_PREFIXES, UNCHECKED_PREFIX, ErrorProjection
from mainstay.store.sqlite.error_store import SqliteErrorStore
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase
from mainstay.turn import tool_calls, toolbox

AT = 1_800_000_000_000
CREATED = AT - 1000
TRACE = trace_id("s", CREATED, 1)
CANARY = "canary-secret-value-1234"
log = logging.getLogger("mainstay.channels.test")


@asynccontextmanager
async def open_error_store(path: Path, now: int = AT) -> AsyncIterator[SqliteErrorStore]:
    database = HomeProjectionDatabase(str(path / "gateway.db"))
    await database.open()
    try:
        yield SqliteErrorStore(database, lambda: now)
    finally:
        await database.close()


def stretch(*events: Event, after: int = 0) -> JournalBatch:
    records = [Record(after + number, AT + number, event) for number, event in enumerate(events, 1)]
    return JournalBatch(SessionInfo(key="s", created=CREATED, head=after + len(records)), records)


def clean(text: str) -> str:
    return Redactor([CANARY]).redact(text)[0]


def mishap(
    number: int, *, at: int = AT, kind: ErrorKind = "tool", sentence: str = "it broke", session: str = "s"
) -> ErrorReport:
    return ErrorReport(
        id=f"{number:012}", at=at, kind=kind, place="look", sentence=sentence, session=session, record=number
    )


# --- from journals -------------------------------------------------------------------------------


async def test_errors_in_a_journal_are_listed_with_their_location(tmp_path: Path) -> None:
    """LOOM-030"""
    events = [
        TurnStarted((), turn=1),
        ToolFinished(ToolResult("c1", "look", "FileNotFoundError: no\nmore", is_error=True), turn=1, step=1),
        ToolFinished(ToolResult("c2", "look", f"{UNCHECKED_PREFIX}what", is_error=True), turn=1, step=1),
        Judged((Score("kind", error="it took too long"), Score("short", 0.9)), 0.9, passed=True, turn=1, step=2),
        Delivered("k", ChatAddress("slack", "room"), state="failed", note="the room is gone", turn=1),
        TurnEnded(Failed("It could not.", "KeyError: 'x'", TRACE, turn=1, step=3), turn=1),
    ]
    async with open_error_store(tmp_path) as errors:
        reader = ErrorProjection(errors, "main", clean)
        await reader.apply(stretch(*events))
        found = {one.kind: one for one in await errors.find_reports(ErrorQuery())}
        assert await reader.positions() == {"s": len(events)}
    assert {one.workspace for one in found.values()} == {"main"}
    assert {(one.session, one.turn, one.trace) for one in found.values()} == {("s", 1, TRACE)}
    told = {kind: (one.place, one.sentence, one.step, one.record) for kind, one in found.items()}
    assert told == {
        "tool": ("look", "FileNotFoundError: no", 1, 2),
        "guard": ("look", f"{UNCHECKED_PREFIX}what", 1, 3),
        "judge": ("kind", "it took too long", 2, 4),
        "delivery": ("slack", "the room is gone", 0, 5),
        "turn": ("KeyError", "It could not.", 3, 6),
    }
    assert found["tool"].call == "c1"
    assert found["tool"].details == "FileNotFoundError: no\nmore"


@pytest.mark.parametrize("wording", WORDINGS.values(), ids=lambda wording: wording.skipped)
def test_decisions_are_recognised_by_their_prefix(wording: JournalWording) -> None:
    decisions = [
        *(wording.cancelled, wording.not_started, wording.skipped, wording.turn_ended, wording.call_denied),
        *(wording.approval_expired, wording.call_changed, wording.effect_changed, wording.folder_changed),
    ]
    assert all(sentence.startswith(DECISION_PREFIXES) for sentence in decisions)
    assert not wording.outcome_unknown.startswith(DECISION_PREFIXES), "what is not known may have gone wrong"
    assert toolbox.RESULT_WITHHELD.startswith(UNCHECKED_PREFIX)
    assert "Not run: " in Path(tool_calls.__file__).read_text()


async def test_decisions_and_successes_are_no_errors(tmp_path: Path) -> None:
    async with open_error_store(tmp_path) as errors:
        results = [ToolResult(str(n), "look", f"{one}…", is_error=True) for n, one in enumerate(DECISION_PREFIXES)]
        fine = [ToolFinished(one, turn=1, step=1) for one in (*results, ToolResult("x", "look", "here"))]
        fine_too = [Judged((Score("kind", 0.1),), 0.1, passed=False, turn=1), TurnEnded(Answered(), turn=1)]
        await ErrorProjection(errors, "main", clean).apply(stretch(*fine, *fine_too))
        assert await errors.find_reports(ErrorQuery()) == []


async def test_records_applied_twice_are_listed_once(tmp_path: Path) -> None:
    failed = stretch(ToolFinished(ToolResult("c", "look", "no", is_error=True), turn=1, step=1), after=4)
    async with open_error_store(tmp_path) as errors:
        for _ in range(2):
            await ErrorProjection(errors, "main", clean).apply(failed)
        assert len(await errors.find_reports(ErrorQuery())) == 1
        await ErrorProjection(errors, "other", clean).apply(failed)
        assert len(await errors.find_reports(ErrorQuery())) == 2, "another workspace has a session of that name, too"
        assert len(await errors.find_reports(ErrorQuery(workspace="other"))) == 1


async def test_f40_no_secret_is_in_the_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = [
        ToolFinished(ToolResult("c", "look", f"no {CANARY}\nfor {CANARY}", is_error=True), turn=1, step=1),
        TurnEnded(Failed(f"{CANARY} was refused", f"with {CANARY}", turn=1, step=2), turn=1),
    ]
    async with open_error_store(tmp_path) as errors:
        await ErrorProjection(errors, "main", clean).apply(stretch(*events))
        logged = ErrorLogHandler(errors, clean)
        logged.open()
        try:
            raise ValueError(f"{CANARY} is wrong")
        except ValueError:
            log.exception("it has %s", CANARY, extra={"session": f"of-{CANARY}"})
        await logged.aclose()
        assert len(await errors.find_reports(ErrorQuery())) == 3
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert CANARY.encode() not in raw
    assert b"was refused" in raw


# --- from logs -----------------------------------------------------------------------------------


async def test_logged_errors_are_listed_from_every_thread(tmp_path: Path) -> None:
    """LOOM-030"""
    async with open_error_store(tmp_path) as errors:
        logged = ErrorLogHandler(errors, clean)
        logged.open()
        with TurnLocationContext(lambda: TurnLocation("s", 2, 1, TRACE)):
            log.error("slack: is not connected")
            log.warning("that is tried again")
        other = threading.Thread(target=lambda: logging.getLogger("mainstay.triggers").error("nightly failed"))
        other.start()
        other.join()
        logging.getLogger("mainstay.lane").error("waits", extra={"kind": "store"})
        logging.getLogger("mainstay.observe").error("errors is behind")
        logging.getLogger("elsewhere").error("none of ours")
        async with asyncio.timeout(120):
            while len(found := await errors.find_reports(ErrorQuery())) < 3:
                await asyncio.sleep(0.01)
        await logged.aclose()
        log.error("too late")
        assert len(await errors.find_reports(ErrorQuery())) == 3
    told = {(one.kind, one.sentence, one.session, one.turn, one.trace) for one in found}
    assert told == {
        ("channel", "slack: is not connected", "s", 2, TRACE),
        ("trigger", "nightly failed", "", 0, ""),
        ("store", "waits", "", 0, ""),
    }


async def test_a_bug_that_ends_a_turn_is_one_error_with_its_traceback(tmp_path: Path) -> None:
    for journal_first in (False, True):
        async with open_error_store(tmp_path) as errors:
            logged = ErrorLogHandler(errors, clean)
            logged.open()
            reader = ErrorProjection(errors, "main", clean)
            end = stretch(TurnEnded(Failed("Inside.", "KeyError: 'x'", TRACE, turn=1, step=1), turn=1), after=7)
            if journal_first:
                await reader.apply(end)
            try:
                raise KeyError("x")
            except KeyError:
                with TurnLocationContext(lambda: TurnLocation("s", 1, 1, TRACE)):
                    log.exception("turn 1 of s failed", extra=ENDS_TURN)
            await logged.aclose()
            if not journal_first:
                await reader.apply(end)
            [one] = await errors.find_reports(ErrorQuery())
            assert (one.sentence, one.workspace, one.record) == ("Inside.", "main", 8)
            assert "Traceback (most recent call last)" in one.details
            await errors.delete_reports(ErrorQuery())


async def test_a_flood_of_errors_is_no_flood_of_the_list(tmp_path: Path) -> None:
    async with open_error_store(tmp_path) as errors:
        logged = ErrorLogHandler(errors, clean)
        logged.open()
        for number in range(1_000):
            log.error("error %d", number)
        await logged.aclose()
        found = await errors.find_reports(ErrorQuery(), 1_000)
    assert REPORTS_PER_SECOND_MAX <= len(found) <= REPORTS_PER_SECOND_MAX * 10, (
        "a loaded machine takes some seconds for it"
    )


async def test_logging_never_fails_because_of_the_error_list() -> None:
    class Broken:
        async def add(self, found: object) -> None:
            raise StoreFailed("the disk broke")

    class Mute:
        def __str__(self) -> str:
            raise ValueError("it cannot say what it is")

    logged = ErrorLogHandler(Broken(), clean)  # type: ignore[arg-type]
    logged.open()
    logged.handle(logging.makeLogRecord({"name": "mainstay.x", "msg": "%s", "args": (Mute(),), "levelno": 40}))
    log.error("this is not listed")
    await asyncio.sleep(0)
    await logged.aclose()


# --- what is kept --------------------------------------------------------------------------------


async def test_the_newest_errors_are_kept_for_a_while(tmp_path: Path) -> None:
    day = 86_400_000
    async with open_error_store(tmp_path) as errors:
        await errors.add([mishap(1, at=AT - (RETENTION_DAYS + 1) * day), mishap(2, at=AT - day)])
        assert [one.id for one in await errors.find_reports(ErrorQuery())] == [mishap(2).id], (
            "the first was too old already"
        )
        await errors.add([mishap(10 + n, at=AT + n) for n in range(REPORTS_MAX)])
        found = await errors.find_reports(ErrorQuery(), REPORTS_MAX * 2)
        assert len(found) == REPORTS_MAX
        assert found[-1].id == mishap(10).id, "the oldest made room"


async def test_like_is_grouped_with_like_and_the_newest_stands_for_it(tmp_path: Path) -> None:
    async with open_error_store(tmp_path) as errors:
        said = [f"/tmp/{n}/x.txt: no such file (attempt {n} of call_1_{n}_0) for 'ann{n}'" for n in range(3)]
        await errors.add([mishap(n, at=AT + n, sentence=one) for n, one in enumerate(said)])
        await errors.add([mishap(7, at=AT + 7, sentence="something else"), mishap(8, kind="judge", sentence=said[0])])
        groups = await errors.find_groups(ErrorQuery())
        assert [(one.count, one.newest.sentence) for one in groups] == [
            (1, "something else"),
            (3, said[2]),
            (1, said[0]),
        ]
        assert (groups[1].first, groups[1].last) == (AT, AT + 2)
        assert {one.sentence for one in await errors.find_reports(ErrorQuery(group=groups[1].id))} == set(said)
        assert await errors.delete_reports(ErrorQuery(group=groups[1].id)) == 3
        assert len(await errors.find_reports(ErrorQuery(since=AT + 7))) == 1


async def test_erased_sessions_are_in_no_list(tmp_path: Path) -> None:
    async with open_error_store(tmp_path) as errors:
        await errors.add([mishap(1), mishap(2), mishap(3, session="t")])
        await errors.forget_records("", "s", [2])
        assert {one.record for one in await errors.find_reports(ErrorQuery())} == {1, 3}
        await errors.forget_records("", "s")
        assert {one.session for one in await errors.find_reports(ErrorQuery())} == {"t"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("after 12 s", "after 3.5 s"),
        ("at 10.0.0.1:80", "at 192.168.1.20:8080"),
        ("no session 'a b'", 'no session "c"'),
        ("cannot open /etc/x.conf", "cannot open /var/lib/y"),
        ("GET https://a.example/x failed", "GET https://b.example/y/z failed"),
        ("trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace 00f067aa0ba902b700f067aa0ba902b7"),
        ("chat-ff71d9f4e9ce2d72 broke", "chat-0123456789abcdef broke"),
    ],
)
def test_numbers_ids_paths_and_quotations_make_no_difference(one: str, other: str) -> None:
    assert normalise_sentence(one) == normalise_sentence(other)


def test_words_make_a_difference() -> None:
    assert normalise_sentence("it is full") != normalise_sentence("it is empty")
    assert normalise_sentence("the facade faded") == "the facade faded", "no digits, no id"


@given(st.text(max_size=2_000))
def test_any_message_can_be_compared(text: str) -> None:
    found = normalise_sentence(text)
    assert len(found) <= 2 * SENTENCE_CHARS_MAX
    assert not any("0" <= char <= "9" for char in found)
