"""Triggers: prompts started by a time, a file or a webhook; their runs, and the ports that run and log them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

import msgspec

from mainstay.core.outcome import Reply

# Retention limits of every trigger log.
RUNS_MAX = 10_000  # the newest are kept; and all that may become due again because the clock was set back
RUNS_TRIM_EVERY = 64  # runs
ALIASES_MAX = 1_000_000  # aliases per webhook: requests signed without a timestamp can be replayed for ever
ALIASES_TRIM_EVERY = 1024  # aliases

TRIGGER_ID_PREFIX = "trigger:"  # prefix of the id of an input that a trigger submitted

TriggerKind = Literal["immediate", "one-shot", "periodic", "webhook"]
MissedPolicy = Literal["once", "skip", "all"]


class TriggerTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Destination of a trigger's prompt: a session, or a room in which every run starts a new thread."""

    session: str = ""  # empty: a new thread in the room
    channel: str = ""
    room: str = ""
    workspace: str = ""  # empty: the workspace in which the trigger is defined

    @property
    def is_new_thread(self) -> bool:
        return not self.session


class Trigger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt, its destination and its schedule."""

    name: str  # that of its file or its webhook
    kind: TriggerKind
    text: str  # the prompt
    target: TriggerTarget = TriggerTarget()
    schedule: str = ""  # an ISO time, or five cron fields
    timezone: str = "UTC"
    missed: MissedPolicy = "once"  # what to do about due times that passed while the process was down
    jitter_s: float = 0.0  # maximal delay; always the same for the same due time
    check: str = ""  # a command that decides whether to wake the model: it is woken on exit code 0
    paused: bool = False
    data: str = ""  # untrusted data to show with the prompt
    person: str = ""  # the person whose permissions apply; empty: the owner
    origin: str = ""  # of the text; empty: written by a person


TriggerRunResult = Literal["fired", "asleep", "missed", "failed"]


class TriggerRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"result": "came"}):
    """One due time of a trigger and what was done about it."""

    trigger: str
    key: str  # idempotency key: a periodic trigger's due time, a file's fingerprint, or the key of a webhook delivery
    due: int = 0  # ms
    at: int = 0  # ms: when it was processed
    result: TriggerRunResult = "fired"
    session: str = ""
    seq: int = 0  # sequence of the input in that session
    note: str = ""  # the reason if it was not fired
    outcome: str = ""  # of its turn; empty: not ended yet


class TriggerCursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cursor of a periodic trigger: all due times up to `upto` have been processed."""

    trigger: str
    upto: int  # ms
    since: int = 0  # ms: when it was first seen
    digest: str = ""  # of its schedule, time zone and target at that time


class WebhookDeliveryId(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An id of a webhook delivery and the run key it resolves to. A key that resolves to itself was used."""

    hook: str
    name: str
    key: str
    at: int = 0  # ms: when it was added
    until: int = 0  # ms: when it may be deleted; 0: only when there are too many


class TriggerStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trigger's state, for listings."""

    name: str
    kind: TriggerKind | None = None  # None: its file cannot be read
    next: int = 0  # ms: the next due time; 0: none, or not while it waits
    paused: bool = False
    waiting: str = ""  # what it waits for; empty: nothing
    last: TriggerRun | None = None
    trouble: str = ""  # what is wrong with it; empty: nothing
    trigger: Trigger | None = None


class TriggerLog(Protocol):
    """Stores cursors, runs and webhook delivery ids. A change is on disk when the method returns."""

    async def list_cursors(self) -> dict[str, TriggerCursor]: ...
    async def save_cursor(self, cursor: TriggerCursor) -> None: ...
    async def delete_cursor(self, trigger: str) -> None:
        """Delete the trigger's cursor; its runs stay."""
        ...

    async def record_run(
        self, run: TriggerRun, cursor: TriggerCursor | None = None, alias: WebhookDeliveryId | None = None
    ) -> bool:
        """Store a run, cursor and alias in one transaction. If the run's key is known, returns False and stores only
        the other two."""
        ...

    async def add_alias(self, alias: WebhookDeliveryId) -> str:
        """Add an alias unless its id is known; returns the key that the id resolves to."""
        ...

    async def resolve_alias(self, hook: str, name: str) -> str | None:
        """Return the key that a delivery id resolves to. Aliases are kept longer than runs."""
        ...

    async def set_outcome(self, trigger: str, key: str, outcome: str) -> None:
        """Set the outcome of a run."""
        ...

    async def find_run(self, trigger: str, key: str) -> TriggerRun | None: ...
    async def list_runs(self, trigger: str = "", limit: int = 100) -> list[TriggerRun]:
        """Return the newest runs of one trigger (empty: of all), newest first."""
        ...


class SubmittedPrompt(msgspec.Struct, frozen=True):
    """An accepted prompt, on disk. `reply` is None if it had been accepted before; `get_outcome` tells how it ended."""

    session: str
    seq: int
    reply: Awaitable[Reply] | None = None


class PromptSubmitter(Protocol):
    """Submits triggers' prompts to sessions, with the same checks and limits as users' prompts."""

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        """Submit the prompt once per key; on disk when it returns.

        Raises LaneFull, InputRefused or a StoreError if it was not accepted.
        """
        ...

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        """Return the prompt that was accepted under this key, perhaps by a process that crashed before logging it."""
        ...

    async def get_outcome(self, session: str, seq: int) -> str:
        """Return how the turn of this input ended, in a few words; empty if it has not."""
        ...


WakeCheck = Callable[[Trigger], Awaitable["WakeCheckResult"]]


class WakeCheckResult(msgspec.Struct, frozen=True):
    """Result of a trigger's check command: whether to wake the model, and the output to show it."""

    wake: bool
    output: str = ""
    trouble: str = ""  # why it failed: it could not be run, or did not end in time


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A configured webhook."""

    name: str
    secret: str
    target: TriggerTarget
    text: str = ""  # the owner's prompt, which precedes the payload
    template: str = ""  # how to render the payload; empty: all of it
    scheme: Literal["timestamp", "standard", "github"] = "timestamp"  # of the signature
    window_s: float = 300.0  # maximal age of a signature (replay protection)
    bytes_max: int = 1024 * 1024
    paused: bool = False
    other_secrets: Sequence[str] = ()  # further accepted secrets, for rotation
