"""Judge that runs a Python function, with a timeout. The function may raise or return anything."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial

from mainstay.core.events import Score
from mainstay.core.judges import JudgeBudget, JudgeInput
from mainstay.core.worker_threads import run_in_thread
from mainstay.judges.model_judge import TIMEOUT_S
from mainstay.judges.verdict_parser import NoVerdict, parse_function_result

ERROR_CHARS_MAX = 300
EXIT_MESSAGE = "the function called exit({})"


class FunctionJudge:
    """Runs an async function on the event loop, any other in a thread. After the timeout, it is not awaited."""

    def __init__(
        self, name: str, function: Callable[[JudgeInput], object], *, weight: float = 1.0, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.name = name
        self.weight = weight
        self._function = function
        self._timeout_s = timeout_s

    async def score(self, judge_input: JudgeInput, budget: JudgeBudget) -> Score:
        work = self._start(judge_input)
        work.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait((work,), timeout=self._timeout_s)
        finally:
            work.cancel()  # no effect if it is done; a thread goes on in the background
        score, reason, error = None, "", ""
        if not work.done() or work.cancelled():
            error = "it was cancelled" if work.cancelled() else f"it did not end within {self._timeout_s:g} s"
        elif (exception := work.exception()) is not None:
            error = f"it raised {type(exception).__name__}: {exception}"[:ERROR_CHARS_MAX]
        else:
            try:
                score, reason = parse_function_result(work.result())
            except NoVerdict as problem:
                error = str(problem)
        return Score(self.name, score, reason, error, self.weight)

    def _start(self, judge_input: JudgeInput) -> asyncio.Future[object]:
        if is_async(self._function):
            return asyncio.ensure_future(_await_call(partial(self._function, judge_input)))
        return asyncio.ensure_future(_call_in_thread(partial(self._function, judge_input)))


def is_async(function: Callable[..., object]) -> bool:
    """Return whether calling it returns a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004  # a callable object may have an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _await_call(call: Callable[[], object]) -> object:
    try:
        result = call()
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:  # it would end the process
        raise RuntimeError(EXIT_MESSAGE.format(error.code)) from None


def _call_without_exit(call: Callable[[], object]) -> object:
    """Call a function in a worker thread, converting the exceptions that in_thread would report as those of a tool."""
    try:
        return call()
    except SystemExit as error:
        raise RuntimeError(EXIT_MESSAGE.format(error.code)) from None
    except StopIteration:
        raise RuntimeError("the function raised StopIteration") from None


async def _call_in_thread(call: Callable[[], object]) -> object:
    result = await run_in_thread(partial(_call_without_exit, call))
    return await _await_call(lambda: result) if inspect.isawaitable(result) else result


def _retrieve_exception(work: asyncio.Future[object]) -> None:
    """Mark an exception after the timeout as retrieved, so that asyncio does not log it."""
    if not work.cancelled():
        work.exception()
