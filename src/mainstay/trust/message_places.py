"""Whether the user meant a place for a message: `mail our CEO a summary of the Milan discussion` names one kind of
message and its recipient; the room of the discussion is only where the summary comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from mainstay.trust.request_vocabulary import SYNONYMS, can_name, read_words, split_words
from mainstay.trust.requested_actions import (
    find_recipient_words,
    is_reply,
    iterate_requests,
    split_tool_name,
    words_of,
)
from mainstay.trust.tool_invocation import ToolInvocation, iterate_texts
from mainstay.trust.user_statements import iterate_clauses

_TEXT_CHARS_MAX = 4_000
_ROOMS = split_words(
    "channel channels room rooms group groups chat kanal raum gruppe salon canal groupe grupo gruppo stanza sala kanaal"
)
_CHATS = _ROOMS | read_words("message_places_chats")
_MAILS = split_words("mail mails email emails inbox gmail outlook")
_MAIL_NOUN = r"(?:e-?mails?|mails?|courriels?|correos?|mailtje)"
_ARTICLE = r"(?:an?|ein(?:e[nr]?)?|une?|una?|uma?|een|the|die|le|el|la)"
_MAIL_ASKED = re.compile(
    r"(?:^\W*|[,:;]\s|\b(?:please|and|then|to|also|just|now|you|bitte|und|dann)\s)"
    r"(?:e-?mail(?:e|en)?|mail(?:e|en|ez)?)\s+(?!from\b|about\b|of\b|von\b|de\b)\w"
    rf"|\b(?:by|via|per|par|por|tramite|im) {_MAIL_NOUN}\b"
    rf"|\b(?:send|write|schick\w*|sende\w*|schreib\w*|envo(?:ie|ye)\w*|écri\w*|env[ií]\w*|escr[ie]\w*|mand\w*|invi\w*"
    rf"|scriv\w*|stuur|schrijf)\b[^.!?;\n]{{0,40}}\b{_ARTICLE}\s(?:[^\W\d_]+\s)?{_MAIL_NOUN}\b",
    re.IGNORECASE,
)
_DETERMINER = (
    r"(?:the|our|my|his|her|their|your|unser\w*|mein\w*|ihr\w*|sein\w*|dem|der|notre|nos|mon|ma|mes|son|sa|leurs?|nuestr[oa]s?|mi"
    r"|mis|su|al|alla|nostr[oaie]|mi[oae]|nosso|nossa|meu|minha|onze|mijn|zijn|haar)"
)
# `mail our CEO a summary`, `to our CEO`, `schick unserer Chefin die Liste`, `à notre directeur`
_DESCRIBED_RECIPIENT = re.compile(
    rf"\b(?:send|mail|e-?mail|text|write|give|show|forward|schick\w*|sende?|schreib\w*|gib|maile|stuur|mail|geef)\s"
    rf"{_DETERMINER}\s([^\W\d_]+)\s(?:(?:[^\W\d_]+)\s)?(?=(?:an?|the|my|our|what|how|which|ein\w*|die|das|den|was|wie|een|wat)\b)"
    rf"|\b(?:tell|ask|inform|notify|remind|ping|dm|informiere?|frage?|sag|sage|vertel|préviens|informe|avisa|avvisa)\s"
    rf"(?:[àa]\s)?{_DETERMINER}\s([^\W\d_]+)"
    rf"|\b(?:to|an|für|for|à|au|aux|a|al|para|aan|ao)\s(?:{_DETERMINER}\s)?([^\W\d_]+)",
    re.IGNORECASE,
)
_SUMMARY = (
    r"(?:summar\w+|sum(?:s|ming)? up|recaps?|gist|overview|digest|minutes|highlights|outcome|results?|decisions?"
    r"|conclusions?"
    r"|discussion|conversation|zusammenfass\w*|fass\w*|überblick|ergebnis\w*|résum\w*|synthèse|compte-rendu|résultats?"
    r"|resum\w*|síntesis|riassu\w*|sintesi|riepilogo|samenvat\w*|overzicht|síntese)"
)
_SOURCE = (
    r"(?:of|from|about|on|von|vom|aus|über|der|des|zu|zur|de|du|sur|d['\u2019]|del|della|dei|sobre|su|di|da|dal|van|uit"
    r"|over|do|sobre)"
)
_WORDS_SAID = (
    r"(?:what|was|which|decided|discussed|said|wrote|happened|happening|goes on|ce qui|ce que|lo que|qué|quello che"
    r"|ciò che|wat|o que|besprochen|geschrieben|entschieden)"
)
_SOURCE_BEFORE = re.compile(
    rf"\b{_SUMMARY}\s(?:[^.!?;\n]{{0,30}}\s)?{_SOURCE}\s?(?:[^\W\d_]+\s){{0,2}}['\"#]?$"
    rf"|\b{_WORDS_SAID}\b(?:(?!\b(?:and|und|et|y|e|en)\b)[^.!?;\n]){{0,50}}$",
    re.IGNORECASE,
)
_TARGET_BEFORE = re.compile(
    r"\b(?:in|into|to|on|onto|im|ins|an|auf|dans|sur|à|au|en|a|al|nel|nella|su|sul|op|naar|aan|em|no|na)\s"
    rf"(?:{_DETERMINER}\s)?(?:{'|'.join(sorted(_ROOMS))})?\s?['\"#]?$",
    re.IGNORECASE,
)
_READING = re.compile(
    r"\W*(?:please |bitte |can you |could you )?(?:check|read|look|go through|skim|sum|summari[sz]e|see|find|search"
    r"|catch me up|what|who|when|which|how|lies|les|schau|prüf"
    r"|fass|was|wer|lis|lisez|regarde|résume|consulte|lee|mira|revisa|resume|busca|leggi|guarda|controlla|riassumi"
    r"|lees|bekijk|vat|leia|veja|resuma)\b",
    re.IGNORECASE,
)
_THERE = re.compile(r"\b(?:there|dort|darin|hinein|là|là-bas|y|allí|ahí|lì|là|daar|lá)\b", re.IGNORECASE)
_SOURCE_PHRASE = re.compile(
    rf"\b{_SUMMARY}\s{_SOURCE}\s?(?:(?!\s(?:to|in|into|for|an|für|à|para|aan|and|und|et)\s)[^,.;:!?\n])*", re.IGNORECASE
)
# nouns of messages and things, which are no recipients
_THINGS = (
    frozenset().union(*SYNONYMS[:1], *SYNONYMS[2:6]) | _ROOMS | split_words("summary list link answer news update")
)


def find_rooms(call: ToolInvocation) -> list[str]:
    """Return the destinations of a call that are rooms, by their sign or by the name of the parameter."""
    names = () if isinstance(call.tool.sink, bool) else call.tool.sink
    return [
        text
        for name in names
        for text in iterate_texts(call.arguments_by_name.get(name))
        if text[:1] == "#" or ("@" not in text and "://" not in text and not _ROOMS.isdisjoint(split_tool_name(name)))
    ]


def find_other_place(call: ToolInvocation, destinations: Sequence[str], texts: Sequence[str]) -> str:
    """Return a destination of a message that the user did not mean: it is of another kind (`mail her` is no message
    in a room), or the user named it only as the source of what to send. Empty if there is none."""
    texts = [text[:_TEXT_CHARS_MAX] for text in texts]
    clauses = [clause.text[clause.start : clause.end] for clause in iterate_requests("send", texts)]
    if not clauses:
        return ""
    if all(map(_MAIL_ASKED.search, clauses)) and _is_chat(call, destinations) and not any(map(is_reply, clauses)):
        return destinations[0] if destinations else call.tool.name
    if any(_THERE.search(part) or is_reply(part) for part in clauses):
        return ""
    for room in find_rooms(call):
        words = {word for word in words_of(room) if can_name(word)}
        places = [(text, at) for text in texts for at in _find_words(text, words)]
        if places and all(_is_source(text, at, words, texts) for text, at in places):
            return room
    return ""


def leave_out_sources(part: str) -> str:
    """Return a clause without what a summary is about: `mail Ann a summary of the design discussion` names no room."""
    return _SOURCE_PHRASE.sub(" ", part)


def find_recipients(part: str) -> frozenset[str]:
    """Return the words of a clause by which it names a recipient, also by a description: `our CEO`."""
    described = {
        word.casefold() for found in _DESCRIBED_RECIPIENT.finditer(part) for word in found.groups() if word is not None
    }
    return frozenset(word for word in described | find_recipient_words(part) if can_name(word) and word not in _THINGS)


def _is_chat(call: ToolInvocation, destinations: Sequence[str]) -> bool:
    words = set(split_tool_name(call.tool.name))
    if not words.isdisjoint(_MAILS):
        return False
    return not words.isdisjoint(_CHATS) or any(re.match(r"[#@]\w", destination) for destination in destinations)


def _find_words(text: str, words: Set[str]) -> Iterator[int]:
    for found in re.finditer(r"[^\W_]+", text):
        if found[0].casefold() in words:
            yield found.start()


def _is_source(text: str, at: int, words: Set[str], texts: Sequence[str]) -> bool:
    """Return True if a word of a room's name stands there as the source of something. If the request names another
    recipient, the name of a room must stand where places stand: `in the milan fair channel`."""
    start, end = next(((start, end) for start, end in iterate_clauses(text) if start <= at < end), (0, len(text)))
    first = at
    while before := re.search(r"([^\W_]+)[ _-]$", text[start:first]):  # the first word of the name
        if before[1].casefold() not in words:
            break
        first = start + before.start()
    if _SOURCE_BEFORE.search(text, start, first):
        return True
    recipients = {
        word
        for clause in iterate_requests("send", texts)
        for word in find_recipients(clause.text[clause.start : clause.end])
    } - words
    if not recipients:
        return False
    if _READING.match(text, start, end):
        return True
    return not _TARGET_BEFORE.search(text, start, first) and not re.match(r"[\w-]*\s?:", text[first:end])
