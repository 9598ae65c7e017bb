# Reaching into a running turn. Prints how a turn went that was given a new wish on its way, and how one ended that was
# stopped; the prompt that waited behind it ran all the same.

import asyncio
import os

from mainstay import Aborted, Agent, TextDelta, TurnEnded


async def wait_for_words(agent: Agent, session: str) -> None:
    async for event in agent.watch(session):  # every event of the session, until we stop listening
        if isinstance(event, TextDelta | TurnEnded):
            return


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, home="data") as agent:
        listening = asyncio.create_task(wait_for_words(agent, "story"))
        running = asyncio.create_task(agent.run("story", "Tell me a long story about a lighthouse."))
        await listening
        await agent.steer("story", "Stop there, and tell me its moral in one sentence.")
        print("steered:", (await running).text)

        listening = asyncio.create_task(wait_for_words(agent, "story"))
        running = asyncio.create_task(agent.run("story", "Now tell me another long story."))
        await listening
        behind = asyncio.create_task(agent.run("story", "Thank you. Goodbye!"))
        print("stopped:", await agent.abort("story"))
        reply = await running
        assert isinstance(reply.outcome, Aborted)
        print(f"aborted after {len(reply.text)} characters")
        print("behind it:", (await behind).text)


asyncio.run(main())
