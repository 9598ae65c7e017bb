"""Whether a scheduled prompt is the user's own: its text has the user's words, its time is the one that they stated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from mainstay.trust.request_verbs import ENGLISH_VERBS
from mainstay.trust.request_vocabulary import ORDINARY, UNDERSTOOD, read_sections, split_words
from mainstay.trust.requested_actions import find_dates, words_of
from mainstay.trust.user_statements import is_negated

_TEXT_CHARS_MAX = 200
_STEM_LETTERS = 5
_REQUEST = re.compile(
    r"\b(?:remind|reminder|schedule|ping me|nudge|wake me|alert me|erinner(?:e|n|ung)?|rappel(?:le|er|lez)?"
    r"|recuérda(?:me)?"
    r"|recordatorio|avísame|recordar(?:me)?|ricorda(?:mi|re)?|promemoria|lembr(?:a|e|ar|ete)|herinner(?:ing)?|every|each"
    r"|jeden|jede|chaque|cada|ogni|elke)\b",
    re.IGNORECASE,
)
_RECURRENCE = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|hourly|weekdays|jeden|jede[ns]?|täglich|wöchentlich|monatlich"
    r"|chaque|tous les"
    r"|toutes les|cada|todos los|todas las|ogni|tutti i|todo(?:s os)?|toda(?:s as)?|elke|iedere|dagelijks)\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"\b(?:today|tonight|tomorrow|later|noon|midnight|morning|evening|afternoon|(?:in|next) (?:an?|the|\w+)? ?"
    r"(?:minutes?|hours?|days?|weeks?|months?)|next (?:week|month|year)|heute|morgen|übermorgen|nächste[nr]?"
    r"|demain|ce soir"
    r"|prochaine?|mañana|próxim[oa]|hoy|domani|prossim[oa]|oggi|amanhã|hoje|vandaag|volgende|in \d+ \w+|en \d+ \w+"
    r"|dans \d+ \w+|tra \d+ \w+|em \d+ \w+|over \d+ \w+)\b",
    re.IGNORECASE,
)
_WEEKDAYS = {
    name: number
    for number, names in enumerate(read_sections("calendar")["weekdays"].splitlines())
    for name in names.split()
}
_CLOCK = re.compile(
    r"\b(\d{1,2})(?:[:.h](\d{2}))?\s?(am|pm|uhr|h|o['\u2019]?clock|uur)\b|\b(\d{1,2})[:h](\d{2})\b"
    r"|\b(?:at|um|à|a las|alle|às|om)\s(\d{1,2})\b",
    re.IGNORECASE,
)
_NEUTRAL = split_words("reminder remind remember erinnerung rappel recordatorio promemoria lembrete herinnering todo")
_VERBS = frozenset(
    verb[:_STEM_LETTERS] for family in ("remove", "send", "pay", "book") for verb in ENGLISH_VERBS[family].split()
)


def is_own_reminder(when: str, text: str, turn_texts: Sequence[str], user_texts: Sequence[str]) -> bool:
    """Return True if the user asked in this turn for this prompt at this time.

    Every word of the text must be the user's, most of them of this turn, and words of earlier turns must be no verbs. A
    date, weekday or time of day that the user stated must be that of the prompt; without any, it is not the user's.
    """
    requests = [
        said for said in turn_texts if any(not is_negated(said, *found.span()) for found in _REQUEST.finditer(said))
    ]
    return bool(requests) and _has_own_words(text, requests, user_texts) and _has_stated_time(when, "\n".join(requests))


def _has_own_words(text: str, requests: Sequence[str], user_texts: Sequence[str]) -> bool:
    words = [word for word in words_of(text) if len(word) > 2 and word not in ORDINARY and word not in UNDERSTOOD]
    if len(text) > _TEXT_CHARS_MAX or not words:
        return False
    stems = {word[:_STEM_LETTERS] for said in requests for word in words_of(said)}
    unsaid = [word for word in words if word[:_STEM_LETTERS] not in stems and word not in _NEUTRAL]
    earlier = {word[:_STEM_LETTERS] for said in user_texts for word in words_of(said)} - _VERBS
    return 2 * len(unsaid) <= len(words) and all(word[:_STEM_LETTERS] in earlier for word in unsaid)


def _has_stated_time(when: str, said: str) -> bool:
    fields = when.split()
    if len(fields) == 5:  # a cron schedule
        return _RECURRENCE.search(said) is not None and _fits_clock(fields[1], fields[0], said)
    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        return False
    dates, weekdays = find_dates(said), {_WEEKDAYS[word] for word in words_of(said) if word in _WEEKDAYS}
    if dates:
        is_day_stated = (time.month, time.day) in dates
    elif weekdays:
        is_day_stated = time.weekday() in weekdays
    else:
        is_day_stated = _RELATIVE.search(said) is not None or _CLOCK.search(said) is not None
    return is_day_stated and _fits_clock(str(time.hour), str(time.minute), said)


def _fits_clock(hour: str, minute: str, said: str) -> bool:
    """Return True if the user stated this time of day, or none."""
    stated = set()
    for found in _CLOCK.finditer(said):
        hours, minutes = int(found[1] or found[4] or found[6]), int(found[2] or found[5] or 0)
        half = (found[3] or "").casefold()
        if half != "pm":
            stated.add((hours % 12 if half == "am" else hours, minutes))
        if half == "pm" or (not half and hours < 12):
            stated.add((hours % 12 + 12, minutes))
    return not stated or (hour.isdecimal() and minute.isdecimal() and (int(hour), int(minute)) in stated)
