"""Pending replies: accepted inputs whose callers wait for the reply of their turn."""

from __future__ import annotations

import asyncio

from mainstay.core.errors import MainstayError
from mainstay.core.outcome import Reply
from mainstay.turn.dependencies import AnswerValidator


class PendingReply:
    """An accepted input and the future of its reply."""

    __slots__ = ("reply", "seq", "turn", "validate_answer")

    def __init__(self, seq: int, reply: asyncio.Future[Reply], validate_answer: AnswerValidator | None) -> None:
        self.seq = seq
        self.reply = reply
        self.validate_answer = validate_answer
        self.turn = 0  # 0 until the turn has started


class PendingReplies(dict[int, PendingReply]):
    """Pending replies by the sequence of their input."""

    __slots__ = ()

    def add(self, seq: int, validate_answer: AnswerValidator | None) -> PendingReply:
        pending = self[seq] = PendingReply(seq, asyncio.get_running_loop().create_future(), validate_answer)
        return pending

    def resolve(self, inputs: tuple[int, ...], reply: Reply) -> None:
        """Resolve the replies of all inputs of a turn: those that started it and those that steered it."""
        for seq in inputs:
            pending = self.pop(seq, None)
            if pending is None:
                continue
            pending.turn = reply.turn
            if not pending.reply.done():
                pending.reply.set_result(reply)

    def fail_all(self, error: MainstayError) -> None:
        """Fail every pending reply with `error`."""
        while self:
            _, pending = self.popitem()
            if not pending.reply.done():
                pending.reply.set_exception(error)
                pending.reply.exception()  # mark as retrieved: the caller may not be waiting
