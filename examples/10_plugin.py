# Use a plugin, whose tools run in a separate, sandboxed process. The agent gets the tools that an allow rule names.
# Prints the result of each call in two sessions: a note from the first is found in the second, labelled as untrusted.

import asyncio
import os
from pathlib import Path

from mainstay import Agent, Config, ToolFinished
from mainstay.config.schema import PolicySettings
from mainstay.config.schema_external_tools import PluginEntry

NOTES = Path(__file__).parent / "plugins" / "notes"


async def ask(agent: Agent, session: str, prompt: str) -> None:
    async for event in agent.stream(session, prompt):
        match event:
            case ToolFinished(result=result):
                print(f"{session}: {result.name} -> {result.content} ({result.origin or 'our own words'})")


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    config = Config(
        plugins={"notes": PluginEntry(path=str(NOTES))},  # from its folder; `mainstay plugin add` installs and pins one
        policy=PolicySettings(allow=("notes__add", "notes__read", "notes__titles")),  # the others are not offered
    )
    async with Agent(model=model, home="data", config=config) as agent:
        for trouble in await agent.problems():  # for example: there is no sandbox here
            print(trouble)
        await ask(agent, "write", "Note that the boat leaves at nine.")
        await ask(agent, "read", "When does the boat leave? Look into the notes. Then remove the note.")


asyncio.run(main())
