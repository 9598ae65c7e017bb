"""A gateway over gRPC as a process: `python grpc_server.py HOME PORT`. Its model waits for a file of its home."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from mainstay import Agent
from mainstay.agent.agent import get_uvloop_factory
from mainstay.agent.system_clock import SystemClock
from mainstay.core.tools import tool
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.server.grpc.authentication import GrpcSettings
from mainstay.server.grpc.server import serve_grpc
from mainstay.store.memory.people_store import InMemoryPeopleStore
from mainstay.testing import Call, ScriptedProvider
from support.fixed_home import FixedHome, opened_workspace


async def serve(home: Path, port: int) -> None:
    @tool(effect="pure", timeout_s=60, untrusted=False, sink=False)
    async def wait() -> str:
        """Wait until it may go on."""
        (home / "waiting").touch()
        while not (home / "go-on").exists():
            await asyncio.sleep(0.01)
        return "waited"

    def model(context: Any, options: Any) -> Any:
        return "It is done." if options.step > 1 else [Call("wait")]

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    people = People(InMemoryPeopleStore(), SystemClock())
    await people.open()
    async with Agent(ScriptedProvider(model), tools=[wait], home=home) as agent:
        opened = await opened_workspace(agent)

        async def find_workspace(workspace: str) -> Workspace:
            return opened

        def listening(at: int) -> None:
            print(at, flush=True)

        settings = GrpcSettings(drain_s=0.2)
        await serve_grpc(
            OperationGateway(find_workspace, people, FixedHome(people)),
            settings,
            f"127.0.0.1:{port}",
            stop,
            on_listening=listening,
        )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=get_uvloop_factory()) as runner:
        runner.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
