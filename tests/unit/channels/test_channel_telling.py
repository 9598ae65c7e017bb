"""Telling whoever hears of a message, until they have it."""

from __future__ import annotations

from mainstay.channels.incoming_dispatch import BACKOFF_MAX_S, HANDLER_FAILURES_MAX, compute_backoff_s, dispatch_message
from mainstay.core.channels import IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import StoreFailed
from mainstay.testing import virtual_run

MESSAGE = IncomingMessage(id="1", address=ChatAddress("x", "room"), user="u", text="hello")


class Ear:
    def __init__(self, *troubles: Exception) -> None:
        self.troubles = list(troubles)
        self.asked = 0
        self.heard: list[IncomingMessage] = []

    async def __call__(self, message: IncomingMessage) -> None:
        self.asked += 1
        if self.troubles:
            raise self.troubles.pop(0)
        self.heard.append(message)


def test_what_cannot_be_taken_in_now_is_told_for_as_long_as_it_takes() -> None:
    ear = Ear(*[StoreFailed("the disk is full")] * 100)
    virtual_run(dispatch_message(ear, MESSAGE))
    assert (ear.asked, ear.heard) == (101, [MESSAGE])


def test_what_breaks_whoever_hears_is_left_out_in_the_end_so_that_others_are_heard() -> None:
    ear = Ear(*[KeyError("a bug")] * 100)
    virtual_run(dispatch_message(ear, MESSAGE))
    assert (ear.asked, ear.heard) == (HANDLER_FAILURES_MAX, [])


def test_waits_grow_and_have_an_end() -> None:
    waits = [compute_backoff_s(tries) for tries in range(40)]
    assert waits[0] < 1 < waits[10]
    assert max(waits) <= BACKOFF_MAX_S
