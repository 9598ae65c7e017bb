"""A conversation is folded and indexed while it goes on, in forked processes that are killed.

Started once by test_memory_crash as a clean process without threads. Each line on standard input is an experiment
(JSON), each line on standard output its result: whether it was killed, or what is wrong with what was left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from mainstay.context.token_budget import ContextSizeSettings
from mainstay.context.tokenizers import tokenizer_for
from mainstay.core.events import Folded, Received, TurnEnded
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.journal import Record
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import Fact, MemoryQuery, MessageRef, WorkspaceTiers
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import (
    Context,
    ModelInfo,
    Options,
    Piece,
    StreamFinished,
    SummaryRequest,
    SummaryResult,
    TextPiece,
)
from mainstay.core.searchable_messages import searchable_messages
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices
from mainstay.memory.indexer import MemoryIndexer
from mainstay.memory.vector_indexer import texts_to_embed
from mainstay.store.sqlite.store import SqliteStore
from mainstay.turn.toolbox import Toolbox
from support.crash_lab import HastyClock, kill_at_handle, say
from support.faulty_vfs import FaultyVFS, Plan

SESSION = "s"
WINDOW = 1024
FILLER = "and the weather was changeable all day long " * 12
RULES = ContextSizeSettings(window=WINDOW, recent_tokens=100, batch_size=4, summary_tokens=150)
LIMITS = Limits(ride_along_s=0.001, resumes_max=50)
CATCH_UP_S = 10.0
DIMENSIONS = 16


def word(number: int) -> str:
    return f"prompt{number}x"


class Model:
    """Answers with a word of its own for every turn."""

    def model(self) -> ModelInfo:
        return ModelInfo(name="life", window=WINDOW)

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        await asyncio.sleep(0)
        yield TextPiece(f"reply{options.turn}x {FILLER}")
        yield StreamFinished(FinishReason.END, Usage(10, 5))


class Summaries:
    """A summary that says what it is of, and a fact for each message; it takes a few turns of the loop."""

    async def summarise(self, passage: SummaryRequest, model: str) -> SummaryResult:
        for _ in range(3):
            await asyncio.sleep(0)
        if not passage.messages:
            return SummaryResult("All that was before.", (), "life")
        ids = [message.id for message in passage.messages]
        facts = tuple(Fact(f"message {id}", "was folded", f"fact{id}x", id) for id in ids)
        return SummaryResult(f"Of {min(ids)} to {max(ids)}.", facts if passage.extract_facts else (), "life")


class Embedder:
    """A direction for every text."""

    name = "life/16"

    async def load(self) -> int:
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        import random
        from array import array

        return [array("f", random.Random(text).choices((-0.25, 0.25), k=DIMENSIONS)).tobytes() for text in texts]

    async def close(self) -> None: ...


@asynccontextmanager
async def opened(home: Path, vfs: str | None) -> AsyncIterator[tuple[SqliteStore, WorkspaceTiers, MemoryIndexer]]:
    store = SqliteStore(str(home / "workspace.db"), limits=LIMITS, vfs=vfs)
    await store.open()
    tiers = store.tiers()
    follower = MemoryIndexer(store, tiers, embedder=Embedder(), clock=HastyClock(), limits=LIMITS)
    follower.start()
    yield store, tiers, follower
    await follower.close()
    await store.close()


async def run_process(home: Path, plan: Plan, first: int, last: int) -> None:
    """Finish what is unfinished, say these things, each under its own id, and have them indexed meanwhile."""
    plan.vfs = FaultyVFS("life", plan)
    model = Model()
    async with opened(home, "life") as (store, _, follower):
        services = LaneServices(
            store=store, provider_for=lambda spec: model, tools=Toolbox((), LIMITS), limits=LIMITS, clock=HastyClock(),
            hub=EventHub(64), summariser=Summaries(), context_rules=RULES, on_stored=follower.mark_changed,
        )  # fmt: skip
        lanes = LaneRegistry(services)
        await lanes.resume_unfinished()
        catching: asyncio.Future[bool] | None = None
        for number in range(first, last + 1):
            prompt = f"{word(number)} {FILLER}"
            envelope = InputEnvelope(parts=to_parts(prompt), thread=SESSION, id=word(number))
            ticket = await lanes.get(SESSION).accept(envelope)
            say(home / "acked", word(number))
            await ticket.reply
            if catching is not None:
                await catching
            catching = asyncio.ensure_future(follower.wait_until_indexed(CATCH_UP_S))  # beside the next turn
        await lanes.wait_until_settled()
        await lanes.close()
        if catching is not None:
            await catching


# --- afterwards ----------------------------------------------------------------------------------


async def check(home: Path) -> list[str]:
    """Everything that is wrong, once the follower has caught up."""
    async with opened(home, None) as (store, tiers, follower):
        if not await follower.wait_until_indexed(CATCH_UP_S):
            return ["it does not catch up"]
        records = await store.read_records(SESSION, limit=100_000)
        acked = (home / "acked").read_text().splitlines() if (home / "acked").exists() else []
        tail = await store.load_tail(SESSION, 1 << 30)
        assert tail is not None
        wrong = [*journal(records, acked), *context(records, Session.from_tail(tail))]
        wrong += await words(tiers, records, acked)
        wrong += await folds(tiers, records)
        wrong += await vectors(tiers, records)
    return [*wrong, *files(home)]


def journal(records: list[Record], acked: list[str]) -> Iterator[str]:
    received = Counter(record.event.id for record in records if isinstance(record.event, Received))
    yield from (f"{id} was accepted {count} times" for id, count in received.items() if count > 1)
    yield from (f"{id} was acknowledged and lost" for id in acked if id not in received)
    ended = Counter(record.event.turn for record in records if isinstance(record.event, TurnEnded))
    if list(ended.values()) != [1] * len(received):
        yield f"turns did not end once each: {ended}"


def context(records: list[Record], read: Session) -> Iterator[str]:
    """The old context or the new one: what is read back is what all records make, and nothing is in neither."""
    whole = Session(SESSION)
    for record in records:
        whole.apply(record.seq, record.at, record.event)
    if [repr(one) for one in read.messages] != [repr(one) for one in whole.messages]:
        yield "the context that is read back is another than the one that was written"
    versions = [record.event.version for record in records if isinstance(record.event, Folded)]
    if versions != list(range(1, len(versions) + 1)):
        yield f"folds are numbered {versions}"
    if not versions:
        return
    parts = [part for record in records if isinstance(record.event, Folded) for part in record.event.parts]
    if not whole.messages or whole.messages[0].id != whole.fold_seq:
        yield "the summary does not stand first"
    shown = {one.id for one in whole.messages}
    for entry in searchable_messages(SESSION, records):
        folded = sum(part.first <= entry.seq <= part.last for part in parts)
        if (entry.seq in shown) + folded != 1:
            yield f"message {entry.seq} is folded {folded} times and {'' if entry.seq in shown else 'not '}shown"


async def words(tiers: WorkspaceTiers, records: list[Record], acked: list[str]) -> list[str]:
    """Every message once, at its place; those that were acknowledged above all."""
    wrong: list[str] = []
    entries = searchable_messages(SESSION, records)
    own = [entry.text.split()[0] for entry in entries]
    for id, entry in [*zip(own, entries, strict=True), *((id, None) for id in acked if id not in own)]:
        spots = await tiers.messages.search(MemoryQuery(text=id), 10)
        if entry is None or [(one.session, one.seq) for one in spots] != [(SESSION, entry.seq)]:
            wrong.append(f"{id} is found at {spots}")
    fetched = await tiers.messages.fetch_messages([MessageRef(SESSION, entry.seq) for entry in entries])
    if fetched != entries:
        wrong.append("a message is not read as it was said")
    if await tiers.messages.count() != len(entries):
        wrong.append(f"{await tiers.messages.count()} messages are indexed, and {len(entries)} were said")
    return wrong


async def folds(tiers: WorkspaceTiers, records: list[Record]) -> list[str]:
    """What the folds say is there, once; and nothing else."""
    made = [record.event for record in records if isinstance(record.event, Folded)]
    wrong: list[str] = []
    wanted = Counter((part.first, part.last, part.text) for fold in made for part in fold.parts)
    found = Counter((one.first, one.last, one.text) for one in await tiers.summaries.list_between(None, None, 1000))
    if wanted != found or any(count > 1 for count in found.values()):
        wrong.append(f"summaries: {wanted} were written, {found} are there")
    facts = Counter(fact.object for fold in made for fact in fold.facts)
    known = Counter(fact.object for fact in await tiers.facts.list_facts(limit=1000))
    if facts != known or any(count > 1 for count in known.values()):
        wrong.append(f"facts: {facts} were learned, {known} are known")
    for fold in made:
        if [fact.source for fact in fold.facts] and not fold.parts:
            wrong.append(f"half a fold: {fold}")
    return wrong


async def vectors(tiers: WorkspaceTiers, records: list[Record]) -> list[str]:
    if tiers.vectors is None:
        return []
    wanted = len(texts_to_embed(SESSION, records))
    have = await tiers.vectors.count()
    return [] if have == wanted else [f"{have} vectors are there, and {wanted} texts were embedded"]


def files(home: Path) -> Iterator[str]:
    db = apsw.Connection(str(home / "workspace.db"))
    yield from (f"integrity: {row}" for row in db.execute("PRAGMA integrity_check") if row != ("ok",))
    for table in ("messages_words", "summaries_words", "facts_words", "memories_words"):
        try:
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except apsw.Error as error:
            yield f"{table}: {error}"
    db.close()


# --- processes -----------------------------------------------------------------------------------


def child(order: dict[str, Any]) -> dict[str, Any]:
    home = Path(order["home"])
    if order["do"] == "check":
        return {"wrong": asyncio.run(check(home))}
    seen = kill_at_handle(order["at"] if order["action"] == "await" else 0)
    disk = order["action"] if order["action"] != "await" else ""
    plan = Plan(disk, order["at"], seed=order["seed"])
    asyncio.run(run_process(home, plan, order["first"], order["last"]))
    return {"ops": plan.count, "awaits": seen[0]}


def experiment(order: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(60)
        try:
            result = child(order)
        except BaseException:  # a child must report every result to its parent, and then exit
            result = {"error": traceback.format_exc()}
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    told = b"".join(iter(lambda: os.read(reading, 65536), b""))
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"killed": os.WTERMSIG(status)}
    return json.loads(told)  # type: ignore[no-any-return]


if __name__ == "__main__":
    tokenizer_for(Model().model()).count("once, for all that are forked from here")
    for line in sys.stdin:
        print(json.dumps(experiment(json.loads(line))), flush=True)
