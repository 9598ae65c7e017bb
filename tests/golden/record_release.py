"""Records the golden journal of this release: `python tests/golden/record_release.py`. It never overwrites one.

A short life with every kind of record in it, played by the real lanes on a real SQLite file, then written as SQL text
together with what was to be seen of it.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

import mainstay
from mainstay.app.sessions import fork, read_all
from mainstay.core.envelope import Envelope
from mainstay.core.errors import RequestRefused, StreamBroken
from mainstay.core.events import Folded, MessageAdded, SessionChanged
from mainstay.core.limits import Limits
from mainstay.core.messages import AnyPart, Binary, FinishReason, Text, Usage
from mainstay.core.ports import Finished, ModelInfo, TextPiece, ThinkingPiece, ToolContext
from mainstay.core.session import Session
from mainstay.core.tools import FunctionTool
from mainstay.lane.hub import Hub
from mainstay.lane.lanes import Lanes
from mainstay.lane.services import Services
from mainstay.observe.export import history
from mainstay.store.sqlite import SqliteStore
from mainstay.testing import Call, Pieces, Raise, Say, ScriptedProvider, Stall
from mainstay.turn.toolbox import Toolbox

FOLDER = Path(__file__).parent
LIMITS = Limits(steps_max=3, checkpoint_period_s=0.01, ride_along_s=0.001)
INFO = ModelInfo(name="golden-1", price_prompt=2.0, price_completion=8.0, price_cached=0.5)
PIXEL = bytes.fromhex("89504e470d0a1a0a")


class StepClock:
    """A minute an event, so that the record is the same whenever it is made."""

    def __init__(self) -> None:
        self._now = 1_767_225_600_000

    def now_ms(self) -> int:
        self._now += 60_000
        return self._now

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Recording:
    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(str(path))
        self.clock = StepClock()
        self.at_work = asyncio.Event()
        self.lanes: Lanes

    def open(self, script: Sequence[Any]) -> None:
        provider = ScriptedProvider(script, info=INFO)
        services = Services(
            store=self.store,
            choose=lambda _: provider,
            tools=Toolbox(self.tools(), LIMITS),
            limits=LIMITS,
            clock=self.clock,
            hub=Hub(64),
            instructions="Be brief.",
        )
        self.lanes = Lanes(services)

    def tools(self) -> list[FunctionTool]:
        async def look(at: str) -> str:
            """Look something up."""
            return f"{at}: nothing unusual, 21 °C"

        async def pay(amount: int, context: ToolContext) -> str:
            """Pay an amount."""
            if amount > 100:
                self.at_work.set()
                await asyncio.Event().wait()
            return f"paid {amount}"

        return [FunctionTool(look, effect="pure"), FunctionTool(pay)]

    async def say(self, session: str, *parts: AnyPart, id: str = "", sender: str = "") -> Any:
        envelope = Envelope(parts=parts, thread=session, id=id, sender=sender)
        return await self.lanes.get(session).accept(envelope)

    async def ask(self, session: str, text: str, **more: str) -> None:
        await (await self.say(session, Text(text), **more)).reply

    async def crash(self) -> None:
        """What is unfinished stays so; the next `open` finds it."""
        await asyncio.sleep(0.1)  # whatever rides along has arrived
        await self.lanes.close()


async def record_tour(life: Recording, stall: Stall) -> None:
    """Every kind of record but those of a fork and of forgetting."""
    lane = life.lanes.get("tour")
    await lane.change(MessageAdded("user", (Text("hello from elsewhere"),)))
    await lane.change(MessageAdded("assistant", (Text("welcome"),)))
    await lane.change(SessionChanged(title="The tour", model="", metadata={"kind": "golden"}, instructions="Be exact."))
    await life.ask("tour", "what is it like in Lisbon?", id="m-1", sender="ada")
    files = (Binary("image/png", PIXEL), Binary("text/plain", path="a.txt"))
    await (await life.say("tour", Text("and this?"), *files)).reply
    running = await life.say("tour", Text("tell me a long story"))
    await stall.reached.wait()
    await asyncio.sleep(0.05)  # a checkpoint
    await life.lanes.get("tour").steer(Envelope(parts=(Text("shorter, please"),), thread="tour"))
    await running.reply
    running = await life.say("tour", Text("pay 500"))
    await life.at_work.wait()
    await life.lanes.get("tour").abort()
    await running.reply
    for text in ("look everywhere", "will it work?", "and now?"):
        await life.ask("tour", text)
    await lane.change(Folded(16, "Ada asked about Lisbon and showed a picture."))
    await life.ask("tour", "what did I ask first?")


def script() -> tuple[list[Any], Stall]:
    stall = Stall()
    return [
        [Call("look", {"at": "Lisbon"}), Call("look", {"at": "Lisbon"}), Call("Look", "{}"), Call("pay", '{"amount":')],
        Pieces(
            [
                ThinkingPiece("They want the weather.", "c2lnbmVk"),
                TextPiece("Mild, 21 °C. "),
                TextPiece("שלום 🌊"),
                Finished(FinishReason.END, Usage(120, 15, 100, 5)),
            ]
        ),
        Say("A pixel.", reason=FinishReason.LENGTH),
        Pieces([TextPiece("Once upon "), stall, TextPiece("a time"), Finished(FinishReason.END)]),
        Pieces([TextPiece("Once, "), Raise(StreamBroken("the connection was lost"))]),
        "The end.",
        Call("pay", {"amount": 500}),
        *[[Call("look", {"at": f"place {n}"})] for n in range(3)],
        "I looked in three places.",
        Raise(RequestRefused("the request was refused", details="HTTP 400")),
        Raise(RequestRefused("it was refused again")),
        "About Lisbon.",
    ], stall


async def record(path: Path) -> None:
    life = Recording(path)
    await life.store.open()
    steps, stall = script()
    life.open(steps)
    await record_tour(life, stall)
    await life.crash()
    await record_unfinished(life)
    await fork(life.store, "tour", "copy", 12, life.clock.now_ms())
    life.open(["Gone soon."])
    await life.ask("forgotten", "my secret is 12345")
    await life.crash()
    await life.store.blank("forgotten", life.clock.now_ms())
    await life.store.close()


async def record_unfinished(life: Recording) -> None:
    """A turn that was resumed once, and is cut off again while a payment runs; a prompt waits behind it."""
    stall = Stall()
    life.open([[Call("pay", {"amount": 7})], Pieces([TextPiece("Paid "), stall])])
    await life.say("unfinished", Text("pay 7, then 700"), id="u-1")
    await stall.reached.wait()
    await asyncio.sleep(0.05)
    await life.crash()
    life.at_work.clear()
    life.open([[Call("look", {"at": "the till"}), Call("pay", {"amount": 700}), Call("pay", {"amount": 1})]])
    await life.lanes.resume()
    await life.at_work.wait()
    await life.say("unfinished", Text("and thank you"), id="u-2", sender="ada")
    await life.crash()


# --- as text -------------------------------------------------------------------------------------


def dump(path: Path) -> str:
    db = apsw.Connection(str(path))
    lines = [f"PRAGMA user_version = {db.pragma('user_version')};"]
    made = db.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    lines += [f"{sql};" for _, _, sql in made]
    for kind, name, _ in made:
        if kind != "table":
            continue
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
        quoted = ", ".join(f"quote({column})" for column in columns)
        for row in db.execute(f"SELECT {quoted} FROM {name} ORDER BY {columns[0]}, {columns[1]}"):
            lines.append(f"INSERT INTO {name} VALUES ({', '.join(str(value) for value in row)});")
    db.close()
    return "\n".join(lines) + "\n"


async def expected(path: Path) -> dict[str, Any]:
    store = SqliteStore(str(path))
    await store.open()
    sessions = {}
    for standing in sorted(await store.sessions(include_deleted=True), key=lambda one: one.key):
        records = await read_all(store, standing.key)
        tail = await store.load(standing.key, 10**9)
        assert tail is not None
        view = Session.of(tail)
        sessions[standing.key] = {
            "standing": msgspec.to_builtins(standing),
            "types": [type(one.event).__name__ for one in records],
            "history": [[m.id, m.role, msgspec.to_builtins(m.parts)] for m in history(records)],
            "view": [m.id for m in view.messages],
            "summary": view.summary,
            "waiting": sorted(view.waiting),
            "open_calls": [call.id for call in view.open.open_calls] if view.open else [],
        }
    await store.close()
    return {"limits": {"steps_max": LIMITS.steps_max}, "sessions": sessions}


def main() -> None:
    sql, seen = FOLDER / f"{mainstay.__version__}.sql", FOLDER / f"{mainstay.__version__}.json"
    if sql.exists() or seen.exists():
        raise SystemExit(f"{sql.name} is there already, and a golden file is never made again")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workspace.db"
        asyncio.run(record(path))
        sql.write_text(dump(path))
        seen.write_text(json.dumps(asyncio.run(expected(path)), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
