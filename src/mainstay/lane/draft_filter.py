"""Draft filter: holds back answers from watchers until the judges' verdict decides whether they stand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence

from mainstay.core.events import Event, MessageAdded, TextDelta
from mainstay.core.provisional_answers import answer_stands, is_held_answer, without_held_text, without_text

HELD_EVENTS_MAX = 1_000  # events of a session that are held with an answer


class DraftFilter:
    """Takes events in order and returns those that may be shown now, in the same order.

    An answer that does not stand is released without its text, so that no sequence is missing and its cost is known.
    `hold_drafts`: also hold answers that are shown as drafts, for clients that cannot retract a message.
    """

    def __init__(self, *, hold_drafts: bool = False) -> None:
        self._hold_drafts = hold_drafts
        self._held_events: dict[str, list[Event]] = {}  # by session: an undecided answer, and the events since

    def push_event(self, event: Event) -> Sequence[Event]:
        """Add an event; return the events that may be shown now."""
        if not event.sequence:  # a partial event, like most
            return () if self._hold_drafts and isinstance(event, TextDelta) and event.provisional else (event,)
        waiting = self._held_events.get(event.session)
        if waiting is None:
            if not self._needs_verdict(event):
                return (without_held_text(event),)
            self._held_events[event.session] = [event]
            return ()
        if event.sequence != waiting[-1].sequence + 1:  # a missed event may have been the verdict
            return [*self.release_undecided(event.session), *self.push_event(event)]
        stands = answer_stands(waiting[0], event)
        if stands is None and len(waiting) < HELD_EVENTS_MAX:
            waiting.append(without_held_text(event))
            return ()
        answer, *others = self._held_events.pop(event.session)
        return [answer if stands else without_text(answer), *others, *self.push_event(event)]

    def release_undecided(self, session: str | None = None) -> Sequence[Event]:
        """Release every held answer (or that of one session) without its text: no verdict will arrive."""
        sessions = list(self._held_events) if session is None else [session]
        held = [self._held_events.pop(key) for key in sessions if key in self._held_events]
        return [event for answer, *others in held for event in (without_text(answer), *others)]

    def _needs_verdict(self, event: Event) -> bool:
        draft = self._hold_drafts and isinstance(event, MessageAdded) and event.provisional == "shown"
        return draft or is_held_answer(event)


async def filter_drafts(
    draft_filter: DraftFilter, events: AsyncIterable[Event], last_sequence: int = 0
) -> AsyncGenerator[Event, None]:
    """Yield all events that may be shown; with `last_sequence`, those up to it.

    An answer that is undecided at the end is not yielded, nor are events after it: a reader that continues from its
    last sequence receives all of it.
    """
    try:
        async for event in events:
            for released in draft_filter.push_event(event):
                yield released
            if 0 < last_sequence <= event.sequence:
                return
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
