"""A received message is passed to the handler until it is stored."""

from __future__ import annotations

from mainstay.channels.incoming_dispatch import BACKOFF_MAX_S, HANDLER_FAILURES_MAX, compute_backoff_s, dispatch_message
from mainstay.core.channels import IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import StoreFailed
from mainstay.testing import virtual_run

MESSAGE = IncomingMessage(id="1", address=ChatAddress("x", "room"), user="u", text="hello")


class FailingHandler:
    def __init__(self, *troubles: Exception) -> None:
        self.troubles = list(troubles)
        self.asked = 0
        self.heard: list[IncomingMessage] = []

    async def __call__(self, message: IncomingMessage) -> None:
        self.asked += 1
        if self.troubles:
            raise self.troubles.pop(0)
        self.heard.append(message)


def test_a_message_that_cannot_be_stored_now_is_retried_until_it_is() -> None:
    ear = FailingHandler(*[StoreFailed("the disk is full")] * 100)
    virtual_run(dispatch_message(ear, MESSAGE))
    assert (ear.asked, ear.heard) == (101, [MESSAGE])


def test_a_message_that_always_breaks_the_handler_is_dropped_so_that_others_are_handled() -> None:
    ear = FailingHandler(*[KeyError("a bug")] * 100)
    virtual_run(dispatch_message(ear, MESSAGE))
    assert (ear.asked, ear.heard) == (HANDLER_FAILURES_MAX, [])


def test_waits_grow_and_have_an_end() -> None:
    waits = [compute_backoff_s(tries) for tries in range(40)]
    assert waits[0] < 1 < waits[10]
    assert max(waits) <= BACKOFF_MAX_S
