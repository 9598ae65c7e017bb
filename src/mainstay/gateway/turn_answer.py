"""Builds the message that is posted to a chat at the end of a turn."""

from __future__ import annotations

import msgspec

from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.events import (
    Event,
    Judged,
    MessageAdded,
    Received,
    Steered,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Warned,
)
from mainstay.core.messages import parts_text
from mainstay.core.outcome import Aborted, Exhausted, Failed
from mainstay.gateway.draft_message import SILENT_ANSWER, join_texts

STOPPED_NOTE = "_(stopped)_"


class TurnAnswer(msgspec.Struct, frozen=True):
    """The message to post at the end of a turn. An empty `text` means that nothing is posted; `note` says why."""

    text: str
    note: str = ""


class TurnAnswerBuilder:
    """Collects what the agent says in one turn from its durable events: its answer, and what it said before tool calls.

    `texts` is what it said, by step. `input_address` is the address that the last input came from; None if it did not
    come from a channel.
    """

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.input_address: ChatAddress | None = None
        self._answer_step: int | None = None  # None: the last step called tools, or was steered
        self._warnings: list[str] = []  # warnings to show below the answer

    @property
    def text(self) -> str:
        """The answer, without what was said before."""
        return "" if self._answer_step is None else self.texts.get(self._answer_step, "")

    def observe(self, event: Event) -> None:
        match event:
            case Received(heard=message, kind="prompt" | "steer") if message is not None:
                self.input_address = message.address
            case TurnStarted():
                self.texts, self._answer_step = {}, None
            case Warned(sentence=sentence):
                self._warnings.append(sentence)
            case MessageAdded(role="assistant", parts=parts, step=step):
                self.texts[step], self._answer_step = parts_text(parts), step
            case Judged(passed=False, last=False):
                if self._answer_step is not None:
                    self.texts.pop(self._answer_step, None)
                self._answer_step = None
            case ToolFinished() | Steered():
                self._answer_step = None

    def build_answer(self, ended: TurnEnded, draft_text: str = "") -> TurnAnswer:
        """Return the answer of a turn that has ended, below what was said before it. `draft_text` is the text of the
        draft that is posted already."""
        answer, text = self.text.strip(), join_texts(self.texts)
        match ended.outcome:
            case Failed(sentence=sentence):
                return TurnAnswer(f"{text}\n\n{sentence}" if text else sentence)
            case Exhausted(bound=bound) if not answer:
                sentence = f"I had to stop: this turn reached its limit ({bound})."
                return TurnAnswer(f"{text}\n\n{sentence}" if text else sentence)
            case Aborted():
                stopped_text = text or draft_text.strip()
                return TurnAnswer(f"{stopped_text}\n\n{STOPPED_NOTE}" if stopped_text and draft_text else "", "stopped")
        if answer == SILENT_ANSWER:
            return TurnAnswer("", "silent")
        if text and self._warnings:
            text = "\n\n".join((text, *(f"_({sentence})_" for sentence in self._warnings)))
        return TurnAnswer(text, "" if text else "nothing was said")
