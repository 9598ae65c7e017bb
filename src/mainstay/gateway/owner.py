"""One process owns a home; others work through its socket.

A connection carries one operation: a request on one line, then events as they happen, then one line with the
result or the error. Leaving early stops the listening, never the turn. The socket lies in the home, which
nobody else can enter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mainstay.agent import memory
from mainstay.agent.agent import Agent, Prompt
from mainstay.agent.approvals import RemoteApprovals
from mainstay.agent.memory import RemoteMemory
from mainstay.agent.opened import KnownSkill
from mainstay.agent.places import reachable
from mainstay.agent.triggers import RemoteTriggers
from mainstay.context.compile import Shown
from mainstay.core import errors
from mainstay.core.envelope import as_parts
from mainstay.core.errors import HomeTaken, MainstayError
from mainstay.core.events import DURABLE, PARTIAL, Event
from mainstay.core.messages import AnyPart
from mainstay.core.outcome import Failed, Reply
from mainstay.core.ports import Standing
from mainstay.core.where import Where
from mainstay.store.home import is_owned

log = logging.getLogger("mainstay.owner")

SOCKET = "socket"
LINE_BYTES_MAX = 64 * 1024 * 1024


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """`do` is what to do: a method of the agent, or of its sessions."""

    do: str
    session: str = ""
    prompt: tuple[AnyPart, ...] = ()
    id: str = ""
    sender: str = ""
    arguments: dict[str, Any] = {}
    workspace: str = ""  # where it is meant to happen; empty: wherever the owner works


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of three: something happened, it is done, it went wrong."""

    event: DURABLE | PARTIAL | Failed | None = None
    done: Any = None
    error: tuple[str, str] | None = None  # the kind, and the sentence
    where: Where | None = None  # and where it arose


_encode = msgspec.json.Encoder().encode
_request = msgspec.json.Decoder(Request).decode
_line = msgspec.json.Decoder(Line).decode
_STANDINGS = list[Standing]

SESSION_VERBS = (
    "get", "archive", "activate", "pause", "rename", "delete", "fork", "set_model", "context", "compact", "work_in",
)  # fmt: skip
MEMORY = "memory."
APPROVALS = "approvals."
TRIGGERS = "triggers."
HOUSEHOLD = ("people.", "channels.", "gateway.")


# --- the owner's side ----------------------------------------------------------------------------


class House(Protocol):
    """What a home's owner can do for others."""

    async def agent(self, workspace: str) -> Agent:
        """The one of this workspace, "" for where the owner works. Raises HomeTaken if it cannot be had here."""
        ...

    async def do(self, verb: str, workspace: str, arguments: dict[str, Any]) -> Any:
        """What is no agent's business: people, channels. Raises InputRefused if there is no such thing."""
        ...


class Alone:
    """The house of somebody who works in one workspace only."""

    def __init__(self, agent: Agent, workspace: str = "default") -> None:
        self._agent = agent
        self._workspace = workspace

    async def agent(self, workspace: str) -> Agent:
        if workspace not in ("", self._workspace):
            raise HomeTaken(_elsewhere(self._workspace, workspace))
        return self._agent

    async def do(self, verb: str, workspace: str, arguments: dict[str, Any]) -> Any:
        raise HomeTaken(f"{verb} needs the home for itself, or a server: a process that does something else owns it")


@asynccontextmanager
async def serving(house: House, home: Path) -> AsyncIterator[None]:
    """Serve this on the home's socket for as long as the block runs."""
    path = home / SOCKET
    path.unlink(missing_ok=True)  # of an owner that died: the lock says there is no other
    try:
        server = await asyncio.start_unix_server(
            lambda reader, writer: _answer(house, reader, writer), reachable(path), limit=LINE_BYTES_MAX
        )
        path.chmod(0o600)
    except OSError as error:  # a path that is too long, a disk without sockets: it works, alone
        log.warning("%s cannot be served to other commands: %s", path, error)
        yield
        return
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def _answer(house: House, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Perform one request, for as long as somebody is there to hear of it."""
    raw = await reader.readline()
    work = asyncio.ensure_future(_perform(house, raw, writer))
    gone = asyncio.ensure_future(reader.read(1))  # nothing more is said: this ends when the other side leaves
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        gone.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)
        writer.close()


async def _perform(house: House, raw: bytes, writer: asyncio.StreamWriter) -> None:
    def say(line: Line) -> None:
        writer.write(_encode(line) + b"\n")

    try:
        request = _request(raw)
        done: Any = True
        if request.do.startswith(HOUSEHOLD):
            done = await house.do(request.do, request.workspace, request.arguments)
        elif request.do in ("stream", "watch"):
            async for event in _listen(await house.agent(request.workspace), request):
                say(Line(event=event))  # type: ignore[arg-type]  # one of the union: a watcher gets no other
                await writer.drain()
        else:
            done = await _operation(await house.agent(request.workspace), request)
        say(Line(done=done))
    except MainstayError as error:
        say(Line(error=(type(error).__name__, str(error)), where=error.where))
    except msgspec.DecodeError as error:
        say(Line(error=("InputRefused", f"the request cannot be read: {error}")))
    except (TypeError, AttributeError, KeyError, ValueError, OverflowError) as error:
        # arguments of a verb are passed on as they came: unknown ones, or of the wrong type, show themselves there
        log.info("a request failed", exc_info=error)
        say(Line(error=("InputRefused", f"the request cannot be carried out: {type(error).__name__}: {error}")))
    except ConnectionError:
        return  # nobody listens any more
    await writer.drain()


def _elsewhere(workspace: str, wanted: str) -> str:
    return f"the process that owns this home works in the workspace {workspace!r}, not in {wanted!r}; stop it, or wait"


def _listen(agent: Agent, request: Request) -> AsyncIterator[Event]:
    if request.do == "watch":
        return agent.watch(request.session or None)
    return agent.stream(request.session, request.prompt, id=request.id, sender=request.sender)


async def _operation(agent: Agent, request: Request) -> Any:
    match request.do:
        case "model":
            return await agent.model()
        case "run":
            return await agent.run(request.session, request.prompt, id=request.id, sender=request.sender)
        case "list":
            return await agent.sessions.list(**request.arguments)
        case "steer":
            return await agent.steer(request.session, request.prompt, id=request.id, sender=request.sender)
        case "abort":
            return await agent.abort(request.session, sender=request.sender)
        case "import":
            found = request.arguments
            return await agent.import_history(request.session, found["messages"], metadata=found.get("metadata"))
        case "profile":
            return await _profile(agent, request)
        case "skills":
            return await agent.skills(request.session)
        case verb if verb in SESSION_VERBS:
            return await getattr(agent.sessions, verb)(request.session, **request.arguments)
        case verb if verb.startswith(APPROVALS):
            return await agent.approvals.do(verb.removeprefix(APPROVALS), request.arguments)
        case verb if verb.startswith(TRIGGERS):
            return await agent.triggers.do(verb.removeprefix(TRIGGERS), request.arguments)
        case verb if verb.startswith(MEMORY) and verb.removeprefix(MEMORY) in memory.VERBS:
            return await agent.memory.do(verb.removeprefix(MEMORY), request.arguments)
        case other:
            raise errors.InputRefused(f"there is no operation {other!r}")


async def _profile(agent: Agent, request: Request) -> Any:
    profile = agent.profile(request.session)
    match request.arguments:
        case {"set": dict(fields)}:
            await profile.set(**fields)
        case {"clear": True}:
            await profile.clear()
    return await profile.get()


# --- everyone else's side ------------------------------------------------------------------------


class Remote:
    """An agent that lives in another process, as far as a command needs one."""

    def __init__(self, home: Path, workspace: str = "") -> None:
        self._home = home
        self._workspace = workspace
        self.sessions = RemoteSessions(self._ask)
        self.memory = RemoteMemory(self._remember)
        self.approvals = RemoteApprovals(self._answer)
        self.triggers = RemoteTriggers(self._trigger)

    async def run(self, session: str, prompt: Prompt, *, id: str = "", sender: str = "") -> Reply:
        reply: Reply = await self._ask(Request("run", session, as_parts(prompt), id, sender), Reply)
        return reply

    def stream(self, session: str, prompt: Prompt, *, id: str = "", sender: str = "") -> AsyncIterator[Event]:
        return self._events(Request("stream", session, as_parts(prompt), id, sender))

    def watch(self, session: str | None = None) -> AsyncIterator[Event]:
        return self._events(Request("watch", session or ""))

    async def steer(self, session: str, prompt: Prompt, *, id: str = "", sender: str = "") -> None:
        await self._ask(Request("steer", session, as_parts(prompt), id, sender), Any)

    async def abort(self, session: str, *, sender: str = "") -> bool:
        return bool(await self._ask(Request("abort", session, sender=sender), bool))

    async def import_history(
        self, session: str, messages: Sequence[Mapping[str, Any]], *, metadata: Mapping[str, str] | None = None
    ) -> None:
        arguments = {"messages": list(messages), "metadata": dict(metadata or {})}
        await self._ask(Request("import", session, arguments=arguments), Any)

    async def model(self) -> str:
        return str(await self._ask(Request("model"), str))

    async def skills(self, session: str) -> list[KnownSkill]:
        found: list[KnownSkill] = await self._ask(Request("skills", session), list[KnownSkill])
        return found

    def profile(self, session: str) -> RemoteProfile:
        return RemoteProfile(session, self._ask)

    async def _remember(self, verb: str, arguments: dict[str, Any]) -> Any:
        return await self._ask(Request(MEMORY + verb, arguments=arguments), Any)

    async def _answer(self, verb: str, arguments: dict[str, Any], kind: Any) -> Any:
        return await self._ask(Request(APPROVALS + verb, arguments=arguments), kind)

    async def _trigger(self, verb: str, arguments: dict[str, Any], kind: Any) -> Any:
        return await self._ask(Request(TRIGGERS + verb, arguments=arguments), kind)

    async def household(self, verb: str, arguments: dict[str, Any]) -> Any:
        """What is no agent's business; see HOUSEHOLD."""
        return await self._ask(Request(verb, arguments=arguments), Any)

    async def settled(self) -> None:
        """The owner's turns are the owner's business."""

    async def aclose(self) -> None:
        """Nothing is held between two requests."""

    async def _events(self, request: Request) -> AsyncIterator[Event]:
        async with self._asked(request) as read:
            while (line := await read()).event is not None:
                yield line.event

    async def _ask(self, request: Request, kind: Any) -> Any:
        async with self._asked(request) as read:
            return msgspec.convert((await read()).done, kind)

    @asynccontextmanager
    async def _asked(self, request: Request) -> AsyncIterator[Callable[[], Awaitable[Line]]]:
        try:
            reader, writer = await asyncio.open_unix_connection(reachable(self._home / SOCKET), limit=LINE_BYTES_MAX)
        except OSError:
            if is_owned(self._home):
                raise HomeTaken(f"{self._home} is owned by a process that does not answer; stop it, or wait") from None
            raise HomeTaken(f"the process that owned {self._home} has ended; start again to go on") from None

        async def read() -> Line:
            raw = await reader.readline()
            if not raw:
                raise HomeTaken(f"the process that owns {self._home} went away; what it accepted is not lost")
            line = _line(raw)
            if line.error is not None:
                raise _as_error(*line.error, line.where)
            return line

        try:
            writer.write(_encode(msgspec.structs.replace(request, workspace=self._workspace)) + b"\n")
            yield read
        finally:
            writer.close()


class RemoteSessions:
    """`agent.sessions` of the owner."""

    def __init__(self, ask: Callable[[Request, Any], Awaitable[Any]]) -> None:
        self._ask = ask

    async def list(self, *, limit: int = 100, offset: int = 0) -> Any:
        return await self._ask(Request("list", arguments={"limit": limit, "offset": offset}), _STANDINGS)

    async def get(self, key: str) -> Standing:
        standing: Standing = await self._ask(Request("get", key), Standing)
        return standing

    async def archive(self, key: str) -> None:
        await self._ask(Request("archive", key), Any)

    async def activate(self, key: str) -> None:
        await self._ask(Request("activate", key), Any)

    async def delete(self, key: str) -> None:
        await self._ask(Request("delete", key), Any)

    async def rename(self, key: str, title: str) -> None:
        await self._ask(Request("rename", key, arguments={"title": title}), Any)

    async def fork(self, key: str, target: str, *, upto: int | None = None) -> Standing:
        standing: Standing = await self._ask(Request("fork", key, arguments={"target": target, "upto": upto}), Standing)
        return standing

    async def set_model(self, key: str, model: str) -> None:
        await self._ask(Request("set_model", key, arguments={"model": model}), Any)

    async def work_in(self, key: str, folder: str | Path) -> str:
        return str(await self._ask(Request("work_in", key, arguments={"folder": str(folder)}), str))

    async def context(self, key: str) -> Shown:
        shown: Shown = await self._ask(Request("context", key), Shown)
        return shown

    async def compact(self, key: str, focus: str = "") -> str | None:
        summary: str | None = await self._ask(Request("compact", key, arguments={"focus": focus}), str | None)
        return summary


class RemoteProfile:
    """`agent.profile(session)` of the owner."""

    def __init__(self, session: str, ask: Callable[[Request, Any], Awaitable[Any]]) -> None:
        self._session = session
        self._ask = ask

    async def get(self) -> dict[str, str]:
        return await self._told({})

    async def set(self, **fields: str) -> None:
        await self._told({"set": fields})

    async def clear(self) -> None:
        await self._told({"clear": True})

    async def _told(self, arguments: dict[str, Any]) -> dict[str, str]:
        profile: dict[str, str] = await self._ask(
            Request("profile", self._session, arguments=arguments), dict[str, str]
        )
        return profile


def _as_error(kind: str, sentence: str, where: Where | None) -> MainstayError:
    """An error of the owner's, raised here as what it was."""
    found = getattr(errors, kind, MainstayError)
    simple = isinstance(found, type) and issubclass(found, MainstayError) and found is not errors.DuplicateInput
    made: MainstayError = found(sentence) if simple else MainstayError(sentence)
    made.where = where
    return made
