"""Private data in a call that the user did not ask to send: a code of another mail in a message that was dictated.

A named destination says where data may go, not which data. What was read is divided into passages: an object of a
structured result, or a paragraph. A passage is related to the request if it shares a word with it, the words of the
destination apart, or if the call names it by its id. A text of the call must not repeat a passage that is unrelated: a
number or code of it, or two of its words that stand together in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise

import msgspec

from mainstay.core.tool_ports import only_reads
from mainstay.core.tools import default_of, required_names
from mainstay.trust.record_names import stem_of
from mainstay.trust.request_vocabulary import ENGLISH_VERBS, can_name, split_words
from mainstay.trust.requested_actions import refers_to_people, refers_to_things, tool_nouns, words_of
from mainstay.trust.seen_content import SeenContent, SeenResult, normalise_reader, parse_json
from mainstay.trust.tool_invocation import ToolInvocation, iterate_texts

_LINK_STEMS = frozenset(map(stem_of, ("link", "url", "website", "address", "adresse", "lien", "enlace")))
_PASSAGES_MAX = 2_000  # of one result; what follows belongs to the last one
_PASSAGE_CHARS_MAX = 20_000
_PARSED_MAX = 256  # results whose passages are remembered
_NEAR = 4  # words this close stand together
_CODE_CHARS_MIN = 3
_CODE = re.compile(r"(?=[^\s]*\d)[^\W_][\w.,'/#-]*[\w#]|\d{2,}")
# dates and times are compared with those that the user stated
_MOMENT = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?|\b\d{1,2}[:.h]\d{2}\b(?!\.\d)")
_ATTACHMENT = re.compile(r"attach|^files?$|file_?ids?$|documents?$", re.IGNORECASE)
_PERMISSION = re.compile(r"role|permission|access|scope|visibility|level", re.IGNORECASE)
_PERMISSION_WORDS = (
    ("writ", "edit", "chan", "modi", "upda", "bear", "schr", "änder", "modif", "cont"),
    ("read", "view", "see ", "look", "les", "anse", "lire", "voir", "ver ", "leer"),
    ("admi", "owne", "mana", "hand", "prop"),
    ("comm", "kommen"),
)
_CENTS = re.compile(r"[.,]0{1,2}$")
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th|er|am|pm|uhr|h|min|am)")
_SEPARATORS = re.compile(r"[\s.,'_/#-]")
# verbs, and nouns of every service, say nothing about a topic
_NO_TOPIC = frozenset(verb for verbs in ENGLISH_VERBS.values() for verb in verbs.split()) | split_words(
    "know going comes come look good thanks thank send sent event file document note name date title text body subject"
)


class Passage(msgspec.Struct, frozen=True, eq=False):
    """One object or paragraph of a result."""

    stems: frozenset[str]
    places: Mapping[str, tuple[int, ...]]  # where each word stands
    codes: frozenset[str]  # numbers and codes, without separators
    values: frozenset[str]  # short values, as destinations are compared
    has_link: bool


def find_unrelated_data(
    call: ToolInvocation,
    destinations: Sequence[str],
    seen: SeenContent,
    request_texts: Sequence[str],
    user_texts: Sequence[str],
) -> str:
    """Return what the texts of the call repeat from a private passage that the request is not about; empty: nothing."""
    texts = list(_iterate_content(call, destinations, user_texts))
    if not texts:
        return ""
    naming = user_texts if refers_to_things(request_texts) or refers_to_people(request_texts) else request_texts
    own = _Topic(naming, user_texts, destinations)
    related: list[Passage] = []
    unrelated: list[Passage] = []
    for result in seen.results:
        is_about_tool = result.is_public or result.is_own_action or own.names_tool(result)
        for passage in _parse_passages(result.content):
            (related if is_about_tool or own.is_about(passage) else unrelated).append(passage)
    known_codes = own.codes.union(*(passage.codes for passage in related))
    known_stems = own.stems.union(*(passage.stems for passage in related))
    for text in texts:
        if found := _find_repetition(text, unrelated, known_codes, known_stems):
            return found
    known_values = frozenset[str]().union(*(passage.values for passage in related))
    return _find_unrequested_option(call, destinations, user_texts, known_values, known_stems)


def _find_unrequested_option(
    call: ToolInvocation,
    destinations: Sequence[str],
    user_texts: Sequence[str],
    known_values: Set[str],
    known_stems: Set[str],
) -> str:
    """Return an optional argument that nothing accounts for: an attachment that is not related to the request, a
    permission that the user did not state, or a text without a single word of the user or of something related."""
    said = " ".join(user_texts).casefold()
    for name, value in call.arguments_by_name.items():
        if value is None or isinstance(value, bool) or value == default_of(call.tool.schema, name):
            continue
        if name in required_names(call.tool.schema):
            continue
        for text in iterate_texts(value):
            if text in destinations or not _MOMENT.sub("", text).strip() or text.casefold() in said:
                continue
            words = {stem_of(word) for word in words_of(text) if can_name(word)}
            if _ATTACHMENT.search(name):
                is_known = normalise_reader(text) in known_values
            elif _PERMISSION.search(name):
                is_known = any(word in said for word in _permission_words(text))
            else:
                is_known = not words or not isinstance(value, str) or not words.isdisjoint(known_stems)
            if not is_known:
                return text
    return ""


def _permission_words(text: str) -> Iterator[str]:
    """Yield the beginnings of the words by which users ask for a permission: `let her edit it` for `writer`."""
    for word in words_of(text):
        group = next((group for group in _PERMISSION_WORDS if word[:4] in group), (word[:4],))
        yield from group


class _Topic:
    """What the user's words are about, apart from the destination."""

    def __init__(self, texts: Sequence[str], user_texts: Sequence[str], destinations: Sequence[str]) -> None:
        place = {word for destination in destinations for word in words_of(destination)}
        words = [word for text in texts for word in words_of(text)]
        self._topic = frozenset(
            stem_of(word) for word in words if can_name(word) and word not in place and word not in _NO_TOPIC
        )
        self._said = frozenset(words)
        self._values = frozenset(map(normalise_reader, destinations))
        self.stems = frozenset(stem_of(word) for text in user_texts for word in words_of(text)) | {
            stem_of(word) for word in place
        }
        self.codes = frozenset(code for text in user_texts for code in iterate_codes(text))

    def names_tool(self, result: SeenResult) -> bool:
        """Return True if the request speaks of what the tool reads (`my mails`), or the arguments are its words."""
        if result.tool is None:
            return False
        if not tool_nouns(result.tool.name).isdisjoint(self._said):
            return True
        words = {word for text in iterate_texts(result.arguments) for word in words_of(text) if can_name(word)}
        return bool(words) and {stem_of(word) for word in words} <= self._topic

    def is_about(self, passage: Passage) -> bool:
        if passage.has_link and not self._topic.isdisjoint(_LINK_STEMS):
            return True  # `send the link to Bob`
        return not self._topic.isdisjoint(passage.stems) or not self._values.isdisjoint(passage.values)


def _iterate_content(call: ToolInvocation, destinations: Sequence[str], user_texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts of the call, without destinations and what the user wrote."""
    if only_reads(call.tool):
        return
    for value in call.arguments_by_name.values():  # numbers are compared with those that the user stated
        if isinstance(value, int | float) or value is None:
            continue
        for text in iterate_texts(value):
            if text not in destinations and text.strip() and not any(text in said for said in user_texts):
                yield text


def _find_repetition(text: str, passages: Sequence[Passage], known_codes: Set[str], known_stems: Set[str]) -> str:
    for code in iterate_codes(text):
        if code not in known_codes:
            return code
    words = words_of(text)
    fresh = [
        (place, word)
        for place, word in enumerate(words)
        if can_name(word) and stem_of(word) not in known_stems and not any(char.isdigit() for char in word)
    ]
    for (place, word), (next_place, other) in pairwise(fresh):
        if next_place - place <= _NEAR and any(_stand_together(word, other, passage) for passage in passages):
            return f"{word} {other}"
    return ""


def _stand_together(word: str, other: str, passage: Passage) -> bool:
    places, others = passage.places.get(word, ()), passage.places.get(other, ())
    return any(abs(place - another) <= _NEAR for place in places for another in others)


def iterate_codes(text: str) -> Iterator[str]:
    """Yield the numbers and codes of a text, without separators: `66,000` and `66000` are the same."""
    for match in _CODE.finditer(_MOMENT.sub(" ", text)):
        code = _SEPARATORS.sub("", _CENTS.sub("", match[0])).casefold()
        if len(code) >= _CODE_CHARS_MIN and not _ORDINAL.fullmatch(code):
            yield code


@lru_cache(maxsize=_PARSED_MAX)
def _parse_passages(content: str) -> tuple[Passage, ...]:
    value = parse_json(content)
    if isinstance(value, dict | list):
        items: Sequence[object] = value if isinstance(value, list) else [value]
        texts = [" \n ".join(_iterate_scalars(item)) for item in items[:_PASSAGES_MAX]]
    else:
        texts = re.split(r"\n\s*\n|\n(?=- )", content)[:_PASSAGES_MAX]
    return tuple(_build_passage(text[:_PASSAGE_CHARS_MAX]) for text in texts if text.strip())


def _iterate_scalars(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _iterate_scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _build_passage(text: str) -> Passage:
    words = words_of(text)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    return Passage(
        frozenset(stem_of(word) for word in words),
        {word: tuple(found) for word, found in places.items()},
        frozenset(iterate_codes(text)),
        frozenset(normalise_reader(line) for line in text.split(" \n ") if len(line) <= 200),
        "://" in text or "www." in text,
    )
