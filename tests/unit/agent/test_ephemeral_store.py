"""A store in memory beside a home on disk: its events are not missed in the next process, and its spending counts."""

from __future__ import annotations

from pathlib import Path

import apsw

from mainstay import Agent
from mainstay.store.memory.store import MemoryStore
from mainstay.testing import ScriptedProvider


async def run_turns(home: Path, store: MemoryStore | None, count: int) -> None:
    async with Agent(ScriptedProvider(["fine"] * count), home=home, store=store) as agent:
        for _ in range(count):
            assert (await agent.run("s", "hello")).text == "fine"


def read_charged_tokens(home: Path) -> int:
    db = apsw.Connection(str(home / "gateway.db"))
    ((tokens,),) = db.execute("SELECT sum(tokens) FROM ledger WHERE scope='home'")
    db.close()
    return int(tokens)


async def test_a_store_on_disk_opens_after_one_in_memory_and_the_other_way_round(tmp_path: Path) -> None:
    for store in (MemoryStore(), None, MemoryStore(), None):
        await run_turns(tmp_path, store, 1)
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent:
        (info,) = await agent.sessions.list()
        assert info.turns == 2


async def test_spending_counts_also_in_a_session_whose_name_an_earlier_process_used(tmp_path: Path) -> None:
    await run_turns(tmp_path, MemoryStore(), 3)
    of_three = read_charged_tokens(tmp_path)
    assert of_three > 0
    await run_turns(tmp_path, MemoryStore(), 3)
    await run_turns(tmp_path, None, 3)
    await run_turns(tmp_path, MemoryStore(), 3)
    assert read_charged_tokens(tmp_path) == 4 * of_three
