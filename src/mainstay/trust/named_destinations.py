"""Which destinations a user named: whole tokens of the user's own words, not by coincidence, not under a negation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from mainstay.trust.request_vocabulary import read_words
from mainstay.trust.requested_actions import REMOVAL_FAMILY, is_reply_requested, iterate_requests, words_of
from mainstay.trust.rule_patterns import normalise_path
from mainstay.trust.user_statements import is_negated, iterate_removal_clauses

UNKNOWN_DESTINATION = "?"
_DESTINATION_CHARS_MAX = 4000
_SHOWN_CHARS_MAX = 2000  # of an answer that a user reads before they say `delete them`
_OCCURRENCES_MAX = 2000  # occurrences of a destination in a text that are examined
_WORD_CHARS_MAX = 300  # how far the text around a destination is examined
_LONG_NUMBER_DIGITS = 7  # a number of so many digits is not in a text by coincidence

# --- destinations the user named -----------------------------------------------------------------

# never part of an address
_ADDRESS_BREAKS = frozenset('<>"`|\u00ab\u00bb\u201c\u201d\u201e \t\n\r\v\f\u00a0\u2028\u2029\u3000')
_OPENERS = frozenset("([{',;\u2018\uff08\u300c")
_CLOSERS = frozenset(")]}',;\u2019\uff09\u300d\u3001\u3002\uff0c\uff1b")
_SENTENCE_ENDS = ".:!?\u2026\uff01\uff1f\uff1a"
_AFTER_SENTENCE = _SENTENCE_ENDS + ")]}'\"\u2019\u201d*_"
_ADDRESS = r"[^\s<>@,;:?\"]+@[^\s<>@,;:?\"]+"
_MAIL = re.compile(rf"(?:mailto:)?({_ADDRESS})|[^<>@]*<({_ADDRESS})>")
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)")
_PERSON = re.compile(rf"{_ADDRESS}|[^\W\d_]+(?:[ ._-][^\W\d_]+){{0,3}}|[A-Za-z0-9]{{8,40}}")
_LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>\"]+|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?:/[^\s<>\"]*)?$", re.IGNORECASE
)

_ANY_LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>\"'\\)\]]+|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|de|fr|es|example)\b(?:/[^\s<>\"'\\)\]]*)?",
    re.IGNORECASE,
)
_RECIPIENT_PRONOUN = re.compile(
    r"\b(?:them|him|her|ihm|ihnen|ihr|lui|leur|le|les|gli)\b(?! (?:\w+ )?(?:mail|message|file)s?\b)", re.IGNORECASE
)
_OTHER_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b(?!I\b)[A-Z][a-z]+(?=\s+(?:[A-Z]|said|sent|wrote|asked|wants))|@")
_ARTICLES = r"(?:the|our|in|into|to|im|in den|den|dem|der|le|la|el|il|het|de)"
_ROOM_WORDS = "channel|room|group|kanal|raum|gruppe|salon|canal|groupe|grupo|gruppo|kanaal"
_BEGINNING_CHARS_MIN = 3
_BEGINNING = re.compile(
    r"\b(?:start(?:s|ing)?|begin(?:s|ning)?) with (?:the (?:word|letters?) )?['\"\u201c]?([^\s,.;:!?'\"\u201d]+)",
    re.IGNORECASE,
)
_ANY_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")

# --- authors and owners --------------------------------------------------------------------------

_SOURCE_CHARS = 60
_SOURCE_BEFORE = re.compile(
    r"\b(?:from|by|of|von|vom|par|du|de la part de|da|dal|dalla|van|door|from \S{1,40} to|this is|i am|i['\u2019]m"
    r"|ich bin|soy"
    r"|je suis|de)\s+(?:the |our |my |mr\.? |ms\.? |mrs\.? |dr\.? |user |herrn? |frau )?$",
    re.IGNORECASE,
)
_SOURCE_AFTER = re.compile(
    r"['\u2019]s\b|['\u2019](?=\s)|\s+(?:has |have |had |just |also |already |hat |a )?(?:sent|wrote|written|asked"
    r"|asks|said|says"
    r"|posted|shared|mentioned|created|called|uploaded|commented|reported|proposed|suggested|requested|wants"
    r"|wanted|needs|braucht|m\u00f6chte|bittet|veut|necesita|quiere|owes|paid"
    r"|write|say|ask|send|want|need|mean|propose|suggest|geschrieben|geschickt|gesagt|gefragt|schrieb|schickte|fragt|\u00e9crit|envoy\u00e9|dit|demand\u00e9"
    r"|escribi\u00f3|envi\u00f3|dijo"
    r"|ha scritto|ha mandato)\b",
    re.IGNORECASE,
)


def is_named_by_user(destination: str, user_texts: Iterable[str], cwd: str = "", *, as_recipient: bool = False) -> bool:
    """Return True if the user wrote this destination: whole, by itself, not as an ordinary word or number that is there
    by coincidence, and not in order to forbid it.

    `as_recipient`: a name or address that is only mentioned as the author of something (`the mail from eve@…`) counts
    only where the user asks for an answer to it.
    """
    texts = (unicodedata.normalize("NFC", text) for text in user_texts)
    if not as_recipient or not _PERSON.fullmatch(destination):
        return any(True for text in texts for _ in _find_mentions(destination, text, cwd))
    words = frozenset(words_of(destination))
    return any(
        not is_source_mention(text, at, end) or is_reply_requested(words, (text,)) or _is_meant_by_pronoun(text, end)
        for text in texts
        for at, end in _find_mentions(destination, text, cwd)
    )


def _is_meant_by_pronoun(text: str, end: int) -> bool:
    """Return True if a later clause sends or pays something to `them`, and no other name stands between: `Apple called.
    Please send them the difference.`"""
    for clause in (*iterate_requests("send", (text,)), *iterate_requests("pay", (text,))):
        pronoun = _RECIPIENT_PRONOUN.search(text, max(clause.start, end), clause.end)
        if pronoun and not _OTHER_NAME.search(text, end, pronoun.start()):
            return True
    return False


def is_name_begun(destination: str, user_texts: Iterable[str]) -> bool:
    """Return True if the user wrote how the name begins: `the channel starting with External`."""
    return any(
        len(found[1]) >= _BEGINNING_CHARS_MIN and destination.startswith(found[1])
        for text in user_texts
        for found in _BEGINNING.finditer(text)
    )


def is_room_named(destination: str, user_texts: Iterable[str]) -> bool:
    """Return True if the user wrote the whole name of a room beside the word for a room: `#milan-fair` is meant by `the
    milan fair channel` and by `the channel milan-fair`, `#fair` is not."""
    words = destination[1:].split("-")
    if destination[:1] != "#" or not all(word.isalnum() for word in words):
        return False
    name = "[ -]".join(map(re.escape, words))
    pattern = re.compile(
        rf"\b{_ARTICLES}\s{name}[ -](?:{_ROOM_WORDS})\b|\b(?:{_ROOM_WORDS})\s{name}(?![\w-]|\s[A-Z])", re.IGNORECASE
    )
    return any(
        not is_negated(text, *found.span()) and not is_source_mention(text, *found.span())
        for text in user_texts
        for found in pattern.finditer(text)
    )


def contains_link(destination: str, content: str) -> bool:
    """Return True if this link stands in the content: the whole of it, letter by letter."""
    if not _LINK.match(destination) or not is_nameable(destination):
        return False
    return any(True for _ in _find_whole(unicodedata.normalize("NFC", destination), content))


def count_links(content: str) -> int:
    """Return how many different links a text has."""
    return len(set(_ANY_LINK.findall(content)))


def find_addresses(content: str) -> set[str]:
    """Return the mail addresses in a text, in lower case."""
    return {found.rstrip(".").casefold() for found in _ANY_ADDRESS.findall(content)}


def is_source_mention(text: str, at: int, end: int) -> bool:
    """Return True if a name stands there as that of an author or owner: `the mail from Eve`, `Eve's file`, `Eve"
    " wrote`."""
    if _PLACE_AFTER.match(text, end) or text[at : at + 1] in "#@":
        return False
    if text[at - 1 : at] in ("'", '"', "`", "\u201c", "\u2018") and text[end : end + 1]:
        at, end = at - 1, end + 1
    return (
        _SOURCE_BEFORE.search(text, max(0, at - _SOURCE_CHARS), at) is not None
        or _SOURCE_AFTER.match(text, end, end + _SOURCE_CHARS) is not None
    )


def is_removal_requested(destination: str, user_texts: Sequence[str], cwd: str = "", *, shown: str = "") -> bool:
    """Return True if the user asked for this destination, or for a folder that it is in, to be removed or moved: named
    in a clause that asks for it, or elsewhere in a text that says `delete them`.

    `shown` is the answer that the user has just read: `delete them` may refer to what it names.
    """
    folders = [str(parent) for parent in PurePosixPath(destination).parents if parent.name not in ("", ".", "..")]
    if any(_is_removal_requested(one, user_texts, cwd) for one in (destination, *folders)):
        return True
    if not is_named_in_answer(destination, shown, cwd):
        return False
    clauses = (clause for text in user_texts[-1:] for clause in iterate_removal_clauses(text))
    return any(is_pronoun for _, _, is_pronoun in clauses)


def is_named_in_answer(destination: str, shown: str, cwd: str = "") -> bool:
    """Return True if a short text that the user has read or written names this destination."""
    return len(shown) <= _SHOWN_CHARS_MAX and any(True for _ in _find_mentions(destination, shown, cwd))


def _is_removal_requested(destination: str, user_texts: Iterable[str], cwd: str) -> bool:
    for user_text in user_texts:
        text = unicodedata.normalize("NFC", user_text)
        mentions = list(_find_mentions(destination, text, cwd, after_removal_verb=True))
        if mentions and any(
            is_pronoun or any(start <= at < end for at, _ in mentions)
            for start, end, is_pronoun in iterate_removal_clauses(text)
        ):
            return True
    return False


def is_named_in_removal(destination: str, user_texts: Iterable[str], cwd: str = "") -> bool:
    """Return True if the user asked for this to be removed or cancelled: named in the clause that asks for it, or in a
    text that asks for `it` to be removed."""
    for user_text in user_texts:
        text = unicodedata.normalize("NFC", user_text)
        mentions = list(_find_mentions(destination, text, cwd, after_removal_verb=True))
        if mentions and any(
            clause.refers_back or any(clause.start <= at < clause.end for at, _ in mentions)
            for clause in iterate_requests(REMOVAL_FAMILY, (text,))
        ):
            return True
    return False


def _find_mentions(
    destination: str, text: str, cwd: str, *, after_removal_verb: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield where a text names the destination."""
    if not is_nameable(destination):
        return
    destination = unicodedata.normalize("NFC", destination)
    hosted = tuple(dict.fromkeys(_address_spellings(destination)))
    spellings = hosted or tuple(dict.fromkeys(_other_spellings(destination, cwd)))
    lowered = _lower_ascii(text) if hosted else ""
    for spelling in spellings:
        for at, end in _find_whole(spelling, text, lowered):
            if hosted and not _is_sent_as_written(destination, text[at:end]):
                continue
            if _is_coincidence(spelling, text, at, end, after_removal_verb=after_removal_verb):
                continue
            if after_removal_verb and _INSIDE_BEFORE.search(text, max(0, at - 40), at):
                continue
            if not is_negated(text, at, end):
                yield at, end


def is_nameable(destination: str) -> bool:
    if not destination or destination == UNKNOWN_DESTINATION or len(destination) > _DESTINATION_CHARS_MAX:
        return False
    if sum(char.isalnum() for char in destination) < 2:
        return False  # ".", "*" and "a" occur in any text
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for char in destination)


def _address_spellings(destination: str) -> Iterator[str]:
    """Yield the spellings of a URL or mail address that a user would write; case is ignored in the host."""
    if match := _URL.match(destination):
        url = _fold_host(destination)
        # a slash after a path makes another address, which the server sees; one after the host does not
        forms = _slash_variants(url) if destination[match.end() :] in ("", "/") else (url,)
        for form in forms:
            yield form
            if form.startswith("https://") and "@" not in form.partition("//")[2].partition("/")[0]:
                yield form.removeprefix("https://")
    elif match := _MAIL.fullmatch(destination):
        yield _fold_host(match[1] or match[2])


def _other_spellings(destination: str, cwd: str) -> Iterator[str]:
    """Yield the spellings of any other destination that a user would write: a path, a room, a name."""
    yield destination
    if _HANDLE.fullmatch(destination):
        yield f"#{destination}"
        yield f"@{destination}"
    if _PLAIN_WORD.fullmatch(destination) and destination.islower():  # "tell Jonas": his account is `jonas`
        yield destination.capitalize()
    if re.search(r"[\s@:]", destination) or not cwd:
        if "/" in destination:
            yield from _slash_variants(destination)
        return
    if ".." in destination.split("/"):  # the target depends on symbolic links
        return
    whole = normalise_path(destination, cwd)
    below = whole.removeprefix(cwd.rstrip("/") + "/")
    for form in (destination, whole, below, f"./{below}") if below != whole else (destination, whole):
        if sum(char.isalnum() for char in form) >= 2:
            yield from _slash_variants(form)


def _slash_variants(text: str) -> Iterator[str]:
    bare = text.rstrip("/")
    yield text
    yield bare
    yield bare + "/"


def _fold_host(text: str) -> str:
    """Lower-case the scheme and host, or the domain of a mail address; keep the rest."""
    if match := _URL.match(text):
        return _lower_ascii(match[0]) + text[match.end() :]
    if "@" in text and "/" not in text.partition("@")[0]:
        local, at, domain = text.rpartition("@")
        return f"{local}{at}{_lower_ascii(domain)}"
    host, slash, rest = text.partition("/")
    return f"{_lower_ascii(host)}{slash}{rest}"


def _find_whole(spelling: str, text: str, lowered: str = "") -> Iterator[tuple[int, int]]:
    """Yield where a spelling stands in a text as a whole token."""
    haystack, needle = (lowered, _lower_ascii(spelling)) if lowered else (text, spelling)
    at = -1
    for _ in range(_OCCURRENCES_MAX):
        if (at := haystack.find(needle, at + 1)) < 0:
            break
        end = at + len(spelling)
        whole = _is_start_boundary(text, at) and _is_end_boundary(text, end) and _has_paired_emphasis(text, at, end)
        if whole and (not lowered or _fold_host(text[at:end]) == spelling):
            yield at, end


def _is_sent_as_written(destination: str, written: str) -> bool:
    """Return False for a host in mixed case that the user did not write: its letters would carry data out."""
    if match := _URL.match(destination):
        host, shown = match[2], (_URL.match(written) or re.match(r"()([^/?#]*)", written))
        return host == _lower_ascii(host) or (shown is not None and host == shown[2])
    host = destination.rpartition("@")[2].rstrip(">")
    return host == _lower_ascii(host) or host == written.rpartition("@")[2]


# --- ordinary words and numbers ------------------------------------------------------------------

_HANDLE = re.compile(r"\w+(?:[ -]\w+)*")
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)*|\d+")
_MARKS = {"#": "", "@": "", '"': '"', "'": "'", "`": "`", "(": ")", "[": "]", "<": ">"} | {
    "\u2018": "\u2019", "\u201c": "\u201d", "\u201e": "\u201c\u201d", "\u00ab": "\u00bb", "\u300c": "\u300d"
}  # fmt: skip
# what has names: a word beside one of these is a name
_PLACES = (
    "agent|bot|list|lists|channel|room|group|folder|directory|dir|repo|repository|branch|team|board|calendar|queue|bucket|chat"
    "|notebook|label|tag|playlist|album|journal|workspace|notizbuch|etikett|libreta|cuaderno|etiqueta|carnet|taccuino"
    "|kanal|raum|gruppe|ordner|salon|canal|groupe|dossier|grupo|carpeta|cartella|gruppo|pasta|kanaal|klas\u00f6r"
    "|\u043a\u0430\u043d\u0430\u043b|\u043f\u0430\u043f\u043a\u0430"
)
_NUMBERED = (
    "file|user|account|project|list|topic|table|thread|page|document|doc|id|number|no|nr|issue|ticket|event"
    "|message|order"
    "|invoice|item|entry|record|task|pr|pull|pull request|mr|booking|reservation|purchase|note|deal|contact|card"
    "|datei|nummer|fichier|archivo|arquivo|bestand|plik|dosya|\u0444\u0430\u0439\u043b"
)
_PLACE_BEFORE = re.compile(rf"\b(?:{_PLACES})(?: (?:named|called))?[\s:]{{1,2}}$", re.IGNORECASE)
_PLACE_AFTER = re.compile(rf"(?:['\u2019]s)?[ -](?:{_PLACES})\b", re.IGNORECASE)
_NUMBER_BEFORE = re.compile(
    rf"\b(?:{_PLACES.replace('room|', '')}|{_NUMBERED})s?(?: with (?:the )?id)?[\s:.#]{{1,3}}$", re.IGNORECASE
)
_LISTED = r"(?:[\w@#.-]{1,80}(?:,|,? and|,? or|,? und|,? oder) (?:to )?){0,10}$"  # names before it in a list
_ADDRESSED = re.compile(
    r"\b(?:tell|notify|ping|dm|inform|sag|sage|informiere|pr\u00e9viens|avisa|dile|vertel) "
    r"(?:the |our |die |den |das |le |la |el |het |de )?" + _LISTED,
    re.IGNORECASE,
)
# a word after one of these is a person or a room, whatever follows: `ask owen by dm`
_ADDRESSED_DIRECTLY = re.compile(
    r"(?:^|[,.;:!?\n]\s*|\b(?:and|then|please|und|dann|bitte|et|y)\s)"
    r"(?:ask|tell|dm|ping|message|invite|kick|give|frag|sag|lade|dis \u00e0|demande \u00e0|dile a|pregunta a) $",
    re.IGNORECASE,
)
_OTHER_RECIPIENTS = read_words("named_destinations_other_recipients")
_VERB_BEFORE_NUMBER = re.compile(
    r"\b(?:close|reopen|label|merge|assign|delete|cancel|archive|resolve|schlie\u00dfe|l\u00f6sche|ferme|cierra)\s#?$"
    r"|\b(?:issue|ticket|file|event|mail|task|order|invoice)s?\s#?\d+(?:,\s?#?\d+)*,?\s(?:and|und|et|y|or)\s#?$",
    re.IGNORECASE,
)
# not `send me a draft to review.`: there the recipient is named before
_SENT_TO = re.compile(
    r"(?:\b(?:send|post|forward|share|write|give|report|announce|publish|upload|submit|deliver|pass|cc)\b"
    r"(?:(?!\b(?:me|us|you)\b)[^.!?\n]){0,80}\bto (?:the |our )?"
    r"|\b(?:sende|schick|schicke|schreib|schreibe|poste)\b[^.!?\n]{0,80}\ban (?:die |den |das )?)" + _LISTED,
    re.IGNORECASE,
)
_STOPS = re.compile(r"\s*(?:[,.:;!?)\]]|$|(?:and|or|that|about|when|if|und|oder|dass)\b)", re.IGNORECASE)
_MONTHS = "january february march april may june july august september october november december"
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday"
_DATES = frozenset((*_MONTHS.split(), *_WEEKDAYS.split()))
_AT_SENTENCE_START = re.compile(r"(?:^|[.!?\u2026:;\n])[\s\"'(*>-]*$")
# `remove the typo from notes.txt` does not ask for the file to be removed
_INSIDE_BEFORE = re.compile(
    r"\b(?:from|in|inside|within|of|aus|von|dans|de|du|en|da|dal|nel|uit|z|\u0438\u0437|\u0432)\s"
    r"(?:the |file |folder )?['\"`]?$",
    re.IGNORECASE,
)
_REMOVAL_VERB_BEFORE = re.compile(
    r"\b(?:delete|remove|erase|discard|purge|wipe|trash|uninstall|move|rename|prune|rm|rmdir|mv|l(?:\u00f6|oe)sche"
    r"|entferne"
    r"|verschiebe|supprime|efface|borra|elimina|cancella|rimuovi|apaga|verwijder|usu\u0144|sil"
    r"|\u0443\u0434\u0430\u043b\u0438)"
    r"(?: -\w+)*(?: (?:the|my|our|all|old|die|den|das|le|la|les|el|los))? $",
    re.IGNORECASE,
)
# `delete logs older than a week` does not ask for the folder `logs` to be removed
_RESTRICTED_AFTER = re.compile(
    r"\s+(?:of|last|von|vom|du|des|de|del|di|da|van|older|newer|larger|bigger|smaller|that|which|whose|with|without|from|before|after|not|except|\u00e4lter"
    r"|gr\u00f6\u00dfer|die|ohne|vor|plus|qui|sans|avant|m\u00e1s|que|sin|anteriores|pi\u00f9|che|senza|mais|ouder|zonder)\b",
    re.IGNORECASE,
)


def _is_coincidence(word: str, text: str, at: int, end: int, *, after_removal_verb: bool) -> bool:
    """Return True for an ordinary word or a short number that nothing around it marks as a name."""
    if not _PLAIN_WORD.fullmatch(word) or _is_marked(text, at, end):
        return False
    before = text[max(0, at - _WORD_CHARS_MAX) : at]
    if word[0].isdecimal():
        return len(word) < _LONG_NUMBER_DIGITS and not (
            _NUMBER_BEFORE.search(before) or _VERB_BEFORE_NUMBER.search(before)
        )
    if _PLACE_BEFORE.search(before) or _PLACE_AFTER.match(text, end):
        return False
    if after_removal_verb and _REMOVAL_VERB_BEFORE.search(before) and not _RESTRICTED_AFTER.match(text, end):
        return False
    if any(char.isupper() for char in word):  # a name; the first word of a sentence has a capital letter, too
        is_sentence_start = _AT_SENTENCE_START.search(before) is not None and not _SOURCE_AFTER.match(text, end)
        return word.lower() in _DATES or (is_sentence_start and not word[1:].isupper())
    if not word.islower():
        return False  # a script without capital letters
    if _ADDRESSED_DIRECTLY.search(before) and word not in _OTHER_RECIPIENTS:
        return False
    return not (_STOPS.match(text, end) and (_ADDRESSED.search(before) or _SENT_TO.search(before)))


def _is_marked(text: str, at: int, end: int) -> bool:
    """Return True if the word stands alone in quotation marks or brackets, or after # or @."""
    closers = _MARKS.get(text[at - 1]) if at else None
    return closers is not None and (not closers or text[end : end + 1] in tuple(closers))


def _lower_ascii(text: str) -> str:
    """Lower-case ASCII letters only, so that the length never changes."""
    return text.lower() if text.isascii() else "".join(char.lower() if char.isascii() else char for char in text)


def _is_start_boundary(text: str, at: int) -> bool:
    if at == 0:
        return True
    before = text[at - 1]
    if before in _ADDRESS_BREAKS or before.isspace():
        return True
    if before == "*":
        return True  # Markdown emphasis, if `_has_paired_emphasis` agrees
    if text[max(0, at - 7) : at].lower() == "mailto:":
        return at == 7 or not text[at - 8].isalnum()
    if before not in _OPENERS:
        return False
    if text.startswith("](", at - 2):
        return True
    start = at - 1
    while start > 0 and text[start - 1] not in _ADDRESS_BREAKS and not text[start - 1].isspace():
        start -= 1
        if at - start > _WORD_CHARS_MAX:  # longer than any word a user writes
            return False
    return "://" not in text[start : at - 1] and not re.search(r"[/@=]", text[start : at - 1])


def _is_end_boundary(text: str, end: int) -> bool:
    if end >= len(text):
        return True
    after, following = text[end], text[end + 1 : end + 2]
    if after in _ADDRESS_BREAKS or after.isspace() or after == "*":
        return True
    if after in "'\u2019":
        return not following.isalnum() or re.match(r"s(?!\w)", text[end + 1 : end + 3]) is not None
    if after in _CLOSERS:
        return after not in ",;" or not re.match(r"[^\s]*[/@=]", text[end + 1 : end + 200])
    if after in _SENTENCE_ENDS:
        rest = text[end : end + 100].lstrip(_AFTER_SENTENCE)
        if after == "." and following.isupper():
            return True  # a missing space between sentences; host names are not written like that
        return not rest or rest[0].isspace() or rest[0] in _ADDRESS_BREAKS or rest[0] in _CLOSERS
    return False


def _has_paired_emphasis(text: str, at: int, end: int) -> bool:
    """Return False if a `*` stands on one side only: then it is part of a glob, not emphasis."""
    left, right = at > 0 and text[at - 1] == "*", end < len(text) and text[end] == "*"
    if not left and not right:
        return True
    head = text[max(0, at - _WORD_CHARS_MAX) : at].rstrip("*")
    tail = text[end : end + _WORD_CHARS_MAX].lstrip("*")
    ends = (
        not tail or tail[0].isspace() or tail[0] in _ADDRESS_BREAKS or tail[0] in _CLOSERS or tail[0] in _SENTENCE_ENDS
    )
    return (
        left
        and right
        and (not head or head[-1].isspace() or head[-1] in _ADDRESS_BREAKS or head[-1] in _OPENERS)
        and ends
    )
