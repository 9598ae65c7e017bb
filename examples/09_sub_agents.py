# Sub-agents read files concurrently, each in its own session with read-only tools.
# Prints the combined answer, the sub-agents' calls and tools, the token count, and the refusal of a tool not available.

import asyncio
import os
from pathlib import Path

from mainstay import Agent, Config
from mainstay.config.schema import ToolSettings


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    tools = ToolSettings(builtin=("all",), roots=("harbour",))  # also: readonly, none, or by name
    async with Agent(model=model, home="data", config=Config(tools=tools)) as agent:
        before = {one.key for one in await agent.sessions.list()}
        reply = await agent.run("report", "Send one sub-agent for each file, and sum up what they say.")
        print(reply.text)
        sent = [one for one in await agent.sessions.list() if one.spawned and one.key not in before]
        for one in sent:
            print(f"sent by {one.spawned.parent}, call {one.spawned.call_id}, with {', '.join(one.spawned.tools)}")
        print("the children's tokens are in it:", reply.usage.prompt > sum(one.prompt_tokens for one in sent) > 0)

        reply = await agent.run("greedy", "Send one that may use the tool nuke.")
        print(reply.text)


Path("harbour").mkdir(exist_ok=True)
Path("harbour", "north.txt").write_text("12 boats, 3 of them leak\n")
Path("harbour", "south.txt").write_text("7 boats, all sound\n")
asyncio.run(main())
