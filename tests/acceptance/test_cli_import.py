"""`mainstay session import` of a file torn by a crash: whole lines are imported, the rest is reported (F10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_support import Command

from mainstay.cli.commands.session_lifecycle import INCIDENT_KEY
from mainstay.core.errors import InputRefused
from mainstay.core.messages import parts_text
from mainstay.io.session_import import read_messages

MESSAGES = [
    {"date": "2026-01-01T00:00:00.000+00:00", "messageId": "1", "userId": "ada", "text": "I am Zoë", "isBot": False},
    {"date": "2026-01-01T00:00:01.000+00:00", "messageId": "2", "userId": "agent", "text": "Hello 🐍", "isBot": True},
    {
        "date": "2026-01-01T00:00:02.000+00:00",
        "messageId": "3",
        "userId": "ada",
        "text": "the last \u2028é",
        "isBot": False,
    },
]
LINES = [json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in MESSAGES]
WHOLE = b"".join(LINES)


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    return Command(tmp_path)


def texts(raw: bytes) -> tuple[list[str], str]:
    found, incident = read_messages(raw, "log.jsonl")
    return [parts_text(one.parts) for one in found], incident


def test_f10_a_log_that_is_cut_at_any_byte_of_its_last_record_brings_all_before_it() -> None:
    said = [str(one["text"]) for one in MESSAGES]
    for cut in range(1, len(LINES[-1]) - 1):
        found, incident = texts(WHOLE[: len(WHOLE) - len(LINES[-1]) + cut])
        assert found == said[:2]
        assert incident.startswith("line 3 is cut off")
    assert texts(WHOLE) == texts(WHOLE[:-1]) == texts(b"\xef\xbb\xbf" + WHOLE.replace(b"\n", b"\r\n")) == (said, "")
    assert texts(WHOLE + b"\0" * 100) == (said, "100 bytes of zeros at the end left out")


@pytest.mark.parametrize("raw", [WHOLE[:20], b"\0" * 20, b'[{"role": "user", "content": "a"}, {"ro'])
def test_f10_a_file_of_which_nothing_is_whole_is_refused(raw: bytes) -> None:
    with pytest.raises(InputRefused, match=r"x\.jsonl (contains no messages|line 1)"):
        read_messages(raw, "x.jsonl")


def test_f10_a_torn_log_is_imported_reported_and_recorded(mainstay: Command, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(WHOLE[:-30])
    done = mainstay("session", "import", "log.jsonl", "--session", "torn")
    assert done.returncode == 0
    assert done.stdout == "2 messages imported into torn\n"
    incident = "line 3 is cut off; what there was of it"
    assert done.stderr.startswith(f"mainstay: log.jsonl is damaged: {incident}")
    (session,) = mainstay.json("session", "list")["sessions"]
    assert session["metadata"][INCIDENT_KEY].startswith(f"log.jsonl: {incident}")
    assert session["messages"] == 2
    told = mainstay("session", "import", "log.jsonl", "--session", "other", "--json")
    assert json.loads(told.stdout)["incident"].startswith(incident)
    assert incident in told.stderr


def test_a_whole_log_leaves_no_incident(mainstay: Command, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(WHOLE)
    assert mainstay.json("session", "import", "log.jsonl") == {"ok": True, "session": "log", "messages": 3}
    (session,) = mainstay.json("session", "list")["sessions"]
    assert not session.get("metadata")


def test_f10_a_line_that_is_broken_in_the_middle_brings_nothing(mainstay: Command, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(LINES[0] + LINES[1][:-20] + b"\n" + LINES[2])
    done = mainstay("session", "import", "log.jsonl")
    assert done.returncode == 1
    assert "log.jsonl line 2 is not JSON" in done.stderr
    assert mainstay.json("session", "list")["sessions"] == []
