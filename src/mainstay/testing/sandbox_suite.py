"""What every Sandbox must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMySandbox(SandboxSuite):
    def make(self, where: Path) -> Sandbox: ...

`BoundedSuite` is for one that bounds what a command takes, `ConfinedSuite` (escape_suite) for one with walls, and
`GuardingSuite` (guarding_suite) for one that holds removals back.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

from mainstay.core.errors import InputRefused
from mainstay.core.outside import Command, Grounds, Ran, Sandbox
from mainstay.testing.writing import expect

LONG_S = 60.0
WAYS_TO_STAY = {
    "in the background": "sleep 1000 &",
    "in a session of its own": "setsid sleep 1000 &",
    "forked twice": "(setsid sh -c 'sleep 1000 & exit' &)",
    "deaf to a hangup": "nohup sleep 1000 >/dev/null 2>&1 &",
    "deaf to a polite end": "(trap '' TERM HUP INT; sleep 1000; sleep 1000) &",
}


def grounds_at(where: Path) -> Grounds:
    """A workspace and a scratch folder beside it."""
    for name in ("work", "scratch"):
        (where / name).mkdir(exist_ok=True)
    real = os.path.realpath(where)
    return Grounds(cwd=f"{real}/work", writable=(f"{real}/work", f"{real}/scratch"), scratch=f"{real}/scratch")


def left_over(mark: str) -> list[str]:
    """Processes on this machine whose environment or words carry the mark."""
    if not os.path.isdir("/proc/self"):
        listed = subprocess.run(["ps", "-Eaxo", "command="], capture_output=True, text=True, check=False).stdout
        return [line for line in listed.splitlines() if mark in line]
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words, env = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it is gone, or not ours
            continue
        if mark.encode() in words + env:
            found.append(f"{pid} {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}")
    return found


class Heard:
    """What came through the callback, and a way to wait for it."""

    def __init__(self) -> None:
        self.said = b""
        self._came = asyncio.Event()

    def take(self, stream: str, data: bytes) -> None:
        self.said += data
        self._came.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in self.said:
                self._came.clear()
                await self._came.wait()


class SandboxBase:
    def make(self, where: Path) -> Sandbox:
        raise NotImplementedError

    def command(self, where: Path, script: str, **given: object) -> Command:
        return Command(script=script, grounds=grounds_at(where), **{"timeout_s": LONG_S, **given})  # type: ignore[arg-type]

    async def run(self, where: Path, script: str) -> Ran:
        sandbox = self.make(where)
        try:
            return await sandbox.exec(self.command(where, script))
        finally:
            await sandbox.close()
