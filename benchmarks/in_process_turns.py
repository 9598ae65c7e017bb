"""The short turns of the gateway benchmark without a gateway: `agent.run` in this process. Print one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import uvloop
from paced_model_server import SHORT_TOKENS, build_answer

from mainstay import Agent


async def measure(url: str, home: Path, sessions: int, turns: int) -> dict[str, float]:
    expected = build_answer(SHORT_TOKENS)
    agent = Agent(
        model="openai/fake-model",
        base_url=f"{url}/v1",
        api_key="sk-bench",
        instructions="You are a helpful assistant.",
        home=home,
    )
    async with agent:

        async def run_turns(prefix: str, count: int) -> None:
            for session in range(count):
                for turn in range(turns):
                    reply = await agent.run(f"{prefix}{session}", f"turn {turn}, please", id=f"t{turn}")
                    if reply.text != expected:
                        raise SystemExit(f"wrong answer: {reply!r:.300}")

        await run_turns("warm", 5)
        await asyncio.sleep(3.0)  # memory loads its model once; that is not part of a turn
        before_s = time.process_time()
        await run_turns("s", sessions)
        return {"cpu_ms": 1000 * (time.process_time() - before_s) / sessions / turns}


if __name__ == "__main__":
    url, home, sessions, turns = sys.argv[1:]
    print(json.dumps(uvloop.run(measure(url, Path(home), int(sessions), int(turns)))), flush=True)
