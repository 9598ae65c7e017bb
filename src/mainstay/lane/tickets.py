"""Those who wait for replies."""

from __future__ import annotations

import asyncio

from mainstay.core.errors import MainstayError
from mainstay.core.outcome import Reply
from mainstay.turn.means import Review


class Ticket:
    """An accepted input and the reply that will come of it."""

    __slots__ = ("reply", "review", "seq", "turn")

    def __init__(self, seq: int, reply: asyncio.Future[Reply], review: Review | None) -> None:
        self.seq = seq
        self.reply = reply
        self.review = review
        self.turn = 0  # known once the turn has started


class Tickets(dict[int, Ticket]):
    """By the sequence of their input."""

    __slots__ = ()

    def issue(self, seq: int, review: Review | None) -> Ticket:
        ticket = self[seq] = Ticket(seq, asyncio.get_running_loop().create_future(), review)
        return ticket

    def answer(self, inputs: tuple[int, ...], reply: Reply) -> None:
        """Tell who waits: those whose input began the turn, and those who steered it."""
        for seq in inputs:
            ticket = self.pop(seq, None)
            if ticket is None:
                continue
            ticket.turn = reply.turn
            if not ticket.reply.done():
                ticket.reply.set_result(reply)

    def fail(self, error: MainstayError) -> None:
        while self:
            _, ticket = self.popitem()
            if not ticket.reply.done():
                ticket.reply.set_exception(error)
                ticket.reply.exception()  # nobody has to have waited
