"""Pages as their reader meets them: words that attack, words that cannot be seen, and a header that gives orders."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import islice

from mainstay.skills.scan_rules import Level, named
from mainstay.skills.scan_text import Found, Text, by_rules
from mainstay.trust.guards.normalise import hidden
from mainstay.trust.guards.scan import HIDDEN
from mainstay.trust.guards.scan import scan as attacks

SURE = 0.75  # an attack, and not something that looks a little like one
AROUND_LINES = 6
NEAR_CHARS = 500
RUNS_MAX = 64
HIDDEN_MAX = 3
COMMENTS_MAX = 200

# What a page about programming models says as well.
_ORDINARY = frozenset({"role impersonation", "persona", "call look-alike"})
_TRICKS = {
    "tags": "holds letters that nobody can see, only a model",
    "bidi": "reads otherwise than it runs: it turns the direction of writing around",
    "zero-width": "has invisible characters inside of words",
    "soft hyphens": "has invisible characters inside of words",
    "variation selectors": "has invisible characters that can carry a message",
}
_RUN64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{24,8000}={0,2}(?![A-Za-z0-9+/=_-])")
_DESCRIPTION = re.compile(r"^description:[ \t]{0,4}(.{0,4000}?)(?=^\S|\Z)", re.DOTALL | re.MULTILINE)
_TOOLS = re.compile(r"^allowed-tools:[ \t]{0,4}(.{0,2000}?)(?=^\S|\Z)", re.DOTALL | re.MULTILINE)
_ALL_TOOLS = re.compile(r"(?:^|[\s,\[\"'-])(?:\*|Bash(?:\(\s{0,3}[*:]{1,3}\s{0,3}\))?|Shell|Terminal)(?=$|[\s,\]\"'])")


def word_findings(text: Text, *, script: bool) -> Iterator[Found]:
    """What is in the words of any text, a script's and a table's too."""
    yield from _unseen(text)
    yield from _attacks(text, script=script)
    yield from _encoded(text)


def page_findings(text: Text) -> Iterator[Found]:
    yield from by_rules(text, script=False)
    yield from _comments(text)
    yield from _downloads(text)
    if text.path.lower() == "skill.md":
        yield from _header(text)


# --- what cannot be seen -------------------------------------------------------------------------


def _unseen(text: Text) -> Iterator[Found]:
    for trick in hidden(text.text):
        lines = [number for number, line in enumerate(text.text.split("\n"), 1) if trick in hidden(line)]
        for number in lines[:HIDDEN_MAX] or [0]:
            yield "danger", number, _TRICKS.get(trick, "hides something")


def _encoded(text: Text) -> Iterator[Found]:
    """What is packed so that it is not read, and is a command when it is unpacked."""
    for found, _ in zip(_RUN64.finditer(text.text), range(RUNS_MAX), strict=False):
        if named("commands").search(_unpacked(found[0])):
            yield "danger", text.line_of(found.start()), "hides a command in an encoding"


def _unpacked(run: str) -> str:
    try:
        said = base64.b64decode(run + "=" * (-len(run) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return said if len(said) >= 12 and all(char.isprintable() or char in "\n\t\r" for char in said) else ""


def _comments(text: Text) -> Iterator[Found]:
    """A page is shown without them, and read with them."""
    for at, said in islice(_commented(text.text), COMMENTS_MAX):
        inner = Text(text.path, said)
        bad = any(level == "danger" for level, _, _ in by_rules(inner, script=True))
        if bad or attacks(said) is not None or named("to an agent").search(said):
            yield "danger", text.line_of(at), "gives instructions in a comment, which is not shown to people"


def _commented(text: str) -> Iterator[tuple[int, str]]:
    """One that has no end goes to the end of the page."""
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at + 4)
        end = end if end >= 0 else len(text)
        yield at, text[at + 4 : end]
        at = text.find("<!--", end)


# --- what is said --------------------------------------------------------------------------------


def _attacks(text: Text, *, script: bool) -> Iterator[Found]:
    """Words that command whoever reads them against the person. In a script they are an answer of it, or a test."""
    found = attacks(text.text)
    if found is None or found.kinds[0] == HIDDEN or named("defends").search(found.excerpt):
        return
    line = _line_of_attack(text)  # none: only words far apart make it one
    sure = line and found.score >= SURE and found.kinds[0] not in _ORDINARY
    level: Level = "danger" if sure and not script else "warning"
    yield level, line, f"speaks to the agent as an attack does ({', '.join(found.kinds[:3])})"


def _line_of_attack(text: Text) -> int:
    lines = text.text.split("\n")
    for at in range(0, len(lines), AROUND_LINES // 2):
        if attacks("\n".join(lines[at : at + AROUND_LINES])) is not None:
            return next((n + 1 for n in range(at, min(at + AROUND_LINES, len(lines))) if attacks(lines[n])), at + 1)
    return 0


def _downloads(text: Text) -> Iterator[Found]:
    for found in named("get a program").finditer(text.text):
        near = text.text[max(0, found.start() - NEAR_CHARS) : found.end() + NEAR_CHARS]
        pressing = named("prerequisite").search(near) is not None and named("run it").search(near) is not None
        what = "has a person download a program and run it"
        yield "danger" if pressing else "warning", text.line_of(found.start()), what


# --- the header ----------------------------------------------------------------------------------


def _header(text: Text) -> Iterator[Found]:
    if not text.text.lstrip("\ufeff").startswith("---"):
        return
    head = text.text[: max(0, text.text.find("\n---", 3)) + 1]
    if (said := _DESCRIPTION.search(head)) is not None:
        line = text.line_of(said.start())
        if attacks(said[1]) is not None or named("orders").search(said[1]):
            yield "danger", line, "commands in its description, where it should describe"
        elif named("loud").search(said[1]):
            yield "warning", line, "presses to be used, in its description"
    if (tools := _TOOLS.search(head)) is not None and _ALL_TOOLS.search(tools[1]):
        yield "warning", text.line_of(tools.start()), "asks for every command of the shell in allowed-tools"
