"""The same turns as through the gateway, without one: `agent.run` in this process. Prints one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import uvloop
from gateway_model import SHORT, answer

from mainstay import Agent


async def run(url: str, home: Path, sessions: int, turns: int) -> dict[str, float]:
    said = answer(SHORT)
    agent = Agent(
        model="openai/fake-model",
        base_url=f"{url}/v1",
        api_key="sk-bench",
        instructions="You are a helpful assistant.",
        home=home,
    )
    async with agent:

        async def some(name: str, count: int) -> None:
            for session in range(count):
                for turn in range(turns):
                    reply = await agent.run(f"{name}{session}", f"turn {turn}, please", id=f"t{turn}")
                    if reply.text != said:
                        raise SystemExit(f"other words: {reply!r:.300}")

        await some("warm", 5)
        await asyncio.sleep(3.0)  # what memory loads once is not the price of a turn
        before = time.process_time()
        await some("s", sessions)
        return {"cpu_ms": 1000 * (time.process_time() - before) / sessions / turns}


if __name__ == "__main__":
    given = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(uvloop.run(run(*given))), flush=True)
