# Steer and abort a running turn. Prints the answer of a steered turn, the outcome of an aborted one, and the answer to
# the prompt that was queued after it. Says so if the model was too fast to be steered or aborted.

import asyncio
import os

from mainstay import Aborted, Agent, TextDelta, TurnEnded


async def wait_for_words(agent: Agent, session: str) -> None:
    async for event in agent.watch(session):  # every event of the session
        if isinstance(event, TextDelta | TurnEnded):
            return


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, home="data") as agent:
        listening = asyncio.create_task(wait_for_words(agent, "story"))
        running = asyncio.create_task(agent.run("story", "Tell me a long story about a lighthouse."))
        await listening
        await agent.steer("story", "Stop there, and tell me its moral in one sentence.")
        reply = await running
        await agent.settled()  # if the turn had ended by then, the text became a new prompt
        late = (await agent.sessions.get("story")).turns > reply.turn
        print("too late to steer:" if late else "steered:", reply.text)

        listening = asyncio.create_task(wait_for_words(agent, "story"))
        running = asyncio.create_task(agent.run("story", "Now tell me another long story."))
        await listening
        behind = asyncio.create_task(agent.run("story", "Thank you. Goodbye!"))
        print("stopped:", await agent.abort("story"))
        reply = await running
        if isinstance(reply.outcome, Aborted):
            print(f"aborted after {len(reply.text)} characters")
        else:
            print(f"it was over before it could be stopped: {type(reply.outcome).__name__}")
        print("behind it:", (await behind).text)


asyncio.run(main())
