"""How much watchers have missed is known of a hub, also when they are gone."""

from __future__ import annotations

from mainstay.core.events import TextDelta
from mainstay.lane.event_hub import EventHub


def test_what_slow_watchers_lost_is_counted_and_stays_so_when_they_leave() -> None:
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
