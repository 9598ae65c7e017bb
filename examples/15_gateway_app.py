# The gateway in your own web application: users, API keys and the whole HTTP API, mounted at /agent.
# Prints the answer to a prompt, the session as its owner sees it, and the 404 that another user's key gets for it.

import asyncio
import os
import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstay import Agent
from mainstay.config.loader import load_config
from mainstay.core.people import Person
from mainstay.gateway.service import GatewayService
from mainstay.server.http_app import HttpSettings, create_app

HOME, MODEL = Path("data").absolute(), os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")


def ask(url: str, key: str, body: bytes | None = None) -> str:
    try:
        answer = urlopen(Request(url, body, {"X-Api-Key": key, "Content-Type": "application/json"}), timeout=30)
    except HTTPError as error:
        answer = error
    with answer:
        return f"{answer.status} {answer.read().decode()}"


async def main() -> None:
    service = GatewayService(HOME, load_config(HOME, env={}), lambda config: Agent(MODEL, home=HOME, config=config))
    await service.open()  # it owns the home, with an agent for every workspace
    service.people.set_declared([Person(name=name, roles={"default": "member"}) for name in ("ann", "bob")], [])
    ann, bob = [(await service.people.create_key(name, "default", scopes=("chat",)))[0] for name in ("ann", "bob")]
    api = create_app(service.gateway, HttpSettings(keys="required"))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=[Mount("/agent", app=api)]), log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as at:
        serving = asyncio.create_task(server.serve(sockets=[at]))
        tea = f"http://127.0.0.1:{at.getsockname()[1]}/agent/api/sessions/tea"
        for url, key, body in ((f"{tea}/prompt", ann, b'{"text": "Tea?"}'), (tea, ann, None), (tea, bob, None)):
            print(await asyncio.to_thread(ask, url, key, body))
        server.should_exit = True
        await asyncio.gather(serving, service.close())


asyncio.run(main())
