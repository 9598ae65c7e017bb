# The gateway inside of a web application of your own: people, keys and the whole HTTP API, mounted below /agent.
# Prints who comes in with a key, the answer they get, and what another's key finds of that conversation: nothing.

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
from mainstay.config.loading import load_config
from mainstay.core.people import Person
from mainstay.gateway.service import Service
from mainstay.server.http_app import Web, make_app

HOME, MODEL = Path("data").absolute(), os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")


def ask(url: str, key: str, body: bytes | None = None) -> str:
    try:
        answer = urlopen(Request(url, body, {"X-Api-Key": key, "Content-Type": "application/json"}), timeout=30)
    except HTTPError as error:
        answer = error
    with answer:
        return f"{answer.status} {answer.read().decode()}"


async def main() -> None:
    service = Service(HOME, load_config(HOME, env={}), lambda config: Agent(MODEL, home=HOME, config=config))
    await service.open()  # it owns the home, with an agent for every workspace in it
    service.people.declare([Person(name=name, roles={"default": "member"}) for name in ("ann", "bob")], [])
    ann, bob = [(await service.people.make_key(name, "default", scopes=("chat",)))[0] for name in ("ann", "bob")]
    api = make_app(service.gateway, Web(keys="required"))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=[Mount("/agent", app=api)]), log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as at:
        serving = asyncio.create_task(server.serve(sockets=[at]))
        tea = f"http://127.0.0.1:{at.getsockname()[1]}/agent/api/sessions/tea"
        for url, key, body in ((f"{tea}/prompt", ann, b'{"text": "Tea?"}'), (tea, ann, None), (tea, bob, None)):
            print(await asyncio.to_thread(ask, url, key, body))
        server.should_exit = True
        await asyncio.gather(serving, service.close())


asyncio.run(main())
