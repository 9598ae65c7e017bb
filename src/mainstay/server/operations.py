"""What a host elsewhere can have done here, as a Protocol. `app` gives it the home's owner."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from mainstay.core.events import ApprovalAsked, Event
from mainstay.core.ports import Standing
from mainstay.core.recall import Hit


class Operations(Protocol):
    """Answering approvals is not among them: whoever asks for work is not whoever allows it."""

    def new_session(self) -> str: ...
    def turn(self, session: str, prompt: str) -> AsyncGenerator[Event, None]:
        """One turn as it happens; the last event is its `TurnEnded`, or an `ApprovalAsked` that waits."""
        ...

    async def steer(self, session: str, text: str) -> None: ...
    async def abort(self, session: str) -> bool: ...
    async def search(self, query: str, k: int) -> Sequence[Hit]: ...
    async def sessions(self, limit: int) -> Sequence[Standing]: ...
    def question(self, asked: ApprovalAsked) -> str:
        """What waits, with nothing hidden, and how it is answered."""
        ...
