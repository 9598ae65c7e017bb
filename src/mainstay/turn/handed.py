"""A tool that whoever asks brought along: the model may call it, and they run it."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.core.guests import GuestTool
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.tools import BadArguments

WHY = "Whoever asked runs this call, and hands in its result."


class Handed:
    """The Tool port, but for running: a turn waits for the result instead."""

    effect: Effect = "unsafe"
    timeout_s: float | None = None
    untrusted = True  # what it answers was made elsewhere
    sink: bool | tuple[str, ...] = False  # what it is given goes to whoever the answer goes to
    capabilities: tuple[str, ...] = ()

    def __init__(self, guest: GuestTool) -> None:
        self.name = guest.name
        self.description = guest.description
        self.schema = guest.schema or {"type": "object", "properties": {}}

    def parse(self, input: str) -> Any:
        """Whether the arguments fit is for whoever runs it to say; that they are arguments at all is for us."""
        try:
            given = msgspec.json.decode(input or "{}")
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            raise BadArguments("The arguments are not JSON.") from None
        if not isinstance(given, dict):
            raise BadArguments("The arguments must be a JSON object.")
        return given

    async def run(self, arguments: Any, context: ToolContext) -> str:
        raise AssertionError("it is never run here")

    async def reconcile(self, arguments: Any, context: ToolContext) -> str | None:
        raise AssertionError("it is never run here")
