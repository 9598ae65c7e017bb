"""The outside as tools meet it, as Protocols: files, commands, messages to others, later times, other agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.core.messages import Usage
from mainstay.core.ports import Tool

# --- what a call would do ------------------------------------------------------------------------


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far one very call reaches: whether it is a sink, and where it would carry things.

    A tool that cannot say it once for all calls has a method `reach(arguments, context) -> Reach`.
    """

    sink: bool = False  # carries data out, or changes what outlives the conversation
    outward: bool = False  # data would leave: network, messages, uploads
    destinations: tuple[str, ...] = ()  # where to, as the call names it; what the person named is theirs to reach
    what: str = ""  # in words, for whoever is asked: "sends a message to ops"


# --- files ---------------------------------------------------------------------------------------


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session works. All paths are absolute, real, and the host's."""

    cwd: str
    writable: tuple[str, ...]  # folders that may be read and written; cwd lies in one of them
    readable: tuple[str, ...] = ()  # folders that may only be read
    protected: tuple[str, ...] = ()  # files and folders inside of those that nobody reads or writes through tools
    notes: tuple[str, ...] = ()  # what contexts are made of, files and folders of folders ("skills/"): like memory
    scratch: str = ""  # a folder of the session's own, for what is too large to be shown
    outside: tuple[str, ...] = ()  # folders whose files are others' (attachments)
    trusted: tuple[str, ...] = ()  # globs of files (relative to the folder they lie in) that the owner vouches for
    vouched: tuple[str, ...] = ()  # and whole folders
    kept: tuple[str, ...] = ()  # folders of know-how: no command writes there, though tools for files may


class FileLabel(msgspec.Struct, frozen=True, gc=False):
    """What is known of a file: where its content comes from ("": the agent wrote it, having read nothing from
    outside), and which session made it ("": it was there before)."""

    path: str
    origin: str = ""
    session: str = ""
    mark: str = ""  # the file as it was then (edges/files): an empty origin holds for no other; "" for any


class Labels(Protocol):
    """What is known of the files of a workspace. Looking is free; what `put` returned from is on disk."""

    def get(self, path: str) -> FileLabel | None: ...
    def any_untrusted(self, folder: str) -> bool:
        """True if some file in this folder is known to come from outside."""
        ...

    async def put(self, labels: Sequence[FileLabel]) -> None: ...
    async def remove(self, paths: Sequence[str]) -> None: ...
    async def disown(self, session: str) -> None:
        """The session is gone: what it made is nobody's, should another have its name."""
        ...


# --- commands ------------------------------------------------------------------------------------


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one command with all its descendants may take, where it is not what the sandbox gives everyone."""

    memory_mb: int | None = None
    processes: int | None = None
    cpu_s: float | None = None  # of a single process, over its whole life


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Something to run. Paths are the host's."""

    script: str  # for `sh -c`
    grounds: Grounds
    cwd: str = ""  # empty: that of the grounds
    timeout_s: float = 120.0
    env: dict[str, str] = {}  # added to the short list a sandbox passes on; nothing else is inherited
    input: bytes = b""
    network: bool = False
    share: Share = Share()
    guarded: bool = False  # what was there before is not removed: removals are undone, and named in `Ran.held`
    made: Callable[[str], bool] = lambda path: False  # a guarded one may remove this: the session made it itself
    announce: Callable[[Sequence[str]], None] = lambda paths: None  # told of what a guarded one wrote before that is
    # moved to its place; in a thread, which waits for it


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. Each stream is cut at a bound; `cut` says so."""

    code: int  # as a shell tells it: 128 + n for a signal
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    cut: bool = False
    changed: tuple[str, ...] = ()  # of a guarded one: files that it wrote
    created: tuple[str, ...] = ()  # those of them that were not there before
    held: tuple[str, ...] = ()  # and files that it would have removed


Output = Callable[[Literal["stdout", "stderr"], bytes], bool | None]  # False, of one that goes on: slower, please


class Process(Protocol):
    """A command that goes on beside the turn."""

    @property
    def code(self) -> int | None:
        """None while it runs."""
        ...

    async def read(self, wait_s: float = 0.0) -> bytes:
        """What it said since the last time, both streams as they came; waits so long for something to be said."""
        ...

    async def write(self, data: bytes) -> None: ...
    async def wait(self) -> int:
        """Its code, once it and all its descendants are gone."""
        ...

    async def stop(self, grace_s: float = 2.0) -> None:
        """Politely, then firmly, with all its descendants."""
        ...


class Sandbox(Protocol):
    """Where commands run. A cancelled `exec` has killed everything it started before it lets go."""

    name: str  # host, bubblewrap, docker

    @property
    def confined(self) -> bool:
        """False: a command can do whatever the owner can."""
        ...

    @property
    def guards(self) -> bool:
        """It can hold removals back."""
        ...

    async def exec(self, command: Command, output: Output | None = None) -> Ran: ...
    async def start(self, command: Command, output: Output | None = None) -> Process:
        """`output` is told what it says, each stream by itself and as it comes; `read` then has nothing to tell."""
        ...

    def inside(self, path: str) -> str:
        """How commands call a file of the host."""
        ...

    def outside(self, path: str) -> str:
        """And back."""
        ...

    async def close(self) -> None:
        """Ends whatever still runs."""
        ...


# --- tools from elsewhere ------------------------------------------------------------------------


def origin_of_tool(tool: Tool) -> str:
    """Where it comes from: `plugin:NAME`, `mcp:NAME`, `backend:NAME`; empty: it is the owner's own.

    What has an origin is denied until a rule names it, and what it answers is cleaned of look-alikes.
    """
    return getattr(tool, "origin", "")


def told_by_others(tool: Tool) -> bool:
    """Its name and description are somebody else's words, which the model reads. A backend's are ours."""
    origin = origin_of_tool(tool)
    return bool(origin) and not origin.startswith("backend:")


class Needs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program from elsewhere may touch of the machine. Nothing, unless it is said."""

    network: tuple[str, ...] = ()  # hosts, "api.example.com", "*.example.com:8443"; "*": everywhere
    read: tuple[str, ...] = ()  # folders
    write: tuple[str, ...] = ()


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """How much one plugin may keep."""

    keys_max: int = 1000
    value_bytes_max: int = 64 * 1024
    bytes_max: int = 4 * 1024 * 1024  # of all its keys and values together


class PluginState(Protocol):
    """What plugins keep, each under its own name: whoever asks says for whom, and that is never the plugin itself."""

    async def get(self, plugin: str, key: str) -> str | None: ...
    async def set(self, plugin: str, key: str, value: str, quota: Quota) -> None:
        """On disk when it returns; raises InputRefused beyond the quota, and changes nothing."""
        ...

    async def delete(self, plugin: str, key: str) -> bool: ...
    async def keys(self, plugin: str, prefix: str = "") -> list[str]: ...
    async def clear(self, plugin: str) -> None:
        """It was removed, and all that it kept goes with it."""
        ...


class ToolSource(Protocol):
    """Something that brings tools from elsewhere and has to be ended."""

    @property
    def tools(self) -> Sequence[Tool]: ...
    async def close(self) -> None: ...


# --- messages to others, and later ---------------------------------------------------------------


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """Something said to somebody who is not in this conversation, or a file given to whoever is."""

    to: str  # "channel:room" or "channel:room:thread"; "agent:<session>"; "" for this conversation
    text: str = ""
    files: tuple[str, ...] = ()
    session: str = ""  # who says it
    key: str = ""  # the same whenever the same is sent again
    origin: str = ""  # untrusted, if what is said may be


class Outbox(Protocol):
    """Takes what is to be delivered; a receipt says under which id. The same key is taken once."""

    async def send(self, message: Outgoing) -> str: ...


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a room, as its platform keeps it."""

    author: str
    at: int  # ms
    text: str
    id: str = ""


class Channel(Protocol):
    """A chat platform, as far as tools go."""

    name: str

    async def search(self, session: str, query: str, limit: int) -> list[Said]:
        """In the room that this session is in, the newest first."""
        ...


class Appointment(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt for later: at an ISO time, or by five cron fields."""

    when: str
    text: str
    session: str = ""
    timezone: str = "UTC"
    id: str = ""
    key: str = ""
    person: str = ""  # for whom; empty: the owner
    origin: str = ""


class Scheduler(Protocol):
    def check(self, when: str, timezone: str) -> None:
        """Raises InputRefused if that is no time to come."""
        ...

    async def add(self, appointment: Appointment) -> str:
        """Its id; the same key is taken once. Raises InputRefused if `when` is no time."""
        ...

    async def list(self, session: str) -> list[Appointment]: ...
    async def remove(self, session: str, id: str) -> bool: ...


# --- other agents --------------------------------------------------------------------------------


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """Work for a sub-agent."""

    prompt: str
    tools: tuple[str, ...] | None = None  # None: those that only read
    session: str  # who sends it
    call_id: str  # and the call by which
    tainted: bool = False  # whoever wrote the prompt has read something from outside
    private: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an errand."""

    text: str
    ok: bool = True  # False: it could not be done, and the text says why
    usage: Usage = Usage()
    cost: float = 0.0
    calls: int = 0  # of tools
    untrusted: bool = False  # the child has read something from outside
    private: bool = False


class Spawner(Protocol):
    """Runs a child session to its end. The same call finds the same child; cancelling aborts it."""

    async def run(self, errand: Errand) -> Report: ...
