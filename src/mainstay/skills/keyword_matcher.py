"""Selects skills for a message: by their keywords, or requested by name ("use skill: infra-ops").

Keywords match whole words in any language. In scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) a
keyword matches wherever it occurs; Korean appends particles to words, so there only the start must be a word boundary.
Matching takes linear time; of a very long message only the beginning and the end are searched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

MESSAGE_CHARS_MAX = 64 * 1024  # of a longer message, the beginning and the end are searched
KEYWORDS_MAX = 50  # of a skill
KEYWORD_CHARS_MAX = 100
TOTAL_KEYWORD_CHARS_MAX = 20_000  # of all skills together
REQUESTED_MAX = 10
NAME_CHARS_MAX = 150  # between "use the" and "skill"
OCCURRENCES_MAX = 100  # occurrences of the word "skill"
NAME_LIST_CHARS_MAX = 2_000  # parsed after "use skill:"

# --- keywords ------------------------------------------------------------------------------------

_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|«([^»]*)»|「([^」]*)」')
_SEPARATORS = re.compile(r"[,;\n\uff0c\u3001\uff1b\u060c]")
_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED_SCRIPTS}]")
_IS_HANGUL = re.compile(f"[{_HANGUL}]")
_WORD_RUN = re.compile(f"[^\\W{_UNSPACED_SCRIPTS}{_HANGUL}]+")
_ASCII_WORD_RUN = re.compile(r"\w+", re.ASCII)
_JOINERS = "\u200c\u200d"


def parse_keywords(text: str) -> tuple[str, ...]:
    """Split at commas, or else at spaces; a quoted text is one keyword."""
    keywords = [next(filter(None, groups), "") for groups in _QUOTED.findall(text)]
    rest = _QUOTED.sub(",", text) if keywords and _SEPARATORS.search(_QUOTED.sub("", text)) else _QUOTED.sub(" ", text)
    keywords += _SEPARATORS.split(rest) if _SEPARATORS.search(rest) else rest.split()
    cleaned = (" ".join(word.split())[:KEYWORD_CHARS_MAX] for word in keywords)
    return tuple(dict.fromkeys(word for word in cleaned if any(map(_is_word_char, word))))[:KEYWORDS_MAX]


def fold_case(text: str) -> str:
    """Fold case and normalise to NFC, for caseless comparison."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


class KeywordMatcher:
    """Finds the keywords of many skills in a message in one pass (Aho-Corasick).

    Whether a word may begin or end between two characters depends on these two alone. So keywords and messages are
    split into the same indivisible parts, with marks where a word may begin or end, and the automaton runs over parts.
    If all keywords together exceed KEYWORDS_CHARS_MAX, the skills with the longest lists are left out.
    """

    def __init__(self, skills: Mapping[str, Sequence[str]]) -> None:
        self._first_words: set[str] = set()  # the first word of every keyword
        self._first_chars: set[str] = set()  # or its first character, in scripts without spaces
        self._transitions: dict[tuple[int, str], int] = {}  # (state, part): next state; 0 is the start
        self._outputs: list[set[str]] = [set()]  # by state: skills with a keyword that ends here
        self._fallbacks: list[int] = [0]  # by state: fallback, the longest suffix that is a prefix of a keyword
        folded_words = {skill: [" ".join(fold_case(word).split()) for word in words] for skill, words in skills.items()}
        room = TOTAL_KEYWORD_CHARS_MAX
        for skill in sorted(folded_words, key=lambda name: (sum(map(len, folded_words[name])), name)):
            room -= sum(map(len, folded_words[skill]))
            if room < 0:
                break
            for word in folded_words[skill]:
                self._add_keyword(word, skill)
        self._link_fallbacks()

    def _add_keyword(self, word: str, skill: str) -> None:
        first = next((char for char in word if _is_word_char(char)), "")
        if not first:
            return
        piece = _WORD_RUN.search(word)
        if piece is not None and first == piece[0][0]:
            self._first_words.add(piece[0])
        else:
            self._first_chars.add(first)
        state = 0
        for part in _split_parts(word):
            if (next_state := self._transitions.get((state, part))) is None:
                next_state = self._transitions[state, part] = len(self._outputs)
                self._outputs.append(set())
                self._fallbacks.append(0)
            state = next_state
        self._outputs[state].add(skill)

    def _link_fallbacks(self) -> None:
        """Compute the fallbacks, shortest prefixes first: longer ones depend on them."""
        depth = [0] * len(self._outputs)
        for (state, _), next_state in self._transitions.items():  # in insertion order, so parents come first
            depth[next_state] = depth[state] + 1
        for (state, part), next_state in sorted(self._transitions.items(), key=lambda item: depth[item[1]]):
            if state:
                self._fallbacks[next_state] = self._next_state(self._fallbacks[state], part)

    def _next_state(self, state: int, part: str) -> int:
        while (next_state := self._transitions.get((state, part))) is None:
            if not state:
                return 0
            state = self._fallbacks[state]
        return next_state

    def match(self, message: str) -> frozenset[str]:
        """Return the skills with a keyword in the message."""
        if not self._transitions:
            return frozenset()
        skills: set[str] = set()
        seen = {0}
        for text in map(fold_case, searched_parts(message)):
            if not self._can_match(text):
                continue
            state, transition = 0, self._transitions.get
            for part in _split_parts(" ".join(text.split())):
                next_state = transition((state, part))
                state = ending = next_state if next_state is not None else self._next_state(state, part)
                while ending not in seen:  # all keywords that end here; every state once
                    seen.add(ending)
                    skills |= self._outputs[ending]
                    ending = self._fallbacks[ending]
        return frozenset(skills)

    def _can_match(self, text: str) -> bool:
        """Rule out most messages quickly."""
        if text.isascii():
            return not self._first_words.isdisjoint(_ASCII_WORD_RUN.findall(text))
        return not self._first_words.isdisjoint(_WORD_RUN.findall(text)) or not self._first_chars.isdisjoint(text)


def searched_parts(message: str) -> tuple[str, ...]:
    """Return the message; if it is too long, its beginning and its end, cut at white space."""
    if len(message) <= MESSAGE_CHARS_MAX:
        return (message,)
    head, tail = message[: MESSAGE_CHARS_MAX // 2], message[-MESSAGE_CHARS_MAX // 2 :]
    return head[: max(map(head.rfind, " \n"))], tail[min(at if at >= 0 else 0 for at in map(tail.find, " \n")) :]


# --- word boundaries -----------------------------------------------------------------------------

_WORD_START, _WORD_END = "\0b", "\0e"  # cannot collide: only parts of words have two characters
_PART = re.compile("[wm]+|h(?:m[wm]*)?|.", re.DOTALL)  # over the kinds of characters


def _split_parts(text: str) -> list[str]:
    """Split a text into indivisible parts, with marks in between where a word may begin or end."""
    kinds = text.translate({ord(char): _char_kind(char) for char in set(text)})
    parts = [_WORD_START]
    for part in _PART.finditer(kinds):
        begin, end = part.span()
        if begin:
            parts += _BOUNDARIES[kinds[begin - 1 : begin + 1]]
        parts.append(text[begin:end])
    parts.append(_WORD_END)
    return parts


@lru_cache(8192)
def _char_kind(char: str) -> str:
    """Return w: word character; m: combining mark; h: Korean; u: script without spaces; v: mark in one; o: other."""
    mark = unicodedata.category(char)[0] == "M" or char in _JOINERS
    if _IS_UNSPACED.match(char) and _is_word_char(char):
        return "v" if mark else "u"
    if mark:
        return "m"
    if not _is_word_char(char):
        return "o"
    return "h" if _IS_HANGUL.match(char) else "w"


def _can_begin(before: str, own: str) -> bool:
    return before not in "whm" or own not in "whm"


def _can_end(own: str, after: str) -> bool:
    if own == "o":
        return True
    if after in "mv":
        return False  # the mark belongs to the letter
    return own not in "wm" or after != "w"


_BOUNDARIES = {
    before + after: [
        *([_WORD_END] if _can_end(before, after) else []),
        *([_WORD_START] if _can_begin(before, after) else []),
    ]
    for before in "wmhuvo"
    for after in "wmhuvo"
}


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_" or char in _JOINERS or unicodedata.category(char)[0] == "M"


# --- requests by name ----------------------------------------------------------------------------

_USE_SKILL = re.compile(
    r"(?<![\w-])use\s{1,8}(?:the\s{1,8})?(?:skills?)(?![\w-])\s{0,8}([:\uff1a]?)\s{0,8}", re.IGNORECASE
)
_SKILL_WORD = re.compile(r"(?<=\s)skill(?![\w-])", re.IGNORECASE)
_USE_NAME = re.compile(
    r"(?<![\w-])use\s{1,8}(?:the\s{1,8})?[\"'`\u201c*]{0,2}([^\n\"'`\u201d*]{1,130}?)[\"'`\u201d*]{0,2}\s{1,8}$",
    re.IGNORECASE,
)
_OPENING_QUOTES = re.compile("[\"'`*\u2018\u201c\u00ab\u300c]{0,3}")
_CLOSING_QUOTES = re.compile("[\"'`*\u2019\u201d\u00bb\u300d]{0,3}")
_NAME = re.compile(r"[^\W_][\w-]{0,127}")
_NAME_SEPARATOR = re.compile(r"\s{0,8}(?:[,;&+\u3001\uff0c]\s{0,8}(?:and\s{1,8})?|and\s{1,8})")
_NAME_END = re.compile(r"\s{0,8}(?:$|[,;&+.!?)\u3001\uff0c\u3002]|and\s)")


def find_requested_skills(message: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the skills that the message requests by name, spelled as in `names`.

    An unknown name is returned as written if the request is unambiguous: "use the skill to …" requests none.
    """
    message = "\n".join(searched_parts(message))
    direct = list(islice(_USE_SKILL.finditer(message), REQUESTED_MAX))
    occurrences = islice(_SKILL_WORD.finditer(message), OCCURRENCES_MAX)
    phrases = [phrase for occurrence in occurrences if (phrase := _name_before(message, occurrence.start()))]
    if not direct and not phrases:
        return ()
    by_folded = {fold_case(name): name for name in names}
    known = {name: by_folded[name] for name in sorted(by_folded, key=len, reverse=True)}
    requested: dict[str, None] = {}
    for request in direct:
        rest = fold_case(message[request.end() : request.end() + NAME_LIST_CHARS_MAX])
        requested.update(dict.fromkeys(_parse_names(rest, known, after_colon=bool(request[1]))))
    for phrase in phrases:
        if (name := known.get(fold_case(" ".join(phrase.split())))) is not None:
            requested[name] = None
    return tuple(requested)[:REQUESTED_MAX]


def _name_before(message: str, at: int) -> str:
    """Return the text between "use the" and "skill"."""
    match = _USE_NAME.search(message[max(at - NAME_CHARS_MAX, 0) : at])
    return match[1] if match is not None else ""


def _parse_names(rest: str, known: Mapping[str, str], *, after_colon: bool) -> Iterator[str]:
    """Yield the names that a text begins with. `known` has the longest names first.

    `after_colon`: the first word is a name even if it is unknown.
    """
    at = 0
    for count in range(REQUESTED_MAX):
        quote = _OPENING_QUOTES.match(rest, at)
        begin = quote.end() if quote else at
        name = next(
            (
                candidate
                for candidate in known
                if rest.startswith(candidate, begin) and _is_name_end(rest, begin + len(candidate))
            ),
            "",
        )
        end = begin + len(name)
        if name:
            yield known[name]
        else:
            word = _NAME.match(rest, begin)
            if word is None:
                return
            name, end = word[0].rstrip("-_"), word.end()
            is_explicit = begin > at or "-" in name or (after_colon and _NAME_END.match(rest, end) is not None)
            if not is_explicit and not (after_colon and count == 0):
                return
            yield name
        closing = _CLOSING_QUOTES.match(rest, end)
        separator = _NAME_SEPARATOR.match(rest, closing.end() if closing else end)
        if separator is None:
            return
        at = separator.end()


def _is_name_end(text: str, at: int) -> bool:
    """Return whether a name ends here: "pdf-forms" does not request `pdf`."""
    if at >= len(text):
        return True
    if text[at] in "-:._" and at + 1 < len(text):
        return not _is_word_char(text[at + 1])
    return not _is_word_char(text[at]) or _IS_UNSPACED.match(text[at]) is not None
