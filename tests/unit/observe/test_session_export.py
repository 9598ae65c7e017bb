"""A session as files: the messages of people, and the context of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mainstay.core.chat_addresses import ChatAddress, PlatformMessage, ReceivedFile
from mainstay.core.events import (
    Delivered,
    Event,
    Folded,
    MessageAdded,
    Received,
    Steered,
    StepCheckpointed,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.messages import Binary, Finish, FinishReason, Text, ToolCall, ToolResult
from mainstay.core.outcome import Answered
from mainstay.observe.session_export import full_history, write_context, write_log

AT = 1_767_225_600_123


def records(*events: Event) -> list[Record]:
    return [Record(seq, AT + seq * 1000, event) for seq, event in enumerate(events, start=1)]


TOLD = records(
    Received((Text("hi"), Binary("image/png", b"x", "a/cat.png")), sender="ann", id="m1"),
    TurnStarted((1,), turn=1),
    MessageAdded("assistant", (ToolCall("c", "look", "{}"), Finish(FinishReason.TOOL_CALLS)), turn=1, step=1),
    ToolStarted("c", turn=1, step=1),
    Received((Text("hurry"),), "steer", "bob"),
    ToolFinished(ToolResult("c", "look", "seen"), turn=1, step=1),
    Steered((5,), turn=1),
    StepCheckpointed("half a", turn=1, step=2),
    MessageAdded("assistant", (Text("A cat \U0001f408."), Finish(FinishReason.END)), turn=1, step=2),
    TurnEnded(Answered(), turn=1),
    MessageAdded("user", (Text("from elsewhere"),)),
    Folded(10, "about a cat"),
)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_guppy_048_the_log_has_what_was_said_and_no_calls_or_results(tmp_path: Path) -> None:
    lines = read(write_log(TOLD, tmp_path / "log.jsonl"))
    assert [(line["messageId"], line["userId"], line["text"], line["isBot"]) for line in lines] == [
        ("m1", "ann", "hi", False),
        ("5", "bob", "hurry", False),
        ("9", "agent", "A cat \U0001f408.", True),
        ("11", "", "from elsewhere", False),
    ]
    assert lines[0]["date"] == "2026-01-01T00:00:01.123+00:00"
    assert lines[0]["attachments"] == [{"original": "a/cat.png", "local": "a/cat.png"}]
    assert "attachments" not in lines[1]


def test_guppy_048_the_context_has_messages_calls_and_results_in_the_models_order(tmp_path: Path) -> None:
    lines = read(write_context(TOLD[:-1], tmp_path / "context.jsonl"))
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert lines[1]["parts"][0] == {"type": "tool_call", "id": "c", "name": "look", "input": "{}"}
    assert lines[2]["parts"] == [{"type": "tool_result", "call_id": "c", "name": "look", "content": "seen"}]
    assert not any("half a" in json.dumps(line) for line in lines), "what was interrupted is no part of it"


def test_a_fold_takes_nothing_out_of_the_history_and_the_log(tmp_path: Path) -> None:
    unfolded = [record for record in TOLD if not isinstance(record.event, Folded)]
    assert [one.parts for one in full_history(TOLD)] == [one.parts for one in full_history(unfolded)]
    assert len(full_history(TOLD)) == 6
    assert read(write_log(TOLD, tmp_path / "a")) == read(write_log(unfolded, tmp_path / "b"))


def test_miclaw_053_an_answer_is_finished_at_the_time_of_its_record(tmp_path: Path) -> None:
    lines = read(write_context(TOLD[:-1], tmp_path / "context.jsonl"))
    finished = [(part["reason"], part["time"]) for line in lines for part in line["parts"] if part["type"] == "finish"]
    assert finished == [("tool_calls", "2026-01-01T00:00:03.123+00:00"), ("end", "2026-01-01T00:00:09.123+00:00")]


def test_after_a_fold_the_context_is_the_summary_and_what_follows(tmp_path: Path) -> None:
    summary, rest = read(write_context(TOLD, tmp_path / "context.jsonl"))
    assert summary["role"] == "user"
    assert summary["parts"][0]["text"].endswith("about a cat")
    assert rest["parts"][0]["text"] == "from elsewhere"


def test_the_same_session_gives_the_same_bytes_and_a_failed_export_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    first = write_log(TOLD, path).read_bytes()
    assert write_log(TOLD, path).read_bytes() == first
    broken = [*TOLD, Record(13, 10**20, Received((Text("when?"),)))]
    try:
        write_log(broken, path)
    except (ValueError, OverflowError, OSError):
        pass
    else:
        raise AssertionError("a date that no calendar has was written")
    assert path.read_bytes() == first


def test_guppy_066_069_a_log_of_a_channel_has_ids_and_names_of_the_platform_and_the_answer_as_it_was_posted(
    tmp_path: Path,
) -> None:
    at = ChatAddress("chat", "room", "thread")
    bo = PlatformMessage(at, "m1", "U1", "Bo", "see this", 1_000, (ReceivedFile("plan.pdf", "attachments/1_plan.pdf"),))
    ann = PlatformMessage(at, "m2", "U2", "Ann Lee", "well?", 2_000)
    said: list[Event] = [
        Received((Text("[Bo] see this [file]"),), "overheard", id="chat:m1", heard=bo),
        Received((Text("[Ann Lee]"), Text("well?")), sender="ann", id="chat:m2", heard=ann),
        TurnStarted((1, 2), turn=1),
        MessageAdded("assistant", (Text("a plan"),), turn=1, step=1),
        TurnEnded(Answered(), turn=1),
        Delivered("s#1", at, ("m3",), turn=1),
    ]
    lines = [json.loads(line) for line in write_log(records(*said), tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(one["messageId"], one["userId"], one["userName"], one["text"], one["isBot"]) for one in lines] == [
        ("m1", "U1", "Bo", "see this", False),
        ("m2", "U2", "Ann Lee", "well?", False),
        ("m3", "agent", "agent", "a plan", True),
    ]
    assert lines[0]["attachments"] == [{"original": "plan.pdf", "local": "attachments/1_plan.pdf"}]
    assert lines[1]["date"] == "1970-01-01T00:00:02.000+00:00"
