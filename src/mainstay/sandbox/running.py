"""What every sandbox does alike: run a command to its end within its time, keep one going, end them all."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from functools import partial
from typing import Any, Protocol

import msgspec

from mainstay.core.errors import AgentClosed, InputRefused
from mainstay.core.outside import Command, Output, Process, Ran
from mainstay.core.workers import in_thread
from mainstay.sandbox.limits import SandboxRules, SandboxUnusable, check
from mainstay.sandbox.overlay import Merged
from mainstay.sandbox.streams import Kept, Pipe, Told, Unread, write_all
from mainstay.sandbox.tree import Launch, Streams, Tree, spawn


class Place(Protocol):
    """What was put up for one command, and has to be taken down."""

    def settle(self) -> Merged:
        """When all is over: what was written, and which removals were held back. Blocks; called once."""
        ...


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A command about to be started."""

    command: Command
    cwd: str
    timeout_s: float | None
    place: Place | None


class Runner:
    """A sandbox, but for what to start (`_launch`) and what to put up before (`_put_up`)."""

    name = ""

    def __init__(self, rules: SandboxRules | None = None) -> None:
        self.rules = rules or SandboxRules()
        self._seats = asyncio.Semaphore(self.rules.commands)
        self._trees: set[Tree] = set()
        self._beside: set[Background] = set()
        self._closed = False

    @property
    def confined(self) -> bool:
        return False

    @property
    def guards(self) -> bool:
        return False

    def inside(self, path: str) -> str:
        return path

    def outside(self, path: str) -> str:
        return path

    def _launch(self, start: Start, control: int) -> Launch:
        raise NotImplementedError

    def _rules(self, command: Command) -> SandboxRules:
        """What holds for this one."""
        given = {name: value for name, value in msgspec.structs.asdict(command.share).items() if value is not None}
        return msgspec.structs.replace(self.rules, **given) if given else self.rules

    def _put_up(self, command: Command) -> Place | None:
        return None

    def _check(self, command: Command) -> str:
        if self._closed:
            raise AgentClosed("the sandbox is closed")
        if command.guarded and not self.guards:
            raise SandboxUnusable(f"the sandbox {self.name!r} cannot hold removals back")
        return check(command)

    async def exec(self, command: Command, output: Output | None = None) -> Ran:
        cwd = self._check(command)
        async with self._seats:
            stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            run = asyncio.create_task(self._run(command, cwd, output, stop))
            try:
                return await asyncio.shield(run)
            except asyncio.CancelledError:
                stop.set_result(None)
                await settled(run)
                raise

    async def _run(self, command: Command, cwd: str, output: Output | None, stop: asyncio.Future[None]) -> Ran:
        place = self._put_up(command)
        merged = Merged()
        try:
            ran, trouble = await self._through(
                Start(command=command, cwd=cwd, timeout_s=command.timeout_s, place=place), output, stop
            )
        finally:
            if place is not None:
                merged = await settled(in_thread(place.settle))
        if trouble:
            raise SandboxUnusable(trouble)
        return msgspec.structs.replace(ran, changed=merged.changed, created=merged.created, held=merged.held)

    async def _through(self, start: Start, output: Output | None, stop: asyncio.Future[None]) -> tuple[Ran, str]:
        """From its start to the last process gone, and the trouble if it never got going."""
        kept = [
            Kept(self.rules.output_bytes, partial(output, stream) if output is not None else None)
            for stream in ("stdout", "stderr")
        ]
        tree, pipes, stdin = self._begin(start, kept, take_input=False)
        assert stdin == -1
        try:
            feeding = asyncio.create_task(tree.feed(start.command.input))
            feeding.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody has to read it
            ends: set[asyncio.Future[Any]] = {tree.exited, stop}
            done, _ = await asyncio.wait(ends, timeout=start.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not tree.exited.done():
                await tree.put_down(self.rules.grace_s)
            feeding.cancel()
            for pipe in pipes:
                pipe.finish()
        finally:  # also if the loop itself is being ended
            self._trees.discard(tree)
            tree.end()
            for pipe in pipes:
                pipe.close()
        code = tree.exited.result() if tree.exited.done() else 137
        stdout, stderr = (one.bytes() for one in kept)
        ran = Ran(code=code, stdout=stdout, stderr=stderr, timed_out=not done, cut=any(one.cut for one in kept))
        lost = not tree.started and bool(done) and not stop.done() and not self._closed
        return ran, f"the sandbox could not be started: {_last(stderr)}" if lost else ""

    def _begin(self, start: Start, takers: list[Any], *, take_input: bool) -> tuple[Tree, list[Pipe], int]:
        """Starts it. One taker: both streams in one, as they come. Gives the writing end of its input, or -1."""
        theirs_too: list[int] = []
        reading: list[int] = []
        feed = -1
        try:
            if take_input:
                stdin, feed = os.pipe()
            else:
                stdin = _input(start.command.input)
            theirs_too.append(stdin)
            for _ in takers:
                ours, theirs = os.pipe()
                reading.append(ours)
                theirs_too.append(theirs)
            streams = Streams(stdin=stdin, stdout=theirs_too[1], stderr=theirs_too[-1])
            tree = self._spawn(start, streams)
        except (OSError, SandboxUnusable) as error:
            for file in (*reading, *((feed,) if feed >= 0 else ())):
                os.close(file)
            if isinstance(error, OSError):
                raise SandboxUnusable(f"no command can be started: {error.strerror or error}") from error
            raise
        finally:
            for file in theirs_too:
                os.close(file)
        self._trees.add(tree)
        return tree, [Pipe(file, taker.take) for file, taker in zip(reading, takers, strict=True)], feed

    def _spawn(self, start: Start, streams: Streams) -> Tree:
        control, end = socket.socketpair()
        try:
            return spawn(self._launch(start, end.fileno()), streams, control, end)
        except (OSError, SandboxUnusable):
            control.close()
            raise
        finally:
            end.close()

    async def start(self, command: Command, output: Output | None = None) -> Process:
        cwd = self._check(command)
        if len(self._beside) >= self.rules.background:
            raise InputRefused(f"{self.rules.background} processes run already; stop one of them first")
        place = self._put_up(command)
        unread = Unread(self.rules.unread_bytes)
        takers: list[Any] = [unread]
        if output is not None:
            takers = [Told(partial(output, stream)) for stream in ("stdout", "stderr")]
        try:
            tree, pipes, stdin = self._begin(
                Start(command=command, cwd=cwd, timeout_s=None, place=place), takers, take_input=True
            )
        except SandboxUnusable:
            if place is not None:
                await settled(in_thread(place.settle))
            raise
        process = Background(tree, pipes, unread, stdin, place)
        self._beside.add(process)
        process.over.add_done_callback(lambda _: self._left(process, tree))
        if command.input:
            await process.write(command.input)
        return process

    def _left(self, process: Background, tree: Tree) -> None:
        self._beside.discard(process)
        self._trees.discard(tree)

    async def close(self) -> None:
        self._closed = True
        trees, beside = list(self._trees), list(self._beside)
        for tree in trees:
            tree.ask()
        if trees:
            await asyncio.wait({tree.exited for tree in trees}, timeout=self.rules.grace_s)
        for tree in trees:
            tree.end()
        if trees:
            await asyncio.wait({tree.exited for tree in trees}, timeout=10)
        for process in beside:
            await asyncio.wait({process.over})


class Background:
    """A command that goes on beside the turn. Once it has ended, `changed` and `held` are as in `Ran`."""

    def __init__(self, tree: Tree, pipes: list[Pipe], unread: Unread, stdin: int, place: Place | None) -> None:
        self._tree = tree
        self._pipes = pipes
        self._unread = unread
        self._stdin = stdin
        self._place = place
        self._code: int | None = None
        self.changed: tuple[str, ...] = ()
        self.held: tuple[str, ...] = ()
        self.over = asyncio.create_task(self._until_over())

    @property
    def code(self) -> int | None:
        return self._code

    async def _until_over(self) -> None:
        try:
            code = await self._tree.exited
        finally:
            self._tree.end()
            for pipe in self._pipes:
                pipe.finish()
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1
        if self._place is not None:
            merged: Merged = await settled(in_thread(self._place.settle))
            self.changed, self.held = merged.changed, merged.held
        if self.held:
            self._unread.take(f"[held back: removing {', '.join(self.held[:20])}]\n".encode())
        self._code = code
        self._unread.came.set()

    async def read(self, wait_s: float = 0.0) -> bytes:
        if wait_s > 0 and self._code is None:
            try:
                await asyncio.wait_for(self._unread.came.wait(), wait_s)
            except TimeoutError:
                pass
        return self._unread.read()

    async def write(self, data: bytes) -> None:
        try:
            if self._code is not None:
                raise BrokenPipeError
            if self._tree.feeds:
                await self._tree.feed(data)
            elif self._stdin >= 0:
                await write_all(self._stdin, data)
        except (BrokenPipeError, ConnectionError) as error:
            raise InputRefused("the process does not read its input any more") from error

    async def wait(self) -> int:
        await asyncio.shield(self.over)
        assert self._code is not None, "it is over"
        return self._code

    async def stop(self, grace_s: float = 2.0) -> None:
        await settled(asyncio.create_task(self._stop(grace_s)))

    async def _stop(self, grace_s: float) -> None:
        if not self._tree.exited.done():
            await self._tree.put_down(grace_s)
        if self._tree.exited.done():
            await asyncio.wait({self.over})


async def settled(work: asyncio.Future[Any]) -> Any:
    """Its result, waited for to the end even if we are cancelled meanwhile; that is told afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not work.cancelled():
            work.exception()  # seen
        raise cancelled
    return work.result()


def _input(data: bytes) -> int:
    """A file to read from: nobody has to write while the command runs."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _last(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it ended at once and said nothing"
