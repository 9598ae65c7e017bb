"""Assembles streamed tool calls of chat completions: which delta belongs to which call.

Servers disagree about indexes and ids: they omit them, repeat them, or give every call the same one. The ids serve only
to tell calls apart; the runtime creates its own.
"""

from __future__ import annotations

import msgspec

from mainstay.core.ports import ToolCallPiece
from mainstay.providers.wire.decoding import CALLS_MAX

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class StreamedToolCall:
    """One call. Its name is emitted when its arguments begin, because the name may arrive in parts."""

    __slots__ = ("arguments", "id", "index", "is_name_emitted", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | int | None = None
        self.name = ""
        self.is_name_emitted = False
        self.arguments: list[str] = []

    def append_name(self, part: str) -> None:
        # some repeat it in every delta
        if part and not self.is_name_emitted and not self.arguments and part != self.name:
            self.name += part

    def take_name(self) -> str:
        """Return the name the first time, then an empty string."""
        if self.is_name_emitted:
            return ""
        self.is_name_emitted = True
        return self.name

    def has_complete_arguments(self) -> bool:
        try:
            _decode_object("".join(self.arguments))
        except (ValueError, RecursionError, msgspec.DecodeError):
            return False
        return True


class ToolCallAssembler:
    """The calls of one response. Each gets an index of its own: the server's, if that is free."""

    __slots__ = ("_calls", "_calls_by_server_index", "_completeness_checks", "_last")

    def __init__(self) -> None:
        self._completeness_checks = 0
        self._calls: dict[int, StreamedToolCall] = {}  # by our index
        # by the server's index: the call that deltas with this index now belong to
        self._calls_by_server_index: dict[int, StreamedToolCall] = {}
        self._last: StreamedToolCall | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def find_or_open(
        self, index: int | None, id: str | int | None, name: str
    ) -> tuple[StreamedToolCall, list[ToolCallPiece]]:
        """Return the call that a delta belongs to, and the pieces to emit before it: pending names of earlier calls."""
        call = self._find_by_id(id, name) if index is None else self._find_by_index(index, id, name)
        before: list[ToolCallPiece] = []
        if call is None:
            before = self.take_pending_names()
            call = self._open_call(index)
        call.id = call.id or id
        self._last = call
        return call, before

    def take_pending_names(self) -> list[ToolCallPiece]:
        """Return the names of calls without arguments so far. Call it only once those names are complete."""
        return [
            ToolCallPiece(call.index, call.take_name())
            for call in self._calls.values()
            if not call.is_name_emitted and not call.arguments
        ]

    def _find_by_index(self, index: int, id: str | int | None, name: str) -> StreamedToolCall | None:
        call = self._calls_by_server_index.get(index)
        if call is not None and id and name and call.id and call.id != id and self._is_complete(call):
            return None  # a server that gives every call this index: the call is complete, the next begins
        return call

    def _is_complete(self, call: StreamedToolCall) -> bool:
        """Return whether the arguments are complete. Each check reads them all, so there is a limit for a stream that
        only pretends to begin calls."""
        self._completeness_checks += 1
        return self._completeness_checks <= CALLS_MAX and call.has_complete_arguments()

    def _find_by_id(self, id: str | int | None, name: str) -> StreamedToolCall | None:
        if id:
            return next((call for call in self._calls.values() if call.id == id), None)
        if self._last is not None and name and self._last.arguments:
            return None
        return self._last

    def _open_call(self, index: int | None) -> StreamedToolCall:
        free = index if index is not None and index not in self._calls else max(self._calls, default=-1) + 1
        call = self._calls[free] = StreamedToolCall(free)
        if index is not None:
            self._calls_by_server_index[index] = call
        return call
