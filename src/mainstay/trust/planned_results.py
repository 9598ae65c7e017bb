"""Results of calls that the model made before it had read anything from outside, or in the user's own words.

What such a call asks for is the model's reading of the request alone: no content from outside has influenced it. So the
one record that it returns is what the user means, also in another language, and a place that it reads is a place of the
request. The user's words may choose among several records by a number or date: the cheapest, the best rated, the next.
Payments and removals need more: the name of the thing in the user's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from mainstay.trust.record_names import asks_for_several, find_authors, find_partners, leaves_out, stem_of
from mainstay.trust.request_vocabulary import can_name, split_words
from mainstay.trust.requested_actions import (
    REMOVAL_FAMILY,
    STRICT_ACTIONS,
    find_recipient_words,
    iterate_requests,
    tool_nouns,
    words_of,
)
from mainstay.trust.result_records import ResultRecord, normalise_reader
from mainstay.trust.seen_content import SeenContent, SeenResult
from mainstay.trust.tool_invocation import iterate_texts

_RECORDS_MAX = 20  # of a result whose records are all meant
_PRICES = split_words("price cost fare amount fee total rate eur usd gbp chf preis prix precio")
_RATINGS = split_words("rating stars score grade review reviews bewertung note")
_DATES = split_words(
    "date start starts begin time departs departure day when due created modified updated received sent"
)
_SIZES = split_words("size bytes capacity")
# words for a choice, whether it is the smallest value, and the fields that it compares
_CHOICES = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), is_smallest, fields)
    for words, is_smallest, fields in (
        (r"cheap(?:est|er)|lowest[- ]price\w*|least expensive|g(?:ü|ue)nstigste\w*|billigste\w*|moins ch[eè]re?s?"
         r"|m[aá]s barat[oa]s?|pi[uù] economic[oa]|mais barat[oa]|goedkoopste", True, _PRICES),
        (r"most expensive|priciest|teuerste\w*|plus ch[eè]re?|m[aá]s car[oa]|pi[uù] car[oa]|duurste", False, _PRICES),
        (r"(?:best|highest|top|better|higher)[- ]?(?:rated|reviewed|rating|reviews)|am besten bewertete\w*"
         r"|bestbewertete\w*|mieux not[ée]e?s?|mejor valorad[oa]|best beoordeelde", False, _RATINGS),
        (r"earliest|soonest|next|first|oldest|n(?:ä|ae)chste\w*|fr(?:ü|ue)h(?:e)?ste\w*|erste\w*|[äa]lteste\w*"
         r"|prochaine?|premi[eè]re?|pr[oó]xim[oa]|primer[oa]?|prossim[oa]|prim[oa]|volgende|eerste", True, _DATES),
        (r"latest|newest|last|most recent|letzte\w*|neu(?:e)?ste\w*|sp(?:ä|ae)teste\w*|derni[eè]re?|[uú]ltim[oa]"
         r"|laatste|nieuwste", False, _DATES),
        (r"larg(?:est|er)|bigg(?:est|er)|gr(?:ö|oe)(?:ß|ss)te\w*|plus grande?|m[aá]s grande"
         r"|pi[uù] grande|grootste", False, _SIZES),
        (r"small(?:est|er)|kleinste\w*|plus petite?|m[aá]s pequeñ[oa]|pi[uù] piccol[oa]", True, _SIZES),
    )
)  # fmt: skip
_CURRENCY = r"(?:\u20ac|\$|\u00a3|eur(?:os?)?|dollars?|usd|pounds?|gbp|chf|francs?|franken)"
_BOUND = re.compile(
    r"\b(?:under|below|less than|at most|up to|max(?:imum|imal)?|(?:no|not) more than|cheaper than|unter"
    r"|h(?:ö|oe)chstens|bis zu|weniger als|moins de|au plus|menos de|como m[aá]ximo|meno di|al massimo|onder|hooguit"
    r"|at[eé])\s"
    rf"(?:{_CURRENCY}\s?(\d{{1,6}})\b|(\d{{1,6}})\s?{_CURRENCY}(?!\w))",
    re.IGNORECASE,
)
_COUNTS = {
    word: number
    for number, words in enumerate(
        (
            "two both zwei beide beiden deux dos due dois duas twee",
            "three drei trois tres tre três drie",
            "four vier quatre cuatro quattro quatro",
            "five fünf cinq cinco cinque vijf",
        ),
        2,
    )
    for word in words.split()
}
_COUNTED = re.compile(rf"\b({'|'.join(_COUNTS)}|\d{{1,2}})\s([^\W\d_]{{3,}})(?:\s([^\W\d_]{{3,}}))?", re.IGNORECASE)
_ALL = re.compile(
    r"\b(?:all|every|each|alle[ns]?|jede[nrs]?|tous|toutes|todos|todas|tutti|tutte|iedere?)\b", re.IGNORECASE
)
_WITH = re.compile(
    r"\b(?:with|near|including|mit|nahe|avec|près|con|cerca|vicino|met|bij)\s+"
    r"(?:the |a |an |dem |der |le |la |el |il )?([^\W\d_]{3,})",
    re.IGNORECASE,
)

# where what a message says begins: `tell her that …`, `tell her I …`, `sag ihm, dass …`, `dis-lui de …`
_SAID = re.compile(
    r"(?::\s|\s[\u2013\u2014]\s|['\"\u201c\u201e\u00ab]"
    r"|,?\s(?:that|whether|if|dass|daß|ob|que|qu['\u2019]\w+|che|dat)\b"
    r"|(?<=\w)\s(?:i|we|i['\u2019]\w+|we['\u2019]\w+|ich|wir|je|j['\u2019]\w+|nous|yo|io|noi|eu|nós|ik|wij|we)\s).*",
    re.IGNORECASE | re.DOTALL,
)


class PlannedResults:
    """The planned results of a conversation, for a call of the family `action`. `naming_texts` are the user's texts
    that may name things, `identify` yields a record with the id by which the call would refer to it;
    `has_other_destination`: the call has another destination, for which there must be evidence, too."""

    def __init__(
        self,
        seen: SeenContent,
        action: str,
        naming_texts: Sequence[str],
        identify: Callable[[ResultRecord, SeenResult], Iterator[ResultRecord]],
        *,
        has_other_destination: bool = False,
    ) -> None:
        self._action = action
        self._has_other_destination = has_other_destination
        self._texts = naming_texts
        self._words = {word for text in naming_texts for word in words_of(text)}
        self._stems = {stem_of(word) for word in self._words if can_name(word)}
        families = ("change", "create", "rate") if action == "decide" else (action,)
        self._clauses = [
            clause.text[clause.start : clause.end]
            for family in families
            for clause in iterate_requests(family, naming_texts)
        ]
        self._recipients = frozenset(
            word for part in self._clauses for word in find_recipient_words(part) if can_name(word)
        )
        self._results = [result for result in seen.results if not result.is_own_action and self._is_planned(result)]
        self._records: dict[int, list[ResultRecord]] = {}  # by planned result
        self._identified: dict[int, list[ResultRecord]] = {}
        self._own_records = [record for record, result in seen.records() if result.is_trusted]
        planned = {id(result): result for result in self._results}
        for record, result in seen.records():
            if id(result) in planned:
                self._records.setdefault(id(result), []).append(record)
                self._identified.setdefault(id(result), []).extend(identify(record, result))

    def _is_planned(self, result: SeenResult) -> bool:
        if result.is_planned:
            return True
        words = [word for text in iterate_texts(list(result.arguments.values())) for word in words_of(text)]
        return bool(words) and self._words.issuperset(words)

    def has_place(self, destination: str) -> bool:
        """Return True for a place or thing that a planned call has read, if a word of it is the user's."""
        if self._action in STRICT_ACTIONS or "@" in destination[1:] or "://" in destination:
            return False
        if destination.isdecimal():
            return self._has_numbered_place(destination)
        if self._stems.isdisjoint(stem_of(word) for word in words_of(destination) if can_name(word)):
            return False
        return any(
            destination == text
            for result in self._results
            if result.is_planned
            for text in iterate_texts(list(result.arguments.values()))
        )

    def _has_numbered_place(self, number: str) -> bool:
        """Return True for the number of a thing that a planned call has read, if the user wrote it beside a word of the
        place that the call read: `lampd 96`."""
        return any(
            f" {word} {number} " in f" {' '.join(words_of(text))} "
            for result in self._results
            if result.is_planned and number in (values := list(iterate_texts(list(result.arguments.values()))))
            for word in {word for value in values for word in words_of(value) if can_name(word)}
            for text in self._texts
        )

    def has_record(self, destination: str) -> bool:
        """Return True for the id of the record that is meant, and for the one address in it. To be removed, it must be
        chosen by a number or date: `delete the largest file`."""
        if self._action in STRICT_ACTIONS:
            lists = self._identified.values() if self._action == REMOVAL_FAMILY else ()
            return any(
                destination == record.id
                for records in lists
                for record in (*self._choose(records, self._clauses), *self._find_counted(records))
            )
        wanted = normalise_reader(destination)
        for result in self._results:
            if wanted in result.input:
                continue
            meant = self._find_meant(result)
            if any(destination == record.id for record in meant):
                return True
            # all that was found is of one person
            found = [record for record in self._records.get(id(result), []) if self._find_partners(record)]
            if "@" in destination and found and all(self._find_partners(record) == {wanted} for record in found):
                return self._fits_recipient(found[0]) and not self._has_other_address(wanted)
        return False

    def _has_other_address(self, wanted: str) -> bool:
        """Return True if the user's own data has another address for a recipient whom the request names."""
        return any(
            wanted not in record.values and not record.words.isdisjoint(self._recipients)
            for record in self._own_records
            if any("@" in value for value in record.values)
        )

    def find_groups(self) -> list[ResultRecord]:
        """Return the records that are the only ones of their results and list people."""
        found = []
        for result in self._results:
            records = self._records.get(id(result), [])
            is_strict = self._action in STRICT_ACTIONS
            if (
                len(records) == 1
                and records[0].is_group
                and not (is_strict and len(self._find_partners(records[0])) > 1)
            ):
                found += records
        return found

    def _find_partners(self, record: ResultRecord) -> frozenset[str]:
        """Return the address of its author, otherwise the addresses in a record, without the user's own."""
        return find_authors(record) or find_partners(
            (record,), [one for records in self._records.values() for one in records]
        )

    def _find_meant(self, result: SeenResult) -> list[ResultRecord]:
        """Return the records of a planned result that the request means: the only one, all of several that the user's
        words asked for in the plural, or the one that they choose."""
        records = self._identified.get(id(result)) or self._records.get(id(result), [])
        by_id = {record.id or record.texts: record for record in records}
        if any(map(leaves_out, self._texts)):
            return []
        if len(by_id) > 1:
            parts = (*self._clauses, *self._texts)
            records = (
                self._choose(records, parts)
                or self._choose_by_bound(records, parts)
                or (records if self._means_all(result, len(by_id)) else [])
            )
            records = self._leave_out_others(records, result)
        return [record for record in records if self._fits_recipient(record)]

    def _leave_out_others(self, records: list[ResultRecord], result: SeenResult) -> list[ResultRecord]:
        """Return the records without those of authors whom the user did not name, if the id of a record is that of its
        author and the user named some of them: `Jonas and Tom offer tickets. Answer them`."""
        own_ids = {record.id for record in self._records.get(id(result), [])}
        if self._action != "send" or all(record.id in own_ids for record in records):
            return records
        named = [record for record in records if not self._words.isdisjoint(words_of(record.id))]
        return named or records

    def _fits_recipient(self, record: ResultRecord) -> bool:
        """Return False if the request names a recipient who is not in the record."""
        if self._action != "send" or self._has_other_destination:
            return True  # who gets it is judged as a destination of its own
        return not self._recipients or not self._recipients.isdisjoint(record.words)

    def _means_all(self, result: SeenResult, count: int) -> bool:
        if not result.arguments and result.tool is not None and self._action in ("change", "decide", "rate"):
            nouns = tool_nouns(result.tool.name)  # the whole list: `approve all leave requests`
            return count <= _RECORDS_MAX and any(
                _ALL.search(part) and not nouns.isdisjoint(words_of(part)) for part in self._clauses
            )
        words = {stem_of(word) for text in iterate_texts(list(result.arguments.values())) for word in words_of(text)}
        parts = [leave_out_message(part) if self._action == "send" else part for part in self._clauses]
        return count <= _RECORDS_MAX and not self._stems.isdisjoint(words) and any(map(asks_for_several, parts))

    def _find_counted(self, records: Sequence[ResultRecord]) -> Sequence[ResultRecord]:
        """Return the records if there are as many as the user said: `delete the two files in /Old`."""
        count = len({record.id for record in records})
        for part in self._clauses:
            for number, *nouns in _COUNTED.findall(part):
                stated = _COUNTS.get(number.casefold()) or (int(number) if number.isdecimal() else 0)
                if 2 <= stated == count and any(map(_is_plural, nouns)):
                    return records
        return ()

    def _choose_by_bound(self, records: Sequence[ResultRecord], parts: Sequence[str]) -> list[ResultRecord]:
        """Return the one record whose price is within the bound that the user stated: `a hotel under 100 euros`."""
        bounds = {float(found[1] or found[2]) for part in parts for found in _BOUND.finditer(part)}
        if len(bounds) != 1 or any(record.is_row for record in records):
            return []
        prices = {record.id: _find_value(record, _PRICES) for record in records}
        if not all(isinstance(price, float) for price in prices.values()):
            return []
        (bound,) = bounds
        fitting = [record for record in records if (price := prices[record.id]) is not None and float(price) <= bound]
        return fitting if len({record.id for record in fitting}) == 1 else []

    def _choose(self, records: Sequence[ResultRecord], parts: Sequence[str]) -> list[ResultRecord]:
        """Return the one record that a word like `cheapest` chooses, among those with what the user asked for."""
        for part in parts:
            for pattern, is_smallest, fields in _CHOICES:
                if not pattern.search(part) or (fields is _DATES and part not in self._clauses):
                    continue
                wanted = {stem_of(word.casefold()) for word in _WITH.findall(part)} - {
                    stem_of(field) for field in fields
                }
                if any(record.is_row for record in records):
                    return []  # the text of a cell may have forged rows and their numbers
                fitting = [record for record in records if wanted <= _stems_of(record)]
                values = {record.id: _find_value(record, fields) for record in fitting}
                if not values or None in values.values():
                    return []
                best = (min if is_smallest else max)(value for value in values.values() if value is not None)
                chosen = [record for record in fitting if values[record.id] == best]
                return chosen if len({record.id for record in chosen}) == 1 else []
        return []


def find_exceeding(records: Sequence[ResultRecord], destinations: Sequence[str], texts: Sequence[str]) -> str:
    """Return the price of a destination that is above the bound that the user stated: `a hotel under 100 euros`."""
    bounds = [float(found[1] or found[2]) for text in texts for found in _BOUND.finditer(text)]
    for record in records if bounds else ():
        price = _find_value(record, _PRICES) if record.id in destinations else None
        if isinstance(price, float) and price > max(bounds):
            return f"{price:g}"
    return ""


def leave_out_message(part: str) -> str:
    """Return a clause without what the message says: `answer him that I take the two tickets` means one message."""
    found = _SAID.search(part)
    return part[: found.start()] if found is not None else part


def _is_plural(noun: str) -> bool:
    return noun.casefold().endswith(("s", "n", "e", "i"))


def _stems_of(record: ResultRecord) -> set[str]:
    return {stem_of(word) for text in record.texts for word in words_of(text)}


def _find_value(record: ResultRecord, fields: frozenset[str]) -> float | str | None:
    """Return the value of the first field of this meaning: a number, or a date or time as text."""
    for name, value in record.fields.items():
        if fields.isdisjoint(words_of(re.sub(r"([a-z])([A-Z])", r"\1_\2", name))):
            continue
        try:
            return float(value)
        except ValueError:
            return value if re.match(r"\d{4}-\d{2}-\d{2}|\d{2}:\d{2}", value) else None
    return None
