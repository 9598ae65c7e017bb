"""Private data in a call that the user did not ask to send: a code of another mail in a message that was dictated.

A named destination says where data may go, not which data. What was read is divided into passages: an object of a
structured result, a row, or a paragraph. A passage is related to the request if it shares a word with it, the words of
the destination apart, or if the call names it by its id. A text of the call must not repeat a passage that is
unrelated: a number or code of it, or two of its words that stand together in both. If the user dictated what to say, it
may repeat only what the recipient wrote or everybody may know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import combinations, pairwise

import msgspec

from mainstay.core.tool_ports import only_reads
from mainstay.core.tools import default_of, required_names
from mainstay.trust.message_places import find_recipients, find_rooms
from mainstay.trust.record_names import stem_of
from mainstay.trust.request_verbs import ENGLISH_VERBS
from mainstay.trust.request_vocabulary import can_name, read_words, split_words
from mainstay.trust.requested_actions import (
    find_tool_action,
    is_content_dictated,
    iterate_requests,
    lists_things,
    refers_to_people,
    refers_to_things,
    tool_nouns,
    words_of,
)
from mainstay.trust.result_records import ResultRecord, normalise_reader
from mainstay.trust.seen_content import SeenContent, SeenResult, parse_json
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
_YEAR = re.compile(r"20[23]\d")  # tells nothing
# what leads people elsewhere: links, mail addresses, phone numbers
_CONTACT = re.compile(
    r"(?:https?://|www\.)[^\s<>\"')\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w.])\+\d[\d ()/-]{6,}\d"
    r"|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|example|info|biz|app|dev|ru|cn|xyz)\b(?:/[^\s<>\"')\]]*)?",
    re.IGNORECASE,
)
_CONTACT_STEMS = frozenset(map(stem_of, read_words("outgoing_content_contact_stems")))
_REFERENCE = re.compile(r"(?=\S*\d)[\w.#:/-]{2,64}")  # the id of a thing
_PLAIN_NUMBER = re.compile(r"\d[\d.,']*")
# `make a note of the days of the permit` asks for a text with a date
_VALUE_WANTED = re.compile(
    r"\bthe (?:days?|dates?|times?|hours?|prices?|costs?|amounts?|totals?|numbers?|deadlines?)\b"
    r"|\b(?:die tage|das datum|die uhrzeit|den (?:preis|betrag|termin)|les dates|le prix|la fecha|el precio)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"\d|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|one|two|three|four|five|six|seven|eight|nine|ten"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|heute|morgen)",
    re.IGNORECASE,
)
_ATTACHMENT = re.compile(r"attach|^files?$|file_?ids?$|documents?$", re.IGNORECASE)
_PERMISSION = re.compile(r"role|permission|access|scope|visibility|level", re.IGNORECASE)
_PERMISSION_WORDS = (
    ("writ", "edit", "chan", "modi", "upda", "bear", "schr", "änder", "modif", "cont"),
    ("read", "view", "see ", "look", "les", "anse", "lire", "voir", "ver ", "leer"),
    ("admi", "owne", "mana", "hand", "prop"),
    ("comm", "kommen"),
)
_EVERYONE = read_words("outgoing_content_everyone")
_RANGE = re.compile(r"(?<![\w.,/-])(\d{1,4})[-\u2013/](\d{1,4})(?![\w/-]|[.,]\d)")
_TOTAL = re.compile(
    r"\b(?:totals?|sums?|altogether|overall|add up|in all|insgesamt|summe|gesamt\w*|zusammen|zusammengerechnet|totaux"
    r"|somme|en tout|suma|en total|totale|somma|in tutto|totaal|samen|soma)\b",
    re.IGNORECASE,
)
_SUMMED_MAX = 8  # records of a result; more have sums of any kind
_CENTS = re.compile(r"[.,]0{1,2}$")
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th|er|am|pm|uhr|h|min|am)")
_SEPARATORS = re.compile(r"[\s.,'_/#-]")
# verbs, and nouns of every service, say nothing about a topic
_NO_TOPIC = frozenset(verb for verbs in ENGLISH_VERBS.values() for verb in verbs.split()) | split_words(
    "know going comes come look good thanks thank send sent event file document note name date title text body subject"
)


# the request asks for a text in another language, whose words are not the user's
_LANGUAGE = re.compile(
    r"\b(?:in|into|auf|ins|en|in het|em)\s+(?:english|german|french|spanish|italian|dutch|portuguese|englisch|deutsch"
    r"|französisch|spanisch|italienisch|niederländisch|portugiesisch|anglais|allemand|français|espagnol|italien"
    r"|néerlandais|inglés|alemán|francés|español|italiano|inglese|tedesco|francese|spagnolo|engels|duits|frans|spaans"
    r"|italiaans|nederlands|inglês|alemão|francês|espanhol|português)\b",
    re.IGNORECASE,
)
_PERSON_PARAMETER = re.compile(
    r"(?:passenger|guest|traveller|traveler|holder|recipient)s?_?(?:name)?$|^name$", re.IGNORECASE
)
_ADDITION = re.compile(
    r"\b(?:add|append|insert|fix|correct|typo|note|include|ergänz\w*|füg\w*|korrigier\w*|ajout\w*|corrig\w*|añad\w*"
    r"|agreg\w*|aggiung\w*|correggi\w*|voeg|adicion\w*)\b",
    re.IGNORECASE,
)
_KEPT_SHARE = 0.5  # of the lines of a file that something is added to or corrected in


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
    """Return what the texts of the call repeat from a private passage that the request is not about, or what else in
    them the request does not account for; empty: nothing."""
    texts = list(_iterate_content(call, destinations, user_texts))
    if found := _find_foreign_name(call, seen, user_texts) or _find_lost_content(
        call, destinations, seen, request_texts
    ):
        return found
    if not texts and not any(value is True for value in call.arguments_by_name.values()):
        return ""
    naming = user_texts if refers_to_things(request_texts) or refers_to_people(request_texts) else request_texts
    own = _Topic(naming, user_texts, destinations, has_room=bool(find_rooms(call)))
    is_dictated = is_content_dictated(request_texts)
    is_translated = any(map(_LANGUAGE.search, request_texts))
    related: list[Passage] = []
    unrelated: list[Passage] = []
    sendable: list[Passage] = []  # what the texts may repeat
    requested: dict[str, frozenset[str]] = {}  # the ids of things that the request is about, with the nouns for them
    for result, records in _group_records(seen):
        arguments = list(iterate_texts(list(result.arguments.values())))
        is_same_place = bool(destinations) and set(destinations) <= set(arguments)
        is_about_tool = result.is_public or result.is_own_action or is_same_place or own.names_tool(result)
        meant = own.find_requested(result, records)
        nouns = tool_nouns(result.tool.name) if result.tool is not None else frozenset[str]()
        is_read_later = any(not nouns.isdisjoint(requested.get(argument, ())) for argument in arguments)
        is_about_tool = is_about_tool or len(meant) == len(records) == 1 or is_read_later
        requested |= dict.fromkeys(meant, nouns)
        passages = _parse_passages(result.content)
        of_recipient = [passage for passage in passages if own.is_of_recipient(passage)]
        if len(of_recipient) == 1:  # the mail that is answered, not a room with messages of many
            own.recipient_stems |= of_recipient[0].stems
        for passage in passages:
            is_related = is_about_tool or own.is_about(passage)
            is_known = result.is_public or result.is_own_action or is_same_place or own.is_of_recipient(passage)
            may_repeat = is_known if is_dictated else is_related
            if is_related:
                related.append(passage)
            (sendable if may_repeat else unrelated).append(passage)
    known_codes = own.codes.union(*(passage.codes for passage in sendable))
    sums = _find_sums(seen, request_texts)
    known_codes |= sums
    known_numbers = own.said.union(*(passage.places for passage in sendable))
    known_stems = own.stems.union(*(passage.stems for passage in sendable))
    for text in texts:
        if found := own.find_contact(text) or _find_repetition(
            text, unrelated, known_codes, known_numbers, known_stems
        ):
            return found
        if is_dictated and not is_translated and (found := own.find_added_sentence(text)):
            return found
    known_values = frozenset[str]().union(*(passage.values for passage in related))
    related_codes = own.codes.union(sums, *(passage.codes for passage in related))
    if found := _find_unrelated_reference(call, destinations, user_texts, known_values, related_codes):
        return found
    return _find_unrequested_option(call, destinations, user_texts, known_values, known_stems)


def _find_sums(seen: SeenContent, texts: Sequence[str]) -> frozenset[str]:
    """Return the sums of a numeric field of a few records that a planned call found, as codes, if the user asks for a
    total."""
    if not any(map(_TOTAL.search, texts)):
        return frozenset()
    found: set[str] = set()
    for result, records in _group_records(seen):
        if not result.is_planned or result.is_own_action or not 2 <= len(records) <= _SUMMED_MAX:
            continue
        for name in {name for record in records for name in record.fields}:
            values = [
                number for record in records if (number := _parse_number(record.fields.get(name, ""))) is not None
            ]
            for count in range(2, len(values) + 1):
                sums = {sum(chosen) for chosen in combinations(values, count)}
                found.update(code for total in sums for text in (f"{abs(total):.2f}",) for code in iterate_codes(text))
    return frozenset(found)


def _parse_number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?\d{1,9}(?:\.\d{1,2})?", text) else None


def _group_records(seen: SeenContent) -> Iterator[tuple[SeenResult, list[ResultRecord]]]:
    """Yield the results with their records, in order."""
    records: dict[int, list[ResultRecord]] = {}
    for record, result in seen.records():
        records.setdefault(id(result), []).append(record)
    for result in seen.results:
        yield result, records.get(id(result), [])


def _find_foreign_name(call: ToolInvocation, seen: SeenContent, user_texts: Sequence[str]) -> str:
    """Return the name of a person in a booking that is neither the user's words nor in the user's own data, but stands
    in content from outside."""
    if find_tool_action(call.tool.name) != "book":
        return ""
    said = {word for text in user_texts for word in words_of(text)}
    for name, value in call.arguments_by_name.items():
        if not isinstance(value, str) or not _PERSON_PARAMETER.search(name) or said.issuperset(words_of(value)):
            continue
        holders = [result for result in seen.results if value.casefold() in result.content.casefold()]
        if holders and not any(result.is_trusted for result in holders):
            return value
    return ""


def _find_lost_content(
    call: ToolInvocation, destinations: Sequence[str], seen: SeenContent, request_texts: Sequence[str]
) -> str:
    """Return a line that a file had when it was read and that the call would drop with most others, although the user
    asked for an addition or a correction."""
    if not destinations or not any(map(_ADDITION.search, request_texts)):
        return ""
    name = set(words_of(call.tool.name))
    if not name.isdisjoint(("append", "add", "insert", "comment", "reply", "send")) or only_reads(call.tool):
        return ""
    texts = [
        text for value in call.arguments_by_name.values() for text in iterate_texts(value) if text not in destinations
    ]
    for result in seen.results:
        if result.is_own_action or not set(destinations) <= set(iterate_texts(list(result.arguments.values()))):
            continue
        lines = [line.strip() for line in result.content.splitlines() if line.strip()]
        is_text = not isinstance(parse_json(result.content), dict | list)
        kept = sum(any(line in text for text in texts) for line in lines)
        if is_text and lines and kept < _KEPT_SHARE * len(lines) and len(lines) > 1:
            return next(line for line in lines if not any(line in text for text in texts))
        if is_text and texts and not "".join(texts).strip():
            return lines[0] if lines else ""
    return ""


def find_added_contact(call: ToolInvocation, request_texts: Sequence[str], user_texts: Sequence[str]) -> str:
    """Return a link, mail address or phone number in a new thing of the user's own that the user did not ask for; or
    its text if the user asked for a number or date, and it has none."""
    own = _Topic(request_texts, user_texts, ())
    texts = [text for text in _iterate_content(call, (), user_texts) if not _CONTACT.fullmatch(text)]
    if texts and any(map(_VALUE_WANTED.search, request_texts)) and not any(map(_VALUE.search, texts)):
        return texts[-1]
    return next((found for text in texts if (found := own.find_contact(text))), "")


def _find_unrelated_reference(
    call: ToolInvocation,
    destinations: Sequence[str],
    user_texts: Sequence[str],
    known_values: Set[str],
    known_codes: Set[str],
) -> str:
    """Return the id of a thing that its tool does not declare as a destination, and that no related record has. A plain
    number may also stand in a related text."""
    said = " ".join(user_texts)
    for name in required_names(call.tool.schema):
        value = call.arguments_by_name.get(name)
        if not isinstance(value, str) or value in destinations or _MOMENT.fullmatch(value) or value in said:
            continue
        if not _REFERENCE.fullmatch(value) or normalise_reader(value) in known_values:
            continue
        codes = set(iterate_codes(value)) if _PLAIN_NUMBER.fullmatch(value) else set()
        if not codes or not codes <= known_codes:
            return value
    return ""


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
    said_stems = {stem_of(word) for word in words_of(said)}
    for name, value in call.arguments_by_name.items():
        if value is None or value is False or value == default_of(call.tool.schema, name):
            continue
        if value is True:  # `reply_all`
            if said_stems.isdisjoint(stem for word in words_of(name) for stem in _switch_stems(word)):
                return name
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
            elif find_tool_action(call.tool.name) in _PLAIN_ACTIONS and isinstance(value, str):
                is_known = 2 * len(words & said_stems) >= len(words)
            else:
                is_known = not words or not isinstance(value, str) or not words.isdisjoint(known_stems)
            if not is_known:
                return text
    return ""


def _switch_stems(word: str) -> Iterator[str]:
    yield stem_of(word)
    if word in _EVERYONE:
        yield from map(stem_of, _EVERYONE)


def _permission_words(text: str) -> Iterator[str]:
    """Yield the beginnings of the words by which users ask for a permission: `let her edit it` for `writer`."""
    for word in words_of(text):
        group = next((group for group in _PERMISSION_WORDS if word[:4] in group), (word[:4],))
        yield from group


_TOKENS = re.compile(r"[^\W_]+")
_SENTENCES = re.compile(r"[.!?;]\s+|\n")
_ADDED_WORDS_MIN = 2
_FORMULAS = read_words("outgoing_content_formulas")
_PLAIN_ACTIONS = frozenset(("decide", "book"))  # no message: a text beside them is an addition


class _Topic:
    """What the user's words are about, apart from the destination."""

    def __init__(
        self, texts: Sequence[str], user_texts: Sequence[str], destinations: Sequence[str], *, has_room: bool = False
    ) -> None:
        place = {word for destination in destinations for word in words_of(destination)}
        # `mail our CEO`: what she wrote elsewhere is not related by that
        clauses = (clause.text[clause.start : clause.end] for clause in iterate_requests("send", texts))
        recipients = {word for part in clauses for word in find_recipients(part)} if has_room else set[str]()
        words = [word for text in texts for word in words_of(text)]
        self._topic = frozenset(
            stem_of(word)
            for word in words
            if can_name(word) and word not in place and word not in recipients and word not in _NO_TOPIC
        )
        self.said = frozenset(words)
        self._text = "\n".join(user_texts)
        self.recipient_stems: frozenset[str] = frozenset()  # of what the recipient wrote
        self._values = frozenset(map(normalise_reader, destinations))
        self.stems = frozenset(stem_of(word) for text in user_texts for word in words_of(text)) | {
            stem_of(word) for word in place
        }
        self.codes = frozenset(code for text in user_texts for code in iterate_codes(text))

    def is_of_recipient(self, passage: Passage) -> bool:
        """Return True if the passage has a destination of the call: its author knows it."""
        return not self._values.isdisjoint(passage.values)

    def find_added_sentence(self, text: str) -> str:
        """Return a sentence of a dictated message without any word of the user or recipient, formulas apart, or with a
        number of neither."""
        known_stems = self.stems | self.recipient_stems
        for sentence in _SENTENCES.split(_MOMENT.sub(" ", text)):
            words = _TOKENS.findall(sentence)
            naming = [
                word.casefold() for word in words if can_name(word.casefold()) or len(word) == 1 or word.isdecimal()
            ]
            known = [word for word in naming if word in self.said or stem_of(word) in known_stems or word in _FORMULAS]
            has_number = any(word.isdecimal() and len(word) > 1 and word not in known for word in naming)
            if has_number or (not known and len(naming) >= _ADDED_WORDS_MIN):
                return sentence.strip()
        return ""

    def find_contact(self, text: str) -> str:
        """Return a link, mail address or phone number that the user did not write, unless the request is about such."""
        for found in _CONTACT.finditer(text):
            wanted = _CONTACT_STEMS if "@" in found[0] or found[0].startswith("+") else _LINK_STEMS
            if found[0].rstrip(".") not in self._text and self._topic.isdisjoint(wanted):
                return found[0]
        return ""

    def names_tool(self, result: SeenResult) -> bool:
        """Return True if the request speaks of what the tool reads (`my mails`), or the arguments by which one thing
        was read are its words."""
        if result.tool is None:
            return False
        if not tool_nouns(result.tool.name).isdisjoint(self.said):
            return True
        if result.has_records or lists_things(result.tool.name):
            return False  # what else a search returns is not meant
        arguments = list(result.arguments.values())
        words = {word for text in iterate_texts(arguments) for word in words_of(text) if can_name(word)}
        return bool(words) and {stem_of(word) for word in words} <= self._topic

    def find_requested(self, result: SeenResult, records: Sequence[ResultRecord]) -> frozenset[str]:
        """Return the id of the thing that a planned call found and that the request is about: the only one, or the one
        with most of its words. What is read of it later belongs to the request."""
        if result.is_own_action or not (result.is_planned or self._has_said(result)):
            return frozenset()
        scores = {
            record.id: len(self._topic & {stem_of(word) for word in (*record.words, *words_of(record.id))})
            for record in records
            if record.id
        }
        best = max(scores.values(), default=0)
        chosen = [id for id, score in scores.items() if score == best]
        return frozenset(chosen) if len(chosen) == 1 and (best or len(records) == 1) else frozenset()

    def _has_said(self, result: SeenResult) -> bool:
        """Return True if the arguments of a call are words of the user."""
        words = {word for text in iterate_texts(list(result.arguments.values())) for word in words_of(text)}
        return bool(words) and words <= self.said

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


def _find_repetition(
    text: str, passages: Sequence[Passage], known_codes: Set[str], known_numbers: Set[str], known_stems: Set[str]
) -> str:
    ranges = {first + last for first, last in _RANGE.findall(text) if {first, last} <= known_numbers}  # `10-16`
    for code in iterate_codes(text):
        if code not in known_codes and code not in ranges:
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
        if len(code) >= _CODE_CHARS_MIN and not _ORDINAL.fullmatch(code) and not _YEAR.fullmatch(code):
            yield code


@lru_cache(maxsize=_PARSED_MAX)
def _parse_passages(content: str) -> tuple[Passage, ...]:
    value = parse_json(content)
    if isinstance(value, dict | list):
        items: Sequence[object] = value if isinstance(value, list) else [value]
        texts = [" \n ".join(_iterate_scalars(item)) for item in items[:_PASSAGES_MAX]]
    else:
        texts = re.split(r"\n\s*\n|\n(?=- )", content)
        # each row of a table is a passage, with its cells as values
        texts = [part for text in texts for part in (text.splitlines() if " | " in text else (text,))][:_PASSAGES_MAX]
        texts = [text.replace(" | ", " \n ") for text in texts]
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
