"""The ids of traces. They follow from what is traced, so a turn that a crash cut in two is one trace, and whoever has a
session and a turn can name it without asking anyone."""

from __future__ import annotations

import hashlib


def trace_id(session: str, created: int, turn: int) -> str:
    """Of one turn, in 32 hexadecimal digits. `created` (ms) is when the session began: names are used again, in other
    workspaces and other homes."""
    return _digest(f"{session}\0{created}\0{turn}", 16)


def span_id(trace: str, name: str) -> str:
    """Of one part of a trace, in 16 digits; `name` says which: "turn", "step 2", "call call_1_1_0"."""
    return _digest(f"{trace}\0{name}", 8)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).hexdigest()
