"""Which actions a user's sentences ask for: `move the dentist to Monday` asks for a tool like `reschedule_event`.

An action is a family of verbs, because users and developers choose different ones (`cancel`, `delete`). A request is a
clause with such a verb that is not negated.
"""

# ruff: noqa: RUF001 -- words of languages with other letters

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import msgspec

from mainstay.trust.request_verbs import (
    ENGLISH_PHRASES,
    ENGLISH_VERBS,
    MESSAGE_NOUNS,
    OWN_PLACE,
    READING_START,
    TOOL_VERBS,
    build_patterns,
)
from mainstay.trust.request_vocabulary import (
    MONEY,
    SYNONYMS,
    TRANSLATIONS,
    UNDERSTOOD,
    read_sections,
    read_words,
    split_words,
)
from mainstay.trust.user_statements import is_negated_before, iterate_clauses

_REQUEST_CHARS_MAX = 20_000  # of a user's text; what follows is not searched for requests

_ELSEWHERE = re.compile(r"\b(?:there|in (?:the|that) (?:channel|thread|room|group)|dort|là|allí|daar)\b", re.IGNORECASE)
_REPLY = re.compile(
    r"\b(?:repl(?:y|ying)|respond(?:ing)?|answer(?:ing)?|write back|get back to|antwort(?:e|en|et)|beantwort(?:e"
    r"|en|et)"
    r"|répond(?:s|re|ez)|responde[r]?|contesta[r]?|rispondi|rispondere|responda|antwoord|beantwoord|ответь(?:те)?"
    r"|odpowiedz)\b"
    r"|回复|返信|답장",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"\b(?:participants?|attendees?|invitees|guests|members|people (?:from|of|in)|everyone|everybody"
    r"|all of them|them|him|her|sender|author"
    r"|organi[sz]er"
    r"|back|teilnehmer(?:n|innen)?|allen|ihm|ihr|ihnen|absender|zurück|tous|leur|lui|expéditeur|asistentes|todos"
    r"|les|le"
    r"|remitente|partecipanti|tutti|mittente|deelnemers|iedereen)\b",
    re.IGNORECASE,
)
_ANAPHORA = re.compile(
    r"\b(?:it|them|this|that|these|those|both|sie|es|ihn|ihm|diese[nmrs]?|le|la|les|lo|los|las|ça|cela|het|deze"
    r"|них|его)\b"
    r"(?!\s+(?:file|document|doc|event|meeting|mail|message|folder|one)\b)"
    r"|\bthe (?:same |new |whole )?(?:file|document|doc|list|event|meeting|appointment|mail|email|message|issue"
    r"|ticket|task|note|page"
    r"|booking|reservation|payment|transaction|order|folder|channel|thread|invite|invitation)\b"
    r"(?=\s*(?:[.,!?;)]|$))",
    re.IGNORECASE,
)
# where an English verb is a request: "message Ann", "please mail her", "can you now post it", not "the message of Ann"
_BEFORE_VERB = (
    r"(?:^\s*|\b(?:if|when|once|falls|wenn|si|cuando|quand)\b[^,.;!?\n]{1,60}?\s|[,:;.!?\u2026\u2013\u2014\"\u201c*\u2022]\s{0,3}|\n|\b(?:please|to|and|then|you|also|just|now|or"
    r"|let['\u2019]?s|kindly|ahead"
    r"|pls|plz|simply|directly|quickly|immediately|hey|hi|hello|ok|okay|so|finally|first|second|third|next"
    r"|afterwards|instead"
    r"|maybe|bitte|dann|und|you (?:should|must|can|could|may|will|would))\s+)"
)
# how a clause begins that is a question
_QUESTION = re.compile(
    r"\W*(?:what|who|whom|whose|when|where|which|why|how|is|are|was|were|am|do|does|did|has|have|had|wie|wer|wann"
    r"|wo|was|welche)\b"
    r"(?!.*\b(?:please|can you|could you)\b)(?! not\b| it\b)",
    re.IGNORECASE,
)
STRICT_ACTIONS = frozenset(("remove", "pay"))  # the thing must be named in the clause that asks for it
_COMPATIBLE = {  # the families of verbs by which users ask for an action
    "change": ("change", "create", "book"),
    "create": ("create", "change", "book"),
    "decide": ("change", "remove", "send", "create", "rate"),
    "invite": ("send", "create", "change"),
    "book": ("book", "create", "pay"),
    "rate": ("rate", "send", "create"),
}
_CONFIRMATION = re.compile(
    r"\W*(?:yes|yep|yeah|sure|ok|okay|do it|go ahead|go on|please do|ja|klar|mach das|genau|oui|d'accord|vas-y|sí"
    r"|si|vale|claro"
    r"|sim|confirmed|looks? good|perfect|great)(?:[\s,.!]+(?:please|thanks|thank you|do it|send it|go ahead"
    r"|do that|bitte|danke|merci"
    r"|gracias|mach das))*\W*",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\s(,@])[A-ZÄÖÜÉÈ][^\W\d_]+")  # a word with a capital letter that does not begin a sentence
_PEOPLE_PRONOUN = re.compile(r"\b(?:him|her|them|both of them|ihm|ihr|ihnen|lui|leur|le|les|gli)\b", re.IGNORECASE)
_GERMAN = re.compile(
    r"\b(?:der|die|das|den|dem|ich|dass|bitte|und|ist|nicht|mir|auf)\b"
)  # all nouns have capital letters
_GERMAN_NAME = re.compile(r"\b(?:an|mit|bei|f\u00fcr|von|herrn?|frau)\s+([A-Z\u00c4\u00d6\u00dc][^\W\d_]+)")
_TOKEN = re.compile(r"[^\W_]+")


REMOVAL_FAMILY = "remove"
READING = "read"  # the action of a tool that is named for reading, whatever its effect is declared to be
_READING_VERBS = read_words("requested_actions_reading_verbs")
# verbs in sentences, nouns in the names of tools
_NO_TOOL_VERBS = split_words("check list show keep track include back sign sort bring apply double report")
_OWN_PLACE, _READING_START = re.compile(OWN_PLACE, re.IGNORECASE), re.compile(READING_START, re.IGNORECASE)
_MORE_UNDERSTOOD = split_words("but not no it this that there if be don check see look")
_UNKNOWN_WORDS_MIN = 6
_LATIN_MAX = 0x24F  # the last letter of the Latin blocks
_RATINGS = split_words("review rating")
_MEMBERS = split_words("member members collaborator collaborators")
_DECIDED = split_words(
    "invitation invite invitations rsvp event meeting calendar cal appointment leave approval application proposal"
)
_ROOM_AS_RECIPIENT = re.compile(r"\b(?:for|to|in|an|für|a|para|pour|en)\s+[#@]\w", re.IGNORECASE)
# where a word names a recipient: "tell tomas", "cc lena", "an Fiona", "Fiona: …"
_RECIPIENT_VERBS = (
    "to|cc|with|tell|ask|invite|send|mail|email|e-mail|message|text|answer|thank|dm|ping|notify|remind|inform"
    "|write|give|an|mit|für"
    "|sag|sage|schreib|schreibe|frag|frage|antworte|informiere|dile|avisa|escribe|à|a|préviens|réponds|écris|invia"
    "|vertel|stuur"
)
_RECIPIENT = re.compile(
    rf"(?:^\s*(?=[\w.-]+(?::| wegen | about | re ))|\b(?:{_RECIPIENT_VERBS})\s+)"
    r"(?:herrn?\s|frau\s|mr\.?\s|mrs\.?\s|ms\.?\s|dr\.?\s)?([\w.-]*\w(?:(?:,| and| und| et| y|,? &)\s+[\w.-]*\w){0,6})",
    re.IGNORECASE,
)
# `bake an apple cake` names no recipient, `schick es an fiona` does
_ARTICLE = re.compile(r"an? (?-i:[a-z])", re.IGNORECASE)
_ENGLISH = re.compile(r"\b(?:the|i|i['\u2019]ll|we|my|our|you|to|for|of|is|with|that)\b", re.IGNORECASE)
# what to say is in the request: `tell ann that I come`, `answer the mail: we will see`
_DICTATED = re.compile(
    r"\b(?:tell|answer|reply|respond|inform|notify|write|comment|post|say|announce|confirm|message|mail|email|text|dm"
    r"|ping|know|sag|sage|antworte|schreib|schreibe|informiere|poste|antwort\w*|dis|réponds|écris|préviens|responde"
    r"|contesta|escribe|dile|avisa|rispondi|scrivi|avvisa|antwoord|schrijf|vertel)\b(?:[^.!?\n]|\.(?=\w)){0,80}?"
    r"(?:(?<!mail)(?<!email)(?<!message)(?<!file)(?<!document)(?<!issue)(?<!ticket)(?<!event)(?<!link)(?<!invoice)"
    r"(?<!one)(?<!all),? (?:that|dass|daß|que|qu['\u2019]|che|dat)\s+\w+\s+\w|:\s+\S+)",
    re.IGNORECASE,
)
_ENCLITIC = r"(?:sel[oa]s?|mel[oa]s?|l[oaei]s?|me|nos|gli|ne)?"  # `apúntalo`, `mandami`
_ABOUT = r"^\W*[^\W\d_]+ (?:wegen|about|regarding|re|zu) [^:.!?\n]{1,40}: "  # `Fiona about the boiler: Friday is fine`
_OBJECT = r"(?=\s+(?:the|this|that|these|those|my|our|his|her|their|all|both|it|them)\b)"
_AFTER_VERB = {"thank": r"(?! you\b(?! (?:note|card|letter|mail)))", "ok": _OBJECT}  # `ok, thank you` asks for nothing
_NOTHING = re.compile(r"\s+(?:nothing|nichts|nicht|kein\w*|rien|nada|niente|niets)\b", re.IGNORECASE)
_ROOM_NOUNS = split_words("channel channels room rooms group groups chat chats")
_LISTING_VERBS = split_words("list search find query browse")
_FOLDERS = split_words("folder directory dir ls")
# their lines are what others wrote
_TEXT_NOUNS = split_words("messages comments posts replies reviews notes lines logs details contents news")
_ANSWERS = split_words("respond reply answer accept rsvp decline decide approve reject")
_NOUNS_OR_VERBS = read_words("requested_actions_nouns_or_verbs")
_THINGS = read_words("requested_actions_things")
_RECIPIENT_NOUNS = split_words("mail mails email emails message messages")  # `mail from Bob: …` asks for nothing
_MONEY_VERBS = split_words("send schedule make create pay transfer wire submit execute initiate issue process")
_PARTICLES = split_words("to by in on of for from with all my new the a an and id ids get list search find")
_MONTHS = {
    name: number
    for number, names in enumerate(read_sections("calendar")["months"].splitlines(), 1)
    for name in names.split()
}
_MONTHS_OF_YEAR = 12
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE_RANGE = re.compile(
    r"\b(\d{1,2})(?:st|nd|rd|th|\.)?\s?(?:-|–|to|until|till|and|bis|und|au|al|a|y|et)\s?(?:the )?"
    r"(\d{1,2})(?:st|nd|rd|th|\.)?"
    r"\s(?:of |de )?([^\W\d_]{3,10})\b",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\b\d{4}-(?P<m1>\d{2})-(?P<d1>\d{2})"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s(?:of |de )?(?P<n2>{_MONTH})\b"
    rf"|\b(?P<n3>{_MONTH})\s(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:h]\d)"
    r"|\b(?P<d4>\d{1,2})\.(?P<m4>\d{1,2})\.",
    re.IGNORECASE,
)


class RequestClause(msgspec.Struct, frozen=True):
    """A clause of a user's text that asks for an action."""

    text: str
    start: int
    end: int
    refers_back: bool  # its object may be named elsewhere: "delete it", "share the document"


def fold_accents(text: str) -> str:
    """Return a text without the accents of its letters, in the same length."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFD", char)[0] for char in text)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case; `_`, `-` and other punctuation separate words."""
    return [word.casefold() for word in _TOKEN.findall(text)]


def split_tool_name(tool_name: str) -> list[str]:
    """Return the words of a tool's name: `createCalendarEntry`, `gh_issue_close`, `server__team-post`."""
    return words_of(re.sub(r"([a-z])([A-Z])", r"\1_\2", tool_name.rpartition("__")[2]))


@lru_cache(maxsize=512)
def find_tool_action(tool_name: str) -> str:
    """Return the family of the verb in a tool's name, the last word if no family has one, and `read` if the tool is
    named for reading. A word that is a noun, too (`mail_archive`), is the verb only if there is no other."""
    words = split_tool_name(tool_name)
    if not words:
        return ""
    if words[0] in _READING_VERBS:
        return READING
    if words[0] == "payment" or (not MONEY.isdisjoint(words[1:]) and words[0] in _MONEY_VERBS):
        return "pay"
    if "request" in words and not MONEY.isdisjoint(words):
        return "send"
    if "decide" in words:
        return "decide"
    if not _DECIDED.isdisjoint(words) and not _ANSWERS.isdisjoint(words):
        return "decide"  # an answer to an invitation, a decision on a request
    if not _RATINGS.isdisjoint(words) and "request" not in words and _family_of(words[0]) != REMOVAL_FAMILY:
        return "rate"
    if not _MEMBERS.isdisjoint(words) and "add" in words:
        return "invite"
    clear = [word for word in words if word not in _NOUNS_OR_VERBS]
    for word in (*clear, *(word for word in words if word not in _THINGS), *words):
        if word == "transfer" and MONEY.isdisjoint(words[1:]) and len(words) > 1:
            return "change"  # an object changes hands
        if family := _family_of(word):
            return (
                "send" if word in TOOL_VERBS and family == "create" and not MESSAGE_NOUNS.isdisjoint(words) else family
            )
    return READING if words[-1] in _READING_VERBS else words[-1]


def lists_things(tool_name: str) -> bool:
    """Return True for a tool that is named for a search or a list, or for things without a verb (`desk_tickets`): its
    rows are things, not the content of one."""
    words = split_tool_name(tool_name)
    if not _LISTING_VERBS.isdisjoint(words) or (words and words[-1] in _FOLDERS):
        return True
    if not words or words[-1] in _TEXT_NOUNS or not words[-1].endswith("s") or words[-1].endswith(("ss", "us", "is")):
        return False
    return not any(word in _READING_VERBS or (_family_of(word) and word not in _NOUNS_OR_VERBS) for word in words)


def lists_rooms(tool_name: str) -> bool:
    return lists_things(tool_name) and not _ROOM_NOUNS.isdisjoint(split_tool_name(tool_name))


def _family_of(word: str) -> str:
    families = ("remove", "send", "book", "pay", "change", "create")  # `rate` is found by its nouns
    family = next((family for family in families if word in _english_verbs(family) and word not in _NO_TOOL_VERBS), "")
    return TOOL_VERBS.get(word, family)


@lru_cache(maxsize=512)
def tool_nouns(tool_name: str) -> frozenset[str]:
    """Return the words of a tool's name that are not its verb, with their synonyms and plurals."""
    all_words = split_tool_name(tool_name)
    nouns = [word for word in all_words if word in _NOUNS_OR_VERBS or not (_family_of(word) or word in _READING_VERBS)]
    words = (set(nouns) or set(all_words[1:]) or set(all_words)) - _PARTICLES
    words |= {word[:-1] for word in words if word.endswith("s")}
    for group in SYNONYMS:
        if not words.isdisjoint(group):
            words |= group
    return frozenset(words | {f"{word}s" for word in words} | {word[:-1] for word in words if word.endswith("s")})


@lru_cache(maxsize=512)
def own_nouns(tool_name: str) -> frozenset[str]:
    """Return the words of a tool's name that are not its verb, with translations but without other things."""
    words = {
        word
        for word in split_tool_name(tool_name)
        if word in _NOUNS_OR_VERBS or not (_family_of(word) or word in _READING_VERBS)
    } - _PARTICLES
    for group in TRANSLATIONS:
        if not words.isdisjoint(group):
            words |= group
    return frozenset(words | {f"{word}s" for word in words})


def iterate_requests(action: str, texts: Sequence[str]) -> Iterator[RequestClause]:
    """Yield the clauses that ask for an action of this family."""
    for text in texts:
        yield from _find_requests(action, text[:_REQUEST_CHARS_MAX])


@lru_cache(maxsize=256)
def _find_requests(action: str, text: str) -> tuple[RequestClause, ...]:
    verbs = _request_pattern(action)
    plain = fold_accents(text)
    found = []
    for start, end in iterate_clauses(text):
        if _QUESTION.match(text, start, end):
            continue
        place = _OWN_PLACE.search(text, start, end) if action == "create" else None
        if place and not _READING_START.match(text, start, end):
            is_request = not is_negated_before(text, place.end())
        else:
            is_request = any(
                not is_negated_before(text, start + verb.end()) and not _NOTHING.match(text, start + verb.end(), end)
                for verb in verbs.finditer(plain[start:end])
            )
        if is_request:
            found.append(RequestClause(text, start, end, _ANAPHORA.search(text, start, end) is not None))
    return tuple(found)


def is_content_dictated(texts: Sequence[str]) -> bool:
    """Return True if a text says what a message shall say."""
    return any(_DICTATED.search(text[:_REQUEST_CHARS_MAX]) for text in texts)


def find_recipient_words(part: str) -> frozenset[str]:
    """Return the words of a clause that stand where a recipient is named: `tell tomas`, `cc lena and bea`."""
    is_english = _ENGLISH.search(part) is not None
    return frozenset(
        word
        for found in _RECIPIENT.finditer(part)
        if not (is_english and _ARTICLE.match(found[0]))
        for word in words_of(found[1])
    )


def find_dates(text: str) -> frozenset[tuple[int, int]]:
    """Return the months and days of the dates in a text: `2024-05-15`, `May 15th`, `15. Mai`, `15.5.`, `18-20"
    " May`."""
    found = set()
    for match in _DATE_RANGE.finditer(text):
        if (number := _MONTHS.get(match[3].casefold())) is not None:
            found |= {(number, int(match[1])), (number, int(match[2]))}
    for match in _DATE.finditer(text):
        month = match["m1"] or match["m4"] or _MONTHS.get((match["n2"] or match["n3"] or "").casefold())
        day = match["d1"] or match["d2"] or match["d3"] or match["d4"]
        if month and int(month) <= _MONTHS_OF_YEAR:  # 5.29. is no date
            found.add((int(month), int(day)))
    return frozenset(found)


def names_group(part: str) -> bool:
    """Return True if a clause speaks of people as a group: `the participants`, `everyone`."""
    return _GROUP.search(part) is not None


def is_reply(part: str) -> bool:
    """Return True if a clause asks for an answer: its place is that of what is answered."""
    return _REPLY.search(part) is not None


def refers_to_things(texts: Sequence[str]) -> bool:
    """Return True if a text speaks of something without its name: `forward it`, `cancel that`."""
    return any(_ANAPHORA.search(text[:_REQUEST_CHARS_MAX]) for text in texts)


def refers_to_people(texts: Sequence[str]) -> bool:
    """Return True if a text speaks of people by a pronoun."""
    return any(_PEOPLE_PRONOUN.search(text[:_REQUEST_CHARS_MAX]) for text in texts)


def is_action_requested(action: str, request_texts: Sequence[str], all_texts: Sequence[str]) -> bool:
    """Return True if the user asked for such an action in this turn, or confirms what was asked for before (`yes`), or
    writes in a language whose verbs are not known here. Users do not tell a change from an
    addition or a booking (`put it on Monday`), but they do tell these from messages, payments and removals."""
    texts = request_texts
    if texts and all(_CONFIRMATION.fullmatch(text) for text in texts):
        texts = all_texts[-len(texts) - 1 :]
    families = _COMPATIBLE.get(action, (action,))
    if any(True for family in families for _ in iterate_requests(family, texts)):
        return True
    if action == "pay" and any(
        not MONEY.isdisjoint(words_of(clause.text[clause.start : clause.end]))
        for family in ("create", "change")
        for clause in iterate_requests(family, texts)
    ):
        return True  # `set up a standing order`
    if action == "send" and any(_ROOM_AS_RECIPIENT.search(text[:_REQUEST_CHARS_MAX]) for text in texts):
        return True
    return any(_is_unknown_language(text[:_REQUEST_CHARS_MAX]) for text in texts)


def is_thing_requested(tool_name: str, texts: Sequence[str]) -> bool:
    """Return True if the user asked for what a tool is named for: by its noun alone (`todo: buy milk`, `new channel
    design`), by an answer for a comment, or, of a tool without a known verb, `make a public link`."""
    action = find_tool_action(tool_name)
    if action in ("create", "change", "send") and _names_thing_alone(tool_name, texts):
        return True
    if "comment" in split_tool_name(tool_name) and any(True for _ in iterate_requests("send", texts)):
        return True
    if action in ENGLISH_VERBS:
        return False
    if _is_unknown_verb_requested(tool_name, texts):
        return True
    thing = split_tool_name(tool_name)[-1]  # `set the limit`, for a tool without a verb
    if thing not in _PARTICLES and any(
        thing in words_of(clause.text[clause.start : clause.end])
        for family in ("create", "change")
        for clause in iterate_requests(family, texts)
    ):
        return True
    new_thing = _new_thing_pattern(tool_name)
    return any(
        new_thing.search(clause.text, clause.start, clause.end)
        for family in ("create", "send")
        for clause in iterate_requests(family, texts)
    )


@lru_cache(maxsize=512)
def _new_thing_pattern(tool_name: str) -> re.Pattern[str]:
    """Return a pattern of a new thing like that for which a tool without a verb is named: `mail Paul a door code`."""
    thing = re.escape(split_tool_name(tool_name)[-1])
    article = r"(?:an?|another|new|ein(?:e|en)?|neue[nrs]?|une?|una|uno|um|uma|een|nuev[oa]|nuov[oa]|nouveau|nouvelle)"
    return re.compile(rf"\b{article}\s(?:[^\W\d_]+\s){{0,2}}\w*{thing}\b", re.IGNORECASE)


def _is_unknown_verb_requested(tool_name: str, texts: Sequence[str]) -> bool:
    """Return True if a clause begins with a word that no list knows and names the thing of a tool whose verb no list
    knows, either: `defrost the freezer` for `freezer_defrost`. Payments and messages are never named so."""
    words = set(split_tool_name(tool_name)) - _PARTICLES
    if not MONEY.isdisjoint(words) or not MESSAGE_NOUNS.isdisjoint(words):
        return False
    for text in texts:
        for start, end in iterate_clauses(text[:_REQUEST_CHARS_MAX]):
            said = words_of(text[start:end])
            if len(said) < 2 or _QUESTION.match(text, start, end) or _READING_START.match(text, start, end):
                continue
            is_unknown = said[0] not in UNDERSTOOD and said[0] not in _READING_VERBS and not _family_of(said[0])
            if is_unknown and not words.isdisjoint(said[1:]) and not is_negated_before(text, end):
                return True
    return False


def _names_thing_alone(tool_name: str, texts: Sequence[str]) -> bool:
    alone = _thing_pattern(tool_name)
    return alone is not None and any(
        alone.match(text) and not is_negated_before(text, len(text))
        for text in (one[:_REQUEST_CHARS_MAX] for one in texts)
    )


@lru_cache(maxsize=512)
def _thing_pattern(tool_name: str) -> re.Pattern[str] | None:
    """Return a pattern of a text that begins with the thing of a tool: `todo: buy milk`, `new channel design`."""
    nouns = sorted(own_nouns(tool_name) - _RECIPIENT_NOUNS)
    if not nouns:
        return None
    thing, new = "|".join(map(re.escape, nouns)), r"(?:new|neue[rs]?|nouveau|nouvelle|nuev[oa]|nuov[oa])"
    return re.compile(
        rf"\W*(?:(?:my|our|another|mein|meine|mon|ma|mi|mio|mia|{new}) )?(?:{thing})\b[^:.!?\n]{{0,30}}:\s"
        rf"|\W*{new} (?:{thing})\b",
        re.IGNORECASE,
    )


def _is_unknown_language(text: str) -> bool:
    """Return True for a text in other letters than Latin ones, or with several words of which none is understood."""
    words = words_of(text)
    if not (UNDERSTOOD | _MORE_UNDERSTOOD).isdisjoint(words) or any(map(_family_of, words)):
        return False
    return len(words) >= _UNKNOWN_WORDS_MIN or any(char.isalpha() and ord(char) > _LATIN_MAX for char in text)


def is_reply_requested(
    recipient_words: frozenset[str], texts: Sequence[str], actions: Sequence[str] = ("send", "pay")
) -> bool:
    """Return True if a text asks for something to be sent to this author or these people: `reply that I can come`,
    `send it to the participants`, `invite Mark`. If the clause names a person, that person must be the recipient."""
    for action in actions:
        for clause in iterate_requests(action, texts):
            part = clause.text[clause.start : clause.end]
            names = {word.casefold() for word in (_GERMAN_NAME if _GERMAN.search(part) else _NAME).findall(part)}
            if names and names.isdisjoint(recipient_words):
                continue
            if names or _GROUP.search(part) or (_REPLY.search(part) and not _ELSEWHERE.search(part)):
                return True
    return False


@cache
def _english_verbs(family: str) -> frozenset[str]:
    return split_words(ENGLISH_VERBS[family])


@cache
def _request_pattern(action: str) -> re.Pattern[str]:
    """Return a pattern of the family's verbs as requests use them: `delete`, `deleting`, not `deleted`."""
    if action not in ENGLISH_VERBS:
        return re.compile(rf"{_BEFORE_VERB}{re.escape(action)}\b", re.IGNORECASE)
    english = [
        rf"{verb[:-1]}(?:e|ing)" if verb.endswith("e") else rf"{verb}(?:{verb[-1]}?ing)?{_AFTER_VERB.get(verb, '')}"
        for verb in ENGLISH_VERBS[action].split()
    ]
    to_user = (
        r"(?!\s+(?:me|us)\b(?!\s+and\b))" if action in ("send", "pay") else ""
    )  # `give me a summary` is a question
    to_oneself = r"|(?:mail|email|dm|text|message|remind|notify|ping)\s+me\b" if action == "send" else ""
    free, bound = (fold_accents(pattern) for pattern in build_patterns(action))
    about = rf"|{_ABOUT}" if action == "send" else ""
    return re.compile(
        rf"{_BEFORE_VERB}(?:(?:{'|'.join(english)})\b{to_user}{to_oneself}|{ENGLISH_PHRASES[action]}"
        rf"|(?:{bound})\b)|\b(?:{free}){_ENCLITIC}\b{about}",
        re.IGNORECASE,
    )
