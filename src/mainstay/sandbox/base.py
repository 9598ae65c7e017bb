"""Base class of all sandboxes: runs commands with timeout and cancellation, and manages background processes."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from mainstay.core.errors import AgentClosed, HomeUnusable, InputRefused
from mainstay.core.held_changes import HeldChange
from mainstay.core.resource_errors import describe_shortage, get_temporary_folder
from mainstay.core.tool_ports import CommandResult, OutputHandler, SandboxCommand, SandboxProcess
from mainstay.core.worker_threads import run_in_thread
from mainstay.sandbox.limits import SandboxLimits, SandboxUnusable, validate_command
from mainstay.sandbox.output_streams import (
    OutputCallback,
    OutputConsumer,
    OutputHead,
    OutputTail,
    PipeReader,
    write_all,
)
from mainstay.sandbox.process_tree import LaunchSpec, ProcessStreams, ProcessTree, spawn_tree


class MergeResult(NamedTuple):
    """What a merge did, as paths."""

    changed: tuple[str, ...] = ()  # written files
    created: tuple[str, ...] = ()  # those of them that are new
    held: tuple[str, ...] = ()  # removals that were held back
    held_changes: tuple[HeldChange, ...] = ()  # the same with everything that is needed to apply them later
    removed: tuple[str, ...] = ()  # removed files


class CommandSetup(Protocol):
    """The file-system setup of one command, which has to be finished after it."""

    def finish(self) -> MergeResult:
        """Merge the writes, report removals that were held back. Blocks; called once, after the last process ended."""
        ...


class PreparedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A validated command about to be started."""

    command: SandboxCommand
    cwd: str
    timeout_s: float | None  # None: a background process
    setup: CommandSetup | None


class BaseSandbox:
    """Base class of sandboxes. Subclasses define the process to launch (`_build_launch`) and its setup (`_prepare`)."""

    name = ""

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        self.limits = limits or SandboxLimits()
        self._slots = asyncio.Semaphore(self.limits.commands)
        self._trees: set[ProcessTree] = set()
        self._background: set[BackgroundProcess] = set()
        self._closed = False

    @property
    def is_confined(self) -> bool:
        return False

    @property
    def can_protect_deletions(self) -> bool:
        return False

    def to_sandbox_path(self, path: str) -> str:
        return path

    def to_host_path(self, path: str) -> str:
        return path

    def _build_launch(self, prepared: PreparedCommand, control: int) -> LaunchSpec:
        raise NotImplementedError

    def _limits_for(self, command: SandboxCommand) -> SandboxLimits:
        """Return the limits of this command: its own where given, else the defaults."""
        overrides = {name: value for name, value in msgspec.structs.asdict(command.limits).items() if value is not None}
        return msgspec.structs.replace(self.limits, **overrides) if overrides else self.limits

    def _prepare(self, command: SandboxCommand) -> CommandSetup | None:
        return None

    def _validate(self, command: SandboxCommand) -> str:
        if self._closed:
            raise AgentClosed("the sandbox is closed")
        if command.needs_overlay and not self.can_protect_deletions:
            raise SandboxUnusable(f"the sandbox {self.name!r} cannot hold back deletions")
        return validate_command(command)

    async def exec(self, command: SandboxCommand, on_output: OutputHandler | None = None) -> CommandResult:
        cwd = self._validate(command)
        async with self._slots:
            stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            run = asyncio.create_task(self._run(command, cwd, on_output, stop))
            try:
                return await asyncio.shield(run)
            except asyncio.CancelledError:
                stop.set_result(None)
                await wait_despite_cancel(run)
                raise

    async def _run(
        self, command: SandboxCommand, cwd: str, output: OutputHandler | None, stop: asyncio.Future[None]
    ) -> CommandResult:
        place = self._prepare(command)
        merged = MergeResult()
        try:
            ran, error = await self._run_to_end(
                PreparedCommand(command=command, cwd=cwd, timeout_s=command.timeout_s, setup=place), output, stop
            )
        finally:
            if place is not None:
                merged = await wait_despite_cancel(run_in_thread(place.finish))
        if error:
            raise SandboxUnusable(error)
        return msgspec.structs.replace(
            ran,
            changed=merged.changed,
            created=merged.created,
            undone_deletions=merged.held,
            held_changes=merged.held_changes,
            removed=merged.removed,
        )

    async def _run_to_end(
        self, prepared: PreparedCommand, output: OutputHandler | None, stop: asyncio.Future[None]
    ) -> tuple[CommandResult, str]:
        """Run a command until its last process ended; return the result, and an error if it never started."""
        outputs = [
            OutputHead(self.limits.output_bytes, partial(output, stream) if output is not None else None)
            for stream in ("stdout", "stderr")
        ]
        tree, pipes, stdin = self._start_tree(prepared, outputs, open_stdin=False)
        assert stdin == -1
        try:
            feeding = asyncio.create_task(tree.write_input(prepared.command.input))
            # mark as retrieved: the command may not read its input
            feeding.add_done_callback(lambda task: task.cancelled() or task.exception())
            ends: set[asyncio.Future[Any]] = {tree.exited, stop}
            done, _ = await asyncio.wait(ends, timeout=prepared.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not tree.exited.done():
                await tree.stop(self.limits.grace_s)
            feeding.cancel()
            for pipe in pipes:
                pipe.drain()
        finally:  # also if the event loop is shutting down
            self._trees.discard(tree)
            tree.kill()
            for pipe in pipes:
                pipe.close()
        code = tree.exited.result() if tree.exited.done() else 137
        stdout, stderr = (captured.to_bytes() for captured in outputs)
        ran = CommandResult(
            exit_code=code,
            stdout=stdout,
            stderr=stderr,
            timed_out=not done,
            truncated=any(captured.is_cut for captured in outputs),
        )
        failed_to_start = not tree.has_started and bool(done) and not stop.done() and not self._closed
        return ran, f"the sandbox could not be started: {_last_line(stderr)}" if failed_to_start else ""

    def _start_tree(
        self, prepared: PreparedCommand, consumers: Sequence[OutputConsumer], *, open_stdin: bool
    ) -> tuple[ProcessTree, list[PipeReader], int]:
        """Start the process tree; return it, the pipe readers, and the write end of its stdin, or -1.

        One consumer gets both streams in order of arrival; two get stdout and stderr.
        """
        child_files: list[int] = []
        readers: list[int] = []
        stdin_writer = -1
        try:
            if open_stdin:
                stdin, stdin_writer = os.pipe()
            else:
                stdin = _open_input(prepared.command.input)
            child_files.append(stdin)
            for _ in consumers:
                read_end, write_end = os.pipe()
                readers.append(read_end)
                child_files.append(write_end)
            streams = ProcessStreams(stdin=stdin, stdout=child_files[1], stderr=child_files[-1])
            tree = self._spawn_tree(prepared, streams)
        except (OSError, SandboxUnusable, HomeUnusable) as error:
            for file in (*readers, *((stdin_writer,) if stdin_writer >= 0 else ())):
                os.close(file)
            if isinstance(error, OSError):
                raise SandboxUnusable(
                    f"no command can be started: {describe_shortage(error) or error.strerror or error}"
                ) from error
            raise
        finally:
            for file in child_files:
                os.close(file)
        self._trees.add(tree)
        return (
            tree,
            [PipeReader(file, consumer.consume) for file, consumer in zip(readers, consumers, strict=True)],
            stdin_writer,
        )

    def _spawn_tree(self, prepared: PreparedCommand, streams: ProcessStreams) -> ProcessTree:
        control, child_control = socket.socketpair()
        try:
            return spawn_tree(self._build_launch(prepared, child_control.fileno()), streams, control, child_control)
        except (OSError, SandboxUnusable):
            control.close()
            raise
        finally:
            child_control.close()

    async def start(self, command: SandboxCommand, on_output: OutputHandler | None = None) -> SandboxProcess:
        cwd = self._validate(command)
        if len(self._background) >= self.limits.background:
            raise InputRefused(f"{self.limits.background} processes run already; stop one of them first")
        place = self._prepare(command)
        unread = OutputTail(self.limits.unread_bytes)
        consumers: Sequence[OutputConsumer] = [unread]
        if on_output is not None:
            consumers = [OutputCallback(partial(on_output, stream)) for stream in ("stdout", "stderr")]
        try:
            tree, pipes, stdin = self._start_tree(
                PreparedCommand(command=command, cwd=cwd, timeout_s=None, setup=place), consumers, open_stdin=True
            )
        except SandboxUnusable:
            if place is not None:
                await wait_despite_cancel(run_in_thread(place.finish))
            raise
        process = BackgroundProcess(tree, pipes, unread, stdin, place)
        self._background.add(process)
        process.finished.add_done_callback(lambda _: self._forget_process(process, tree))
        if command.input:
            await process.write(command.input)
        return process

    def _forget_process(self, process: BackgroundProcess, tree: ProcessTree) -> None:
        self._background.discard(process)
        self._trees.discard(tree)

    async def close(self) -> None:
        self._closed = True
        trees, background = list(self._trees), list(self._background)
        for tree in trees:
            tree.terminate()
        if trees:
            await asyncio.wait({tree.exited for tree in trees}, timeout=self.limits.grace_s)
        for tree in trees:
            tree.kill()
        if trees:
            await asyncio.wait({tree.exited for tree in trees}, timeout=10)
        for process in background:
            await asyncio.wait({process.finished})


class BackgroundProcess:
    """A background process. Once it has ended, `changed`, `held` and `held_changes` are as in `CommandResult`."""

    def __init__(
        self, tree: ProcessTree, pipes: list[PipeReader], output: OutputTail, stdin: int, setup: CommandSetup | None
    ) -> None:
        self._tree = tree
        self._pipes = pipes
        self._output = output
        self._stdin = stdin
        self._setup = setup
        self._code: int | None = None
        self.changed: tuple[str, ...] = ()
        self.held: tuple[str, ...] = ()
        self.held_changes: tuple[HeldChange, ...] = ()
        self.finished = asyncio.create_task(self._wait_until_finished())

    @property
    def exit_code(self) -> int | None:
        return self._code

    async def _wait_until_finished(self) -> None:
        try:
            code = await self._tree.exited
        finally:
            self._tree.kill()
            for pipe in self._pipes:
                pipe.drain()
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1
        if self._setup is not None:
            merged: MergeResult = await wait_despite_cancel(run_in_thread(self._setup.finish))
            self.changed, self.held, self.held_changes = merged.changed, merged.held, merged.held_changes
        if self.held_changes:
            paths = [change.path for change in self.held_changes]
            self._output.consume(f"[held back: changes to {', '.join(paths[:20])}]\n".encode())
        self._code = code
        self._output.available.set()

    async def read(self, wait_s: float = 0.0) -> bytes:
        if wait_s > 0 and self._code is None:
            try:
                await asyncio.wait_for(self._output.available.wait(), wait_s)
            except TimeoutError:
                pass
        return self._output.read()

    async def write(self, data: bytes) -> None:
        try:
            if self._code is not None:
                raise BrokenPipeError
            if self._tree.has_input_on_control:
                await self._tree.write_input(data)
            elif self._stdin >= 0:
                await write_all(self._stdin, data)
        except (BrokenPipeError, ConnectionError) as error:
            raise InputRefused("the process no longer reads its input") from error

    async def wait(self) -> int:
        await asyncio.shield(self.finished)
        assert self._code is not None, "it is over"
        return self._code

    async def stop(self, grace_s: float = 2.0) -> None:
        await wait_despite_cancel(asyncio.create_task(self._stop(grace_s)))

    async def _stop(self, grace_s: float) -> None:
        if not self._tree.exited.done():
            await self._tree.stop(grace_s)
        if self._tree.exited.done():
            await asyncio.wait({self.finished})


async def wait_despite_cancel(work: asyncio.Future[Any]) -> Any:
    """Wait for the work to finish even if cancelled meanwhile; the cancellation is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not work.cancelled():
            work.exception()  # mark as retrieved
        raise cancelled
    return work.result()


def _open_input(data: bytes) -> int:
    """Open a file with this content as stdin, so that no writer is needed while the command runs."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    with tempfile.TemporaryFile(dir=get_temporary_folder()) as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it ended at once without output"
