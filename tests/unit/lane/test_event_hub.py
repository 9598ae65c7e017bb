"""The event hub counts the missed events of watchers, also after they leave."""

from __future__ import annotations

from mainstay.core.events import TextDelta
from mainstay.lane.event_hub import EventHub


def test_missed_events_of_slow_watchers_are_counted_after_they_leave() -> None:
    hub = EventHub(2)
    one, everything = hub.watch("s"), hub.watch(None)
    for _ in range(5):
        hub.emit("s", TextDelta("a"))
    assert (hub.watcher_count, hub.missed_total) == (2, 6)
    hub.unwatch(one)
    hub.unwatch(one)
    assert (hub.watcher_count, hub.missed_total) == (1, 6)
    hub.unwatch(everything)
    assert (hub.watcher_count, hub.missed_total) == (0, 6)
