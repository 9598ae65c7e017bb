# Use a skill, a folder with instructions for a task. A keyword in the prompt adds it to the turn, and its allowed tools
# restrict that turn. Prints the available skills, the result of each call, and the call that needs approval.

import asyncio
import os
from pathlib import Path

from mainstay import Agent, Config, ToolFinished
from mainstay.config.schema import ToolSettings
from mainstay.config.schema_skills_patterns_triggers import SkillSettings

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
            if waiting.session == "club":  # the skill does not allow a second file, so it needs approval
                print(f"{waiting.asked.name} waits: {waiting.asked.why}")
                reply = await agent.approvals.deny(waiting.asked.id, "one file is enough")
                print(reply.text)


asyncio.run(main())
