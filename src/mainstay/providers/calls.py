"""Tool calls while they are being written: which delta belongs to which call.

Servers disagree about indexes and ids: they leave them out, repeat them, or give every call the same one.
The ids are only used to tell calls apart; the runtime makes its own.
"""

from __future__ import annotations

import msgspec

from mainstay.core.ports import CallPiece

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class OpenCall:
    """One call. Its name is said when its arguments begin, because it may come in parts."""

    __slots__ = ("arguments", "id", "index", "name", "said")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | int | None = None
        self.name = ""
        self.said = False
        self.arguments: list[str] = []

    def add_name(self, part: str) -> None:
        if part and not self.said and not self.arguments and part != self.name:  # some repeat it with every delta
            self.name += part

    def say(self) -> str:
        """The name, the first time."""
        if self.said:
            return ""
        self.said = True
        return self.name

    def is_whole(self) -> bool:
        try:
            _decode_object("".join(self.arguments))
        except (ValueError, RecursionError, msgspec.DecodeError):
            return False
        return True


class OpenCalls:
    """The calls of one answer. Each gets an index of its own: the server's where that is free."""

    __slots__ = ("_at", "_calls", "_last")

    def __init__(self) -> None:
        self._calls: dict[int, OpenCall] = {}  # by our index
        self._at: dict[int, OpenCall] = {}  # by the server's index: the call that its deltas now belong to
        self._last: OpenCall | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def find(self, index: int | None, id: str | int | None, name: str) -> tuple[OpenCall, list[CallPiece]]:
        """The call that a delta belongs to, and what is now to be said of the calls before it."""
        call = self._by_id(id, name) if index is None else self._by_index(index, id, name)
        before: list[CallPiece] = []
        if call is None:
            before = self.unsaid()
            call = self._open(index)
        call.id = call.id or id
        self._last = call
        return call, before

    def unsaid(self) -> list[CallPiece]:
        """Calls without arguments so far: their names, once it is clear that they are whole."""
        return [
            CallPiece(call.index, call.say()) for call in self._calls.values() if not call.said and not call.arguments
        ]

    def _by_index(self, index: int, id: str | int | None, name: str) -> OpenCall | None:
        call = self._at.get(index)
        if call is not None and id and name and call.id and call.id != id and call.is_whole():
            return None  # every call at the same index: a complete one is followed by the next
        return call

    def _by_id(self, id: str | int | None, name: str) -> OpenCall | None:
        if id:
            return next((call for call in self._calls.values() if call.id == id), None)
        if self._last is not None and name and self._last.arguments:
            return None
        return self._last

    def _open(self, index: int | None) -> OpenCall:
        own = index if index is not None and index not in self._calls else max(self._calls, default=-1) + 1
        call = self._calls[own] = OpenCall(own)
        if index is not None:
            self._at[index] = call
        return call
