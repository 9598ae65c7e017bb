"""Host of one plugin: starts its process on the first call, restarts it with backoff, checks results, stops it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path

from mainstay.core.errors import AgentClosed
from mainstay.core.plugin_protocol import ExecuteRequest, ExecuteResponse, ProtobufMessageInvalid, decode
from mainstay.core.supervision import log_task_exception
from mainstay.core.tool_ports import PluginState, Sandbox
from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.line_escaping import one_line
from mainstay.plugins import process as process
from mainstay.plugins.home_size import check_home_size
from mainstay.plugins.output_log import PluginLog, format_size
from mainstay.plugins.plugin import (
    Plugin,
    PluginCircuitOpen,
    PluginExited,
    PluginFailed,
    PluginHostSettings,
    PluginNotStarted,
    PluginReportedError,
    PluginResultInvalid,
    PluginTimedOut,
)
from mainstay.plugins.process import PluginProcess

ERROR_CHARS_MAX = 2000
EXIT_WAIT_S = 2.0  # wait for the exit of a process whose connection was lost
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class PluginHost:
    """One plugin of one workspace. No process is started before the first call."""

    def __init__(
        self,
        plugin: Plugin,
        sandbox: Sandbox,
        state: PluginState,
        *,
        settings: PluginHostSettings | None = None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        limits = plugin.manifest.limits
        self.plugin = plugin
        self.log = PluginLog(plugin.name, Path(plugin.data_folder, "log"), limits.log_bytes, redact)
        self._sandbox = sandbox
        self._state = state
        self._settings = settings = settings or PluginHostSettings()
        self._permits = asyncio.Semaphore(limits.concurrency)
        self._call_count = 0
        self._process: PluginProcess | None = None
        self._starting: asyncio.Task[PluginProcess] | None = None
        self._tasks: set[asyncio.Task[object]] = set()  # processes being stopped, and size checks of the home
        self._failures: deque[float] = deque(maxlen=settings.failures_max)  # times, on the loop's clock
        self._consecutive_failures = 0  # consecutive failures: since the last answer
        self._process_calls = 0  # calls sent to the newest process
        self._circuit_open_until = 0.0  # on the loop's clock, as are the following times
        self._idle_timer: asyncio.TimerHandle | None = None
        self._last_used_at = 0.0  # end of the last call
        self._home_checked_at = 0.0  # last size check of the home
        self._closed = False

    @property
    def unconfined(self) -> bool:
        """True if it runs without a sandbox that confines it."""
        return not self._sandbox.is_confined

    async def call(self, request: ExecuteRequest, timeout_s: float) -> str:
        """Return the content of the plugin's result. Raises PluginFailed, or another MainstayError if no process could
        be started at all."""
        if self._call_count >= self._settings.calls_max:
            raise PluginFailed(self._message(f"has {self._call_count} calls waiting already"))
        deadline = asyncio.get_running_loop().time() + timeout_s
        self._call_count += 1
        try:
            return await self._call(request, timeout_s, deadline)
        finally:
            self._call_count -= 1

    async def _call(self, request: ExecuteRequest, timeout_s: float, deadline: float) -> str:
        try:
            async with asyncio.timeout_at(deadline):
                await self._permits.acquire()
        except TimeoutError:
            raise PluginTimedOut(self._message(f"was busy with other calls for {timeout_s:g} s")) from None
        try:
            instance = await self._get_process(timeout_s, deadline)
            instance.active_calls += 1
            self._process_calls += 1
            try:
                return self._parse_response(request, await self._execute(instance, request, timeout_s, deadline))
            except ProtobufMessageInvalid as error:  # no part of it reaches the model
                self.log.append_note(f"answer to {request.call_id} refused: {error}")
                raise PluginResultInvalid(self._message("answered with something that is not a result")) from None
            finally:
                instance.active_calls -= 1
                self._after_call(instance)
        finally:
            self._permits.release()

    # --- starting --------------------------------------------------------------------------------

    async def _get_process(self, timeout_s: float, deadline: float) -> PluginProcess:
        self._raise_if_closed()
        if self._process is not None and self._process.usable:
            return self._process
        self._raise_if_circuit_open()
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._on_started)
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(self._starting)  # other calls may wait for it too
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        except TimeoutError:
            raise PluginTimedOut(self._message(f"was not ready within {timeout_s:g} s")) from None

    def _raise_if_closed(self) -> None:
        """Raise AgentClosed if the host was closed: a call whose own task was not cancelled gets an error instead of a
        CancelledError."""
        if self._closed and not _is_cancelled():
            raise AgentClosed(self._message("was stopped"))

    def _raise_if_circuit_open(self) -> None:
        left_s = self._circuit_open_until - asyncio.get_running_loop().time()
        if left_s > 0:
            count = f"{len(self._failures)} times within {self._settings.failure_window_s:g} s"
            sentence = f"failed {count} and is not started for another {left_s:.0f} s"
            raise PluginCircuitOpen(self._message(sentence) + self._quote_output(alone=not self._process_calls))

    async def _start(self) -> PluginProcess:
        if self._consecutive_failures:
            back_off = self._settings.restart_backoff_s
            await asyncio.sleep(back_off[min(self._consecutive_failures, len(back_off)) - 1])
        self._process_calls = 0
        try:
            instance = await process.start_plugin_process(self.plugin, self._sandbox, self._state, self.log)
        except PluginNotStarted as error:
            self.log.flush()
            self._count_failure(str(error))
            raise PluginNotStarted(self._message(str(error)) + self._quote_output()) from error.__cause__
        self._process = instance
        instance.exit_task.add_done_callback(lambda _: self._on_exit(instance))
        return instance

    def _on_started(self, task: asyncio.Task[PluginProcess]) -> None:
        self._starting = None
        if not task.cancelled() and task.exception() is None:
            self._after_call(task.result())  # the call that started it may have been cancelled

    # --- calling ---------------------------------------------------------------------------------

    async def _execute(
        self, process: PluginProcess, request: ExecuteRequest, timeout_s: float, deadline: float
    ) -> bytes:
        from grpc.aio import AioRpcError  # loaded when the process was started

        loop = asyncio.get_running_loop()
        try:
            return await process.execute(request, max(deadline - loop.time(), 0.001))
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._raise_if_closed()
            raise PluginExited(await self._describe_exit(process)) from None  # it exited before gRPC noticed
        except AioRpcError as error:
            code, details = error.code().name, one_line(str(error.details()))[:ERROR_CHARS_MAX]
        self.log.append_note(f"call {request.call_id} failed: {code} {details}")
        if code == "DEADLINE_EXCEEDED" and loop.time() >= deadline - 0.05:
            self._drain(process, "it missed a deadline; a late answer is ignored")
            raise PluginTimedOut(self._message(f"did not answer within {timeout_s:g} s, and the call was cancelled"))
        if code == "UNAVAILABLE" or process.exit_task.done():
            raise PluginExited(await self._describe_exit(process))
        if "larger than max" in details:
            size_max = format_size(self.plugin.manifest.limits.answer_bytes)
            raise PluginResultInvalid(self._message(f"answered with more than {size_max}"))
        raise PluginReportedError(self._message(f"failed: {code} {details}"))

    async def _describe_exit(self, process: PluginProcess) -> str:
        """Return why the connection was lost, as a sentence."""
        await asyncio.wait({process.exit_task}, timeout=EXIT_WAIT_S)
        if not process.exit_task.done():
            if not process.draining:  # its other calls have the same cause
                self._count_failure("it closed its connection")
            self._drain(process, "it closed its connection")
            return self._message("closed its connection during the call")
        output = self._quote_output(alone=self._process_calls == 1)
        return self._message(f"ended with code {process.exit_task.result()} during the call") + output

    def _parse_response(self, request: ExecuteRequest, data: bytes) -> str:
        """Return the content of a response. Raises ProtobufMessageInvalid, or PluginReportedError for an error."""
        response = decode(data, ExecuteResponse)
        if response.call_id != request.call_id:
            raise ProtobufMessageInvalid(f"it has the call id {response.call_id[:64]!r}")
        if _CONTROL_CHARACTERS.search(response.content) or _CONTROL_CHARACTERS.search(response.error):
            raise ProtobufMessageInvalid("it contains control characters")
        self._consecutive_failures = 0
        if response.error:
            raise PluginReportedError(response.error[:ERROR_CHARS_MAX])
        return response.content

    # --- stopping --------------------------------------------------------------------------------

    def _drain(self, process: PluginProcess, reason: str) -> None:
        """Send no new calls to this process; it is stopped after its running calls, each of which has a deadline."""
        if not process.draining:
            process.draining = True
            self.log.append_note(f"this process gets no more calls: {reason}")

    def _after_call(self, process: PluginProcess) -> None:
        self._last_used_at = asyncio.get_running_loop().time()
        if not process.active_calls and (process.draining or self._closed):
            self._stop_process(process)
            return
        if self._idle_timer is None:
            self._schedule_idle_check(self._settings.idle_timeout_s)
        if self._last_used_at - self._home_checked_at >= self._settings.home_check_interval_s:
            self._home_checked_at = self._last_used_at
            self._run_in_background(self._check_home(process))

    async def _check_home(self, process: PluginProcess) -> None:
        home, mb_max = self.plugin.home, self.plugin.manifest.limits.home_mb
        if problem := await run_in_thread(lambda: check_home_size(home, mb_max)):
            self._drain(process, f"its home {problem}: {home}")
            if not process.active_calls:
                self._stop_process(process)

    def _schedule_idle_check(self, after_s: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(after_s, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_timer = None
        left_s = self._last_used_at + self._settings.idle_timeout_s - asyncio.get_running_loop().time()
        if self._process is None:
            return
        if self._process.active_calls or left_s > 0:
            self._schedule_idle_check(max(left_s, self._settings.idle_timeout_s / 10))
        else:
            self._stop_process(self._process)

    def _stop_process(self, process: PluginProcess) -> None:
        if self._process is process:
            self._process = None
        if not process.stopping:
            process.stopping = True
            self._run_in_background(process.stop())

    def _run_in_background(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(work, name=f"work for the plugin {self.plugin.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(log_task_exception)

    def _on_exit(self, process: PluginProcess) -> None:
        self.log.flush()
        if not process.stopping and not process.draining and not process.exit_task.cancelled():
            self._count_failure(f"it ended with code {process.exit_task.result()}")
        self._stop_process(process)

    def _count_failure(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        self.log.append_note(f"failed: {reason}")
        self._consecutive_failures += 1
        self._failures.append(now)
        if (
            len(self._failures) == self._settings.failures_max
            and now - self._failures[0] <= self._settings.failure_window_s
        ):
            self._circuit_open_until = now + self._settings.circuit_open_s

    async def close(self) -> None:
        """Stop the plugin, with calls still running. Afterwards no process, task or file of it is left."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._process is not None:
            self._stop_process(self._process)
        while self._tasks:
            await asyncio.wait(self._tasks)
        self.log.flush()

    # --- messages --------------------------------------------------------------------------------

    def _message(self, sentence: str) -> str:
        return f"The plugin {self.plugin.name} {sentence}."

    def _quote_output(self, *, alone: bool = True) -> str:
        """Return the end of the plugin's output, to be quoted. If the process also served other calls (not `alone`),
        only the reason why the sandbox killed it: its output may be about another caller's call."""
        output = self.log.last_output if alone else self.log.kill_reason
        return f" The end of its output: {output}" if output else ""


def _is_cancelled() -> bool:
    """True if the current task itself was cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
