"""What a turn's events amount to for whoever waits in a chat: the answer, or why there is none."""

from __future__ import annotations

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.events import (
    ApprovalAsked,
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
from mainstay.core.messages import text_of
from mainstay.core.outcome import Aborted, Exhausted, Failed
from mainstay.gateway.drafting import SILENT

CALL_CHARS_MAX = 1_500
STOPPED = "_(stopped)_"


class Answer(msgspec.Struct, frozen=True):
    """What is to be posted at the end of a turn. Empty: nothing, and why."""

    text: str
    note: str = ""


class Telling:
    """Follows one turn's durable events. `heard` is where its last input came from, where it came from a channel."""

    def __init__(self) -> None:
        self.text = ""
        self.heard: Address | None = None
        self._warned: list[str] = []  # what the person should know beside the answer

    def take(self, event: Event) -> None:
        match event:
            case Received(heard=heard, kind="prompt" | "steer") if heard is not None:
                self.heard = heard.address
            case TurnStarted():
                self.text = ""
            case Warned(sentence=sentence):
                self._warned.append(sentence)
            case MessageAdded(role="assistant", parts=parts):
                self.text = text_of(parts)
            case ToolFinished() | Steered() | Judged(passed=False, last=False):
                self.text = ""

    def answer(self, ended: TurnEnded, shown: str = "") -> Answer:
        """`shown` is what stands in the room already."""
        text = self.text.strip()
        match ended.outcome:
            case Failed(sentence=sentence):
                return Answer(f"{text}\n\n{sentence}" if text else sentence)
            case Exhausted(bound=bound) if not text:
                return Answer(f"I had to stop: this turn reached its limit ({bound}).")
            case Aborted():
                said = text or shown.strip()
                return Answer(f"{said}\n\n{STOPPED}" if said and shown else "", "stopped")
        if text == SILENT:
            return Answer("", "silent")
        if text and self._warned:
            text = "\n\n".join((text, *(f"_({sentence})_" for sentence in self._warned)))
        return Answer(text, "" if text else "nothing was said")


def question(asked: ApprovalAsked) -> str:
    """What may or may not happen, as exactly as a message can say it, and how to answer."""
    call = f"{asked.name}({asked.input})"
    if len(call) > CALL_CHARS_MAX:
        call = f"{call[:CALL_CHARS_MAX]}… ({len(call) - CALL_CHARS_MAX} more characters)"
    fence = "```"
    while fence in call:
        fence += "`"
    lines = [
        f"**May this be done?** {asked.why}".strip(),
        f"{fence}\n{call}\n{fence}",
        f"`/approve {asked.id}` or `/deny {asked.id} reason`. Anything else that is said here is a no.",
    ]
    return "\n".join(lines)
