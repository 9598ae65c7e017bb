"""What happens to a call that runs: what it may return, how it may fail, how long it may take."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import errno
import subprocess
import sys
import threading
import time
from typing import Any

import msgspec
import pytest
from support.kernel_world import World, virtual

from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import ToolDefinitionError
from mainstay.core.events import ToolCallReady, ToolProgress
from mainstay.core.limits import Limits
from mainstay.core.outcome import Answered
from mainstay.core.ports import ToolContext
from mainstay.core.tools import FunctionTool, tool
from mainstay.core.worker_threads import WorkerThreads
from mainstay.plugins.plugin import PluginFailed
from mainstay.testing import Call, virtual_run


@dataclasses.dataclass
class Place:
    name: str
    size: int


class Point(msgspec.Struct):
    x: int
    y: int


async def outcome_of(function: Any, limits: Limits | None = None, **declared: Any) -> tuple[str, bool]:
    """What the model is told of one call of this function; the turn must go on after it."""
    made = FunctionTool(function, name="it", **declared)
    async with World([Call("it"), "done"], [made], limits=limits) as world:
        reply = await world.ask("go")
        assert (reply.text, reply.outcome) == ("done", Answered())
        (result,) = await world.results()
        return result.content, result.is_error


def pydantic_model() -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("City", name=(str, ...), people=(int, 0))(name="Lisbon", people=545_000)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, ""),
        (5, "5"),
        (True, "true"),
        ({"b": 1, "a": [1, 2]}, '{"a":[1,2],"b":1}'),
        (Place("x", 1), '{"name":"x","size":1}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ([Point(1, 2)], '[{"x":1,"y":2}]'),
        (float("nan"), "null"),
        (b"ab", '"YWI="'),
        (pydantic_model, '{"name":"Lisbon","people":545000}'),
        ("\ud800 and \udfff", "? and ?"),
    ],
    ids=lambda value: value.__name__ if callable(value) else repr(value),
)
def test_the_return_value_of_a_tool_becomes_text(value: Any, text: str) -> None:
    async def it() -> Any:
        return value() if callable(value) else value

    assert virtually(outcome_of(it)) == (text, False)


def virtually(work: Any) -> Any:
    return virtual_run(work)


class BadlySpoken(Exception):
    def __str__(self) -> str:
        raise ValueError("I cannot say")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("the fridge is empty"), "RuntimeError: the fridge is empty"),
        (KeyError("x"), "KeyError: 'x'"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("odd \ud800 text"), "ValueError: odd ? text"),
        (StopIteration(3), "RuntimeError"),
        (StopAsyncIteration(), "StopAsyncIteration"),
        (SystemExit(3), "(3)"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (BadlySpoken(), "BadlySpoken"),
        (MemoryError(), "MemoryError: this machine has too little free memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "OSError: this machine has too little free memory"),
        (OSError(errno.EMFILE, "Too many open files"), "OSError: too many files are open on this machine"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("threaded", [False, True])
def test_a_tool_that_raises_anything_gives_an_error_result(error: BaseException, said: str, threaded: bool) -> None:
    def it() -> str:
        raise error

    async def it_async() -> str:
        raise error

    content, is_error = asyncio.run(outcome_of(it if threaded else it_async))
    assert is_error
    assert said in content
    assert "aborted" not in content


def test_one_failing_tool_does_not_stop_the_others() -> None:
    @virtual
    async def check() -> None:
        @tool(effect="pure", untrusted=False, sink=False)
        async def half(n: int) -> float:
            return 1 / n

        async with World([[Call("half", {"n": n}) for n in (1, 0, 2)], "done"], [half]) as world:
            await world.ask("go")
            assert [(r.content, r.is_error) for r in await world.results()] == [
                ("1.0", False),
                ("ZeroDivisionError: division by zero", True),
                ("0.5", False),
            ]

    check()


@virtual
async def test_a_result_over_tool_result_bytes_max_is_cut_at_a_character_and_says_so() -> None:
    async def it() -> str:
        return "ä" * 500_000  # 1 MB

    content, is_error = await outcome_of(it)
    kept, _, notice = content.partition("\n")
    assert not is_error
    assert set(kept) == {"ä"}
    assert len(kept.encode()) == 64 * 1024
    assert notice == "[cut here: 1000000 bytes in all, 65536 shown]"
    odd, _ = await outcome_of(it, Limits(tool_result_bytes_max=1001))
    assert odd.partition("\n")[0] == "ä" * 500, "half a character is never shown"


@virtual
async def test_a_result_of_exactly_the_bound_is_whole_and_an_error_is_bounded_too() -> None:
    async def fits() -> str:
        return "é" * 32

    async def fails() -> str:
        raise RuntimeError("é" * 1000)

    limits = Limits(tool_result_bytes_max=64)
    assert await outcome_of(fits, limits) == ("é" * 32, False)
    content, is_error = await outcome_of(fails, limits)
    assert is_error
    assert len(content.partition("\n")[0].encode()) <= 64


@virtual
async def test_arguments_over_tool_input_bytes_max_run_nothing() -> None:
    ran: list[str] = []

    @tool(untrusted=False, sink=False)
    async def take(text: str) -> str:
        ran.append(text)
        return "taken"

    calls = [Call("take", {"text": "é" * 45}), Call("take", {"text": "x" * 85})]
    async with World([calls, "done"], [take], limits=Limits(tool_input_bytes_max=100)) as world:
        await world.ask("go")
        over, under = await world.results()
        assert over.is_error
        assert "over 100 bytes" in over.content
        assert under.content == "taken"
        assert ran == ["x" * 85]


@virtual
async def test_an_async_tool_is_cancelled_after_tool_timeout_s_and_others_still_work() -> None:
    ended: list[str] = []

    @tool(untrusted=False, sink=False)
    async def slow(s: float) -> str:
        try:
            await asyncio.sleep(s)
        finally:
            ended.append(f"{s} ended at {asyncio.get_running_loop().time():g}")
        return f"slept {s}"

    async with World([[Call("slow", {"s": 31}), Call("slow", {"s": 29})], "done"], [slow]) as world:
        await world.ask("go")
        first, second = await world.results()
        assert first.is_error
        assert first.content == "Timed out after 30 s and was abandoned: its outcome is unknown."
        assert second.content == "slept 29.0"
        assert ended == ["31.0 ended at 30", "29.0 ended at 59"]
        await world.check_replay()


@virtual
async def test_a_tool_has_its_own_timeout_where_it_declares_one() -> None:
    async def it() -> str:
        await asyncio.sleep(100)
        return "slept"

    assert await outcome_of(it, timeout_s=101) == ("slept", False)
    assert await outcome_of(it, timeout_s=0.5, effect="pure") == ("Timed out after 0.5 s.", True)
    content, is_error = await outcome_of(it, Limits(tool_timeout_s=7))
    assert is_error
    assert "7 s" in content


@virtual
async def test_a_tool_that_swallows_its_cancellation_is_left_behind() -> None:
    async def it() -> str:
        deaf_until = asyncio.get_running_loop().time() + 2000
        while (left := deaf_until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                pass
        return "at last"

    before = asyncio.get_running_loop().time()
    content, is_error = await outcome_of(it)
    assert is_error
    assert "outcome is unknown" in content
    assert asyncio.get_running_loop().time() - before < 60


@virtual
async def test_abort_does_not_wait_for_a_tool_that_swallows_its_cancellation() -> None:
    started = asyncio.Event()

    @tool(timeout_s=3000, untrusted=False, sink=False)
    async def stubborn() -> str:
        started.set()
        deaf_until = asyncio.get_running_loop().time() + 2000
        while (left := deaf_until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                pass
        return "at last"

    async with World([Call("stubborn"), "next"], [stubborn]) as world:
        ticket = await world.send("go")
        await started.wait()
        before = asyncio.get_running_loop().time()
        assert await world.abort()
        assert asyncio.get_running_loop().time() - before < 10
        assert type((await ticket.reply).outcome).__name__ == "Aborted"
        (result,) = await world.results()
        assert result.is_error
        assert "did not stop: its outcome is unknown" in result.content
        assert (await world.ask("again")).text == "next"


# --- threads -------------------------------------------------------------------------------------


async def test_a_tool_that_is_not_async_runs_in_a_thread_of_its_own_and_the_loop_goes_on() -> None:
    met = threading.Event()
    threads: list[str] = []

    @tool(untrusted=False, sink=False)
    def block() -> str:
        threads.append(threading.current_thread().name)
        return "met" if met.wait(20) else "alone"

    async with World([Call("block"), "done", "quick"], [block], clock=SystemClock()) as world:
        ticket = await world.send("go")
        assert (await world.ask("other", "t")).text in ("quick", "done")  # while the tool blocks its thread
        met.set()
        await ticket.reply
        assert [result.content for result in await world.results()] == ["met"]
        assert threads != [threading.main_thread().name]


async def test_a_thread_that_does_not_return_is_abandoned_and_other_tools_still_work() -> None:
    let_go = threading.Event()
    cancelled: list[bool] = []

    @tool(timeout_s=0.5, untrusted=False, sink=False)
    def hang(context: ToolContext) -> str:
        let_go.wait(20)
        cancelled.append(context.cancelled)
        return "too late"

    @tool(untrusted=False, sink=False)
    def fine() -> str:
        return "fine"

    async with World([[Call("hang"), Call("fine")], "done"], [hang, fine], clock=SystemClock()) as world:
        await world.ask("go")
        first, second = await world.results()
        assert first.content == "Timed out after 0.5 s and was abandoned: its outcome is unknown."
        assert first.is_error
        assert second.content == "fine"
    let_go.set()
    async with asyncio.timeout(20):
        while not cancelled:  # it comes back in its own time
            await asyncio.sleep(0.001)
    assert cancelled == [True], "a tool in a thread can see that it is not wanted any more"


HANGING = """
import asyncio, time
from mainstay import Agent, Limits, Config, tool
from mainstay.testing import Call, ScriptedProvider

@tool(timeout_s=0.05, untrusted=False, sink=False)
def hang() -> str:
    time.sleep(600)

async def main():
    async with Agent(ScriptedProvider([Call("hang"), "gave up"]), tools=[hang], home=":memory:") as agent:
        print((await agent.run("s", "go")).text, flush=True)

asyncio.run(main())
"""


def test_a_process_with_an_abandoned_thread_can_end() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=300)
    assert done.stdout == "gave up\n", done.stderr
    assert done.returncode == 0


async def test_hung_threads_are_replaced_even_after_the_pool_was_full() -> None:
    workers = WorkerThreads(threads_max=2)
    gate, begun = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        begun.release()
        gate.wait(120)

    quick = [asyncio.ensure_future(workers.run(lambda: 1, {})) for _ in range(6)]
    assert await asyncio.gather(*quick) == [1] * 6
    hung = [asyncio.ensure_future(workers.run(hang, {})) for _ in range(2)]
    for _ in range(2):
        assert await asyncio.to_thread(begun.acquire, timeout=60), "both are in their threads"
    for one in hung:
        one.cancel()
    await asyncio.wait(hung)
    assert await asyncio.wait_for(workers.run(lambda: "served", {}), 60) == "served"
    gate.set()


async def test_a_job_that_was_given_up_before_it_began_never_runs() -> None:
    workers = WorkerThreads(threads_max=1)
    gate, ran = threading.Event(), []
    first = asyncio.ensure_future(workers.run(lambda: gate.wait(20), {}))
    second = asyncio.ensure_future(workers.run(lambda: ran.append("second"), {}))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait((second,))
    gate.set()
    assert await first
    await workers.run(lambda: ran.append("third"), {})
    assert ran == ["third"]


async def test_at_most_so_many_threads_are_at_work() -> None:
    workers = WorkerThreads(threads_max=3)
    lock, running, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    await asyncio.gather(*(workers.run(work, {}) for _ in range(30)))
    assert most == 3


async def test_a_tool_sees_the_context_variables_of_its_caller() -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("me")
    assert await WorkerThreads().run(who.get, {}) == "me"


# --- the context a tool may ask for ----------------------------------------------------------------


@virtual
async def test_a_tool_knows_its_context_and_its_key_is_its_own() -> None:
    seen: list[tuple[str, int, int, str, str]] = []

    @tool(untrusted=False, sink=False)
    async def look(n: int, context: ToolContext) -> str:
        seen.append((context.session, context.turn, context.step, context.call_id, context.key))
        return "ok"

    script = [[Call("look", {"n": 1}), Call("look", {"n": 2})], Call("look", {"n": 1}), "done", "done"]
    async with World(script, [look]) as world:
        await world.ask("go")
        assert [entry[:3] for entry in seen] == [("s", 1, 1), ("s", 1, 1), ("s", 1, 2)]
        assert len({key for *_, key in seen}) == 3
        assert all(key == f"s/{call_id}" for *_, call_id, key in seen)
        assert "context" not in look.schema["properties"], "the model is not asked for it"


@pytest.mark.parametrize("effect", ["pure", "unsafe"])
def test_progress_is_seen_by_a_watcher_while_the_tool_still_runs(effect: str) -> None:
    @virtual
    async def check() -> None:
        noticed = asyncio.Event()

        @tool(effect=effect, timeout_s=60, untrusted=False, sink=False)  # type: ignore[arg-type]
        async def work(context: ToolContext) -> str:
            context.progress("half way", {"percent": 50})
            await noticed.wait()
            return "finished"

        async with World([Call("work"), "done"], [work]) as world:
            watcher = world.watch()
            ticket = await world.send("go")
            event = await asyncio.wait_for(watcher.see(ToolProgress), 10)
            assert (event.note, event.data, event.call_id) == ("half way", {"percent": 50}, "call_1_1_0")
            assert watcher.of(ToolCallReady), "and it was told that the call runs"
            noticed.set()
            await ticket.reply
            assert [result.content for result in await world.results()] == ["finished"]
            assert "half way" not in str(await world.journal()), "progress is not kept"

    check()


async def test_progress_from_a_thread_is_seen_while_the_tool_still_runs() -> None:
    noticed = threading.Event()
    threads: list[int] = []

    @tool(untrusted=False, sink=False)
    def work(context: ToolContext) -> str:
        context.progress("half way")
        return "finished" if noticed.wait(10) else "nobody noticed"

    async with World([Call("work"), "done"], [work], clock=SystemClock()) as world:
        watcher = world.watch()
        put = watcher._watcher.push_event
        watcher._watcher.push_event = lambda event: (threads.append(threading.get_ident()), put(event))  # type: ignore[method-assign]
        ticket = await world.send("go")
        assert (await watcher.see(ToolProgress)).note == "half way"
        noticed.set()
        await ticket.reply
        assert [result.content for result in await world.results()] == ["finished"]
        assert set(threads) == {threading.get_ident()}, "watchers are only ever reached from the loop"


@virtual
async def test_a_cancelled_call_is_told_so() -> None:
    contexts: list[ToolContext] = []
    started = asyncio.Event()

    @tool(untrusted=False, sink=False)
    async def wait(context: ToolContext) -> str:
        contexts.append(context)
        started.set()
        await asyncio.sleep(1000)
        return ""

    async with World([Call("wait")], [wait]) as world:
        await world.send("go")
        await started.wait()
        assert not contexts[0].cancelled
        await world.abort()
        assert contexts[0].cancelled


# --- declaring tools -------------------------------------------------------------------------------


def test_a_schema_comes_from_the_type_hints_and_the_docstring() -> None:
    @tool(effect="pure", timeout_s=5, untrusted=True, sink=["query"], capabilities=["fs.read"])
    def search(query: str, limit: int = 20, *, tags: list[str] | None = None) -> str:
        """Search the archive.

        It is slow.

        Args:
            query: what to look for,
                in words
            limit: how many
        """
        return query

    assert search.description == "Search the archive.\n\nIt is slow."
    assert search.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for, in words"},
            "limit": {"type": "integer", "description": "how many", "default": 20},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert (search.effect, search.timeout_s, search.untrusted) == ("pure", 5, True)
    assert (search.sink, search.capabilities) == (("query",), ("fs.read",))
    assert search("still a function") == "still a function"


def test_an_undeclared_effect_is_unsafe() -> None:
    @tool(untrusted=False, sink=False)
    def f() -> None: ...

    assert f.effect == "unsafe"
    assert tool(reconcile=lambda: None)(f.function).effect == "reconcile"


def bad_name() -> None: ...


def variadic(*args: int) -> None: ...


def positional(a: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "declared", "complaint"),
    [
        (bad_name, {"name": "not a name"}, "is not a valid tool name"),
        (bad_name, {"name": "x" * 65}, "is not a valid tool name"),
        (bad_name, {"name": "näme"}, "is not a valid tool name"),
        (bad_name, {"effect": "reconcile"}, "needs reconcile="),
        (variadic, {}, "must be an ordinary named parameter"),
        (positional, {}, "must be an ordinary named parameter"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_refused_with_a_sentence(function: Any, declared: Any, complaint: str) -> None:
    with pytest.raises(ToolDefinitionError, match=complaint):
        FunctionTool(function, **declared)


@virtual
async def test_a_parameter_may_be_a_pydantic_model_and_defaults_are_not_shared() -> None:
    pydantic = pytest.importorskip("pydantic")
    City = pydantic.create_model("City", name=(str, ...))
    seen: list[Any] = []

    async def visit(city: Any, stops: list[str] = []) -> str:  # noqa: B006
        stops.append(city.name)
        seen.append(list(stops))
        return city.name

    visit.__annotations__["city"] = City
    script = [
        [Call("visit", {"city": {"name": "Porto"}}), Call("visit", {"city": {}})],
        Call("visit", {"city": {"name": "Faro"}}),
        ".",
    ]
    async with World(script, [tool(visit)]) as world:
        await world.ask("go")
        good, bad, again = await world.results()
        assert (good.content, again.content) == ("Porto", "Faro")
        assert bad.is_error
        assert seen == [["Porto"], ["Faro"]]


@virtual
async def test_an_error_that_reports_a_state_is_logged_in_one_line_and_a_bug_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(untrusted=False, sink=False)
    async def plugin() -> str:
        """Fail as a plugin does."""
        raise PluginFailed("The plugin weather ended with code 1 during the call.")

    @tool(untrusted=False, sink=False)
    async def buggy() -> str:
        """Fail."""
        raise ZeroDivisionError

    caplog.set_level("INFO", "mainstay")
    async with World([Call("plugin"), Call("buggy"), "done"], [plugin, buggy]) as world:
        await world.ask("go")
    logged = [record.getMessage() for record in caplog.records if " failed" in record.getMessage()]
    assert logged[0] == "tool plugin failed: The plugin weather ended with code 1 during the call."
    assert "Traceback" in logged[1]
