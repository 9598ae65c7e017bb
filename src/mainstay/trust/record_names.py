"""Which records of tool results a user's clause names: by a title, a date, a person, or a word that only one has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from mainstay.trust.request_verbs import ENGLISH_VERBS
from mainstay.trust.request_vocabulary import can_name, split_words
from mainstay.trust.requested_actions import (
    find_dates,
    find_recipient_words,
    refers_to_people,
    words_of,
)
from mainstay.trust.result_records import ResultRecord, normalise_reader

_UNIQUE_WORD_LETTERS_MIN = 4
_CAPITAL = re.compile(r"\b[A-ZÄÖÜÉ][^\W\d_]{2,}")
_LOCATION = re.compile(
    r"\b(?:in|inside|within|from|im|in der|aus|dans|en|de|nel|nella|uit)\s"
    r"(?:the |my |our |la |le |el |der |dem )?(\w+)",
    re.IGNORECASE,
)
_STEM_LETTERS = 5
_DESCRIPTION_MARGIN = 1.5  # how much better the best description must be
_AUTHORS = ("sender", "from", "author", "organizer", "organiser", "owner")
_OWN_RECORDS_MIN = 3
_OWN_ADDRESS_SHARE = 0.6  # an address in so many of the records is the user's own
_NO_NAMES = frozenset(verb for verbs in ENGLISH_VERBS.values() for verb in verbs.split()) | split_words(
    "them him her everyone everybody back sender author participants attendees guests summary"
)
_COMPARISONS = split_words("before after than like as until vor nach wie als avant après antes después comme como")
_LEFT_OUT = re.compile(
    r"\b(?:except(?: for)?|excluding|apart from|other than|but (?:not|keep|leave)|keep|leave out|spare"
    r"|au(?:ß|ss)er|bis auf|behalte?|sauf|garde[rz]?|excepto|salvo|menos|tranne|eccetto|tieni|mantén"
    r"|behalve|houd|bewaar)\s"
    r"([^.!?;\n]*)",
    re.IGNORECASE,
)
_COUNTS = ("two", "three", "four", "five")
_PLURAL = re.compile(
    r"\b(?:all|every|each|any|both|two|three|four|five|everything|beide[n]?|zwei|drei|les deux|ambos"
    r"|entrambi|alle|allen|jede[nrs]?|sämtliche|tous|toutes|chaque|todos|todas|cada"
    r"|tutti|tutte)\b"
    r"|\b(?:the|my|our|die|les|los|las|mes|mis|meine)\s(?:\w+\s)?[^\W\d_]{3,}(?:s|en)\b",
    re.IGNORECASE,
)


def find_left_out(records: Sequence[ResultRecord], text: str) -> frozenset[str] | None:
    """Return the ids of the records that a text leaves out (`cancel all but keep the dentist`); None if it leaves out
    something that no record has."""
    excluded: set[str] = set()
    for found in _LEFT_OUT.finditer(text):
        stems = {stem_of(word.removesuffix("s")) for word in words_of(found[1]) if can_name(word)}
        ids = {record.id for record in records if not stems.isdisjoint(map(stem_of, record.words))}
        if stems and not ids:
            return None
        excluded |= ids
    return frozenset(excluded)


def name_records(records: Sequence[ResultRecord], part: str, action: str) -> frozenset[str]:
    """Return the ids of the records that a clause names, for an action of this family.

    A record is named by one of its texts or its date. A name that several records share names all of them in the plural
    (`the tickets that are fixed`), otherwise none. For a message, a person names their records (`answer Grace`). A part
    of a name is enough if nothing else is named and only one record contains it.
    """
    said = words_of(part)
    # `delete the scans in Inbox`: what is in that folder is not named by it
    located = (
        {word for found in _LOCATION.finditer(part) for word in words_of(found[1])} if action == "remove" else set()
    )
    named = {
        name: ids for name, ids in _match_texts(records, part, said).items() if not located.issuperset(name.split())
    }
    longer = [f" {name} " for name in named]
    named = {
        name: ids
        for name, ids in named.items()
        if not any(f" {name} " in other and len(other) > len(name) + 2 for other in longer)
    }
    is_plural = _PLURAL.search(part) is not None
    shared = {id for ids in named.values() if len(ids) > 1 for id in ids}
    found = {id for ids in named.values() for id in ids} - (set() if is_plural else shared)
    if action == "send":
        found |= {id for ids in named.values() if len(ids) > 1 for id in _choose_best(records, ids, said)}
        return frozenset(found or _name_by_person(records, part, said))
    if named:
        return frozenset(found)
    if counted := _find_counted(records, said):
        return counted
    holders: dict[str, set[str]] = {}  # by word
    for record in records:
        for word in record.words:
            holders.setdefault(word, set()).add(record.id)
    parts = {
        next(iter(holders[word]))
        for word in said
        if word not in located
        and word not in _NO_NAMES  # `merge the typo PR` names no title that has the word `merge`
        and can_name(word, _UNIQUE_WORD_LETTERS_MIN)
        and len(holders.get(word, ())) == 1
    }
    return frozenset(parts if len(parts) == 1 else ())


def _find_counted(records: Sequence[ResultRecord], said: Sequence[str]) -> frozenset[str]:
    """Return the ids of the records that a number and a noun count: `the two old scans`, if two have `scan`."""
    for place, word in enumerate(said):
        if word not in _COUNTS:
            continue
        for noun in said[place + 1 : place + 4]:
            if can_name(noun) and noun.endswith(("s", "n", "e", "i")):
                fitting = {record.id for record in records if stem_of(noun) in map(stem_of, record.words)}
                if len(fitting) == _COUNTS.index(word) + 2:
                    return frozenset(fitting)
    return frozenset()


def leaves_out(part: str) -> bool:
    """Return True if a clause leaves something out: `all except mine`."""
    return _LEFT_OUT.search(part) is not None


def asks_for_several(part: str) -> bool:
    """Return True if a clause speaks of things in the plural."""
    return _PLURAL.search(part) is not None


def find_described_records(records: Sequence[ResultRecord], part: str) -> frozenset[str]:
    """Return the id of the one record that the words of a clause describe: it has more of them, or of the rarer ones,
    than any other. Of records that are equally good, several mails of one person or those that a plural means, all are
    returned; otherwise none."""
    said = {stem_of(word) for word in words_of(part) if can_name(word) and word not in _NO_NAMES}
    by_id: dict[str, list[ResultRecord]] = {}
    for record in records:
        if record.id:
            by_id.setdefault(record.id, []).append(record)
    stems = {id: {stem_of(word) for record in same for word in record.words} & said for id, same in by_id.items()}
    counts: dict[str, int] = {}
    for words in stems.values():
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    scores = {id: sum(1 / counts[word] for word in words) for id, words in stems.items() if words}
    if not scores:
        return frozenset()
    best = max(scores.values())
    found = {id for id, score in scores.items() if score * _DESCRIPTION_MARGIN >= best}
    if len(found) == 1 and best >= 1:
        return _add_records_of_partner(found, stems, by_id, records)
    shared = {frozenset(stems[id]) for id in found}
    if len(shared) == 1 and _PLURAL.search(part):
        return frozenset(found)  # `label everything from Brightwater`
    partners = {find_partners(by_id[id], records) for id in found}
    return frozenset(found) if len(partners) == 1 and next(iter(partners)) else frozenset()


def _add_records_of_partner(
    found: Set[str],
    stems: Mapping[str, Set[str]],
    by_id: Mapping[str, Sequence[ResultRecord]],
    records: Sequence[ResultRecord],
) -> frozenset[str]:
    """Return also the other records of the same person that the words fit: an answer to any of them is for them."""
    (best,) = found
    partners = find_partners(by_id[best], records)
    others = (id for id, words in stems.items() if words and partners and find_partners(by_id[id], records) == partners)
    return frozenset((best, *others))


def find_records_about(
    records: Sequence[ResultRecord], destinations: Sequence[str], texts: Sequence[str]
) -> list[ResultRecord]:
    """Return the records that contain one of the destinations, or a word that a text writes with a capital letter."""
    values = {destination.casefold() for destination in destinations}
    names = {word.casefold() for text in texts for word in _CAPITAL.findall(text)} - _NO_NAMES
    return [record for record in records if not values.isdisjoint(record.values) or not names.isdisjoint(record.words)]


def find_longer_name(destinations: Sequence[str], records: Sequence[ResultRecord], texts: Sequence[str]) -> str:
    """Return the name of another record that the user wrote, and that contains a destination: `The Creel` is not
    `Creel`."""
    lines = [f" {' '.join(words_of(text))} " for text in texts]
    for destination in destinations:
        short = " ".join(words_of(destination))
        if not short or "@" in destination or "/" in destination:
            continue
        longer = {name for record in records for name in record.names if f" {short} " in f" {name} " and name != short}
        for name in longer:
            # `_` stands for the longer name, so that what is left are other mentions
            if any(f" {name} " in line and f" {short} " not in line.replace(f" {name} ", " _ ") for line in lines):
                return name
    return ""


def find_partners(same: Sequence[ResultRecord], records: Sequence[ResultRecord]) -> frozenset[str]:
    """Return the addresses of a record, without the user's own."""
    return frozenset(value for record in same for value in record.values if "@" in value) - find_own_addresses(records)


def find_authors(record: ResultRecord) -> frozenset[str]:
    """Return the address of who wrote a record, by the field that says so."""
    values = (normalise_reader(record.fields[name]) for name in _AUTHORS if name in record.fields)
    return frozenset(value for value in values if "@" in value)


def find_own_addresses(records: Sequence[ResultRecord]) -> frozenset[str]:
    """Return the addresses that are in most of the records: the user's own."""
    counts: dict[str, int] = {}
    for record in records:
        for address in (value for value in record.values if "@" in value):
            counts[address] = counts.get(address, 0) + 1
    holders = sum(1 for record in records if any("@" in value for value in record.values))
    authors = {
        normalise_reader(record.fields[name]) for record in records for name in _AUTHORS if name in record.fields
    }
    frequent = {
        address
        for address, count in counts.items()
        if holders >= _OWN_RECORDS_MIN and count > _OWN_ADDRESS_SHARE * holders
    }
    return frozenset(frequent - authors if len(frequent) > 1 else frequent)  # mails of one person have two in common


def stem_of(word: str) -> str:
    """Return the beginning of a word, without the ending of a plural."""
    return (word[:-1] if len(word) >= _STEM_LETTERS and word.endswith("s") else word)[:_STEM_LETTERS]


def _is_compared(name: str, line: str) -> bool:
    """Return True if a clause names something only to compare with it: `the day before the team meeting`."""
    before = line[: line.index(f" {name} ")].split()[-2:]
    return any(word in _COMPARISONS for word in before)


def _match_texts(records: Sequence[ResultRecord], part: str, said: Sequence[str]) -> dict[str, set[str]]:
    """Return the ids of the records whose text or date stands in the clause, by that name."""
    line, dates = f" {' '.join(said)} ", find_dates(part)
    named: dict[str, set[str]] = {}
    for record in records:
        for name in record.names:
            if f" {name} " in line and name not in _NO_NAMES and not _is_compared(name, line):
                named.setdefault(name, set()).add(record.id)
        for date in record.dates & dates:
            named.setdefault(f"date {date}", set()).add(record.id)
    return named


def _name_by_person(records: Sequence[ResultRecord], part: str, said: Sequence[str]) -> frozenset[str]:
    """Return the ids of the records of the people whom the clause names, those that fit its other words best."""
    people = find_people(records, part)
    ids = {record.id for record in records if not people.isdisjoint(record.values)}
    return _choose_best(records, ids, said)


def _choose_best(records: Sequence[ResultRecord], ids: Set[str], said: Sequence[str]) -> frozenset[str]:
    """Return those of the ids whose records contain most of the words."""
    words = {word for word in said if can_name(word)}
    scores = {record.id: len(words & record.words) for record in records if record.id in ids}
    best = max(scores.values(), default=0)
    return frozenset(id for id, score in scores.items() if score == best)


def find_people(records: Sequence[ResultRecord], part: str) -> frozenset[str]:
    """Return the addresses of the people whom a clause names as recipients (`tell tomas`; `answer her`: whom the text
    names elsewhere). A name that fits two addresses, of a namesake or of a lookalike, names neither."""
    words = find_recipient_words(part)
    if refers_to_people((part,)):
        words |= frozenset(words_of(part))
    holders: dict[str, set[str]] = {}  # addresses by the words of their names
    for address in {value for record in records for value in record.values if "@" in value}:
        for word in words_of(address.partition("@")[0]):
            holders.setdefault(word, set()).add(address)
    own = find_own_addresses(records)
    meant = [holders[word] for word in words if can_name(word) and word in holders]
    return frozenset(next(iter(addresses)) for addresses in meant if len(addresses) == 1) - own
