"""Runs evaluation cases concurrently, each in its own temporary home; an error affects only its own case."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mainstay.agent.agent import Agent
from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.core.events import Waiting
from mainstay.core.journal import Record
from mainstay.core.judges import JudgeBudget, JudgeInput, JudgePanel
from mainstay.core.outcome import Answered, Failed, Paused, Reply
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Provider
from mainstay.evals.checks import CheckResult, run_checks
from mainstay.evals.results import (
    CaseAttempt,
    CaseResult,
    EvalRun,
    build_error_attempt,
    build_judged_attempt,
    build_unanswered_attempt,
    build_unjudged_attempt,
    combine_attempts,
)
from mainstay.evals.scripted_model import build_scripted_provider
from mainstay.evals.suite_schema import CaseChecks, EvalCase, Script
from mainstay.evals.temporary_home import HomeTemplate, apply_case_options, create_temporary_home
from mainstay.evals.transcript import Transcript, merge_transcripts, read_transcripts
from mainstay.lane.replay import replay_journal
from mainstay.operations.sessions import read_journal
from mainstay.turn.loop import MODEL_FAILED_PREFIX

SESSION_NAME = "eval"
DENIAL_REASON = "No user can approve it during an evaluation."
NOT_RUN_BUDGET = "not run: the budget (--money) is spent"
NOT_JUDGED_BUDGET = "not judged: the budget (--money) is spent"
NOT_RUN_INTERRUPTED = "not run: interrupted"


class EvalTask(msgspec.Struct, frozen=True, kw_only=True):
    """A case with everything that is needed to run it."""

    case: EvalCase
    prompts: tuple[str, ...] = ()
    turn_checks: tuple[CaseChecks | None, ...] = ()  # checks of each turn; None: it has none
    records: tuple[Record, ...] = ()  # journal of a recorded session
    turn: int = 0  # turn of the recorded session; 0: all
    mode: Literal["ask", "recorded", "replay"] = "ask"
    script: Script | None = None
    panel: JudgePanel | None = None
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    folder: Path | None = None  # copied as the working folder; None: an empty one
    timeout_s: float = 300.0

    def expected_outcome(self, number: int) -> str:
        """Return the expected outcome of a turn; empty if the case does not say."""
        checks = self.turn_checks[number] if number < len(self.turn_checks) else None
        return (checks.outcome if checks is not None else None) or ""


class EvalEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What all cases share."""

    home_template: HomeTemplate
    provider: Provider | None = None  # None: every case has a script
    cost_max: float | None = None  # budget in dollars; None: unlimited
    jobs: int = 4  # cases that run concurrently


class EvalObserver(Protocol):
    """Is notified when cases start and finish."""

    def on_case_started(self, name: str) -> None: ...

    def on_case_finished(self, result: CaseResult) -> None: ...


async def run_tasks(
    environment: EvalEnvironment, name: str, tasks: Sequence[EvalTask], observer: EvalObserver
) -> EvalRun:
    """Run all tasks; when cancelled, return the results so far and mark the other cases as skipped."""
    started = time.monotonic()
    runner = _TaskRunner(environment, tasks, observer)
    workers = [asyncio.create_task(runner.run_worker()) for _ in range(min(environment.jobs, len(tasks)))]
    interrupted = False
    try:
        await asyncio.gather(*workers)
    except asyncio.CancelledError:
        interrupted = True
        if (current := asyncio.current_task()) is not None:
            current.uncancel()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    finished = runner.results
    results = [
        finished.get(number)
        or combine_attempts(task.case, [CaseAttempt(result="skipped", reasons=(NOT_RUN_INTERRUPTED,))])
        for number, task in enumerate(tasks)
    ]
    has_skipped = any(result.result == "skipped" for result in results)
    return EvalRun(
        name=name,
        results=tuple(results),
        model=", ".join(sorted(runner.models)),
        seconds=time.monotonic() - started,
        stop_reason="interrupted" if interrupted else "money" if has_skipped else "",
    )


class _TaskRunner:
    """Runs the cases; several workers take them one by one."""

    def __init__(self, environment: EvalEnvironment, tasks: Sequence[EvalTask], observer: EvalObserver) -> None:
        self._environment = environment
        self._pending = iter(enumerate(tasks))
        self._observer = observer
        self._cost = 0.0
        self._wait_reasons: dict[str, str] = {}
        self._is_budget_spent = False
        self.results: dict[int, CaseResult] = {}
        self.models: set[str] = set()

    async def run_worker(self) -> None:
        for number, task in self._pending:
            self._observer.on_case_started(task.case.name)
            self.results[number] = result = await self._run_case(task)
            self._observer.on_case_finished(result)

    async def _run_case(self, task: EvalTask) -> CaseResult:
        case, tries = task.case, list[CaseAttempt]()
        for _ in range(case.repeat):
            if self._check_budget_spent():
                tries.append(CaseAttempt(result="skipped", reasons=(NOT_RUN_BUDGET,)))
                break
            tries.append(await self._run_attempt(task))
        return combine_attempts(case, tries)

    def _check_budget_spent(self) -> bool:
        money = self._environment.cost_max
        self._is_budget_spent = self._is_budget_spent or (money is not None and self._cost >= money)
        return self._is_budget_spent

    async def _run_attempt(self, task: EvalTask) -> CaseAttempt:
        """Run a case once, within its timeout. Every error becomes the result of this attempt."""
        scope = asyncio.timeout(task.timeout_s)
        try:
            async with scope:
                return await self._evaluate_task(task)
        except MainstayError as error:
            return build_error_attempt(str(error))
        except Exception as error:  # a tool, a judge or a bug may raise anything: the other cases go on
            if scope.expired():
                waited = f"; it was waiting: {reason}" if (reason := self._wait_reasons.get(task.case.name)) else ""
                return build_error_attempt(f"timed out after {task.timeout_s:g} s{waited}")
            return build_error_attempt(f"internal error: {type(error).__name__}: {error}")

    async def _evaluate_task(self, task: EvalTask) -> CaseAttempt:
        turns, results = await self._collect_turns(task)
        if not turns:
            return build_error_attempt("no turn has finished")
        expected = {
            number
            for number, checks in enumerate(task.turn_checks)
            if checks is not None and checks.outcome is not None
        }
        transcript = merge_transcripts(turns, expected)
        self.models |= set(transcript.models)
        if len(turns) < len(task.prompts) and task.mode == "ask" and self._check_budget_spent():
            return build_unjudged_attempt(transcript, NOT_RUN_BUDGET)
        if (outage := _find_outage(task, transcript)) is not None:
            return build_unanswered_attempt(transcript, outage)
        for number, (turn, checks) in enumerate(zip(turns, task.turn_checks, strict=False), start=1):
            turn_results = await run_checks(checks, turn) if checks is not None else []
            results += [CheckResult(f"turn {number} {result.check}", result.failure) for result in turn_results]
        results += await run_checks(_with_default_outcome(task.case.checks), transcript)
        judged = None
        if task.panel is not None and (transcript.answer or isinstance(transcript.outcome, Answered)):
            if self._check_budget_spent():
                return build_unjudged_attempt(transcript, NOT_JUDGED_BUDGET)
            judged = await task.panel.judge(_build_judge_input(task, transcript), 1, JudgeBudget())
            self._cost += sum(score.cost for score in judged.scores)
        return build_judged_attempt(transcript, results, judged)

    async def _collect_turns(self, task: EvalTask) -> tuple[list[Transcript], list[CheckResult]]:
        if task.mode == "ask":
            finished = await self._run_prompts(task)
            missing = len(task.prompts) - len(finished)
            return finished, [
                CheckResult("all turns", f"{missing} of {len(task.prompts)} were not run")
            ] if missing else []
        results: list[CheckResult] = []
        if task.mode == "replay":
            replayed = await replay_journal(task.records)
            results.append(CheckResult("replays identically", replayed.difference))
        turns = read_transcripts(task.records)
        return [turn for turn in turns if task.turn in (0, turn.turn)], results

    async def _run_prompts(self, task: EvalTask) -> list[Transcript]:
        """Send the prompts to an agent in a temporary home and return the turns."""
        provider: Provider
        if task.script is not None:
            provider = build_scripted_provider(task.script)
        else:
            assert self._environment.provider is not None, "a case without a script has a model"
            provider = SharedProvider(self._environment.provider)
        config = apply_case_options(self._environment.home_template.config, task.instructions, task.tools)
        async with (
            create_temporary_home(self._environment.home_template, task.folder) as (home, work),
            Agent(provider, home=home, config=config) as agent,
        ):
            key = (await agent.runtime()).build_session_key(SESSION_NAME, "")
            if task.folder is not None:
                await agent.sessions.work_in(key, work)
            listener = asyncio.create_task(self._watch_waits(agent, task.case.name))
            try:
                for number, prompt in enumerate(task.prompts):
                    if not await self._run_turn(agent, key, prompt, task.expected_outcome(number)):
                        break
            finally:
                listener.cancel()
            return read_transcripts(await read_journal((await agent.runtime()).services.store, key))

    async def _watch_waits(self, agent: Agent, name: str) -> None:
        """Remember why a case is waiting, for the message of a timeout."""
        async for event in agent.watch():
            if isinstance(event, Waiting):
                self._wait_reasons[name] = event.reason

    async def _run_turn(self, agent: Agent, key: str, prompt: str, expected: str) -> bool:
        """Run one turn, denying approvals; return whether the next one should run."""
        cost_before = await _get_session_cost(agent, key)
        try:
            reply: Reply | None = await agent.run(SESSION_NAME, prompt)
            while reply is not None and isinstance(reply.outcome, Paused):
                reply = await agent.approvals.deny(reply.outcome.approval, DENIAL_REASON)
        finally:  # also after a timeout
            self._cost += await _get_session_cost(agent, key) - cost_before
        if self._check_budget_spent() or reply is None:
            return False
        return not isinstance(reply.outcome, Failed) or expected == "failed"


def _with_default_outcome(checks: CaseChecks) -> CaseChecks:
    """Expect the outcome `answered` unless the case says otherwise."""
    return checks if checks.outcome is not None else msgspec.structs.replace(checks, outcome="answered")


def _find_outage(task: EvalTask, transcript: Transcript) -> str | None:
    """Return the error if the model was unavailable: that is no result of the case. A script's error is."""
    if task.mode != "ask" or task.script is not None or task.case.checks.outcome == "failed":
        return None
    failed = transcript.outcome
    return failed.sentence if isinstance(failed, Failed) and failed.sentence.startswith(MODEL_FAILED_PREFIX) else None


async def _get_session_cost(agent: Agent, key: str) -> float:
    with suppress(SessionUnknown):
        return (await agent.sessions.get(key)).cost
    return 0.0


def _build_judge_input(task: EvalTask, transcript: Transcript) -> JudgeInput:
    return JudgeInput(
        prompt=transcript.prompt,
        answer=transcript.answer,
        messages=transcript.messages,
        session=task.case.session or SESSION_NAME,
        turn=transcript.turn,
        step=transcript.steps,
        expected=task.case.expected,
    )


class SharedProvider:
    """A provider that several agents use: closing it does nothing, its owner closes it."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def model(self) -> ModelInfo:
        return self._provider.model()

    def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        return self._provider.stream(context, options)

    async def close(self) -> None: ...
