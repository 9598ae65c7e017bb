"""Runs the steps of `doctor` one after another, each with a timeout and a progress line.

A blocked read from a disk cannot be cancelled, so a step that is not async runs in a thread that may be abandoned. An
error in a step becomes a finding, and the next step runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any

import msgspec

from mainstay.cli.commands.doctor_terminal_checks import check_label
from mainstay.cli.commands.home_locator import run_async
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.health import CheckFinding, Verdict
from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.terminal_sanitizer import escape_line

STEP_TIMEOUT_S = 20.0
PROGRESS_AFTER_S = 0.6  # progress on a terminal
LOG_AFTER_S = 5.0  # progress in other output, where every line stays
BUG_ADVICE = "this is a bug, in Mainstay or in a component of another distribution: report it with this line"
_ERASE = "\r\x1b[K"

log = logging.getLogger("mainstay.doctor")


class DoctorStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of `doctor`."""

    check: str
    work: Callable[[], Awaitable[Iterable[CheckFinding]]]
    activity: str = ""  # completes the sentence "still …"
    timeout_s: float = STEP_TIMEOUT_S  # timeout
    timeout_verdict: Verdict = "FAIL"  # verdict on a timeout
    advice: str = ""  # advice on a timeout or error


class DoctorStepRunner:
    """Runs steps, one after another; `shows_progress`: with progress output."""

    def __init__(self, *, shows_progress: bool) -> None:
        self._shows_progress = shows_progress
        self._has_progress_line = False  # a progress line is on the terminal

    async def run_step(self, step: DoctorStep) -> list[CheckFinding]:
        with self._show_progress(step):
            try:
                async with asyncio.timeout(step.timeout_s):
                    return list(await step.work())
            except TimeoutError:
                message = f"{step.activity or 'checking'} took longer than {step.timeout_s:g} s and was cancelled"
                return [
                    CheckFinding(
                        step.check, step.timeout_verdict, message, step.advice or "find out what is slow, and try again"
                    )
                ]
            except MainstayError as error:
                fix = error.fix if isinstance(error, ConfigError) else ""
                return [CheckFinding(step.check, "FAIL", str(error), fix or step.advice)]
            except (OSError, ValueError) as error:
                message = f"{getattr(error, 'filename', None) or step.activity or 'checking'}: {_describe_error(error)}"
                return [CheckFinding(step.check, "FAIL", message, step.advice or "fix that, and try again")]
            except Exception as error:  # a bug in a check, or in the code of a component that it runs
                log.debug("the check %s failed", step.check, exc_info=error)
                message = f"{step.activity or 'checking'} failed: {type(error).__name__}: {error}"
                return [CheckFinding(step.check, "FAIL", message, step.advice or BUG_ADVICE)]

    async def run_in_thread(self, check: Callable[[], Iterable[CheckFinding]]) -> list[CheckFinding]:
        """Run a blocking check in a thread that is never joined."""
        findings: list[CheckFinding] = await run_in_thread(lambda: list(check()))
        return findings

    async def run_async_in_thread(
        self, check: Callable[[], Coroutine[Any, Any, list[CheckFinding]]]
    ) -> list[CheckFinding]:
        """Run an async check that also blocks in such a thread, with its own event loop."""
        return await self.run_in_thread(lambda: run_async(check()))

    # --- progress --------------------------------------------------------------------------------

    @contextmanager
    def _show_progress(self, step: DoctorStep) -> Iterator[None]:
        if not self._shows_progress:
            yield
            return
        live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        waiting = asyncio.ensure_future(self._draw_progress(step) if live else _print_progress(step))
        try:
            yield
        finally:
            waiting.cancel()
            if self._has_progress_line:
                print(_ERASE, end="", flush=True)
                self._has_progress_line = False

    async def _draw_progress(self, step: DoctorStep) -> None:
        began = time.monotonic()
        await asyncio.sleep(PROGRESS_AFTER_S)
        width = get_terminal_size().columns - 1  # a line that wraps cannot be erased
        while True:
            passed = f", {time.monotonic() - began:.0f} s" if time.monotonic() - began >= 1 else ""
            line = f"      {check_label(step.check)}: {step.activity or 'checking'}{passed} …"
            print(f"{_ERASE}{escape_line(line, width)}", end="", flush=True)
            self._has_progress_line = True
            await asyncio.sleep(1.0)


async def _print_progress(step: DoctorStep) -> None:
    await asyncio.sleep(LOG_AFTER_S)
    limit = f"for up to {step.timeout_s:.0f} s"
    label = check_label(step.check)
    print(f"mainstay: {label}: still {step.activity or 'checking'}, {limit}", file=sys.stderr, flush=True)


def _describe_error(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
