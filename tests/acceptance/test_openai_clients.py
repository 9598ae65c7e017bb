"""The official OpenAI clients and a third-party chat program against a real server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from support.openai_rig import HOLDS_S, World, served
from support.published_packages import LLM, OPENAI_NODE, node, npm_packages, python_packages

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, StreamFinished, TextPiece
from mainstay.providers.scripted import Call, Pieces, Step
from mainstay.server.http_state import HttpSettings

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "description": "Now.", "parameters": SCHEMA}}
WEATHER_TOO: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}


def speak(context: Context, options: Any) -> Step:
    """Calls what it is offered, and repeats what it was told."""
    last = context.messages[-1]
    tools = [tool.name for tool in context.tools if tool.name in ("weather", "multiply")]
    if last.role == "user" and "please" in last.text and tools:
        return Call(tools[0], {"city": "Oslo"} if tools[0] == "weather" else {"x": 6, "y": 7})
    said = last.text if last.role == "user" else last.parts[0].content  # type: ignore[union-attr]
    words = f"{len(context.messages)}: {said}".split(" ")
    texts = [TextPiece(word + " ") for word in words[:-1]] + [TextPiece(words[-1])]
    return Pieces([*texts, StreamFinished(FinishReason.END, Usage(prompt=9, completion=len(words)))])


async def test_the_official_python_client_streams_calls_tools_and_gets_errors() -> None:
    async with served(speak) as world:
        key = await world.key("ann")
        async with world.client(key) as client:
            assert [one.id async for one in client.models.list()] == ["mainstay", "mainstay/default", "default"]
            assert (await client.models.retrieve("mainstay/default")).id == "mainstay/default"
            await _chats(client)
            await _responds(client)
            with pytest.raises(openai.NotFoundError, match="does not exist"):
                await client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": "hi"}])
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(model="mainstay", messages=[], n=3)
            assert refused.value.param == "n"
        async with world.client("ms_wrong") as stranger:
            with pytest.raises(openai.AuthenticationError) as shut:
                await stranger.models.list()
            assert shut.value.code == "invalid_api_key"


async def _chats(client: openai.AsyncOpenAI) -> None:
    url = {"url": f"data:image/png;base64,{PIXEL}"}
    content: Any = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": url}]
    talk: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": content}]
    async with client.chat.completions.stream(
        model="mainstay", messages=talk, stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type async for event in stream}
        whole = await stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert whole.choices[0].message.content is not None
    assert whole.choices[0].message.content.endswith("look")
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 9
    talk += [whole.choices[0].message, {"role": "user", "content": "the weather, please"}]
    handed = await client.chat.completions.create(model="mainstay", messages=talk, tools=[WEATHER])
    assert handed.choices[0].finish_reason == "tool_calls"
    [call] = handed.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert msgspec.json.decode(call.function.arguments) == {"city": "Oslo"}
    talk += [handed.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "-3"}]
    final = await client.chat.completions.create(model="mainstay", messages=talk, tools=[WEATHER])
    assert final.choices[0].message.content == "5: -3"  # it is one conversation


async def _responds(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="mainstay", input="one two") as stream:
        deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        first = await stream.get_final_response()
    assert "".join(deltas) == first.output_text == "1: one two"
    second = await client.responses.create(
        model="mainstay", input="the weather, please", previous_response_id=first.id, tools=[WEATHER_TOO]
    )
    [call] = second.output
    assert call.type == "function_call"
    third = await client.responses.create(
        model="mainstay",
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "-3"}],
        previous_response_id=second.id,
        tools=[WEATHER_TOO],
    )
    assert third.output_text == "5: -3"
    assert third.usage is not None
    assert (await client.responses.retrieve(third.id)).output_text == "5: -3"


async def test_the_official_python_client_without_asyncio_gets_rate_limit_errors() -> None:
    async with served(speak, web=HttpSettings(rate_per_min=3)) as world:
        key = await world.key("ann")

        def work() -> None:
            with world.sync_client(key) as client:
                chunks = client.chat.completions.create(
                    model="default", messages=[{"role": "user", "content": "a b c"}], stream=True
                )
                text = "".join(one.choices[0].delta.content or "" for one in chunks)
                assert text == "1: a b c"
                assert client.responses.create(model="mainstay", input="hi").output_text == "1: hi"
                assert "mainstay" in [one.id for one in client.models.list()]
                with pytest.raises(openai.RateLimitError) as refused:
                    client.responses.create(model="mainstay", input="hi")
                assert int(refused.value.response.headers["retry-after"]) >= 1

        await asyncio.to_thread(work)


SCRIPT = """
import OpenAI from "openai";
const client = new OpenAI({baseURL: process.env.URL_, apiKey: process.env.KEY_, maxRetries: 0});
const told = {models: []};
for await (const one of client.models.list()) told.models.push(one.id);
const stream = await client.chat.completions.create({
  model: "mainstay", messages: [{role: "user", content: "one two"}],
  stream: true, stream_options: {include_usage: true},
});
told.streamed = "";
for await (const chunk of stream) {
  told.streamed += chunk.choices[0]?.delta?.content ?? "";
  if (chunk.usage) told.usage = chunk.usage.total_tokens;
}
const schema = {type: "object", properties: {city: {type: "string"}}};
const runner = client.chat.completions.runTools({
  model: "mainstay",
  messages: [{role: "user", content: "the weather, please"}],
  tools: [{type: "function", function: {
    name: "weather", description: "Now.", parameters: schema, parse: JSON.parse,
    function: ({city}) => `cold in ${city}`,
  }}],
});
told.ran = await runner.finalContent();
const responding = client.responses.stream({model: "mainstay", input: "three four"});
told.events = [];
responding.on("event", (event) => told.events.push(event.type));
const response = await responding.finalResponse();
told.responded = response.output_text;
const tool = {type: "function", name: "weather", parameters: schema, strict: false};
const handed = await client.responses.create({
  model: "mainstay", input: "the weather, please", previous_response_id: response.id, tools: [tool],
});
const call = handed.output[0];
const last = await client.responses.create({
  model: "mainstay", previous_response_id: handed.id, tools: [tool],
  input: [{type: "function_call_output", call_id: call.call_id, output: "-3"}],
});
told.last = last.output_text;
const stranger = new OpenAI({baseURL: process.env.URL_, apiKey: "ms_wrong", maxRetries: 0});
told.wrong = await stranger.models.list().then(() => "in", (error) => error.constructor.name);
const often = new OpenAI({baseURL: process.env.URL_, apiKey: process.env.OFTEN_, maxRetries: 0});
for (let i = 0; i < 50 && !told.often; i++)
  await often.models.list().catch((error) => { told.often = error.constructor.name; });
console.log(JSON.stringify(told));
"""


async def test_the_official_javascript_client_streams_calls_tools_and_gets_errors() -> None:
    folder = await asyncio.to_thread(npm_packages, *OPENAI_NODE)
    async with served(speak, web=HttpSettings(rate_per_min=40)) as world:
        env = {"URL_": world.url, "KEY_": await world.key("ann"), "OFTEN_": await world.key("bob")}
        told = msgspec.json.decode(await _run([str(node()), "--input-type=module", "-e", SCRIPT], env, folder))
    assert told["models"] == ["mainstay", "mainstay/default", "default"]
    assert (told["streamed"], told["usage"]) == ("1: one two", 12)
    assert told["ran"] == "3: cold in Oslo"
    assert told["events"][0] == "response.created"
    assert told["events"][-1] == "response.completed"
    assert (told["responded"], told["last"]) == ("1: three four", "5: -3")
    assert (told["wrong"], told["often"]) == ("AuthenticationError", "RateLimitError")


async def _run(words: list[str], env: dict[str, str], folder: Path) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), HOLDS_S * 2)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-2000:]
    return out


MULTIPLY = "def multiply(x: int, y: int) -> int:\n    'Multiply.'\n    return x * y\n"


@pytest.fixture
def llm() -> Path:
    """The program `llm`, in an environment of its own."""
    return python_packages(*LLM) / "bin" / "llm"


async def test_a_chat_program_works_by_setting_its_base_url(llm: Path, tmp_path: Path) -> None:
    async with served(speak) as world:
        say = _program(world, llm, tmp_path, await world.key("ann"))
        assert await say("hello there") == "1: hello there"
        assert await say("-c", "--functions", MULTIPLY, "six times seven, please") == "5: 42"
        assert len(await world.agents["default"].sessions.list()) == 1


def _program(world: World, llm: Path, folder: Path, key: str) -> Any:
    known = {"model_id": "ours", "model_name": "mainstay", "api_base": world.url, "api_key_name": "ours"}
    (folder / "extra-openai-models.yaml").write_bytes(msgspec.json.encode([known | {"supports_tools": True}]))
    (folder / "keys.json").write_bytes(msgspec.json.encode({"ours": key}))
    env = {"LLM_USER_PATH": str(folder), "LLM_LOAD_PLUGINS": ""}

    async def say(*words: str) -> str:
        return (await _run([str(llm), "-m", "ours", *words], env, folder)).decode().strip()

    return say
