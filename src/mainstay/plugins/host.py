"""Keeps one plugin going: starts it when it is first called, asks it, checks what it answers, and ends it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from mainstay.core.contract import ContractBroken, ExecuteRequest, ExecuteResponse, decode
from mainstay.core.errors import AgentClosed
from mainstay.core.outside import PluginState, Sandbox
from mainstay.core.workers import in_thread
from mainstay.plugins import instance as process
from mainstay.plugins.grpc_library import grpc_for
from mainstay.plugins.homes import overfull
from mainstay.plugins.instance import Instance
from mainstay.plugins.logs import PluginLog, amount
from mainstay.plugins.plugin import (
    AnswerRefused,
    Pace,
    Plugin,
    PluginFailed,
    PluginGone,
    PluginNotUp,
    PluginResting,
    PluginSays,
    PluginSilent,
)
from mainstay.trust.guards.lines import one_line

ERROR_CHARS_MAX = 2000
LAST_WORDS_S = 2.0  # for a process to be gone whose connection is
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class PluginHost:
    """One plugin of one workspace. Nothing starts until it is called."""

    def __init__(
        self,
        plugin: Plugin,
        sandbox: Sandbox,
        state: PluginState,
        *,
        pace: Pace | None = None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        limits = plugin.manifest.limits
        self.plugin = plugin
        self.log = PluginLog(plugin.name, Path(plugin.data, "log"), limits.log_bytes, redact)
        self._sandbox = sandbox
        self._state = state
        self._pace = pace = pace or Pace()
        self._seats = asyncio.Semaphore(limits.concurrency)
        self._calls = 0
        self._instance: Instance | None = None
        self._starting: asyncio.Task[Instance] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()  # instances that are being put down, and looks at the home
        self._failures: deque[float] = deque(maxlen=pace.failures_max)
        self._row = 0  # failures since it last answered
        self._served = 0  # calls that were given to the newest instance
        self._rests_until = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._used = 0.0  # when it was last called
        self._looked = 0.0  # at its home
        self._closed = False

    @property
    def unheld(self) -> bool:
        """It runs without walls."""
        return not self._sandbox.confined

    async def call(self, request: ExecuteRequest, timeout_s: float) -> str:
        """What the plugin answers. Raises PluginFailed, or another MainstayError if it cannot even be started."""
        if self._calls >= self._pace.waiting_max:
            raise PluginFailed(self._told(f"has {self._calls} calls waiting already"))
        deadline = asyncio.get_running_loop().time() + timeout_s
        self._calls += 1
        try:
            return await self._call(request, timeout_s, deadline)
        finally:
            self._calls -= 1

    async def _call(self, request: ExecuteRequest, timeout_s: float, deadline: float) -> str:
        try:
            async with asyncio.timeout_at(deadline):
                await self._seats.acquire()
        except TimeoutError:
            raise PluginSilent(self._told(f"was busy with other calls for {timeout_s:g} s")) from None
        try:
            instance = await self._ready(timeout_s, deadline)
            instance.calls += 1
            self._served += 1
            try:
                return self._read(request, await self._ask(instance, request, timeout_s, deadline))
            except ContractBroken as error:  # nothing of it goes on to the model
                self.log.note(f"answer to {request.call_id} refused: {error}")
                raise AnswerRefused(self._told("answered with something that is not a result")) from None
            finally:
                instance.calls -= 1
                self._released(instance)
        finally:
            self._seats.release()

    # --- getting one that answers ----------------------------------------------------------------

    async def _ready(self, timeout_s: float, deadline: float) -> Instance:
        self._refuse_closed()
        if self._instance is not None and self._instance.usable:
            return self._instance
        self._refuse_resting()
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(self._starting)  # others may wait for it too
        except asyncio.CancelledError:
            self._refuse_closed()
            raise
        except TimeoutError:
            raise PluginSilent(self._told(f"was not ready within {timeout_s:g} s")) from None

    def _refuse_closed(self) -> None:
        """Closing cancels what runs. Whoever waited for that was not cancelled themselves, and is told."""
        if self._closed and not _is_cancelled():
            raise AgentClosed(self._told("was stopped"))

    def _refuse_resting(self) -> None:
        left = self._rests_until - asyncio.get_running_loop().time()
        if left > 0:
            often = f"{len(self._failures)} times within {self._pace.window_s:g} s"
            sentence = f"failed {often} and rests for another {left:.0f} s"
            raise PluginResting(self._told(sentence) + self._last_words(alone=not self._served))

    async def _start(self) -> Instance:
        if self._row:
            back_off = self._pace.back_off_s
            await asyncio.sleep(back_off[min(self._row, len(back_off)) - 1])
        self._served = 0
        try:
            instance = await process.start(self.plugin, self._sandbox, self._state, self.log)
        except PluginNotUp as error:
            self.log.finish()
            self._count_failure(str(error))
            raise PluginNotUp(self._told(str(error)) + self._last_words()) from error.__cause__
        self._instance = instance
        instance.died.add_done_callback(lambda _: self._died(instance))
        return instance

    def _started(self, task: asyncio.Task[Instance]) -> None:
        self._starting = None
        if not task.cancelled() and task.exception() is None:
            self._released(task.result())  # whoever wanted it may have gone

    # --- asking ----------------------------------------------------------------------------------

    async def _ask(self, instance: Instance, request: ExecuteRequest, timeout_s: float, deadline: float) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            return await instance.ask(request, max(deadline - loop.time(), 0.001))
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._refuse_closed()
            raise PluginGone(await self._gone(instance)) from None  # its end was faster than the news of it
        except grpc_for(self.plugin.name).aio.AioRpcError as error:
            code, details = error.code().name, one_line(str(error.details()))[:ERROR_CHARS_MAX]
        self.log.note(f"call {request.call_id} failed: {code} {details}")
        if code == "DEADLINE_EXCEEDED" and loop.time() >= deadline - 0.05:
            self._condemn(instance, "it missed a deadline; should it answer yet, nobody listens")
            raise PluginSilent(self._told(f"did not answer within {timeout_s:g} s, and the call was cancelled"))
        if code == "UNAVAILABLE" or instance.died.done():
            raise PluginGone(await self._gone(instance))
        if "larger than max" in details:
            most = amount(self.plugin.manifest.limits.answer_bytes)
            raise AnswerRefused(self._told(f"answered with more than {most}"))
        raise PluginSays(self._told(f"failed: {code} {details}"))

    async def _gone(self, instance: Instance) -> str:
        """Why the connection is lost, in a sentence."""
        await asyncio.wait({instance.died}, timeout=LAST_WORDS_S)
        if not instance.died.done():
            self._count_failure("it closed its connection")
            self._condemn(instance, "it closed its connection")
            return self._told("closed its connection in the midst of the call")
        words = self._last_words(alone=self._served == 1)
        return self._told(f"ended with code {instance.died.result()} in the midst of the call") + words

    def _read(self, request: ExecuteRequest, data: bytes) -> str:
        """The content, if this is a result at all; raises ContractBroken."""
        response = decode(data, ExecuteResponse)
        if response.call_id != request.call_id:
            raise ContractBroken(f"it carries the call id {response.call_id[:64]!r}")
        if _CONTROL.search(response.content) or _CONTROL.search(response.error):
            raise ContractBroken("it holds control characters")
        self._row = 0
        if response.error:
            raise PluginSays(response.error[:ERROR_CHARS_MAX])
        return response.content

    # --- ending ----------------------------------------------------------------------------------

    def _condemn(self, instance: Instance, reason: str) -> None:
        """No new calls for it. It goes when those that it is at have ended, which each of them does in its own time."""
        if not instance.condemned:
            instance.condemned = True
            self.log.note(f"this instance is given up: {reason}")

    def _released(self, instance: Instance) -> None:
        self._used = asyncio.get_running_loop().time()
        if not instance.calls and (instance.condemned or self._closed):
            self._put_down(instance)
            return
        if self._idle is None:
            self._watch_idle(self._pace.idle_s)
        if self._used - self._looked >= self._pace.look_s:
            self._looked = self._used
            self._later(self._look_home(instance))

    async def _look_home(self, instance: Instance) -> None:
        home, most = self.plugin.home, self.plugin.manifest.limits.home_mb
        if wrong := await in_thread(lambda: overfull(home, most)):
            self._condemn(instance, f"its home {wrong}: {home}")
            if not instance.calls:
                self._put_down(instance)

    def _watch_idle(self, after_s: float) -> None:
        self._idle = asyncio.get_running_loop().call_later(after_s, self._look_idle)

    def _look_idle(self) -> None:
        self._idle = None
        left = self._used + self._pace.idle_s - asyncio.get_running_loop().time()
        if self._instance is None:
            return
        if self._instance.calls or left > 0:
            self._watch_idle(max(left, self._pace.idle_s / 10))
        else:
            self._put_down(self._instance)

    def _put_down(self, instance: Instance) -> None:
        if self._instance is instance:
            self._instance = None
        if not instance.ending:
            instance.ending = True
            self._later(instance.stop())

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _died(self, instance: Instance) -> None:
        self.log.finish()
        if not instance.ending and not instance.condemned and not instance.died.cancelled():
            self._count_failure(f"it ended with code {instance.died.result()}")
        self._put_down(instance)

    def _count_failure(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        self.log.note(f"failed: {reason}")
        self._row += 1
        self._failures.append(now)
        if len(self._failures) == self._pace.failures_max and now - self._failures[0] <= self._pace.window_s:
            self._rests_until = now + self._pace.rest_s

    async def close(self) -> None:
        """Ends it, whatever it is at. Nothing is left behind."""
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._instance is not None:
            self._put_down(self._instance)
        while self._tasks:
            await asyncio.wait(self._tasks)
        self.log.finish()

    # --- words -----------------------------------------------------------------------------------

    def _told(self, sentence: str) -> str:
        return f"The plugin {self.plugin.name} {sentence}."

    def _last_words(self, *, alone: bool = True) -> str:
        """Whoever shares it with others hears only how it ended: what it said may be about a call of theirs."""
        words = self.log.last_words if alone else self.log.ended
        return f" Its last words: {words}" if words else ""


def _is_cancelled() -> bool:
    """Whether it is us who were cancelled, and not what we wait for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
