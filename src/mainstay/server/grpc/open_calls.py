"""Calls that stay open end with an error soon after their key was revoked or gives other rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from mainstay.core.people import Principal
from mainstay.server.problems import Problem

KEY_CHECK_S = 5.0  # between two checks whether the keys of open calls are still valid


class OpenCall(msgspec.Struct):
    """A call that stays open: who made it, and what it is doing."""

    principal: Principal
    is_writing: bool = False  # a write must not be cancelled: gRPC would lose the status of the call
    is_ended: bool = False  # its key is not valid any more


class OpenCalls:
    """The open calls of callers with a key. One timer checks them all, and runs while there are any."""

    def __init__(self, is_valid: Callable[[Principal], bool]) -> None:
        self._is_valid = is_valid
        self._calls: dict[asyncio.Task[object], OpenCall] = {}
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watch(self, principal: Principal) -> Iterator[None]:
        """Watch the running task's call while the block runs. Raises Problem when its key stops being valid."""
        task = asyncio.current_task()
        if not principal.key or task is None:
            yield  # the owner's
            return
        call = self._calls[task] = OpenCall(principal)
        if self._timer is None:
            self._check_later()
        try:
            yield
        except asyncio.CancelledError:
            if not call.is_ended or task.uncancel():
                raise  # cancelled by another task
            raise _key_invalid() from None
        finally:
            self._calls.pop(task, None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Mark the running task's call as writing while the block runs. Raises Problem if its key is not valid."""
        task = asyncio.current_task()
        call = self._calls.get(task) if task is not None else None
        if call is None:
            yield
            return
        if not self._is_valid(call.principal):
            raise _key_invalid()
        call.is_writing = True
        try:
            yield
        finally:
            call.is_writing = False

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(KEY_CHECK_S, self._check) if self._calls else None

    def _check(self) -> None:
        for task, call in self._calls.items():
            if not (call.is_ended or call.is_writing or self._is_valid(call.principal)):
                call.is_ended = True
                task.cancel()
        self._check_later()


def _key_invalid() -> Problem:
    return Problem(401, "unauthorized", "this API key is not valid any more")
