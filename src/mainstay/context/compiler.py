"""Compiles the context of a model call from the session, which is never changed to make it fit.

Four sections in this order: fixed (instructions and tools), profile, summary, recent. The first two are byte-stable;
the summary is the history's first message. So every request extends the previous one, which keeps the provider's prompt
cache valid, except after a fold or another compaction.
"""

from __future__ import annotations

import msgspec

from mainstay.context.token_counts import REQUEST_TOKENS, count_tools_tokens, text_token_bound, tools_token_bound
from mainstay.core.messages import Message
from mainstay.core.ports import Context, Tokenizer, Tool
from mainstay.core.session import Session

TRUNCATION_NOTE = "\n\n(The rest is left out here: it would take too much of every call.)"


class StableSections:
    """The sections of a request that are not history: fixed, profile and tools. Reused until one of them changes.

    `token_bound` is an upper bound of its tokens, which needs no tokenizer.
    """

    __slots__ = ("_cached_count", "fixed", "profile", "token_bound", "tools")

    def __init__(self, fixed: str, profile: str, tools: tuple[Tool, ...]) -> None:
        self.fixed = fixed
        self.profile = profile
        self.tools = tools
        self.token_bound = (
            REQUEST_TOKENS + text_token_bound(fixed) + text_token_bound(profile) + tools_token_bound(tools)
        )
        self._cached_count: tuple[str, int] = ("", 0)

    def count_tokens(self, tokenizer: Tokenizer) -> int:
        """Return its tokens; counted once per tokenizer."""
        name, total = self._cached_count
        if name != tokenizer.name:
            texts = sum(tokenizer.count(text) + 4 for text in (self.fixed, self.profile) if text)
            total = REQUEST_TOKENS + texts + count_tools_tokens(self.tools, tokenizer)
            self._cached_count = tokenizer.name, total
        return total


def compile_context(session: Session, stable: StableSections, active_window: int | None = None) -> Context:
    """Return the context; with `active_window`, only that many of the newest messages."""
    messages = session.messages if active_window is None else newest_messages(session, active_window)
    return Context(stable.fixed, messages, stable.tools, stable.profile)


def newest_messages(session: Session, count: int | None, *, for_next_turn: bool = False) -> list[Message]:
    """Return the newest `count` messages of the conversation, with the notes of the runtime between them, which do not
    count; all for None. Always with the summary and the whole open turn.

    They begin with a user message: that of the turn whose first steps are left out, if the newest messages begin within
    a turn. `for_next_turn`: only those that are visible until the end of a turn of half that size.
    """
    messages = session.messages
    if count is None:
        return messages
    head = messages[:1] if session.last_fold is not None else []
    rest = messages[len(head) :]
    count = count // 2 if for_next_turn else count
    indexes = [index for index, message in enumerate(rest) if message.role != "system"]
    if len(indexes) <= count:
        return messages
    turn = 0 if for_next_turn else rest[-1].turn
    opened = next((index for index in indexes if turn and rest[index].turn == turn), len(rest))
    start = _find_window_start(rest, indexes[len(indexes) - count :] if count else [])
    if start >= opened:
        return head + rest[opened:]
    if rest[start].role == "user":
        return head + rest[start:]
    return [*head, rest[_find_turn_start(rest, start)], *rest[start:]]


def _find_window_start(messages: list[Message], newest: list[int]) -> int:
    """Return the first of these messages that a window can begin with: a user message, or, if its turn's user message
    fits too, a step of the model that is not the turn's first."""
    for position, index in enumerate(newest):
        if messages[index].role == "user":
            return index
        if messages[index].role == "assistant" and position:
            begin = _find_turn_start(messages, index)
            if messages[begin].role == "user" and any(
                messages[between].role == "assistant" for between in range(begin, index)
            ):
                return index
    return len(messages)


def _find_turn_start(messages: list[Message], index: int) -> int:
    """Return the index of the user message that the message at `index` belongs to."""
    turn = messages[index].turn
    while index and messages[index].role != "user" and messages[index - 1].turn == turn:
        index -= 1
    return index


def count_conversation(messages: list[Message]) -> int:
    """Return the number of messages without the runtime's notes."""
    return sum(message.role != "system" for message in messages)


def render_profile(profile: dict[str, str]) -> str:
    """Return the profile fields, which the user or the application has set, as text for the profile section."""
    if not profile:
        return ""
    lines = "\n".join(f"- {name}: {value}" for name, value in sorted(profile.items()))
    return f"# About the person\n\n{lines}"


def truncate_to_tokens(text: str, tokens_max: int, tokenizer: Tokenizer) -> str:
    """Return the text, or its beginning with a note if it is longer than `tokens_max`."""
    if text_token_bound(text) <= tokens_max or tokenizer.count(text) <= tokens_max:
        return text
    low, high = 0, len(text)
    while high - low > 16:
        middle = (low + high) // 2
        fits = tokenizer.count(text[:middle]) + tokenizer.count(TRUNCATION_NOTE) <= tokens_max
        low, high = (middle, high) if fits else (low, middle)
    return text[:low].rstrip() + TRUNCATION_NOTE


def join_sections(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


class ContextSection(msgspec.Struct, frozen=True):
    """One section of a context, as text with its token count."""

    name: str
    tokens: int
    text: str
    messages: int = 0  # how many messages are in it


class ContextView(msgspec.Struct, frozen=True):
    """A context for display, section by section."""

    sections: list[ContextSection]
    budget: int  # tokens
    window: int  # tokens
    model: str
    flow: str = ""  # what information flow control knows about the conversation; empty: nothing restricts it

    @property
    def tokens(self) -> int:
        return sum(section.tokens for section in self.sections)
