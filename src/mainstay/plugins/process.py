"""One plugin process: started in the sandbox, called over gRPC on its unix socket, stopped."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from mainstay.core.plugin_protocol import (
    EXECUTE_METHOD,
    PLUGIN_SOCKET,
    STATE_SOCKET,
    ExecuteRequest,
    ProtobufMessageInvalid,
    encode,
)
from mainstay.core.tool_ports import PluginState, Sandbox, SandboxProcess
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.grpc_library import require_grpc
from mainstay.plugins.home_size import check_home_size
from mainstay.plugins.launcher import ProgramRunFolder, ProgramSpec, launch_program
from mainstay.plugins.output_log import PluginLog
from mainstay.plugins.plugin import Plugin, PluginHomeFull, PluginNotStarted
from mainstay.plugins.state_service import PluginStateService

if TYPE_CHECKING:
    from grpc.aio import Channel

SOCKET_POLL_S, SOCKET_POLL_MAX_S = 0.01, 0.05  # interval of polling for its socket
_GRPC_ENV = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}  # keeps gRPC's own messages out of its log
EXIT_WAIT_S = 1.0  # wait for the exit of a stopped process
RESPONSE_OVERHEAD_BYTES = 1024  # of a response, beside its content


class PluginProcess:
    """A running plugin. `active_calls` counts calls in flight; one that is `draining` gets no new calls."""

    def __init__(self, process: SandboxProcess, channel: Channel, stack: AsyncExitStack) -> None:
        self.active_calls = 0
        self.draining = False
        self.stopping = False
        self.exit_task = asyncio.create_task(process.wait())
        self._stack = stack
        self._execute_rpc = channel.unary_unary(EXECUTE_METHOD)  # bytes in, bytes out

    @property
    def usable(self) -> bool:
        return not (self.draining or self.stopping or self.exit_task.done())

    async def execute(self, request: ExecuteRequest, timeout_s: float) -> bytes:
        """Return the encoded response. Raises grpc's AioRpcError. Cancelling this cancels the call in the plugin."""
        answer = await self._execute_rpc(encode(request), timeout=timeout_s)
        if not isinstance(answer, bytes):  # status OK without a message
            raise ProtobufMessageInvalid("there is none")
        return answer

    async def stop(self) -> None:
        """Stop the process (SIGTERM, then SIGKILL) and release everything that was made for it."""
        self.stopping = True
        await self._stack.aclose()
        await asyncio.wait({self.exit_task}, timeout=EXIT_WAIT_S)
        self.exit_task.cancel()  # a process that the kernel cannot end is not waited for


async def start_plugin_process(plugin: Plugin, sandbox: Sandbox, state: PluginState, log: PluginLog) -> PluginProcess:
    """Start a plugin and wait until it accepts calls. Raises PluginNotStarted if it does not become ready, another
    MainstayError if no process could be started at all."""
    require_grpc(plugin.name)
    import grpc

    async with AsyncExitStack() as stack:
        run_folder = ProgramRunFolder.create()
        stack.push_async_callback(run_folder.remove)
        try:
            service = PluginStateService(plugin.name, state, plugin.quota)
            stack.push_async_callback(service.close)
            await service.serve(f"{run_folder.host_folder}/state", f"{run_folder.path}/state")
            program_spec = await run_in_thread(lambda: _build_program(plugin, run_folder))
            log.begin_process()
            name = f"the plugin {plugin.name}"
            program = await stack.enter_async_context(
                launch_program(
                    sandbox,
                    program_spec,
                    log.append_output,
                    name=name,
                    on_refused=log.append_note,
                    run_folder=run_folder,
                )
            )
            process = program.process
            async with asyncio.timeout(plugin.manifest.limits.start_s):
                target = await _wait_for_socket(f"{run_folder.program_folder}/plugin", process, plugin, stack)
                channel = grpc.aio.insecure_channel(f"unix:{target}", options=_channel_options(plugin))
                stack.push_async_callback(channel.close)
                await _wait_until_ready(channel, process)
        except TimeoutError:
            raise PluginNotStarted(f"was not ready within {plugin.manifest.limits.start_s:g} s") from None
        except (OSError, RuntimeError) as error:  # no socket, or no process, could be created
            raise PluginNotStarted(f"cannot be started: {error}") from error
        if process.exit_code is not None:
            raise PluginNotStarted(f"ended with code {process.exit_code} before it was ready")
        return PluginProcess(process, channel, stack.pop_all())


def _build_program(plugin: Plugin, run_folder: ProgramRunFolder) -> ProgramSpec:
    os.makedirs(plugin.home, mode=0o700, exist_ok=True)
    if problem := check_home_size(plugin.home, plugin.manifest.limits.home_mb):
        raise PluginHomeFull(f"The plugin {plugin.name} is not started: its home {problem}.")
    return ProgramSpec(
        argv=plugin.manifest.run,
        cwd=plugin.folder,
        home=plugin.home,
        permissions=plugin.permissions,
        protected=plugin.protected,
        env={
            **_GRPC_ENV,
            **plugin.env,
            PLUGIN_SOCKET: f"{run_folder.program_folder}/plugin",
            STATE_SOCKET: f"{run_folder.host_folder}/state",
        },
        resource_limits=plugin.resource_limits,
        allow_unconfined=plugin.allow_unconfined,
    )


async def _wait_for_socket(path: str, process: SandboxProcess, plugin: Plugin, stack: AsyncExitStack) -> str:
    """Wait for the plugin's socket and return an address that stays bound to this very socket: were the file replaced
    with a link later, the host would connect to something else."""
    pause = SOCKET_POLL_S
    while process.exit_code is None:
        try:
            if not hasattr(os, "O_PATH"):  # macOS: checked once, and not held
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    return path
                raise PluginNotStarted("replaced its socket with something else")
            file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, SOCKET_POLL_MAX_S)
            continue
        stack.callback(os.close, file)
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            raise PluginNotStarted("replaced its socket with something else")
        return f"/proc/self/fd/{file}"
    raise PluginNotStarted(f"ended with code {process.exit_code} before it was ready")


async def _wait_until_ready(channel: Channel, process: SandboxProcess) -> None:
    ends = {asyncio.ensure_future(channel.channel_ready()), asyncio.ensure_future(process.wait())}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in ends:
            future.cancel()


def _channel_options(plugin: Plugin) -> list[tuple[str, int | str]]:
    """Return channel options: no retries, no proxy of the environment, bounded response size."""
    return [
        ("grpc.max_receive_message_length", plugin.manifest.limits.answer_bytes + RESPONSE_OVERHEAD_BYTES),
        ("grpc.max_send_message_length", -1),  # requests are bounded before
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
