"""How much watchers have missed is known of a hub, also when they are gone."""

from __future__ import annotations

from mainstay.core.events import TextDelta
from mainstay.lane.hub import Hub


def test_what_slow_watchers_lost_is_counted_and_stays_so_when_they_leave() -> None:
    hub = Hub(2)
    one, everything = hub.watch("s"), hub.watch(None)
    for _ in range(5):
        hub.emit("s", TextDelta("a"))
    assert (hub.watching, hub.missed) == (2, 6)
    hub.leave(one)
    hub.leave(one)
    assert (hub.watching, hub.missed) == (1, 6)
    hub.leave(everything)
    assert (hub.watching, hub.missed) == (0, 6)
