"""Work that nobody typed: what a trigger is, what came of it, and the ports that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.core.outcome import Reply

TRIGGER = "trigger:"  # how the id of an input begins that a trigger brought

Kind = Literal["immediate", "one-shot", "periodic", "webhook"]
Missed = Literal["once", "skip", "all"]


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a prompt goes: to a session by its name, or into a room, where every run is a thread of its own."""

    session: str = ""
    channel: str = ""
    room: str = ""
    workspace: str = ""  # empty: wherever it is found

    @property
    def new(self) -> bool:
        return not self.session


class Trigger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be said, where, and when. Its name is its file's, or its webhook's."""

    name: str
    kind: Kind
    text: str  # in the words of whoever made it
    target: Target = Target()
    schedule: str = ""  # an ISO time, or five cron fields
    timezone: str = "UTC"
    missed: Missed = "once"  # what is done about times that passed while nobody was there
    jitter_s: float = 0.0  # later by up to this, always by the same for the same time
    check: str = ""  # a command that says whether there is anything to do; the model sleeps on if it fails
    paused: bool = False
    data: str = ""  # from outside, to be shown with the text
    person: str = ""  # whose rules hold; empty: the owner's
    origin: str = ""  # of the text; empty: a person wrote it


Ran = Literal["fired", "asleep", "missed", "failed"]


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One time that a trigger came due. Under the same key it is there once."""

    trigger: str
    key: str  # which time: the due time of a periodic one, what was made of a file's arrival, or a delivery's own
    due: int = 0  # ms
    at: int = 0  # ms: when it was dealt with
    came: Ran = "fired"
    session: str = ""
    seq: int = 0  # the input's, in that session
    note: str = ""  # why, where it was not fired
    outcome: str = ""  # how its turn ended; empty: not yet


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a periodic trigger has been dealt with: everything due up to `upto` has."""

    trigger: str
    upto: int  # ms
    since: int = 0  # ms: when it was first seen
    digest: str = ""  # of its schedule, zone and target as they were then


class Name(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a delivery to a webhook is known by, and the key it leads to. A key that leads to itself was taken."""

    hook: str
    name: str
    key: str
    at: int = 0  # ms: when it was given
    until: int = 0  # ms: when it may be forgotten; 0: not before there are too many


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of what there is."""

    name: str
    kind: Kind | None = None  # None: its file cannot be read
    next: int = 0  # ms: when it is due; 0: never, or not while it waits
    paused: bool = False
    waiting: str = ""  # for what
    last: Run | None = None
    trouble: str = ""
    trigger: Trigger | None = None


class TriggerLog(Protocol):
    """What is remembered of triggers. What returned is on disk."""

    async def marks(self) -> dict[str, Mark]: ...
    async def put(self, mark: Mark) -> None: ...
    async def drop(self, trigger: str) -> None:
        """Its mark goes; what it did stays."""
        ...

    async def record(self, run: Run, mark: Mark | None = None, name: Name | None = None) -> bool:
        """All in one transaction. False if that time was there before: it stays as it was, and the others are kept."""
        ...

    async def name(self, name: Name) -> str:
        """From now on it leads to its key, unless it has led to another. Returns the key it leads to."""
        ...

    async def named(self, hook: str, name: str) -> str | None:
        """The key that it leads to. Names do not go with the history of runs."""
        ...

    async def ended(self, trigger: str, key: str, outcome: str) -> None: ...
    async def find(self, trigger: str, key: str) -> Run | None: ...
    async def runs(self, trigger: str = "", limit: int = 100) -> list[Run]:
        """The newest first; of all triggers, if none is named."""
        ...


class Prompted(msgspec.Struct, frozen=True):
    """A prompt is on disk. Without `reply`, it had been before: `Door.outcome` says what came of it."""

    session: str
    seq: int
    reply: Awaitable[Reply] | None = None


class Door(Protocol):
    """Where triggers come in: the same as for people, with the same bounds."""

    async def accept(self, trigger: Trigger, key: str) -> Prompted:
        """Durable, and once under the same key. Raises LaneFull, InputRefused or a StoreError: it was not taken."""
        ...

    async def taken(self, trigger: Trigger, key: str) -> Prompted | None:
        """What was accepted before under this key. An earlier process may not have come to writing it down."""
        ...

    async def outcome(self, session: str, seq: int) -> str:
        """How the turn of this input ended, in a word; empty if it has not."""
        ...


Check = Callable[[Trigger], Awaitable["Checked"]]


class Checked(msgspec.Struct, frozen=True):
    """What a check said: wake the model or not, with what to show it."""

    wake: bool
    said: str = ""
    trouble: str = ""  # it could not be run, or did not end in time


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook as it is configured."""

    name: str
    secret: str
    target: Target
    text: str = ""  # the owner's words, said before what came
    template: str = ""  # what is shown of what came; empty: all of it
    scheme: Literal["timestamp", "standard", "github"] = "timestamp"
    window_s: float = 300.0
    bytes_max: int = 1024 * 1024
    paused: bool = False
    others: Sequence[str] = ()  # further secrets that are taken, while one is being changed
