"""A server's output is parsed the same way in any chunks, within a memory limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.message_filter import MessageFilter, count_values
from mainstay.plugins.mcp.pending_requests import PendingRequests
from mainstay.plugins.mcp.server_config import McpLimits
from mainstay.plugins.mcp.stdio_queue import StdioMessageQueue


def message(**fields: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def asking(*ids: int | str) -> PendingRequests:
    asked = PendingRequests()
    for id in ids:
        asked.add(id)
    return asked


def run_through(
    pieces: list[bytes],
    limits: McpLimits,
    clock: list[float] | None = None,
    asked: Iterable[int | str] = (1, 2, 3, 9),
) -> tuple[list[bytes], FloodGuard]:
    """The messages that came of it."""

    async def main() -> tuple[list[bytes], FloodGuard]:
        gate = FloodGuard(limits, lambda: clock[0] if clock else 0.0)
        frames = StdioMessageQueue(MessageFilter(limits, gate, asking(*asked)))
        for piece in pieces:
            frames.feed(piece)
        frames.close()
        found = []
        while (line := await frames.next_line()) is not None:
            found.append(line)
        return found, gate

    return asyncio.run(main())


def test_half_a_character_in_an_answer_is_replaced_and_the_answer_is_not_dropped() -> None:
    """A server that cuts text writes half of an emoji; the call would wait until its timeout."""
    half = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"so \\ud83d"}]}}\n'
    found, _ = run_through([half], McpLimits())
    assert [json.loads(line)["result"]["content"][0]["text"] for line in found] == ["so \ufffd"]


WANTED = [message(id=1, result={}), message(id=2, result={"text": "ü\n"}), message(method="x"), message(id=3, error={})]


@given(some.lists(some.integers(0, 400), max_size=12))
def test_messages_are_the_same_at_any_cut_of_the_output(cuts: list[int]) -> None:
    data = b"\n".join(
        [b"noise", WANTED[0], b"", b"  ", WANTED[1] + b"\r", b"\xff\xfe", WANTED[2], b"{", WANTED[3], b""]
    )
    at = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[start:end] for start, end in pairwise(at)]
    found, gate = run_through(pieces, McpLimits())
    assert found == WANTED
    assert gate.dropped == 3


@given(some.binary(max_size=2000))
def test_no_output_is_too_strange(data: bytes) -> None:
    found, _ = run_through([data, b"\n", WANTED[0], b"\n"], McpLimits())
    assert found[-1] == WANTED[0]


def test_a_line_that_is_too_long_is_never_held_and_the_next_one_is_read() -> None:
    limits = McpLimits(message_bytes_max=1000)
    pieces = [b"x" * 100] * 100_000 + [b"\n", WANTED[0], b"\n"]
    found, gate = run_through(pieces, limits)
    assert found == [WANTED[0]]
    assert gate.dropped == 1
    assert gate.dropped_bytes == 10_000_000


def test_a_line_without_end_is_a_flood_in_the_end() -> None:
    limits = McpLimits(message_bytes_max=1000, dropped_bytes_max=50_000)
    found, gate = run_through([b"x" * 1000] * 100 + [b"\n", WANTED[0], b"\n"], limits)
    assert gate.flooded
    assert found == []


def test_unsolicited_messages_are_rate_limited_and_responses_are_not() -> None:
    clock = [0.0]
    limits = McpLimits(unsolicited_burst=10, unsolicited_per_s=5)
    note, answer = message(method="notifications/progress"), message(id=9, result={})
    found, gate = run_through([(note + b"\n") * 50 + answer + b"\n"], limits, clock)
    assert found == [note] * 10 + [answer]
    assert gate.dropped == 40
    clock[0] = 1.0
    assert [gate.try_admit() for _ in range(7)] == [True] * 5 + [False] * 2


def test_a_backlog_has_a_bound() -> None:
    limits = McpLimits(backlog_bytes_max=10_000)
    lines = [message(id=id, result="x" * 500) + b"\n" for id in range(100)]
    found, gate = run_through(lines, limits, asked=range(100))
    assert 10 < len(found) < 20
    assert gate.dropped == 100 - len(found)


async def test_a_waiting_reader_is_woken_by_a_message_and_by_the_end() -> None:
    gate = FloodGuard(McpLimits(), lambda: 0.0)
    frames = StdioMessageQueue(MessageFilter(McpLimits(), gate, asking(1)))
    waiting = asyncio.create_task(frames.next_line())
    await asyncio.sleep(0)
    frames.feed(WANTED[0] + b"\n")
    assert await asyncio.wait_for(waiting, 120) == WANTED[0]
    waiting = asyncio.create_task(frames.next_line())
    await asyncio.sleep(0)
    frames.close()
    assert await asyncio.wait_for(waiting, 120) is None


@pytest.mark.parametrize(
    "line", [b"[]", b'"a"', b'{"jsonrpc": "2.0"', b'{"method": "x"}', b"[" * 100_000], ids=range(5)
)
def test_json_that_is_no_message_is_dropped(line: bytes) -> None:
    found, gate = run_through([line + b"\n"], McpLimits())
    assert found == []
    assert gate.dropped == 1


async def test_only_what_was_asked_is_answered_and_only_once() -> None:
    gate = FloodGuard(McpLimits(), lambda: 0.0)
    asked = asking(1, "two", 3)
    frames = StdioMessageQueue(MessageFilter(McpLimits(), gate, asked))
    asked.finish(3)  # no caller waits for it any more
    said = [message(id="1", result={}), message(id="two", error={}), *(message(id=id, result={}) for id in (1, 3, 4))]
    frames.feed(b"\n".join([*said, message(id=None, error={}), message(id=True, result={}), b""]))
    frames.close()
    assert [await frames.next_line() for _ in range(3)] == [said[0], said[1], None]
    assert gate.dropped == 5


def parts(count: int) -> bytes:
    return message(id=1, result={"content": [{"type": "text", "text": "a,[{\\"}] * count, "isError": False})


def test_a_list_that_is_too_long_is_cut_and_the_rest_is_as_it_was() -> None:
    [found], gate = run_through([parts(60_000) + b"\n"], McpLimits())
    assert json.loads(found)["result"] == {
        "content": [{"type": "text", "text": "a,[{\\"}] * 1000,
        "isError": False,
    }
    assert gate.dropped == 0
    [same], _ = run_through([parts(900) + b"\n"], McpLimits())
    assert same == parts(900)


def test_a_response_that_takes_long_to_decode_is_refused_and_its_caller_is_told() -> None:
    many = message(id=1, result={"structuredContent": {"a": [{}] * 900_000}})
    [found], gate = run_through([many + b"\n"], McpLimits())
    assert json.loads(found)["error"]["message"] == "it answered with more than 50000 values"
    assert gate.dropped == 1


def test_a_large_unsolicited_message_is_dropped_at_any_rate() -> None:
    found, gate = run_through([message(method="notifications/x", params={"a": "x" * 70_000}) + b"\n"], McpLimits())
    assert found == []
    assert gate.dropped == 1


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(alphabet='a,[{}]:"\\\n', max_size=8),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(alphabet='a,"\\{', max_size=4), inner),
    max_leaves=20,
)


@given(JSON)
def test_values_are_counted_outside_of_strings_only(value: object) -> None:
    def marks(one: object) -> int:
        inner = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
        return isinstance(one, dict | list) + max(len(inner) - 1, 0) + sum(marks(each) for each in inner)

    assert count_values(json.dumps(value).encode(), 10_000) == marks(value)
