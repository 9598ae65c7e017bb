# Judges check answers before they are shown, and have the model correct answers that fail.
# Prints the scores of each attempt, then a judged answer, and whether it passed.

import asyncio
import os

from mainstay import Agent, Answered, Judge
from mainstay.core.events import Judged
from mainstay.core.judges import JudgeInput


def brief(exhibit: JudgeInput) -> tuple[bool, str]:
    """A judge function returns a bool or a score from 0 to 1, optionally with a reason for the model."""
    words = len(exhibit.answer.split())
    return words <= 12, f"it has {words} words; twelve are enough"


sourced = Judge(  # a model with criteria; the default `model` is the one that answered
    "sourced",
    criteria="The answer says where its number comes from. One that only states a number fails.",
    timeout_s=30,
    weight=2,
)


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, home="data", judges=[brief, sourced]) as agent:
        async for event in agent.stream("judged", "How tall is the Eiffel Tower?"):
            match event:
                case Judged(score=score, attempt=attempt, tries=tries):
                    print(f"attempt {attempt} of {tries}: {score:.2f}")
                    for one in event.scores:
                        print(f"  {one.judge}: {one.error or one.score}")

        reply = await agent.run("judged", "And the Tour Montparnasse?")
        print(reply.text)
        if isinstance(reply.outcome, Answered):
            print("passed:", reply.outcome.passed)


asyncio.run(main())
