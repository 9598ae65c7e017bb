"""Runs cases side by side: each in a home of its own, each trouble its case's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mainstay.agent.agent import Agent
from mainstay.agent.sessions import read_all
from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.core.events import Waiting
from mainstay.core.journal import Record
from mainstay.core.judging import Exhibit, Panel, Spending
from mainstay.core.limits import Limits
from mainstay.core.outcome import Answered, Failed, Paused, Reply
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Provider
from mainstay.evals.checking import Found, look
from mainstay.evals.results import (
    Result,
    Run,
    Try,
    broken_try,
    judged_try,
    summed,
    unanswered_try,
    unjudged_try,
)
from mainstay.evals.schema import Case, Checks, Script
from mainstay.evals.scripts import scripted
from mainstay.evals.seen import Seen, together, turns_of
from mainstay.evals.throwaway import Original, for_case, throwaway
from mainstay.lane.replay import replay
from mainstay.turn.loop import MODEL_FAILED

SESSION = "eval"
DENIED = "Nobody is there to approve it."
NO_MONEY = "not done: the money was spent"
NOT_JUDGED = "not judged: the money was spent"
INTERRUPTED = "not done: interrupted"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A case with all it needs."""

    case: Case
    prompts: tuple[str, ...] = ()
    each: tuple[Checks | None, ...] = ()  # of single turns
    records: tuple[Record, ...] = ()  # of a recorded session
    turn: int = 0  # of it this one; 0: all of them
    how: Literal["ask", "recorded", "replay"] = "ask"
    script: Script | None = None
    panel: Panel | None = None
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    folder: Path | None = None
    timeout_s: float = 300.0

    def ends(self, number: int) -> str:
        """How a turn is expected to end, where that is said."""
        checks = self.each[number] if number < len(self.each) else None
        return (checks.outcome if checks is not None else None) or ""


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """What all cases share."""

    original: Original
    provider: Provider | None = None  # None: every case has a script
    limits: Limits = Limits()
    money: float | None = None
    jobs: int = 4


class Watching(Protocol):
    """Whoever is told how it goes."""

    def began(self, name: str) -> None: ...

    def ended(self, result: Result) -> None: ...


async def run_tasks(bench: Bench, name: str, tasks: Sequence[Task], watching: Watching) -> Run:
    """All of them, or as many as were done when somebody interrupted it."""
    began = time.monotonic()
    doing = _Doing(bench, tasks, watching)
    workers = [asyncio.create_task(doing.work()) for _ in range(min(bench.jobs, len(tasks)))]
    interrupted = False
    try:
        await asyncio.gather(*workers)
    except asyncio.CancelledError:
        interrupted = True
        if (current := asyncio.current_task()) is not None:
            current.uncancel()
    finally:
        for one in workers:
            one.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    found = doing.results
    results = [
        found.get(number) or summed(one.case, [Try(result="skipped", reasons=(INTERRUPTED,))])
        for number, one in enumerate(tasks)
    ]
    left = any(one.result == "skipped" for one in results)
    return Run(
        name=name,
        results=tuple(results),
        model=", ".join(sorted(doing.models)),
        seconds=time.monotonic() - began,
        cut="interrupted" if interrupted else "money" if left else "",
    )


class _Doing:
    """The cases, as workers take them one by one."""

    def __init__(self, bench: Bench, tasks: Sequence[Task], watching: Watching) -> None:
        self._bench = bench
        self._rest = iter(enumerate(tasks))
        self._watching = watching
        self._spent = 0.0
        self._waits: dict[str, str] = {}
        self._spent_out = False
        self.results: dict[int, Result] = {}
        self.models: set[str] = set()

    async def work(self) -> None:
        for number, task in self._rest:
            self._watching.began(task.case.name)
            self.results[number] = result = await self._case(task)
            self._watching.ended(result)

    async def _case(self, task: Task) -> Result:
        case, tries = task.case, list[Try]()
        for _ in range(case.repeat):
            if self._out_of_money():
                tries.append(Try(result="skipped", reasons=(NO_MONEY,)))
                break
            tries.append(await self._try(task))
        return summed(case, tries)

    def _out_of_money(self) -> bool:
        money = self._bench.money
        self._spent_out = self._spent_out or (money is not None and self._spent >= money)
        return self._spent_out

    async def _try(self, task: Task) -> Try:
        """Whatever goes wrong is what came of this case."""
        scope = asyncio.timeout(task.timeout_s)
        try:
            async with scope:
                return await self._once(task)
        except MainstayError as error:
            return broken_try(str(error))
        except Exception as error:  # a tool, a judge or a bug of ours may raise anything: the other cases go on
            if scope.expired():
                waited = f"; it waited: {said}" if (said := self._waits.get(task.case.name)) else ""
                return broken_try(f"it took longer than {task.timeout_s:g} s{waited}")
            return broken_try(f"something went wrong inside: {type(error).__name__}: {error}")

    async def _once(self, task: Task) -> Try:
        turns, found = await self._turns(task)
        if not turns:
            return broken_try("no turn of it has ended")
        expected = {number for number, one in enumerate(task.each) if one is not None and one.outcome is not None}
        seen = together(turns, expected)
        self.models |= set(seen.models)
        if len(turns) < len(task.prompts) and task.how == "ask" and self._out_of_money():
            return unjudged_try(seen, NO_MONEY)
        if (outage := _outage(task, seen)) is not None:
            return unanswered_try(seen, outage)
        for number, (one, checks) in enumerate(zip(turns, task.each, strict=False), start=1):
            told = await look(checks, one) if checks is not None else []
            found += [Found(f"turn {number} {each.check}", each.wrong) for each in told]
        found += await look(_whole(task.case.checks), seen)
        judged = None
        if task.panel is not None and (seen.answer or isinstance(seen.outcome, Answered)):
            if self._out_of_money():
                return unjudged_try(seen, NOT_JUDGED)
            judged = await task.panel.judge(_exhibit(task, seen), 1, Spending())
            self._spent += sum(one.cost for one in judged.scores)
        return judged_try(seen, found, judged)

    async def _turns(self, task: Task) -> tuple[list[Seen], list[Found]]:
        if task.how == "ask":
            done = await self._asked(task)
            missed = len(task.prompts) - len(done)
            return done, [Found("all turns", f"{missed} of {len(task.prompts)} were not done")] if missed else []
        found: list[Found] = []
        if task.how == "replay":
            replayed = await replay(task.records, self._bench.limits)
            found.append(Found("comes out the same when replayed", replayed.difference))
        turns = turns_of(task.records)
        return [one for one in turns if task.turn in (0, one.turn)], found

    async def _asked(self, task: Task) -> list[Seen]:
        """In a home that nobody needs afterwards."""
        provider: Provider
        if task.script is not None:
            provider = scripted(task.script)
        else:
            assert self._bench.provider is not None, "a case without a script has a model"
            provider = Lent(self._bench.provider)
        config = for_case(self._bench.original.config, task.instructions, task.tools)
        async with (
            throwaway(self._bench.original, task.folder) as (home, work),
            Agent(provider, home=home, config=config) as agent,
        ):
            key = (await agent.opened()).key(SESSION, "")
            if task.folder is not None:
                await agent.sessions.work_in(key, work)
            listening = asyncio.create_task(self._listen(agent, task.case.name))
            try:
                for number, prompt in enumerate(task.prompts):
                    if not await self._turn(agent, key, prompt, task.ends(number)):
                        break
            finally:
                listening.cancel()
            return turns_of(await read_all((await agent.opened()).services.store, key))

    async def _listen(self, agent: Agent, name: str) -> None:
        """Why it takes so long, should it take too long."""
        async for event in agent.watch():
            if isinstance(event, Waiting):
                self._waits[name] = event.reason

    async def _turn(self, agent: Agent, key: str, prompt: str, expected: str) -> bool:
        """Whether there is any use in going on."""
        before = await _cost(agent, key)
        try:
            reply: Reply | None = await agent.run(SESSION, prompt)
            while reply is not None and isinstance(reply.outcome, Paused):
                reply = await agent.approvals.deny(reply.outcome.approval, DENIED)
        finally:  # what was spent is spent, also if it took too long
            self._spent += await _cost(agent, key) - before
        if self._out_of_money() or reply is None:
            return False
        return not isinstance(reply.outcome, Failed) or expected == "failed"


def _whole(checks: Checks) -> Checks:
    """A case that does not say how it ends is to be answered."""
    return checks if checks.outcome is not None else msgspec.structs.replace(checks, outcome="answered")


def _outage(task: Task, seen: Seen) -> str | None:
    """A model that cannot be had says nothing of the agent. What a script does wrong is the case's own."""
    if task.how != "ask" or task.script is not None or task.case.checks.outcome == "failed":
        return None
    failed = seen.outcome
    return failed.sentence if isinstance(failed, Failed) and failed.sentence.startswith(MODEL_FAILED) else None


async def _cost(agent: Agent, key: str) -> float:
    with suppress(SessionUnknown):
        return (await agent.sessions.get(key)).cost
    return 0.0


def _exhibit(task: Task, seen: Seen) -> Exhibit:
    return Exhibit(
        prompt=seen.prompt,
        answer=seen.answer,
        messages=seen.messages,
        session=task.case.session or SESSION,
        turn=seen.turn,
        step=seen.steps,
        expected=task.case.expected,
    )


class Lent:
    """A model that many agents ask: it is closed by whoever lent it."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def model(self) -> ModelInfo:
        return self._provider.model()

    def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        return self._provider.stream(context, options)

    async def close(self) -> None: ...
