"""The benchmark of the gateway in small: it runs, and it detects wrong answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway import QUICK_SIZES, measure_idle_server, measure_paced_streams
from gateway_client import ClientJob
from paced_model_server import SHORT_TOKENS, build_answer
from report import Row

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it asks /proc for the CPU of processes")


def find_row(rows: list[Row], words: str) -> Row:
    return next(row for row in rows if words in row.figure)


def test_streams_at_a_pace_all_end_as_the_model_spoke_and_followers_stay_while_nothing_happens(tmp_path: Path) -> None:
    rows = measure_paced_streams(QUICK_SIZES, tmp_path)
    assert find_row(rows, "failed, of 40").ours == 0
    assert (find_row(rows, "streams of").ours or 0) >= QUICK_SIZES.rate / 2
    assert find_row(rows, "the model's own").ours == pytest.approx(200, abs=150)
    assert (find_row(rows, "a streamed token").ours or 0) > 0
    idle_rows = measure_idle_server(QUICK_SIZES, tmp_path)
    assert find_row(idle_rows, "let go of").ours == 0
    assert (find_row(idle_rows, "lanes awake").ours or 0) < 50


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


ANSWER = build_answer(SHORT_TOKENS)
ADDED = event("MessageAdded", sequence=3, parts=[{"type": "text", "text": ANSWER}])
ENDED = event("TurnEnded", sequence=4, outcome={"type": "Answered"})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (event("TextDelta", text=ANSWER) + ADDED + ENDED, ""),
        (event("TextDelta", text=ANSWER[:-1]) + ADDED + ENDED, "wrong text"),
        (event("TextDelta", text=ANSWER) + ENDED + ADDED, "out of order"),
        (event("TextDelta", text=ANSWER) + ADDED, "ended with"),
        (ADDED + event("TurnEnded", sequence=4, outcome={"type": "Failed"}), "ended with"),
    ],
    ids=["good", "lost words", "out of order", "no end", "a bad end"],
)
def test_the_benchmark_s_client_sees_what_is_wrong_with_an_answer(body: bytes, problem: str) -> None:
    job = ClientJob({"job": "burst", "url": "http://127.0.0.1:1", "model": "http://127.0.0.1:1"})
    found = job.find_problem(b"HTTP/1.1 200 OK\r\n\r\n" + body, ANSWER)
    assert found.startswith(problem) if problem else found == ""
