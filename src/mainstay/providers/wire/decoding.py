"""Types of the fields that responses of model servers have, with their bounds, and the errors of decoding.

Every decoder declares its fields with these types, so that a number or a text beyond them is an event that cannot be
parsed, for all APIs alike.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstay.core.usage_bounds import RECORD_TOKENS_MAX

DECODING_ERRORS = (ValueError, RecursionError, msgspec.DecodeError)

INDEX_MAX = 1_000_000  # of a content block, an item or a call: far beyond any response
WORD_CHARS_MAX = 256  # of a type, a finish reason, an error name
NAME_CHARS_MAX = 1024  # of a tool name; the limit for tools is in `Limits`, and a longer one is answered as unknown
ID_CHARS_MAX = 4096
CALLS_MAX = 256  # tool calls in one response; the turn answers all but the first few as too many
WINDOW_DIGITS_MAX = 9  # of a context window that is read from text
WINDOW_TOKENS_MIN = 512  # tokens; a smaller number means something else
WINDOW_TOKENS_MAX = 100_000_000
_INT64_MAX = (1 << 63) - 1

Index = Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX)]
Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
ToolName = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
Id = Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)]
NumericId = Annotated[int, msgspec.Meta(ge=-_INT64_MAX, le=_INT64_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=RECORD_TOKENS_MAX)]


def bound_window(tokens: int) -> int:
    """Return a context window that a server reports; 0 if it cannot be one."""
    return tokens if WINDOW_TOKENS_MIN <= tokens <= WINDOW_TOKENS_MAX else 0
