"""States, rows and people that a call chooses although the user did not: `set it to 'offer'` sets no other stage, and
`fill it in for me` fills in nobody else's row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set

from mainstay.trust.record_names import find_own_addresses, stem_of
from mainstay.trust.request_vocabulary import can_name, read_sections, split_words
from mainstay.trust.requested_actions import iterate_requests, split_tool_name, words_of
from mainstay.trust.result_records import ResultRecord
from mainstay.trust.seen_content import SeenContent
from mainstay.trust.tool_invocation import iterate_texts

_TEXT_CHARS_MAX = 20_000
_CHOICE_WORDS_MAX = 3  # a longer text is content
_NAME_WORDS_MAX = 4
_STEM_LETTERS = 6
_STATE_NAMES = split_words(
    "state status stage phase priority severity urgency step estado etapa fase prioridad statut état étape priorité"
    " stato priorità stufe zustand stand priorität dringlichkeit prioridade fasi prioriteit"
)
_PEOPLE_NAMES = split_words(
    "person member user username attendee participant guest employee colleague assignee owner holder whom who customer"
    " client patient student voter player passenger name persona personne mitglied teilnehmer gast mitarbeiter kollege"
    " persoon membre participante miembro invitado invité ospite partecipante membro lid deelnemer nombre nom nome naam"
)
_ROW_NAMES = split_words("row rows zeile fila ligne riga linha rij seat platz")
_CONTENT_NAMES = split_words(
    "value text content contents body title comment note remark message subject description wert valeur valor valore"
)
_QUOTED = re.compile(
    r"(?<!\w)['\u2018\u201a\u201e\u201c\"\u00ab\u2039`]\s?([^'\u2018\u2019\u201c\u201d\"\u00bb\u203a`]{2,40}?)\s?['\u2019\u201c\u201d\u2018\"\u00bb\u203a`](?!\w)"
)
# `set it to offer`, `ponlo en oferta`, `setz es auf Angebot`
_SET_TO = re.compile(
    r"\b(?:set|put|move|change|mark|switch|turn|update|flag|pon\w*|pás\w*|pas[ae]\w*|cambi\w*|marc\w*|mets|mettez|setz\w*|stell\w*"
    r"|änder\w*|markier\w*|zet|verander\w*|mett\w*|impost\w*|spost\w*|põe|ponha|mud[ae]\w*|coloc\w*|deja\w*|laat)\b"
    r"[^.!?;\n]{0,60}?\s(?:to|as|into|auf|als|in|en|a|como|à|comme|sur|su|come|op|naar|para|em)\s['\"]?([^\W\d_]{3,})['\"]?"
    r"\s*(?:$|[.,!?;]|\s(?:if|when|once|wenn|falls|si|se|als|quand|cuando|quando|unless|setzen|stellen)\b)",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}")
_DAY_LETTERS = 3
_DAYS = frozenset(
    word[:_DAY_LETTERS] for name in ("weekdays", "months") for word in read_sections("calendar")[name].split()
)
_SCALES = tuple(
    tuple(map(split_words, scale.casefold().split("|")))
    for name in ("state_scales", "switch_scales")
    for scale in read_sections("sets")[name].splitlines()
)
_OWN_TOOLS = split_words("whoami me profile self myself")


def find_unstated_choice(
    arguments: Mapping[str, object], texts: Sequence[str], all_texts: Sequence[str], destinations: Sequence[str]
) -> str:
    """Return a state other than the one that the user stated, in any language: a value for a state that is not in their
    words; if they put the new value in quotation marks or after `set it to`, any short value instead of that."""
    clauses = [
        clause.text[clause.start : clause.end]
        for family in ("change", "create")
        for clause in iterate_requests(family, texts)
    ]
    texts = texts if clauses else all_texts  # `yes`
    said = {word for text in texts for word in words_of(text[:_TEXT_CHARS_MAX])}
    stated = _find_stated(texts)
    given = {word for value in arguments.values() for text in iterate_texts(value) for word in words_of(text)}
    has_stated = not stated or any(given.issuperset(words) or _fits_scale(given, set(words)) for words in stated)
    for name, value in arguments.items():
        if not isinstance(value, str) or value in destinations or not _is_choice(value):
            continue
        is_said = said.issuperset(words_of(value)) or _fits_scale(set(words_of(value)), said)
        is_state = not _STATE_NAMES.isdisjoint(split_tool_name(name))
        if is_state and stated and not any(_is_same(value, words) for words in stated) and not has_stated:
            return f"{name} {value}"  # also if the user wrote it elsewhere: `unless it is lost`
        if not is_state and value.casefold()[:_DAY_LETTERS] in _DAYS:
            continue  # dates are compared with those that the user stated
        if not is_said and (is_state or not has_stated):
            return f"{name} {value}"
    return ""


def find_other_person(
    arguments: Mapping[str, object],
    texts: Sequence[str],
    destinations: Sequence[str],
    seen: SeenContent,
    person: str,
    required: Collection[str],
) -> str:
    """Return the row or person of a change that is neither in the user's words nor the user's own name, nor in a record
    that the user described; also a value that chooses a row of what is changed, whatever its parameter is called."""
    said = {stem_of(word) for text in texts for word in words_of(text[:_TEXT_CHARS_MAX]) if can_name(word)}
    all_said = {word for text in texts for word in words_of(text[:_TEXT_CHARS_MAX])}
    own = _find_own_names(seen, person)
    rows = list(_find_rows(seen, destinations))
    for name, value in arguments.items():
        words = set(split_tool_name(name))
        if str(value) in destinations:
            continue
        is_row = not words.isdisjoint(_ROW_NAMES)
        is_person = not words.isdisjoint(_PEOPLE_NAMES)
        if is_row and isinstance(value, int) and not isinstance(value, bool):
            if str(value) not in all_said and not any(
                record.fields.get(name) == str(value) and _is_described(record, said, str(value)) for record in rows
            ):
                return f"{name} {value}"
            continue
        for text in iterate_texts(value):
            parts = words_of(text)
            if text in destinations or not 0 < len(parts) <= _NAME_WORDS_MAX or _ISO_DATE.match(text):
                continue
            if _is_said(parts, all_said) or own.issuperset(parts):
                continue
            if any(text in (record.id, *record.texts) and _is_described(record, said, text) for record in rows):
                continue
            holders = [
                record for record, result in seen.records() if result.is_trusted and text in (record.id, *record.texts)
            ]
            if any(_is_described(record, said, text) for record in holders):
                continue  # `assign it to my manager`
            is_selector = name in required and words.isdisjoint(_CONTENT_NAMES)
            chooses_row = is_selector and sum(text in record.texts for record in rows) == 1 < len(rows)
            if is_row or chooses_row or (is_person and _is_known(text, seen)):
                return f"{name} {text}"
    return ""


def _is_said(parts: Sequence[str], said: Set[str]) -> bool:
    """Return True if the user wrote a word of a name, or a longer form of it: `Nov` for `November`. Of words that name
    nothing by themselves (`Q4`), all count."""
    naming = [part for part in parts if can_name(part)]
    stems = {stem_of(word) for word in said}
    if naming:
        return any(
            stem_of(part) in stems or any(word.startswith(part) for word in said if not can_name(word))
            for part in naming
        )
    return all(part in said for part in parts)


def _find_stated(texts: Sequence[str]) -> list[list[str]]:
    """Return the words of the values that the user wants: in quotation marks, or after `set it to`."""
    quoted = [words_of(found[1]) for text in texts for found in _QUOTED.finditer(text[:_TEXT_CHARS_MAX])]
    after = [words_of(found[1]) for text in texts for found in _SET_TO.finditer(text[:_TEXT_CHARS_MAX])]
    return [words for words in quoted or after if words]


def _is_choice(value: str) -> bool:
    words = words_of(value)
    return 0 < len(words) <= _CHOICE_WORDS_MAX and not any(char.isdigit() for char in value) and "@" not in value


def _is_same(value: str, words: Sequence[str]) -> bool:
    return words_of(value) == list(words) or _fits_scale(set(words_of(value)), set(words))


def _fits_scale(value: Set[str], said: Set[str]) -> bool:
    """Return True if a level of a usual scale of states has both: `closed` and `schließ`."""
    return any(_is_in(value, level) and _is_in(said, level) for scale in _SCALES for level in scale)


def _is_in(words: Set[str], level: Set[str]) -> bool:
    if not words.isdisjoint(level):
        return True
    stems = tuple(word for word in level if len(word) >= _STEM_LETTERS)  # `schließe`
    return any(word.startswith(stems) for word in words)


def _find_rows(seen: SeenContent, destinations: Sequence[str]) -> Iterator[ResultRecord]:
    """Yield the records of what is changed: those that were read by the same destination."""
    for record, result in seen.records():
        given = set(iterate_texts(list(result.arguments.values())))
        if not result.is_own_action and not given.isdisjoint(destinations):
            yield record


def _is_described(record: ResultRecord, said: Set[str], value: str) -> bool:
    """Return True if the user's words describe a record, the value apart."""
    return not {stem_of(word) for word in record.words - set(words_of(value))}.isdisjoint(said)


def _is_known(text: str, seen: SeenContent) -> bool:
    folded = text.casefold()
    return any(folded in result.content.casefold() for result in seen.results if not result.is_own_action)


def _find_own_names(seen: SeenContent, person: str) -> frozenset[str]:
    """Return the words of the user's own names: of their account, their address, and their profile."""
    texts = [person.rpartition(":")[2], *find_own_addresses([record for record, _ in seen.records()])]
    for record, result in seen.records():
        if (
            result.is_trusted
            and result.tool is not None
            and not _OWN_TOOLS.isdisjoint(split_tool_name(result.tool.name))
        ):
            texts += record.texts
    return frozenset(word for text in texts for word in words_of(text.partition("@")[0]))
