"""The hybrid search over real tiers, with an embedder that knows a few words."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.core.errors import EmbedderMissing, RateLimited
from mainstay.core.memory_tiers import Embedder, IndexedMessage, Memory, MemoryQuery, MessageRef, WorkspaceTiers
from mainstay.memory import hybrid_search as ranker
from mainstay.memory.hybrid_search import (
    HIT_CHARS_MAX,
    NEIGHBOUR_SHARES,
    QueryTerms,
    clip_around_match,
    fuse_scores,
    hybrid_search,
    score_text_matches,
    semantic_search,
    spread_to_neighbours,
)
from mainstay.store.sqlite.vector_tier import find_extension
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase

needs_vectors = pytest.mark.skipif(find_extension() is None, reason="needs the extra: pip install -e '.[memory]'")

MEANINGS = [
    {"cello", "violin", "instrument", "music", "lessons"},
    {"dog", "puppy", "hound", "terrier"},
    {"boiler", "heating", "radiator", "warm"},
    {"invoice", "bill", "payment", "price"},
    {"train", "railway", "platform"},
    {"filler", "chatter", "weather", "lunch"},
    {"garden", "hedge", "lawn"},
    {"doctor", "vet", "nurse"},
]


class Concepts:
    """Words that mean the same have the same direction; others have none."""

    name = "test/concepts"

    async def load(self) -> int:
        return len(MEANINGS)

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> bytes:
        words = {word.strip(".,?!").lower() for word in text.split()}
        numbers = [float(len(words & meaning)) for meaning in MEANINGS]
        length = math.sqrt(sum(number * number for number in numbers)) or 1.0
        return array("f", [number / length for number in numbers]).tobytes()

    async def close(self) -> None:
        pass


class World:
    """Sessions that are indexed as they are said."""

    def __init__(self, tiers: WorkspaceTiers) -> None:
        self.tiers = tiers
        self.embedder: Embedder | None = Concepts()

    async def say(self, session: str, *texts: str | IndexedMessage) -> None:
        positions = await self.tiers.messages.positions()
        start = positions.get(session, 0)
        entries = [
            IndexedMessage(
                session, seq, seq * 1000, ("user", "assistant")[seq % 2 == 0], said, ("user", "assistant")[seq % 2 == 0]
            )
            if isinstance(said, str)
            else IndexedMessage(session, seq, said.at, said.role, said.text, said.speaker, said.origin, said.call_id)
            for seq, said in enumerate(texts, start=start + 1)
        ]
        await self.tiers.messages.ingest(session, entries, start + len(entries))
        if self.tiers.vectors is not None and isinstance(self.embedder, Concepts):
            await self.tiers.vectors.set_model(self.embedder.name, await self.embedder.load())
            vectors = [(entry.seq, self.embedder.vector(entry.text)) for entry in entries]
            await self.tiers.vectors.ingest(session, [pair for pair in vectors if any(pair[1])], start + len(entries))

    async def found(self, text: str, **given: int | str | None) -> list[str]:
        """Ids of the hits, the best first."""
        query = MemoryQuery(text=text, **given)  # type: ignore[arg-type]
        return [hit.message_id or hit.id for hit in (await hybrid_search(self.tiers, self.embedder, query)).hits]


def said(
    text: str, *, at: int = 0, role: str = "user", speaker: str = "", origin: str = "", ref: str = ""
) -> IndexedMessage:
    return IndexedMessage("", 0, at, role, text, speaker or role, origin, ref)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    database = SeparateTierDatabase(":memory:")
    yield World(await database.open())
    await database.close()


@pytest_asyncio.fixture
async def wordy() -> AsyncIterator[World]:
    """Without vectors."""
    database = SeparateTierDatabase(":memory:", vectors=False)
    world = World(await database.open())
    world.embedder = None
    yield world
    await database.close()


# --- words, meaning, neighbours ------------------------------------------------------------------


async def test_a_hit_has_its_text_session_time_and_speaker(wordy: World) -> None:
    await wordy.say(
        "talk", "Nothing much.", said("The deploys failed.", at=77, role="tool", speaker="ci", origin="untrusted:ci")
    )
    (hit,) = (await hybrid_search(wordy.tiers, None, MemoryQuery(text="Did a deploy fail?", k=1))).hits
    assert (hit.text, hit.session, hit.message_id, hit.at) == ("The deploys failed.", "talk", "talk#2", 77)
    assert (hit.speaker, hit.origin, hit.kind) == ("ci", "untrusted:ci", "message")
    assert 0 < hit.score <= 1


async def test_coverage_of_the_query_counts_more_than_a_rare_word(wordy: World) -> None:
    await wordy.say("noise", *["The old gate squeaks in the wind."] * 1, "Zanzibar is far away.")
    await wordy.say("talk", "The old gate opens with the code 4711.")
    assert (await wordy.found("code of the old gate in Zanzibar"))[0] == "talk#1"


@needs_vectors
async def test_a_message_without_a_common_word_is_found_by_its_meaning(world: World) -> None:
    await world.say("talk", "She began taking cello lessons.", "The weather was fine.", "We had lunch.")
    assert (await world.found("which instrument"))[0] == "talk#1"


@needs_vectors
async def test_a_hit_of_both_searches_comes_before_a_hit_of_one(world: World) -> None:
    await world.say("one", "The heating was on.")
    await world.say("two", "It was cold and the boiler stood still.")
    await world.say("three", "The price of the boiler and its heating.")
    assert (await world.found("boiler heating"))[0] == "three#1"


async def test_the_answer_is_found_where_the_question_has_the_words(wordy: World) -> None:
    await wordy.say("talk", "Hello.", "What is your shoe size?", "44, but 45 in boots.", "Thanks.", "Bye.")
    assert await wordy.found("shoe size", k=2) == ["talk#2", "talk#3"]


async def test_neighbours_are_of_the_same_session(wordy: World) -> None:
    await wordy.say("a", "the last word of a session is marzipan")
    await wordy.say("b", "first of the next session")
    assert await wordy.found("marzipan") == ["a#1"]


async def test_the_next_message_gets_a_higher_score_than_the_previous_one(wordy: World) -> None:
    await wordy.say("talk", *[f"x{n}" for n in range(4)], "marzipan", *[f"y{n}" for n in range(4)])
    assert await wordy.found("marzipan") == ["talk#5", "talk#6", "talk#4", "talk#3", "talk#7"]


async def test_the_same_search_gives_the_same_hits_in_the_same_order(wordy: World) -> None:
    for name in "fbdaec":
        await wordy.say(name, "equally good", "and something else " + name)
    assert len({tuple(await wordy.found("equally good")) for _ in range(5)}) == 1


async def test_no_more_than_k_are_returned_and_never_twice_the_same(wordy: World) -> None:
    await wordy.say("talk", *[f"apples and pears, number {n}" for n in range(40)])
    for k in (1, 5, 30):
        hits = await wordy.found("apples and pears", k=k)
        assert len(hits) == len(set(hits)) == k


async def test_messages_copied_by_a_fork_are_shown_once(wordy: World) -> None:
    for session in ("first", "fork", "fork of the fork"):
        await wordy.say(session, "The code of the gate is 4711.", "Noted: the gate has a code.")
    hits = (await hybrid_search(wordy.tiers, None, MemoryQuery(text="code of the gate"))).hits
    assert sorted(hit.text for hit in hits) == ["Noted: the gate has a code.", "The code of the gate is 4711."]


@needs_vectors
async def test_messages_forgotten_meanwhile_are_left_out(world: World) -> None:
    await world.say("talk", "She plays the cello.", "A violin is an instrument.")
    await world.tiers.messages.delete_derived("talk", [1])
    assert await world.found("music") == ["talk#2"]


# --- filters -------------------------------------------------------------------------------------

FILTERS = {
    "time": {"start": 2000, "end": 4000},
    "from": {"start": 5000},
    "to": {"end": 3000},
    "speaker": {"speaker": "Ada"},
    "role": {"speaker": "assistant"},
    "session": {"session": "two"},
    "all": {"session": "one", "speaker": "Ada", "start": 1000, "end": 6000},
    "nobody": {"speaker": "nobody"},
    "nowhere": {"session": "nowhere"},
}


@needs_vectors
@pytest.mark.parametrize("way", [hybrid_search, semantic_search], ids=["search", "semantic"])
@pytest.mark.parametrize("given", FILTERS.values(), ids=FILTERS.keys())
async def test_filters_hold_for_words_for_meaning_and_for_neighbours(
    world: World, way: object, given: dict[str, int]
) -> None:
    texts = ["the cello arrived", "a violin too", "cello", "what an instrument", "yes", "no", "cello again"]
    everything: dict[str, IndexedMessage] = {}
    for session in ("one", "two"):
        turns = [
            said(
                f"{text} in {session}",
                at=n * 1000,
                role=("user", "assistant")[n % 2],
                speaker=("Ada", "assistant")[n % 2],
            )
            for n, text in enumerate(texts, start=1)
        ]
        await world.say(session, *turns)
        everything |= {f"{session}#{n}": turn for n, turn in enumerate(turns, start=1)}

    def fits(id: str) -> bool:
        turn, who = everything[id], given.get("speaker", turn_any)
        return (
            given.get("start", 0) <= turn.at < given.get("end", 1 << 40)
            and who in (turn_any, turn.speaker, turn.role)
            and given.get("session", id.split("#")[0]) == id.split("#")[0]
        )

    turn_any = ""
    found = await way(world.tiers, world.embedder, MemoryQuery(text="cello", k=50, **given))  # type: ignore[operator]
    ids = [hit.message_id for hit in found.hits]
    assert all(fits(id) for id in ids)
    assert {id for id, turn in everything.items() if fits(id) and "cello" in turn.text} <= set(ids)


# --- memories ------------------------------------------------------------------------------------


async def test_explicit_memories_are_among_the_hits(wordy: World) -> None:
    await wordy.say("talk", "We talked about parking.")
    await wordy.tiers.memories.save(
        Memory(id="m1", text="The parking permit is in the blue folder", source="talk#1", at=5)
    )
    hits = (await hybrid_search(wordy.tiers, None, MemoryQuery(text="where is the parking permit"))).hits
    assert [(hit.kind, hit.id, hit.message_id) for hit in hits] == [
        ("memory", "m1", "talk#1"),
        ("message", "", "talk#1"),
    ]


async def test_memories_take_at_most_a_third_and_never_the_place_of_a_filter(wordy: World) -> None:
    await wordy.say("talk", *[f"apples number {n}" for n in range(12)])
    for n in range(12):
        await wordy.tiers.memories.save(Memory(id=f"m{n}", text=f"apples, kept {n}"))
    hits = (await hybrid_search(wordy.tiers, None, MemoryQuery(text="apples", k=9))).hits
    assert sum(hit.kind == "memory" for hit in hits) == 3
    for query in (MemoryQuery(text="apples", session="talk"), MemoryQuery(text="apples", speaker="user")):
        assert {hit.kind for hit in (await hybrid_search(wordy.tiers, None, query)).hits} == {"message"}


async def test_workflows_are_not_shown_as_messages(wordy: World) -> None:
    await wordy.tiers.memories.save(Memory(id="w", text="deploy the gateway", tags=("workflow",)))
    assert await wordy.found("deploy the gateway") == []


# --- without vectors -----------------------------------------------------------------------------


class Failing(Concepts):
    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()  # it loads for ever
        raise AssertionError


TROUBLE = {
    "missing": (EmbedderMissing("vectors need a package; pip install it"), "pip install it"),
    "refused": (RateLimited("the API asks to slow down"), "slow down"),
    "silent": (None, "not ready yet"),
}


@needs_vectors
@pytest.mark.parametrize(("error", "reason"), TROUBLE.values(), ids=TROUBLE.keys())
async def test_without_a_vector_for_the_question_words_are_searched_and_it_is_said_why(
    world: World, error: Exception | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranker, "EMBED_TIMEOUT_S", 0.02)
    await world.say("talk", "The boiler is broken.", "A radiator is cold.")
    for way in (hybrid_search, semantic_search):
        found = await way(world.tiers, Failing(error), MemoryQuery(text="boiler"))
        assert found.hits[0].message_id == "talk#1"
        assert found.note.startswith("only full-text search was used")
        assert reason in found.note


async def test_where_there_are_no_vectors_it_is_said(wordy: World) -> None:
    await wordy.say("talk", "The boiler is broken.")
    for embedder in (None, Concepts()):
        for way in (hybrid_search, semantic_search):
            found = await way(wordy.tiers, embedder, MemoryQuery(text="boiler"))
            assert [hit.message_id for hit in found.hits] == ["talk#1"]
            assert found.note.startswith("only full-text search was used: there are no vectors here")
            assert "pip install -e '.[memory]'" in found.note


@needs_vectors
async def test_as_long_as_no_message_has_a_vector_it_is_said(world: World) -> None:
    world.embedder = None
    await world.say("talk", "The boiler is broken.")
    for use in (False, True):
        if use and world.tiers.vectors is not None:
            await world.tiers.vectors.set_model("test/concepts", len(MEANINGS))
        found = await hybrid_search(world.tiers, Concepts(), MemoryQuery(text="boiler"))
        assert [hit.message_id for hit in found.hits] == ["talk#1"]
        assert "no message has a vector yet" in found.note


@needs_vectors
async def test_while_the_vectors_are_another_models_words_are_searched(world: World) -> None:
    await world.say("talk", "The boiler is broken.")

    class Longer(Concepts):
        name = "test/longer"

        async def embed(self, texts: Sequence[str]) -> list[bytes]:
            return [array("f", [0.5] * 64).tobytes() for _ in texts]

    found = await hybrid_search(world.tiers, Longer(), MemoryQuery(text="boiler"))
    assert [hit.message_id for hit in found.hits] == ["talk#1"]
    assert "test/longer" in found.note


@needs_vectors
async def test_a_question_without_any_meaning_is_answered_by_words_and_needs_no_note(world: World) -> None:
    await world.say("talk", "Bring the kjhgf.")
    found = await hybrid_search(world.tiers, Concepts(), MemoryQuery(text="kjhgf"))
    assert ([hit.message_id for hit in found.hits], found.note) == (["talk#1"], "")


# --- meaning alone -------------------------------------------------------------------------------


@needs_vectors
async def test_semantic_ranks_by_cosine_and_needs_no_word(world: World) -> None:
    await world.say("talk", "puppy", "puppy and cello", "boiler", "the word hound-like is said here: hound")
    found = await semantic_search(world.tiers, world.embedder, MemoryQuery(text="terrier", k=3))
    assert [hit.message_id for hit in found.hits[:2]] == ["talk#1", "talk#4"]
    assert found.hits[0].score == pytest.approx(1.0, abs=0.02)
    assert found.hits[2].score < 0.8
    assert found.note == ""


# --- anything at all -----------------------------------------------------------------------------

HOSTILE = [
    *(
        "",
        " ",
        '"',
        "'; DROP TABLE messages; --",
        "NEAR(a b, 5)",
        "text:boiler",
        "-boiler",
        "boiler*",
        "((",
        "a AND OR NOT",
    ),
    *("\0boiler\0", "\x01\x02", "🎉", "the of and", "4711", "漢字", "\u202eboiler"),
    *("boiler " * 150_000, "x" * 1_000_000),
]


@needs_vectors
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_any_text_is_a_question(world: World, text: str) -> None:
    await world.say("talk", "The boiler is broken.", "4711", "漢字テスト", "the of and")
    found = await hybrid_search(world.tiers, world.embedder, MemoryQuery(text=text))
    if "boiler" in text:
        assert found.hits[0].message_id == "talk#1"
    await semantic_search(world.tiers, world.embedder, MemoryQuery(text=text))


# --- how much of a text is shown -----------------------------------------------------------------


async def test_of_a_long_message_the_part_with_the_words_is_shown(wordy: World) -> None:
    long = "filler and more. " * 2000 + "The permit for the parking is KX-1. " + "other filler. " * 2000
    await wordy.say("talk", long)
    (hit,) = (await hybrid_search(wordy.tiers, None, MemoryQuery(text="parking permit"))).hits
    assert len(hit.text) <= HIT_CHARS_MAX
    assert "KX-1" in hit.text
    assert hit.text[0] == hit.text[-1] == "…"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.text(max_size=40), st.integers(20, 200))
def test_a_clipped_text_is_a_part_of_it_and_bounded(text: str, asked: str, room: int) -> None:
    shown = clip_around_match(text, asked, room)
    assert len(shown) <= room
    if len(text) <= room:
        assert shown == text
    else:
        assert shown.removeprefix("…").removesuffix("…") in text


def test_the_place_with_most_of_the_words_is_preferred() -> None:
    text = "apple " + "x " * 300 + "apple pear plum" + " x" * 300
    assert "apple pear plum" in clip_around_match(text, "plum, pear and apple", 60)


# --- scores --------------------------------------------------------------------------------------

PLACES = st.tuples(st.sampled_from("ab"), st.integers(1, 9))
SPOTS = st.lists(st.builds(lambda place, score: MessageRef(*place, score), PLACES, st.floats(-5, 50)), max_size=12)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(PLACES, st.floats(0, 1), max_size=12), SPOTS, st.sampled_from([0.3, 1.0]))
def test_scores_stay_within_their_scale(
    words: dict[tuple[str, int], float], meant: list[MessageRef], trust: float
) -> None:
    own = fuse_scores(words, meant, trust)
    assert set(own) == set(words) | {(spot.session, spot.seq) for spot in meant}
    assert all(words.get(place, 0.0) <= score <= 1 + trust + 1e-9 for place, score in own.items())
    ranked = sorted(own.items(), key=lambda item: (-item[1], item[0]))
    around = [[MessageRef(place[0], seq) for seq in range(max(1, place[1] - 2), place[1] + 3)] for place, _ in ranked]
    scores = spread_to_neighbours(own, around)
    most = (1 + trust) * (1 + max(NEIGHBOUR_SHARES.values()))
    assert all(own.get(place, 0.0) <= score <= most + 1e-9 for place, score in scores.items())


def test_the_nearest_counts_fully_and_the_last_candidate_not_at_all() -> None:
    many = [MessageRef("a", n, 1 - n / 100) for n in range(41)]
    assert fuse_scores({}, many, 0.5) == pytest.approx({("a", n): 0.5 * (1 - n / 40) for n in range(41)})


def test_of_few_candidates_the_last_still_counts() -> None:
    few = fuse_scores({}, [MessageRef("a", 1, 0.9), MessageRef("a", 2, 0.8)], 0.5)
    assert few[("a", 1)] == 0.5
    assert 0.4 < few[("a", 2)] < 0.5
    assert fuse_scores({}, [MessageRef("a", 1, 0.4)], 0.5) == {("a", 1): 0.5}
    assert fuse_scores({}, [], 0.5) == {}


def test_a_match_is_worth_what_it_has_of_the_question() -> None:
    asked = QueryTerms("the red boats of Lisbon")
    read = {
        ("s", n): IndexedMessage("s", n, 0, "user", text)
        for n, text in enumerate(["red boat in Lisbon", "a boat", "party"])
    }
    half = score_text_matches(
        [MessageRef("s", 0, 8.0), MessageRef("s", 1, 4.0), MessageRef("s", 2, 2.0), MessageRef("s", 9, 9.0)],
        read,
        asked,
    )
    assert half[("s", 0)] == pytest.approx(8 / 9)
    assert half[("s", 1)] == pytest.approx(4 / 9 * (1 / 3) ** 1.5)
    assert half[("s", 2)] == pytest.approx(2 / 9 * 0.1**1.5), "the index knows more forms of a word than we do"
    assert set(half) == set(read), "what is gone is worth nothing"


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("art", "a party", 0.0),
        ("art", "the party was art", 1.0),
        ("running", "she runs", 1.0),
        ("Zürich", "ZÜRICH", 1.0),
        ("Straße naïve", "die STRASSE war naïf", 0.5),
        ("दिल्ली", "मेरा घर दिल्ली में", 1.0),
        ("marzipan", "é " * 9_000 + "marzipan", 1.0),
        ("北京", "我在北京大学", 1.0),
        ("config file", "parse_config(x)", 0.5),
        ("4711", "anything", 1.0),
        ("", "anything", 1.0),
    ],
)
def test_coverage_counts_words_by_their_beginnings(question: str, text: str, share: float) -> None:
    assert QueryTerms(question).coverage(text) == share
