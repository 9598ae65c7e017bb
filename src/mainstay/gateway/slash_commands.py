"""Slash commands on chat channels (`/stop`, `/approve`, …): answered by the runtime at once, without the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from mainstay.core.audit import acting_person
from mainstay.core.errors import ApprovalUnknown, InputRefused, MainstayError, SessionUnknown
from mainstay.core.events import ApprovalAsked
from mainstay.core.people import ROLE_SCOPES, Person, Principal
from mainstay.core.ports import SessionInfo
from mainstay.gateway.workspace import Workspace
from mainstay.guards.line_escaping import one_line
from mainstay.lane.approvals import PendingApproval
from mainstay.operations.approvals import OWNER_ONLY, Approve, Deny, ListApprovals
from mainstay.operations.caller import Caller, NotAllowed, load_session_info
from mainstay.operations.execute import authorise, execute
from mainstay.operations.operation import Operation
from mainstay.operations.sessions import ActivateSession, ClearProfile, GetProfile, PauseSession, SetProfile
from mainstay.operations.turns import Abort, Steer, TextInput

R = TypeVar("R")
AMBIGUOUS_TEXT = "More than one conversation is running here. Mention me in the thread that you mean, with the command."
COMMAND_NAMES = ("stop", "steer", "status", "pause", "resume", "profile", "new", "approve", "deny", "help")
REASON_CHARS_MAX = 500
HELP_TEXT = """\
`/stop` stops the running turn.
`/steer TEXT` adds a message to the running turn.
`/status` shows what the agent is doing.
`/pause` and `/resume`: messages wait in between.
`/profile [KEY=VALUE | clear]`, in a direct message, shows or changes what the agent knows about you there.
`/approve [ID] [always]` and `/deny [ID] [reason]` answer an approval request.
`/new` says how to start a new conversation.
`/help` shows this list.
Every other message is for the agent. A new thread is a new conversation."""
NEW_CONVERSATION_TEXT = (
    "Start a new thread for a new conversation. Where there are no threads, this one continues and older messages are "
    "summarised."
)


class SlashCommand(msgspec.Struct, frozen=True):
    name: str
    arguments: str = ""


class CommandContext(msgspec.Struct, frozen=True):
    """The person who sent a command, the session and workspace it is for, and the id of its message."""

    workspace: Workspace
    person: Person
    session: str
    message_id: str
    # of an approval: why it was not shown completely in its chat room; "" if it was
    find_hidden_reason: Callable[[ApprovalAsked], Awaitable[str]]
    direct: bool = False  # it is a direct message


def parse_command(text: str) -> SlashCommand | None:
    """Parse a slash command; None if the message is for the agent. Some platforms append the bot's name to the
    command: `/stop@agent`."""
    first, _, rest = text.strip().partition(" ")
    first, _, more = first.partition("\n")
    name = first.removeprefix("/").partition("@")[0].lower()
    if not first.startswith("/") or name not in COMMAND_NAMES:
        return None
    return SlashCommand(name, f"{more} {rest}".strip())


async def run_command(command: SlashCommand, context: CommandContext) -> str | None:
    """Run a command and return the reply to post; None for a `/steer` with nothing running, which is a prompt. Raises
    a StoreError if the command was not carried out."""
    match command.name:
        case "stop":
            return await _run_stop(context)
        case "steer":
            return await _run_steer(command.arguments, context)
        case "status":
            return await _format_status(context)
        case "pause" | "resume":
            return await _run_pause(command.name, context)
        case "profile":
            return await _run_profile(command.arguments, context)
        case "approve" | "deny":
            return await _answer_approval(command, context)
        case "new":
            return NEW_CONVERSATION_TEXT
        case _:
            return HELP_TEXT


async def _find_session_info(context: CommandContext) -> SessionInfo | None:
    try:
        return await load_session_info(context.workspace, context.session)
    except SessionUnknown:
        return None


async def _run_stop(context: CommandContext) -> str:
    try:
        result = await _execute(context, Abort(session=context.session))
    except SessionUnknown:
        return "Nothing is running."
    return "Stopped." if result.aborted else "Nothing is running."


async def _run_steer(text: str, context: CommandContext) -> str | None:
    if not text:
        return "Add the text, for example: `/steer in French, please`"
    info = await _find_session_info(context)
    if info is None or not info.unfinished:
        return None
    try:
        await _execute(
            context,
            Steer(session=context.session, parts=(TextInput(text),), id=context.message_id, shared=not context.direct),
        )
    except InputRefused as error:
        return to_sentence(error)
    return "Steering…"


async def _run_pause(name: str, context: CommandContext) -> str:
    request = PauseSession if name == "pause" else ActivateSession
    info = await _find_session_info(context)
    if info is None or info.status == "archived":
        return "There is no conversation here that can be paused."
    try:
        await _execute(context, request(session=context.session))
    except MainstayError as error:
        return to_sentence(error)
    return "Paused. Messages wait until `/resume`." if name == "pause" else "Resumed."


async def _run_profile(arguments: str, context: CommandContext) -> str:
    if not context.direct:
        return "Send this command in a direct message: several people write here."
    name, separator, value = arguments.partition("=")
    try:
        if arguments == "clear":
            await _execute(context, ClearProfile(session=context.session))
        elif separator:
            await _execute(context, SetProfile(session=context.session, fields={name.strip(): value.strip()}))
        elif arguments:
            return "Write `/profile city=Lisbon`; `/profile city=` removes a field."
        fields = (await _execute(context, GetProfile(session=context.session))).fields
    except MainstayError as error:
        return to_sentence(error)
    lines = [f"{one_line(name)}: {one_line(value)}" for name, value in sorted(fields.items())]
    return "\n".join(lines) or "The profile is empty. `/profile city=Lisbon` adds a field."


async def _format_status(context: CommandContext) -> str:
    info = await _find_session_info(context)
    if info is None or info.status == "deleted":
        return "There is no conversation here yet."
    if info.approval is not None:
        return f"Waiting for an approval ({info.approval.id}): {one_line(info.approval.name)}."
    activity = "Working." if info.unfinished else "Nothing is running."
    archived = f" This conversation is {info.status}." if info.status in ("archived", "paused") else ""
    turns = "1 turn" if info.turns == 1 else f"{info.turns} turns"
    model = info.model or context.workspace.current.services.provider_for("").model().name
    return f"{activity}{archived} {turns} so far; the model is {model}."


class RoomCaller(Caller):
    """The sender of a command as the caller of operations: sees the session of the chat room, under its key, and as an
    admin all sessions of the workspace."""

    def __init__(self, context: CommandContext) -> None:
        name, workspace = context.person.name, context.workspace
        role = context.person.roles.get(workspace.name, "guest")
        principal = Principal(person=name, workspace=workspace.name, role=role, scopes=ROLE_SCOPES[role])
        super().__init__(principal, workspace)
        self._room_session = context.session

    def session_key(self, session: str, sender: str | None = None) -> str:
        return self._room_session

    def session_name(self, key: str) -> str | None:
        return key if self.can_see_all or key == self._room_session else None


async def _execute(context: CommandContext, operation: Operation[R]) -> R:
    """Run an operation as the sender of a command."""
    acting = acting_person.get()
    try:
        return await execute(RoomCaller(context), operation)
    finally:
        acting_person.set(acting)  # the same task handles messages of other people


async def _answer_approval(command: SlashCommand, context: CommandContext) -> str:
    caller = RoomCaller(context)
    acting = acting_person.get()
    try:
        authorise(caller, Approve if command.name == "approve" else Deny)
        return await _answer_as(caller, command, context)
    except NotAllowed:
        return "You are not allowed to answer approval requests."
    except (ApprovalUnknown, InputRefused) as error:
        return to_sentence(error)
    finally:
        acting_person.set(acting)  # the same task handles messages of other people


async def _answer_as(caller: Caller, command: SlashCommand, context: CommandContext) -> str:
    first, _, rest = command.arguments.partition(" ")
    pending = _find_approval(await execute(caller, ListApprovals()), first, context.session)
    if command.name == "approve" and first and first.lower() != "always" and not _matches_id(pending, first):
        return "No approval request has this id: it was answered, or it expired."  # never approve another one instead
    if isinstance(pending, str):
        return pending
    id = pending.asked.id
    answer = (rest if id.startswith(first) and first else command.arguments).strip()
    if command.name == "deny":
        await execute(caller, Deny(id=id, reason=answer[:REASON_CHARS_MAX]))
        return "Denied."
    if hidden_reason := await context.find_hidden_reason(pending.asked):
        return hidden_reason
    always = answer.lower() == "always"
    try:
        await execute(caller, Approve(id=id, always=always))
    except NotAllowed as error:
        if str(error).startswith(OWNER_ONLY):
            return to_sentence(error)
        return "Only an admin may use `always`." if always else "Only an admin may approve this."
    return "Approved."


def _matches_id(pending: PendingApproval | str, id: str) -> bool:
    return isinstance(pending, str) or pending.asked.id.startswith(id)


def _find_approval(pending: list[PendingApproval], id: str, session: str) -> PendingApproval | str:
    """Return the pending approval with this id or beginning of an id, else the one of this session; a sentence if that
    is none or more than one."""
    by_id = [approval for approval in pending if id and approval.asked.id.startswith(id)]
    matches = by_id or [approval for approval in pending if approval.session == session]
    if len(matches) == 1:
        return matches[0]
    if matches:
        return "More than one approval request matches; give more of its id."
    return "No approval request is pending." if session else AMBIGUOUS_TEXT


def to_sentence(error: MainstayError) -> str:
    """Return an error's message as a sentence for people: capital letter, full stop."""
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
