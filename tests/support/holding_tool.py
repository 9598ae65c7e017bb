"""A tool whose calls have a change held back, and that counts how often it ran and applied it."""

from __future__ import annotations

import asyncio

from mainstay.core.held_changes import HeldChange
from mainstay.core.ports import Effect, ToolContext
from mainstay.tools.base import BuiltInTool, ToolArguments


class _NoArguments(ToolArguments, frozen=True):
    pass


class HoldingTool(BuiltInTool):
    """`run_gate` and `apply_gate`: a call waits there, before it returns or applies, until the gate is opened."""

    name = "hold"
    description = "Changes a file."
    arguments = _NoArguments
    effect: Effect = "unsafe"

    def __init__(self) -> None:
        self.runs = 0
        self.applied: list[tuple[str, bool]] = []  # document, and whether it may have been applied before
        self.changes = (HeldChange(path="/here/.envrc", data=b"new\n", mode=0o644),)
        self.began = asyncio.Event()
        self.run_gate = asyncio.Event()
        self.apply_gate = asyncio.Event()
        self.run_gate.set()
        self.apply_gate.set()

    async def run(self, arguments: _NoArguments, context: ToolContext) -> str:
        self.runs += 1
        self.began.set()
        await self.run_gate.wait()
        context.held_changes = self.changes
        return "ran"

    async def apply_held_changes(self, document: str, context: ToolContext, *, folder: str, is_repeated: bool) -> str:
        self.applied.append((document, is_repeated))
        self.began.set()
        await self.apply_gate.wait()
        return f"[applied in {folder}]"
