"""Which skills a message triggers: whole words in any language, or a skill's name."""

# ruff: noqa: RUF001 - words of many languages, some with letters that look like others

from __future__ import annotations

import time

import pytest

from mainstay.skills.keyword_matcher import (
    KEYWORDS_MAX,
    MESSAGE_CHARS_MAX,
    REQUESTED_MAX,
    KeywordMatcher,
    find_requested_skills,
    parse_keywords,
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("server deploy kubernetes", ("server", "deploy", "kubernetes")),
        ("server, deploy the app, k8s", ("server", "deploy the app", "k8s")),
        ('"blue green" deploy', ("blue green", "deploy")),
        ('deploy, "a, b", c', ("a, b", "deploy", "c")),
        ("部署、发布，上线", ("部署", "发布", "上线")),
        ("one\ntwo words\nthree", ("one", "two words", "three")),
        ("  one   one two ", ("one", "two")),
        (", ,; --", ()),
        ("", ()),
    ],
    ids=["spaces", "commas", "quotes", "quotes and commas", "chinese", "lines", "twice", "no words", "nothing"],
)
def test_keywords_are_separated_by_spaces_or_commas_and_held_together_by_quotes(
    written: str, read: tuple[str, ...]
) -> None:
    assert parse_keywords(written) == read


def test_there_is_a_bound_on_keywords() -> None:
    found = parse_keywords(" ".join(f"word{n}" for n in range(1000)) + " " + "x" * 10_000)
    assert len(found) == KEYWORDS_MAX
    assert len(parse_keywords("x" * 10_000)[0]) == 100


FITS = [
    ("deploy", "Please DEPLOY it."),
    ("deploy", "(deploy)"),
    ("deploy", "deploy-to-prod"),
    ("Deploy", "deploy"),
    ("blue green", "a Blue\n  green switch"),
    ("c++", "in C++, please"),
    ("c#", "C# code"),
    ("node.js", "with Node.js 22"),
    ("k8s", "our k8s"),
    ("straße", "in der STRASSE"),
    ("café", "cafe\u0301 au lait"),
    ("σίσυφος", "ΣΊΣΥΦΟΣ"),
    ("сервер", "наш Сервер упал"),
    ("部署", "请帮我部署这个服务"),
    ("docker", "使用docker部署"),
    ("サーバ", "本番のサーバを見て"),
    ("เซิร์ฟเวอร์", "ดูเซิร์ฟเวอร์หน่อย"),
    ("서버", "서버를 배포해줘"),
    ("API", "API를 호출해줘"),
    ("हिन्दी", "यह हिन्दी में है"),
    ("خادم", "هذا خادم جديد"),
    ("שרת", "יש שרת חדש"),
    ("server", "the server's log"),
]
DOES_NOT_FIT = [
    ("deploy", "redeploy it"),
    ("deploy", "deployment"),
    ("deploy", "deploy_to_prod"),
    ("deploy", "déploy"),
    ("blue green", "bluegreen"),
    ("blue green", "blue and green"),
    ("c++", "abc++"),
    ("node.js", "node.jsx"),
    ("café", "cafés"),
    ("cafe", "cafe\u0301"),
    ("сервер", "серверный"),
    ("हिन्द", "हिन्दी"),
    ("서버", "웹서버"),
    ("ops", "devops"),
    ("1", "10"),
]


@pytest.mark.parametrize(("word", "message"), FITS, ids=[f"{n}" for n in range(len(FITS))])
def test_a_keyword_is_found_as_a_word_of_its_own(word: str, message: str) -> None:
    assert KeywordMatcher({"s": parse_keywords(f'"{word}"')}).match(message) == {"s"}


@pytest.mark.parametrize(("word", "message"), DOES_NOT_FIT, ids=[f"{n}" for n in range(len(DOES_NOT_FIT))])
def test_a_keyword_is_not_found_inside_of_another_word(word: str, message: str) -> None:
    assert KeywordMatcher({"s": (word,)}).match(message) == frozenset()


def test_every_skill_is_found_that_has_a_word_in_it() -> None:
    keywords = KeywordMatcher({"a": ("one", "two"), "b": ("two",), "c": ("three",), "d": ()})
    assert keywords.match("Two, please") == {"a", "b"}
    assert keywords.match("nothing here") == frozenset()
    assert keywords.match("") == frozenset()


KNOWN = ("infra-ops", "pdf", "pdf-forms", "Git Helper", "données", "日本語")
ASKED = [
    ("use skill: infra-ops", ("infra-ops",)),
    ("Please USE SKILL: Infra-Ops now", ("infra-ops",)),
    ("use the skill pdf-forms", ("pdf-forms",)),
    ("use skill pdf.", ("pdf",)),
    ("use the pdf skill for this", ("pdf",)),
    ("use the `git helper` skill", ("Git Helper",)),
    ("use skills: pdf, infra-ops and git helper", ("pdf", "infra-ops", "Git Helper")),
    ("use skill: 'pdf' & \"infra-ops\"", ("pdf", "infra-ops")),
    ("use skill: Données", ("données",)),
    ("use skill：日本語", ("日本語",)),
    ("use skill: pdf. Then use skill: infra-ops", ("pdf", "infra-ops")),
    ("use skill: infra-ops, and then restart the server", ("infra-ops",)),
    ("use skill: no-such", ("no-such",)),
    ("use skill: nosuch", ("nosuch",)),
    ("use the skill `nosuch`", ("nosuch",)),
    ("use skill: pdf-form", ("pdf-form",)),
    ("use skills: pdf, docx and fix it", ("pdf", "docx")),
    ("use the skill to deploy", ()),
    ("use skill", ()),
    ("reuse skill: pdf", ()),
    ("use skillful: pdf", ()),
    ("we use the best skill we have", ()),
    ("what skills do you use?", ()),
    ("the pdf skill", ()),
]


@pytest.mark.parametrize(("message", "names"), ASKED, ids=[f"{n}" for n in range(len(ASKED))])
def test_a_skill_is_asked_for_by_name(message: str, names: tuple[str, ...]) -> None:
    """SIGIL-071"""
    assert find_requested_skills(message, KNOWN) == names


def test_a_message_asks_for_a_bounded_number_of_skills() -> None:
    message = "use skills: " + ", ".join(f"name-{n}" for n in range(100))
    assert len(find_requested_skills(message, ())) == REQUESTED_MAX


BIG = {
    "words": "alpha beta " * 90_000,
    "spaces": "use  " * 200_000,
    "lead-ins": "use skill " * 100_000,
    "named": "use the skill " * 70_000,
    "one word": "word1" * 200_000,
    "phrase": "zwei " * 200_000,
    "chinese": "部" * 300_000,
    "marks": "e\u0301" * 300_000,
    "skills": " skill" * 160_000,
}


@pytest.mark.parametrize("id", BIG)
def test_a_message_of_a_megabyte_is_matched_quickly(id: str) -> None:
    skills = {f"s{n}": (f"word{n}", f"zwei wörter{n}", f"部署{n}") for n in range(100)}
    keywords = KeywordMatcher(skills)
    began = time.process_time()
    keywords.match(BIG[id])
    find_requested_skills(BIG[id], skills)
    assert time.process_time() - began < 3


TAIL = "bcdefghijklmnopqrstuvwxyz" * 4
NEARLY = {
    "in other words": ("a z " + ("xa " + TAIL[:97] + "x ") * 10_000, ["a " + TAIL[:n] for n in range(1, 98)]),
    "again and again": ("a " * 500_000, ["a " * n + "b" for n in range(1, 48)]),
    "ends of each other": ("ba " * 300_000 + "a", ["a" + " ba" * n for n in range(30)] + ["a ba c"]),
    "chinese": ("部" * 300_000, ["部" * n + "署" for n in range(1, 98)]),
    "korean": (
        "가" * 300_000 + " 나",
        ["나" + "가" * n for n in range(1, 98)] + ["가" * n + "나" for n in range(1, 98)],
    ),
}


@pytest.mark.parametrize("id", NEARLY)
def test_keywords_that_nearly_fit_everywhere_cost_no_more_than_others(id: str) -> None:
    """F35: the author of the skill chose them so."""
    message, words = NEARLY[id]
    keywords = KeywordMatcher({f"k{number}": words for number in range(10)})
    began = time.process_time()
    keywords.match(message)
    assert time.process_time() - began < 1


def test_of_a_very_long_message_the_beginning_and_the_end_are_searched() -> None:
    keywords = KeywordMatcher({"first": ("alpha",), "middle": ("beta",), "last": ("gamma",), "cut": ("fi",)})
    half = "fill " * (MESSAGE_CHARS_MAX // 5)
    message = f"alpha use skill: one {half} beta use skill: two {half} use skill: three gamma"
    assert keywords.match(message) == {"first", "last"}
    assert find_requested_skills(message, ("one", "two", "three")) == ("one", "three")


def test_keywords_of_all_skills_have_a_bound_and_those_with_most_lose_theirs() -> None:
    """F35"""
    greedy = {f"a{number}": tuple(f"{number} {n} {'x' * 90}" for n in range(50)) for number in range(20)}
    keywords = KeywordMatcher({**greedy, "modest": ("deploy",)})
    assert keywords.match("deploy") == {"modest"}
    said = " ".join(words[0] for words in greedy.values())
    assert 0 < len(keywords.match(said)) < len(greedy)
