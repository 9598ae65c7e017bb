"""Which skills a message calls for: by the words it has in it, or by name ("use skill: infra-ops").

Words are whole words in any language. Where a script puts no spaces between them (Chinese, Japanese, Thai, Lao, Khmer,
Burmese), a word counts where it occurs; Korean puts its particles after a word, so there only the beginning has to be
one. Everything takes time in proportion to the message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

KEYWORDS_MAX = 100
KEYWORD_CHARS_MAX = 100
ASKED_MAX = 10
NAME_CHARS_MAX = 150  # between "use the" and "skill"
LOOKED_AT_MAX = 100
NAMES_CHARS_MAX = 2_000  # after "use skill:" are looked at

# --- keywords ------------------------------------------------------------------------------------

_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|«([^»]*)»|「([^」]*)」')
_COMMAS = re.compile(r"[,;\n\uff0c\u3001\uff1b\u060c]")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_IS_HANGUL = re.compile(f"[{_HANGUL}]")
_PIECE = re.compile(f"[^\\W{_UNSPACED}{_HANGUL}]+")
_ASCII_PIECE = re.compile(r"\w+", re.ASCII)
_JOINERS = "\u200c\u200d"


def keywords_of(text: str) -> tuple[str, ...]:
    """Separated by commas, or else by spaces; what stands in quotes is one."""
    found = [next(filter(None, groups), "") for groups in _QUOTED.findall(text)]
    rest = _QUOTED.sub(",", text) if found and _COMMAS.search(_QUOTED.sub("", text)) else _QUOTED.sub(" ", text)
    found += _COMMAS.split(rest) if _COMMAS.search(rest) else rest.split()
    cleaned = (" ".join(word.split())[:KEYWORD_CHARS_MAX] for word in found)
    return tuple(dict.fromkeys(word for word in cleaned if any(map(_is_word, word))))[:KEYWORDS_MAX]


def folded(text: str) -> str:
    """Without case, and composed in one way; every white space is one."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


class Keywords:
    """The keywords of some skills, to be looked for in messages all at once."""

    def __init__(self, skills: Mapping[str, Sequence[str]]) -> None:
        self._by_piece: dict[str, list[tuple[str, str]]] = {}  # the first word of a keyword
        self._by_char: dict[str, list[tuple[str, str]]] = {}  # or its first character, where words are not spaced
        for skill, words in skills.items():
            for word in words:
                self._add(" ".join(folded(word).split()), skill)

    def _add(self, word: str, skill: str) -> None:
        first = next((char for char in word if _is_word(char)), "")
        piece = _PIECE.search(word)
        if piece is not None and first == piece[0][0]:
            self._by_piece.setdefault(piece[0], []).append((word, skill))
        elif first:
            self._by_char.setdefault(first, []).append((word, skill))

    def match(self, message: str) -> frozenset[str]:
        """The skills that one of these words stands for."""
        if not self._by_piece and not self._by_char:
            return frozenset()
        text = folded(message)
        plain = text.isascii()
        pieces = self._by_piece.keys() & set((_ASCII_PIECE if plain else _PIECE).findall(text))
        candidates = [one for piece in pieces for one in self._by_piece[piece]]
        if not plain:
            candidates += [one for char in self._by_char.keys() & set(text) for one in self._by_char[char]]
        if not candidates:
            return frozenset()
        text = " ".join(text.split())
        found: set[str] = set()
        for word, skill in candidates:
            if skill not in found and _stands_in(word, text):
                found.add(skill)
        return frozenset(found)


def _stands_in(word: str, text: str) -> bool:
    """As a word of its own."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if _is_edge(text[max(at - 1, 0) : at], word[0], after=False) and _is_edge(
            text[end : end + 1], word[-1], after=True
        ):
            return True
        at = text.find(word, at + 1)
    return False


def _is_edge(beside: str, own: str, *, after: bool) -> bool:
    """True if a word may begin or end here: with the character `own`, next to `beside`."""
    if not beside or not _is_word(own):
        return True
    if after and (unicodedata.category(beside)[0] == "M" or beside in _JOINERS):
        return False  # half a letter
    if not _is_word(beside) or _IS_UNSPACED.match(own) or _IS_UNSPACED.match(beside):
        return True
    return after and (_IS_HANGUL.match(own) or _IS_HANGUL.match(beside)) is not None


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or char in _JOINERS or unicodedata.category(char)[0] == "M"


# --- by name -------------------------------------------------------------------------------------

_USE = re.compile(r"(?<![\w-])use\s{1,8}(?:the\s{1,8})?(?:skills?)(?![\w-])\s{0,8}([:\uff1a]?)\s{0,8}", re.IGNORECASE)
_SKILL = re.compile(r"(?<=\s)skill(?![\w-])", re.IGNORECASE)
_USE_THE = re.compile(
    r"(?<![\w-])use\s{1,8}(?:the\s{1,8})?[\"'`\u201c*]{0,2}([^\n\"'`\u201d*]{1,130}?)[\"'`\u201d*]{0,2}\s{1,8}$",
    re.IGNORECASE,
)
_QUOTE = re.compile("[\"'`*\u2018\u201c\u00ab\u300c]{0,3}")
_CLOSING = re.compile("[\"'`*\u2019\u201d\u00bb\u300d]{0,3}")
_NAME = re.compile(r"[^\W_][\w-]{0,127}")
_AND = re.compile(r"\s{0,8}(?:[,;&+\u3001\uff0c]\s{0,8}(?:and\s{1,8})?|and\s{1,8})")
_PAUSE = re.compile(r"\s{0,8}(?:$|[,;&+.!?)\u3001\uff0c\u3002]|and\s)")


def asked_for(message: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names of the skills that somebody asks for in so many words, as they are known; one that is not known, as it
    was written, where it cannot be meant otherwise: "use the skill to …" asks for none."""
    leads = list(islice(_USE.finditer(message), ASKED_MAX))
    spots = islice(_SKILL.finditer(message), LOOKED_AT_MAX)
    others = [between for spot in spots if (between := _before(message, spot.start()))]
    if not leads and not others:
        return ()
    known = {folded(name): name for name in names}
    found: dict[str, None] = {}
    for lead in leads:
        rest = folded(message[lead.end() : lead.end() + NAMES_CHARS_MAX])
        found.update(dict.fromkeys(_named(rest, known, certain=bool(lead[1]))))
    for other in others:
        if (name := known.get(folded(" ".join(other.split())))) is not None:
            found[name] = None
    return tuple(found)[:ASKED_MAX]


def _before(message: str, at: int) -> str:
    """What stands between "use the" and "skill"."""
    found = _USE_THE.search(message[max(at - NAME_CHARS_MAX, 0) : at])
    return found[1] if found is not None else ""


def _named(rest: str, known: Mapping[str, str], *, certain: bool) -> Iterator[str]:
    """The names that a text begins with. `certain`: after a colon the first word is one, whatever it is."""
    longest_first = sorted(known, key=len, reverse=True)
    at = 0
    for count in range(ASKED_MAX):
        quote = _QUOTE.match(rest, at)
        begin = quote.end() if quote else at
        name = next((one for one in longest_first if rest.startswith(one, begin) and _ends(rest, begin + len(one))), "")
        end = begin + len(name)
        if name:
            yield known[name]
        else:
            word = _NAME.match(rest, begin)
            if word is None:
                return
            name, end = word[0].rstrip("-_"), word.end()
            meant = begin > at or "-" in name or (certain and _PAUSE.match(rest, end) is not None)
            if not meant and not (certain and count == 0):
                return
            yield name
        closing = _CLOSING.match(rest, end)
        following = _AND.match(rest, closing.end() if closing else end)
        if following is None:
            return
        at = following.end()


def _ends(text: str, at: int) -> bool:
    """True if no name goes on here: `pdf` is not what "pdf-forms" asks for."""
    if at >= len(text):
        return True
    if text[at] in "-:._" and at + 1 < len(text):
        return not _is_word(text[at + 1])
    return not _is_word(text[at]) or _IS_UNSPACED.match(text[at]) is not None
