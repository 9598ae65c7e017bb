"""The native API: what went wrong, for those who look after a workspace, or after the home."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.error_list import Kind, Mishap, Sought
from mainstay.gateway.visit import NotAllowed
from mainstay.server.api_home import must_run_the_home
from mainstay.server.calls import SEQUENCE_MAX, Asked, Call, Operation, Word
from mainstay.server.problems import Problem

LISTED_MAX = 1_000


class Wanted(Asked, frozen=True, kw_only=True):
    """`workspace`: of this one; of others, and of none (""), only for those who run the home."""

    workspace: Word | None = None
    session: Annotated[str, Meta(max_length=512)] = ""
    kind: Kind | None = None
    group: Word = ""
    trace: Word = ""
    since: Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)] = 0  # ms
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX)] = 100


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """Errors that differ in numbers, names and places only."""

    group: str
    count: int
    first: int  # ms
    last: int
    example: Mishap  # the newest


class ErrorGroups(msgspec.Struct, frozen=True, kw_only=True):
    groups: list[Alike]


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    errors: list[Mishap]


async def error_groups(call: Call) -> ErrorGroups:
    errors = call.visit.errors
    if errors is None:
        return ErrorGroups(groups=[])
    found = await errors.groups(_sought(call), call.query.limit)
    made = [Alike(group=one.id, count=one.count, first=one.first, last=one.last, example=one.newest) for one in found]
    return ErrorGroups(groups=made)


async def errors(call: Call) -> Errors:
    kept = call.visit.errors
    return Errors(errors=await kept.find(_sought(call), call.query.limit) if kept is not None else [])


async def error(call: Call) -> Mishap:
    kept = call.visit.errors
    found = await kept.get(call.names["id"]) if kept is not None else None
    if found is None or not _may_see(call, found.workspace):  # the same words, whether it never was or is not theirs
        raise Problem(404, "not_found", "there is no such error")
    return found


def _sought(call: Call) -> Sought:
    """By default what is of their workspace; those who run the home see all of it."""
    query: Wanted = call.query
    workspace = query.workspace
    if workspace is None and not _runs_the_home(call):
        workspace = call.visit.workspace
    if workspace is not None and not _may_see(call, workspace):
        raise NotAllowed("this is for those who run the home")
    kind = query.kind or ""
    return Sought(
        workspace=workspace,
        session=query.session,
        kind=kind,
        group=query.group,
        trace=query.trace,
        since=query.since,
    )


def _may_see(call: Call, workspace: str) -> bool:
    return workspace == call.visit.workspace or _runs_the_home(call)


def _runs_the_home(call: Call) -> bool:
    try:
        must_run_the_home(call)
    except NotAllowed:
        return False
    return True


ERRORS = (
    Operation(
        method="GET",
        path="/api/errors",
        do=errors,
        says="What went wrong, the newest first",
        query=Wanted,
        answers=Errors,
    ),
    Operation(
        method="GET",
        path="/api/errors/groups",
        do=error_groups,
        says="The same, like with like",
        query=Wanted,
        answers=ErrorGroups,
    ),
    Operation(method="GET", path="/api/errors/{id}", do=error, says="One of them", answers=Mishap),
)
