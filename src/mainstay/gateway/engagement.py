"""What a message is to us: who says it, whether it is meant for us, and how the model and the log are told of it."""

from __future__ import annotations

import re

from msgspec.structs import replace

from mainstay.core.addresses import Address, FileSaid, Heard
from mainstay.core.channels import Incoming
from mainstay.core.errors import SessionUnknown
from mainstay.core.messages import AnyPart, Text
from mainstay.core.people import Person
from mainstay.core.ports import Standing
from mainstay.core.recall import RUNTIME, origin_of
from mainstay.gateway.office import Office
from mainstay.trust.guards.lines import one_line

STRANGERS = origin_of("channel", untrusted=True)  # words of people who are not paired
NAME_CHARS_MAX = 80
STRANGER = ", a stranger"  # behind the name that they have chosen, which may well be somebody else's
_BRACKETS = str.maketrans("[]\uff3b\uff3d\u3010\u3011\u3014\u3015\u27e6\u27e7", "()" * 5)
# a line that looks like ours, which say who speaks and what is attached
_NOTE = re.compile(r"^([ \t]*)(?=[\[\uff3b\u3010\u3014\u27e6][^\n]*[\]\uff3d\u3011\u3015\u27e7][ \t:]*$)", re.MULTILINE)


def envelope_id(message: Incoming) -> str:
    """What a message is known by, however often and on whichever way it comes."""
    return f"{message.address.channel}:{message.address.room}:{message.id}"


def fit(message: Incoming) -> Incoming:
    """The same, as text that can be kept."""
    said = (message.text, message.name[:NAME_CHARS_MAX], message.user, message.id)
    text, name, user, id = (_whole(one) for one in said)
    files = tuple(replace(one, name=_whole(one.name), ref=_whole(one.ref)) for one in message.files)
    return replace(message, text=text, name=name, user=user, id=id, files=files)


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def parts_of(message: Incoming, person: Person | None, files: str = "") -> tuple[AnyPart, ...]:
    """What the model is shown; `files` are those that nobody fetches. Where several people are, it is told who speaks,
    and nobody can say it for another; what a stranger says, and how they call themselves, is from outside."""
    if person is None:
        name = shown_name(message.name or message.user) + STRANGER
        return (Text(f"[{name}]\n{as_said(message.text)}{files}", origin=STRANGERS),)
    text = (message.text if message.direct else as_said(message.text)) + files
    said = (Text(text),) if text.strip() else ()
    if message.direct:
        return said
    return (Text(f"[{shown_name(person.shown)}]\n", origin=RUNTIME), *said)


def shown_name(name: str) -> str:
    return one_line(name)[:NAME_CHARS_MAX].translate(_BRACKETS)


def as_said(text: str) -> str:
    """With a mark before every line that could be taken for one of ours."""
    return _NOTE.sub(r"\1\\", text)


def heard_of(message: Incoming, files: tuple[FileSaid, ...] = ()) -> Heard:
    return Heard(
        message.address,
        message.id,
        message.user,
        message.name,
        message.text,
        message.at,
        files or tuple(FileSaid(one.name) for one in message.files),
        message.direct,
    )


def room_of(message: Incoming) -> Heard:
    """As if it had been said in the room itself."""
    return replace(heard_of(message), address=Address(message.address.channel, message.address.room))


async def standing_of(office: Office, session: str) -> Standing | None:
    try:
        found = await office.sessions.get(session)
    except SessionUnknown:
        return None
    return found if found.status != "deleted" else None


def follows(message: Incoming, standing: Standing | None) -> bool:
    """A thread in which we have spoken is a conversation with us. A room without threads is everybody's."""
    if standing is None or standing.status == "archived" or standing.turns == 0:
        return False
    return bool(message.address.thread)
