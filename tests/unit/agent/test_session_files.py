"""A session as files: what an export has after a compaction, and the files that are kept beside the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mainstay import Agent, Config
from mainstay.config.schema import MemorySettings, SessionSettings
from mainstay.core.ports import Context, Options
from mainstay.observe.session_files import update_lines
from mainstay.testing import ScriptedProvider

KEPT = Config(sessions=SessionSettings(files=True))
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


def answer(context: Context, options: Options) -> str:
    last = context.messages[-1].text
    return "They spoke of trains." if "summar" in (context.system + last).lower() else f"re: {last}"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts(path: Path) -> list[tuple[str, str]]:
    return [(line["role"], line["parts"][0]["text"]) for line in lines_of(path) if line["role"] != "system"]


async def exported(agent: Agent, folder: Path) -> tuple[Path, Path]:
    log, context = await agent.sessions.export("s", folder)
    return log, context


async def kept(agent: Agent) -> None:
    """Wait until the files are up to date."""
    runtime: Any = await agent.runtime()
    assert await runtime.observability.runner.wait_caught_up(30)


async def test_guppy_046_050_an_exported_context_is_what_the_model_sees_and_the_log_all_that_was_said(
    tmp_path: Path,
) -> None:
    """The next request is the exported context and the new message; after a compaction, too."""
    provider = ScriptedProvider(answer)
    async with Agent(provider, home=tmp_path / "home", instructions="Be terse.") as agent:
        for text in ("first", "second", "third"):
            await agent.run("s", text)
        assert await agent.sessions.compact("s")
        log, context = await exported(agent, tmp_path / "out")
        await agent.run("s", "fourth")
        seen = provider.asked[-1]
    assert [line["text"] for line in lines_of(log)] == [
        *("first", "re: first", "second", "re: second", "third", "re: third")
    ]
    assert texts(context) == [one for one in seen.messages if one[0] != "system"][:-1]
    assert len(texts(context)) == 3
    assert "They spoke of trains." in texts(context)[0][1]
    assert lines_of(context)[0]["role"] == "system"
    assert lines_of(context)[0]["parts"][0]["text"] == seen.system


async def test_an_exported_context_has_the_messages_of_the_active_window(tmp_path: Path) -> None:
    config = Config(sessions=SessionSettings(memory=MemorySettings(active_window=2)))
    async with Agent(ScriptedProvider(answer), home=":memory:", config=config) as agent:
        for text in ("first", "second", "third"):
            await agent.run("s", text)
        log, context = await exported(agent, tmp_path)
    assert texts(context) == [("user", "third"), ("assistant", "re: third")]
    assert len(lines_of(log)) == 6


async def test_guppy_047_both_files_are_kept_beside_the_session_if_that_is_configured(tmp_path: Path) -> None:
    """They grow in place, have no secrets, are the same as an export, and are up to date again after a restart."""
    home = tmp_path / "home"
    folder = home / "workspaces" / "default" / "slack" / "general" / "1"
    log, context = folder / "log.jsonl", folder / "context.jsonl"
    async with Agent(ScriptedProvider(answer), home=home, config=KEPT) as agent:
        await agent.run("slack:general:1", f"first {KEY}")
        await kept(agent)
        before, inode = log.read_bytes(), log.stat().st_ino
        assert KEY not in before.decode() + context.read_text()
        await agent.run("slack:general:1", "second")
        await kept(agent)
        assert (log.read_bytes()[: len(before)], log.stat().st_ino) == (before, inode), "tail -f goes on"
        assert [line["text"] for line in lines_of(log)][2:] == ["second", "re: second"]
        assert await agent.sessions.compact("slack:general:1")
        await kept(agent)
        paths = await agent.sessions.export("slack:general:1", tmp_path / "out")
        assert [path.read_bytes() for path in paths] == [log.read_bytes(), context.read_bytes()]
        assert len(texts(context)) == 3
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in (log, context))
    async with Agent(ScriptedProvider(answer), home=home) as agent:
        await agent.run("slack:general:1", "third")
    assert "third" not in log.read_text(), "it is not configured here"
    async with Agent(ScriptedProvider(answer), home=home, config=KEPT) as agent:
        await kept(agent)
        assert "third" in log.read_text()
        assert "third" in context.read_text()
        stamp = log.stat()
    async with Agent(ScriptedProvider(answer), home=home, config=KEPT) as agent:
        await kept(agent)
        assert log.stat().st_ctime_ns == stamp.st_ctime_ns, "a file that is up to date is not written"


async def test_deleted_sessions_and_messages_leave_the_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "workspaces" / "default" / "slack" / "general"
    async with Agent(ScriptedProvider(answer), home=home, config=KEPT) as agent:
        for session in ("slack:general:1", "slack:general:2"):
            await agent.run(session, "the code is 4711")
            await agent.run(session, "and hello")
        await kept(agent)
        assert "4711" in (folder / "1" / "log.jsonl").read_text()
        await agent.sessions.delete("slack:general:1")
        await kept(agent)
        assert not (folder / "1" / "log.jsonl").exists()
        (received, *_) = await agent.sessions.records("slack:general:2")
        await agent.memory.forget(f"slack:general:2#{received.seq}")
        text = (folder / "2" / "log.jsonl").read_text() + (folder / "2" / "context.jsonl").read_text()
        assert "the code is 4711" not in "".join(line for line in text.splitlines(True) if '"user"' in line)
        assert "and hello" in text


def test_a_file_is_changed_from_the_first_line_on_that_differs(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for lines in ([b"a", b"b"], [b"a", b"b", b"c"], [b"a", b"x"], [b"a", b"longer", b"d"], [], [b"a"]):
        update_lines(path, lines)
        assert path.read_bytes() == b"".join(line + b"\n" for line in lines)
