"""What can be said to the runtime itself on every channel: it begins with a slash, and is answered at once."""

from __future__ import annotations

import msgspec

from mainstay.core.errors import ApprovalUnknown, InputRefused, MainstayError, SessionUnknown
from mainstay.core.messages import Text
from mainstay.core.people import SCOPES, Person
from mainstay.core.ports import Standing
from mainstay.gateway.office import Office
from mainstay.gateway.visit import FOR_THE_OWNER
from mainstay.lane.pausing import Pending
from mainstay.trust.guards.lines import one_line

NAMES = ("stop", "steer", "status", "new", "approve", "deny", "help")
REASON_CHARS_MAX = 500
HELP = """\
`/stop` ends what is running.
`/steer TEXT` puts something into it.
`/status` says what is going on.
`/approve [ID] [always]` and `/deny [ID] [reason]` answer a question.
`/new` says how a new conversation is begun.
`/help` says this.
Everything else is for the agent. A new thread is a new conversation."""
NEW = "A new thread is a new conversation. Where there are none, this one goes on, and what is old is summarised."


class Command(msgspec.Struct, frozen=True):
    name: str
    rest: str = ""


class Speaker(msgspec.Struct, frozen=True):
    """Who says it, in which session of which workspace, and under which id."""

    office: Office
    person: Person
    session: str
    id: str


def read_command(text: str) -> Command | None:
    """None: that is for the agent. Some platforms write whom it is for behind its name: `/stop@agent`."""
    first, _, rest = text.strip().partition(" ")
    first, _, more = first.partition("\n")
    name = first.removeprefix("/").partition("@")[0].lower()
    if not first.startswith("/") or name not in NAMES:
        return None
    return Command(name, f"{more} {rest}".strip())


async def obey(command: Command, by: Speaker) -> str | None:
    """What to say to it; None: with nothing running, that is a prompt. Raises StoreErrors: it was not done."""
    match command.name:
        case "stop":
            return "Stopped." if await by.office.abort(by.session) else "Nothing is running."
        case "steer":
            return await _steer(command.rest, by)
        case "status":
            return await _status(by)
        case "approve" | "deny":
            return await _answer(command, by)
        case "new":
            return NEW
        case _:
            return HELP


async def _standing(by: Speaker) -> Standing | None:
    try:
        return await by.office.sessions.get(by.session)
    except SessionUnknown:
        return None


async def _steer(text: str, by: Speaker) -> str | None:
    if not text:
        return "Say what, like this: `/steer in French, please`"
    standing = await _standing(by)
    if standing is None or not standing.unfinished:
        return None
    try:
        await by.office.steer(by.session, (Text(text),), id=by.id, sender=by.person.name)
    except InputRefused as error:
        return sentence(error)
    return "Steering…"


async def _status(by: Speaker) -> str:
    standing = await _standing(by)
    if standing is None or standing.status == "deleted":
        return "Nothing has been said here yet."
    if standing.approval is not None:
        return f"Waiting for an approval ({standing.approval.id}): {one_line(standing.approval.name)}."
    doing = "Working." if standing.unfinished else "Nothing is running."
    kind = " This conversation is archived." if standing.status == "archived" else ""
    turns = "1 turn" if standing.turns == 1 else f"{standing.turns} turns"
    return f"{doing}{kind} {turns} so far; {standing.model or by.office.title()} answers."


async def _answer(command: Command, by: Speaker) -> str:
    role = by.person.roles.get(by.office.workspace, "guest")
    if "approve" not in SCOPES[role]:
        return "You may not answer this."
    admin = role == "admin"
    mine = [one for one in await by.office.approvals.list() if admin or one.session == by.session]
    first, _, rest = command.rest.partition(" ")
    pending = _meant(mine, first, by.session)
    if command.name == "approve" and first and first.lower() != "always" and not _is_named(pending, first):
        return "Nothing waits under that id: it was answered, or it expired."  # and nothing else is meant by it
    if isinstance(pending, str):
        return pending
    said = rest if pending.asked.id.startswith(first) and first else command.rest
    always = command.name == "approve" and said.strip().lower() == "always"
    if always and not admin:
        return "Only an admin may say always."
    if command.name == "approve" and (why := _withheld(pending, by, admin=admin)):
        return why
    try:
        if command.name == "approve":
            await by.office.approvals.approve(pending.asked.id, always=always, by=by.person.name, wait=False)
            return "Approved."
        reason = said.strip()[:REASON_CHARS_MAX]
        await by.office.approvals.deny(pending.asked.id, reason, by=by.person.name, wait=False)
    except (ApprovalUnknown, InputRefused) as error:
        return sentence(error)
    return "Denied."


def _withheld(pending: Pending, by: Speaker, *, admin: bool) -> str:
    """Why it is not for them to approve; empty if it is."""
    match by.office.approved_by(pending.asked.name):
        case "owner":
            return f"{FOR_THE_OWNER[:1].upper()}{FOR_THE_OWNER[1:]}."
        case "admin" if not admin:
            return "Only an admin may approve this."
    return ""


def _is_named(pending: Pending | str, id: str) -> bool:
    return isinstance(pending, str) or pending.asked.id.startswith(id)


def _meant(pending: list[Pending], id: str, session: str) -> Pending | str:
    """The question that is meant: by its id or the beginning of it, else the one that is open here."""
    named = [one for one in pending if id and one.asked.id.startswith(id)]
    here = [one for one in pending if one.session == session]
    found = named or here
    if len(found) == 1:
        return found[0]
    return "More than one question begins like this; give more of its id." if found else "Nothing waits for an answer."


def sentence(error: MainstayError) -> str:
    said = str(error)
    return said[:1].upper() + said[1:] + ("" if said.endswith((".", "!", "?")) else ".")
