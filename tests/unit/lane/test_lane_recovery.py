"""DESIGN 3, "After a crash", row by row: the process is gone, and the next one takes up what it left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.kernel_world import World, make_store, unweighed, virtual

from mainstay.core.errors import InputRefused, SessionBlocked
from mainstay.core.events import (
    MessageAdded,
    Received,
    StepCheckpointed,
    StepRestarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
)
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import Store, StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece, ToolContext
from mainstay.core.session import Session
from mainstay.core.tools import FunctionTool, tool
from mainstay.testing import Call, Pieces, Stall
from mainstay.testing import Say as Say


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make_store(request.param, tmp_path)


async def finish(world: World) -> list[str]:
    """Take up what is unfinished, and see it through."""
    taken = await world.lanes.resume_unfinished()
    await world.lanes.wait_until_settled()
    return taken


class Effects:
    """What really happened in the world, seen from outside any process; `hold` keeps a call from coming back."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.hold = True
        self.began = asyncio.Event()

    async def cause(self, context: ToolContext) -> str:
        self.keys.append(context.key)
        self.began.set()
        if self.hold:
            await asyncio.sleep(1000)
        return f"done {len(self.keys)}"

    def tool(self, effect: str, reconcile: Callable[..., Any] | None = None) -> FunctionTool:
        async def work(context: ToolContext) -> str:
            return await self.cause(context)

        if reconcile is not None:
            return FunctionTool(work, reconcile=reconcile, timeout_s=900)
        return FunctionTool(work, effect=effect, timeout_s=900)  # type: ignore[arg-type]


async def dead_in_a_tool(store: Store, effects: Effects, made: FunctionTool) -> World:
    """A world that died while its tool ran."""
    world = World([Call("work")], [made], store=store)
    async with world:
        await world.send("go", id="m1")
        await effects.began.wait()
        await world.crash()
    effects.hold = False
    return world


async def test_a_prompt_that_was_acknowledged_and_waited_runs(store: Store) -> None:
    stall = Stall()
    world = World([stall], store=store)
    async with world:
        await world.send("running")
        await stall.reached.wait()
        await world.send("waiting")
        await world.send("waiting too")
        await world.crash()
    async with world.after(["one", "two", "three"]) as later:
        assert await finish(later) == ["s"]
        assert [message.text for message in await later.history()] == [
            "running", "one", "waiting", "two", "waiting too", "three",
        ]  # fmt: skip
        await later.check_replay()


async def test_a_prompt_without_a_started_turn_runs(store: Store) -> None:
    world = World(["never"], store=store)
    async with world:
        await world.send("hello")
        await world.crash()
    async with world.after(["hi"]) as later:
        await finish(later)
        assert [message.text for message in await later.history()] == ["hello", "hi"]


async def test_miclaw_021_thinking_and_a_half_written_call_are_in_the_journal_after_a_crash(store: Store) -> None:
    ran: list[str] = []

    @tool(untrusted=False, sink=False)
    async def act(place: str) -> str:
        ran.append(place)
        return "done"

    stall = Stall()
    pieces = [ThinkingPiece("hm, "), ToolCallPiece(0, "act", '{"pla'), ToolCallPiece(0, "", 'ce": "Ro'), stall]
    async with World([Pieces(pieces)], [act], store=store, limits=Limits(checkpoint_period_s=0.01)) as world:
        watcher = world.watch()
        await world.send("go")
        await watcher.see(StepCheckpointed)
        await stall.reached.wait()
        await world.crash()
    async with world.after(["A whole answer."]) as later:
        await finish(later)
        kept = [event for event in await later.journal() if isinstance(event, StepCheckpointed)]
        assert "".join(event.thinking for event in kept) == "hm, "
        assert "".join(event.calls for event in kept) == 'act({"place": "Ro'
        assert ran == []
        assert [message.text for message in await later.history()] == ["go", "A whole answer."]
        await later.check_replay()


async def test_a_step_that_was_streaming_is_asked_again_and_its_partial_is_kept_but_never_an_answer(
    store: Store,
) -> None:
    stall = Stall()
    world = World(
        [Pieces([TextPiece("Half an "), TextPiece("answ"), stall])],
        store=store,
        limits=Limits(checkpoint_period_s=0.01),
    )
    async with world:
        watcher = world.watch()
        await world.send("question")
        await watcher.see(StepCheckpointed)
        await world.crash()
    async with world.after(["A whole answer."]) as later:
        watcher = later.watch()
        await finish(later)
        restarted = await watcher.see(StepRestarted)
        assert (restarted.turn, restarted.step) == (1, 1)
        await watcher.see(TurnEnded)
        order = [type(event).__name__ for event in watcher.events]
        assert order.index("StepRestarted") < order.index("TextDelta")
        assert [message.text for message in await later.history()] == ["question", "A whole answer."]
        assert later.provider.asked[0].messages == [("user", "question")], "the model does not see it either"
        kept = [event for event in await later.journal() if isinstance(event, StepCheckpointed)]
        assert "".join(event.text for event in kept) == "Half an answ"
        await later.check_replay()


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_pure_or_idempotent_tool_that_was_running_runs_again_under_the_same_key(
    store: Store, effect: str
) -> None:
    effects = Effects()
    made = effects.tool(effect)
    world = await dead_in_a_tool(store, effects, made)
    async with world.after([Call("work"), "fine"] if effect == "pure" else ["fine"], [made]) as later:
        await finish(later)
        assert len(effects.keys) == 2
        assert len(set(effects.keys)) == 1, "the service it calls can tell that it is the same"
        assert [(r.content, r.is_error) for r in await later.results()] == [("done 2", False)]
        assert (await later.history())[-1].text == "fine"
        await later.check_replay()


async def test_an_unsafe_tool_that_was_running_is_not_run_again_and_the_model_is_told(store: Store) -> None:
    effects = Effects()
    made = effects.tool("unsafe")
    world = await dead_in_a_tool(store, effects, made)
    async with world.after(["I will check first."], [made]) as later:
        await finish(later)
        assert len(effects.keys) == 1
        (result,) = await later.results()
        assert result.is_error
        assert "Outcome unknown: the process stopped while this ran" in result.content
        assert "Outcome unknown" in later.provider.asked[0].messages[-1][1]
        await later.check_replay()


async def test_a_reconcile_tool_is_asked_what_happened_and_its_answer_is_the_result(store: Store) -> None:
    effects, asked = Effects(), []

    async def find(context: ToolContext) -> str:
        asked.append(context.key)
        return "it had been done"

    made = effects.tool("reconcile", find)
    world = await dead_in_a_tool(store, effects, made)
    async with world.after(["fine"], [made]) as later:
        await finish(later)
        assert len(effects.keys) == 1
        assert asked == effects.keys, "it is asked under the key that the call ran under"
        assert [(r.content, r.is_error) for r in await later.results()] == [("it had been done", False)]
        await later.check_replay()


async def test_a_reconcile_tool_that_finds_nothing_runs_again(store: Store) -> None:
    effects = Effects()

    async def find() -> None:
        return None

    made = effects.tool("reconcile", find)
    world = await dead_in_a_tool(store, effects, made)
    async with world.after(["fine"], [made]) as later:
        await finish(later)
        assert len(effects.keys) == 2
        assert len(set(effects.keys)) == 1
        assert [result.content for result in await later.results()] == ["done 2"]
        await later.check_replay()


async def test_a_reconcile_that_fails_is_an_error_result_and_the_call_is_not_run(store: Store) -> None:
    effects = Effects()

    async def find() -> str:
        raise ConnectionError("the bank does not answer")

    made = effects.tool("reconcile", find)
    world = await dead_in_a_tool(store, effects, made)
    async with world.after(["I do not know."], [made]) as later:
        await finish(later)
        assert len(effects.keys) == 1
        (result,) = await later.results()
        assert result.is_error
        assert "the bank does not answer" in result.content


async def test_recorded_results_are_kept_and_the_turn_goes_on_from_there(store: Store) -> None:
    ran = []

    @tool(untrusted=False, sink=False)
    async def act(n: int) -> str:
        ran.append(n)
        return f"did {n}"

    stall = Stall()
    world = World([[Call("act", {"n": 1}), Call("act", {"n": 2})], stall], [act], store=store)
    async with world:
        watcher = world.watch()
        await world.send("go")
        await watcher.see(ToolFinished, 2)
        await world.crash()
    async with world.after(["both done"], [act]) as later:
        await finish(later)
        assert ran == [1, 2]
        assert later.provider.asked[0].messages[-1] == ("tool", "did 1\ndid 2")
        assert later.provider.asked[0].step == 2
        await later.check_replay()


async def test_of_several_calls_only_the_one_that_was_running_is_in_doubt(store: Store) -> None:
    ran, began = [], asyncio.Event()
    hold = True

    @tool(untrusted=False, sink=False)
    async def act(n: int) -> str:
        ran.append(n)
        if n == 2 and hold:
            began.set()
            await asyncio.sleep(1000)
        return f"did {n}"

    world = World([[Call("act", {"n": n}) for n in (1, 2, 3)]], [act], store=store)
    async with world:
        await world.send("go")
        await began.wait()
        await world.crash()
    hold = False
    async with world.after(["ok"], [act]) as later:
        await finish(later)
        first, second, third = await later.results()
        assert (first.content, third.content) == ("did 1", "did 3")
        assert "Outcome unknown" in second.content
        assert ran == [1, 2, 3]
        await later.check_replay()


@pytest.mark.parametrize("effect", ["idempotent", "unsafe"])
async def test_a_tool_that_no_longer_exists_is_not_run_and_its_outcome_is_unknown(store: Store, effect: str) -> None:
    effects = Effects()
    world = await dead_in_a_tool(store, effects, effects.tool(effect))
    async with world.after(["It is gone.", "And on."]) as later:
        await later.send("what became of it?")  # a caller asks for the session here, so it must go on
        await finish(later)
        (result,) = await later.results()
        assert result.is_error
        assert "Outcome unknown" in result.content, "that it is not there now does not mean that it did not run"
        assert [one.text for one in (await later.history())[-3:]] == ["It is gone.", "what became of it?", "And on."]
        await later.check_replay()


async def test_a_turn_with_a_missing_tool_is_left_to_a_process_that_has_it(store: Store) -> None:
    effects = Effects()
    world = await dead_in_a_tool(store, effects, effects.tool("idempotent"))
    async with world.after([]) as stranger:  # a command that only came by, without the tools of others
        await finish(stranger)
        assert await stranger.results() == []
        await stranger.crash()
    async with stranger.after(["Done."], [effects.tool("idempotent")]) as owner:
        await finish(owner)
        (result,) = await owner.results()
        assert not result.is_error
        assert (await owner.history())[-1].text == "Done."
        await owner.check_replay()


async def test_a_call_that_had_not_begun_and_lost_its_tool_is_an_unknown_tool(store: Store) -> None:
    began = asyncio.Event()

    @tool(untrusted=False, sink=False)
    async def first() -> str:
        began.set()
        await asyncio.sleep(1000)
        return ""

    @tool(untrusted=False, sink=False)
    async def second() -> str:
        return "never"

    world = World([[Call("first"), Call("second")]], [first, second], store=store)
    async with world:
        await world.send("go")
        await began.wait()
        await world.crash()
    async with world.after(["ok"], [first]) as later:
        await finish(later)
        assert "There is no tool 'second'" in (await later.results())[1].content


async def test_steers_accepted_before_the_crash_reach_the_turn(store: Store) -> None:
    effects = Effects()
    made = effects.tool("unsafe")
    world = World([[Call("work"), Call("work", "{ }")]], [made], store=store)
    async with world:
        await world.send("go")
        await effects.began.wait()
        await world.steer("rather not")
        await world.crash()
    effects.hold = False
    async with world.after(["as you wish"], [made]) as later:
        await finish(later)
        assert len(effects.keys) == 1
        assert ("user", "rather not") in later.provider.asked[0].messages
        assert (await later.history())[-1].text == "as you wish"
        first, second = await later.results()
        assert "Outcome unknown" in first.content
        assert "Skipped" in second.content
        await later.check_replay()


async def test_a_recorded_answer_is_returned_again_for_the_same_id(store: Store) -> None:
    world = World(["the answer"], store=store)
    async with world:
        reply = await world.ask("question", id="m1")
        await world.crash()
    async with world.after([]) as later:
        assert await later.ask("question", id="m1") == reply


async def test_a_prompt_with_the_id_of_an_unfinished_turn_gets_its_reply(store: Store) -> None:
    effects = Effects()
    made = effects.tool("unsafe")
    world = await dead_in_a_tool(store, effects, made)
    async with world.after(["finished"], [made]) as later:
        reply = await later.ask("go", id="m1")
        assert (reply.text, reply.turn, reply.outcome) == ("finished", 1, Answered())
        assert (await later.kinds()).count("Received") == 1


async def test_a_graceful_close_keeps_the_result_of_a_tool_that_had_just_finished(store: Store) -> None:
    ran, stall = [], Stall()

    @tool(untrusted=False, sink=False)
    async def act() -> str:
        ran.append(1)
        return "did it"

    async with World([Call("act"), stall], [act], store=store, limits=Limits(ride_along_s=100)) as world:
        await world.send("go")
        await stall.reached.wait()
    async with world.after(["all good"], [act]) as later:
        await finish(later)
        assert [result.content for result in await later.results()] == ["did it"]
        assert ran == [1]


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
@virtual
async def test_f76_resumes_max_sets_aside_a_turn_that_ends_every_process_that_runs_it(
    store: Store, effect: str
) -> None:
    """The tool never comes back: seen from outside, each process dies in it."""
    effects = Effects()
    made = effects.tool(effect)
    limits = Limits()
    world = World(lambda context, options: Call("work"), [made], store=store, limits=limits)
    async with world:
        watcher = world.watch()
        await world.send("go", id="m1")
        await watcher.see(MessageAdded)
        await effects.began.wait()
        await world.crash()
    for _ in range(limits.resumes_max):
        effects.began.clear()
        world = world.after(lambda context, options: Call("work"), [made])
        async with world:
            await world.lanes.resume_unfinished()
            await effects.began.wait()
            await world.crash()
    runs = len(effects.keys)
    async with world.after(["hello"], [made]) as last:
        await finish(last)
        assert len(effects.keys) == runs == 3, "it was not run yet again"
        for id in ("m1", ""):  # the turn's own prompt, and another
            with pytest.raises(SessionBlocked, match=r"3 processes in a row.*`mainstay session release s`"):
                await last.ask("go", id=id)
        assert (await last.store.get_session("s")).set_aside
        await last.lanes.get("s").release(fail=True)
        (result,) = await last.results()
        assert result.is_error, "even so every call has its result"
        assert isinstance((await last.ask("go", id="m1")).outcome, Failed)
        assert (await last.ask("are you there?")).text == "hello"
        assert not (await last.store.get_session("s")).set_aside
        await last.check_replay()
        with pytest.raises(InputRefused, match="no turn that was set aside"):
            await last.lanes.get("s").release()


@virtual
async def test_f76_a_tool_that_ends_every_process_is_found_though_the_model_calls_it_anew_each_time(
    store: Store,
) -> None:
    """Each resume records "outcome unknown" and another message of the model: that is no progress."""
    effects = Effects()
    made = effects.tool("unsafe")
    world = World(lambda context, options: Call("work"), [made], store=store)
    for n in range(3):
        async with world:
            await (world.lanes.resume_unfinished() if n else world.send("go"))
            await effects.began.wait()
            effects.began.clear()
            await world.crash()
        world = world.after(lambda context, options: Call("work"), [made])
    async with world:
        await finish(world)
        assert (await world.kinds())[-1] == "TurnSetAside"
        await world.lanes.get("s").release()
        await effects.began.wait()
        assert len(effects.keys) == 4, "released, it runs again"
        await world.crash()
    async with world.after(["fine"], [made]) as later:
        await finish(later)
        assert (await later.history())[-1].text == "fine", "and its crashes are counted anew"
        await later.check_replay()


async def test_f76_a_turn_is_not_blamed_for_processes_that_were_told_to_stop(store: Store) -> None:
    world = World([Stall()], store=store)
    for n in range(5):
        async with world:  # an orderly end
            await (world.lanes.resume_unfinished() if n else world.send("go"))
            while world.lanes.get("s").control is None:
                await asyncio.sleep(0)
        world = world.after([Stall()])
    async with world:  # told to stop, then killed
        await world.lanes.resume_unfinished()
        while world.lanes.get("s").control is None:
            await asyncio.sleep(0)
        await world.lanes.mark_stopping()
        await world.crash()
    async with world.after(["done"]) as last:
        await finish(last)
        assert (await last.history())[-1].text == "done"
        resumed = [event for event in await last.journal() if isinstance(event, TurnResumed)]
        assert [event.after_crash for event in resumed] == [False] * 6


def count_starts(kinds: list[str]) -> int:
    return kinds.count("TurnStarted") + kinds.count("TurnResumed")


@virtual
async def test_f76_turns_that_ran_beside_the_one_that_ends_the_process_are_not_set_aside(store: Store) -> None:
    """The others wait for their model when the process ends. Their last attempts run one at a time, and so succeed."""
    began = asyncio.Event()

    @tool(effect="pure", timeout_s=900, untrusted=False, sink=False)
    async def killer() -> str:
        began.set()
        await asyncio.sleep(800)
        return ""

    def script(life: int) -> Callable[..., Any]:
        others: Any = Stall() if life < 2 else "fine"
        return lambda context, options: Call("killer") if context.messages[-1].text == "poison" else others

    keys = ["a", "bad", "c"]
    world = World(script(0), [killer], store=store)
    for life in range(3):
        async with world:
            for key in () if life else keys:
                await world.send("poison" if key == "bad" else "go", key)
            await world.lanes.resume_unfinished()
            await began.wait()
            began.clear()
            while life < 2 and None in [world.lanes.get(key).control for key in keys]:
                await asyncio.sleep(0)
            # a start that is not on disk yet when the process ends does not count against the turn
            while life < 2 and min([count_starts(await world.kinds(key)) for key in keys]) <= life:
                await asyncio.sleep(0)
            await world.crash()
        world = world.after(script(life + 1), [killer])
    async with world:
        await finish(world)
        assert [(await world.kinds(key))[-1] for key in keys] == ["TurnEnded", "TurnSetAside", "TurnEnded"]


@virtual
async def test_f76_last_attempt_delay_s_blames_no_turn_for_processes_that_end_before(store: Store) -> None:
    """Ten processes are killed within a second of their start. The turn waits for one that stays, and ends."""
    world = World(lambda context, options: Stall(), store=store)
    for life in range(10):
        async with world:
            if not life:
                await world.send("go")
            await world.lanes.resume_unfinished()
            await asyncio.sleep(1)
            await world.crash()
        world = world.after(lambda context, options: Stall())
    async with world.after(["done"]) as last:
        await finish(last)
        assert (await last.history())[-1].text == "done"
        kinds = await last.kinds()
        assert "TurnSetAside" not in kinds
        assert kinds.count("TurnResumed") == 2


@virtual
async def test_progress_between_crashes_gives_a_turn_its_resumes_back(store: Store) -> None:
    """Six crashes, and a result after each: that is not a turn that goes nowhere."""
    limits = Limits(resumes_max=1)
    began: asyncio.Event

    @tool(effect="idempotent", timeout_s=900, untrusted=False, sink=False)
    async def work(n: int, context: ToolContext) -> str:
        if n == crash_in[0]:
            began.set()
            await asyncio.sleep(1000)
        return f"did {n}"

    crash_in = [0]
    began = asyncio.Event()
    world = World([[Call("work", {"n": n}) for n in range(6)]], [work], store=store, limits=limits)
    async with world:
        await world.send("go")
        await began.wait()
        await world.crash()
    for n in range(1, 6):
        crash_in[0] = n
        began = asyncio.Event()
        world = world.after([], [work])
        async with world:
            await world.lanes.resume_unfinished()
            await began.wait()
            await world.crash()
    crash_in[0] = -1
    async with world.after(["all six"], [work]) as last:
        await finish(last)
        assert (await last.history())[-1].text == "all six"
        assert len([event for event in await last.journal() if isinstance(event, TurnResumed)]) == 6
        await last.check_replay()


@virtual
async def test_after_a_resume_watchers_hear_the_answer_as_it_comes() -> None:
    first = Stall()
    world = World([first])
    async with world:
        await world.send("go")
        await first.reached.wait()
        await world.crash()
    stall = Stall()
    script = [Pieces([TextPiece("word "), stall, TextPiece("by word"), StreamFinished(FinishReason.END)])]
    async with world.after(script, limits=Limits(checkpoint_period_s=1000)) as later:
        watcher = later.watch()
        await later.lanes.resume_unfinished()
        assert (await asyncio.wait_for(watcher.see(TextDelta), 10)).text == "word "
        stall.release()
        await later.lanes.wait_until_settled()


@virtual
async def test_a_turn_of_many_sessions_is_resumed_in_each() -> None:
    stalls: list[Stall] = []

    def hold(context: Any, options: Any) -> Stall:
        stalls.append(Stall())
        return stalls[-1]

    world = World(hold)
    async with world:
        for n in range(20):
            await world.send(f"prompt {n}", f"s{n}")
        while len(stalls) < 20:
            await asyncio.sleep(0)
        await world.crash()
    async with world.after(lambda context, options: f"re: {context.messages[-1].text}") as later:
        assert len(await finish(later)) == 20
        for n in range(20):
            assert (await later.history(f"s{n}"))[-1].text == f"re: prompt {n}"


@virtual
async def test_loom_083_a_session_recovered_at_its_42nd_turn_has_its_turns_intact() -> None:
    world = World(lambda context, options: f"re: {context.messages[-1].text}")
    async with world:
        for n in range(1, 42):
            await world.ask(f"turn {n}")
        await world.crash()
    async with world.after(lambda context, options: f"re: {context.messages[-1].text}") as later:
        assert (await later.ask("turn 42")).turn == 42
        asked = later.provider.asked[0].messages
        assert asked == [
            pair for n in range(1, 42) for pair in (("user", f"turn {n}"), ("assistant", f"re: turn {n}"))
        ] + [("user", "turn 42")]


@virtual
async def test_a_call_that_is_not_pure_is_on_disk_before_it_runs() -> None:
    seen: list[list[str]] = []

    @tool(untrusted=False, sink=False)
    async def act() -> str:
        seen.append(await world.kinds())
        return "done"

    world = World([Call("act"), "ok"], [act])
    async with world:
        await world.ask("go")
        assert seen[0][-2:] == ["MessageAdded", "ToolStarted"]
        started = [event for event in await world.journal() if isinstance(event, ToolStarted)]
        assert [event.call_id for event in started] == ["call_1_1_0"]


@virtual
async def test_i5_the_view_that_a_turn_made_is_the_one_that_is_read_back() -> None:
    @tool(untrusted=False, sink=False)
    async def act(n: int) -> int:
        return n

    async with World([[Call("act", {"n": 1}), Call("nope")], "one", "two"], [act]) as world:
        await world.ask("first")
        await world.ask("second")
        live = await world.lanes.get("s").load_session()
        read = Session.from_tail(await world.store.load_tail("s", 10**9))
        assert repr(read.messages) == repr(live.messages)
        assert unweighed(read) == unweighed(live)
        received = [event for event in await world.journal() if isinstance(event, Received)]
        assert len(received) == 2
