"""Backup, restore and the acceptance of a loss: what is copied, what is verified, what is charged afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import apsw
import pytest

from mainstay import Agent
from mainstay.agent.budget_report import build_budget_report
from mainstay.agent.home_backup import accept_loss, back_up_home, read_backup, restore_home
from mainstay.config.schema import Config
from mainstay.core.errors import HomeTaken, HomeUnusable, InputRefused, StoreCorrupt, StoreLost
from mainstay.testing import ScriptedProvider

CONFIG = Config()


async def run_turns(home: Path, count: int = 1, session: str = "s") -> None:
    async with Agent(ScriptedProvider(["answer"] * count), home=str(home)) as agent:
        for _ in range(count):
            await agent.run(session, "hello")


def back_up(home: Path, target: Path) -> None:
    back_up_home(home, home, CONFIG.storage, target)


def charged_tokens(home: Path) -> int:
    report = build_budget_report(home, [CONFIG], time.time_ns() // 1_000_000)
    return next(one.tokens for one in report.spent if one.scope == "home" and one.period == "month")


def database(home: Path) -> Path:
    return home / "workspaces" / "default" / "workspace.db"


async def test_f63_after_a_restore_spending_counts_on_and_nothing_charged_is_forgotten(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await run_turns(home, 2)
    back_up(home, tmp_path / "backup")
    per_turn = charged_tokens(home) // 2
    await run_turns(home, 3)
    assert charged_tokens(home) == 5 * per_turn
    (restored,) = await restore_home(home, home, CONFIG, tmp_path / "backup")
    assert (restored.sessions, restored.lost_events) == (1, 12)
    assert (Path(restored.moved) / "workspace.db").exists()
    assert charged_tokens(home) == 5 * per_turn
    await run_turns(home)
    assert charged_tokens(home) == 6 * per_turn


async def test_after_a_restore_that_also_brings_the_ledger_back_the_journals_are_counted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await run_turns(home, 2)
    back_up(home, tmp_path / "backup")
    per_turn = charged_tokens(home) // 2
    await run_turns(home, 1, "other")
    (home / "gateway.db").unlink()
    await restore_home(home, home, CONFIG, tmp_path / "backup")
    assert charged_tokens(home) == 2 * per_turn
    await run_turns(home)
    assert charged_tokens(home) == 3 * per_turn


async def test_an_accepted_loss_stays_charged_and_a_file_that_comes_back_is_not_charged_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await run_turns(home, 2)
    per_turn = charged_tokens(home) // 2
    database(home).rename(tmp_path / "lost.db")
    with pytest.raises(StoreLost, match="is missing, and with it 8 events"):
        await run_turns(home)
    assert not database(home).exists()
    with pytest.raises(StoreLost):
        await run_turns(home)
    await accept_loss(home, CONFIG, "default")
    with pytest.raises(InputRefused, match="lacks nothing"):
        await accept_loss(home, CONFIG, "default")
    await run_turns(home)
    assert charged_tokens(home) == 3 * per_turn
    (tmp_path / "lost.db").rename(database(home))
    with pytest.raises(StoreLost, match="older"):  # it lacks the session that began meanwhile
        await run_turns(home)
    await accept_loss(home, CONFIG, "default")
    await run_turns(home)
    assert charged_tokens(home) == 4 * per_turn


@pytest.mark.parametrize("state", ["missing", "empty"])
async def test_a_log_beside_a_lost_database_is_left_and_accepting_the_loss_moves_it(tmp_path: Path, state: str) -> None:
    home = tmp_path / "home"
    await run_turns(home)
    wal = Path(f"{database(home)}-wal")
    wal.write_bytes(b"events")
    if state == "missing":
        database(home).unlink()
    else:
        database(home).write_bytes(b"")
    with pytest.raises(StoreLost, match=f"is {state}.* workspace.db-wal beside it is left as it is"):
        await run_turns(home)
    assert wal.read_bytes() == b"events"
    (home / "gateway.db").unlink()  # also if the home knows nothing
    with pytest.raises(StoreLost):
        await run_turns(home)
    accepted = await accept_loss(home, CONFIG, "default")
    assert (Path(accepted.moved) / "workspace.db-wal").read_bytes() == b"events"
    await run_turns(home)


async def test_a_backup_beside_a_writing_process_is_one_moment_and_restore_waits_for_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Agent(ScriptedProvider(["answer"] * 200), home=str(home)) as agent:
        await agent.run("s", "hello")
        stopped = asyncio.Event()

        async def write() -> None:
            while not stopped.is_set():
                await agent.run("s", "hello")

        writing = asyncio.create_task(write())
        for number in range(3):
            target = tmp_path / f"backup{number}"
            await asyncio.to_thread(back_up, home, target)
            copy = apsw.Connection(str(target / "workspaces/default/workspace.db"))
            head, events = copy.execute("SELECT head, (SELECT count(*) FROM events) FROM sessions").fetchall()[0]
            copy.close()
            assert head == events > 0
        stopped.set()
        await writing
        with pytest.raises(HomeTaken):
            await restore_home(home, home, CONFIG, tmp_path / "backup2")
    await restore_home(home, home, CONFIG, tmp_path / "backup2")
    await run_turns(home)


async def test_a_backup_that_was_changed_or_is_incomplete_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "backup"
    await run_turns(home)
    back_up(home, target)
    with pytest.raises(InputRefused, match="not empty"):
        back_up(home, target)
    with pytest.raises(InputRefused, match="inside of the home"):
        back_up(home, home / "backup")
    with pytest.raises(InputRefused, match="no workspace 'other'; it has default"):
        await restore_home(home, home, CONFIG, target, "other")
    before = database(home).read_bytes()
    copy = target / "workspaces/default/workspace.db"
    content = bytearray(copy.read_bytes())
    at = content.index(b"hello")
    content[at : at + 5] = b"HELLO"  # valid for SQLite
    copy.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="not the file that the backup wrote"):
        await restore_home(home, home, CONFIG, target)
    manifest = json.loads((target / "backup.json").read_bytes())
    for spoiled in (
        b"{",
        b"\xff",
        json.dumps(manifest | {"databases": {"../../elsewhere/workspace.db": {}}}).encode(),
        json.dumps(manifest | {"databases": {"workspaces/../workspace.db": {}}}).encode(),
        json.dumps(manifest | {"digests": {}}).encode(),
    ):
        (target / "backup.json").write_bytes(spoiled)
        with pytest.raises(InputRefused, match=r"backup\.json is damaged"):
            await restore_home(home, home, CONFIG, target)
    (target / "backup.json").unlink()
    with pytest.raises(InputRefused, match=r"not a complete backup: it has no backup\.json"):
        read_backup(target)
    with pytest.raises(InputRefused, match="is not a folder"):
        back_up(home, database(home))
    with pytest.raises(HomeUnusable, match="is not UTF-8"):
        back_up(home, Path(os.fsdecode(bytes(tmp_path) + b"/\xff")))
    assert database(home).read_bytes() == before


async def test_a_restore_that_fails_leaves_the_home_as_it_was(tmp_path: Path) -> None:
    """A copy that cannot be written is found before anything is moved; a full disk is such a case."""
    home, target = tmp_path / "home", tmp_path / "backup"
    await run_turns(home)
    back_up(home, target)
    await run_turns(home)
    blocking = Path(f"{database(home)}.restoring")
    blocking.mkdir()
    with pytest.raises(HomeUnusable, match="Is a directory"):
        await restore_home(home, home, CONFIG, target)
    blocking.rmdir()
    assert not (home / "removed").exists()
    await run_turns(home)
    fresh = tmp_path / "fresh"
    (target / "workspaces/default/workspace.db").unlink()
    with pytest.raises(StoreLost, match="is missing; use another backup"):
        await restore_home(fresh, fresh, CONFIG, target)
    assert not (fresh / "workspaces/default").exists()


async def test_accepting_a_loss_of_nothing_or_of_an_unknown_workspace_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await run_turns(home)
    with pytest.raises(InputRefused, match="lacks nothing"):
        await accept_loss(home, CONFIG, "default")
    with pytest.raises(InputRefused, match="there is no workspace 'other'"):
        await accept_loss(home, CONFIG, "other")


async def test_a_new_machine_gets_everything_from_a_backup(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    await run_turns(home)
    (home / "mainstay.yaml").write_text("instructions: Be terse.\n")
    (home / "skills").mkdir()
    (home / "skills" / "note.md").write_text("a file")
    back_up(home, tmp_path / "backup")
    await restore_home(other, other, CONFIG, tmp_path / "backup")
    assert (other / "skills" / "note.md").read_text() == "a file"
    assert (other / "mainstay.yaml").read_text() == "instructions: Be terse.\n"
    assert charged_tokens(other) == charged_tokens(home)
    await run_turns(other)
