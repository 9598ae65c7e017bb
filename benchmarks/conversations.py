"""Synthetic conversations with questions about them, generated from the scenes in `scenes/` and a seed.

Each corpus is one user's conversations with an assistant: sessions over a year, each with several scenes, distractors
that share words with the questions and do not answer them, small talk, work, and tool output. The evidence for each
question is known, because it was planted.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path

SCENES_FOLDER = Path(__file__).parent / "scenes"
SESSIONS = 26
TURNS_PER_SESSION = 75
DAY_MS = 86_400_000
START_MS = 1_704_096_000_000
# The part of the vocabulary that each set uses: the first two sets have no name, town or food in common.
VOCABULARY_SLICES = {"first": slice(0, None, 2), "held": slice(1, None, 2), "third": slice(None)}
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
class Corpus:
    turns: list[Turn]
    questions: list[Question]


@dataclass
class Scene:
    kind: str
    parts: list[list[tuple[str, bool, str]]] = field(
        default_factory=lambda: [[]]
    )  # role, is evidence, text; by session
    questions: list[str] = field(default_factory=list)
    distractors: list[str] = field(default_factory=list)


def read_scenes(name: str) -> list[Scene]:
    """Parse a file of scenes; first.txt describes the format."""
    scenes: list[Scene] = []
    for line in (SCENES_FOLDER / f"{name}.txt").read_text().splitlines():
        marker, _, text = line.partition(" ")
        match marker:
            case "" | "#":
                continue
            case "u" | "u*" | "a" | "a*":
                role = "user" if marker[0] == "u" else "assistant"
                scenes[-1].parts[-1].append((role, marker.endswith("*"), text))
            case "---":
                scenes[-1].parts.append([])
            case "?":
                scenes[-1].questions.append(text)
            case "-":
                scenes[-1].distractors.append(text)
            case _ if marker.startswith("["):
                scenes.append(Scene(marker.strip("[]")))
            case _:
                raise ValueError(f"{name}.txt: {line!r}")
    return scenes


def generate_corpora(name: str, count: int, seed: int) -> list[Corpus]:
    """Several corpora from the scenes of one set."""
    scenes = read_scenes(name)
    return [
        _generate_corpus(scenes, random.Random(seed * 1000 + number), VOCABULARY_SLICES[name])
        for number in range(count)
    ]


def _generate_corpus(scenes: list[Scene], rng: random.Random, vocabulary_slice: slice) -> Corpus:
    sessions: list[list[list[Turn]]] = [[] for _ in range(SESSIONS)]  # each has threads of turns
    questions: list[Question] = []
    small_talk = [scene for scene in scenes if scene.kind == "chat"]
    for number, scene in enumerate(scenes):
        if scene.kind == "chat":
            continue
        fill = SlotFiller(rng, vocabulary_slice)
        session_numbers = sorted(rng.sample(range(SESSIONS), len(scene.parts)))
        evidence: list[Turn] = []
        for session_number, part in zip(session_numbers, scene.parts, strict=True):
            thread = [Turn(role, fill(text)) for role, _, text in part]
            evidence += [turn for turn, (_, is_evidence, _) in zip(thread, part, strict=True) if is_evidence]
            sessions[session_number].append(thread)
        questions += [Question(fill(text), scene.kind, evidence, number) for text in scene.questions]
        for distractor in scene.distractors:
            message = Turn("user", SlotFiller(rng, vocabulary_slice)(distractor))
            reply = Turn("assistant", SlotFiller(rng, vocabulary_slice)(rng.choice(_REPLIES)))
            sessions[rng.randrange(SESSIONS)].append([message, reply])
    turns: list[Turn] = []
    for number, session in enumerate(sessions):
        while sum(map(len, session)) < TURNS_PER_SESSION:
            session.append(_generate_filler(small_talk, rng, vocabulary_slice))
        rng.shuffle(session)
        at = START_MS + int((number + rng.random()) * 365 / SESSIONS) * DAY_MS
        for seq, turn in enumerate((turn for thread in session for turn in thread), start=1):
            at += rng.randrange(5_000, 300_000)
            turn.session, turn.seq, turn.at = f"talk-{number}", seq, at
            turns.append(turn)
    return Corpus(turns, questions)


def _generate_filler(small_talk: list[Scene], rng: random.Random, vocabulary_slice: slice) -> list[Turn]:
    fill = SlotFiller(rng, vocabulary_slice)
    kind = rng.random()
    if kind < 0.12:
        request = Turn("user", fill(rng.choice(_TOOL_REQUESTS)))
        output = Turn("tool", _generate_tool_output(rng, fill))
        return [request, output, Turn("assistant", fill(rng.choice(_TOOL_REPORTS)))]
    if kind < 0.18:
        sentences = [
            fill(sentence) for sentence in rng.sample(_ESSAY_SENTENCES, rng.randrange(5, len(_ESSAY_SENTENCES)))
        ]
        return [Turn("user", fill("Tell me more about {concept}.")), Turn("assistant", " ".join(sentences))]
    return [Turn(role, fill(text)) for role, _, text in rng.choice(small_talk).parts[0]]


def _generate_tool_output(rng: random.Random, fill: SlotFiller) -> str:
    lines = [fill(rng.choice(_OUTPUT_LINES)) for _ in range(rng.randrange(3, 25))]
    return "\n".join(lines)


class SlotFiller:
    """Replaces slots such as `{woman}` by random words.

    One object always uses the same word for the same slot; `{woman}` and `{woman2}` get different words.
    """

    def __init__(self, rng: random.Random, vocabulary_slice: slice) -> None:
        self._rng = rng
        self._vocabulary_slice = vocabulary_slice
        self._chosen: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        return _SLOT.sub(lambda match: self._get_word(match[1], match[2]), text)

    def _get_word(self, slot: str, number: str) -> str:
        key = slot + number
        if key not in self._chosen:
            used = {word for name, word in self._chosen.items() if name.rstrip("0123456789") == slot}
            word = self._draw_word(slot)
            while word in used:
                word = self._draw_word(slot)
            self._chosen[key] = word
        return self._chosen[key]

    def _draw_word(self, slot: str) -> str:
        rng = self._rng
        match slot:
            case "n":
                return str(rng.randrange(2, 10))
            case "nn":
                return str(rng.randrange(11, 100))
            case "age":
                return str(rng.randrange(5, 60))
            case "time":
                return f"{rng.randrange(6, 23)}:{rng.randrange(0, 60, 5):02d}"
            case "price":
                return f"{rng.randrange(3, 80) * 25} {rng.choice(['euros', 'dollars', 'pounds'])}"
            case "date":
                return f"{_format_ordinal(rng.randrange(1, 29))} of {rng.choice(WORDS['month'])}"
            case "street":
                return f"{self._pick_word('streetname')} {rng.choice(['Street', 'Lane', 'Road', 'Square', 'Row'])}"
            case _:
                return self._pick_word(slot)

    def _pick_word(self, slot: str) -> str:
        pool = WORDS[slot]
        return self._rng.choice(pool if len(pool) < 16 else pool[self._vocabulary_slice])


def _format_ordinal(day: int) -> str:
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
_TOOL_REQUESTS = [
    "Run the tests of {module}.",
    "Show me {file}.",
    "List what's in the {module} folder.",
    "Look at the log of the {thing} service.",
    "Check whether {lib} is installed.",
    "Search the code for {thing}.",
]
_TOOL_REPORTS = [
    "All as expected, apart from the {thing}.",
    "One thing stands out: the {error} near the end. Shall I look into it?",
    "Nothing unusual there.",
    "The {module} part is fine; {file} needs a second look.",
    "Done.",
]
_OUTPUT_LINES = [
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
_ESSAY_SENTENCES = [
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


def _read_word_lists() -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    slot = ""
    for line in (SCENES_FOLDER / "words.txt").read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        if not line.startswith(" "):
            slot, _, line = line.partition(":")
            lists[slot] = []
        phrase = line.strip()
        lists[slot] += [phrase[2:]] if phrase.startswith("| ") else phrase.split()
    return lists


WORDS = _read_word_lists()
