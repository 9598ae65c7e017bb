"""gRPC server of a plugin: `serve()` runs its actions on the socket that Mainstay passes in the environment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from mainstay.core.plugin_protocol import (
    EXECUTE_METHOD,
    PLUGIN_SOCKET,
    ExecuteRequest,
    ExecuteResponse,
    ProtobufMessageInvalid,
    decode,
    encode,
)
from mainstay.core.tools import BadArguments, ToolFunction
from mainstay.kit.actions import ActionFailed, Call, FunctionAction, find_actions
from mainstay.kit.grpc_import import require_grpc
from mainstay.kit.state import state

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CONCURRENT_CALLS_MAX = 256  # concurrent; Mainstay makes fewer
STOP_TIMEOUT_S = 1.0  # for running calls to end after SIGTERM


def serve(*functions: ToolFunction) -> None:
    """Serve these actions until SIGTERM or SIGINT; by default all actions that are global names of the main module.

    With `--manifest`, print their declarations for `plugin.yaml` instead. Exits with a message if Mainstay did not
    start the process.
    """
    actions = find_actions(functions or vars(sys.modules["__main__"]).values())
    if "--manifest" in sys.argv[1:]:
        print("\n".join(["actions:", *(line for action in actions.values() for line in action.manifest_lines())]))
        return
    path = os.environ.get(PLUGIN_SOCKET)
    if not path:
        raise SystemExit(
            "This is a plugin of Mainstay, which starts it by itself. Try an action with `mainstay plugin call`, or "
            "print all of them with --manifest."
        )
    if not actions:
        raise SystemExit("There is nothing to serve: no function is decorated with @action.")
    asyncio.run(_run_server(actions, path))


async def _run_server(actions: dict[str, FunctionAction], path: str) -> None:
    require_grpc()
    import grpc

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    service, method = EXECUTE_METHOD.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(_ActionExecutor(actions).execute)
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.max_send_message_length", -1)],
        maximum_concurrent_rpcs=CONCURRENT_CALLS_MAX,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    os.umask(0o077)  # only the user who started the plugin may use the socket
    server.add_insecure_port(f"unix:{path}")
    state.open()
    await server.start()
    await stopped.wait()
    await server.stop(STOP_TIMEOUT_S)
    await state.close()


class _ActionExecutor:
    """Decodes a call, runs its action and encodes the response. What a function raises becomes an error of the call."""

    def __init__(self, actions: dict[str, FunctionAction]) -> None:
        self._actions = actions

    async def execute(self, data: bytes, context: ServicerContext) -> bytes:
        from grpc import StatusCode

        try:
            request = decode(data, ExecuteRequest)
        except ProtobufMessageInvalid as error:
            await context.abort(StatusCode.INVALID_ARGUMENT, str(error))
        try:
            response = ExecuteResponse(request.call_id, content=await self._run(request))
        except (ActionFailed, BadArguments) as error:
            response = ExecuteResponse(request.call_id, error=str(error) or "It failed.")
        except Exception as error:  # an action may raise anything; Mainstay gets the class, stderr the traceback
            traceback.print_exc()
            response = ExecuteResponse(request.call_id, error=f"The action failed: {type(error).__name__}.")
        return encode(response)

    async def _run(self, request: ExecuteRequest) -> str:
        action = self._actions.get(request.action)
        if action is None:
            raise ActionFailed(f"There is no action {request.action[:64]!r}.")
        return await action.run(request.arguments, Call(request.call_id, request.context))
