# Functions as tools: the schema comes from type hints and docstring; each tool declares its effect and its data flow.
# Prints every tool result, then the answer as structured output.

import asyncio
import os
from dataclasses import dataclass

from mainstay import Agent, ToolFinished, TurnEnded, tool

PRICES = {"apple": 0.5, "melon": 3.0}


@tool(effect="pure", untrusted=False, sink=False)  # may run again, and concurrently
def price(fruit: str) -> float:
    """What one piece of a fruit costs, in euros.

    Args:
        fruit: its name, in the singular
    """
    return PRICES[fruit]


@tool(untrusted=False, sink=True)  # `unsafe`, never runs twice for one call; its result is our own text
async def order(fruit: str, count: int) -> str:
    """Order some fruit."""
    return f"ordered {count} x {fruit}"


@dataclass
class Bill:
    total: float
    currency: str


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, tools=[price, order], home="data") as agent:
        async for event in agent.stream("shop", "Order two melons, then say what they cost in all."):
            match event:
                case ToolFinished(result=result):
                    print(f"{result.name} -> {result.content}")
                case TurnEnded():
                    print("done")
        reply = await agent.run("shop", "And the bill?", output=Bill)
        print(reply.output)


asyncio.run(main())
