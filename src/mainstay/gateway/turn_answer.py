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
from mainstay.gateway.draft_message import SILENT_ANSWER

STOPPED_NOTE = "_(stopped)_"


class TurnAnswer(msgspec.Struct, frozen=True):
    """The message to post at the end of a turn. An empty `text` means that nothing is posted; `note` says why."""

    text: str
    note: str = ""


class TurnAnswerBuilder:
    """Collects the answer of one turn from its durable events. `input_address` is the address that the last input came
    from; None if it did not come from a channel."""

    def __init__(self) -> None:
        self.text = ""
        self.input_address: ChatAddress | None = None
        self._warnings: list[str] = []  # warnings to show below the answer

    def observe(self, event: Event) -> None:
        match event:
            case Received(heard=message, kind="prompt" | "steer") if message is not None:
                self.input_address = message.address
            case TurnStarted():
                self.text = ""
            case Warned(sentence=sentence):
                self._warnings.append(sentence)
            case MessageAdded(role="assistant", parts=parts):
                self.text = parts_text(parts)
            case ToolFinished() | Steered() | Judged(passed=False, last=False):
                self.text = ""

    def build_answer(self, ended: TurnEnded, draft_text: str = "") -> TurnAnswer:
        """Return the answer of a turn that has ended. `draft_text` is the text of the draft that is posted already."""
        text = self.text.strip()
        match ended.outcome:
            case Failed(sentence=sentence):
                return TurnAnswer(f"{text}\n\n{sentence}" if text else sentence)
            case Exhausted(bound=bound) if not text:
                return TurnAnswer(f"I had to stop: this turn reached its limit ({bound}).")
            case Aborted():
                stopped_text = text or draft_text.strip()
                return TurnAnswer(f"{stopped_text}\n\n{STOPPED_NOTE}" if stopped_text and draft_text else "", "stopped")
        if text == SILENT_ANSWER:
            return TurnAnswer("", "silent")
        if text and self._warnings:
            text = "\n\n".join((text, *(f"_({sentence})_" for sentence in self._warnings)))
        return TurnAnswer(text, "" if text else "nothing was said")
