"""The tools that other MCP hosts are offered, as data: what each takes, what it answers, what it does to the world."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mainstay.core.arguments import schema_of

_SESSION = "The conversation's name, as `run` told it or `sessions` lists it."


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(description="What to do or to answer.")]
    session: Annotated[str, Meta(description="The conversation to go on with; left out: a new one.")] = ""


class Steer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[str, Meta(description=_SESSION)]
    text: Annotated[str, Meta(description="What the agent should know or do now.")]


class Abort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[str, Meta(description=_SESSION)]


class MemorySearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Words to look for; what is meant counts too.")]
    k: Annotated[int, Meta(ge=1, le=50, description="At most so many, 1 to 50.")] = 10


class ListSessions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=200, description="At most so many, 1 to 200.")] = 20


class Approval(msgspec.Struct, frozen=True):
    id: str
    tool: str
    arguments: str  # as the model wrote them
    why: str


class RunResult(msgspec.Struct, frozen=True, omit_defaults=True):
    session: str
    turn: int
    outcome: Annotated[str, Meta(description="Answered, Exhausted, Aborted, Paused or Failed.")]
    text: str
    approval: Annotated[
        Approval | None,
        Meta(description="What the turn waits for. Only the owner answers, with `mainstay approvals`."),
    ] = None


class SteerResult(msgspec.Struct, frozen=True):
    session: str


class AbortResult(msgspec.Struct, frozen=True):
    session: str
    aborted: Annotated[bool, Meta(description="False: nothing was running.")]


class Found(msgspec.Struct, frozen=True):
    text: str
    session: str
    message_id: str
    at: Annotated[int, Meta(description="Milliseconds since 1970.")]
    score: float
    kind: str
    speaker: str
    untrusted: Annotated[bool, Meta(description="It came from outside: data, not words of the person.")]


class SearchResult(msgspec.Struct, frozen=True):
    hits: list[Found]


class SessionRow(msgspec.Struct, frozen=True):
    session: str
    title: str
    status: str
    turns: int
    updated: Annotated[int, Meta(description="Milliseconds since 1970.")]
    waits_for: Annotated[str, Meta(description="The approval that its turn waits for, if any.")]


class SessionsResult(msgspec.Struct, frozen=True):
    sessions: list[SessionRow]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One tool; the hints are those of MCP's annotations."""

    title: str
    description: str
    arguments: type[msgspec.Struct]
    result: type[msgspec.Struct]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    def input_schema(self) -> dict[str, Any]:
        return {**schema_of(self.arguments), "additionalProperties": False}

    def output_schema(self) -> dict[str, Any]:
        """The root itself, not a reference to it: hosts of older versions want an object there."""
        (root,), parts = msgspec.json.schema_components((self.result,), ref_template="#/$defs/{name}")
        schema = parts.pop(root["$ref"].rsplit("/", 1)[1])
        return {**schema, **({"$defs": parts} if parts else {})}


OFFERS: dict[str, Offer] = {
    "run": Offer(
        title="Run a turn",
        description="Have the agent of this machine's owner do or answer something, in a conversation that is kept. "
        "Returns its answer when the turn has ended; what it may do there is the owner's policy. If something needs "
        "the owner's approval, the result says what waits and how the owner answers it.",
        arguments=Run,
        result=RunResult,
        destructive=True,
        open_world=True,
    ),
    "steer": Offer(
        title="Steer a running turn",
        description="Put something into a conversation's running turn at its next boundary. With nothing running it "
        "starts a turn, whose answer is kept in the conversation.",
        arguments=Steer,
        result=SteerResult,
        destructive=True,
        open_world=True,
    ),
    "abort": Offer(
        title="Stop a running turn",
        description="End a conversation's running turn now. What it has said and done so far is kept.",
        arguments=Abort,
        result=AbortResult,
        destructive=True,
        idempotent=True,
    ),
    "memory_search": Offer(
        title="Search all conversations",
        description="Search everything that was said and remembered, by words and meaning, the best first.",
        arguments=MemorySearch,
        result=SearchResult,
        read_only=True,
        idempotent=True,
    ),
    "sessions": Offer(
        title="List conversations",
        description="List conversations, the newest first, and what waits for the owner's approval.",
        arguments=ListSessions,
        result=SessionsResult,
        read_only=True,
        idempotent=True,
    ),
}
