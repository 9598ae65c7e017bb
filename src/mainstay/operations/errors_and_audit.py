"""Operations on the list of errors, the problems of the configuration and the audit log."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.audit import AuditEntry as AuditEntry
from mainstay.core.audit import AuditQuery
from mainstay.core.error_reports import ErrorKind, ErrorQuery, ErrorReport
from mainstay.core.errors import ErrorUnknown
from mainstay.operations.caller import Caller, NotAllowed
from mainstay.operations.operation import Milliseconds, Name, Operation, PageSize
from mainstay.operations.operation_entry import OperationEntry, Route

SessionFilter = Annotated[str, Meta(max_length=512)]


class ErrorGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Errors that differ in numbers, names and places only."""

    group: str
    count: int
    first: int  # ms
    last: int
    example: ErrorReport  # the newest


class ErrorGroupList(msgspec.Struct, frozen=True, kw_only=True):
    groups: list[ErrorGroupView]


class ErrorItems(msgspec.Struct, frozen=True, kw_only=True):
    errors: list[ErrorReport]


class ClearedErrors(msgspec.Struct, frozen=True, kw_only=True):
    cleared: int


class ProblemList(msgspec.Struct, frozen=True, kw_only=True):
    problems: list[str]  # one sentence each


class AuditEntries(msgspec.Struct, frozen=True, kw_only=True):
    """The newest entries, oldest first. `details` is JSON, as it was recorded."""

    entries: list[AuditEntry]


class ListErrors(Operation[ErrorItems], frozen=True, kw_only=True):
    """List errors, the newest first."""

    workspace: Name | None = None  # another one than the caller's, or "" for none: administrators of the home only
    session: SessionFilter = ""
    kind: ErrorKind | None = None
    group: Name = ""
    trace: Name = ""
    since: Milliseconds = 0
    limit: PageSize = 100


class ListErrorGroups(Operation[ErrorGroupList], frozen=True, kw_only=True):
    """List errors grouped by cause."""

    workspace: Name | None = None
    session: SessionFilter = ""
    kind: ErrorKind | None = None
    group: Name = ""
    trace: Name = ""
    since: Milliseconds = 0
    limit: PageSize = 100


class GetError(Operation[ErrorReport], frozen=True, kw_only=True):
    """Show one error."""

    id: Name


class ClearErrors(Operation[ClearedErrors], frozen=True, kw_only=True):
    """Remove errors from the list for good."""

    workspace: Name | None = None
    session: SessionFilter = ""
    kind: ErrorKind | None = None
    group: Name = ""
    trace: Name = ""
    since: Milliseconds = 0


class ListProblems(Operation[ProblemList], frozen=True, kw_only=True):
    """List the configured parts of the workspace that could not be used, and why."""


class ReadAudit(Operation[AuditEntries], frozen=True, kw_only=True):
    """Read the audit log."""

    workspace: Name | None = None  # another one than the caller's: administrators of the home only
    session: SessionFilter | None = None
    person: Name | None = None
    kind: Name | None = None
    since: Milliseconds | None = None
    until: Milliseconds | None = None
    limit: PageSize = 100


def _can_see(caller: Caller, workspace: str) -> bool:
    return workspace == caller.workspace or caller.can_administer_home


def _build_error_query(caller: Caller, request: ListErrors | ListErrorGroups | ClearErrors) -> ErrorQuery:
    """Without a workspace: the caller's own, or all of them for an administrator of the home."""
    workspace = request.workspace
    if workspace is None and not caller.can_administer_home:
        workspace = caller.workspace
    if workspace is not None and not _can_see(caller, workspace):
        raise NotAllowed("errors of other workspaces are for administrators of the home")
    return ErrorQuery(
        workspace=workspace,
        session=request.session,
        kind=request.kind or "",
        group=request.group,
        trace=request.trace,
        since=request.since,
    )


async def list_errors(caller: Caller, request: ListErrors) -> ErrorItems:
    log = (await caller.runtime()).error_store
    return ErrorItems(
        errors=await log.find_reports(_build_error_query(caller, request), request.limit) if log is not None else []
    )


async def list_error_groups(caller: Caller, request: ListErrorGroups) -> ErrorGroupList:
    log = (await caller.runtime()).error_store
    groups = await log.find_groups(_build_error_query(caller, request), request.limit) if log is not None else []
    views = [
        ErrorGroupView(group=group.id, count=group.count, first=group.first, last=group.last, example=group.newest)
        for group in groups
    ]
    return ErrorGroupList(groups=views)


async def get_error(caller: Caller, request: GetError) -> ErrorReport:
    log = (await caller.runtime()).error_store
    error = await log.get_report(request.id) if log is not None else None
    if error is None or not _can_see(caller, error.workspace):  # the same sentence for both
        raise ErrorUnknown("there is no such error")
    return error


async def clear_errors(caller: Caller, request: ClearErrors) -> ClearedErrors:
    log = (await caller.runtime()).error_store
    query = _build_error_query(caller, request)
    return ClearedErrors(cleared=await log.delete_reports(query) if log is not None else 0)


async def list_problems(caller: Caller, request: ListProblems) -> ProblemList:
    return ProblemList(problems=list((await caller.runtime()).problems))


async def read_audit(caller: Caller, request: ReadAudit) -> AuditEntries:
    log = (await caller.runtime()).audit_reader
    workspace = request.workspace
    if not caller.can_administer_home:
        if workspace not in (None, caller.workspace):
            raise NotAllowed("the audit log of other workspaces is for administrators of the home")
        workspace = caller.workspace
    if log is None:
        return AuditEntries(entries=[])
    wanted = AuditQuery(
        session=request.session,
        person=request.person,
        workspace=workspace,
        kind=request.kind,
        since=request.since,
        until=request.until,
        limit=request.limit,
    )
    return AuditEntries(entries=await log.find_entries(wanted))


ENTRIES = (
    OperationEntry(request=ListErrors, run=list_errors, access="admin", http=Route("GET", "/api/errors")),
    OperationEntry(
        request=ListErrorGroups, run=list_error_groups, access="admin", http=Route("GET", "/api/errors/groups")
    ),
    OperationEntry(request=ClearErrors, run=clear_errors, access="admin", http=Route("DELETE", "/api/errors")),
    OperationEntry(request=GetError, run=get_error, access="admin", http=Route("GET", "/api/errors/{id}")),
    OperationEntry(request=ListProblems, run=list_problems, access="admin", http=Route("GET", "/api/problems")),
    OperationEntry(request=ReadAudit, run=read_audit, access="admin", http=Route("GET", "/api/audit")),
)
