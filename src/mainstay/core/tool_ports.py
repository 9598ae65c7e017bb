"""Ports that tools work with: session folders and file labels, sandbox, plugin state, outbox, scheduler, sub-agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.core.file_changes import ChangeRecorder
from mainstay.core.held_changes import HeldChange
from mainstay.core.messages import Usage
from mainstay.core.ports import Tool

CALL_TOOL_NAME = "call_tool"  # the tool that calls those of a searchable catalogue
MCP_PREFIX = "mcp:"  # prefix of the origin and the destination of an MCP server's tools: `mcp:SERVER/TOOL`

# --- effects of a call ---------------------------------------------------------------------------


class CallDestinations(msgspec.Struct, frozen=True, kw_only=True):
    """What one call would affect: whether it is a sink, and its destinations.

    A tool for which this differs from call to call has a method `reach(arguments, context) -> CallDestinations`.
    """

    sink: bool = False  # carries data out, or changes something that outlives the conversation
    leaves_workspace: bool = False  # data would leave the workspace: network, messages, uploads
    destinations: tuple[str, ...] = ()  # as the call names them; those that the user named need no approval
    description: str = ""  # a description for the approval request: "sends a message to ops"


def undeclared_fields(tool: Tool) -> tuple[str, ...]:
    """Return which of `untrusted` and `sink` the developer of a tool did not declare."""
    fields: tuple[str, ...] = getattr(tool, "undeclared", ())
    return fields


def is_declared_private(tool: Tool) -> bool | None:
    """Return whether a tool's results are private (True) or public (False); None: that is not declared."""
    private: bool | None = getattr(tool, "private", None)
    return private


def declared_readers(tool: Tool) -> tuple[str, ...]:
    """Return the parameters, or fields of the result, that name who can read a tool's result already."""
    readers: tuple[str, ...] = getattr(tool, "readers", ())
    return readers


def only_reads(tool: Tool) -> bool:
    """Return True if a call changes nothing at its destination, such as the request for a web page."""
    return tool.effect == "pure" or getattr(tool, "is_read_only", False)


# --- files ---------------------------------------------------------------------------------------


def _same_path(path: str) -> str:
    return path


class SandboxPaths(msgspec.Struct, frozen=True):
    """The translation between the paths of this machine and those that commands see. Everything that a model reads or
    writes has the latter: `to_host` for what it writes, `to_shown` for what it reads. Other paths are unchanged."""

    to_host: Callable[[str], str] = _same_path
    to_shown: Callable[[str], str] = _same_path


SAME_PATHS = SandboxPaths()


class SessionFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Folders that a session may use. All paths are absolute host paths without symbolic links."""

    cwd: str
    writable: tuple[str, ...]  # folders that may be read and written; `cwd` is in one of them
    readable: tuple[str, ...] = ()  # folders that may only be read
    protected: tuple[str, ...] = ()  # files and folders in those above that tools must not read or write
    obeyed_paths: tuple[str, ...] = ()  # files and folders that contexts or other programs obey; writing them is a sink
    scratch: str = ""  # the session's own folder, for output that is too large to show
    untrusted_folders: tuple[str, ...] = ()  # folders whose files are untrusted (attachments)
    trusted_globs: tuple[str, ...] = ()  # globs of files that the owner trusts, relative to their folder
    trusted_folders: tuple[str, ...] = ()  # folders that the owner trusts
    command_readonly: tuple[str, ...] = ()  # skill and pattern folders: commands must not write there, file tools may
    paths: SandboxPaths = SAME_PATHS


class AttachmentsFolder(msgspec.Struct, frozen=True):
    """The folder for files that arrive with a session's messages."""

    path: str
    shown_path: str  # as commands see it


class FileOriginLabel(msgspec.Struct, frozen=True, gc=False):
    """What is known about a file: the origin of its content and the session that created it."""

    path: str
    origin: str = ""  # empty: the agent wrote it and had read nothing untrusted
    session: str = ""  # empty: the file existed before
    fingerprint: str = ""  # fingerprint (io/files) of the version that an empty origin is valid for; "": for any


class FileLabelStore(Protocol):
    """Labels of a workspace's files. Lookups are in memory; changes are on disk when the method returns."""

    def get(self, path: str) -> FileOriginLabel | None: ...
    def has_untrusted(self, folder: str) -> bool:
        """Return whether some file in this folder, at any depth, is known to be untrusted."""
        ...

    async def save(self, labels: Sequence[FileOriginLabel]) -> None: ...
    async def remove(self, paths: Sequence[str]) -> None: ...
    async def clear_session(self, session: str) -> None:
        """Clear a deleted session from its files' labels, so that a new session of that name does not own them."""
        ...


# --- commands ------------------------------------------------------------------------------------


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of one command and its descendants; None: the sandbox's default."""

    memory_mb: int | None = None
    processes: int | None = None
    cpu_s: float | None = None  # CPU time of each single process


class SandboxCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A shell command to run in the sandbox. Paths are host paths."""

    script: str  # for `sh -c`
    folders: SessionFolders
    cwd: str = ""  # empty: that of the session's folders
    timeout_s: float = 120.0
    env: dict[str, str] = {}  # added to the few variables that the sandbox sets; nothing else is inherited
    input: bytes = b""
    network: bool = False
    limits: CommandLimits = CommandLimits()
    protect_deletions: bool = False  # existing files must not be deleted: deletions are undone and listed in the result
    # exceptions from that: paths that the session itself created
    is_own_file: Callable[[str], bool] = lambda path: False
    movable_folders: tuple[str, ...] = ()  # of a command on an overlay: folders that it must be able to rename
    # With `protect_deletions`: called with the written paths before they are moved into place; in a thread, blocking.
    on_written: Callable[[Sequence[str]], None] = lambda paths: None
    # Files that other programs obey (core/obeyed_files.py) must not change: changes are held back and listed in the
    # result. `protect_deletions` includes this.
    protect_obeyed: bool = False
    # exceptions from that, by path and topic; `git-config:KEY` is a key of git's configuration, in lower case
    may_change: Callable[[str, str], bool] = lambda path, topic: False
    # Keeps what the command replaces or removes. With it, or with `protect_deletions`, the command writes to a layer of
    # its own, and its changes are made when it has ended; with `protect_obeyed` too, where that is possible.
    change_recorder: ChangeRecorder | None = None

    @property
    def needs_overlay(self) -> bool:
        return self.protect_deletions or self.change_recorder is not None


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a command."""

    exit_code: int  # exit code as a shell reports it: 128 + n for signal n
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    truncated: bool = False  # a stream was truncated at its size limit
    changed: tuple[str, ...] = ()  # of a command on an overlay: files that it wrote
    created: tuple[str, ...] = ()  # those of them that are new
    undone_deletions: tuple[str, ...] = ()  # files whose deletion was undone
    held_changes: tuple[HeldChange, ...] = ()  # all changes that were held back, in the order in which to apply them
    removed: tuple[str, ...] = ()  # files that it removed


# Called with output as it arrives. For a background process, returning False asks to read more slowly.
OutputHandler = Callable[[Literal["stdout", "stderr"], bytes], bool | None]


class SandboxProcess(Protocol):
    """A command that runs in the background."""

    held_changes: tuple[HeldChange, ...]  # once it has ended: as in `CommandResult`

    @property
    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs."""
        ...

    async def read(self, wait_s: float = 0.0) -> bytes:
        """Return the output since the last call, both streams interleaved; waits up to `wait_s` for some."""
        ...

    async def write(self, data: bytes) -> None: ...
    async def wait(self) -> int:
        """Wait until the process and all its descendants have ended; returns the exit code."""
        ...

    async def stop(self, grace_s: float = 2.0) -> None:
        """Terminate the process and all its descendants; kill them after `grace_s`."""
        ...


class Sandbox(Protocol):
    """Runs commands in isolation. A cancelled `exec` has killed all processes it started when it returns.

    Optional member: `has_own_paths`, False if commands see all files under the paths of this machine.
    """

    name: str  # host, bubblewrap, docker

    @property
    def is_confined(self) -> bool:
        """Return False if a command has all of the owner's permissions."""
        ...

    @property
    def can_protect_deletions(self) -> bool:
        """Return whether it can undo deletions of existing files."""
        ...

    async def exec(self, command: SandboxCommand, on_output: OutputHandler | None = None) -> CommandResult: ...
    async def start(self, command: SandboxCommand, on_output: OutputHandler | None = None) -> SandboxProcess:
        """Start a background process. With `on_output`, the callback receives its output, and `read` returns none."""
        ...

    def to_sandbox_path(self, path: str) -> str:
        """Translate a host path to the path that commands see."""
        ...

    def to_host_path(self, path: str) -> str:
        """Translate a path that commands see to the host path."""
        ...

    async def close(self) -> None:
        """Kill all processes that still run."""
        ...


# --- external tools ------------------------------------------------------------------------------


def tool_origin(tool: Tool) -> str:
    """Return the tool's source: `plugin:NAME`, `mcp:NAME` or `backend:NAME`; empty for built-in and the owner's tools.

    A tool with an origin is denied until a rule allows it, and its results are stripped of tool-call look-alikes.
    """
    return getattr(tool, "origin", "")


def has_third_party_text(tool: Tool) -> bool:
    """Return whether the tool's name and description, which the model reads, are third-party text (plugin, MCP)."""
    origin = tool_origin(tool)
    return bool(origin) and not origin.startswith("backend:")


class ProcessPermissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Allowlist of what a plugin's or MCP server's process may access; empty: nothing."""

    network: tuple[str, ...] = ()  # hosts, "api.example.com", "*.example.com:8443"; "*": all
    read: tuple[str, ...] = ()  # folders
    write: tuple[str, ...] = ()  # folders


class PluginStateQuota(msgspec.Struct, frozen=True, kw_only=True):
    """How much state one plugin may store."""

    keys_max: int = 1000
    value_bytes_max: int = 64 * 1024
    bytes_max: int = 4 * 1024 * 1024  # of all its keys and values together


class PluginState(Protocol):
    """Key-value state of plugins, separate for each. `plugin` comes from the plugin's socket, not from its request."""

    async def get(self, plugin: str, key: str) -> str | None: ...
    async def set(self, plugin: str, key: str, value: str, quota: PluginStateQuota) -> None:
        """Store a value; on disk when it returns. Raises InputRefused beyond the quota, and then changes nothing."""
        ...

    async def delete(self, plugin: str, key: str) -> bool: ...
    async def keys(self, plugin: str, prefix: str = "") -> list[str]: ...
    async def clear(self, plugin: str) -> None:
        """Delete all state of a plugin that was removed."""
        ...


class ToolSource(Protocol):
    """A provider of external tools that has to be closed: plugins, MCP servers, backends."""

    @property
    def tools(self) -> Sequence[Tool]: ...
    async def close(self) -> None: ...


# --- outgoing and scheduled messages -------------------------------------------------------------


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message from a tool to another conversation or agent, or files to the session's own conversation."""

    to: str  # "channel:room" or "channel:room:thread"; "agent:<session>"; "" for this conversation
    text: str = ""
    files: tuple[str, ...] = ()
    session: str = ""  # the sending session
    key: str = ""  # idempotency key
    origin: str = ""  # untrusted if the text may be


class Outbox(Protocol):
    """Accepts messages for delivery."""

    async def send(self, message: OutgoingMessage) -> str:
        """Queue a message and return a receipt that names its id; each idempotency key is accepted once."""
        ...


class RoomMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was found in a room of a chat platform."""

    author: str
    at: int  # ms
    text: str
    id: str = ""


class ChannelSearch(Protocol):
    """Search in the room of a session, as the `search_channel` tool uses it."""

    name: str

    async def search(self, session: str, query: str, limit: int) -> list[RoomMessage]:
        """Search the room that this session is in; newest first."""
        ...


class ScheduledPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt scheduled for later."""

    when: str  # an ISO time, or five cron fields
    text: str
    session: str = ""
    timezone: str = "UTC"
    id: str = ""
    key: str = ""  # idempotency key
    person: str = ""  # the user it was scheduled for; empty: the owner
    origin: str = ""


class Scheduler(Protocol):
    """Schedules prompts for a session, as the `schedule` tool uses it."""

    def check_time(self, when: str, timezone: str) -> None:
        """Raise InputRefused if `when` is not a time in the future."""
        ...

    async def add(self, prompt: ScheduledPrompt) -> str:
        """Schedule a prompt and return its id; each key is accepted once. Raises InputRefused if `when` is invalid."""
        ...

    async def list(self, session: str) -> list[ScheduledPrompt]: ...
    async def remove(self, session: str, id: str) -> bool: ...


# --- sub-agents ----------------------------------------------------------------------------------


class SubAgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task for a sub-agent."""

    prompt: str
    tools: tuple[str, ...] | None = None  # None: the read-only ones
    session: str  # the parent session
    call_id: str  # the parent's tool call
    tainted: bool = False  # the parent's context contains untrusted content
    private: bool = False  # the parent's context contains private content


class SubAgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a sub-agent's task."""

    text: str
    ok: bool = True  # False: the task failed, and the text says why
    usage: Usage = Usage()
    cost: float = 0.0  # dollars
    calls: int = 0  # of tools
    untrusted: bool = False  # the sub-agent has read untrusted content
    private: bool = False  # the sub-agent has read private content


class Spawner(Protocol):
    """Runs sub-agents."""

    async def run(self, task: SubAgentTask) -> SubAgentResult:
        """Run a child session to its end; cancelling aborts it. The same call resumes the same child."""
        ...
