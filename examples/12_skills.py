# A skill: a folder that says how something is done. Its keyword brings it into the turn that needs it, and what it may
# use narrows what that turn may do. Prints the skills there are, what each call came to, and what was asked about.

import asyncio
import os
from pathlib import Path

from mainstay import Agent, Config, ToolFinished
from mainstay.config.schema import ToolSettings
from mainstay.config.schema_skills import SkillSettings

SKILLS = Path(__file__).parent / "skills"  # or put them into the home: data/skills
NOTES = "2026-03-02, Ana and Bo. We take the blue boat. Ana buys paint by Friday. Who steers?"


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    config = Config(
        skills=SkillSettings(folders=(str(SKILLS),)),
        tools=ToolSettings(builtin=("read", "write"), roots=(str(Path.cwd()),)),
    )
    async with Agent(model=model, home="data", config=config) as agent:
        for skill in await agent.skills("club"):
            print(f"{skill.name} ({skill.trigger}): {skill.description}")

        async for event in agent.stream("club", f"Write the minutes, and a copy to all.md: {NOTES}"):
            match event:
                case ToolFinished(result=result):
                    print(f"{result.name} -> {result.content.splitlines()[0]}")

        for waiting in await agent.approvals.list():
            if waiting.session == "club":  # a copy is not what the skill is for, so somebody is asked
                print(f"{waiting.asked.name} waits: {waiting.asked.why}")
                reply = await agent.approvals.deny(waiting.asked.id, "one file is enough")
                print(reply.text)


asyncio.run(main())
