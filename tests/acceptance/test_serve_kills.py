"""`mainstay serve` under HTTP, gRPC, WebSocket, channel and trigger traffic, killed again and again (F1, I1 to I5).

`make test-all` kills it 300 times; `make test` twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.gateway_chaos import MARK, Model, Platform, Poster, ServerRestarts, Talker, until
from support.journal_checks import check_answers
from support.kill_clients import (
    COMMANDS,
    ChargingModel,
    GrpcClient,
    JournalChecks,
    KilledClient,
    Triggers,
    WebSocketClient,
    check_effects,
    check_streams,
)
from support.paths import PYTHONPATH
from support.ports import choose_port

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
ROUNDS = range(10) if WHOLE else range(1)
KILLS = 30 if WHOLE else 2  # in each round
CLIENTS = 2  # of each kind
SETTLE_S = 300.0


class MixedServer(ServerRestarts):
    """With gRPC, and commands that need no approval."""

    def __init__(self, folder: Path, model: Model, platform: Platform) -> None:
        self.grpc_port = choose_port()
        super().__init__(folder, model, platform)

    def configure(self, instructions: str = "Be terse.", more: str = "") -> None:
        super().configure(
            instructions,
            f"{COMMANDS}policy: {{allow: [bash]}}\ntriggers: {{poll_s: 0.5}}\n{more}",
        )
        path = self.home / "mainstay.yaml"
        path.write_text(path.read_text().replace("drain_s:", f"grpc_port: {self.grpc_port}, drain_s:"))

    def verify_audit(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mainstay", "audit", "verify", "--home", str(self.home)]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": PYTHONPATH, "KEY": "sk-nothing"}
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=SETTLE_S, check=False)


@pytest.mark.timeout(600 + 40 * KILLS)
@pytest.mark.parametrize("seed", ROUNDS)
async def test_a_server_killed_under_mixed_traffic_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    ChargingModel.ledger = tmp_path / "ledger"
    async with ChargingModel() as model, Platform() as platform, MixedServer(tmp_path, model, platform) as server:
        triggers, journals = Triggers(server.home), JournalChecks(server.home)
        clients: list[KilledClient] = [GrpcClient(server.grpc_port, f"g{n}") for n in range(CLIENTS)]
        clients += [WebSocketClient(server.port, f"w{n}") for n in range(CLIENTS)]
        talkers = [Talker(server.port, f"s{n}") for n in range(CLIENTS)]
        poster = Poster(server.port, "room0", platform)
        everyone = (*clients, *talkers, poster)
        running = [asyncio.ensure_future(one.run()) for one in everyone]
        try:
            for _ in range(KILLS):
                triggers.add(chance.choice([1, 2, 4]))
                await asyncio.sleep(chance.uniform(0.1, 2.0))  # at any moment of what is going on
                await server.end()
                await server.start()
                await journals.read_on()
            for one in everyone:
                one.stopping = True
            await asyncio.wait_for(asyncio.gather(*running), SETTLE_S)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await server.settled()
        async with asyncio.timeout(SETTLE_S):
            while not await triggers.settled(server.port):
                await asyncio.sleep(0.2)
        runs = await triggers.runs(server.port)
        await server.settled()
        await until(lambda: len(platform.shown) >= len(poster.taken), lambda: server.said)
        assert await server.end(15) == 0, server.said[-2000:]
        await journals.read_on()
        await journals.check_replay()
        for client in (*clients, *talkers):
            check_answers(journals.records[client.session], client.taken)
            assert client.taken
        minutes = triggers.check(runs, journals.records)
        effects = check_effects(ChargingModel.ledger, journals.records)
        assert effects
        assert check_streams(clients, journals.records)
        answers = sorted(MARK.findall(text) for text in platform.shown.values())
        assert answers == sorted([mark] for mark in poster.taken)
        verified = await asyncio.to_thread(server.verify_audit)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        prompts = sum(len(one.taken) for one in (*clients, *talkers))
        print(
            f"{KILLS} kills: {prompts} prompts, {effects} effects, {len(triggers.one_shots)} one-shots, {minutes} min"
        )
