"""Events in the order in which they make sense.

What is partial is told at once, what is durable only when it is on disk; so the first words of a step may be
heard before the end of the step before it. A reader wants the story in order.
"""

from __future__ import annotations

from mainstay.core.events import Event, MessageAdded, Partial, ToolFinished, TurnEnded
from mainstay.core.messages import ToolCall


class InOrder:
    def __init__(self) -> None:
        self._turn = 0
        self._begin()

    def _begin(self) -> None:
        self._step = 0
        self._open = False  # the step has begun and its message or a result is still to come
        self._awaited: set[str] = set()
        self._held: list[Event] = []

    def feed(self, event: Event) -> list[Event]:
        """What can be told now."""
        if event.turn and event.turn != self._turn:
            left, self._turn = self._held, event.turn
            self._begin()
            return left + self.feed(event)
        if isinstance(event, TurnEnded):
            left = self._held
            self._begin()
            return [*left, event]
        if isinstance(event, Partial) and event.step > self._step and self._open:
            self._held.append(event)
            return []
        self._note(event)
        return [event] if self._open or not self._held else [event, *self._release()]

    def _note(self, event: Event) -> None:
        match event:
            case MessageAdded(role="assistant", parts=parts) if event.turn:
                self._step = event.step
                self._awaited = {part.id for part in parts if isinstance(part, ToolCall)}
                self._open = bool(self._awaited)
            case ToolFinished(result=result):
                self._awaited.discard(result.call_id)
                self._open = bool(self._awaited)
            case Partial() if event.step > self._step:
                self._step = event.step
                self._open = True

    def _release(self) -> list[Event]:
        held, self._held = self._held, []
        return [one for event in held for one in self.feed(event)]
