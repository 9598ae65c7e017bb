"""Hostile queries and hostile content of a memory: an answer or one clear sentence, soon, and nothing changed."""

# ruff: noqa: RUF001 (letters that look like others are what is meant)
from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mainstay import Agent, Config
from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings, ToolSettings
from mainstay.core.errors import InputRefused, MainstayError, MemoryUnknown, SummaryUnusable
from mainstay.core.messages import Message, Text
from mainstay.core.ports import Context, Options, SummaryRequest, Tool, ToolContext
from mainstay.core.stemming import stem_words
from mainstay.core.tools import BadArguments
from mainstay.memory.snippet import make_snippet
from mainstay.memory.summary_parser import parse_summary
from mainstay.memory.tools import RESULT_BYTES_MAX, build_memory_tools
from mainstay.testing import ScriptedProvider

VECTORS = find_spec("wordllama") is not None and find_spec("sqlite_vec") is not None
CPU_S = 3.0  # of one question, on any machine that is not asleep
INDEX_CPU_S = 3.0  # of one message, to be indexed
INDEXED_WITHIN_S = 120.0  # on a machine that has much else to do
MEGABYTE = 1024 * 1024

# What an index may have to hold.
CONTENTS = {
    "sql": "'; DROP TABLE messages; -- SELECT * FROM events WHERE 1=1; ATTACH '/etc/passwd' AS x; \"quoted\" harmless",
    "fts": 'NEAR(one two, 5) AND text: "three OR NOT ^four* {a b} : five + six -seven harmlessly',
    "commands": "INSERT INTO messages_words(messages_words) VALUES('delete-all'); rebuild optimize integrity-check",
    "one long word": "w" * (MEGABYTE - 20) + " afterwards",
    "many words": " ".join(f"word{n}" for n in range(60_000)),
    "one word often": "again " * 100_000,
    "control characters": "be\0fore \x01\x02\x1b[31m \x7f\x85\u2028 after\x0bwards \ufeff\ufffe bell",
    "emoji": "🦄🦄🦄 👩‍👩‍👧‍👦 🇵🇹 unicorn 🏳️‍🌈",
    "right to left": "\u202eהפלא ופלא\u202c שלום עולם مرحبا بالعالم",
    "punctuation": "?!.,;:-_()[]{}<>/\\|@#$%^&*~`'\"+=" * 50,
    "stop words": "the and of to in is it you that he was for on are as with his they at be this",
    "mixed scripts": "iPhone用ケースのкириллицаと日本語ÄÖÜß naïve Ａｂｃ１２３",
    "chinese": "我们在里斯本租了一套公寓，明年三月搬家。",
    "japanese": "来年の三月にリスボンのアパートを借りました。",
    "thai": "เราเช่าอพาร์ตเมนต์ในลิสบอนตั้งแต่เดือนมีนาคม",
    "korean": "우리는내년삼월에리스본으로이사합니다",
    "lao": "ພວກເຮົາເຊົ່າອາພາດເມັນໃນລິດສະບອນ",
    "expanding": "\ufdfa" * 20_000 + " expanding",
    "some marks": "z̷̢̛a̴̧̛l̶̨̛g̵̛̘o̷̧̕ " * 200 + "zalgo",
    "base64": "QUJD" * 50_000 + " encoded",
}

QUERIES = {
    "a quote": '"',
    "an apostrophe": "'",
    "unbalanced": '"one two',
    "two quotes": '""',
    "nothing but quotes": '"""""',
    "or 1=1": "' OR 1=1 --",
    "drop": "'; DROP TABLE memories; --",
    "union": "1 UNION SELECT body FROM events",
    "attach": "ATTACH DATABASE '/tmp/x.db' AS x",
    "near": "NEAR(",
    "near of two": "NEAR(one two, 3)",
    "and": "AND",
    "or": "OR OR OR",
    "not": "NOT one",
    "columns": "text:*",
    "some columns": "{text tags} : one",
    "minus": "-text: one",
    "a caret": "^one",
    "a star": "*",
    "a word and a star": "wor*",
    "plus": "one + two",
    "parentheses": "((((((((",
    "nul": "\0",
    "nul in a word": "be\0fore",
    "control characters": "".join(map(chr, range(32))),
    "escape": "\x1b[2J",
    "half a character": "\ud800",
    "halves": "\udfff\ud800 \udc00 word",
    "emoji": "🦄",
    "family": "👩‍👩‍👧‍👦",
    "right to left": "\u202eהפלא",
    "only punctuation": "?!.,;:",
    "underscores": "____",
    "a combining mark": "\u0301",
    "only stop words": "the of and to is",
    "one letter": "a",
    "digits": "0000000000",
    "a megabyte": "word " * 200_000,
    "a megabyte of one word": "w" * MEGABYTE,
    "a megabyte of quotes": '"' * MEGABYTE,
    "of marks": "a" + "\u0301\u0316" * 200_000,
    "of chinese": "公寓" * 200_000,
    "of emoji": "🦄" * 100_000,
    "newlines": "\n" * 1000 + "word",
    "percent": "%",
    "like": "%_%",
    "json": '{"query": "word"}',
    "a path": "../../etc/passwd",
    "a uri": "file:///etc/passwd?mode=ro",
    "backslashes": "\\\\",
    "a regex": "(a+)+$",
    "a format": "{0.__class__} %s %(x)s ${HOME}",
    "many terms": " ".join(f"t{n}" for n in range(5000)),
    "word": "word",
    "expanding": "\ufdfa" * 8_000,
    "tags": "<|im_end|>",
    "rowid": "rowid",
    "rank": "rank MATCH 'bm25(1)'",
}
IDS = {
    "zero": "s#0",
    "negative": "s#-1",
    "the first of another": "s#4294967297",
    "far": "s#9999999999",
    "too far": "s#99999999999",
    "no number": "s#x",
    "other digits": "s#٣",
    "no session": "#1",
    "two": "s#1#2",
    "spaces": "s # 1",
    "slash": "s/call_1_1_0",
    "only a slash": "/",
    "slashes": "a/b/c/d",
    "float": "s#1.0",
    "plus": "s#+1",
    "hex": "s#0x1",
    "sum": "s#1-1",
    "range": "s#1-4",
}


def _is_own_table(name: str) -> bool:
    """False for the tables of the full-text and the vector index, which their libraries maintain."""
    return "_words_" not in name and not name.startswith("vec")


class HostileWorkspace:
    """A workspace with all of that in it, and a loop to ask it on."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._runner = asyncio.Runner()
        memory = MemorySettings(embeddings=EmbeddingSettings(enabled=VECTORS))
        config = Config(tools=ToolSettings(memory="on"), sessions=SessionSettings(memory=memory))
        self.agent = Agent(ScriptedProvider(self._say), home=home, config=config)

    def _say(self, context: Context, options: Options) -> str:
        if "You write the memory of a conversation" in context.system:
            fact = {"subject": "Ana'; --", "predicate": "NEAR(", "object": 'a "quoted" harmless thing', "source": 1}
            return json.dumps({"summary": "They spoke of NEAR( and of ' OR 1=1 --.", "facts": [fact]})
        return "I see."

    def run(self, work: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await work

        return self._runner.run(whole())

    def fill(self) -> None:
        history = [{"role": "user", "content": text} for text in CONTENTS.values()]
        self.run(self.agent.import_history("s", history))
        for prompt in ("harmless talk", "and more of it"):
            self.run(self.agent.run("folded", prompt))
        self.run(self.agent.sessions.compact("folded"))
        self.run(self.agent.memory.remember("NEAR( the harmless ' OR 1=1 --", tags=['"tag"', "x'y"]))
        opened = self.run(self.agent.runtime())
        assert self.run(opened.memory_context.indexer.wait_until_indexed(INDEXED_WITHIN_S)), "vectors too"
        status = self.run(self.agent.memory.status())
        assert (status.facts, status.summaries, status.memories, status.behind) == (1, 1, 1, 0)

    def tools(self) -> dict[str, Tool]:
        opened = self.run(self.agent.runtime())
        return {one.name: one for one in build_memory_tools(opened.memory)}

    def state(self) -> dict[str, list[Any]]:
        """Every row of every table that is ours; how far a tier has followed may be noted late."""
        path = str(self.home / "workspaces" / "default" / "workspace.db")
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
        own = [name for name in names if _is_own_table(name) and name not in ("cursors", "chores")]
        kept = {name: list(db.execute(f"SELECT * FROM {name}")) for name in own}
        if "sqlite_sequence" in kept:
            kept["sqlite_sequence"] = [row for row in kept["sqlite_sequence"] if row[0] in own]
        db.close()
        return kept

    def close(self) -> None:
        self._runner.run(self.agent.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def hostile_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileWorkspace]:
    made = HostileWorkspace(tmp_path_factory.mktemp("hostile"))
    made.fill()
    yield made
    made.close()


def clear_sentence(error: Exception) -> None:
    said = str(error)
    assert 0 < len(said) < 600, said[:600]
    assert "\n" not in said
    own_words = re.sub(r"'.*'|\".*\"", "", said).lower()  # without what it quotes
    for word in ("sql", "fts5", "apsw", "traceback", "unicodeencode", "syntax error", "damaged"):
        assert word not in own_words, said
    said.encode()  # it can be shown


READS: dict[str, Callable[[Agent, str], Awaitable[Any]]] = {
    "search": lambda agent, text: agent.memory.search(text),
    "search in a session": lambda agent, text: agent.memory.search("word", session=text),
    "search a speaker": lambda agent, text: agent.memory.search("word", speaker=text),
    "search since": lambda agent, text: agent.memory.search("word", start=text),
    "semantic": lambda agent, text: agent.memory.semantic(text),
    "semantic of a speaker": lambda agent, text: agent.memory.semantic("word", speaker=text, session=text),
    "recall": lambda agent, text: agent.memory.recall(text),
    "summaries": lambda agent, text: agent.memory.summaries(text, text),
    "get": lambda agent, text: agent.memory.get(text),
    "list by tag": lambda agent, text: agent.memory.list(tag=text),
    "list by origin": lambda agent, text: agent.memory.list(origin=text),
    "facts by origin": lambda agent, text: agent.memory.facts(origin=text),
    "session": lambda agent, text: agent.sessions.get(text),
    "records": lambda agent, text: agent.sessions.records(text),
    "forget what is not there": lambda agent, text: agent.memory.forget(text),
    "pin what is not there": lambda agent, text: agent.memory.pin(text),
}


def ask(hostile_workspace: HostileWorkspace, how: str, text: str) -> Any:
    """An answer, or None and a clear sentence; soon."""
    began = time.process_time()
    try:
        return hostile_workspace.run(READS[how](hostile_workspace.agent, text))
    except MainstayError as error:
        clear_sentence(error)
        return None
    finally:
        assert time.process_time() - began < CPU_S, "it takes too long"


@pytest.mark.parametrize("how", READS)
def test_any_text_is_a_question_with_an_answer_or_a_clear_refusal(
    hostile_workspace: HostileWorkspace, how: str
) -> None:
    before = hostile_workspace.state()
    for name, text in {**QUERIES, **IDS}.items():
        try:
            ask(hostile_workspace, how, text)
        except Exception as error:
            raise AssertionError(f"{how} of {name}: {type(error).__name__}: {str(error)[:300]}") from error
    assert hostile_workspace.state() == before, "asking changes nothing"


TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=60),  # half characters too
    st.lists(st.sampled_from([*list(QUERIES.values())[:30], "word", "harmless", "公寓", "\0", "#1"]), max_size=6).map(
        " ".join
    ),
    st.text(alphabet="\"'()*:^+-{}NEARANDORNOT ;,.%_\\", max_size=80),
)


@pytest.mark.parametrize("how", ["search", "semantic", "recall", "get", "summaries", "list by tag", "search since"])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=TEXTS)
@example(text="word\ud800")
@example(text="\0")
@example(text="SQL")
def test_any_text_at_all_is_survived(hostile_workspace: HostileWorkspace, how: str, text: str) -> None:
    ask(hostile_workspace, how, text)


TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "memory_search": lambda text: {"query": text, "speaker": text},
    "memory_semantic": lambda text: {"query": text},
    "memory_recall": lambda text: {"topic": text},
    "memory_summary": lambda text: {"from": text, "to": text},
    "memory_get": lambda text: {"id": text, "offset": -5},
    "result": lambda text: {"ref": text, "offset": 10**18, "limit": -1},
    "forget": lambda text: {"id": text},
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_answers_any_text_within_its_room(hostile_workspace: HostileWorkspace, name: str) -> None:
    tool = hostile_workspace.tools()[name]
    before = hostile_workspace.state()
    for text in {**QUERIES, **IDS}.values():
        said = call(hostile_workspace, tool, json.dumps(TOOLS[name](text)))
        assert len(said.encode()) <= 2 * RESULT_BYTES_MAX
    assert hostile_workspace.state() == before


def call(hostile_workspace: HostileWorkspace, tool: Tool, input: str) -> str:
    async def answer() -> str:
        return await tool.run(tool.parse(input), ToolContext("s", 1, 1, "call", lambda event: None))

    began = time.process_time()
    try:
        return str(hostile_workspace.run(answer()))
    except (MainstayError, BadArguments) as error:
        clear_sentence(error)
        return str(error)
    finally:
        assert time.process_time() - began < CPU_S


@pytest.mark.parametrize("number", [0, -1, 1, 51, 2**31, 2**63, 2**64, 10**30, -(10**30), 1e300, True, None], ids=str)
@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("memory_search", {"query": "word"}, "k"),
        ("memory_semantic", {"query": "word"}, "k"),
        ("memory_get", {"id": "s#2"}, "offset"),
        ("result", {"ref": "s#2"}, "offset"),
        ("result", {"ref": "s#2"}, "limit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tool_takes_any_number(
    hostile_workspace: HostileWorkspace, name: str, given: dict[str, Any], field: str, number: Any
) -> None:
    assert call(hostile_workspace, hostile_workspace.tools()[name], json.dumps({**given, field: number}))


@pytest.mark.parametrize("number", [0, -1, 101, 2**31, 2**63, 10**30, -(10**30)], ids=str)
def test_a_number_out_of_bounds_is_refused_or_means_the_end(hostile_workspace: HostileWorkspace, number: int) -> None:
    memory, sessions = hostile_workspace.agent.memory, hostile_workspace.agent.sessions
    asked: list[Awaitable[Any]] = [
        *(memory.search("word", number), memory.semantic("word", number), memory.recall("word", number)),
        *(memory.get("s#1", number), memory.get("s#1", 0, number), memory.summaries(number, number, limit=number)),
        *(memory.list(limit=number), memory.facts(limit=number), memory.search("word", start=number, end=number)),
        *(sessions.list(limit=number), sessions.list(offset=number), sessions.records("s", after=number)),
        *(
            sessions.records("s", limit=number),
            sessions.fork("s", "copy", upto=number) if number != 101 else memory.list(),
        ),
    ]
    for one in asked:
        try:
            hostile_workspace.run(one)
        except MainstayError as error:
            clear_sentence(error)


# --- what is taken in ----------------------------------------------------------------------------


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=TEXTS, tags=st.lists(TEXTS, max_size=20), pin=st.booleans())
@example(text="x", tags=["\ud800"], pin=True)
@example(text="x" * 9_000, tags=[], pin=True)
@example(text="é" * 5_000, tags=[], pin=False)
@example(text="x", tags=["t" * 65], pin=False)
@example(text="x", tags=["workflow"], pin=False)
def test_any_memory_can_be_found_listed_and_forgotten(
    hostile_workspace: HostileWorkspace, text: str, tags: list[str], pin: bool
) -> None:
    memory = hostile_workspace.agent.memory
    try:
        kept = hostile_workspace.run(memory.remember(text, tags, pin))
    except InputRefused as error:
        clear_sentence(error)
        return
    if "harmless ' OR 1=1" in kept.text and kept.at and not pin:
        return  # the shelf's own
    assert kept in hostile_workspace.run(memory.list(limit=10_000))
    assert hostile_workspace.run(memory.get(kept.id)).text == kept.text
    for tag in kept.tags:
        assert kept in hostile_workspace.run(memory.list(tag=tag, limit=10_000))
    assert hostile_workspace.run(memory.forget(kept.id)).kind == "memory"
    with pytest.raises(MemoryUnknown):
        hostile_workspace.run(memory.get(kept.id))


@pytest.mark.parametrize(
    "tags", ["home", ["a"] * 1_000_000, [f"t{n}" for n in range(17)], ["x" * MEGABYTE], ["workflow"]]
)
def test_tags_are_a_short_list_of_short_words(hostile_workspace: HostileWorkspace, tags: Any) -> None:
    began = time.process_time()
    if isinstance(tags, list) and set(tags) == {"a"}:
        kept = hostile_workspace.run(hostile_workspace.agent.memory.remember("many of the same", tags))
        assert kept.tags == ("a",)
        hostile_workspace.run(hostile_workspace.agent.memory.forget(kept.id))
    else:
        with pytest.raises(InputRefused) as refused:
            hostile_workspace.run(hostile_workspace.agent.memory.remember("tagged", tags))
        clear_sentence(refused.value)
    assert time.process_time() - began < CPU_S


# --- what is in it -------------------------------------------------------------------------------

FOUND = {
    "sql": "DROP TABLE harmless",
    "fts": "harmlessly",
    "commands": "rebuild optimize",
    "one long word": "afterwards",
    "many words": "word17",
    "one word often": "again",
    "control characters": "bell",
    "emoji": "unicorn",
    "right to left": "שלום",
    "mixed scripts": "ケース",
    "chinese": "里斯本",
    "japanese": "アパート",
    "thai": "ลิสบอน",
    "korean": "리스본",
    "lao": "ລິດສະບອນ",
    "some marks": "zalgo",
    "base64": "encoded",
    "expanding": "expanding",
}
ALSO_FOUND = {
    "a part of a chinese sentence": ("公寓", "chinese"),
    "one chinese character": ("租", "chinese"),
    "katakana in a sentence": ("リスボン", "japanese"),
    "kanji in a sentence": ("三月", "japanese"),
    "a thai word at the end": ("มีนาคม", "thai"),
    "a korean word in the middle": ("내년삼월", "korean"),
    "cyrillic between kana": ("кириллица", "mixed scripts"),
    "wide letters": ("abc123", "mixed scripts"),
    "without its accent": ("naive", "mixed scripts"),
    "arabic": ("مرحبا", "right to left"),
    "in capitals": ("UNICORN", "emoji"),
    "around a nul": ("fore", "control characters"),
    "the words of operators": ("three OR NOT four", "fts"),
    "a sentence in thai": ("เช่าอพาร์ตเมนต์", "thai"),
}


def places(hostile_workspace: HostileWorkspace, query: str, k: int = 5) -> list[str]:
    contents = list(CONTENTS)
    hits = hostile_workspace.run(hostile_workspace.agent.memory.search(query, k, session="s"))
    return [contents[int(hit.message_id.split("#")[1]) - 1] for hit in hits if hit.kind == "message"]


@pytest.mark.parametrize(
    "kind",
    FOUND,
)
def test_hostile_content_is_found_by_its_words(hostile_workspace: HostileWorkspace, kind: str) -> None:
    assert kind in places(hostile_workspace, FOUND[kind])


@pytest.mark.parametrize("how", ALSO_FOUND)
def test_any_script_is_found_by_a_part_of_it(hostile_workspace: HostileWorkspace, how: str) -> None:
    query, kind = ALSO_FOUND[how]
    assert kind in places(hostile_workspace, query, 3)


def test_everything_that_was_said_is_read_back_as_it_was(hostile_workspace: HostileWorkspace) -> None:
    for number, text in enumerate(CONTENTS.values(), start=1):
        pages, at = "", 0
        while (
            page := hostile_workspace.run(hostile_workspace.agent.memory.get(f"s#{number}", at))
        ).next_offset is not None:
            pages, at = pages + page.text, page.next_offset
        assert pages + page.text == text


@pytest.mark.parametrize(
    "text",
    [
        "a" + "\u0301" * 35_000 + "\u0316" * 35_000,
        ("a" + "\u0301\u0316" * 50) * 2_000,
        "\u1100\u1161\u11a8" * 50_000,
        "z" + "ab" * 400_000,
        " ".join(["z" + "ab" * 31] * 3_000),
        "x\n" * 300_000,
        "\u3042" * 300_000,
        "`" * 500_000,
    ],
    ids=[
        "marks in the wrong order",
        "marks on every letter",
        "hangul in parts",
        "one word",
        "words that nearly match",
        "lines",
        "kana",
        "backquotes",
    ],
)
def test_a_message_made_to_be_slow_is_indexed_and_searched_in_time(tmp_path: Path, text: str) -> None:
    shelf = HostileWorkspace(tmp_path)
    try:
        began = time.process_time()
        shelf.run(shelf.agent.import_history("s", [{"role": "user", "content": f"needle {text} haystack"}]))
        shelf.run(shelf.agent.memory.status())
        assert time.process_time() - began < INDEX_CPU_S
        began = time.process_time()
        hits = shelf.run(shelf.agent.memory.search("needle ab aba abab ababa ababab ba bab baba babab bababa"))
        assert [hit.message_id for hit in hits] == ["s#1"]
        make_snippet(hits[0].text, "needle ab aba", 200)
        assert time.process_time() - began < CPU_S
    finally:
        shelf.close()


# --- pure parts ----------------------------------------------------------------------------------

PASSAGE = SummaryRequest(messages=(Message(1, "user", (Text("we rented the flat in Lisbon"),)),), tokens_max=500)
ANSWERS = {
    "a fence and no end": "```" + "\n" * 199_000 + "x",
    "only fences": "```\n" * 49_000,
    "open braces": "{" * 199_000,
    "open brackets": '{"summary": ' + "[" * 199_000,
    "nearly": ('{"summary": "' + "x" * 9_000 + '", ') * 20,
    "a": "a" * 199_000,
    "numbers": '{"summary": ' + "9" * 199_000 + "}",
    "half characters": '{"summary": "\ud800 they rented a flat in Lisbon"}',
    "deep facts": '{"summary": "They rented a flat.", "facts": ' + "[" * 50_000 + "]" * 50_000 + "}",
    "odd facts": '{"summary": "They rented a flat.", "facts": [1, null, {"subject": {}}, {"subject": "I"}]}',
    "spaces": " " * 199_000 + "x",
    "quotes": '"summary"' * 20_000,
    "escapes": '{"summary": "' + "\\u0000" * 30_000 + '"}',
    "whitespace in between": '"summary"' + " " * 190_000 + "x",
    "sorry": "I'm sorry" + "," * 190_000,
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_any_model_answer_is_a_summary_or_unusable_in_time(kind: str) -> None:
    began = time.process_time()
    try:
        summary, facts = parse_summary(ANSWERS[kind], PASSAGE, ("a prompt",))
        assert summary.strip()
        assert len(facts) <= 30
        summary.encode()
    except SummaryUnusable as error:
        clear_sentence(error)
    assert time.process_time() - began < CPU_S


@settings(max_examples=200, deadline=None)
@given(answer=TEXTS)
def test_any_answer_at_all_is_a_summary_or_unusable(answer: str) -> None:
    try:
        summary, _ = parse_summary(answer, PASSAGE, ())
        assert summary.strip()
    except SummaryUnusable as error:
        clear_sentence(error)


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, query=TEXTS, room=st.integers(20, 400))
def test_an_excerpt_is_one_line_that_fits(text: str, query: str, room: int) -> None:
    line = make_snippet(text, query, room)
    assert len(line) <= room + 2
    assert "\n" not in line
    assert all(1 <= len(stem) <= 12 for stem in stem_words(query))
