"""Which skills a message calls for: by the words it has in it, or by name ("use skill: infra-ops").

Words are whole words in any language. Where a script puts no spaces between them (Chinese, Japanese, Thai, Lao, Khmer,
Burmese), a word counts where it occurs; Korean puts its particles after a word, so there only the beginning has to be
one. Everything takes time in proportion to the message, and of a very long one the beginning and the end are looked at.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

MESSAGE_CHARS_MAX = 64 * 1024  # of a longer one, its beginning and its end are looked at
KEYWORDS_MAX = 50  # of a skill
KEYWORD_CHARS_MAX = 100
KEYWORDS_CHARS_MAX = 20_000  # of all skills together
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
    """The keywords of some skills, to be looked for in messages all at once: in one pass, however many they are.

    Whether a word may begin or end between two characters depends on these two alone. So keywords and messages are cut
    alike into what is never divided, with marks where a word may begin or end, and the one is looked for in the other
    as a list in a list (Aho and Corasick). Where skills have more than there is room for, those with most lose theirs.
    """

    def __init__(self, skills: Mapping[str, Sequence[str]]) -> None:
        self._pieces: set[str] = set()  # the first word of every keyword
        self._chars: set[str] = set()  # or its first character, where words are not spaced
        self._next: dict[tuple[int, str], int] = {}  # from 0, the beginning of all
        self._skills: list[set[str]] = [set()]  # whose keyword ends here
        self._back: list[int] = [0]  # where the longest end of this is a beginning
        folded_words = {skill: [" ".join(folded(word).split()) for word in words] for skill, words in skills.items()}
        room = KEYWORDS_CHARS_MAX
        for skill in sorted(folded_words, key=lambda one: (sum(map(len, folded_words[one])), one)):
            room -= sum(map(len, folded_words[skill]))
            if room < 0:
                break
            for word in folded_words[skill]:
                self._add(word, skill)
        self._connect()

    def _add(self, word: str, skill: str) -> None:
        first = next((char for char in word if _is_word(char)), "")
        if not first:
            return
        piece = _PIECE.search(word)
        if piece is not None and first == piece[0][0]:
            self._pieces.add(piece[0])
        else:
            self._chars.add(first)
        at = 0
        for part in _parts(word):
            if (following := self._next.get((at, part))) is None:
                following = self._next[at, part] = len(self._skills)
                self._skills.append(set())
                self._back.append(0)
            at = following
        self._skills[at].add(skill)

    def _connect(self) -> None:
        """The shorter first: where a longer one goes on is told from them."""
        depth = [0] * len(self._skills)
        for (at, _), following in self._next.items():  # which are in the order in which they were made
            depth[following] = depth[at] + 1
        for (at, part), following in sorted(self._next.items(), key=lambda one: depth[one[1]]):
            if at:
                self._back[following] = self._step(self._back[at], part)

    def _step(self, at: int, part: str) -> int:
        while (following := self._next.get((at, part))) is None:
            if not at:
                return 0
            at = self._back[at]
        return following

    def match(self, message: str) -> frozenset[str]:
        """The skills that one of these words stands for."""
        if not self._next:
            return frozenset()
        found: set[str] = set()
        seen = {0}
        for text in map(folded, looked_at(message)):
            if not self._may_match(text):
                continue
            at, following = 0, self._next.get
            for part in _parts(" ".join(text.split())):
                here = following((at, part))
                at = ending = here if here is not None else self._step(at, part)
                while ending not in seen:  # all that end here, each once
                    seen.add(ending)
                    found |= self._skills[ending]
                    ending = self._back[ending]
        return frozenset(found)

    def _may_match(self, text: str) -> bool:
        """False for nearly every message, and quickly."""
        if text.isascii():
            return not self._pieces.isdisjoint(_ASCII_PIECE.findall(text))
        return not self._pieces.isdisjoint(_PIECE.findall(text)) or not self._chars.isdisjoint(text)


def looked_at(message: str) -> tuple[str, ...]:
    """Of a message that is too long, its beginning and its end, in whole words where it has some."""
    if len(message) <= MESSAGE_CHARS_MAX:
        return (message,)
    head, tail = message[: MESSAGE_CHARS_MAX // 2], message[-MESSAGE_CHARS_MAX // 2 :]
    return head[: max(map(head.rfind, " \n"))], tail[min(at if at >= 0 else 0 for at in map(tail.find, " \n")) :]


# --- where a word may begin and end --------------------------------------------------------------

_BEGINS, _ENDS_HERE = "\0b", "\0e"  # no part of a text is like these: only words have parts of two characters
_PART = re.compile("[wm]+|h(?:m[wm]*)?|.", re.DOTALL)  # in kinds of characters


def _parts(text: str) -> list[str]:
    """What is never divided of a text, with marks in between where a word may begin or end."""
    kinds = text.translate({ord(char): _kind(char) for char in set(text)})
    parts = [_BEGINS]
    for part in _PART.finditer(kinds):
        begin, end = part.span()
        if begin:
            parts += _BETWEEN[kinds[begin - 1 : begin + 1]]
        parts.append(text[begin:end])
    parts.append(_ENDS_HERE)
    return parts


@lru_cache(8192)
def _kind(char: str) -> str:
    """w: of a word; m: a mark on a letter; h: Korean; u: of a script without spaces; v: a mark there; o: another."""
    mark = unicodedata.category(char)[0] == "M" or char in _JOINERS
    if _IS_UNSPACED.match(char) and _is_word(char):
        return "v" if mark else "u"
    if mark:
        return "m"
    if not _is_word(char):
        return "o"
    return "h" if _IS_HANGUL.match(char) else "w"


def _may_begin(before: str, own: str) -> bool:
    return before not in "whm" or own not in "whm"


def _may_end(own: str, after: str) -> bool:
    if own == "o":
        return True
    if after in "mv":
        return False  # half a letter
    return own not in "wm" or after != "w"


_BETWEEN = {
    one + other: [
        *([_ENDS_HERE] if _may_end(one, other) else []),
        *([_BEGINS] if _may_begin(one, other) else []),
    ]
    for one in "wmhuvo"
    for other in "wmhuvo"
}


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
    message = "\n".join(looked_at(message))
    leads = list(islice(_USE.finditer(message), ASKED_MAX))
    spots = islice(_SKILL.finditer(message), LOOKED_AT_MAX)
    others = [between for spot in spots if (between := _before(message, spot.start()))]
    if not leads and not others:
        return ()
    written = {folded(name): name for name in names}
    known = {name: written[name] for name in sorted(written, key=len, reverse=True)}
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
    """The names that a text begins with; of those that are `known`, the longest come first. `certain`: after a colon
    the first word is one, whatever it is."""
    at = 0
    for count in range(ASKED_MAX):
        quote = _QUOTE.match(rest, at)
        begin = quote.end() if quote else at
        name = next((one for one in known if rest.startswith(one, begin) and _ends(rest, begin + len(one))), "")
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
