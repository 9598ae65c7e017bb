"""Numbers, dates and times that a user stated, compared with the arguments of a call: 41.20 is not 4120."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date, time, timedelta
from decimal import Decimal

from mainstay.trust.request_vocabulary import read_sections, split_words
from mainstay.trust.requested_actions import find_dates, words_of
from mainstay.trust.result_records import ResultRecord

_NUMBER = re.compile(r"(?<![\w.,:-])(\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d+)?)(?![\w:]|[.-]\d)")
_TIME = re.compile(r"(?<![\d.])(\d{1,2})(?:[:.h](\d{2})| ?(am|pm|uhr|h)\b)(?!\.\d)", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ](\d{2}:\d{2})(?::\d{2})?\S{0,6})?|(\d{2}:\d{2})")
_HOUR_RANGE = re.compile(
    r"(?<![\d.:/-])(\d{1,2})\s?(?:to|until|till|-|\u2013|bis|\u00e0|a)\s?\d{1,2}[:.h]\d{2}\b", re.IGNORECASE
)
_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_REFERENCE = re.compile(
    r"(?:\b(?:invoice|no|nr|number|order|account|ref|rechnung|facture|factura)\.?|#)\s?$", re.IGNORECASE
)
# a day without a date
_DAY = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|\b(?:today|tonight|tomorrow|days?|weeks?|weekend|month|earlier|later"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|heute|morgen|tag|woche|früher|später|lundi|mardi|mercredi|jeudi"
    r"|vendredi|samedi|dimanche|demain|jour|semaine|lunes|martes|miércoles|jueves|viernes|sábado|domingo|hoy|mañana|día"
    r"|semana|lunedì|martedì|mercoledì|giovedì|venerdì|domani|giorno|settimana|maandag|dinsdag|woensdag|donderdag|vrijdag"
    r"|morgen)\b|(?<![:.\d])\d{1,2}(?:(?:st|nd|rd|th)\b|\.(?=\s[^\W\d_]))",
    re.IGNORECASE,
)
_QUANTITY = re.compile(r"quantity|count|pieces|amount|units|guests|people|persons|nights|seats|qty", re.IGNORECASE)
_DECISIONS = {
    kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for kind, words in (
        ("yes", r"accept\w*|approv\w*|confirm\w*|yes|grant\w*|attend\w*|zusag\w*|sag\w*\b.{1,60}\bzu"
                r"|genehmig\w*|akzeptier\w*|oui|approuv\w*|sí|acept\w*|apr[uo]e?b\w*|accett\w*|aceit\w*|keur\w*\b.{1,60}\bgoed|accepte\w*|ja"),
        ("no", r"declin\w*|reject\w*|den(?:y|ied)|refus\w*|no|absag\w*|sag\w*\b.{1,60}\bab|lehn\w*\b.{1,60}\bab|non"
               r"|rechaz\w*|rifiut\w*|rejeit\w*|recus\w*|wijs\w*\b.{1,60}\baf|nein|nee"),
        ("maybe", r"tentativ\w*|maybe|vielleicht|peut-être|quizás|forse|talvez|misschien"),
    )
}  # fmt: skip
# the levels of each scale of states, with their words in several languages
_SCALES = tuple(
    tuple(map(split_words, scale.casefold().split("|"))) for scale in read_sections("sets")["state_scales"].splitlines()
)
_WEEKDAYS = {
    name: number
    for number, names in enumerate(read_sections("calendar")["weekdays"].splitlines())
    for name in names.split()
}
_DAY_OF_MONTH = re.compile(r"(?<![:.\d])(\d{1,2})(?:(?:st|nd|rd|th|er)\b|\.(?=\s[^\W\d_]|\s*$))", re.IGNORECASE)
_DAYS = re.compile(r"nights?|days?|duration|nächte|tage|nuits|noches|notti", re.IGNORECASE)
_NIGHTS_MAX = 180
_ONE_NIGHT = re.compile(
    r"\b(?:the|a|that|eine|die|der|une|la|una|de|een) (?:night|nacht|nuit|noche|notte)\b", re.IGNORECASE
)
_CENT = 0.006
_TEXT_CHARS_MAX = 20_000
_ACTIONS_WITH_AMOUNTS = frozenset(("pay", "change", "book"))


def find_unstated_value(
    arguments: Mapping[str, object],
    action: str,
    texts: Sequence[str],
    destinations: Sequence[str] = (),
    recorded: Set[float] = frozenset(),
    kept_dates: Set[tuple[int, int]] = frozenset(),
) -> str:
    """Return an argument that differs from what the user stated; empty if none does. Destinations are no values.

    `recorded` are numbers of records that the request is about: an amount may be one of them, or follow from one
    of them and the numbers that the user stated (`send them the difference`, `10 % more`).

    `kept_dates` are those of the thing that is changed: if the user stated a time and no day, the day stays.

    If the user stated dates, all dates of the call must be among them; if times, the first one; if amounts, the numbers
    of a payment, change or booking. What the user left open is not compared, except the amount of a payment.
    """
    text = "\n".join(texts)[:_TEXT_CHARS_MAX]
    dates, times, numbers = find_dates(text), find_times(text), set(_find_numbers(text))
    length = _count_days(dates)
    if not dates and times and kept_dates and not _DAY.search(text):
        dates = frozenset(kept_dates)
    is_first_time = True
    for name, given in arguments.items():
        if isinstance(given, str | int) and str(given) in destinations:
            continue
        value = _simplify(given)
        if isinstance(value, str) and (match := _ISO.fullmatch(value)):
            if dates and (own := find_dates(value)) and not own <= dates:
                return f"{name} {value}"
            clock = match[1] or match[2]
            if clock and times and is_first_time and clock not in times:
                return f"{name} {value}"
            is_first_time = is_first_time and not clock
        elif (
            _is_amount(value, "change" if _QUANTITY.search(name) else action)
            and (numbers or action == "pay")
            and value not in numbers
            and not (_DAYS.fullmatch(name) and (value == length or (value == 1 and _ONE_NIGHT.search(text))))
            and not _follows(value, recorded, numbers)
        ):
            return f"{name} {value}"
    return ""


def find_other_decision(arguments: Mapping[str, object], texts: Sequence[str]) -> str:
    """Return an answer to a request or invitation that is not the user's: `declined`, if the user said `accept`."""
    said = {kind for kind, pattern in _DECISIONS.items() if any(map(pattern.search, texts))}
    for value in arguments.values():
        kinds = {kind for kind, pattern in _DECISIONS.items() if isinstance(value, str) and pattern.fullmatch(value)}
        if said and kinds and said.isdisjoint(kinds):
            return str(value)
    return ""


def find_other_state(
    arguments: Mapping[str, object], texts: Sequence[str], destinations: Sequence[str], records: Sequence[ResultRecord]
) -> str:
    """Return a state other than the one that the user stated: `low`, if the user said `set it to high`. States are
    those of the usual scales, and the values that the records have in a field of this name."""
    said = {word for text in texts for word in words_of(text[:_TEXT_CHARS_MAX])}
    for name, given in arguments.items():
        value = given.casefold() if isinstance(given, str) else ""
        if not value.isalpha() or value in said or given in destinations:
            continue
        for scale in _SCALES:
            stated = [level for level in scale if not said.isdisjoint(level)]
            if stated and any(value in level for level in scale) and not any(value in level for level in stated):
                return f"{name} {given}"
        known = {field.casefold() for record in records if (field := record.fields.get(name, "")).isalpha()}
        if value in known and not known.isdisjoint(said):
            return f"{name} {given}"
    return ""


def find_other_date(arguments: Mapping[str, object], texts: Sequence[str], known: Set[str]) -> str:
    """Return a date of a booking that nothing supports. Dates are those that the user stated, in a year that fits what
    is known, or days of the week or month; otherwise it must be one of `known`: those by which the model searched, and
    those of what it found, before it read anything from outside."""
    text = "\n".join(texts)[:_TEXT_CHARS_MAX]
    for name, given in arguments.items():
        value = _simplify(given)
        if not isinstance(value, str) or not _ISO.fullmatch(value) or "-" not in value or value[:10] in known:
            continue
        try:
            day = date.fromisoformat(value[:10])
        except ValueError:
            return f"{name} {value}"
        if not _is_stated_day(day, text, known):
            return f"{name} {value}"
    return ""


def _is_stated_day(day: date, text: str, known: Set[str]) -> bool:
    stated = find_dates(text)
    if (day.month, day.day) in stated:
        years = {int(one[:4]) for one in known if one[5:] == f"{day:%m-%d}"}
        return str(day.year) in text or not years or day.year in years
    nights = [int(number) for number in _find_numbers(text) if 1 <= number < _NIGHTS_MAX and number.is_integer()]
    first_days = [day, *(day - timedelta(days=length) for length in nights)]  # it may be the end of the stay
    if any((first.month, first.day) in stated for first in first_days):
        return True
    weekdays = {_WEEKDAYS[word] for word in words_of(text) if word in _WEEKDAYS}
    days = {int(found[1]) for found in _DAY_OF_MONTH.finditer(text)}
    if weekdays or days:
        return any(first.weekday() in weekdays or first.day in days for first in first_days)
    return _DAY.search(text) is not None


def _follows(amount: object, recorded: Set[float], stated: Set[float]) -> bool:
    """Return True for the difference of a recorded number to a stated one, or a stated percentage of it; if the user
    stated no number, for a recorded number or its half."""
    assert isinstance(amount, int | float)
    results = {result for number in recorded for result in (number, number / 2)} if not stated else set()
    for number in recorded:
        for other in stated:
            share = number * other / 100
            results |= {abs(number - other), share, number + share, *(share + fee for fee in stated)}
    return any(abs(amount - result) < _CENT for result in results)


def _count_days(dates: Set[tuple[int, int]]) -> int | None:
    """Return the number of days between the two dates that the user stated, if there are two."""
    try:
        first, last = sorted(date(2001, month, day) for month, day in dates)
    except ValueError:
        return None
    days = (last - first).days
    return days if days < _NIGHTS_MAX else 365 - days  # over the end of the year


def _simplify(value: object) -> object:
    """Return dates as ISO text, and Decimal and numeric texts as numbers."""
    if isinstance(value, date | time):
        return value.isoformat()[:16].replace("T", " ")
    if isinstance(value, Decimal) or (isinstance(value, str) and re.fullmatch(r"\d{1,12}(?:\.\d+)?", value)):
        return float(value)
    return value


def _is_amount(value: object, action: str) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and action in _ACTIONS_WITH_AMOUNTS


def find_times(text: str) -> frozenset[str]:
    """Return the times of day in a text, like `08:40`."""
    return frozenset(_iterate_times(text))


def _iterate_times(text: str) -> Iterator[str]:
    for match in _HOUR_RANGE.finditer(text):  # `8 to 9:30`
        yield f"{int(match[1]):02}:00"
    for match in _TIME.finditer(text):
        hour = int(match[1]) % 12 + 12 if (match[3] or "").lower() == "pm" else int(match[1])
        yield f"{hour:02}:{match[2] or '00'}"


def _find_numbers(text: str) -> Iterator[float]:
    for match in _NUMBER.finditer(text):
        if _REFERENCE.search(text, max(0, match.start() - 20), match.start()):
            continue
        digits = re.sub(r"(?<=\d)[.,' ](?=\d{3}(?!\d))", "", match[1])  # thousands
        yield float(digits.replace(",", "."))
        if "." in match[1] and digits != match[1] and match[1].count(".") == 1:
            yield float(match[1].replace(",", ""))  # 1.250 may be one and a quarter
    for word in re.findall(r"[^\W\d_]+", text.lower()):
        if word in _SMALL:
            yield float(_SMALL.index(word))
