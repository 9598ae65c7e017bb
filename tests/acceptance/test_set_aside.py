"""A turn that ends its process: real processes die in it three times, then it waits until it is released."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli_support import Command

PROGRAM = '''
import asyncio, os, signal, sys
from pathlib import Path

from mainstay import Agent, Config, Limits, tool
from mainstay.core.errors import SessionBlocked
from mainstay.testing import Call, ScriptedProvider

home, effect, end = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

@tool(effect=effect, untrusted=False, sink=False)
async def boom() -> str:
    """End the process."""
    with open(home / "ledger", "a") as ledger:
        ledger.write("x")
    if end == "exit":
        os._exit(7)
    os.kill(os.getpid(), signal.SIGKILL)
    return ""

async def main() -> None:
    model = ScriptedProvider(lambda context, options: Call("boom"))
    config = Config(limits=Limits(last_attempt_delay_s=0.2))
    async with Agent(model, tools=[boom], home=home, config=config) as agent:
        try:
            print((await agent.run("till", "go", id="m1")).text)
        except SessionBlocked as error:
            print("blocked:", error)

asyncio.run(main())
'''


@pytest.mark.parametrize(("effect", "end"), [("unsafe", "exit"), ("pure", "kill")])
def test_f76_after_three_processes_the_turn_is_set_aside_and_can_be_released(
    tmp_path: Path, effect: str, end: str
) -> None:
    mainstay = Command(tmp_path)
    program, home = tmp_path / "program.py", mainstay.home
    program.write_text(PROGRAM)
    home.mkdir(mode=0o700, exist_ok=True)

    def live() -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, str(program), str(home), effect, end]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)

    died = 7 if end == "exit" else -signal.SIGKILL
    assert [live().returncode for _ in range(3)] == [died] * 3
    fourth = live()
    assert fourth.returncode == 0, fourth.stderr
    assert "3 processes in a row" in fourth.stdout
    assert "mainstay session release till" in fourth.stdout
    assert (home / "ledger").read_text() == "xxx"

    assert "set aside" in mainstay("session", "show", "till").stdout
    assert json.loads(mainstay("session", "list", "--json").stdout)["sessions"][0]["set_aside"]
    assert "mainstay session release till" in mainstay("doctor", "--offline").stdout
    assert mainstay("session", "release", "till").returncode == 0
    assert live().returncode == died, "released, it runs again"
    assert [live().returncode for _ in range(3)] == [died, died, 0]
    assert mainstay("session", "release", "till", "--fail").stdout == "till ended as failed\n"
    again = mainstay("session", "release", "till")
    assert again.returncode == 1
    assert "no turn that was set aside" in again.stderr
