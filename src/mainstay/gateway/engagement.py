"""What a message is to us: who says it, whether it is meant for us, and how the model and the log are told of it."""

from __future__ import annotations

from msgspec.structs import replace

from mainstay.core.addresses import Address, FileSaid, Heard
from mainstay.core.channels import Incoming
from mainstay.core.errors import SessionUnknown
from mainstay.core.messages import AnyPart, Text
from mainstay.core.people import Person
from mainstay.core.ports import Standing
from mainstay.core.recall import RUNTIME, origin_of
from mainstay.gateway.office import Office
from mainstay.guards.lines import one_line

STRANGERS = origin_of("channel", untrusted=True)  # words of people who are not paired
NAME_CHARS_MAX = 80


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


def parts_of(message: Incoming, person: Person | None) -> tuple[AnyPart, ...]:
    """What the model is shown. Where several people are, it is told who speaks; what a stranger says, and how they call
    themselves, is from outside."""
    if person is None:
        said = Text(f"[{shown_name(message.name or message.user)}]\n{message.text}", origin=STRANGERS)
        return (said,)
    if message.direct:
        return (Text(message.text),) if message.text.strip() else ()
    note = Text(f"[{shown_name(person.shown)}]\n", origin=RUNTIME)
    return (note, Text(message.text)) if message.text.strip() else (note,)


def shown_name(name: str) -> str:
    return one_line(name)[:NAME_CHARS_MAX].replace("[", "(").replace("]", ")")


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
