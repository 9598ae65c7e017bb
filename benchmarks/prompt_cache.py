"""Prompt cache hits: how much of every request repeats the previous request from its first byte.

A hundred turns with tool calls and fifty tools, through a real agent with memory on. The model is a test double that
records the bytes of every request as the provider would receive them. Run as `python benchmarks/prompt_cache.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mainstay import Agent, Config, Limits
from mainstay.context.tokenizers import tokenizer_for
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tools import FunctionTool
from mainstay.providers.openai.provider import OpenAIProvider

TURNS = 100
TOOLS = 50
_WORD_LIST = "river mountain window paper signal garden engine harvest market silver theory bridge coffee planet"
WORDS = _WORD_LIST.split()


class RecordingProvider:
    """A provider with random answers, two or three tool calls per turn, that records the bytes of every request."""

    def __init__(self, window: int, seed: int = 1) -> None:
        self._openai = OpenAIProvider("gpt-4.1-mini", info=ModelInfo(name="gpt-4.1-mini", window=window))
        self._rng = random.Random(seed)
        self.bodies: list[bytes] = []
        self.summaries = 0

    def model(self) -> ModelInfo:
        return self._openai.model()

    async def close(self) -> None:
        await self._openai.close()

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        rng = self._rng
        if "You write the memory of a conversation" in context.system:
            self.summaries += 1
            yield TextPiece(json.dumps({"summary": generate_prose(rng, 120), "facts": []}))
            yield StreamFinished(FinishReason.END, Usage(100, 100))
            return
        self.bodies.append(self._openai.build_body(context, options))
        usage = Usage(1000, 20)
        if options.step <= 2 or (options.step == 3 and rng.random() < 0.5):
            inline = any(tool.name == "tool_0" for tool in context.tools)
            name, arguments = f"tool_{rng.randrange(TOOLS)}", {"query": generate_prose(rng, 5)}
            call_arguments = arguments if inline else {"name": name, "arguments": arguments}
            yield ToolCallPiece(0, name if inline else "call_tool", json.dumps(call_arguments))
            yield StreamFinished(FinishReason.TOOL_CALLS, usage)
        else:
            yield TextPiece(generate_prose(rng, 60))
            yield StreamFinished(FinishReason.END, usage)


def generate_prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def build_tools(rng: random.Random) -> list[FunctionTool]:
    def build_tool(number: int) -> FunctionTool:
        async def look_up(query: str, limit: int = 10, exact: bool = False) -> str:
            return generate_prose(rng, 150)

        description = (
            f"Looks up {generate_prose(rng, 8)} in the {rng.choice(WORDS)} register and returns what it finds."
        )
        return FunctionTool(
            look_up, name=f"tool_{number}", description=description, effect="pure", untrusted=False, sink=False
        )

    return [build_tool(number) for number in range(TOOLS)]


def count_repeated_tokens(bodies: list[bytes]) -> dict[str, Any]:
    """Count tokens that repeat the previous request's prefix, and requests that do not extend the previous one."""
    count = tokenizer_for(ModelInfo(name="gpt-4.1-mini")).count
    total = repeated = breaks = 0
    previous = b""
    for body in bodies:
        end = body.rindex(b"]}")  # end of the message list: the next request appends here
        common = measure_common_prefix(previous, body[:end])
        tokens = count(body.decode())
        if common < len(previous):
            breaks += 1
        repeated += round(tokens * common / len(body))
        total += tokens
        previous = body[:end]
    return {"requests": len(bodies), "tokens": total, "repeated": repeated / total, "breaks": breaks}


def measure_common_prefix(left: bytes, right: bytes) -> int:
    if right.startswith(left):
        return len(left)
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


async def measure(*, window: int, catalogue: bool) -> dict[str, Any]:
    rng = random.Random(2)
    model = RecordingProvider(window)
    config = Config(limits=Limits(tools_inline_max=40 if catalogue else 1000))
    with tempfile.TemporaryDirectory() as home:
        agent = Agent(model, tools=build_tools(rng), instructions="You are a clerk.", home=Path(home), config=config)
        async with agent:
            hello = await measure_hello(agent, model)
            model.bodies.clear()
            for _ in range(TURNS):
                await agent.run("work", generate_prose(rng, 30))
            await agent.settled()
    return {
        "window": window,
        "catalogue": catalogue,
        "hello": hello,
        "folds": model.summaries,
        **count_repeated_tokens(model.bodies),
    }


async def measure_hello(agent: Agent, model: RecordingProvider) -> int:
    """Tokens of the first request of a session whose prompt is "hello"."""
    await agent.run("greeting", "hello")
    body = json.loads(model.bodies[0])
    count = tokenizer_for(ModelInfo(name="gpt-4.1-mini")).count
    texts = [json.dumps(tool["function"], separators=(",", ":")) for tool in body["tools"]]
    return sum(count(text) + 8 for text in [*texts, *(str(message["content"]) for message in body["messages"])])


async def measure_all() -> list[dict[str, Any]]:
    return [
        await measure(window=window, catalogue=catalogue)
        for window, catalogue in ((128_000, True), (128_000, False), (32_000, True), (32_000, False))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    results = asyncio.run(measure_all())
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print("| window | tools | hello, tokens | requests | tokens sent | repeat a prefix | folds | breaks |")
    print("|---|---|---|---|---|---|---|---|")
    for row in results:
        kind = "catalogue" if row["catalogue"] else "50 schemas"
        print(
            f"| {row['window']:,} | {kind} | {row['hello']:,} | {row['requests']} | {row['tokens']:,} "
            f"| {row['repeated']:.2%} | {row['folds']} | {row['breaks']} |"
        )


if __name__ == "__main__":
    main()
