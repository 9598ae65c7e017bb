# Resume after a crash (durable execution): a process is killed twice in a tool call. Prints what three processes do:
# the idempotent tool runs again; the unsafe one does not, and the model is told that its outcome is unknown.

import asyncio
import os
import signal
import subprocess
import sys

from mainstay import Agent, ToolFinished, tool


def work(name: str) -> str:
    print(f"  {name} at work", flush=True)
    if os.environ.get("DIE_IN") == name:
        os.kill(os.getpid(), signal.SIGKILL)  # no cleanup
    return "done"


@tool(effect="idempotent", untrusted=False, sink=True)
def save_note(text: str) -> str:
    """Save a note. Saving it twice is saving it once."""
    return work("save_note")


@tool(untrusted=False, sink=True)
def charge(euros: int) -> str:
    """Charge the customer's card."""
    return work("charge")


async def live() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, tools=[save_note, charge], home="data") as agent:
        prompt = "Save the note 'milk', then charge 5 euros. One tool at a time."
        async for event in agent.stream("errands", prompt, id=sys.argv[2]):  # idempotency key: the same turn
            if isinstance(event, ToolFinished):
                print(f"  {event.result.name}: {event.result.content}", flush=True)
        print("  answer:", (await agent.run("errands", prompt, id=sys.argv[2])).text)


if sys.argv[1:2] == ["live"]:
    asyncio.run(live())
else:
    for victim in ("save_note", "charge", "nothing"):
        print(f"a process that dies in {victim}:", flush=True)
        command = [sys.executable, __file__, "live", f"errand-{os.getpid()}"]
        subprocess.run(command, env={**os.environ, "DIE_IN": victim})
