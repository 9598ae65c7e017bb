"""Telling whoever hears of a message, until they have it."""

from __future__ import annotations

from mainstay.channels.telling import FAULTS_MAX, WAIT_MAX_S, growing, tell
from mainstay.core.addresses import Address
from mainstay.core.channels import Incoming
from mainstay.core.errors import StoreFailed
from mainstay.testing import virtual_run

MESSAGE = Incoming(id="1", address=Address("x", "room"), user="u", text="hello")


class Ear:
    def __init__(self, *troubles: Exception) -> None:
        self.troubles = list(troubles)
        self.asked = 0
        self.heard: list[Incoming] = []

    async def __call__(self, message: Incoming) -> None:
        self.asked += 1
        if self.troubles:
            raise self.troubles.pop(0)
        self.heard.append(message)


def test_what_cannot_be_taken_in_now_is_told_for_as_long_as_it_takes() -> None:
    ear = Ear(*[StoreFailed("the disk is full")] * 100)
    virtual_run(tell(ear, MESSAGE))
    assert (ear.asked, ear.heard) == (101, [MESSAGE])


def test_what_breaks_whoever_hears_is_left_out_in_the_end_so_that_others_are_heard() -> None:
    ear = Ear(*[KeyError("a bug")] * 100)
    virtual_run(tell(ear, MESSAGE))
    assert (ear.asked, ear.heard) == (FAULTS_MAX, [])


def test_waits_grow_and_have_an_end() -> None:
    waits = [growing(tries) for tries in range(40)]
    assert waits[0] < 1 < waits[10]
    assert max(waits) <= WAIT_MAX_S
