"""The `process` tool: background commands. They belong to their session and end with it."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, Sandbox, SandboxCommand, SandboxProcess
from mainstay.io.path_resolver import shorten_for_message
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.bash import COMMAND_ENVIRONMENT, check_script, resolve_working_folder
from mainstay.tools.command_output import looks_binary, shorten_output, strip_terminal_codes
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.tool_call_file_access import build_on_written, build_removal_check, open_command_recorder

RUNNING_MAX = 8  # per session
PROCESSES_MAX = 16  # per session, with ended ones whose output was not read yet
WAIT_START_S = 1.0
WAIT_POLL_S = 5.0
WAIT_MAX_S = 60.0
INPUT_BYTES_MAX = 64 * 1024
LINES_MAX = 500
BYTES_MAX = 16 * 1024
GRACE_S = 2.0  # between SIGTERM and SIGKILL
ABORTED_GRACE_S = 0.5  # the same, for a process whose start was cancelled
LIFETIME_MAX_S = 7 * 24 * 3600.0  # the maximum lifetime of a command


class _ProcessArguments(ToolArguments, frozen=True):
    action: Literal["start", "list", "poll", "write", "stop"]
    command: str | None = None
    id: str | None = None
    input: str | None = None
    wait: float | None = None
    cwd: str | None = None


class _RunningProcess(msgspec.Struct):
    """A background process of a session."""

    id: str
    script: str
    protects_deletions: bool
    handle: SandboxProcess

    @property
    def state(self) -> str:
        code = self.handle.exit_code
        return "running" if code is None else f"ended with exit code {code}"


class _SessionProcessTable(msgspec.Struct):
    """The background processes of one session."""

    started_count: int = 0  # processes started so far, for their ids
    starting_count: int = 0  # being started now
    running: dict[str, _RunningProcess] = {}
    is_ended: bool = False  # a process being started must be stopped again


class BackgroundProcesses:
    """The background processes of all sessions. A session sees only its own."""

    def __init__(self, file_access: SessionFileAccess, sandbox: Sandbox, network: bool = False) -> None:
        self.file_access = file_access
        self.sandbox = sandbox
        self.network = network
        self._sessions: dict[str, _SessionProcessTable] = {}

    def list_processes(self, session: str) -> list[_RunningProcess]:
        table = self._sessions.get(session)
        return list(table.running.values()) if table is not None else []

    def find_process(self, session: str, id: str | None) -> _RunningProcess | None:
        return next((process for process in self.list_processes(session) if process.id == id), None)

    async def start_process(
        self, context: ToolContext, script: str, cwd: str | None, *, protect_deletions: bool
    ) -> _RunningProcess:
        from mainstay.tools import command_protection  # loaded with the first command

        session = context.session
        table = self._sessions.setdefault(session, _SessionProcessTable())
        running_count = sum(record.handle.exit_code is None for record in table.running.values())
        if running_count + table.starting_count >= RUNNING_MAX:
            raise ToolRefused(f"{RUNNING_MAX} processes run already: stop one first. Nothing was run.")
        table.starting_count += 1
        try:
            folders = self.file_access.folders_of(session)
            start_folder = await resolve_working_folder(folders, cwd)
            protect_obeyed = await command_protection.may_change_obeyed_files(script, folders, start_folder)
            recorder = await open_command_recorder(
                self.file_access, context, self.sandbox, script, writes_directly=not protect_obeyed
            )
            command = SandboxCommand(
                script=script,
                folders=folders,
                cwd=start_folder,
                timeout_s=LIFETIME_MAX_S,
                network=self.network,
                protect_deletions=protect_deletions,
                is_own_file=build_removal_check(self.file_access, context),
                movable_folders=command_protection.find_movable_folders(
                    self.file_access, context, script, start_folder
                ),
                on_written=build_on_written(self.file_access, context, recorder),
                protect_obeyed=protect_obeyed,
                may_change=command_protection.build_change_check(context, folders, script),
                change_recorder=recorder,
                env=COMMAND_ENVIRONMENT,
            )
            process = await self.sandbox.start(command)
        finally:
            table.starting_count -= 1
        if table.is_ended:
            await _stop_process(process, ABORTED_GRACE_S)
            raise ToolRefused("The session has ended. The command was stopped.")
        table.started_count += 1
        started = table.running[f"p{table.started_count}"] = _RunningProcess(
            f"p{table.started_count}", script, protect_deletions, process
        )
        _drop_oldest_ended(table)
        return started

    async def stop_process(self, session: str, process: _RunningProcess, grace_s: float = GRACE_S) -> None:
        await _stop_process(process.handle, grace_s)
        self.forget_process(session, process)

    def forget_process(self, session: str, process: _RunningProcess) -> None:
        table = self._sessions.get(session)
        if table is not None:
            table.running.pop(process.id, None)

    async def end_session(self, session: str) -> None:
        """Stop all processes of a session."""
        table = self._sessions.pop(session, None)
        if table is None:
            return
        table.is_ended = True
        running = [record.handle for record in table.running.values() if record.handle.exit_code is None]
        await asyncio.gather(*(_stop_process(process) for process in running))

    async def close(self) -> None:
        await asyncio.gather(*(self.end_session(session) for session in list(self._sessions)))


async def _stop_process(process: SandboxProcess, grace_s: float = GRACE_S) -> None:
    """Stop a process, and finish stopping even if the caller is cancelled."""
    stopping = asyncio.ensure_future(process.stop(grace_s))
    try:
        await asyncio.shield(stopping)
    except asyncio.CancelledError:
        await asyncio.wait({stopping})
        raise


def _drop_oldest_ended(table: _SessionProcessTable) -> None:
    """Drop the oldest ended processes above KEPT_MAX."""
    excess = len(table.running) - PROCESSES_MAX
    for record in [record for record in table.running.values() if record.handle.exit_code is not None][
        : max(excess, 0)
    ]:
        del table.running[record.id]


class ProcessTool(BuiltInTool):
    name = "process"
    description = (
        "Commands in the background: start (command), poll (id: new output), write (id, input: to its stdin), "
        "stop (id), list. wait: seconds to wait for output. They end with the conversation."
    )
    arguments = _ProcessArguments
    effect: Effect = "unsafe"
    timeout_s: float | None = WAIT_MAX_S + 30.0
    untrusted = True
    capabilities: tuple[str, ...] = ("exec",)
    runs_in_sandbox = True

    def __init__(self, processes: BackgroundProcesses) -> None:
        self._processes = processes

    def reach(self, arguments: _ProcessArguments, context: ToolContext) -> CallDestinations:
        """A start is judged by its command. Input written to a running process may be a command too: it is harmless
        only if the process can neither send data out nor remove files."""
        process = self._processes.find_process(context.session, arguments.id)
        if arguments.action != "write" or process is None:
            return CallDestinations()
        sandbox, network = self._processes.sandbox, self._processes.network
        if sandbox.is_confined and not network and process.protects_deletions:
            return CallDestinations()
        outward = network or not sandbox.is_confined
        return CallDestinations(
            sink=True,
            leaves_workspace=outward,
            description=f"writes to the running command {shorten_for_message(process.script)}",
        )

    async def run(self, arguments: _ProcessArguments, context: ToolContext) -> str:
        wait_s = arguments.wait
        if wait_s is not None and not 0 <= wait_s <= WAIT_MAX_S:
            raise ToolRefused(f"wait is a number of seconds from 0 to {WAIT_MAX_S:g}. Nothing was done.")
        match arguments.action:
            case "start":
                return await self._start(arguments, context, WAIT_START_S if wait_s is None else wait_s)
            case "list":
                return self._list(context.session)
        process = self._processes.find_process(context.session, arguments.id)
        if process is None:
            known = ", ".join(process.id for process in self._processes.list_processes(context.session)) or "none"
            raise ToolRefused(f"There is no process {shorten_for_message(arguments.id or '')!r} here. Known: {known}.")
        match arguments.action:
            case "write":
                return await self._write(process, arguments, context, wait_s or 0.0)
            case "stop":
                await self._processes.stop_process(context.session, process)
                return await self._finish(process, context, await _read_output(process, ABORTED_GRACE_S))
            case "poll":
                return await self._poll(process, context, WAIT_POLL_S if wait_s is None else wait_s)

    async def _start(self, arguments: _ProcessArguments, context: ToolContext, wait_s: float) -> str:
        script = check_script(arguments.command or "")
        protect_deletions = context.protect_deletions and self._processes.sandbox.can_protect_deletions
        process = await self._processes.start_process(
            context, script, arguments.cwd, protect_deletions=protect_deletions
        )
        try:
            output = await _read_output(process, wait_s)
        except asyncio.CancelledError:  # the model will never learn its id
            await self._processes.stop_process(context.session, process, ABORTED_GRACE_S)
            raise
        return await self._finish(process, context, output)

    async def _poll(self, process: _RunningProcess, context: ToolContext, wait_s: float) -> str:
        return await self._finish(process, context, await _read_output(process, wait_s))

    async def _finish(self, process: _RunningProcess, context: ToolContext, output: str) -> str:
        """If the process has ended, forget it and take over the changes that were held back; return its output."""
        if process.handle.exit_code is None:
            return output
        from mainstay.tools.held_change_applier import apply_requested_removals

        self._processes.forget_process(context.session, process)
        applied, context.held_changes = await apply_requested_removals(
            self._processes.file_access, context, process.handle.held_changes, process.script
        )
        return f"{output}\n{applied}" if applied else output

    async def apply_held_changes(self, document: str, context: ToolContext, *, folder: str, is_repeated: bool) -> str:
        from mainstay.tools.held_change_applier import apply_approved_changes

        return await apply_approved_changes(
            self._processes.file_access, context, document, folder=folder, is_repeated=is_repeated
        )

    async def _write(
        self, process: _RunningProcess, arguments: _ProcessArguments, context: ToolContext, wait_s: float
    ) -> str:
        data = (arguments.input or "").encode(errors="replace")
        if not data:
            raise ToolRefused("There is no input to write. Nothing was done.")
        if len(data) > INPUT_BYTES_MAX:
            raise ToolRefused(f"At most {INPUT_BYTES_MAX} bytes are written at a time. Nothing was done.")
        if process.handle.exit_code is not None:
            raise ToolRefused(f"{process.id} has {process.state}: nothing was written.")
        await process.handle.write(data)
        return await self._poll(process, context, wait_s)

    def _list(self, session: str) -> str:
        lines = [
            f"{process.id} {process.state}: {shorten_for_message(process.script)}"
            for process in self._processes.list_processes(session)
        ]
        return "\n".join(lines) or "Nothing runs in the background."


async def _read_output(process: _RunningProcess, wait_s: float) -> str:
    raw = await process.handle.read(wait_s)
    if looks_binary(raw):
        output = f"[binary output, {len(raw)} byte{'' if len(raw) == 1 else 's'}, not shown]"
    else:
        output = shorten_output(strip_terminal_codes(raw.decode("utf-8", "replace")).rstrip(), "", LINES_MAX, BYTES_MAX)
    return f"[{process.id} {process.state}]\n{output}" if output else f"[{process.id} {process.state}; no new output]"


def create_process_tool(processes: BackgroundProcesses) -> Tool:
    return ProcessTool(processes)


def build(dependencies: ToolDependencies) -> Tool:
    assert dependencies.processes is not None
    return create_process_tool(dependencies.processes)
