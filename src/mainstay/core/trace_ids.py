"""Deterministic trace and span ids, derived from session, turn and step.

So a turn that a crash interrupted is still one trace, and its id can be computed anywhere without a lookup.
"""

from __future__ import annotations

import hashlib


def trace_id(session: str, created: int, turn: int) -> str:
    """Return the trace id of a turn: 32 hexadecimal digits.

    `created` (ms), the session's creation time, distinguishes sessions of the same name in other workspaces and homes.
    """
    return _digest(f"{session}\0{created}\0{turn}", 16)


def span_id(trace: str, name: str) -> str:
    """Return the id of a span in a trace: 16 hexadecimal digits. `name`: "turn", "step 2", "call call_1_1_0"."""
    return _digest(f"{trace}\0{name}", 8)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).hexdigest()
