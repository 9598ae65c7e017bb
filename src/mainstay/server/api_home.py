"""The native API: what waits for a word, what is remembered, what is scheduled; and for those who run the home, who may
come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.events import ApprovalAsked
from mainstay.core.people import Key, Person, Role, Scope
from mainstay.core.recall import Hit
from mainstay.core.triggers import Kind, Missed, Run, Target, Trigger
from mainstay.gateway.visit import NotAllowed
from mainstay.server.calls import SEQUENCE_MAX, Answer, Asked, Call, Line, Nothing, Operation, Word
from mainstay.server.problems import Problem, problem_of

# --- what waits for a word -----------------------------------------------------------------------


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    asked: ApprovalAsked


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    approvals: list[Waits]


class Approve(Asked, frozen=True, kw_only=True):
    input: Annotated[str, Meta(max_length=1_000_000)] | None = None  # other arguments (JSON) to run it with
    always: bool = False  # and its like from now on


class Deny(Asked, frozen=True, kw_only=True):
    reason: Line = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    verdict: str


async def approvals(call: Call) -> Approvals:
    found = await call.visit.approvals()
    return Approvals(
        approvals=[Waits(session=one.session, asked=msgspec.structs.replace(one.asked, session="")) for one in found]
    )


async def approve(call: Call) -> Verdict:
    body: Approve = call.body
    await call.visit.approve(call.names["id"], input=body.input, always=body.always)
    return Verdict(id=call.names["id"], verdict="approved")


async def deny(call: Call) -> Verdict:
    await call.visit.deny(call.names["id"], call.body.reason)
    return Verdict(id=call.names["id"], verdict="denied")


# --- what is remembered --------------------------------------------------------------------------


class Search(Asked, frozen=True, kw_only=True):
    q: Annotated[str, Meta(min_length=1, max_length=2_000)]
    k: Annotated[int, Meta(ge=1, le=100)] = 10


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    hits: list[Hit]


async def search(call: Call) -> Hits:
    query: Search = call.query
    return Hits(hits=list(await call.visit.search(query.q, query.k)))


# --- what is scheduled ---------------------------------------------------------------------------


class TriggerMade(Asked, frozen=True, kw_only=True):
    """To a session, or into a room of a channel, where every run is a thread of its own."""

    name: Word
    kind: Kind
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    session: Annotated[str, Meta(max_length=512)] = ""
    channel: Word = ""
    room: Word = ""
    schedule: Word = ""
    timezone: Word = "UTC"
    missed: Missed = "once"
    jitter_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    check: Line = ""
    paused: bool = False
    replace: bool = False

    def trigger(self) -> Trigger:
        same = {name: getattr(self, name) for name in _SAME}
        return Trigger(target=Target(session=self.session, channel=self.channel, room=self.room), **same)


_SAME = ("name", "kind", "text", "schedule", "timezone", "missed", "jitter_s", "check", "paused")


class TriggerShown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    kind: Kind | None = None
    next: int = 0  # ms
    paused: bool = False
    waiting: str = ""
    trouble: str = ""
    text: str = ""
    schedule: str = ""
    timezone: str = ""
    session: str = ""
    last: Run | None = None


class Triggers(msgspec.Struct, frozen=True, kw_only=True):
    triggers: list[TriggerShown]


class Named(msgspec.Struct, frozen=True, kw_only=True):
    name: str


async def triggers(call: Call) -> Triggers:
    found = []
    for one in await call.visit.triggers():
        made = one.trigger or Trigger(name=one.name, kind="immediate", text="", timezone="")
        shown = TriggerShown(
            name=one.name,
            kind=one.kind,
            next=one.next,
            paused=one.paused,
            waiting=one.waiting,
            trouble=one.trouble,
            text=made.text,
            schedule=made.schedule,
            timezone=made.timezone,
            session=made.target.session,
            last=one.last,
        )
        found.append(shown)
    return Triggers(triggers=found)


async def add_trigger(call: Call) -> Named:
    body: TriggerMade = call.body
    try:
        await call.visit.add_trigger(body.trigger(), replace=body.replace)
    except MainstayError as error:
        problem = problem_of(error)
        if problem.status != 500:
            raise
        raise Problem(400, "invalid_request", str(error)) from None  # what is wrong with it, in words of its own room
    return Named(name=body.name)


async def remove_trigger(call: Call) -> None:
    await call.visit.remove_trigger(await _known(call))


async def run_trigger(call: Call) -> Run:
    return await call.visit.run_trigger(await _known(call))


async def _known(call: Call) -> str:
    name = call.names["name"]
    if not any(one.name == name for one in await call.visit.triggers()):
        raise Problem(404, "not_found", f"there is no trigger {name[:80]!r}")
    return name


# --- who may come in -----------------------------------------------------------------------------


class Workspaces(msgspec.Struct, frozen=True, kw_only=True):
    workspaces: list[str]


class PersonShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    called: str
    roles: dict[str, Role]
    created: int


class People(msgspec.Struct, frozen=True, kw_only=True):
    people: list[PersonShown]


class PersonMade(Asked, frozen=True, kw_only=True):
    name: Word
    called: Word = ""
    roles: Annotated[dict[str, Role], Meta(max_length=1_000)] = {}


class KeyShown(msgspec.Struct, frozen=True, kw_only=True):
    """All but the key itself."""

    id: str
    person: str
    workspace: str
    scopes: list[Scope]
    note: str
    created: int
    expires: int
    revoked: int


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    keys: list[KeyShown]


class KeyMade(Asked, frozen=True, kw_only=True):
    person: Word
    workspace: Word = ""
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=10)] = ("chat",)
    note: Word = ""
    expires: Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)] = 0  # ms


class KeyTold(msgspec.Struct, frozen=True, kw_only=True):
    """The key itself, this once."""

    key: str
    kept: KeyShown


def must_run_the_home(call: Call) -> None:
    """The owner, or an admin of the workspace that is everybody's by default, with a key that may as much."""
    who = call.visit.principal
    if not (who.role == "admin" and who.may("admin")) or (
        who.person and who.workspace != call.doors.settings.workspace
    ):
        raise NotAllowed("this is for those who run the home")


def must_be_there(call: Call, wanted: Iterable[str]) -> None:
    """Nobody is let into a workspace that there is not: whoever made one of that name later would have them in it."""
    settings = call.doors.settings
    if settings.workspaces is None:
        return
    known = {settings.workspace, *settings.workspaces()}
    for name in (one[:80] for one in wanted if one not in known):
        raise InputRefused(f"there is no workspace {name!r}; `mainstay workspace create {name}` makes it")


async def workspaces(call: Call) -> Workspaces:
    people, settings, who = call.doors.gateway.people, call.doors.settings, call.visit.principal
    try:
        must_run_the_home(call)
    except NotAllowed:
        return Workspaces(workspaces=[who.workspace])
    known: Sequence[str] = settings.workspaces() if settings.workspaces is not None else ()
    found = {settings.workspace, *known, *(name for one in people.everybody() for name in one.roles)}
    return Workspaces(workspaces=sorted(found))


async def people(call: Call) -> People:
    must_run_the_home(call)
    return People(people=[_person(one) for one in call.doors.gateway.people.everybody()])


async def add_person(call: Call) -> PersonShown:
    must_run_the_home(call)
    body: PersonMade = call.body
    must_be_there(call, body.roles)
    known = call.doors.gateway.people
    await known.add(Person(name=body.name, called=body.called, roles=body.roles))
    made = known.person(body.name)
    assert made is not None, "it was added just now"
    return _person(made)


async def remove_person(call: Call) -> None:
    must_run_the_home(call)
    name = call.names["name"]
    if call.doors.gateway.people.person(name) is None:
        raise Problem(404, "not_found", f"there is nobody called {name[:80]!r}")
    await call.doors.gateway.people.remove(name)


async def keys(call: Call) -> Keys:
    must_run_the_home(call)
    known = call.doors.gateway.people.keys()
    return Keys(keys=[_key(one) for one in known])


async def add_key(call: Call) -> Answer:
    must_run_the_home(call)
    body: KeyMade = call.body
    workspace = body.workspace or call.doors.settings.workspace
    must_be_there(call, (workspace,))
    token, kept = await call.doors.gateway.people.make_key(
        body.person,
        workspace,
        scopes=body.scopes,
        note=body.note,
        expires=body.expires,
    )
    return Answer(KeyTold(key=token, kept=_key(kept)), 201)


async def remove_key(call: Call) -> None:
    must_run_the_home(call)
    if not await call.doors.gateway.people.revoke_key(call.names["name"]):
        raise Problem(404, "not_found", "there is no such key, or it was revoked before")


def _person(one: Person) -> PersonShown:
    return PersonShown(name=one.name, called=one.called, roles=one.roles, created=one.created)


def _key(one: Key) -> KeyShown:
    return KeyShown(
        id=one.id,
        person=one.person,
        workspace=one.workspace,
        scopes=list(one.scopes),
        note=one.note,
        created=one.created,
        expires=one.expires,
        revoked=one.revoked,
    )


HOME = (
    Operation(method="GET", path="/api/approvals", do=approvals, says="What waits for a word", answers=Approvals),
    Operation(
        method="POST", path="/api/approvals/{id}/approve", do=approve, says="Let it run", body=Approve, answers=Verdict
    ),
    Operation(
        method="POST", path="/api/approvals/{id}/deny", do=deny, says="Do not let it run", body=Deny, answers=Verdict
    ),
    Operation(
        method="GET", path="/api/memory/search", do=search, says="What was said about it", query=Search, answers=Hits
    ),
    Operation(method="GET", path="/api/triggers", do=triggers, says="What is scheduled", answers=Triggers),
    Operation(
        method="POST",
        path="/api/triggers",
        do=add_trigger,
        says="Schedule something",
        body=TriggerMade,
        answers=Named,
        status=201,
    ),
    Operation(method="DELETE", path="/api/triggers/{name}", do=remove_trigger, says="Schedule it no more", status=204),
    Operation(
        method="POST",
        path="/api/triggers/{name}/run",
        do=run_trigger,
        says="Run it now as well",
        body=Nothing,
        answers=Run,
    ),
    Operation(
        method="GET", path="/api/workspaces", do=workspaces, says="Workspaces that I may enter", answers=Workspaces
    ),
    Operation(method="GET", path="/api/people", do=people, says="Who may come in", answers=People),
    Operation(
        method="POST",
        path="/api/people",
        do=add_person,
        says="Let somebody in",
        body=PersonMade,
        answers=PersonShown,
        status=201,
    ),
    Operation(method="DELETE", path="/api/people/{name}", do=remove_person, says="Let them in no more", status=204),
    Operation(method="GET", path="/api/keys", do=keys, says="Keys that were made", answers=Keys),
    Operation(
        method="POST",
        path="/api/keys",
        do=add_key,
        says="Make a key; it is told this once",
        body=KeyMade,
        answers=KeyTold,
        status=201,
    ),
    Operation(method="DELETE", path="/api/keys/{name}", do=remove_key, says="Revoke a key", status=204),
)
