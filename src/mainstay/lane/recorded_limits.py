"""Limits of a recorded turn, read from its events: a replay does not depend on the limits of today's configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from mainstay.core.events import Event, MessageAdded, ToolFinished, TurnEnded
from mainstay.core.journal_wording import JournalWording
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import Text, ToolResult
from mainstay.core.outcome import Exhausted

# A limit that no event mentions was not reached.
_UNREACHED = Limits(
    steps_max=sys.maxsize,
    tool_calls_max=sys.maxsize,
    calls_per_response_max=sys.maxsize,
    repeated_calls_max=sys.maxsize,
    step_restarts_max=sys.maxsize,
    output_attempts_max=sys.maxsize,
)


def find_recorded_limits(events: Iterable[Event], wording: JournalWording) -> Limits:
    """Return the limits that the events of a turn mention: in refused calls, notices, answers and the outcome."""
    found: dict[str, int] = {}
    for event in events:
        match event:
            case ToolFinished(result=ToolResult(content=content, is_error=True)):
                found |= _read_refusal(content, wording)
            case MessageAdded(role="system", parts=(Text(text=text, origin=origin), *_)) if origin == RUNTIME:
                found |= _read_bound(_extract(wording.limit_notice, text), wording)
            case MessageAdded(role="assistant", parts=(*_, Text(text=text, origin=origin), _)) if origin == RUNTIME:
                found |= _read_bound(_extract(wording.limit_answer, text), wording)
            case TurnEnded(outcome=Exhausted(bound=bound, budget="")):
                found |= _read_bound(bound, wording)
    return msgspec.structs.replace(_UNREACHED, **found) if found else _UNREACHED


def _read_refusal(text: str, wording: JournalWording) -> dict[str, int]:
    return {
        **_read_count("calls_per_response_max", wording.response_calls_exceeded, text),
        **_read_count("tool_calls_max", wording.turn_calls_exceeded, text),
        **_read_count("repeated_calls_max", wording.call_repeated, text),
    }


def _read_bound(text: str, wording: JournalWording) -> dict[str, int]:
    return {
        **_read_count("steps_max", wording.steps_bound, text),
        **_read_count("tool_calls_max", wording.tool_calls_bound, text),
    }


def _read_count(limit: str, template: str, text: str) -> dict[str, int]:
    count = _extract(template, text)
    return {limit: int(count)} if count.isdecimal() else {}


def _extract(template: str, text: str) -> str:
    """Return what stands in the text for the template's only placeholder; empty if the text is another one."""
    before, rest = template.split("{", 1)
    after = rest.split("}", 1)[1]
    fits = len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after)
    return text[len(before) : len(text) - len(after)] if fits else ""
