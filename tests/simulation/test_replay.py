"""A session runs again from its journal, with no model and no tools, and comes out the same; a changed one does not.

What came from outside (inputs, the model's words, a tool's answer) is what a replay is fed with. Everything that the
runtime made of it is made again, and what was tampered with there is named.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.session_scenes import CUT, END, LIMITS, SESSION, Ledger, Scene, SceneRun, calling, random_scene

from mainstay.core.events import (
    Event,
    MessageAdded,
    Received,
    SessionChanged,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.journal import Record
from mainstay.core.messages import Finish, FinishReason, Text, ToolCall
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.replay import replay_journal
from mainstay.lane.services import LaneServices
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import Call, Say, ScriptedProvider, VirtualClock, virtual_run
from mainstay.turn.toolbox import Toolbox

SESSIONS = 1000
SHARES = 4


async def recorded(scene: Scene) -> list[Record]:
    made = SceneRun(scene)
    await made.run()
    await made.end()
    return await made.records()


@pytest.mark.parametrize("share", range(SHARES))
def test_a_thousand_sessions_replay_identically(share: int) -> None:
    kinds: Counter[str] = Counter()

    async def one(seed: int) -> None:
        records = await recorded(random_scene(seed))
        replayed = await replay_journal(records)
        assert replayed.is_identical, f"seed {seed}: {replayed.difference}"
        assert replayed.records == len(records)
        kinds.update(type(record.event).__name__ for record in records)
        kinds.update(type(r.event.outcome).__name__ for r in records if isinstance(r.event, TurnEnded))
        kinds["turns"] += replayed.turns

    for seed in range(share, SESSIONS, SHARES):
        virtual_run(one(seed))
    assert kinds["turns"] > 3 * SESSIONS / SHARES
    everything = (Received, TurnStarted, TurnResumed, MessageAdded, ToolStarted, ToolFinished, Steered)
    everything += (StepCheckpointed, StepRestarted, TurnEnded, Answered, Aborted, Exhausted, Failed)  # type: ignore[assignment]
    missing = [kind.__name__ for kind in everything if kinds[kind.__name__] < 5]
    assert not missing, f"too few of {missing}: the sessions are not varied enough"


def test_a_steer_in_the_instant_in_which_a_call_begins_replays_identically() -> None:
    async def run() -> None:
        records = await recorded(random_scene(922))
        events = [record.event for record in records]
        assert any(isinstance(event, Steered) for event in events)
        messages = [event.parts for event in events if isinstance(event, MessageAdded)]
        cut = [parts for parts in messages if Finish(FinishReason.STEERED) in parts]
        assert not any(isinstance(part, ToolCall) for parts in cut for part in parts)
        assert (await replay_journal(records)).is_identical

    virtual_run(run())


async def test_a_journal_that_stops_anywhere_replays_as_far_as_it_goes() -> None:
    """A running session can be replayed too."""
    records = rich()
    for size in range(len(records) + 1):
        replayed = await replay_journal(records[:size])
        assert replayed.is_identical, replayed.difference


# --- tampering -----------------------------------------------------------------------------------


def rich() -> list[Record]:
    """A session with something of everything: copies of calls, bounds, a crash, a steer, an abort, a failure."""
    actions = (
        *(("prompt",), ("wait", 0.4), ("crash",), ("wait", 8.0)),
        *(("prompt",), ("wait", 0.4), ("steer",), ("wait", 45.0)),
        *(("prompt",), ("wait", 0.4), ("abort",), ("wait", 0.4)),
        *(("prompt",), ("wait", 45.0), ("prompt",), ("wait", 45.0)),
    )
    fine = (("text", "fine"), END)
    answers = (
        *(calling((7, 4, 0, 0)), calling((6, 6, 2), reason="length"), fine),  # the crash finds an unsafe call at work
        *(calling((7, 3, 7)), fine),  # the steer skips two
        calling((5, 6)),  # the abort finds one at work and one not begun
        *(calling((0,) * 12), calling((2, 12, 16, 17)), fine),  # as many as a turn may make, and more
        *((("text", "half"), CUT), (("error", "RequestRefused"),)),
    )
    return virtual_run_nested(recorded(Scene(actions, answers)))


def virtual_run_nested(work: Any) -> list[Record]:
    """On a loop of its own, in a thread of its own: pytest's is running."""
    found: list[list[Record]] = []
    thread = threading.Thread(target=lambda: found.append(virtual_run(work)))
    thread.start()
    thread.join()
    return found[0]


RICH = rich()
FROM_OUTSIDE = (Received, SessionChanged, StepCheckpointed, TurnResumed)  # a crash comes when it comes


def renumbered(records: list[Record]) -> list[Record]:
    return [Record(place, record.at, record.event) for place, record in enumerate(records, start=1)]


def test_the_rich_session_is_rich() -> None:
    assert {type(record.event) for record in RICH} == {
        *(Received, TurnStarted, TurnResumed, MessageAdded, ToolStarted, ToolFinished),
        *(Steered, StepCheckpointed, StepRestarted, TurnEnded, SessionChanged),
    }
    outcomes = {type(record.event.outcome) for record in RICH if isinstance(record.event, TurnEnded)}
    assert outcomes == {Answered, Aborted, Exhausted, Failed}


async def test_a_missing_record_is_named() -> None:
    for place in range(len(RICH) - 1):
        replayed = await replay_journal([*RICH[:place], *RICH[place + 1 :]])
        assert replayed.difference.startswith(f"record {place + 1} is missing"), replayed


@pytest.mark.parametrize("kind", [Received, TurnStarted, MessageAdded, ToolFinished, Steered, TurnEnded])
async def test_a_record_dropped_without_a_trace_is_noticed(kind: type[Event]) -> None:
    """The numbers were closed up behind it; what follows no longer fits."""
    places = [place for place, record in enumerate(RICH[:-1]) if isinstance(record.event, kind)]
    for place in places:
        replayed = await replay_journal(renumbered([*RICH[:place], *RICH[place + 1 :]]))
        assert not replayed.is_identical, RICH[place]
        assert replayed.difference.startswith("record ")


async def test_a_changed_order_is_noticed() -> None:
    swapped = 0
    for place, (one, two) in enumerate(pairwise(RICH)):
        if isinstance(one.event, FROM_OUTSIDE) or isinstance(two.event, FROM_OUTSIDE):
            continue  # the order in which things come in is theirs to choose
        if isinstance(one.event, ToolFinished) and isinstance(two.event, ToolStarted):
            continue  # the other order is that of calls that ran beside each other, which a journal may have
        records = renumbered([*RICH[:place], two, one, *RICH[place + 2 :]])
        replayed = await replay_journal(records)
        assert not replayed.is_identical, (one, two)
        named = int(replayed.difference.split()[1])
        assert place <= named <= place + 3, replayed.difference
        swapped += 1
    assert swapped > 30


def changed_numbers(event: Event) -> Event:
    return msgspec.structs.replace(event, turn=event.turn + 1)


def changed_outcome(event: Event) -> Event | None:
    if not isinstance(event, TurnEnded) or isinstance(event.outcome, Failed):
        return None
    return TurnEnded(Answered() if not isinstance(event.outcome, Answered) else Aborted(), turn=event.turn)


def changed_notice(event: Event) -> Event | None:
    if not isinstance(event, MessageAdded) or event.role != "system":
        return None
    return msgspec.structs.replace(event, parts=(Text("Go on as long as you like.", origin="runtime"),))


def changed_call_id(event: Event) -> Event | None:
    if not isinstance(event, MessageAdded) or not any(isinstance(part, ToolCall) for part in event.parts):
        return None
    parts = tuple(msgspec.structs.replace(p, id="call_9_9_9") if isinstance(p, ToolCall) else p for p in event.parts)
    return msgspec.structs.replace(event, parts=parts)


def changed_wholeness(event: Event) -> Event | None:
    """A call that was cut off is said to be whole, or the other way round."""
    if not isinstance(event, MessageAdded) or not any(isinstance(part, ToolCall) for part in event.parts):
        return None
    parts = tuple(
        msgspec.structs.replace(p, finished=not p.finished) if isinstance(p, ToolCall) else p for p in event.parts
    )
    return msgspec.structs.replace(event, parts=parts)


def changed_result_of_the_runtime(event: Event) -> Event | None:
    """Refusals and copies of earlier results are not from a tool: the runtime made them."""
    if not isinstance(event, ToolFinished) or not event.result.content.startswith("Not run"):
        return None
    return ToolFinished(
        msgspec.structs.replace(event.result, content="it ran", is_error=False), turn=event.turn, step=event.step
    )


def changed_result_of_another_call(event: Event) -> Event | None:
    if not isinstance(event, ToolFinished):
        return None
    return msgspec.structs.replace(event, result=msgspec.structs.replace(event.result, name="another"))


@pytest.mark.parametrize(
    "change",
    [
        changed_numbers,
        changed_outcome,
        changed_notice,
        changed_call_id,
        changed_wholeness,
        changed_result_of_the_runtime,
        changed_result_of_another_call,
    ],
)
async def test_a_changed_record_is_named(change: Callable[[Event], Event | None]) -> None:
    tried = 0
    for place, record in enumerate(RICH):
        if isinstance(record.event, (*FROM_OUTSIDE, TurnStarted)):
            continue  # what came from outside is what a replay is fed with
        event = change(record.event)
        if event is None:
            continue
        tried += 1
        records = [*RICH[:place], Record(record.seq, record.at, event), *RICH[place + 1 :]]
        replayed = await replay_journal(records)
        assert not replayed.is_identical, event
        assert replayed.difference.startswith("record "), replayed.difference
        assert replayed.difference.split()[1] == str(record.seq), replayed.difference
    assert tried


async def test_the_copy_of_an_identical_calls_result_cannot_be_changed() -> None:
    """Identical calls of one answer run once; the copies of the result are the runtime's own."""
    place = next(
        place
        for place, record in enumerate(RICH)
        if isinstance(record.event, ToolFinished) and record.event.result.call_id.endswith("_1_3")
    )
    event = RICH[place].event
    assert isinstance(event, ToolFinished)
    forged = msgspec.structs.replace(event, result=msgspec.structs.replace(event.result, content="look elsewhere"))
    records = [*RICH[:place], Record(place + 1, 0, forged), *RICH[place + 1 :]]
    replayed = await replay_journal(records)
    assert replayed.difference.startswith(f"record {place + 1} "), replayed


# --- from disk -----------------------------------------------------------------------------------


async def test_a_session_kept_in_sqlite_replays_identically(tmp_path: Path) -> None:
    script = [
        [Call("charge", {"do": "ok"}), Call("look", {"do": "ok"}), Call("look", {"do": "ok"}), Call("nobody")],
        Say("charged", thinking="hm"),
        Call("put", '{"do":'),
        "that was malformed",
        "and the last",
    ]
    provider = ScriptedProvider(script)
    store = SqliteStore(str(tmp_path / "workspace.db"))
    await store.open()
    services = LaneServices(
        store=store,
        provider_for=lambda _: provider,
        tools=Toolbox(Ledger().tools(), LIMITS),
        limits=LIMITS,
        clock=VirtualClock(),
        hub=EventHub(64),
    )
    lanes = LaneRegistry(services)
    for text in ("one", "two", "three"):
        ticket = await lanes.get(SESSION).accept(InputEnvelope(parts=to_parts(text), thread=SESSION, id=text))
        assert isinstance((await asyncio.wait_for(ticket.reply, 120)).outcome, Answered)
    await lanes.close()
    records = await store.read_records(SESSION)
    await store.close()
    replayed = await replay_journal(records)
    assert replayed.is_identical, replayed.difference
    assert (replayed.turns, replayed.records) == (3, len(records))
