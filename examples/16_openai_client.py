# The unmodified OpenAI client with `mainstay serve`: streaming, and a tool that the client provides and runs.
# Prints the streamed text, the tool call that the agent returns to the client, and the answer from its result.

import json
import os
import subprocess
import sys
from urllib.request import Request, urlopen

from openai import OpenAI

MODEL = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TIDE = {"type": "function", "function": {"name": "tide", "description": "High water.", "parameters": PLACE}}


def talk(client: OpenAI) -> None:
    said = [{"role": "user", "content": "Good morning!"}]
    for chunk in client.chat.completions.create(model="mainstay", messages=said, stream=True):
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()

    said = [{"role": "user", "content": "When is high water at Brest?"}]
    message = client.chat.completions.create(model="mainstay", messages=said, tools=[TIDE]).choices[0].message
    for call in message.tool_calls or ():
        print(f"{call.function.name} {call.function.arguments}")
        said += [message, {"role": "tool", "tool_call_id": call.id, "content": "18:37"}]  # a real client looks it up
        message = client.chat.completions.create(model="mainstay", messages=said, tools=[TIDE]).choices[0].message
    print(message.content)


def main() -> None:
    argv = [sys.executable, "-m", "mainstay", "serve", "--home", "data", "--port", "0"]
    env = {**os.environ, "MAINSTAY__MODEL": MODEL, "MAINSTAY__PEOPLE": '{"ann": {"role": "member"}}'}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=env) as server:
        try:
            told = next(line for line in server.stderr or () if line.startswith("mainstay "))
            address = told.split()[-1]  # mainstay 0.1.0 at http://127.0.0.1:43210
            asked = Request(f"{address}/api/keys", b'{"person": "ann"}', {"Content-Type": "application/json"})
            with urlopen(asked, timeout=30) as made:  # local clients need no key, and may create keys
                key = json.load(made)["key"]
            talk(OpenAI(base_url=f"{address}/v1", api_key=key))
        finally:
            server.terminate()


main()
