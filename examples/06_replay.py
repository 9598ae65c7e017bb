# Replay, export and fork a session. Prints whether a replay without a model is identical, the exported history, and the
# answer to another question in a fork that was made before the last one.

import asyncio
import json
import os
from pathlib import Path

from mainstay import Agent, tool


@tool(effect="pure", untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def show(context: Path) -> None:
    """Print what the model saw, one message per line."""
    for message in map(json.loads, context.read_text().splitlines()):
        print(message["id"], message["role"], [part["type"] for part in message["parts"]])


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, tools=[add], home="data") as agent:
        await agent.run("sums", "What is 2 + 3? Use the tool.")
        before = (await agent.sessions.get("sums")).head  # the sequence of the last record
        await agent.run("sums", "And twice that?")

        replayed = await agent.sessions.replay("sums")
        print(f"replayed {replayed.turns} turns, {replayed.records} records, identical: {replayed.is_identical}")

        await agent.sessions.export("sums", "exported")
        show(Path("exported/context.jsonl"))

        await agent.sessions.fork("sums", f"what-if-{before}", upto=before)
        print((await agent.run(f"what-if-{before}", "And half of that?")).text)


asyncio.run(main())
