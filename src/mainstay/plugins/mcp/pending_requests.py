"""Pending requests of a connection: a response passes the filter only if its request is pending."""

from __future__ import annotations

import asyncio

RequestId = int | str


def normalize_id(id: RequestId) -> RequestId:
    """Return the same id for the number 7 and the text "7": servers mix them up."""
    if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) < 20:
        return int(id)
    return id


class PendingRequests:
    """Ids of pending requests. A request ends with its response, or when its caller stops waiting."""

    def __init__(self) -> None:
        self._pending: dict[RequestId, asyncio.Future[None]] = {}

    def add(self, id: RequestId) -> None:
        self._pending[normalize_id(id)] = asyncio.get_running_loop().create_future()

    def finish(self, id: RequestId) -> None:
        finished = self._pending.pop(normalize_id(id), None)
        if finished is not None:
            finished.set_result(None)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | str) and normalize_id(id) in self._pending

    def completion(self, id: RequestId) -> asyncio.Future[None]:
        """Return a future that is done when the request ends; done already if it is not pending."""
        if (pending := self._pending.get(normalize_id(id))) is not None:
            return pending
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done
