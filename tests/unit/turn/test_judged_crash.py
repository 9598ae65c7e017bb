"""A process that dies during judging: the next one judges what is on disk, and asks the model for nothing again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from support.judge_world import PublicWatcher, World, by_answer, envelope, panel_of, verdicts, words
from support.kernel_world import make_store, turns, virtual

from mainstay.agent.system_clock import SystemClock
from mainstay.core.events import (
    Forked,
    Judged,
    Lagged,
    MessageAdded,
    Received,
    Reserved,
    Settled,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.judges import JudgeInput
from mainstay.core.limits import Limits
from mainstay.core.messages import Text, parts_text
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import Context, Options
from mainstay.core.provisional_answers import decided_records, hidden_seqs, visible_records
from mainstay.core.session import Session
from mainstay.core.tools import tool
from mainstay.judges.model_judge import ModelJudge, ModelJudgeOptions
from mainstay.judges.panel import ConcurrentJudgePanel
from mainstay.lane.draft_filter import DraftFilter
from mainstay.lane.replay import replay_journal
from mainstay.testing import Call, MemoryStore, ScriptedProvider, Stall
from mainstay.testing.store_suite import SessionWriter

MOMENTS = 70  # turns of the loop, after which such a turn is over


def answers(context: Context, options: Options) -> str:
    """One after the other, by how often it was corrected."""
    return f"answer {sum(message.role == 'system' for message in context.messages) + 1}"


async def finish(world: World) -> None:
    await world.lanes.resume_unfinished()
    await world.lanes.wait_until_settled()


async def check(world: World) -> None:
    """Each answer was judged once, in its order, and the turn has ended as it would have without a crash."""
    events = await world.journal()
    said = [parts_text(one.parts) for one in events if isinstance(one, MessageAdded) and one.role == "assistant"]
    assert said == ["answer 1", "answer 2", "answer 3"]
    assert [one[0] for one in verdicts(events)] == [1, 2, 3]
    assert [one.step for one in events if isinstance(one, Judged)] == [1, 2, 3]
    ended = [one.outcome for one in events if isinstance(one, TurnEnded)]
    assert ended == [Answered(0.9)]
    await world.check_replay()


@pytest.mark.parametrize("streaming", ["hold", "draft"])
def test_a_crash_at_any_moment_changes_nothing_of_what_comes_of_a_judged_turn(
    streaming: Literal["hold", "draft"],
) -> None:
    scores = {"answer 1": 0.1, "answer 2": 0.4, "answer 3": 0.9}
    crashed_unjudged = []

    async def life(moment: int) -> None:
        async def judge(exhibit: JudgeInput) -> float:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return scores[exhibit.answer]

        world = World(answers, more=panel_of(judge, streaming=streaming))
        async with world:
            world.watch()  # so that everything is written at once, and not when there is time
            await world.send("go", id="m1")
            await turns(moment)
            await world.crash()
        kept = await world.journal()
        before = [parts_text(one.parts) for one in kept if isinstance(one, MessageAdded) and one.role == "assistant"]
        judged = len(verdicts(kept))
        async with world.after(answers, more=panel_of(judge, streaming=streaming)) as after:
            heard = PublicWatcher(after)
            await finish(after)
            await check(after)
            again = [options.step for options in after.provider.asked]
            assert again == list(range(len(before) + 1, 4)), "what is on disk is not asked for again"
            if len(before) > judged:
                crashed_unjudged.append(moment)
            assert streaming == "draft" or "answer 1" not in words(await heard.leave())

    for moment in range(MOMENTS):
        virtual(life)(moment)
    assert crashed_unjudged, "some of the moments lie between an answer and its verdict"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_answer_that_was_on_disk_and_not_judged_is_judged_by_the_next_process(kind: str, tmp_path: Path) -> None:
    async def scene() -> None:
        reached = asyncio.Event()

        async def hangs(exhibit: JudgeInput) -> float:
            reached.set()
            await asyncio.Event().wait()
            return 0.0

        world = World(["the answer"], store=make_store(kind, tmp_path), clock=SystemClock(), more=panel_of(hangs))
        async with world:
            await world.send("go", id="m1")
            await reached.wait()
            await world.lanes.get("s").record_changes()
            await world.crash()
        async with world.after([], more=panel_of(by_answer({"the answer": 0.8}))) as after:
            assert (await after.kinds())[-1] == "MessageAdded"
            reply = await after.ask("go", id="m1")
            assert (reply.text, reply.outcome) == ("the answer", Answered(0.8))
            assert not after.provider.asked
            assert (await after.kinds())[-4:] == ["MessageAdded", "TurnResumed", "Judged", "TurnEnded"]
            await after.check_replay()

    asyncio.run(scene())


@virtual
async def test_an_answer_that_waited_for_judges_stands_without_judges() -> None:
    reached = asyncio.Event()

    async def hangs(exhibit: JudgeInput) -> float:
        reached.set()
        await asyncio.Event().wait()
        return 0.0

    world = World(["the answer"], more=panel_of(hangs))
    async with world:
        await world.send("go", id="m1")
        await reached.wait()
        await world.lanes.get("s").record_changes()
        await world.crash()
    async with world.after([]) as after:
        reply = await after.ask("go", id="m1")
        assert (reply.text, reply.outcome) == ("the answer", Answered())
        await after.check_replay()


@virtual
async def test_a_process_that_closes_while_judges_think_leaves_the_judging_to_the_next() -> None:
    reached = asyncio.Event()

    async def hangs(exhibit: JudgeInput) -> float:
        reached.set()
        await asyncio.Event().wait()
        return 0.0

    world = World(["the answer"], more=panel_of(hangs))
    async with world:
        await world.send("go", id="m1")
        await reached.wait()
        await world.lanes.close()
    async with world.after([], more=panel_of(by_answer({"the answer": 1.0}))) as after:
        await finish(after)
        assert [one for one in await after.kinds() if one in ("Judged", "TurnEnded")] == ["Judged", "TurnEnded"]
        assert not after.provider.asked
        await after.check_replay()


class OpenReservations:
    """Counts reservations that are not settled."""

    limits_every_session = True

    def __init__(self) -> None:
        self.open: list[str] = []

    async def open_turn_budget(self, session: Any) -> OpenReservations:
        return self

    def try_reserve(self, estimate: Any) -> Reserved:
        self.open.append(estimate.id)
        return Reserved(estimate.id, "m", 10, 10, 10, turn=1)

    async def reserve(self, estimate: Any) -> Reserved:
        return self.try_reserve(estimate)

    def settle(self, reserved: Reserved, usage: Any, cost: float) -> None:
        self.open.remove(reserved.id)

    def charge(self, usage: Any, cost: float) -> None: ...

    def count_tool_call(self) -> str | None:
        return None

    def take_warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None: ...


@pytest.mark.parametrize("how", ["abort", "steer", "close"])
def test_cancelled_judges_settle_their_reservations(how: str) -> None:
    @virtual
    async def scene() -> None:
        accounts = OpenReservations()
        stall = Stall()
        judge = ScriptedProvider([stall, '{"score": 1}'])
        panel = ConcurrentJudgePanel(
            [ModelJudge("kind", lambda: "", lambda spec: judge, ModelJudgeOptions(timeout_s=200))]
        )
        async with World(["one", "two"], more={"judges": panel, "budget_manager": accounts}) as world:
            ticket = await world.send("go")
            await stall.reached.wait()
            if how == "abort":
                await world.abort()
                await ticket.reply
            elif how == "steer":
                await world.steer("otherwise")
                await ticket.reply
            else:
                await world.lanes.close()
            assert accounts.open == []
            events = await world.journal()
            put = [one.id for one in events if isinstance(one, Reserved) and one.id.startswith("judge:")]
            closed = [one.id for one in events if isinstance(one, Settled) and one.id.startswith("judge:")]
            closed += [
                f"judge:{one.turn}.{one.step}:{score.judge}" for one in verdict_events(events) for score in one.scores
            ]
            assert sorted(put) == sorted(closed)
            assert put[0] == "judge:1.1:kind"

    scene()


def verdict_events(events: list[Any]) -> list[Judged]:
    return [one for one in events if isinstance(one, Judged)]


@virtual
async def test_a_reader_of_the_public_journal_reads_no_failed_attempt() -> None:
    scores = {"answer 1": 0.1, "answer 2": 0.4, "answer 3": 0.9}
    async with World(answers, more=panel_of(by_answer(scores))) as world:
        await world.ask("go")
        records = await world.records()
        hidden = hidden_seqs(records)
        assert [parts_text(one.event.parts) for one in records if one.seq in hidden] == ["answer 1", "answer 2"]
        assert "answer 3" in words([one.event for one in visible_records(records)])
        for cut in range(1, len(records) + 1):  # a page that ends anywhere
            page = visible_records(records[:cut], records[cut:])
            assert [one.seq for one in page] == list(range(1, cut + 1))
            read = words([one.event for one in page])
            assert "answer 1" not in read
            assert "answer 2" not in read
            assert ("answer 3" in read) is ("answer 3" in words([one.event for one in records[:cut]]))


@virtual
async def test_the_draft_filter_releases_everything_in_order_from_any_starting_point() -> None:
    scores = {"answer 1": 0.1, "answer 2": 0.4, "answer 3": 0.9}
    async with World(answers, more=panel_of(by_answer(scores))) as world:
        await world.ask("go")
        records = await world.records()
        events = [msgspec.structs.replace(one.event, session="s", sequence=one.seq) for one in records]
        for begin in range(len(events)):
            curtain = DraftFilter()
            heard = [one for event in events[begin:] for one in curtain.push_event(event)]
            assert [one.sequence for one in heard] == [one.sequence for one in events[begin:]]
            assert "answer 1" not in words(heard)
            assert "answer 2" not in words(heard)
            assert not curtain.release_undecided()


@virtual
async def test_a_watcher_that_missed_any_events_is_not_shown_a_failed_attempt() -> None:
    scores = {"answer 1": 0.1, "answer 2": 0.4, "answer 3": 0.9}
    async with World(answers, more=panel_of(by_answer(scores))) as world:
        await world.ask("go")
        events = [msgspec.structs.replace(one.event, session="s", sequence=one.seq) for one in await world.records()]
        for begin in range(len(events)):
            for end in range(begin, len(events)):
                for told in ([Lagged(end - begin)], [Lagged(end - begin, session="s")], []):
                    curtain = DraftFilter()
                    left = [*events[:begin], *told, *events[end:]]
                    heard = [one for event in left for one in curtain.push_event(event)]
                    assert "answer 1" not in words(heard), (begin, end)
                    assert "answer 2" not in words(heard), (begin, end)
                    assert len(heard) == len(left)
                    assert not curtain.release_undecided()


@virtual
async def test_a_watcher_that_missed_only_partial_events_is_told_the_answer_that_passed() -> None:
    async with World(["good"], more=panel_of(by_answer({"good": 0.9}))) as world:
        await world.ask("go")
        events = [msgspec.structs.replace(one.event, session="s", sequence=one.seq) for one in await world.records()]
        curtain = DraftFilter()
        heard = []
        for event in events:
            heard += [
                *curtain.push_event(event),
                *curtain.push_event(Lagged(1, session="s")),
                *curtain.push_event(Lagged(1)),
            ]
        assert "good" in words(heard)


@virtual
async def test_a_copy_that_is_made_while_judges_think_has_nothing_of_the_answer() -> None:
    records = [
        Record(1, 1, Received((Text("go"),))),
        Record(2, 2, TurnStarted((1,), turn=1)),
        Record(3, 3, MessageAdded("assistant", (Text("secret"),), provisional="held", turn=1, step=1)),
        Record(4, 4, Forked("s", 3)),
    ]
    assert hidden_seqs(records) == {3}
    assert decided_records(records) == records, "nothing more will be said of it"
    session = Session("copy")
    for one in records:
        session.apply(one.seq, one.at, one.event)
    assert [one.text for one in session.messages] == ["go"]


# --- a bound, and a shape ------------------------------------------------------------------------


@tool(untrusted=False, sink=False)
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("limits", [Limits(steps_max=1), Limits(tool_calls_max=1)], ids=["steps", "calls"])
@pytest.mark.parametrize("judging", [True, False], ids=["judged", "not judged"])
def test_a_final_answer_on_disk_when_its_process_died_ends_the_turn_as_exhausted(
    limits: Limits, *, judging: bool
) -> None:
    more = panel_of(by_answer({})) if judging else None

    @virtual
    async def scene() -> None:
        async with World([Call("look", {}), "last word"], [look], limits=limits, more=more) as world:
            reply = await world.ask("go", id="m1")
            assert isinstance(reply.outcome, Exhausted)
            records = await world.records()
        store = MemoryStore()
        writing = SessionWriter(store, "s")
        await writing.append(*(one.event for one in records[:-1]))  # all but the end of the turn
        async with World([], [look], limits=limits, store=store, more=more) as after:
            await finish(after)
            events = await after.journal()
            assert [one.outcome for one in events if isinstance(one, TurnEnded)] == [reply.outcome]
            assert not verdicts(events)
            await after.check_replay()

    scene()


@virtual
async def test_an_answer_of_the_wrong_shape_that_was_on_disk_is_not_judged_but_asked_for_again() -> None:
    reached = asyncio.Event()

    async def hangs(exhibit: JudgeInput) -> float:
        reached.set()
        await asyncio.Event().wait()
        return 0.0

    world = World(["no number"], more=panel_of(hangs))
    async with world:
        await world.send("go", id="m1")
        await reached.wait()
        await world.lanes.get("s").record_changes()
        await world.crash()

    def review(text: str) -> str | None:
        return None if text.isdigit() else "this is no number"

    async with world.after(["7"], more=panel_of(by_answer({"7": 0.9, "no number": 1.0}))) as after:
        ticket = await after.lanes.get("s").accept(envelope("go", "s", id="m1"), review)
        reply = await ticket.reply
        assert (reply.text, reply.outcome) == ("7", Answered(0.9))
        assert [one[0] for one in verdicts(await after.journal())] == [1]


@virtual
async def test_a_verdict_that_was_changed_afterwards_is_noticed() -> None:
    scores = {"answer 1": 0.1, "answer 2": 0.4, "answer 3": 0.9}
    async with World(answers, more=panel_of(by_answer(scores))) as world:
        await world.ask("go")
        records = await world.records()
        assert (await replay_journal(records)).is_identical
        changes = [
            (Judged, {"attempt": 7}),
            (Judged, {"step": 9}),
            (Judged, {"passed": True}),
            (Judged, {"held": False}),
            (TurnEnded, {"outcome": Answered(1.0)}),
            (TurnEnded, {"outcome": Answered(0.9, passed=False)}),
            (MessageAdded, {"provisional": "shown"}),
        ]
        for kind, change in changes:
            place = next(n for n, one in enumerate(records) if isinstance(one.event, kind))
            event = msgspec.structs.replace(records[place].event, **change)
            changed = [*records[:place], msgspec.structs.replace(records[place], event=event), *records[place + 1 :]]
            assert not (await replay_journal(changed)).is_identical, (kind, change)
