"""Words of requests that are no verbs: things with several names or in several languages, ordinary words."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@cache
def read_sections(name: str) -> dict[str, str]:
    """Return the lists of a file in the folder `words`, by the names in brackets above them."""
    text = (Path(__file__).parent / "words" / f"{name}.txt").read_text("utf-8")
    parts = (part.partition("]\n") for part in text.split("[")[1:])
    return {section: lines.strip() for section, _, lines in parts}


def read_words(name: str) -> frozenset[str]:
    """Return one of the sets of words in `words/sets.txt`."""
    return split_words(read_sections("sets")[name])


_SETS, _THINGS = read_sections("sets"), read_sections("things")
# what makes `send_…` a payment
MONEY = split_words(_SETS["money"])
SYNONYMS = tuple(map(split_words, _THINGS["synonyms"].splitlines()))  # things with several names
TRANSLATIONS = tuple(map(split_words, _THINGS["translations"].splitlines()))  # the same in several languages
# frequent words of the languages whose verbs are listed above
UNDERSTOOD = split_words(_SETS["understood"])
# words that name nothing
ORDINARY = split_words(_SETS["ordinary"])
NAME_LETTERS_MIN = 3


def can_name(word: str, letters_min: int = NAME_LETTERS_MIN) -> bool:
    """Return True if a word in lower case can be (a part of) a name."""
    return len(word) >= letters_min and word not in ORDINARY and not word.isdecimal()
