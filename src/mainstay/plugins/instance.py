"""One process of a plugin: started behind walls, reached over its socket, asked, and put down."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import AsyncExitStack
from typing import Any

from mainstay.core.contract import EXECUTE, PLUGIN_SOCKET, STATE_SOCKET, ContractBroken, ExecuteRequest, encode
from mainstay.core.outside import PluginState, Process, Sandbox
from mainstay.core.workers import in_thread
from mainstay.plugins.grpc_library import grpc_for
from mainstay.plugins.homes import overfull
from mainstay.plugins.launch import Launch, RunFolder, launched
from mainstay.plugins.logs import PluginLog
from mainstay.plugins.plugin import HomeFull, Plugin, PluginNotUp
from mainstay.plugins.state import StateService

LOOK_S, LOOK_MAX_S = 0.01, 0.05  # for its socket
_QUIET = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}  # its log is for what it has to say itself
STUCK_S = 1.0
FRAME_BYTES = 1024  # of a result, beside its content


class Instance:
    """A plugin that answers. `calls` is how many of them it is at; no new ones go to one that is `condemned`."""

    def __init__(self, process: Process, channel: Any, stack: AsyncExitStack) -> None:
        self.calls = 0
        self.condemned = False
        self.ending = False
        self.died = asyncio.create_task(process.wait())
        self._stack = stack
        self._execute = channel.unary_unary(EXECUTE)  # bytes in, bytes out

    @property
    def usable(self) -> bool:
        return not (self.condemned or self.ending or self.died.done())

    async def ask(self, request: ExecuteRequest, timeout_s: float) -> bytes:
        """Raises grpc's AioRpcError. Cancelling this cancels the call where it runs."""
        answer = await self._execute(encode(request), timeout=timeout_s)
        if not isinstance(answer, bytes):  # it said that all went well, and nothing else
            raise ContractBroken("there is none")
        return answer

    async def stop(self) -> None:
        """Politely, then firmly; nothing of it is left."""
        self.ending = True
        await self._stack.aclose()
        await asyncio.wait({self.died}, timeout=STUCK_S)
        self.died.cancel()  # a process that the kernel does not let go of is left to it


async def start(plugin: Plugin, sandbox: Sandbox, state: PluginState, log: PluginLog) -> Instance:
    """Raises PluginNotUp if it does not come up, and another MainstayError if it cannot even be tried."""
    grpc = grpc_for(plugin.name)
    async with AsyncExitStack() as stack:
        room = RunFolder.make()
        stack.push_async_callback(room.remove)
        try:
            service = StateService(plugin.name, state, plugin.quota)
            stack.push_async_callback(service.close)
            await service.serve(f"{room.ours}/state", f"{room.path}/state", grpc)
            launch = await in_thread(lambda: _launch(plugin, room))
            log.begin()
            name = f"the plugin {plugin.name}"
            running = await stack.enter_async_context(
                launched(sandbox, launch, log.take, name=name, note=log.note, room=room)
            )
            process = running.process
            async with asyncio.timeout(plugin.manifest.limits.start_s):
                target = await _socket(f"{room.theirs}/plugin", process, plugin, stack)
                channel = grpc.aio.insecure_channel(f"unix:{target}", options=_options(plugin))
                stack.push_async_callback(channel.close)
                await _ready(channel, process)
        except TimeoutError:
            raise PluginNotUp(f"was not ready within {plugin.manifest.limits.start_s:g} s") from None
        except (OSError, RuntimeError) as error:  # no room for a socket, or none for a process
            raise PluginNotUp(f"cannot be started: {error}") from error
        if process.code is not None:
            raise PluginNotUp(f"ended with code {process.code} before it was ready")
        return Instance(process, channel, stack.pop_all())


def _launch(plugin: Plugin, room: RunFolder) -> Launch:
    os.makedirs(plugin.home, mode=0o700, exist_ok=True)
    if wrong := overfull(plugin.home, plugin.manifest.limits.home_mb):
        raise HomeFull(f"The plugin {plugin.name} is not started: its home {wrong}.")
    return Launch(
        words=plugin.manifest.run,
        cwd=plugin.folder,
        home=plugin.home,
        needs=plugin.needs,
        protected=plugin.protected,
        env={**_QUIET, **plugin.env, PLUGIN_SOCKET: f"{room.theirs}/plugin", STATE_SOCKET: f"{room.ours}/state"},
        share=plugin.share,
        unconfined=plugin.unconfined,
    )


async def _socket(path: str, process: Process, plugin: Plugin, stack: AsyncExitStack) -> str:
    """How the plugin's socket is reached, whatever it puts in its place later: a link would lead us to another's."""
    pause = LOOK_S
    while process.code is None:
        try:
            if not hasattr(os, "O_PATH"):  # macOS: looked at, and believed
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    return path
                raise PluginNotUp("put something else in the place of its socket")
            file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, LOOK_MAX_S)
            continue
        stack.callback(os.close, file)
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            raise PluginNotUp("put something else in the place of its socket")
        return f"/proc/self/fd/{file}"
    raise PluginNotUp(f"ended with code {process.code} before it was ready")


async def _ready(channel: Any, process: Process) -> None:
    ends = {asyncio.ensure_future(channel.channel_ready()), asyncio.ensure_future(process.wait())}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ends:
            one.cancel()


def _options(plugin: Plugin) -> list[tuple[str, int | str]]:
    """Nothing is tried twice, nothing of our environment counts, and no answer is held that is too large."""
    return [
        ("grpc.max_receive_message_length", plugin.manifest.limits.answer_bytes + FRAME_BYTES),
        ("grpc.max_send_message_length", -1),  # what goes out was bounded before
        ("grpc.max_metadata_size", 8192),
        ("grpc.absolute_max_metadata_size", 16384),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.default_authority", "localhost"),
    ]
