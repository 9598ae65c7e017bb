# A durable agent in a few lines. Prints two answers (the second shows that the session is remembered) and their cost.
# Run it again: the session continues, because it is stored in ./data.

import asyncio
import os

from mainstay import Agent


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, instructions="You are terse.", home="data") as agent:
        print((await agent.run("hello", "My name is Ada.")).text)
        reply = await agent.run("hello", "What is my name?")
        print(reply.text)
        print(f"turn {reply.turn}: {reply.usage.prompt} tokens in, {reply.usage.completion} out, ${reply.cost:.6f}")


asyncio.run(main())
