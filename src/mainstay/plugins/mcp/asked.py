"""What a server was asked and has not answered: only to that is an answer let through."""

from __future__ import annotations

import asyncio

Id = int | str


def key_of(id: Id) -> Id:
    """The number 7 and the text "7" are one, as servers mix them up."""
    if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) < 20:
        return int(id)
    return id


class Asked:
    """Requests that are open. Each ends with its answer, or when nobody waits for one any more."""

    def __init__(self) -> None:
        self._open: dict[Id, asyncio.Future[None]] = {}

    def begin(self, id: Id) -> None:
        self._open[key_of(id)] = asyncio.get_running_loop().create_future()

    def end(self, id: Id) -> None:
        over = self._open.pop(key_of(id), None)
        if over is not None:
            over.set_result(None)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | str) and key_of(id) in self._open

    def over(self, id: Id) -> asyncio.Future[None]:
        """Done when it has ended, and at once if it is not open."""
        if (found := self._open.get(key_of(id))) is not None:
            return found
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done
