"""What watchers are told of answers that are judged first: nothing of them, until it is known whether they stand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence

from mainstay.core.events import Event, MessageAdded, TextDelta
from mainstay.core.withheld import decides, discreet, is_held, wordless

BEHIND_MAX = 1_000  # events that may wait with an answer


class Curtain:
    """Takes events in their order, and gives those that may be heard now, in the same order. An answer that does not
    stand comes without its words, so that no sequence is missing and what it cost is known.

    `drafts`: those that others are shown as drafts, too, for whoever cannot take anything back.
    """

    def __init__(self, *, drafts: bool = False) -> None:
        self._drafts = drafts
        self._behind: dict[str, list[Event]] = {}  # by session: an answer, and what has happened since

    def take(self, event: Event) -> Sequence[Event]:
        if not event.sequence:  # a few letters, as most are
            return () if self._drafts and isinstance(event, TextDelta) and event.provisional else (event,)
        waiting = self._behind.get(event.session)
        if waiting is None:
            if not self._waits(event):
                return (discreet(event),)
            self._behind[event.session] = [event]
            return ()
        stands = decides(event)
        if stands is None and len(waiting) < BEHIND_MAX:
            waiting.append(discreet(event))
            return ()
        answer, *others = self._behind.pop(event.session)
        return [answer if stands else wordless(answer), *others, *self.take(event)]

    def fall(self) -> Sequence[Event]:
        """There is no more to come: answers that nobody has judged are not told."""
        behind, self._behind = self._behind, {}
        return [one for answer, *others in behind.values() for one in (wordless(answer), *others)]

    def _waits(self, event: Event) -> bool:
        draft = self._drafts and isinstance(event, MessageAdded) and event.provisional == "shown"
        return draft or is_held(event)


async def behind(curtain: Curtain, events: AsyncIterable[Event], upto: int = 0) -> AsyncGenerator[Event, None]:
    """All of these, as they may be heard; or those `upto` a sequence, as they may be heard by now."""
    try:
        async for event in events:
            for heard in curtain.take(event):
                yield heard
            if 0 < upto <= event.sequence:
                for heard in curtain.fall():
                    yield heard
                return
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
