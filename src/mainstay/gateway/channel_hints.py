"""Hints for the model about the channel it answers on."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.core.channels import ChannelCapabilities, ChatChannel
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.memory_tiers import CONTEXT_ORIGIN
from mainstay.core.messages import Text
from mainstay.core.ports import Tool, TurnNote

HINT_ORIGIN = f"{CONTEXT_ORIGIN}:channel"

# session → its channel and address; None: on no channel
SessionLocator = Callable[[str], tuple[ChatChannel, ChatAddress] | None]


def build_hints(capabilities: ChannelCapabilities) -> str:
    """Return sentences for the model about what the channel can display."""
    match capabilities.markup:
        case "markdown":
            text = "Your answer is shown in a chat that renders Markdown."
        case "some":
            text = "Your answer is shown in a chat: bold, italic, code, lists and links are shown; keep tables small."
        case "plain":
            text = "Your answer is shown in a chat as plain text, without any formatting."
    text += f" A message has at most {capabilities.length_max} characters; longer answers are split."
    if not capabilities.files:
        text += " Files cannot be sent there."
    return text + " Answer [SILENT] alone to post nothing."


class ChannelHintContributor:
    """A `ContextContributor` that adds a note about the channel to each turn of a session on a channel."""

    def __init__(self, locate_session: SessionLocator) -> None:
        self.tools: tuple[Tool, ...] = ()
        self._locate_session = locate_session

    def fixed_section(self, session: str) -> str:
        return ""

    def sub_agent_section(self, session: str) -> str:
        return ""

    def small_model_section(self, session: str) -> str:
        return ""

    def profile_section(self, session: str) -> str:
        return ""

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        location = self._locate_session(session)
        return (
            (TurnNote(build_hints(location[0].capabilities), origin=HINT_ORIGIN, kind=HINT_ORIGIN),)
            if location is not None
            else ()
        )
