# Stream the events of a turn. Prints the answer as it is generated, and one line for each other event worth showing.

import asyncio
import os

from mainstay import (
    Agent,
    StepRestarted,
    TextDelta,
    ToolCallReady,
    ToolContext,
    ToolFinished,
    ToolProgress,
    TurnEnded,
    tool,
)


@tool(effect="pure", untrusted=False, sink=False, timeout_s=60)
async def count_words(text: str, context: ToolContext) -> int:
    """Count the words of a text."""
    context.progress("counting")  # sent to subscribers, not stored
    return len(text.split())


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    async with Agent(model=model, tools=[count_words], home="data") as agent:
        async for event in agent.stream("poem", "Write two lines about the sea and count their words with the tool."):
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case ToolCallReady(name=name, input=arguments):
                    print(f"\n[{name} {arguments}]")
                case ToolProgress(note=note):
                    print(f"[{note} ...]")
                case ToolFinished(result=result):
                    print(f"[{result.name} says {result.content}]")
                case StepRestarted(reason=reason):
                    print(f"\n[{reason}: forget the last words, the model is asked again]")
                case TurnEnded(outcome=outcome):
                    print(f"\n[{type(outcome).__name__}]")


asyncio.run(main())
