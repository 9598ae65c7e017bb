"""What the model will see: compiled for every call from the session, which is never changed to fit.

Four sections in this order: fixed (instructions and tools), profile, summary, recent. The first two are byte-stable;
the summary is the history's first message. So every request is the one before and something appended, but where a fold
or a relief has moved the window.
"""

from __future__ import annotations

import msgspec

from mainstay.context.weigh import REQUEST_TOKENS, text_bound, tools_bound, weigh_tools
from mainstay.core.messages import Message
from mainstay.core.ports import Context, Tokenizer, Tool
from mainstay.core.session import Session

CUT = "\n\n(The rest is left out here: it would take too much of every call.)"


class Surroundings:
    """Everything in a request that is not history. The same object for as long as nothing in it changes."""

    __slots__ = ("_counted", "bound", "fixed", "profile", "tools")

    def __init__(self, fixed: str, profile: str, tools: tuple[Tool, ...]) -> None:
        self.fixed = fixed
        self.profile = profile
        self.tools = tools
        self.bound = REQUEST_TOKENS + text_bound(fixed) + text_bound(profile) + tools_bound(tools)
        self._counted: tuple[str, int] = ("", 0)

    def weigh(self, tokenizer: Tokenizer) -> int:
        name, total = self._counted
        if name != tokenizer.name:
            texts = sum(tokenizer.count(text) + 4 for text in (self.fixed, self.profile) if text)
            total = REQUEST_TOKENS + texts + weigh_tools(self.tools, tokenizer)
            self._counted = tokenizer.name, total
        return total


def compile_context(session: Session, around: Surroundings, active_window: int | None = None) -> Context:
    messages = session.messages if active_window is None else newest(session, active_window)
    return Context(around.fixed, messages, around.tools, around.profile)


def newest(session: Session, count: int) -> list[Message]:
    """The simple rule: so many messages, beginning with one of the user's; the summary and the running turn whole."""
    messages = session.messages
    head = messages[:1] if session.folded is not None else []
    rest = messages[len(head) :]
    if len(rest) <= count:
        return messages
    turn = rest[-1].turn
    for place in range(len(rest) - count, len(rest)):
        if rest[place].role == "user" or (turn and rest[place].turn == turn):
            break
    while place and turn and rest[place].turn == turn and rest[place - 1].turn == turn:
        place -= 1
    return head + rest[place:]


def render_profile(profile: dict[str, str]) -> str:
    """Who the person is, as they or their program have said."""
    if not profile:
        return ""
    lines = "\n".join(f"- {name}: {value}" for name, value in sorted(profile.items()))
    return f"# About the person\n\n{lines}"


def cut_to(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """The beginning of a text, and a word that there is more; itself if it is short enough."""
    if text_bound(text) <= tokens or tokenizer.count(text) <= tokens:
        return text
    low, high = 0, len(text)
    while high - low > 16:
        middle = (low + high) // 2
        fits = tokenizer.count(text[:middle]) + tokenizer.count(CUT) <= tokens
        low, high = (middle, high) if fits else (low, middle)
    return text[:low].rstrip() + CUT


def join_sections(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


class Section(msgspec.Struct, frozen=True):
    """A part of what the model sees, and what it weighs."""

    name: str
    tokens: int
    text: str
    messages: int = 0


class Shown(msgspec.Struct, frozen=True):
    """What the model sees, section by section."""

    sections: list[Section]
    budget: int
    window: int
    model: str

    @property
    def tokens(self) -> int:
        return sum(section.tokens for section in self.sections)
