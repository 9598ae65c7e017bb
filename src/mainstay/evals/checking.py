"""Exact checks: each says what it found, in a sentence for whoever reads the table."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mainstay.cli.chat.words import ending
from mainstay.evals.schema import CallEntry, Checks, calls, texts
from mainstay.evals.seen import Call, Seen, named

PATTERN_S = 5.0  # for one pattern over one answer
EXCERPT_CHARS = 80
_ANSWER = "answer"
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\n(.*?)\n?```\s*$", re.DOTALL)
# Some patterns take for ever on some texts, and nothing stops them but the end of their process.
_SEARCH = "import json,re,sys; given=json.load(sys.stdin); print(int(re.search(*given) is not None))"


class Found(msgspec.Struct, frozen=True):
    """One check, and what is wrong; nothing, if it holds."""

    check: str
    wrong: str = ""


async def look(checks: Checks, seen: Seen) -> list[Found]:
    found = [*_outcome(checks, seen), *_words(checks, seen.answer)]
    found += [one async for one in _patterns(checks, seen.answer)]
    return [*found, *_json(checks, seen.answer), *_calls(checks, seen.calls), *_bounds(checks, seen)]


def _outcome(checks: Checks, seen: Seen) -> Iterator[Found]:
    if checks.outcome is not None:
        was, said = named(seen.outcome), ending(seen.outcome)
        because = "" if said in (was, "stopped") else f": {said}"
        yield Found(f"outcome {checks.outcome}", "" if was == checks.outcome else f"it ended as {was}{because}")


def _words(checks: Checks, answer: str) -> Iterator[Found]:
    for text in texts(checks.contains):
        yield Found(f"contains {_short(text)}", "" if text in answer else _answered(answer))
    for text in texts(checks.not_contains):
        yield Found(f"does not contain {_short(text)}", _answered(answer, text) if text in answer else "")
    if checks.equals is not None:
        same = answer.strip() == checks.equals.strip()
        yield Found(f"equals {_short(checks.equals)}", "" if same else _answered(answer))


async def _patterns(checks: Checks, answer: str) -> AsyncIterator[Found]:
    for pattern in texts(checks.matches):
        found = await _search(pattern, answer)
        wrong = f"the pattern took longer than {PATTERN_S:.0f} s; make it simpler" if found is None else ""
        yield Found(f"matches {_short(pattern)}", wrong or ("" if found else _answered(answer)))


async def _search(pattern: str, text: str) -> bool | None:
    """Whether it is found; None if that takes too long."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SEARCH),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PATTERN_S):
            out, _ = await process.communicate(json.dumps([pattern, text]).encode())
        return out.strip() == b"1"
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _json(checks: Checks, answer: str) -> Iterator[Found]:
    if checks.json is None or checks.json is False:
        return
    fenced = _FENCE.match(answer)
    try:
        value = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        yield Found("is JSON", _answered(answer))
        return
    if not isinstance(checks.json, dict):
        yield Found("is JSON")
        return
    yield Found("fits the JSON Schema", schema_of(checks.json).check({_ANSWER: value}) or "")


def schema_of(given: dict[str, Any]) -> Any:
    """The `edges.json_schema.Schema` of an answer that need not be an object. Raises SchemaRefused."""
    from mainstay.io.json_schema import Schema  # heavy, and an extra

    shared = {key: one for key, one in given.items() if key in ("$schema", "$defs", "definitions")}
    inner = {key: one for key, one in given.items() if key != "$schema"}
    return Schema({**shared, "type": "object", "properties": {_ANSWER: inner}, "required": [_ANSWER]})


def _calls(checks: Checks, made: Sequence[Call]) -> Iterator[Found]:
    for wanted in calls(checks.called):
        there = any(_is(wanted, call) for call in made)
        yield Found(f"called {_written(wanted)}", "" if there else _called(made))
    if in_order := calls(checks.called_in_order):
        rest = iter(made)
        missed = next((one for one in in_order if not any(_is(one, call) for call in rest)), None)
        name = f"called in order {', '.join(map(_written, in_order))}"
        yield Found(name, "" if missed is None else f"{_written(missed)} is missing there: {_called(made)}")
    for glob in texts(checks.not_called):
        hit = next((call for call in made if fnmatch.fnmatchcase(call.tool, glob)), None)
        yield Found(f"did not call {glob}", "" if hit is None else f"it called {_made(hit)}")


def _is(wanted: CallEntry, call: Call) -> bool:
    if not fnmatch.fnmatchcase(call.tool, wanted.tool):
        return False
    if not wanted.arguments:
        return True
    missing = object()
    given = call.arguments or {}
    return all(given.get(name, missing) == value for name, value in wanted.arguments.items())


def _bounds(checks: Checks, seen: Seen) -> Iterator[Found]:
    if checks.steps_max is not None:
        yield _at_most("steps", checks.steps_max, seen.steps)
    if checks.tokens_max is not None:
        yield _at_most("tokens", checks.tokens_max, seen.tokens)
    if checks.cost_max is not None:
        yield _at_most("dollars", checks.cost_max, round(seen.cost, 6))
    if checks.seconds_max is not None:
        yield _at_most("seconds", checks.seconds_max, round(seen.seconds, 3))


def _at_most(unit: str, bound: float, was: float) -> Found:
    return Found(f"at most {bound:,} {unit}", "" if was <= bound else f"it took {was:,}")


# --- in words ------------------------------------------------------------------------------------


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= EXCERPT_CHARS else line[: EXCERPT_CHARS - 1] + "…")


def _answered(answer: str, around: str = "") -> str:
    if not answer.strip():
        return "there is no answer"
    at = max(0, answer.find(around) - EXCERPT_CHARS // 2) if around else 0
    return f"the answer is {_short(('…' if at else '') + answer[at:])}"


def _called(made: Sequence[Call]) -> str:
    if not made:
        return "nothing was called"
    shown = ", ".join(map(_made, made[:5]))
    return f"it called {shown}" + (f" and {len(made) - 5} more" if len(made) > 5 else "")


def _made(call: Call) -> str:
    return f"{call.tool}({_arguments(call.arguments) if call.arguments is not None else '…'})"


def _written(wanted: CallEntry) -> str:
    return f"{wanted.tool}({_arguments(wanted.arguments)})" if wanted.arguments else wanted.tool


def _arguments(given: dict[str, Any]) -> str:
    line = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return line if len(line) <= EXCERPT_CHARS else line[: EXCERPT_CHARS - 1] + "…"
