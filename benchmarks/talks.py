"""Conversations with questions about them, made from the scenes in `material` and a seed.

Each world is one person's talks with an assistant: sessions over a year, in each of them several scenes, things that
share words with the questions and do not answer them, small talk, work, tools' output. Where the answer to a
question stands is known, because it was put there.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path

MATERIAL = Path(__file__).parent / "material"
SESSIONS = 26
TURNS_A_SESSION = 75
DAY_MS = 86_400_000
START_MS = 1_704_096_000_000
# Each set's share of the vocabulary: the first two sets have no name, town or food in common.
SHARES = {"first": slice(0, None, 2), "held": slice(1, None, 2), "third": slice(None)}
_SLOT = re.compile(r"\{([a-z]+)(\d*)\}")


@dataclass
class Turn:
    role: str  # user, assistant, tool
    text: str
    session: str = ""
    seq: int = 0
    at: int = 0


@dataclass
class Question:
    text: str
    kind: str
    evidence: list[Turn]
    scene: int = 0  # questions about the same scene are not independent


@dataclass
class World:
    turns: list[Turn]
    questions: list[Question]


@dataclass
class Scene:
    kind: str
    parts: list[list[tuple[str, bool, str]]] = field(default_factory=lambda: [[]])  # role, is evidence, text
    questions: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


def scenes(name: str) -> list[Scene]:
    found: list[Scene] = []
    for line in (MATERIAL / f"{name}.txt").read_text().splitlines():
        mark, _, text = line.partition(" ")
        match mark:
            case "" | "#":
                continue
            case "u" | "u*" | "a" | "a*":
                role = "user" if mark[0] == "u" else "assistant"
                found[-1].parts[-1].append((role, mark.endswith("*"), text))
            case "---":
                found[-1].parts.append([])
            case "?":
                found[-1].questions.append(text)
            case "-":
                found[-1].strays.append(text)
            case _ if mark.startswith("["):
                found.append(Scene(mark.strip("[]")))
            case _:
                raise ValueError(f"{name}.txt: {line!r}")
    return found


def worlds(name: str, count: int, seed: int) -> list[World]:
    every = scenes(name)
    return [_world(every, random.Random(seed * 1000 + number), SHARES[name]) for number in range(count)]


def _world(every: list[Scene], chance: random.Random, share: slice) -> World:
    threads: list[list[list[Turn]]] = [[] for _ in range(SESSIONS)]
    questions: list[Question] = []
    chats = [scene for scene in every if scene.kind == "chat"]
    for number, scene in enumerate(every):
        if scene.kind == "chat":
            continue
        fill = Filler(chance, share)
        places = sorted(chance.sample(range(SESSIONS), len(scene.parts)))
        evidence: list[Turn] = []
        for place, part in zip(places, scene.parts, strict=True):
            made = [Turn(role, fill(text)) for role, _, text in part]
            evidence += [turn for turn, (_, proves, _) in zip(made, part, strict=True) if proves]
            threads[place].append(made)
        questions += [Question(fill(text), scene.kind, evidence, number) for text in scene.questions]
        for stray in scene.strays:
            said = Turn("user", Filler(chance, share)(stray))
            reply = Turn("assistant", Filler(chance, share)(chance.choice(_REPLIES)))
            threads[chance.randrange(SESSIONS)].append([said, reply])
    turns: list[Turn] = []
    for number, session in enumerate(threads):
        while sum(map(len, session)) < TURNS_A_SESSION:
            session.append(_filler(chats, chance, share))
        chance.shuffle(session)
        at = START_MS + int((number + chance.random()) * 365 / SESSIONS) * DAY_MS
        for seq, turn in enumerate((turn for thread in session for turn in thread), start=1):
            at += chance.randrange(5_000, 300_000)
            turn.session, turn.seq, turn.at = f"talk-{number}", seq, at
            turns.append(turn)
    return World(turns, questions)


def _filler(chats: list[Scene], chance: random.Random, share: slice) -> list[Turn]:
    fill = Filler(chance, share)
    kind = chance.random()
    if kind < 0.12:
        asked = Turn("user", fill(chance.choice(_ORDERS)))
        return [asked, Turn("tool", _output(chance, fill)), Turn("assistant", fill(chance.choice(_DONE)))]
    if kind < 0.18:
        said = [fill(sentence) for sentence in chance.sample(_ESSAY, chance.randrange(5, len(_ESSAY)))]
        return [Turn("user", fill("Tell me more about {concept}.")), Turn("assistant", " ".join(said))]
    return [Turn(role, fill(text)) for role, _, text in chance.choice(chats).parts[0]]


def _output(chance: random.Random, fill: Filler) -> str:
    lines = [fill(chance.choice(_LINES)) for _ in range(chance.randrange(3, 25))]
    return "\n".join(lines)


class Filler:
    """Fills slots: the same name is the same word for as long as this lives, and another number another word."""

    def __init__(self, chance: random.Random, share: slice) -> None:
        self._chance = chance
        self._share = share
        self._chosen: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        return _SLOT.sub(lambda match: self._word(match[1], match[2]), text)

    def _word(self, slot: str, number: str) -> str:
        key = slot + number
        if key not in self._chosen:
            taken = {word for name, word in self._chosen.items() if name.rstrip("0123456789") == slot}
            word = self._draw(slot)
            while word in taken:
                word = self._draw(slot)
            self._chosen[key] = word
        return self._chosen[key]

    def _draw(self, slot: str) -> str:
        chance = self._chance
        match slot:
            case "n":
                return str(chance.randrange(2, 10))
            case "nn":
                return str(chance.randrange(11, 100))
            case "age":
                return str(chance.randrange(5, 60))
            case "time":
                return f"{chance.randrange(6, 23)}:{chance.randrange(0, 60, 5):02d}"
            case "price":
                return f"{chance.randrange(3, 80) * 25} {chance.choice(['euros', 'dollars', 'pounds'])}"
            case "date":
                return f"{_ordinal(chance.randrange(1, 29))} of {chance.choice(WORDS['month'])}"
            case "street":
                return f"{self._pick('streetname')} {chance.choice(['Street', 'Lane', 'Road', 'Square', 'Row'])}"
            case _:
                return self._pick(slot)

    def _pick(self, slot: str) -> str:
        pool = WORDS[slot]
        return self._chance.choice(pool if len(pool) < 16 else pool[self._share])


def _ordinal(day: int) -> str:
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


_REPLIES = [
    "I see.",
    "Fair point.",
    "Understood. Anything I should do about it?",
    "Ha, I can imagine.",
    "Let me know if you want me to look into it.",
    "Good to know.",
    "That happens more often than one would think.",
    "Shall I make a note of that?",
    "Hm, tell me more if you like.",
    "Sounds about right.",
    "I'd have guessed as much.",
    "And how did that end?",
    "{man} would say the same.",
    "That reminds me of {scene}.",
    "Then {task} can wait until {day}.",
    "I had expected {weather}, to be honest.",
    "As with {concept}: one gets used to it.",
    "Is that still about the {thing}, or something else?",
    "You sound like you need {food}.",
    "Shall I add it to what {woman} collects?",
    "{verdict}, as {man} would put it.",
    "Fine. I'll go on with the {module} notes meanwhile.",
]
_ORDERS = [
    "Run the tests of {module}.",
    "Show me {file}.",
    "List what's in the {module} folder.",
    "Look at the log of the {thing} service.",
    "Check whether {lib} is installed.",
    "Search the code for {thing}.",
]
_DONE = [
    "All as expected, apart from the {thing}.",
    "One thing stands out: the {error} near the end. Shall I look into it?",
    "Nothing unusual there.",
    "The {module} part is fine; {file} needs a second look.",
    "Done.",
]
_LINES = [
    "{time} INFO {module}: {thing} loaded in {nn} ms",
    "{time} WARN {module}: {thing} is stale, asking again in {n} s",
    "{time} ERROR {module}: {error} in {file}:{nn}",
    "PASSED tests/{module}/test_{thing}.py::{thing}_{n}",
    "FAILED tests/{module}/test_{thing}.py::{thing}_{n} - {error}",
    "-rw-r--r-- 1 app app {nn}{nn2} {file}",
    '{{"service": "{module}", "status": "ok", "{thing}": {nn}}}',
    "{file}:{nn}: {lib} {thing} = load_{thing}({n})",
    "{lib}=={n}.{n2}.{nn}",
]
_ESSAY = [
    "{concept} is older than most people think.",
    "The first ones to write it down worked with paper cards and had no computer at all.",
    "What they wanted was simple: if two people do the same work, the result should not depend on who was quicker.",
    "It comes at a price, though, and the price is paid by whoever joins late.",
    "In small groups it hardly matters, in large ones nothing else does.",
    "You can compare it with {scene}.",
    "There are three schools: the strict one, the lazy one, and the one that pretends there is no problem.",
    "Most tools follow the lazy school, because it is pleasant on the first day.",
    "The strict school wins on the second day and is forgotten on the third.",
    "If you only remember one thing, remember that it has to be decided before the {thing} exists, not after.",
    "Measurements are rare, and the few that exist disagree by a factor of {n}.",
    "A good introduction is the chapter on {module}s in nearly any textbook.",
    "Critics say that it moves the trouble elsewhere, which is true, and sometimes exactly where you want it.",
    "Nobody has found a way to test it properly, short of waiting for a bad week.",
]


def _word_lists() -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    slot = ""
    for line in (MATERIAL / "words.txt").read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        if not line.startswith(" "):
            slot, _, line = line.partition(":")
            lists[slot] = []
        phrase = line.strip()
        lists[slot] += [phrase[2:]] if phrase.startswith("| ") else phrase.split()
    return lists


WORDS = _word_lists()
