"""Operations on the home and its server: the caller's identity, workspaces, status."""

from __future__ import annotations

import msgspec

from mainstay.core.people import AccessScope, PersonRole
from mainstay.operations.caller import Caller
from mainstay.operations.operation import LOCAL, Name, Operation
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.runtime_protocols import RemovedWorkspace, ServerStatus


class PrincipalView(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller and its rights."""

    person: str  # "" for the owner
    workspace: str
    role: PersonRole
    scopes: list[AccessScope]
    model: str
    key: str  # the id of the API key


class WorkspaceList(msgspec.Struct, frozen=True, kw_only=True):
    workspaces: list[str]


class WhoAmI(Operation[PrincipalView], frozen=True, kw_only=True):
    """Show the authenticated caller and its rights."""


class ListWorkspaces(Operation[WorkspaceList], frozen=True, kw_only=True):
    """List the workspaces that the caller may use."""


class WorkspaceName(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class CreateWorkspace(Operation[WorkspaceName], frozen=True, kw_only=True):
    """Create an empty workspace."""

    name: Name


class RemoveWorkspace(Operation[RemovedWorkspace], frozen=True, kw_only=True):
    """Close a workspace and move its folder to `removed/`."""

    name: Name


class GetStatus(Operation[ServerStatus], frozen=True, kw_only=True):
    """Show the state of the server: addresses, workspaces, channels, what is not ready."""


async def who_am_i(caller: Caller, request: WhoAmI) -> PrincipalView:
    runtime = await caller.runtime()
    principal = caller.principal
    return PrincipalView(
        person=principal.person,
        workspace=caller.workspace,
        role=principal.role,
        scopes=sorted(principal.scopes),
        model=runtime.services.provider_for("").model().name,
        key=principal.key,
    )


async def list_workspaces(caller: Caller, request: ListWorkspaces) -> WorkspaceList:
    if not caller.can_administer_home:
        return WorkspaceList(workspaces=[caller.principal.workspace])
    home = caller.home
    existing = home.workspace_names() or ()
    roles = (name for person in home.people.list_people() for name in person.roles)
    return WorkspaceList(workspaces=sorted({home.main_workspace, *existing, *roles}))


async def create_workspace(caller: Caller, request: CreateWorkspace) -> WorkspaceName:
    await caller.home.create_workspace(request.name)
    return WorkspaceName(name=request.name)


async def remove_workspace(caller: Caller, request: RemoveWorkspace) -> RemovedWorkspace:
    return await caller.home.remove_workspace(request.name)


async def get_status(caller: Caller, request: GetStatus) -> ServerStatus:
    return await caller.home.status()


ENTRIES = (
    OperationEntry(request=WhoAmI, run=who_am_i, access="any", http=Route("GET", "/api/me")),
    OperationEntry(request=ListWorkspaces, run=list_workspaces, access="any", http=Route("GET", "/api/workspaces")),
    OperationEntry(
        request=CreateWorkspace,
        run=create_workspace,
        access="home",
        http=Route("POST", "/api/workspaces", status=201),
    ),
    OperationEntry(request=RemoveWorkspace, run=remove_workspace, access="home", interfaces=LOCAL),
    OperationEntry(request=GetStatus, run=get_status, access="home", http=Route("GET", "/api/status")),
)
