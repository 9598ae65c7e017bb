"""Tells the model the name of the person who is talking to it, in sessions that belong to one person."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.core.chat_addresses import PERSONAL_CHANNELS, WEB_CHANNEL, ChatAddress
from mainstay.core.messages import Text
from mainstay.core.people import Person
from mainstay.core.ports import Tool
from mainstay.gateway.channel_message_conversion import format_speaker_name
from mainstay.gateway.people import People

HEADING = "# Who is talking to you"


class PersonContributor:
    """A `ContextContributor` that adds the person's name to the profile section: in sessions of an API key and in
    direct messages. In a room, the name is with each message."""

    def __init__(self, people: People, find_direct_person: Callable[[ChatAddress], str]) -> None:
        self.tools: tuple[Tool, ...] = ()
        self._people = people
        self._find_direct_person = find_direct_person

    def fixed_section(self, session: str) -> str:
        return ""

    def sub_agent_section(self, session: str) -> str:
        return ""

    def small_model_section(self, session: str) -> str:
        return ""

    def profile_section(self, session: str) -> str:
        person = self._find_person(session)
        return f"{HEADING}\n\n{format_speaker_name(person.label)}" if person is not None else ""

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        return ()

    def _find_person(self, session: str) -> Person | None:
        address = ChatAddress.parse(session)
        if address is None:
            return None
        if address.channel in PERSONAL_CHANNELS:  # web:PERSON:…, user:PERSON or user:CHANNEL:PERSON
            is_of_room = address.channel != WEB_CHANNEL and bool(address.thread)
            return self._people.get_person(address.thread if is_of_room else address.room)
        name = self._find_direct_person(address)
        return self._people.get_person(name) if name else None
