"""How much of every request the provider has seen before: its prompt cache is worth most of the bill.

A hundred turns with tools and fifty tool schemas, through a real agent with its memory on. The model is a double that
keeps the bytes of every request, as the provider would get them. Run as `python benchmarks/cache.py`.
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
_SAMPLE = "river mountain window paper signal garden engine harvest market silver theory bridge coffee planet"
WORDS = _SAMPLE.split()


class Recorder:
    """Answers by dice, two or three tool calls a turn, and keeps every request's bytes."""

    def __init__(self, window: int, seed: int = 1) -> None:
        self._wire = OpenAIProvider("gpt-4.1-mini", info=ModelInfo(name="gpt-4.1-mini", window=window))
        self._chance = random.Random(seed)
        self.bodies: list[bytes] = []
        self.summaries = 0

    def model(self) -> ModelInfo:
        return self._wire.model()

    async def close(self) -> None:
        await self._wire.close()

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        chance = self._chance
        if "You write the memory of a conversation" in context.system:
            self.summaries += 1
            yield TextPiece(json.dumps({"summary": prose(chance, 120), "facts": []}))
            yield StreamFinished(FinishReason.END, Usage(100, 100))
            return
        self.bodies.append(self._wire.build_body(context, options))
        usage = Usage(1000, 20)
        if options.step <= 2 or (options.step == 3 and chance.random() < 0.5):
            inline = any(tool.name == "tool_0" for tool in context.tools)
            name, arguments = f"tool_{chance.randrange(TOOLS)}", {"query": prose(chance, 5)}
            given = arguments if inline else {"name": name, "arguments": arguments}
            yield ToolCallPiece(0, name if inline else "call_tool", json.dumps(given))
            yield StreamFinished(FinishReason.TOOL_CALLS, usage)
        else:
            yield TextPiece(prose(chance, 60))
            yield StreamFinished(FinishReason.END, usage)


def prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


def fifty_tools(chance: random.Random) -> list[FunctionTool]:
    def make(number: int) -> FunctionTool:
        async def work(query: str, limit: int = 10, exact: bool = False) -> str:
            return prose(chance, 150)

        about = f"Looks up {prose(chance, 8)} in the {chance.choice(WORDS)} register and returns what it finds."
        return FunctionTool(work, name=f"tool_{number}", description=about, effect="pure")

    return [make(number) for number in range(TOOLS)]


def measured(bodies: list[bytes]) -> dict[str, Any]:
    """Tokens that repeat a prefix already sent, and where a request was not the one before plus something."""
    count = tokenizer_for(ModelInfo(name="gpt-4.1-mini")).count
    total = repeated = breaks = 0
    before = b""
    for body in bodies:
        end = body.rindex(b"]}")  # the history's end: what comes next is appended before it
        same = _common(before, body[:end])
        whole = count(body.decode())
        if same < len(before):
            breaks += 1
        repeated += round(whole * same / len(body))
        total += whole
        before = body[:end]
    return {"requests": len(bodies), "tokens": total, "repeated": repeated / total, "breaks": breaks}


def _common(left: bytes, right: bytes) -> int:
    if right.startswith(left):
        return len(left)
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


async def run(*, window: int, catalogue: bool) -> dict[str, Any]:
    chance = random.Random(2)
    model = Recorder(window)
    config = Config(limits=Limits(tools_inline_max=40 if catalogue else 1000))
    with tempfile.TemporaryDirectory() as home:
        agent = Agent(model, tools=fifty_tools(chance), instructions="You are a clerk.", home=Path(home), config=config)
        async with agent:
            hello = await _hello(agent, model)
            model.bodies.clear()
            for _ in range(TURNS):
                await agent.run("work", prose(chance, 30))
            await agent.settled()
    return {
        "window": window,
        "catalogue": catalogue,
        "hello": hello,
        "folds": model.summaries,
        **measured(model.bodies),
    }


async def _hello(agent: Agent, model: Recorder) -> int:
    """Tokens of a bare hello."""
    await agent.run("greeting", "hello")
    body = json.loads(model.bodies[0])
    count = tokenizer_for(ModelInfo(name="gpt-4.1-mini")).count
    texts = [json.dumps(one["function"], separators=(",", ":")) for one in body["tools"]]
    return sum(count(text) + 8 for text in [*texts, *(str(one["content"]) for one in body["messages"])])


async def rows() -> list[dict[str, Any]]:
    return [
        await run(window=window, catalogue=catalogue)
        for window, catalogue in ((128_000, True), (128_000, False), (32_000, True), (32_000, False))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    options = parser.parse_args()
    found = asyncio.run(rows())
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    print("| window | tools | hello, tokens | requests | tokens sent | repeat a prefix | folds | breaks |")
    print("|---|---|---|---|---|---|---|---|")
    for one in found:
        kind = "catalogue" if one["catalogue"] else "50 schemas"
        print(
            f"| {one['window']:,} | {kind} | {one['hello']:,} | {one['requests']} | {one['tokens']:,} "
            f"| {one['repeated']:.2%} | {one['folds']} | {one['breaks']} |"
        )


if __name__ == "__main__":
    main()
