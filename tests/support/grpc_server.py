"""A gateway over gRPC as a process: `python grpc_server.py HOME PORT`. Its model waits for a file of its home."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from mainstay import Agent
from mainstay.agent.agent import fast_loop
from mainstay.agent.world import SystemClock
from mainstay.core.tools import tool
from mainstay.gateway.desk import Desk
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.office import Office
from mainstay.gateway.people import People
from mainstay.server.grpc.entry import Grpc
from mainstay.server.grpc.serving import serve_grpc
from mainstay.testing import Call, ScriptedProvider
from mainstay.testing.memory_gateway import MemoryGateway


async def serve(home: Path, port: int) -> None:
    @tool(effect="pure", timeout_s=60)
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
    people = People(MemoryGateway(), SystemClock())
    await people.open()
    async with Agent(ScriptedProvider(model), tools=[wait], home=home) as agent:
        desk = await Desk.of(agent)

        async def office(workspace: str) -> Office:
            return desk

        def listening(at: int) -> None:
            print(at, flush=True)

        settings = Grpc(drain_s=0.2)
        await serve_grpc(Gateway(office, people), settings, f"127.0.0.1:{port}", stop, listening=listening)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
