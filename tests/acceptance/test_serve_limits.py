"""`mainstay serve` as a process of its own at the limits of its machine, with many clients (F64, F65)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from support.gateway_chaos import Model, ServerRestarts, ask, insist, until
from support.kill_clients import COMMANDS, ChargingModel
from support.paths import PYTHONPATH

OPEN_FILES = 192  # hard limit of the server; the soft one is a third of it
IDLE = 600  # idle connections that are opened
PROMPTS = 12


class SmallServer(ServerRestarts):
    """With few open files, and commands that need no approval."""

    prefix = ("sh", "-c", f'ulimit -Sn {OPEN_FILES // 3}; ulimit -Hn {OPEN_FILES}; exec "$@"', "sh")

    def configure(self, instructions: str = "Be terse.", more: str = "") -> None:
        super().configure(instructions, f"{COMMANDS}policy: {{allow: [bash]}}\n{more}")

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": PYTHONPATH, "KEY": "sk-nothing"}
        command = [sys.executable, "-m", "mainstay", *arguments, "--home", str(self.home)]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)

    @property
    def soft_limit(self) -> int:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/limits").read_text().splitlines():
            if line.startswith("Max open files"):
                return int(line.split()[3])
        raise AssertionError

    @property
    def open_files(self) -> int:
        assert self.process is not None
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


class IdleConnections:
    """Connects without a word, and comes again as soon as it is sent away."""

    def __init__(self, port: int, number: int) -> None:
        self._port, self._number = port, number
        self.opened = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> IdleConnections:
        self._tasks = [asyncio.ensure_future(self._stay()) for _ in range(self._number)]
        return self

    async def __aexit__(self, *raised: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stay(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                self.opened += 1
                try:
                    await reader.read(1)  # until it is closed
                finally:
                    writer.close()
            await asyncio.sleep(2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the limits of a process from /proc")
@pytest.mark.timeout(300)
async def test_f64_idle_connections_starve_neither_prompts_nor_files_nor_the_audit(tmp_path: Path) -> None:
    ChargingModel.ledger = tmp_path / "ledger"
    async with ChargingModel() as model, SmallServer(tmp_path, model) as server:
        assert server.soft_limit == OPEN_FILES
        assert "server.connections_max is 2000, but the limit of 192 open files allows 96" in server.said
        async with IdleConnections(server.port, IDLE) as idle:
            await until(lambda: idle.opened >= IDLE, lambda: server.said)
            most = 0
            for number in range(PROMPTS):
                body = {"text": f"charge #s{number}-0", "id": f"p{number}"}
                # a connection may have to give way, too, before its request has arrived: clients try again
                status, found = await insist(partial(ask, server.port, f"POST /api/sessions/s{number}/prompt", body))
                assert (status, found["outcome"]["type"]) == (200, "Answered"), found
                assert not any(result.get("is_error") for result in found["results"]), found
                most = max(most, server.open_files)
            verified = await asyncio.to_thread(server.run_command, "audit", "verify")
            assert verified.returncode == 0, verified.stdout + verified.stderr
            listed = await asyncio.to_thread(server.run_command, "session", "list", "--json")
            assert len(json.loads(listed.stdout)["sessions"]) == PROMPTS, listed.stderr
            assert idle.opened >= IDLE
        assert most < OPEN_FILES - 20, "the reserve was used"
        assert ChargingModel.ledger.read_text().splitlines() == [f"#s{number}-0" for number in range(PROMPTS)]
        assert "Too many open files" not in server.said
        assert await server.end(15) == 0


async def test_f65_the_same_id_gets_the_same_paused_answer_also_twice_and_after_a_kill(tmp_path: Path) -> None:
    ChargingModel.ledger = tmp_path / "ledger"

    class AskingServer(ServerRestarts):
        def configure(self, instructions: str = "Be terse.", more: str = "") -> None:
            super().configure(instructions, f"{COMMANDS}policy: {{ask: [bash]}}\n{more}")

    async with ChargingModel() as model, AskingServer(tmp_path, model) as server:
        body = {"text": "charge #s0-0", "id": "once"}

        async def post() -> dict[str, object]:
            async with asyncio.timeout(60):
                status, found = await ask(server.port, "POST /api/sessions/s/prompt", body)
            assert status == 200, found
            return dict(found)

        first = await post()
        assert first["outcome"] == {"type": "Paused", "approval": first["outcome"]["approval"]}  # type: ignore[index]
        assert await asyncio.gather(*(post() for _ in range(4))) == [first] * 4
        await server.end()
        await server.start()
        assert await asyncio.gather(*(post() for _ in range(4))) == [first] * 4
        approval = first["outcome"]["approval"]  # type: ignore[index]
        status, _ = await ask(server.port, f"POST /api/approvals/{approval}/approve", {})
        assert status == 200
        await server.settled()
        final = await post()
        assert final["outcome"] == {"type": "Answered"}
        assert ChargingModel.ledger.read_text() == "#s0-0\n"
        assert isinstance(model, Model)
        assert await server.end(15) == 0


async def test_a_command_line_that_is_not_utf_8_is_refused_with_and_without_a_server(tmp_path: Path) -> None:
    async with Model() as model:
        server = SmallServer(tmp_path, model)

        async def run(number: int) -> subprocess.CompletedProcess[str]:
            text = os.fsdecode(b"caf\xe9 #s0-%d" % number)
            return await asyncio.to_thread(server.run_command, "run", "--session", "s", text)

        alone = await run(0)
        async with server:
            served = await run(1)
            assert await ask(server.port, "GET /api/sessions") == (200, {"sessions": []})
        for done in (alone, served):
            assert done.returncode == 1, done
            assert "mainstay: the message is not valid text: character 4 is a lone surrogate" in done.stderr
        assert model.asked == 0
