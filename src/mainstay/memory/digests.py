"""From a model's answer to a summary and facts: tolerant in what it reads, strict in what it lets through. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mainstay.core.errors import SummaryUnusable
from mainstay.core.messages import Message, Text, ToolCall, ToolResult
from mainstay.core.ports import Passage
from mainstay.core.recall import Fact, worst
from mainstay.memory.passages import size

FACTS_MAX = 30
NAME_CHARS_MAX = 200  # of a subject or a predicate; a longer one is no name
OBJECT_CHARS_MAX = 500
TOO_LONG = 3.0  # times what was asked for: not a summary
BYTES_PER_TOKEN = 4
_TRIES_MAX = 20
_LARGE = 2000  # characters of a passage whose summary cannot be a few words
_SUMMARY = re.compile(r'"summary"\s*:\s*"')
_FACTS = re.compile(r'"facts"\s*:\s*\[')
_FENCE = re.compile(r"```[a-zA-Z]*[^\S\n]*\n(.*)```", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_ECHO = re.compile(r"\s*\[\d+\] (user|assistant|tool|system)\b")
_ENDS = re.compile(r"[.!?…][\"')\]]*(?=\s)|[。！？]|\n")  # noqa: RUF001
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
_ANYONE = frozenset({"user", "users", "person", "owner", "human", "customer", "client", "speaker", "the", "who"})
_PREDICATE_CHARS = 40  # of one that is believed beside something from outside
_decoder = json.JSONDecoder(strict=False)  # models write line breaks into strings


def read_answer(answer: str, passage: Passage, shown: Sequence[str]) -> tuple[str, tuple[Fact, ...]]:
    """The summary, and the facts. `shown` is what the model was given: a summary that repeats it is none.

    Raises SummaryUnusable, and nothing else whatever the text.
    """
    text = _clean(answer).strip()
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1].strip()
    if not text:
        raise SummaryUnusable("the summary came back empty")
    summary, facts = _written(text) or _salvaged(text) or (_prose(text), [])
    summary = _checked(summary, passage, shown)
    return summary, tuple(_facts(facts, passage)) if passage.facts and passage.messages else ()


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text.replace("\r\n", "\n").encode(errors="replace").decode())


# --- finding it ----------------------------------------------------------------------------------


def _written(text: str) -> tuple[str, Any] | None:
    """The first JSON object that has a summary, wherever in the text it stands."""
    at = -1
    for _ in range(_TRIES_MAX):
        at = text.find("{", at + 1)
        if at < 0:
            return None
        try:
            found, _ = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "summary" in found:
            summary = found["summary"]
            if isinstance(summary, list) and all(isinstance(one, str) for one in summary):
                summary = "\n".join(summary)
            if not isinstance(summary, str):
                raise SummaryUnusable("the summary came back in a shape that cannot be used")
            return summary, found.get("facts")
    return None


def _salvaged(text: str) -> tuple[str, Any] | None:
    """Of an object that was cut off or is not quite JSON: the summary if it is whole, and the facts that are."""
    found = _SUMMARY.search(text)
    if found is None:
        return None
    try:
        summary, end = _decoder.raw_decode(text, found.end() - 1)
    except ValueError:
        return None
    facts: list[Any] = []
    listed = _FACTS.search(text, end)
    at = -1 if listed is None else text.find("{", listed.end())
    while at >= 0 and len(facts) < FACTS_MAX:
        try:
            one, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        facts.append(one)
        at = text.find("{", end)
    return summary, facts


def _prose(text: str) -> str:
    """Plain words without any JSON are taken as they are; anything else is not a summary."""
    plain = sum(char.isalnum() or char.isspace() for char in text)
    words = len(text.split())
    spaced = words >= 4 and len(text) <= 25 * words
    unspaced = not text.isascii() and len(text) >= 12  # not every script has spaces
    if text[0] in "{[<`" or '"summary"' in text or plain < 0.7 * len(text) or not (spaced or unspaced):
        raise SummaryUnusable("the summary came back as something that is neither JSON nor plain text")
    return text


# --- judging it ----------------------------------------------------------------------------------


def _checked(text: str, passage: Passage, shown: Sequence[str]) -> str:
    text = _clean(text).strip()
    if not any(char.isalnum() for char in text):
        raise SummaryUnusable("the summary came back empty")
    if len(text) < 500 and _REFUSAL.match(text):
        raise SummaryUnusable("the model declined to write a summary")
    if _repeats(text, shown):
        raise SummaryUnusable("the model repeated what it was given instead of a summary")
    words = text.split()
    if len(words) > 60 and len(set(words)) < len(words) / 12:
        raise SummaryUnusable("the summary came back as the same words over and over")
    if len(text) < 20 and sum(len(one.text) for one in passage.messages) > _LARGE:
        raise SummaryUnusable("the summary came back with next to nothing in it")
    tokens = size(text) / BYTES_PER_TOKEN
    if tokens > max(passage.tokens, 1) * TOO_LONG:
        raise SummaryUnusable(f"the summary is far too long: about {int(tokens)} tokens instead of {passage.tokens}")
    return cut_at_sentence(text, max(passage.tokens, 1) * BYTES_PER_TOKEN)


def _repeats(text: str, shown: Sequence[str]) -> bool:
    if _ECHO.match(text):
        return True
    lines = (line.strip() for given in shown for line in given.splitlines())
    return any(len(line) >= 60 and line in text for line in lines)


def cut_at_sentence(text: str, bytes_max: int) -> str:
    """Whole sentences that fit; if not even half of the room can be filled so, words."""
    if size(text) <= bytes_max:
        return text
    cut = text.encode(errors="replace")[: max(0, bytes_max - 4)].decode(errors="ignore")
    end = max((found.end() for found in _ENDS.finditer(cut)), default=0)
    if end < len(cut) / 2:
        end = max(cut.rfind(" "), 0)
    return (cut[:end] if end >= len(cut) / 2 else cut).rstrip() + " …"


# --- facts ---------------------------------------------------------------------------------------


def _facts(given: Any, passage: Passage) -> Iterator[Fact]:
    sources = _Sources(passage)
    seen: set[tuple[str, str, str]] = set()
    for one in given if isinstance(given, list) else ():
        fact = _fact(one, sources)
        if fact is None:
            continue
        triple = (fact.subject.casefold(), fact.predicate.casefold(), fact.object.casefold())
        if triple in seen:
            continue
        seen.add(triple)
        yield fact
        if len(seen) == FACTS_MAX:
            return


def _fact(given: Any, sources: _Sources) -> Fact | None:
    if not isinstance(given, dict):
        return None
    subject, predicate, object = (_name(given.get(key)) for key in ("subject", "predicate", "object"))
    if not (subject and predicate and object) or subject.casefold() in _PRONOUNS:
        return None
    if len(subject) > NAME_CHARS_MAX or len(predicate) > NAME_CHARS_MAX:
        return None
    if len(object) > OBJECT_CHARS_MAX:
        object = object[: OBJECT_CHARS_MAX - 1].rstrip() + "…"
    source, origin = sources.place(given.get("source"), subject, predicate, object)
    return Fact(
        subject, predicate, object, source, _confidence(given.get("confidence")), origin, given.get("many") is True
    )


def _name(value: Any) -> str:
    """On one line; empty unless it says something."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = " ".join(_clean(str(value)).split())
    return text if any(char.isalnum() for char in text) else ""


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 0.5
    return float(min(max(value, 0), 1))


class _Sources:
    """Where facts of a passage can come from, and how far each can be believed.

    A fact that names a trusted message is trusted only if nothing else can have put it there. Where the passage holds
    something from outside, or what stands before it does, the message itself must hold the words of its object, those
    of its subject must have been said in trust, and its predicate must be short and have nothing from outside.
    """

    def __init__(self, passage: Passage) -> None:
        self._messages: dict[int, tuple[Message, str]] = {}
        tainted = ""
        texts: dict[bool, list[str]] = {True: [], False: []}  # said in trust, and not
        for message in passage.messages:
            own = worst(part.origin for part in message.parts)
            tainted = tainted or own
            # what the assistant says after it has read something from outside may be that
            origin = own or (tainted if message.role == "assistant" else "")
            self._messages[message.id] = message, origin
            texts[not origin] += _words_of(message)
        texts[not passage.origin].append(passage.before)
        self._doubt = tainted or passage.origin
        self._trusted, self._outside = (" ".join(texts[kind]).casefold() for kind in (True, False))

    def place(self, source: Any, subject: str, predicate: str, object: str) -> tuple[int, str]:
        """The message's number (0 if it names none of the passage's) and the fact's origin."""
        number = _number(source)
        message, origin = self._messages.get(number, (None, self._doubt))
        if message is None:
            return 0, self._doubt
        if not origin and self._doubt and not self._vouches(message, subject, predicate, object):
            origin = self._doubt
        return number, origin

    def _vouches(self, message: Message, subject: str, predicate: str, object: str) -> bool:
        own = " ".join(_words_of(message)).casefold()
        return (
            all(_stands(word, own) for word in _telling(object) or [object.casefold()])
            and all(_stands(word, self._trusted) or word in _ANYONE for word in _telling(subject))
            and len(predicate) <= _PREDICATE_CHARS
            and all(_stands(word, self._trusted) or not _stands(word, self._outside) for word in _telling(predicate))
        )


def _number(value: Any) -> int:
    if isinstance(value, str) and len(value) < 20:
        value = value.strip(" []#")
        return int(value) if value.isascii() and value.isdecimal() else 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _telling(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if len(word) > 2 or not word.isalpha()]


def _stands(word: str, text: str) -> bool:
    """Give or take an ending."""
    return word[: max(4, len(word) - 2)] in text


def _words_of(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text):
                yield text
            case ToolCall(input=input):
                yield input
            case ToolResult(content=content):
                yield content
