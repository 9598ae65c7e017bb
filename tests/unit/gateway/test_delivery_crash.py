"""Killed at every step between receiving a message and posting the answer: nothing is lost or posted twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.chat_world import World

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Context, Options, StreamFinished, TextPiece
from mainstay.providers.scripted import Pieces, Stall, Step
from mainstay.testing.channel_rig import PostedMessage, eventually, wait_until
from mainstay.testing.loopback_channel import ALL_CAPABILITIES, LoopbackRig

STEPS = {
    "accept",
    "overhear",
    "record_changes",
    "add_pending",
    "remove_pending",
    "add_delivery",
    "update_delivery",
    "find_delivery",
    "post",
    "edit",
    "find_posted",
    "download",
}
WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
BEGINNING = "The beginning of an answer which is long, "
ENDING = "and which goes on for more than one message.\n\nIt has a second part.\n\nAnd a third one, too."
PIECES = ["The beginning of an answer which is long, and which goes on for more than one message.",
          "It has a second part.\n\nAnd a third one, too."]  # fmt: skip


class StepLimit:
    """Lets so many steps happen. Then nothing that goes through it ever happens again, as if the process were dead."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.blown = asyncio.Event()
        self.at = ""

    async def burn(self, name: str) -> None:
        if self.blown.is_set() or self.left <= 0:
            self.at = self.at or name
            self.blown.set()
            await asyncio.Event().wait()
        self.left -= 1


class StepLimited:
    """Any wrapped object, with a step before and a step after each relevant call."""

    def __init__(self, inner: Any, fuse: StepLimit) -> None:
        self._inner = inner
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in STEPS:
            return found

        async def call(*args: Any, **more: Any) -> Any:
            await self._fuse.burn(f"before {name}")
            made = await found(*args, **more)
            await self._fuse.burn(f"after {name}")
            return made

        return call


class StepLimitedLanes:
    """The lanes of a workspace, each fused: what the gateway writes into a journal goes through them."""

    def __init__(self, inner: Any, fuse: StepLimit) -> None:
        self._inner = inner
        self._fuse = fuse

    def get(self, key: str) -> Any:
        return StepLimited(self._inner.get(key), self._fuse)


class StepLimitedRuntime:
    def __init__(self, inner: Any, fuse: StepLimit) -> None:
        self._inner = inner
        self.lanes = StepLimitedLanes(inner.lanes, fuse)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class StepLimitedWorkspace:
    """A workspace of which nothing is replaced, with fused lanes."""

    def __init__(self, inner: Any, fuse: StepLimit) -> None:
        self._inner = inner
        self.current = StepLimitedRuntime(inner.current, fuse)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def runtime(self) -> Any:
        return self.current


class CrashWorld:
    """One world, in which boards come and go."""

    def __init__(self, where: Path, once: Any) -> None:
        self.rig = LoopbackRig(replace(ALL_CAPABILITIES, idempotency=once, length_max=100))
        self.stall = Stall()
        self.world = World(where, self.rig, script=self._write)
        self.fuse = StepLimit(10**9)

    def _write(self, context: Context, options: Options) -> Step:
        return Pieces([TextPiece(BEGINNING), self.stall, TextPiece(ENDING), StreamFinished(FinishReason.END)])

    async def board(self, steps: int) -> None:
        """As another process would make it."""
        self.fuse = fuse = StepLimit(steps)
        world = self.world
        workspace, mail = await world.workspace("main"), world.mails["main"]
        world.workspaces["main"] = StepLimitedWorkspace(getattr(workspace, "_inner", workspace), fuse)  # type: ignore[assignment]
        world.mails["main"] = StepLimited(getattr(mail, "_inner", mail), fuse)
        world.board = world.make_board()
        await world.board.start([StepLimited(self.rig.recreate_channel(), fuse)])

    async def until(self, look: Callable[[], Awaitable[object]]) -> bool:
        """False: it was killed before."""

        async def either() -> str:
            return "so" if await look() else "killed" if self.fuse.blown.is_set() else ""

        if await eventually(either, "what should happen, or the end") == "so":
            return True
        await self.world.board.close()
        await self.board(10**9)
        await eventually(look, f"it goes on after being killed {self.fuse.at}")
        return False

    async def answer(self, steps: int) -> tuple[str, list[PostedMessage], bool]:
        """Of a message that is said now, what became of it, and whether a process was killed meanwhile."""
        self.stall = Stall()
        await self.board(steps)
        first = self.fuse
        thread = await self.rig.send_message("C1", "tell me", mention=True, files=[("a.txt", b"x")])
        session = self.world.session(self.rig, "C1", thread)

        def shown() -> list[PostedMessage]:
            return [one for one in self.rig.platform.bot_messages("C1") if one.thread == thread]

        async def begun() -> bool:
            return self.stall.reached.is_set()

        async def told() -> bool:
            done = any(one.turn for one in await self.world.receipts(session))
            return done and not self.world.board._deliverer.is_busy

        if await self.until(begun):  # else the next process has not read what was written before
            await wait_until(lambda: shown() or self.fuse.blown.is_set(), "a draft is shown, or the end")
        self.stall.release()
        await self.until(told)
        await self.world.board.close()
        (receipt,) = [one for one in await self.world.receipts(session) if one.turn]
        prompts = [one for one in await self.world.received(session) if one.kind == "prompt"]
        assert len(prompts) == 1, first.at
        return receipt.state, shown(), first.blown.is_set()


@pytest.mark.parametrize("once", ["key", "look", "none"])
async def test_killed_at_any_step_an_answer_is_neither_lost_nor_posted_twice(tmp_path: Path, once: Any) -> None:
    """U13, F45"""
    life = CrashWorld(tmp_path, once)
    await life.world.begin()
    await life.world.board.close()
    steps, killed = 0, True
    while killed:
        state, shown, killed = await life.answer(steps)
        texts = [one.text for one in shown]
        if once != "none":
            assert (state, texts) == ("sent", PIECES), steps
        else:  # what may have been said is not said again; an unknown draft may stay
            whole = [text for text in texts if text in PIECES]
            assert len(whole) == len(set(whole)), steps
            assert state in ("sent", "unknown"), steps
            assert state == "unknown" or whole == PIECES, steps
            assert len(texts) - len(whole) <= 1, steps
        steps += 1 if WHOLE else 2
    assert steps > 20, "there are that many steps at least"
    await life.world.end()
