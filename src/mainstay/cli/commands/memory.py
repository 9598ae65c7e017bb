"""`mainstay memory …`: what was said, known and remembered, through the home's owner or by opening the home."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from mainstay.agent.memory import AgentMemory, Answer, Recalling
from mainstay.agent.recollection import Recollection, recollect
from mainstay.agent.world import SystemClock
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.homes import Place, place_of, run_async, writing
from mainstay.cli.commands.out import coloured, paint, print_json, print_table, when
from mainstay.cli.commands.talking import OWNER_LOOK_S, OWNER_WAIT_S, owner_of
from mainstay.cli.commands.tree import UsageError
from mainstay.config.loading import Config, load_config
from mainstay.core.errors import ConfigError, HomeTaken
from mainstay.core.ports import Store
from mainstay.core.recall import Fact, Hit, Memory, Summary, is_untrusted
from mainstay.memory.excerpt import excerpt, marked
from mainstay.memory.library import LISTED_MAX
from mainstay.memory.pages import Forgotten, Page

T = TypeVar("T")
SHOWN_CHARS = 400
WIDTH_MAX = 100
HIT = "\x1b[1;33m{}\x1b[0m"


def search(options: argparse.Namespace) -> int:
    query = " ".join(options.query)
    found = _asked(options, lambda memory: _search(memory, query, options), meaning=True)
    if options.json:
        print_json({"ok": True, "hits": found.hits, "note": found.note})
        return 0
    _print_hits(found.hits, query, "nothing was found")
    if found.note:
        print(paint(visible(found.note), "dim"))
    return 0


async def _search(memory: Recalling, query: str, options: argparse.Namespace) -> Answer:
    """With the note: how it was searched is part of the answer."""
    given = {
        "text": query,
        "k": min(int(options.k), 100),
        **memory.span(options.start, options.end),
        "speaker": options.speaker or "",
        "session": options.session or "",
    }
    found: Answer = await memory.do("semantic" if options.semantic else "search", given)
    return found


def recall(options: argparse.Namespace) -> int:
    topic = " ".join(options.topic)
    hits = _asked(options, lambda memory: memory.recall(topic))
    if options.json:
        print_json({"ok": True, "hits": hits})
    else:
        _print_hits(hits, topic, "nothing is known about that")
    return 0


def summary(options: argparse.Namespace) -> int:
    found = _asked(options, lambda memory: memory.summaries(options.start, options.end))
    if options.json:
        print_json({"ok": True, "summaries": found})
        return 0
    if not found:
        print("there are no summaries of that time; they are written when a conversation grows long")
    for one in found:
        _print_summary(one)
    return 0


def get(options: argparse.Namespace) -> int:
    pages = _asked(options, lambda memory: _whole(memory, options.id))
    text = "".join(page.text for page in pages)
    first = pages[0]
    if options.json:
        print_json({"ok": True, "item": {**_about(first), "text": text}})
        return 0
    print(_head(first.message_id or first.id, first.at, first.speaker or first.kind, first.origin))
    for line in safe(text).splitlines():
        print(f"  {line}".rstrip())
    return 0


async def _whole(memory: Recalling, id: str) -> list[Page]:
    pages = [await memory.get(id)]
    while (at := pages[-1].next) is not None:
        pages.append(await memory.get(id, at))
    return pages


def _about(page: Page) -> dict[str, Any]:
    names = ("id", "kind", "session", "message_id", "at", "speaker", "origin")
    return {name: getattr(page, name) for name in names}


def list_memories(options: argparse.Namespace) -> int:
    limit = min(int(options.limit), LISTED_MAX)
    if options.facts:
        facts = _asked(options, lambda memory: memory.facts(origin=options.origin, limit=limit))
        return _print_facts(facts, options)
    pinned, tag, origin = True if options.pinned else None, options.tag, options.origin
    memories = _asked(options, lambda memory: memory.list(tag=tag, origin=origin, pinned=pinned, limit=limit))
    if options.json:
        print_json({"ok": True, "memories": memories})
    elif not memories:
        print('nothing was remembered; `mainstay memory remember "…"` keeps something')
    else:
        print_table(["ID", "WHEN", "PINNED", "TAGS", "TEXT"], [_row(one) for one in memories])
    return 0


def _row(one: Memory) -> list[str]:
    text = f"(from outside) {one.text}" if is_untrusted(one.origin) else one.text
    return [one.id, when(one.at), "yes" if one.pinned else "", " ".join(one.tags), visible(excerpt(text, "", 80))]


def _print_facts(facts: Sequence[Fact], options: argparse.Namespace) -> int:
    if options.json:
        print_json({"ok": True, "facts": facts})
    elif not facts:
        print("no facts are known; they are taken out of what is summarised")
    else:
        rows = [
            [
                one.id,
                when(one.at),
                visible(f"{one.subject} {one.predicate} {one.object}", 80),
                f"{one.confidence:.0%}",
                f"{one.session}#{one.source}" if one.source else "",
                one.origin,
            ]
            for one in facts
        ]
        print_table(["ID", "WHEN", "FACT", "SURE", "SOURCE", "ORIGIN"], rows, "d")
    return 0


def remember(options: argparse.Namespace) -> int:
    text = " ".join(options.text)
    memory = _asked(options, lambda memory: memory.remember(text, options.tag, bool(options.pin)))
    return _done(options, {"memory": memory}, f"remembered as {memory.id}{', pinned' if memory.pinned else ''}")


def pin(options: argparse.Namespace) -> int:
    memory = _asked(options, lambda memory: memory.pin(options.id))
    return _done(options, {"memory": memory}, f"{memory.id} is pinned")


def unpin(options: argparse.Namespace) -> int:
    memory = _asked(options, lambda memory: memory.unpin(options.id))
    return _done(options, {"memory": memory}, f"{memory.id} is no longer pinned")


def status(options: argparse.Namespace) -> int:
    found = _asked(options, lambda memory: memory.status())
    if options.json:
        print_json({"ok": True, "status": found})
        return 0
    how = f"{count(found.vectors, 'vector')} by {visible(found.vector_model)}" if found.vector_model else "none"
    rows = [
        ("messages", f"{found.messages:,}"),
        ("summaries", f"{found.summaries:,}"),
        ("facts", f"{found.facts:,}"),
        ("memories", f"{found.memories:,}, {found.pinned:,} of them pinned"),
        ("vectors", how),
        ("behind", count(found.behind, "record") if found.behind else "nothing: all is indexed"),
    ]
    for name, value in rows:
        print(f"{name:10} {value}")
    if found.note:
        print(visible(found.note))
    return 0


# --- forgetting ----------------------------------------------------------------------------------


def forget(options: argparse.Namespace) -> int:
    ids, origin = list(dict.fromkeys(options.ids)), options.origin
    if bool(ids) == (origin is not None):
        raise UsageError("say what to forget: some ids, or --origin and where it came from")
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageError("forgetting cannot be undone; add --yes to do it without being asked")
        found = _asked(options, lambda memory: _look(memory, ids, origin))
        if not found:
            print("there is nothing to forget")
            return 0
        if not _sure(found):
            print("nothing was forgotten")
            return 0
    gone = _asked(options, lambda memory: _forget(memory, ids, origin))
    if options.json:
        print_json({"ok": True, "forgotten": gone})
    elif not gone:
        print("there was nothing to forget")
    for one in gone if not options.json else ():
        print(f"{one.kind} {visible(one.id)} forgotten")
        if left := [id for id in one.copies if id not in options.ids]:
            print(f"the same words also stand in {visible(', '.join(left))}; forget those too if they should go")
    return 0


async def _forget(memory: Recalling, ids: Sequence[str], origin: str | None) -> list[Forgotten]:
    if origin is not None:
        return await memory.forget_origin(origin)
    await _look(memory, ids, None)  # all of them are there, or nothing is done
    return [await memory.forget(id) for id in ids]


async def _look(memory: Recalling, ids: Sequence[str], origin: str | None) -> list[str]:
    """What would be forgotten, in a few words each."""
    if origin is None:
        pages = [await memory.get(id, 0, 200) for id in ids]
        return [f"{page.kind} {page.id}: {excerpt(page.text, '', 60)}" for page in pages]
    memories = await memory.list(origin=origin, limit=LISTED_MAX)
    facts = await memory.facts(origin=origin, limit=LISTED_MAX)
    found = [f"memory {one.id}: {excerpt(one.text, '', 60)}" for one in memories]
    return [*found, *(f"fact {one.id}: {one.subject} {one.predicate} {one.object}" for one in facts)]


def _sure(found: Sequence[str]) -> bool:
    for line in found[:20]:
        print(f"  {visible(line, WIDTH_MAX)}")
    if len(found) > 20:
        print(f"  … and {len(found) - 20} more")
    answer = input("Forget this? It cannot be undone. [y/N] ")
    return answer.strip().lower() in ("y", "yes")


# --- asking --------------------------------------------------------------------------------------


def _asked(options: argparse.Namespace, question: Callable[[Recalling], Awaitable[T]], *, meaning: bool = False) -> T:
    async def ask() -> T:
        async with _remembering(place_of(options), meaning) as memory:
            return await question(memory)

    return run_async(ask())


@asynccontextmanager
async def _remembering(place: Place, meaning: bool) -> AsyncIterator[Recalling]:
    """The memory of the home's owner if it has one, else by opening the home, which nobody else may meanwhile."""
    async with AsyncExitStack() as held:
        for attempt in range(int(OWNER_WAIT_S / OWNER_LOOK_S)):
            if (owner := owner_of(place)) is not None:
                yield owner.memory
                return
            try:
                store = await held.enter_async_context(writing(place))
                break
            except HomeTaken:  # by a command that only writes something, and will be gone in a moment
                if attempt == int(OWNER_WAIT_S / OWNER_LOOK_S) - 1:
                    raise
                await asyncio.sleep(OWNER_LOOK_S)
        made = await _opened(store, place)
        held.push_async_callback(made.close)
        if meaning:
            await made.ready()

        async def opened() -> Recollection:
            return made

        yield AgentMemory(opened)


async def _opened(store: Store, place: Place) -> Recollection:
    try:
        config = load_config(place.home, env=os.environ).config
    except ConfigError:
        config = Config()  # what was said can be found, whatever is wrong with the file
    made = await recollect(store, config, SystemClock(), place.database.parent)
    made.library.redact = _redacting(store, msgspec.structs.replace(config, workspace=place.workspace), place)
    return made


def _redacting(store: Store, config: Config, place: Place) -> Callable[[str, Sequence[int]], Awaitable[None]]:
    """What was done is on record before the journal forgets it, and what came of it is in no list after that."""

    async def redact(session: str, seqs: Sequence[int]) -> None:
        from mainstay.agent.observing import observed  # and all that follows journals

        async with observed(place.data, config, store) as observing:
            await store.redact(session, seqs)
            await observing.forget(session, seqs)

    return redact


# --- printing ------------------------------------------------------------------------------------


def _done(options: argparse.Namespace, document: dict[str, Any], sentence: str) -> int:
    if options.json:
        print_json({"ok": True, **document})
    else:
        print(visible(sentence))
    return 0


def _print_hits(hits: Sequence[Hit], query: str, nothing: str) -> None:
    if not hits:
        print(nothing)
    for number, hit in enumerate(hits):
        if number:
            print()
        who = hit.speaker if hit.kind == "message" else hit.kind
        print(_head(hit.message_id if hit.kind == "message" else hit.id, hit.at, who, hit.origin))
        for line in _wrapped(excerpt(safe(hit.text), query, SHOWN_CHARS)):
            print(f"  {marked(line, query, HIT.format) if coloured() else line}")
        if hit.kind != "message" and hit.message_id:
            print(paint(f"  from {visible(hit.message_id)}", "dim"))


def _print_summary(one: Summary) -> None:
    first, last = when(one.start), when(one.end)
    id = f"{one.session}#{one.first}-{one.last}"
    head = f"{paint(first, 'dim')} {paint('to', 'dim')} {paint(last, 'dim')}  {paint(visible(id), 'cyan')}"
    print(head + _outside(one.origin))
    for line in safe(one.text).splitlines():
        for piece in _wrapped(line):
            print(f"  {piece}")
    print()


def _head(id: str, at: int, who: str, origin: str) -> str:
    return f"{paint(when(at), 'dim')}  {paint(visible(id), 'cyan')}  {paint(visible(who), 'bold')}{_outside(origin)}"


def _outside(origin: str) -> str:
    return f"  {paint('from outside', 'yellow')}" if is_untrusted(origin) else ""


def _wrapped(line: str) -> Iterator[str]:
    width = min(shutil.get_terminal_size().columns, WIDTH_MAX) - 2
    yield from textwrap.wrap(visible(line), max(width, 20)) or [""]
