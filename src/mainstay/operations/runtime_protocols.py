"""What operations need of an open agent and of the home around it, as Protocols."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from mainstay.core.audit import AuditReader
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.error_reports import ErrorStore
from mainstay.core.file_changes import UndoableTurn, UndoPreview, UndoResult
from mainstay.core.people import AccessScope, ApiKey, ChannelIdentity, PendingPairing, Person, PersonRole
from mainstay.core.tool_ports import AttachmentsFolder
from mainstay.core.triggers import Trigger, TriggerRun, TriggerStatus
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices

if TYPE_CHECKING:
    from mainstay.core.asgi import ASGIApp
    from mainstay.memory.service import MemoryService  # loaded only for callers that use memory
    from mainstay.observe.span_types import TelemetryOptions

ApprovalRole = Literal["member", "admin", "owner"]  # who may approve: this role, or a more powerful one


class SkillInfo(msgspec.Struct, frozen=True):
    """A skill that a session can use."""

    name: str
    description: str
    trigger: str = "manual"
    scope: str = ""
    untrusted: bool = False  # installed from outside, and the owner has not trusted it


class AllowRules(Protocol):
    """Rules that people added by answering an approval with "always"."""

    @property
    def rules(self) -> Sequence[str]: ...
    async def add(self, rule: str) -> None: ...
    async def remove(self, rule: str) -> None: ...


class TriggerService(Protocol):
    """The triggers of a home, as the open agent runs them."""

    def start(self) -> None: ...
    async def list(self) -> Sequence[TriggerStatus]: ...
    async def add(self, trigger: Trigger, *, replace: bool = False) -> None: ...
    async def remove(self, name: str) -> None: ...
    async def pause(self, name: str, *, paused: bool = True) -> None: ...
    async def run(self, name: str) -> TriggerRun: ...
    async def history(self, name: str, limit: int) -> Sequence[TriggerRun]: ...
    def app(self, *, alone: bool = False, without: Collection[str] = ()) -> ASGIApp: ...


class UndoService(Protocol):
    """The turns that changed files, and their undoing. `turn` None: the newest that was not undone."""

    async def list_turns(self, session: str) -> list[UndoableTurn]: ...
    async def preview(self, session: str, turn: int | None) -> UndoPreview: ...
    async def restore(self, session: str, turn: int | None) -> UndoResult: ...


class Runtime(Protocol):
    """An open agent: its lanes, its store, its memory, and what they share."""

    services: LaneServices
    lanes: LaneRegistry

    @property
    def workspace(self) -> str: ...

    @property
    def allow_rules(self) -> AllowRules: ...

    @property
    def error_store(self) -> ErrorStore | None:
        """Errors of the home, in all its workspaces; None for an agent without a home."""
        ...

    @property
    def audit_reader(self) -> AuditReader | None:
        """The audit log of the home; None for an agent without a home."""
        ...

    @property
    def memory(self) -> MemoryService: ...

    @property
    def trigger_service(self) -> TriggerService | None:
        """None for an agent without a home."""
        ...

    @property
    def is_main(self) -> bool:
        """True if admins of this workspace administer the whole home."""
        ...

    @property
    def has_model(self) -> bool:
        """False for a runtime that only administers sessions."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """One sentence for each configured part that could not be used."""
        ...

    def telemetry_options(self) -> TelemetryOptions:
        """Return what traces may contain, as the telemetry settings say."""
        ...

    def list_skills(self, session: str) -> list[SkillInfo]: ...

    def build_session_key(self, session: str, sender: str, platform_message: PlatformMessage | None = None) -> str:
        """Return the key of the lane that a session's name, or a message on a channel, belongs to. Raises
        InputRefused for a name that no session can have."""
        ...

    async def record_audit(self, kind: str, subject: str) -> None:
        """Write an audit entry for something that no journal records."""
        ...

    async def wait_for_audit(self) -> None:
        """Wait until the audit log covers every journal record. Raises AuditUnavailable if it cannot."""
        ...

    async def load_budget_report(self, person: str | None = None) -> BudgetReport:
        """Return what was spent in the home, and the budgets of this workspace. Budgets of people are those of `person`
        only, or of everybody who has spent something."""
        ...

    async def delete_derived(self, session: str) -> None:
        """Delete everything that was derived from a session: index entries, errors, labels, files."""
        ...

    def attachments_folder(self, session: str) -> AttachmentsFolder:
        """Return the folder for files that arrive with a session's messages; it exists."""
        ...

    async def set_working_folder(self, session: str, folder: str) -> str:
        """Set the session's working folder unless a turn is running; returns the folder in force."""
        ...

    async def stop_commands(self, session: str) -> None:
        """Stop the session's background commands."""
        ...

    async def open_undo(self) -> UndoService | None:
        """Return what undoes file changes; None for an agent that keeps no previous contents."""
        ...


class RuntimeSource(Protocol):
    """Gives operations the open agent of a workspace. A reload may replace the agent at any time."""

    async def runtime(self) -> Runtime:
        """Return the open agent; waits while it is being opened or replaced."""
        ...

    @property
    def current(self) -> Runtime:
        """The open agent at this moment, also while another is about to replace it."""
        ...


class PeopleDirectory(Protocol):
    """The people of a home, their accounts on channels, and their API keys."""

    def list_people(self) -> Sequence[Person]: ...
    def get_person(self, name: str) -> Person | None: ...
    def is_declared(self, name: str) -> bool: ...
    def list_accounts(self, name: str) -> Sequence[ChannelIdentity]: ...
    def list_pairings(self) -> Sequence[PendingPairing]: ...
    def list_keys(self) -> Sequence[ApiKey]: ...
    def get_key(self, id: str) -> ApiKey | None: ...
    def is_usable(self, key: ApiKey) -> bool: ...
    async def add_person(self, person: Person) -> None: ...
    async def grant_role(self, name: str, workspace: str, role: PersonRole) -> Person: ...
    async def withdraw_role(self, name: str, workspace: str) -> Person: ...
    async def remove_person(self, name: str) -> None: ...
    async def pair_account(self, code: str, *, name: str, workspace: str, role: PersonRole) -> Person: ...
    async def unpair_account(self, channel: str, user: str) -> bool: ...
    async def create_key(
        self, person: str, workspace: str, *, scopes: Sequence[AccessScope], note: str = "", expires: int = 0
    ) -> tuple[str, ApiKey]: ...
    async def revoke_key(self, id: str) -> bool: ...


class RemovedWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace that was closed; its folder was moved, and people lost their roles in it."""

    name: str
    moved: str
    withdrawn: list[str]


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a running server."""

    version: str
    at: list[str]  # addresses that it listens on
    workspaces: list[str]  # those that are open
    channels: dict[str, str]  # the connection state of each
    unready: dict[str, str]  # what is not ready, and why
    failed_tasks: dict[str, str] = {}  # background tasks of single sessions and rooms that failed, and why


class Home(Protocol):
    """The home that a server owns: its people, its workspaces and its channels."""

    @property
    def people(self) -> PeopleDirectory: ...

    @property
    def main_workspace(self) -> str:
        """The workspace whose admins administer the home."""
        ...

    def workspace_names(self) -> Sequence[str] | None:
        """Every workspace there is; None: unknown, only those that people have roles in."""
        ...

    async def create_workspace(self, name: str) -> None:
        """Create an empty workspace. Raises InputRefused for an invalid name, and for one that exists."""
        ...

    async def remove_workspace(self, name: str) -> RemovedWorkspace:
        """Close a workspace and move its folder away. Raises InputRefused for one that the configuration names."""
        ...

    async def load_budget_report(self, workspace: str | None) -> BudgetReport:
        """Return what was spent in the home, and the budgets of a workspace; None: of all. Raises WorkspaceUnknown."""
        ...

    async def status(self) -> ServerStatus: ...
