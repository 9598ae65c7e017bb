"""The benchmark of the gateway, in small: that it runs, and that it would tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway import QUICK, idle, paced
from gateway_client import Job
from gateway_model import SHORT, answer
from report import Row

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it asks /proc for the CPU of processes")


def named(rows: list[Row], words: str) -> Row:
    return next(row for row in rows if words in row.figure)


def test_streams_at_a_pace_all_end_as_the_model_spoke_and_followers_stay_while_nothing_happens(tmp_path: Path) -> None:
    rows = paced(QUICK, tmp_path)
    assert named(rows, "failed, of 40").ours == 0
    assert (named(rows, "streams of").ours or 0) >= QUICK.rate / 2
    assert named(rows, "the model's own").ours == pytest.approx(200, abs=150)
    assert (named(rows, "a streamed token").ours or 0) > 0
    resting = idle(QUICK, tmp_path)
    assert named(resting, "let go of").ours == 0
    assert (named(resting, "lanes awake").ours or 0) < 50


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


SAID = answer(SHORT)
ADDED = event("MessageAdded", sequence=3, parts=[{"type": "text", "text": SAID}])
ENDED = event("TurnEnded", sequence=4, outcome={"type": "Answered"})


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (event("TextDelta", text=SAID) + ADDED + ENDED, ""),
        (event("TextDelta", text=SAID[:-1]) + ADDED + ENDED, "other words"),
        (event("TextDelta", text=SAID) + ENDED + ADDED, "out of order"),
        (event("TextDelta", text=SAID) + ADDED, "ended with"),
        (ADDED + event("TurnEnded", sequence=4, outcome={"type": "Failed"}), "ended with"),
    ],
    ids=["good", "lost words", "out of order", "no end", "a bad end"],
)
def test_the_benchmark_s_client_sees_what_is_wrong_with_an_answer(body: bytes, wrong: str) -> None:
    job = Job({"job": "burst", "url": "http://127.0.0.1:1", "model": "http://127.0.0.1:1"})
    found = job.look(b"HTTP/1.1 200 OK\r\n\r\n" + body, SAID)
    assert found.startswith(wrong) if wrong else found == ""
