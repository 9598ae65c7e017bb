# Search and memory across sessions: by you, with full-text and vector search, and by the model with its tools.
# Prints search hits, an answer of the model from memory, the context sections, and that a forgotten message is gone.

import asyncio
import os

from mainstay import Agent, tool


@tool(effect="pure", untrusted=False, sink=False)
def today() -> str:
    """What day it is."""
    return "Tuesday"


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, tools=[today], home="data") as agent:  # with tools, the model gets memory tools too
        await agent.run("lisbon", "The flat in Lisbon is on Rua das Flores 12; the key is with Ana.")
        await agent.run("garden", "The roses want water twice a week.")

        for hit in await agent.memory.search("Who has the key to the flat?", k=2):
            print(f"{hit.message_id:10} {hit.speaker}: {hit.text}")

        reply = await agent.run("monday", "Where can I get the key to the flat? Look it up.")
        print(reply.text)

        await agent.memory.remember("Always answer in metric units.", tags=["preference"], pin=True)
        sections = (await agent.sessions.context("monday")).sections
        print({section.name: section.tokens > 0 for section in sections})

        (first, *_) = await agent.memory.search("key flat Lisbon", session="lisbon")
        await agent.memory.forget(first.message_id)
        found = await agent.memory.search("Rua das Flores", session="lisbon")
        print("still there:", [hit.message_id for hit in found if "Flores" in hit.text])


asyncio.run(main())
