"""`mainstay memory …`: searches and edits messages, facts and memories, through the home's owner or its files."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from mainstay.agent.client import AgentClient
from mainstay.agent.memory import AgentMemory
from mainstay.cli.commands.agent_setup import open_home_client
from mainstay.cli.commands.home_locator import resolve_workspace, run_async
from mainstay.cli.commands.output import format_time, is_colour_enabled, print_done, print_json, print_table, style_text
from mainstay.cli.parser.root import UsageError
from mainstay.core.memory_tiers import Fact, Memory, SearchHit, Summary, is_untrusted
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.memory.service import LISTED_MAX
from mainstay.memory.snippet import highlight_matches, make_snippet
from mainstay.memory.types import ForgetResult, MemoryPage
from mainstay.operations.memory import SEARCH_MAX, SearchMemory, SearchResult, SearchVectors

T = TypeVar("T")
EXCERPT_CHARS = 400
WIDTH_MAX = 100
HIT_STYLE = "\x1b[1;33m{}\x1b[0m"


def search(options: argparse.Namespace) -> int:
    query = " ".join(options.query)
    result = _query_client(options, lambda client: _run_search(client, query, options), vectors=True)
    if options.json:
        print_json({"ok": True, "hits": result.hits, "note": result.note})
        return 0
    _print_hits(result.hits, query, "nothing was found")
    if result.note:
        print(style_text(escape_line(result.note), "dim"))
    return 0


async def _run_search(client: AgentClient, query: str, options: argparse.Namespace) -> SearchResult:
    fields: dict[str, Any] = {
        "q": query,
        "k": min(int(options.k), SEARCH_MAX),
        "start": options.start or "",
        "end": options.end or "",
        "speaker": options.speaker or "",
        "in_session": options.session or "",
    }
    return await client.execute(SearchVectors(**fields) if options.semantic else SearchMemory(**fields))


def recall(options: argparse.Namespace) -> int:
    topic = " ".join(options.topic)
    hits = _query_memory(options, lambda memory: memory.recall(topic))
    if options.json:
        print_json({"ok": True, "hits": hits})
    else:
        _print_hits(hits, topic, "no facts or memories about that")
    return 0


def show_summaries(options: argparse.Namespace) -> int:
    summaries = _query_memory(options, lambda memory: memory.summaries(options.start, options.end))
    if options.json:
        print_json({"ok": True, "summaries": summaries})
        return 0
    if not summaries:
        print("there are no summaries of that time; they are written when a session grows long")
    for summary in summaries:
        _print_summary(summary)
    return 0


def show_item(options: argparse.Namespace) -> int:
    pages = _query_memory(options, lambda memory: _read_pages(memory, options.id))
    text = "".join(page.text for page in pages)
    first = pages[0]
    if options.json:
        print_json({"ok": True, "item": {**_build_page_document(first), "text": text}})
        return 0
    print(_format_heading(first.message_id or first.id, first.at, first.speaker or first.kind, first.origin))
    for line in sanitize_text(text).splitlines():
        print(f"  {line}".rstrip())
    return 0


async def _read_pages(memory: AgentMemory, id: str) -> list[MemoryPage]:
    pages = [await memory.get(id)]
    while (at := pages[-1].next_offset) is not None:
        pages.append(await memory.get(id, at))
    return pages


def _build_page_document(page: MemoryPage) -> dict[str, Any]:
    names = ("id", "kind", "session", "message_id", "at", "speaker", "origin")
    return {name: getattr(page, name) for name in names}


def list_memories(options: argparse.Namespace) -> int:
    limit = min(int(options.limit), LISTED_MAX)
    if options.facts:
        facts = _query_memory(options, lambda memory: memory.facts(origin=options.origin, limit=limit))
        return _print_facts(facts, options)
    pinned, tag, origin = True if options.pinned else None, options.tag, options.origin
    memories = _query_memory(options, lambda memory: memory.list(tag=tag, origin=origin, pinned=pinned, limit=limit))
    if options.json:
        print_json({"ok": True, "memories": memories})
    elif not memories:
        print('there are no memories; `mainstay memory remember "…"` adds one')
    else:
        print_table(["ID", "WHEN", "PINNED", "TAGS", "TEXT"], [_build_memory_row(memory) for memory in memories])
    return 0


def _build_memory_row(memory: Memory) -> list[str]:
    text = f"(untrusted) {memory.text}" if is_untrusted(memory.origin) else memory.text
    pinned, tags = "yes" if memory.pinned else "", " ".join(memory.tags)
    return [memory.id, format_time(memory.at), pinned, tags, escape_line(make_snippet(text, "", 80))]


def _print_facts(facts: Sequence[Fact], options: argparse.Namespace) -> int:
    if options.json:
        print_json({"ok": True, "facts": facts})
    elif not facts:
        print("there are no facts; they are extracted when a session is summarised")
    else:
        rows = [
            [
                fact.id,
                format_time(fact.at),
                escape_line(f"{fact.subject} {fact.predicate} {fact.object}", 80),
                f"{fact.confidence:.0%}",
                f"{fact.session}#{fact.source}" if fact.source else "",
                fact.origin,
            ]
            for fact in facts
        ]
        print_table(["ID", "WHEN", "FACT", "CONFIDENCE", "SOURCE", "ORIGIN"], rows, "d")
    return 0


def remember(options: argparse.Namespace) -> int:
    text = " ".join(options.text)
    memory = _query_memory(options, lambda memory: memory.remember(text, options.tag, bool(options.pin)))
    return print_done(options, f"saved as {memory.id}{', pinned' if memory.pinned else ''}", {"memory": memory})


def pin(options: argparse.Namespace) -> int:
    memory = _query_memory(options, lambda memory: memory.pin(options.id))
    return print_done(options, f"{memory.id} is pinned", {"memory": memory})


def unpin(options: argparse.Namespace) -> int:
    memory = _query_memory(options, lambda memory: memory.unpin(options.id))
    return print_done(options, f"{memory.id} is no longer pinned", {"memory": memory})


def show_status(options: argparse.Namespace) -> int:
    status = _query_memory(options, lambda memory: memory.status())
    if options.json:
        print_json({"ok": True, "status": status})
        return 0
    vectors = (
        f"{format_count(status.vectors, 'vector')} by {escape_line(status.vector_model)}"
        if status.vector_model
        else "none"
    )
    rows = [
        ("messages", f"{status.messages:,}"),
        ("summaries", f"{status.summaries:,}"),
        ("facts", f"{status.facts:,}"),
        ("memories", f"{status.memories:,}, {status.pinned:,} of them pinned"),
        ("vectors", vectors),
        ("behind", format_count(status.behind, "record") if status.behind else "nothing: all is indexed"),
    ]
    for name, value in rows:
        print(f"{name:10} {value}")
    if status.note:
        print(escape_line(status.note))
    return 0


# --- deletion ------------------------------------------------------------------------------------


def forget(options: argparse.Namespace) -> int:
    ids, origin = list(dict.fromkeys(options.ids)), options.origin
    if bool(ids) == (origin is not None):
        raise UsageError("give the ids to delete, or an origin with --origin")
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageError("deleting cannot be undone; add --yes to confirm")
        matches = _query_memory(options, lambda memory: _describe_matches(memory, ids, origin))
        if not matches:
            print("there is nothing to delete")
            return 0
        if not _confirm_deletion(matches):
            print("nothing was deleted")
            return 0
    deleted = _query_memory(options, lambda memory: _forget_all(memory, ids, origin))
    if options.json:
        print_json({"ok": True, "forgotten": deleted})
    elif not deleted:
        print("there was nothing to delete")
    for item in deleted if not options.json else ():
        print(f"{item.kind} {escape_line(item.id)} was deleted")
        if left := [id for id in item.copies if id not in options.ids]:
            print(f"the same text is also in {escape_line(', '.join(left))}; delete those too if needed")
    return 0


async def _forget_all(memory: AgentMemory, ids: Sequence[str], origin: str | None) -> list[ForgetResult]:
    if origin is not None:
        return await memory.forget_origin(origin)
    await _describe_matches(memory, ids, None)  # raises before anything is deleted if one is unknown
    return [await memory.forget(id) for id in ids]


async def _describe_matches(memory: AgentMemory, ids: Sequence[str], origin: str | None) -> list[str]:
    """Return a short description of everything that would be deleted. Raises for an unknown id."""
    if origin is None:
        pages = [await memory.get(id, 0, 200) for id in ids]
        return [f"{page.kind} {page.id}: {make_snippet(page.text, '', 60)}" for page in pages]
    memories = await memory.list(origin=origin, limit=LISTED_MAX)
    facts = await memory.facts(origin=origin, limit=LISTED_MAX)
    lines = [f"memory {memory.id}: {make_snippet(memory.text, '', 60)}" for memory in memories]
    return [*lines, *(f"fact {fact.id}: {fact.subject} {fact.predicate} {fact.object}" for fact in facts)]


def _confirm_deletion(lines: Sequence[str]) -> bool:
    for line in lines[:20]:
        print(f"  {escape_line(line, WIDTH_MAX)}")
    if len(lines) > 20:
        print(f"  … and {len(lines) - 20} more")
    answer = input("Delete this? It cannot be undone. [y/N] ")
    return answer.strip().lower() in ("y", "yes")


# --- access to the home --------------------------------------------------------------------------


def _query_memory(options: argparse.Namespace, query: Callable[[AgentMemory], Awaitable[T]]) -> T:
    return _query_client(options, lambda client: query(client.memory))


def _query_client(
    options: argparse.Namespace, query: Callable[[AgentClient], Awaitable[T]], *, vectors: bool = False
) -> T:
    async def ask() -> T:
        async with open_home_client(resolve_workspace(options), memory=True, vectors=vectors) as client:
            return await query(client)

    return run_async(ask())


# --- printing ------------------------------------------------------------------------------------


def _print_hits(hits: Sequence[SearchHit], query: str, empty_note: str) -> None:
    if not hits:
        print(empty_note)
    for number, hit in enumerate(hits):
        if number:
            print()
        speaker = hit.speaker if hit.kind == "message" else hit.kind
        print(_format_heading(hit.message_id if hit.kind == "message" else hit.id, hit.at, speaker, hit.origin))
        for line in _wrap_line(make_snippet(sanitize_text(hit.text), query, EXCERPT_CHARS)):
            print(f"  {highlight_matches(line, query, HIT_STYLE.format) if is_colour_enabled() else line}")
        if hit.kind != "message" and hit.message_id:
            print(style_text(f"  from {escape_line(hit.message_id)}", "dim"))


def _print_summary(summary: Summary) -> None:
    first, last = format_time(summary.start), format_time(summary.end)
    id = f"{summary.session}#{summary.first}-{summary.last}"
    span = " ".join(style_text(word, "dim") for word in (first, "to", last))
    print(f"{span}  {style_text(escape_line(id), 'cyan')}" + _format_untrusted_mark(summary.origin))
    for line in sanitize_text(summary.text).splitlines():
        for piece in _wrap_line(line):
            print(f"  {piece}")
    print()


def _format_heading(id: str, at: int, speaker: str, origin: str) -> str:
    time, name = style_text(format_time(at), "dim"), style_text(escape_line(speaker), "bold")
    return f"{time}  {style_text(escape_line(id), 'cyan')}  {name}{_format_untrusted_mark(origin)}"


def _format_untrusted_mark(origin: str) -> str:
    return f"  {style_text('untrusted', 'yellow')}" if is_untrusted(origin) else ""


def _wrap_line(line: str) -> Iterator[str]:
    width = min(shutil.get_terminal_size().columns, WIDTH_MAX) - 2
    yield from textwrap.wrap(escape_line(line), max(width, 20)) or [""]
