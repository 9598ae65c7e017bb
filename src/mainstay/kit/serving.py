"""`serve()`: the actions of a plugin on the socket that the core has named."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from mainstay.core.contract import (
    EXECUTE,
    PLUGIN_SOCKET,
    ContractBroken,
    ExecuteRequest,
    ExecuteResponse,
    decode,
    encode,
)
from mainstay.core.tools import BadArguments
from mainstay.kit.actions import Action, ActionFailed, Call, actions_of
from mainstay.kit.library import load_grpc
from mainstay.kit.state import state

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CALLS_MAX = 256  # at once; the core asks for fewer
STOP_S = 1.0  # what calls get to end, once asked to


def serve(*functions: Callable[..., Any]) -> None:
    """Serves these actions until told to stop; by default all that the main module knows by name.

    `--manifest` prints them as they belong into `plugin.yaml`. Outside of Mainstay it only says what it is for.
    """
    actions = actions_of(functions or vars(sys.modules["__main__"]).values())
    if "--manifest" in sys.argv[1:]:
        print("\n".join(["actions:", *(line for one in actions.values() for line in one.lines())]))
        return
    path = os.environ.get(PLUGIN_SOCKET)
    if not path:
        raise SystemExit(
            "This is a plugin of Mainstay, which starts it itself: `mainstay plugin call` tries an action, and "
            "--manifest prints them all."
        )
    if not actions:
        raise SystemExit("There is nothing to serve: no function here is marked with @action.")
    asyncio.run(_serve(actions, path))


async def _serve(actions: dict[str, Action], path: str) -> None:
    grpc = load_grpc()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stopped.set)
    service, method = EXECUTE.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(_Executor(actions, grpc.StatusCode.INVALID_ARGUMENT).execute)
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.max_send_message_length", -1)],
        maximum_concurrent_rpcs=CALLS_MAX,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    os.umask(0o077)  # the socket is for whoever started us
    server.add_insecure_port(f"unix:{path}")
    state.open()
    await server.start()
    await stopped.wait()
    await server.stop(STOP_S)
    await state.close()


class _Executor:
    """One call after the other is decoded, run and answered; what a function raises becomes an error of its call."""

    def __init__(self, actions: dict[str, Action], bad_request: Any) -> None:
        self._actions = actions
        self._bad_request = bad_request

    async def execute(self, data: bytes, context: Any) -> bytes:
        try:
            request = decode(data, ExecuteRequest)
        except ContractBroken as error:
            await context.abort(self._bad_request, str(error))
        try:
            response = ExecuteResponse(request.call_id, content=await self._run(request))
        except (ActionFailed, BadArguments) as error:
            response = ExecuteResponse(request.call_id, error=str(error) or "It failed.")
        except Exception as error:  # an action may raise anything; the core learns its kind, the log all of it
            traceback.print_exc()
            response = ExecuteResponse(request.call_id, error=f"The action failed: {type(error).__name__}.")
        return encode(response)

    async def _run(self, request: ExecuteRequest) -> str:
        action = self._actions.get(request.action)
        if action is None:
            raise ActionFailed(f"There is no action {request.action[:64]!r}.")
        return await action.run(request.arguments, Call(request.call_id, request.context))
