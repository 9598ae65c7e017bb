# Webhooks in your own web application: a signed request to /hooks/NAME becomes a prompt.
# Prints the responses to a delivery and to its retry, then an answer that shows that the agent got it.

import asyncio
import json
import os
import socket
import time
import urllib.request

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstay import Agent, Config
from mainstay.config.schema_skills_patterns_triggers import TriggerSettings, WebhookEntry
from mainstay.io.webhook_signatures import sign_webhook

SECRET = os.environ.get("CI_SECRET", "only for an example, and long enough")
CI = WebhookEntry(secret=SECRET, session="builds", text="A build ended. What next?", template="{{ job }}: {{ result }}")


def post(url: str, body: bytes, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return f"{answer.status} {answer.read().decode()}"


async def main() -> None:
    model = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")
    config = Config(triggers=TriggerSettings(webhooks={"ci": CI}))
    async with Agent(model=model, home="data", config=config) as agent:
        app = Starlette(routes=[Mount("/", app=await agent.triggers.app())])  # next to your own routes
        server = uvicorn.Server(uvicorn.Config(app, ws="none", log_level="warning"))
        at = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve(sockets=[at]))

        url = f"http://127.0.0.1:{at.getsockname()[1]}/hooks/ci"
        body = json.dumps({"job": "tests", "result": "failed", "at": time.time()}).encode()
        signed = sign_webhook("timestamp", SECRET, body, at_s=int(time.time()))
        for _ in range(2):  # senders retry; the delivery is accepted once
            print(await asyncio.to_thread(post, url, body, signed))
        print((await agent.run("builds", "Which job was that?")).text)  # queued after the delivery's turn
        server.should_exit = True
        await serving


asyncio.run(main())
