"""The history of prompts: stored across conversations, bounded, private, without secrets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.cli.chat.prompt_history import ENTRIES_MAX, ENTRY_CHARS_MAX, FILE_BYTES_MAX, PromptHistory

KEY = "sk-ant-api03-" + "Zq8Wv3Lk9Tn5Rb7Yc2Hd" * 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history"


def typed(path: Path, *texts: str, secrets: tuple[str, ...] = ()) -> None:
    history = PromptHistory(path, secrets)
    for text in texts:
        history.append_string(text)


def load_prompts(path: Path) -> list[str]:
    """The newest first, as a prompt asks for them."""

    async def load() -> list[str]:
        return [text async for text in PromptHistory(path).load()]

    return asyncio.run(load())


def test_prompts_come_back_newest_first_with_all_their_lines(path: Path) -> None:
    typed(path, "one", "two\nthree", "\u202efour\ud800")
    typed(path, "five")
    assert load_prompts(path) == ["five", "\u202efour?", "two\nthree", "one"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_history_that_others_could_read_is_made_private(path: Path) -> None:
    path.touch(mode=0o644)
    typed(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600


def test_secrets_are_not_kept_but_known_in_the_chat_that_is_open(path: Path) -> None:
    history = PromptHistory(path, ["hunter2-of-the-harbour"])
    history.append_string(f"my key is {KEY} and the word hunter2-of-the-harbour")
    assert KEY in history.get_strings()[0]
    assert KEY not in path.read_text()
    assert "hunter2" not in path.read_text()
    assert load_prompts(path)[0].startswith("my key is [")


def test_a_line_with_a_leading_space_or_a_very_long_line_is_not_stored(path: Path) -> None:
    typed(path, " not this", "x" * (ENTRY_CHARS_MAX + 1), "this")
    assert load_prompts(path) == ["this"]


def test_it_is_bounded_in_entries_and_in_bytes(path: Path) -> None:
    path.write_text("".join(json.dumps(f"entry {n}") + "\n" for n in range(ENTRIES_MAX + 1)))
    assert load_prompts(path) == [f"entry {n}" for n in range(ENTRIES_MAX, ENTRIES_MAX // 2, -1)]
    assert len(path.read_text().splitlines()) == ENTRIES_MAX // 2
    path.write_text("".join(json.dumps(f"{n:07} " * 500) + "\n" for n in range(FILE_BYTES_MAX // 3_500)))
    assert len(load_prompts(path)) <= ENTRIES_MAX // 2
    assert path.stat().st_size <= FILE_BYTES_MAX
    assert [one.name for one in path.parent.iterdir()] == ["history"]


def test_invalid_entries_are_ignored(path: Path) -> None:
    path.write_bytes(b'# 2026-01-01\n+old\n\xff\xfe\n{"a": 1}\n"good"\n"torn')
    assert load_prompts(path) == ["good"]


def test_a_file_that_cannot_be_read_or_written_is_no_reason_not_to_talk(tmp_path: Path) -> None:
    path = tmp_path / "there is no such folder" / "history"
    typed(path, "one")
    assert load_prompts(path) == []
    (tmp_path / "history").mkdir()
    typed(tmp_path / "history", "one")
    assert load_prompts(tmp_path / "history") == []


def test_two_chats_at_once_lose_nothing(path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom mainstay.cli.chat.prompt_history import PromptHistory\n"
        "h = PromptHistory(Path(sys.argv[1]))\nfor n in range(100): h.store_string(f'{sys.argv[2]} {n} ' + 'x' * 200)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in ("a", "b")]
    assert [one.wait(120) for one in both] == [0, 0]
    assert sorted(text.split()[0] for text in load_prompts(path)) == ["a"] * 100 + ["b"] * 100
