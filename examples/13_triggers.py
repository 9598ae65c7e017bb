# Start turns with triggers, when a file appears, at a time, or on a cron schedule. Each trigger is a file in the home.
# Prints when each is due, the outcome of every run, and that the fired file was moved to the folder done.

import asyncio
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mainstay import Agent
from mainstay.core.triggers import Trigger, TriggerRun, TriggerTarget

EVENTS = Path("data/events")
HARBOUR = TriggerTarget(session="harbour")
STORM = Trigger(name="storm", kind="periodic", text="Any storm?", target=HARBOUR, schedule="30 6 * * *", missed="skip")


def drop(name: str, event: dict[str, str]) -> None:
    (EVENTS / name).write_text(json.dumps(event))  # any program can do that; incomplete files are read again


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, home="data") as agent:
        began, soon = time.time() * 1000, (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
        await agent.triggers.add(STORM, replace=True)
        tide = Trigger(name="tide", kind="one-shot", text="High water.", target=HARBOUR, schedule=soon)
        await agent.triggers.add(tide, replace=True)
        for status in await agent.triggers.list():
            due = datetime.fromtimestamp(status.next / 1000, UTC)
            print(f"{status.name} ({status.kind}) is due at {due:%H:%M} UTC")

        await agent.triggers.start()  # fires triggers while the agent is open
        drop("ferry.json", {"type": "immediate", "threadId": "harbour", "text": "The ferry has left."})
        await agent.triggers.run("storm")  # manually, in addition to its schedule

        runs: list[TriggerRun] = []
        while len(runs) < 3:
            await asyncio.sleep(0.1)
            runs = [run for run in await agent.triggers.history() if run.at > began and run.outcome]
        for run in sorted(runs, key=lambda run: run.trigger):
            print(f"{run.trigger}: {run.result} in {run.session}, {run.outcome}")
    print("put away:", (EVENTS / "done" / "ferry.json").exists())


asyncio.run(main())
