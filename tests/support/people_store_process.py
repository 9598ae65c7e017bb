"""Uses a people store in a process that is killed at any write, and two users of the same code: for
test_people_store_crash.

Each line on standard input is an experiment. {"action", "at", "seed"}: a life that ends at its nth operation, in a
process of its own; the answer is what is wrong with what it left behind. {"path", "codes", "name"}: pair each of the
codes as this person; the answer is which were won.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import InputRefused
from mainstay.gateway.people import People
from mainstay.store.sqlite.people_store import SqlitePeopleStore
from support.faulty_vfs import FaultyVFS, Plan

STRANGERS = ("ann", "ben")


async def run_process(home: Path, plan: Plan) -> None:
    """Unknown users ask, are paired, get keys; a key is revoked, a person removed. All of it is noted in a file."""
    plan.vfs = FaultyVFS("faulty", plan)
    people = People(SqlitePeopleStore(str(home / "gateway.db"), vfs="faulty"), SystemClock())
    await people.open()
    for name in STRANGERS:
        code = await people.issue_pairing_code("slack", f"U-{name}", name)
        assert code is not None
        note(home, f"told {name}")
        await people.pair_account(code, name=name, workspace="team", role="member")
        note(home, f"paired {name}")
        for _ in range(2):
            token, key = await people.create_key(name, "team", scopes=["chat"])
            note(home, f"key {name} {token}")
    await people.revoke_key(key.id)
    note(home, f"revoked {token}")
    await people.remove_person("ann")
    note(home, "removed ann")
    await people.close()


def note(home: Path, line: str) -> None:
    with (home / "notes").open("a") as file:
        file.write(line + "\n")


# --- afterwards ----------------------------------------------------------------------------------


async def check(home: Path) -> list[str]:
    notes = (home / "notes").read_text().splitlines() if (home / "notes").exists() else []
    people = People(SqlitePeopleStore(str(home / "gateway.db")), SystemClock())
    await people.open()
    wrong = [said for name in STRANGERS for said in _half(people, name, notes)]
    for line in notes:
        match line.split():
            case ["key", name, token] if (people.authenticate_key(token) is None) != _is_void(
                people, name, token, notes
            ):
                wrong.append(f"{line}: and it is {people.authenticate_key(token)}")
            case ["revoked", token] if people.authenticate_key(token) is not None:
                wrong.append("a key that was revoked is good")
            case ["removed", name] if people.get_person(name) is not None or people.list_accounts(name):
                wrong.append(f"{name} is back")
    await people.close()
    db = apsw.Connection(str(home / "gateway.db"))
    wrong += [f"integrity: {row}" for row in db.execute("PRAGMA integrity_check") if row != ("ok",)]
    db.close()
    return wrong


def _half(people: People, name: str, notes: list[str]) -> list[str]:
    """A code is used up, with all that follows, or it is not: never something between."""
    waits = any(one.user == f"U-{name}" for one in people.list_pairings())
    known, account = people.get_person(name) is not None, people.find_by_account("slack", f"U-{name}") is not None
    gone = name == "ann" and not waits and not known and "paired ann" in notes  # she may have been removed
    wrong = []
    if known != account or (waits and known):
        wrong.append(f"{name} is half let in: {waits=} {known=} {account=}")
    if f"told {name}" in notes and not (waits or known or gone):
        wrong.append(f"{name} was told a code that is lost")
    if f"paired {name}" in notes and not (known or gone):
        wrong.append(f"{name} was let in and is not")
    return wrong


def _is_void(people: People, name: str, token: str, notes: list[str]) -> bool:
    """Whether this key is revoked, as it may be from its revocation or its person's removal on."""
    key = people.get_key(token.split("_")[1])
    assert key is not None, "a key that was made is kept"
    last = [line for line in notes if line.startswith("key ")][-1].endswith(token)
    assert not key.revoked or last or people.get_person(name) is None, "who is removed loses all keys with their name"
    return bool(key.revoked)


# --- two who want the same -----------------------------------------------------------------------


async def want(path: str, codes: list[str], name: str) -> list[str]:
    people = People(SqlitePeopleStore(path), SystemClock())
    await people.open()
    won = []
    for number, code in enumerate(codes):
        try:
            await people.pair_account(code, name=f"{name}{number}", workspace="team", role="member")
            won.append(code)
        except InputRefused:
            pass
    await people.close()
    return won


# --- processes -----------------------------------------------------------------------------------


def apart(work: Callable[[], Any]) -> tuple[int, str]:
    """In a process of its own: how it ended, and what it said."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            os.write(write, json.dumps(work()).encode())
        except BaseException:
            os.write(write, json.dumps([traceback.format_exc()]).encode())
        os._exit(0)
    os.close(write)
    said = b"".join(iter(lambda: os.read(read, 65536), b""))
    os.close(read)
    _, status = os.waitpid(child, 0)
    return status, said.decode()


def attempt(action: str, at: int, seed: int) -> dict[str, object]:
    home = Path(tempfile.mkdtemp())
    try:

        def life() -> int:
            plan = Plan(action, at, seed=seed)
            asyncio.run(run_process(home, plan))
            return plan.count

        status, said = apart(life)
        operations = json.loads(said) if said else 0
        if isinstance(operations, list):
            return {"operations": 0, "killed": False, "wrong": operations}
        _, wrong = apart(lambda: asyncio.run(check(home)))
        return {"operations": operations, "killed": status != 0, "wrong": json.loads(wrong)}
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        answer = asyncio.run(want(**asked)) if "codes" in asked else attempt(**asked)
        print(json.dumps(answer), flush=True)
