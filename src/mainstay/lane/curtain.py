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
        if event.sequence != waiting[-1].sequence + 1:  # what was missed may be what was said of it
            return [*self.fall(event.session), *self.take(event)]
        stands = decides(waiting[0], event)
        if stands is None and len(waiting) < BEHIND_MAX:
            waiting.append(discreet(event))
            return ()
        answer, *others = self._behind.pop(event.session)
        return [answer if stands else wordless(answer), *others, *self.take(event)]

    def fall(self, session: str | None = None) -> Sequence[Event]:
        """Nobody will learn whether answers stand that wait here, or that wait of one session: they come without their
        words."""
        sessions = list(self._behind) if session is None else [session]
        behind = [self._behind.pop(one) for one in sessions if one in self._behind]
        return [one for answer, *others in behind for one in (wordless(answer), *others)]

    def _waits(self, event: Event) -> bool:
        draft = self._drafts and isinstance(event, MessageAdded) and event.provisional == "shown"
        return draft or is_held(event)


async def behind(curtain: Curtain, events: AsyncIterable[Event], upto: int = 0) -> AsyncGenerator[Event, None]:
    """All of these, as they may be heard; or those `upto` a sequence, and only before an answer that is not decided:
    whoever goes on from there hears all of it."""
    try:
        async for event in events:
            for heard in curtain.take(event):
                yield heard
            if 0 < upto <= event.sequence:
                return
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
