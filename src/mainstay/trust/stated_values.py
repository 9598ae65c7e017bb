"""Numbers, dates and times that a user stated, compared with the arguments of a call: 41.20 is not 4120."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mainstay.trust.requested_actions import find_dates

_NUMBER = re.compile(r"(?<![\w.,:-])(\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d+)?)(?![\w:]|[.-]\d)")
_TIME = re.compile(r"(?<![\d.])(\d{1,2})(?:[:.h](\d{2})| ?(am|pm|uhr|h)\b)(?!\.\d)", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ](\d{2}:\d{2})(?::\d{2})?\S{0,6})?|(\d{2}:\d{2})")
_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ACTIONS_WITH_AMOUNTS = frozenset(("pay", "change", "book"))


def find_unstated_value(arguments: Mapping[str, object], action: str, texts: Sequence[str]) -> str:
    """Return an argument that differs from what the user stated; empty if none does.

    If the user stated dates, all dates of the call must be among them; if times, the first one; if amounts, the numbers
    of a payment, change or booking. What the user left open is not compared, except the amount of a payment.
    """
    text = "\n".join(texts)
    dates, times, numbers = find_dates(text), set(_find_times(text)), set(_find_numbers(text))
    is_first_time = True
    for name, value in arguments.items():
        if isinstance(value, str) and (match := _ISO.fullmatch(value)):
            if dates and (own := find_dates(value)) and not own <= dates:
                return f"{name} {value}"
            clock = match[1] or match[2]
            if clock and times and is_first_time and clock not in times:
                return f"{name} {value}"
            is_first_time = is_first_time and not clock
        elif _is_amount(value, action) and (numbers or action == "pay") and value not in numbers:
            return f"{name} {value}"
    return ""


def _is_amount(value: object, action: str) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and action in _ACTIONS_WITH_AMOUNTS


def _find_times(text: str) -> Iterator[str]:
    for match in _TIME.finditer(text):
        hour = int(match[1]) % 12 + 12 if (match[3] or "").lower() == "pm" else int(match[1])
        yield f"{hour:02}:{match[2] or '00'}"


def _find_numbers(text: str) -> Iterator[float]:
    for match in _NUMBER.finditer(text):
        digits = re.sub(r"[' ]", "", match[1])
        for form in {digits.replace(",", ""), digits.replace(".", "").replace(",", "."), digits.replace(",", ".")}:
            if form.count(".") <= 1:
                yield float(form)
    for word in re.findall(r"[^\W\d_]+", text.lower()):
        if word in _SMALL:
            yield float(_SMALL.index(word))
