"""Words for the full-text index, against a real one."""

from __future__ import annotations

import base64
import random
import time

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.store.sqlite.full_text import (
    INDEXED_CHARS_MAX,
    STOP_WORDS,
    TERMS_MAX,
    TOKENIZER,
    build_match_query,
    extract_terms,
    to_index_text,
)


class Index:
    """A real full-text index of the given texts."""

    def __init__(self, *texts: str) -> None:
        self.db = apsw.Connection(":memory:")
        self.db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = '{TOKENIZER}')")
        for text in texts:
            self.db.execute("INSERT INTO words (text) VALUES (?)", (to_index_text(text),))

    def find(self, question: str) -> list[int]:
        """Which texts, from 0, the best first."""
        asked = build_match_query(question)
        if not asked:
            return []
        rows = self.db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank", (asked,))
        return [int(row[0]) - 1 for row in rows]  # type: ignore[call-overload]


def test_other_forms_of_a_word_are_found() -> None:
    index = Index("We deployed the gateways on Friday.", "Nothing to see here.")
    assert index.find("deploying a gateway") == [0]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我昨天在北京大学见到了李老师", "北京"),
        ("我昨天在北京大学见到了李老师", "大学老师"),
        ("私は東京に住んでいます", "東京のどこ"),
        ("犬が好きだ", "犬"),
        ("好きなのは犬", "犬"),
        ("우리는 학교에서 만났다", "학교"),
        ("ฉันอยู่ที่กรุงเทพ", "กรุงเทพ"),
        ("मेरा घर दिल्ली में है", "दिल्ली"),
        ("Das Büro ist in Zürich", "zurich"),
        ("naïve café", "Naive CAFE"),
        ("cafe\u0301 au lait", "café"),
        ("\ufb01ne \uff57\uff49\uff44\uff45 letters", "fine wide"),
        ("Встреча в Москве", "москве"),
        ("بيتنا في القاهرة", "القاهرة"),
        ("Version 漢字abc mixed", "abc"),
    ],
)
def test_every_script_is_found(text: str, question: str) -> None:
    index = Index("something else entirely", text, "さようなら 안녕히 লাল")
    assert index.find(question) == [1]


def test_stop_words_are_dropped_unless_nothing_else_is_left() -> None:
    assert extract_terms("What is the name of our dog?") == ["name", "dog"]
    assert extract_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert extract_terms("I") == ["I"]


def test_a_stop_word_of_one_language_is_a_word_in_another() -> None:
    assert extract_terms("Did anyone die in the war?") == ["anyone", "die", "war"]
    assert extract_terms("Wann war die Hochzeit von Anna?") == ["Hochzeit", "Anna"]
    assert extract_terms("où est la gare de Lyon") == ["gare", "Lyon"]
    assert extract_terms("¿dónde está la llave de la casa?") == ["llave", "casa"]


def test_numbers_and_ids_are_looked_for_in_their_parts() -> None:
    index = Index("the claim is KX-4711-B, filed on 2024-03-09", "the claim was withdrawn")
    assert index.find("KX-4711-B") == [0]
    assert index.find("2024-03-09") == [0]
    assert index.find("claim 4711")[0] == 0
    assert index.find("7") == []
    assert Index("we are 7 people").find("7") == [0]


def test_a_long_question_keeps_its_names_numbers_and_long_words() -> None:
    question = " ".join(f"word{chr(97 + n)}" for n in range(26)) + " Lisbon 4711 " + "ab cd ef gh " * 40
    kept = extract_terms(question)
    assert len(kept) == TERMS_MAX
    assert {"Lisbon", "4711"} <= set(kept)
    assert not {"ab", "cd"} & set(kept)
    assert kept == sorted(kept, key=question.index), "in the order of the question"


HOSTILE = {
    "nothing": "",
    "blank": " \t\n ",
    "quotes": '"""',
    "half a phrase": '"half a phrase',
    "operators": "AND OR NOT NEAR",
    "near": "NEAR(cat dog, 5)",
    "a column": "text:cat",
    "columns": "{text other} : cat",
    "a minus": "-cat",
    "a caret": "^cat",
    "a star": "cat*",
    "brackets": "((((cat))",
    "a plus": "cat + dog",
    "sql": "'; DROP TABLE words; --",
    "nul": "cat\0dog",
    "controls": "".join(map(chr, range(32))) + "cat",
    "half a pair": "\ud800cat\udfff",
    "combining": "\u0301" * 50,
    "emoji": "🎉🎉",
    "bidi": "\u202ecat\u2066",
}


@pytest.mark.parametrize("question", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_in_a_question_is_syntax(question: str) -> None:
    index = Index("the cat and the dog are near", "unrelated")
    found = index.find(question)
    assert 1 not in found
    assert (0 in found) == ("cat" in question or "NEAR" in question)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec=None), max_size=80))
def test_any_text_is_a_question_and_any_text_can_be_kept(text: str) -> None:
    Index(text).find(text)


@settings(max_examples=300, deadline=None)
@given(st.text("abc XYZ é ß 漢字かな한국 ไทย 42 -_.\"'*():\0", min_size=1, max_size=60))
def test_a_message_is_found_by_its_own_text(text: str) -> None:
    if extract_terms(text):
        assert Index(text).find(text) == [0]


def test_a_megabyte_is_indexed_quickly() -> None:
    chance = random.Random(3)
    words = ["".join(chance.choices("abcdefghijklmnop", k=8)) for _ in range(2000)]
    for text in (
        " ".join(chance.choices(words, k=120_000)),
        "漢" * 1_000_000,
        "a" * 1_000_000,
        '"' * 1_000_000,
        "é" * 1_000_000,
        "a-" * 500_000,
        base64.b64encode(chance.randbytes(750_000)).decode(),
    ):
        began = time.process_time()
        asked, kept = build_match_query(text), to_index_text(text)
        assert time.process_time() - began < 0.5
        assert len(asked) < 2_000
        assert len(kept) <= INDEXED_CHARS_MAX * 4


def test_of_a_very_long_text_the_beginning_and_the_end_are_found() -> None:
    index = Index("alpha " + "filler " * 50_000 + "middlemost " + "filler " * 50_000 + "omega")
    assert index.find("alpha") == [0]
    assert index.find("omega") == [0]
    assert index.find("middlemost") == []


def test_encoded_junk_does_not_get_into_the_index_but_what_stands_around_it_does() -> None:
    chance = random.Random(4)
    blob = base64.b64encode(chance.randbytes(30_000)).decode()
    wrapped = "\n".join(blob[at : at + 76] for at in range(0, len(blob), 76))
    for junk in (blob, wrapped, blob.replace("+", "-").replace("/", "_"), chance.randbytes(20_000).hex()):
        kept = to_index_text(f"certificate {junk} attached")
        assert len(kept) < len(junk) / 10
        assert Index(f"certificate {junk} attached").find("attached certificate") == [0]


def test_paths_slugs_and_digests_stay() -> None:
    slug = "/blog/how-to-bake-a-very-good-sourdough-bread-in-an-old-iron-pot-at-home"
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    index = Index(f"see {slug}", f"sha256 {digest}")
    assert index.find("sourdough iron pot") == [0]
    assert index.find(digest) == [1]


def test_stop_words_are_lower_case_words() -> None:
    for language, words in STOP_WORDS.items():
        assert all(word == word.lower() and word.isalpha() for word in words), language
