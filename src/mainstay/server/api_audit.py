"""The native API: what is on record, for those who look after a workspace, or after the home."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.audit import Entry, Wanted
from mainstay.gateway.visit import NotAllowed
from mainstay.server.api_home import must_run_the_home
from mainstay.server.calls import SEQUENCE_MAX, Asked, Call, Operation, Word

LISTED_MAX = 1_000
Moment = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]  # ms


class AuditWanted(Asked, frozen=True, kw_only=True):
    """`workspace`: of this one; of others, and of all of them, only for those who run the home."""

    workspace: Word | None = None
    session: Annotated[str, Meta(max_length=512)] | None = None
    person: Word | None = None
    kind: Word | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX)] = 100


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """The newest, oldest first. `details` is JSON, as it was put on record."""

    entries: list[Entry]


async def audit(call: Call) -> Audited:
    kept = call.visit.audit
    query: AuditWanted = call.query
    workspace = query.workspace
    if not _runs_the_home(call):
        if workspace not in (None, call.visit.workspace):
            raise NotAllowed("this is for those who run the home")
        workspace = call.visit.workspace
    if kept is None:
        return Audited(entries=[])
    wanted = Wanted(
        session=query.session,
        person=query.person,
        workspace=workspace,
        kind=query.kind,
        since=query.since,
        until=query.until,
        limit=query.limit,
    )
    return Audited(entries=await kept.entries(wanted))


def _runs_the_home(call: Call) -> bool:
    try:
        must_run_the_home(call)
    except NotAllowed:
        return False
    return True


AUDIT = (
    Operation(method="GET", path="/api/audit", do=audit, says="What is on record", query=AuditWanted, answers=Audited),
)
