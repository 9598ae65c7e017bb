"""How long reads of dense streams are delayed: unnoticeably, and longer in a busy thread."""

from __future__ import annotations

import asyncio

from mainstay.providers.wire.read_coalescer import HOLD_MAX_S, HOLD_MIN_S, MEASURE_EVERY_S, ReadCoalescer


class Loop:
    """As much of an event loop as a clock needs; time is what the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, asyncio.TimerHandle]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: object) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(self.now + delay, callback, (), self)  # type: ignore[arg-type]
        self.due.append((timer.when(), timer))
        return timer

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, timer: asyncio.TimerHandle) -> None:
        pass

    def go_to(self, when: float) -> None:
        while self.due and min(self.due, key=lambda one: one[0])[0] <= when:
            self.due.sort(key=lambda one: one[0])
            at, timer = self.due.pop(0)
            self.now = max(self.now, at)
            if not timer.cancelled():
                timer._run()
        self.now = when


def create_coalescer(loop: Loop, cpu: list[float]) -> ReadCoalescer:
    return ReadCoalescer(loop, lambda: cpu[0])  # type: ignore[arg-type]


def spend(loop: Loop, made: ReadCoalescer, cpu: list[float], share: float, seconds: float) -> None:
    """Time passes, and the thread works for so much of it; streams are held all the while."""
    end = loop.now + seconds
    while loop.now < end:
        loop.go_to(loop.now + MEASURE_EVERY_S)
        cpu[0] += MEASURE_EVERY_S * share
        made.schedule_resume(lambda: None)


def test_a_busy_thread_leaves_streams_alone_for_longer_and_an_idle_one_does_not() -> None:
    loop, cpu = Loop(), [0.0]
    made = create_coalescer(loop, cpu)
    spend(loop, made, cpu, 0.1, 3.0)
    assert made.hold_s == HOLD_MIN_S
    spend(loop, made, cpu, 1.0, 3.0)
    assert 0.9 * HOLD_MAX_S < made.hold_s <= HOLD_MAX_S
    spend(loop, made, cpu, 0.3, 3.0)
    assert HOLD_MIN_S < made.hold_s < HOLD_MAX_S
    spend(loop, made, cpu, 0.0, 5.0)
    assert abs(made.hold_s - HOLD_MIN_S) < 0.001


def test_a_machine_that_is_late_counts_as_busy() -> None:
    loop, cpu = Loop(), [0.0]
    made = create_coalescer(loop, cpu)
    for _ in range(10):
        made.schedule_resume(lambda: None)
        late = loop.now + MEASURE_EVERY_S
        loop.due, due = [], loop.due  # no call reads the clock meanwhile
        loop.now = late
        loop.due = [(late, timer) for _, timer in due]
        loop.go_to(late)
    assert made.hold_s > HOLD_MIN_S


def test_each_stream_is_released_when_its_time_is_up_together_with_its_neighbours() -> None:
    loop, cpu = Loop(), [0.0]
    made = create_coalescer(loop, cpu)
    released: list[tuple[int, float]] = []
    for number, at in enumerate((0.0, 0.001, 0.002, 0.1)):
        loop.go_to(at)
        made.schedule_resume(lambda number=number: released.append((number, loop.now)))  # type: ignore[misc]
    loop.go_to(1.0)
    assert [number for number, _ in released] == [0, 1, 2, 3]
    times = [when for _, when in released]
    assert times[0] == times[1] == times[2] == HOLD_MIN_S
    assert times[3] == 0.1 + HOLD_MIN_S


def test_nothing_is_released_after_the_end() -> None:
    loop, cpu = Loop(), [0.0]
    made = create_coalescer(loop, cpu)
    released: list[int] = []
    made.schedule_resume(lambda: released.append(1))
    made.close()
    loop.go_to(1.0)
    assert released == []
