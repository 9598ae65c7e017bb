"""Parses a model's answer into a summary and facts: tolerant of its format, strict about its content. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence

from mainstay.core.errors import SummaryUnusable
from mainstay.core.memory_tiers import Fact, combine_origins
from mainstay.core.messages import Message, Text, ToolCall, ToolResult
from mainstay.core.ports import SummaryRequest
from mainstay.memory.transcript import size_bytes

FACTS_MAX = 30
NAME_CHARS_MAX = 200  # of a subject or a predicate; facts with a longer one are dropped
OBJECT_CHARS_MAX = 500
LENGTH_FACTOR_MAX = 3.0  # a text of more than this many times the requested tokens is rejected
BYTES_PER_TOKEN = 4
_JSON_ATTEMPTS_MAX = 20
_LARGE_PASSAGE_CHARS = 2000  # characters; the summary of a longer passage must have at least 20
_SUMMARY_KEY = re.compile(r'"summary"\s*:\s*"')
_FACTS_KEY = re.compile(r'"facts"\s*:\s*\[')
_CODE_FENCE = re.compile(r"```[a-zA-Z]*[^\S\n]*\n(.*)```", re.DOTALL)
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TRANSCRIPT_LINE = re.compile(r"\s*\[\d+\] (user|assistant|tool|system)\b")
_SENTENCE_END = re.compile(r"[.!?…][\"')\]]*(?=\s)|[。！？]|\n")  # noqa: RUF001
_REFUSAL = re.compile(
    r"\s*(?:i['’]?m sorry|i am sorry|sorry,|i can(?:no|['’])t|i['’]?m (?:not able|unable)|i am (?:not able|unable)"  # noqa: RUF001
    r"|i won['’]t|i will not|as an ai|unfortunately,? i)\b",  # noqa: RUF001
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_PRONOUNS = frozenset(
    _WORD.findall(
        "i me my mine you your he him his she her hers it its we us our they them their this that these those there "
        "who what which someone something ich du er sie es wir ihr mich dich uns je tu il elle nous vous ils elles yo "
        "él ella nosotros ellos"
    )
)
_GENERIC_SUBJECTS = frozenset(
    {"user", "users", "person", "owner", "human", "customer", "client", "speaker", "the", "who"}
)
_TRUSTED_PREDICATE_CHARS_MAX = 40  # longest predicate of a trusted fact in a tainted passage
_decoder = json.JSONDecoder(strict=False)  # models write line breaks into strings


def parse_summary(answer: str, passage: SummaryRequest, prompt_texts: Sequence[str]) -> tuple[str, tuple[Fact, ...]]:
    """Return the summary and the facts. A summary that repeats `prompt_texts`, the model's own prompt, is rejected.

    Raises SummaryUnusable, and no other exception for any text.
    """
    text = _replace_control_chars(answer).strip()
    if fenced := _CODE_FENCE.fullmatch(text):
        text = fenced[1].strip()
    if not text:
        raise SummaryUnusable("the summary is empty")
    summary, facts = _parse_json(text) or _salvage_json(text) or (_check_prose(text), [])
    summary = _check_summary(summary, passage, prompt_texts)
    return summary, tuple(_parse_facts(facts, passage)) if passage.extract_facts and passage.messages else ()


def _replace_control_chars(text: str) -> str:
    return _CONTROL_CHARS.sub(" ", text.replace("\r\n", "\n").encode(errors="replace").decode())


# --- parsing -------------------------------------------------------------------------------------


def _parse_json(text: str) -> tuple[str, object] | None:
    """Return the first JSON object in the text that has a summary."""
    start = -1
    for _ in range(_JSON_ATTEMPTS_MAX):
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            document, _ = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and "summary" in document:
            summary = document["summary"]
            if isinstance(summary, list) and all(isinstance(line, str) for line in summary):
                summary = "\n".join(summary)
            if not isinstance(summary, str):
                raise SummaryUnusable("the summary has the wrong form")
            return summary, document.get("facts")
    return None


def _salvage_json(text: str) -> tuple[str, object] | None:
    """Recover the summary and the complete facts from truncated or slightly invalid JSON."""
    key = _SUMMARY_KEY.search(text)
    if key is None:
        return None
    try:
        summary, end = _decoder.raw_decode(text, key.end() - 1)
    except ValueError:
        return None
    facts: list[object] = []
    facts_key = _FACTS_KEY.search(text, end)
    start = -1 if facts_key is None else text.find("{", facts_key.end())
    while start >= 0 and len(facts) < FACTS_MAX:
        try:
            fact, end = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        facts.append(fact)
        start = text.find("{", end)
    return summary, facts


def _check_prose(text: str) -> str:
    """Accept plain text without any JSON as the summary; reject everything else."""
    plain = sum(char.isalnum() or char.isspace() for char in text)
    words = len(text.split())
    spaced = words >= 4 and len(text) <= 25 * words
    unspaced = not text.isascii() and len(text) >= 12  # some scripts have no spaces
    if text[0] in "{[<`" or '"summary"' in text or plain < 0.7 * len(text) or not (spaced or unspaced):
        raise SummaryUnusable("the summary is neither JSON nor plain text")
    return text


# --- validation ----------------------------------------------------------------------------------


def _check_summary(text: str, passage: SummaryRequest, prompt_texts: Sequence[str]) -> str:
    text = _replace_control_chars(text).strip()
    if not any(char.isalnum() for char in text):
        raise SummaryUnusable("the summary is empty")
    if len(text) < 500 and _REFUSAL.match(text):
        raise SummaryUnusable("the model declined to write a summary")
    if _is_echo(text, prompt_texts):
        raise SummaryUnusable("the model repeated what it was given instead of a summary")
    words = text.split()
    if len(words) > 60 and len(set(words)) < len(words) / 12:
        raise SummaryUnusable("the summary repeats the same words")
    if len(text) < 20 and sum(len(message.text) for message in passage.messages) > _LARGE_PASSAGE_CHARS:
        raise SummaryUnusable("the summary has almost no content")
    tokens = size_bytes(text) / BYTES_PER_TOKEN
    if tokens > max(passage.tokens_max, 1) * LENGTH_FACTOR_MAX:
        raise SummaryUnusable(
            f"the summary is far too long: about {int(tokens)} tokens instead of {passage.tokens_max}"
        )
    return truncate_at_sentence(text, max(passage.tokens_max, 1) * BYTES_PER_TOKEN)


def _is_echo(text: str, prompt_texts: Sequence[str]) -> bool:
    if _TRANSCRIPT_LINE.match(text):
        return True
    lines = (line.strip() for prompt in prompt_texts for line in prompt.splitlines())
    return any(len(line) >= 60 and line in text for line in lines)


def truncate_at_sentence(text: str, bytes_max: int) -> str:
    """Keep the whole sentences that fit; whole words if sentences would fill less than half of the room."""
    if size_bytes(text) <= bytes_max:
        return text
    cut = text.encode(errors="replace")[: max(0, bytes_max - 4)].decode(errors="ignore")
    end = max((match.end() for match in _SENTENCE_END.finditer(cut)), default=0)
    if end < len(cut) / 2:
        end = max(cut.rfind(" "), 0)
    return (cut[:end] if end >= len(cut) / 2 else cut).rstrip() + " …"


# --- facts ---------------------------------------------------------------------------------------


def _parse_facts(raw_facts: object, passage: SummaryRequest) -> Iterator[Fact]:
    sources = _FactSources(passage)
    seen: set[tuple[str, str, str]] = set()
    for raw in raw_facts if isinstance(raw_facts, list) else ():
        fact = _parse_fact(raw, sources)
        if fact is None:
            continue
        triple = (fact.subject.casefold(), fact.predicate.casefold(), fact.object.casefold())
        if triple in seen:
            continue
        seen.add(triple)
        yield fact
        if len(seen) == FACTS_MAX:
            return


def _parse_fact(raw_fact: object, sources: _FactSources) -> Fact | None:
    if not isinstance(raw_fact, dict):
        return None
    subject, predicate, object = (_parse_name(raw_fact.get(key)) for key in ("subject", "predicate", "object"))
    if not (subject and predicate and object) or subject.casefold() in _PRONOUNS:
        return None
    if len(subject) > NAME_CHARS_MAX or len(predicate) > NAME_CHARS_MAX:
        return None
    if len(object) > OBJECT_CHARS_MAX:
        object = object[: OBJECT_CHARS_MAX - 1].rstrip() + "…"
    source, origin = sources.attribute_fact(raw_fact.get("source"), subject, predicate, object)
    return Fact(
        subject,
        predicate,
        object,
        source,
        _parse_confidence(raw_fact.get("confidence")),
        origin,
        raw_fact.get("many") is True,
    )


def _parse_name(value: object) -> str:
    """Return the value as one line; empty if it has no letter or digit."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = " ".join(_replace_control_chars(str(value)).split())
    return text if any(char.isalnum() for char in text) else ""


def _parse_confidence(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 0.5
    return float(min(max(value, 0), 1))


class _FactSources:
    """Source messages of a passage, and the taint of each fact that cites one.

    A fact that cites a trusted message is trusted only if untrusted content cannot have caused it. If the passage or
    the text before it holds untrusted content, then the cited message must contain the words of the fact's object,
    trusted text those of its subject, and the predicate must be short and have no words that only untrusted text has.
    """

    def __init__(self, passage: SummaryRequest) -> None:
        self._messages: dict[int, tuple[Message, str]] = {}
        tainted = ""
        texts: dict[bool, list[str]] = {True: [], False: []}  # by whether they are trusted
        for message in passage.messages:
            own = combine_origins(part.origin for part in message.parts)
            tainted = tainted or own
            # after untrusted content, the assistant's own text may repeat it
            origin = own or (tainted if message.role == "assistant" else "")
            self._messages[message.id] = message, origin
            texts[not origin] += _message_texts(message)
        texts[not passage.previous_origin].append(passage.previous_summary)
        self._taint = tainted or passage.previous_origin
        self._trusted_text, self._untrusted_text = (" ".join(texts[kind]).casefold() for kind in (True, False))

    def attribute_fact(self, source: object, subject: str, predicate: str, object: str) -> tuple[int, str]:
        """Return the cited message's id (0 if it is not in the passage) and the fact's origin."""
        number = _parse_message_id(source)
        message, origin = self._messages.get(number, (None, self._taint))
        if message is None:
            return 0, self._taint
        if not origin and self._taint and not self._supports_fact(message, subject, predicate, object):
            origin = self._taint
        return number, origin

    def _supports_fact(self, message: Message, subject: str, predicate: str, object: str) -> bool:
        own = " ".join(_message_texts(message)).casefold()
        return (
            all(_has_word(word, own) for word in _content_words(object) or [object.casefold()])
            and all(
                _has_word(word, self._trusted_text) or word in _GENERIC_SUBJECTS for word in _content_words(subject)
            )
            and len(predicate) <= _TRUSTED_PREDICATE_CHARS_MAX
            and all(
                _has_word(word, self._trusted_text) or not _has_word(word, self._untrusted_text)
                for word in _content_words(predicate)
            )
        )


def _parse_message_id(value: object) -> int:
    if isinstance(value, str) and len(value) < 20:
        value = value.strip(" []#")
        return int(value) if value.isascii() and value.isdecimal() else 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _content_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if len(word) > 2 or not word.isalpha()]


def _has_word(word: str, text: str) -> bool:
    """Match up to an inflected ending of at most two letters."""
    return word[: max(4, len(word) - 2)] in text


def _message_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text):
                yield text
            case ToolCall(input=input):
                yield input
            case ToolResult(content=content):
                yield content
