"""`process`: commands that go on beside the turn. They belong to their session, and end with it."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from mainstay.core.outside import Command, Process, Reach, Sandbox
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.io.beneath import brief
from mainstay.tools.bash import checked_script, working_folder
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.output import looks_binary, plain, shortened
from mainstay.tools.work import announcing, may_remove

RUNNING_MAX = 8  # of a session
KEPT_MAX = 16  # with those that have ended and may have something left to say
WAIT_START_S = 1.0
WAIT_POLL_S = 5.0
WAIT_MAX_S = 60.0
INPUT_BYTES_MAX = 64 * 1024
LINES_MAX = 500
BYTES_MAX = 16 * 1024
GRACE_S = 2.0  # between the polite and the firm end
ABORTED_GRACE_S = 0.5  # of one that nobody will ever hear of
LIFE_S = 7 * 24 * 3600.0  # a command that nobody stops ends some day all the same


class _Process(Arguments, frozen=True):
    action: Literal["start", "list", "poll", "write", "stop"]
    command: str | None = None
    id: str | None = None
    input: str | None = None
    wait: float | None = None
    cwd: str | None = None


class _Running(msgspec.Struct):
    """One of a session's processes."""

    id: str
    script: str
    guarded: bool
    process: Process

    @property
    def state(self) -> str:
        code = self.process.code
        return "running" if code is None else f"ended with exit code {code}"


class _Own(msgspec.Struct):
    """What a session has."""

    made: int = 0
    starting: int = 0
    running: dict[str, _Running] = {}
    ended: bool = False  # whoever is just starting one must stop it again


class Processes:
    """The background commands of all sessions, each with those of its own alone."""

    def __init__(self, files: Files, sandbox: Sandbox, network: bool = False) -> None:
        self.files = files
        self.sandbox = sandbox
        self.network = network
        self._sessions: dict[str, _Own] = {}

    def of(self, session: str) -> list[_Running]:
        own = self._sessions.get(session)
        return list(own.running.values()) if own is not None else []

    def find(self, session: str, id: str | None) -> _Running | None:
        return next((one for one in self.of(session) if one.id == id), None)

    async def start(self, context: ToolContext, script: str, cwd: str | None, *, guarded: bool) -> _Running:
        session = context.session
        own = self._sessions.setdefault(session, _Own())
        alive = sum(one.process.code is None for one in own.running.values())
        if alive + own.starting >= RUNNING_MAX:
            raise ToolRefused(f"{RUNNING_MAX} processes run already: stop one first. Nothing was run.")
        own.starting += 1
        try:
            grounds = self.files.grounds(session)
            command = Command(
                script=script,
                grounds=grounds,
                cwd=await working_folder(grounds, cwd),
                timeout_s=LIFE_S,
                network=self.network,
                guarded=guarded,
                made=may_remove(self.files, context),
                announce=announcing(self.files, context),
            )
            process = await self.sandbox.start(command)
        finally:
            own.starting -= 1
        if own.ended:
            await _ended(process, ABORTED_GRACE_S)
            raise ToolRefused("The conversation has ended. Nothing runs.")
        own.made += 1
        made = own.running[f"p{own.made}"] = _Running(f"p{own.made}", script, guarded, process)
        _make_room(own)
        return made

    async def stop(self, session: str, one: _Running, grace_s: float = GRACE_S) -> None:
        await _ended(one.process, grace_s)
        self.forget(session, one)

    def forget(self, session: str, one: _Running) -> None:
        own = self._sessions.get(session)
        if own is not None:
            own.running.pop(one.id, None)

    async def end(self, session: str) -> None:
        """Everything that a session still runs."""
        own = self._sessions.pop(session, None)
        if own is None:
            return
        own.ended = True
        running = [one.process for one in own.running.values() if one.process.code is None]
        await asyncio.gather(*(_ended(process) for process in running))

    async def close(self) -> None:
        await asyncio.gather(*(self.end(session) for session in list(self._sessions)))


async def _ended(process: Process, grace_s: float = GRACE_S) -> None:
    """Whatever becomes of whoever waits for it: what is being stopped is stopped."""
    stopping = asyncio.ensure_future(process.stop(grace_s))
    try:
        await asyncio.shield(stopping)
    except asyncio.CancelledError:
        await asyncio.wait({stopping})
        raise


def _make_room(own: _Own) -> None:
    """Of those that have ended, the oldest go first."""
    over = len(own.running) - KEPT_MAX
    for one in [one for one in own.running.values() if one.process.code is not None][: max(over, 0)]:
        del own.running[one.id]


class ProcessTool(BuiltIn):
    name = "process"
    description = (
        "Commands in the background: start (command), poll (id: new output), write (id, input: to its stdin), "
        "stop (id), list. wait: seconds to wait for output. They end with the conversation."
    )
    arguments = _Process
    effect: Effect = "unsafe"
    timeout_s: float | None = WAIT_MAX_S + 30.0
    untrusted = True
    capabilities: tuple[str, ...] = ("exec",)

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def reach(self, arguments: _Process, context: ToolContext) -> Reach:
        """What is started is judged by its command. What is written to one that runs may be a command too: harmless
        only if nothing can get out of it and nothing can be removed by it."""
        one = self._processes.find(context.session, arguments.id)
        if arguments.action != "write" or one is None:
            return Reach()
        sandbox, network = self._processes.sandbox, self._processes.network
        if sandbox.confined and not network and one.guarded:
            return Reach()
        outward = network or not sandbox.confined
        return Reach(sink=True, outward=outward, what=f"writes to the running command {brief(one.script)}")

    async def run(self, arguments: _Process, context: ToolContext) -> str:
        wait_s = arguments.wait
        if wait_s is not None and not 0 <= wait_s <= WAIT_MAX_S:
            raise ToolRefused(f"wait is a number of seconds from 0 to {WAIT_MAX_S:g}. Nothing was done.")
        match arguments.action:
            case "start":
                return await self._start(arguments, context, WAIT_START_S if wait_s is None else wait_s)
            case "list":
                return self._list(context.session)
        one = self._processes.find(context.session, arguments.id)
        if one is None:
            known = ", ".join(one.id for one in self._processes.of(context.session)) or "none"
            raise ToolRefused(f"There is no process {brief(arguments.id or '')!r} here. Known: {known}.")
        match arguments.action:
            case "write":
                return await self._write(one, arguments, context.session, wait_s or 0.0)
            case "stop":
                await self._processes.stop(context.session, one)
                return await _said(one, ABORTED_GRACE_S)
            case "poll":
                return await self._poll(one, context.session, WAIT_POLL_S if wait_s is None else wait_s)

    async def _start(self, arguments: _Process, context: ToolContext, wait_s: float) -> str:
        script = checked_script(arguments.command or "")
        guarded = context.guarded and self._processes.sandbox.guards
        one = await self._processes.start(context, script, arguments.cwd, guarded=guarded)
        try:
            said = await _said(one, wait_s)
        except asyncio.CancelledError:  # nobody will ever hear of it
            await self._processes.stop(context.session, one, ABORTED_GRACE_S)
            raise
        if one.process.code is not None:
            self._processes.forget(context.session, one)
        return said

    async def _poll(self, one: _Running, session: str, wait_s: float) -> str:
        said = await _said(one, wait_s)
        if one.process.code is not None:  # that was the last of it
            self._processes.forget(session, one)
        return said

    async def _write(self, one: _Running, arguments: _Process, session: str, wait_s: float) -> str:
        data = (arguments.input or "").encode(errors="replace")
        if not data:
            raise ToolRefused("There is no input to write. Nothing was done.")
        if len(data) > INPUT_BYTES_MAX:
            raise ToolRefused(f"At most {INPUT_BYTES_MAX} bytes are written at a time. Nothing was done.")
        if one.process.code is not None:
            raise ToolRefused(f"{one.id} has {one.state}: nothing was written.")
        await one.process.write(data)
        return await self._poll(one, session, wait_s)

    def _list(self, session: str) -> str:
        lines = [f"{one.id} {one.state}: {brief(one.script)}" for one in self._processes.of(session)]
        return "\n".join(lines) or "Nothing runs in the background."


async def _said(one: _Running, wait_s: float) -> str:
    raw = await one.process.read(wait_s)
    if looks_binary(raw):
        said = f"[binary output, {len(raw)} byte{'' if len(raw) == 1 else 's'}, not shown]"
    else:
        said = shortened(plain(raw.decode("utf-8", "replace")).rstrip(), "", LINES_MAX, BYTES_MAX)
    return f"[{one.id} {one.state}]\n{said}" if said else f"[{one.id} {one.state}; nothing new was said]"


def process_tool(processes: Processes) -> Tool:
    return ProcessTool(processes)
