"""What `doctor` goes through, a step at a time: each has its time, and whoever waits is told for what.

Looking at a disk that does not answer cannot be ended, so a step that is not async has a thread that may be left
behind. What goes wrong in a step is one more finding, and the next step follows.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any

import msgspec

from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.checks import Finding, Verdict
from mainstay.cli.commands.homes import run_async
from mainstay.core.errors import MainstayError
from mainstay.core.workers import in_thread

STEP_S = 20.0
SHOWN_AFTER_S = 0.6  # on a terminal
TOLD_AFTER_S = 5.0  # elsewhere: who reads a log does not want to see it grow
_ERASE = "\r\x1b[K"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`doing` ends the sentence "still …"; `late` is what to think of it if its time is up, and `then` what to do."""

    check: str
    work: Callable[[], Awaitable[Iterable[Finding]]]
    doing: str = ""
    seconds: float = STEP_S
    late: Verdict = "FAIL"
    then: str = ""


class Steps:
    """Runs them, one after another."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._line = False  # something stands on the terminal's last line

    async def take(self, step: Step) -> list[Finding]:
        with self._watched(step):
            try:
                async with asyncio.timeout(step.seconds):
                    return list(await step.work())
            except TimeoutError:
                says = f"{step.doing or 'looking'} took longer than {step.seconds:g} s, and was given up"
                return [Finding(step.check, step.late, says, step.then or "see what is slow here, and try again")]
            except MainstayError as error:
                return [Finding(step.check, "FAIL", str(error), step.then)]
            except (OSError, ValueError) as error:
                says = f"{getattr(error, 'filename', None) or step.doing or 'it'}: {_reason(error)}"
                return [Finding(step.check, "FAIL", says, step.then or "mend that, and try again")]

    async def apart(self, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
        """In a thread that nobody waits for at the end."""
        found: list[Finding] = await in_thread(lambda: list(look()))
        return found

    async def apart_async(self, look: Callable[[], Coroutine[Any, Any, list[Finding]]]) -> list[Finding]:
        """The same for what is async and also reads files: with a loop of its own."""
        return await self.apart(lambda: run_async(look()))

    # --- whoever waits ---------------------------------------------------------------------------

    @contextmanager
    def _watched(self, step: Step) -> Iterator[None]:
        if not self._shown:
            yield
            return
        live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        waiting = asyncio.ensure_future(self._show(step) if live else _tell(step))
        try:
            yield
        finally:
            waiting.cancel()
            if self._line:
                print(_ERASE, end="", flush=True)
                self._line = False

    async def _show(self, step: Step) -> None:
        began = time.monotonic()
        await asyncio.sleep(SHOWN_AFTER_S)
        width = get_terminal_size().columns - 1  # a line that wraps cannot be erased
        while True:
            passed = f", {time.monotonic() - began:.0f} s" if time.monotonic() - began >= 1 else ""
            line = f"      {step.check}: {step.doing or 'looking'}{passed} …"
            print(f"{_ERASE}{visible(line, width)}", end="", flush=True)
            self._line = True
            await asyncio.sleep(1.0)


async def _tell(step: Step) -> None:
    await asyncio.sleep(TOLD_AFTER_S)
    bound = f"for up to {step.seconds:.0f} s"
    print(f"mainstay: {step.check}: still {step.doing or 'looking'}, {bound}", file=sys.stderr, flush=True)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
