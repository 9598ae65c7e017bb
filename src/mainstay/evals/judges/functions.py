"""A judge that is a Python function. It may take its time, raise anything, and return anything."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from mainstay.core.events import Score
from mainstay.core.judging import Exhibit, Spending
from mainstay.core.workers import in_thread
from mainstay.evals.judges.models import TIMEOUT_S
from mainstay.evals.judges.verdict import NoVerdict, read_result

ERROR_CHARS_MAX = 300
EXITED = "the function called exit({})"


class FunctionJudge:
    """An async function runs on the loop, any other in a thread of its own. Whichever does not end in time is left
    behind: nobody waits for it."""

    def __init__(
        self, name: str, function: Callable[[Exhibit], Any], *, weight: float = 1.0, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.name = name
        self.weight = weight
        self._function = function
        self._timeout_s = timeout_s

    async def score(self, exhibit: Exhibit, spending: Spending) -> Score:
        work = self._begin(exhibit)
        work.add_done_callback(_heard)
        try:
            await asyncio.wait((work,), timeout=self._timeout_s)
        finally:
            work.cancel()  # of no effect on what is done; what does not listen goes on alone
        score, reason, error = None, "", ""
        if not work.done() or work.cancelled():
            error = "it was cancelled" if work.cancelled() else f"it did not end within {self._timeout_s:g} s"
        elif (raised := work.exception()) is not None:
            error = f"it raised {type(raised).__name__}: {raised}"[:ERROR_CHARS_MAX]
        else:
            try:
                score, reason = read_result(work.result())
            except NoVerdict as trouble:
                error = str(trouble)
        return Score(self.name, score, reason, error, self.weight)

    def _begin(self, exhibit: Exhibit) -> asyncio.Future[Any]:
        if is_async(self._function):
            return asyncio.ensure_future(_awaited(partial(self._function, exhibit)))
        return asyncio.ensure_future(_threaded(partial(self._function, exhibit)))


def is_async(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004  # an object that is called may be async in there
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _awaited(work: Callable[[], Any]) -> Any:
    try:
        return await work()
    except SystemExit as error:  # it would end more than the judge
        raise RuntimeError(EXITED.format(error.code)) from None


def _staying(work: Callable[[], Any]) -> Any:
    """Threads are made for tools, and speak of those."""
    try:
        return work()
    except SystemExit as error:
        raise RuntimeError(EXITED.format(error.code)) from None
    except StopIteration:
        raise RuntimeError("the function raised StopIteration") from None


async def _threaded(work: Callable[[], Any]) -> Any:
    result = await in_thread(partial(_staying, work))
    return await _awaited(lambda: result) if inspect.isawaitable(result) else result


def _heard(work: asyncio.Future[Any]) -> None:
    """What it raised after its time is nobody's surprise any more."""
    if not work.cancelled():
        work.exception()
