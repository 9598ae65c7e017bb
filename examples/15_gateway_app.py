# The gateway inside of a web application of your own: people, keys and the whole HTTP API, mounted below /agent.
# Prints who comes in with a key, the answer they get, and what another's key finds of that conversation: nothing.

import asyncio
import os
import socket
import urllib.error
import urllib.request
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstay import Agent
from mainstay.app.config import load_config
from mainstay.app.service import Service
from mainstay.core.people import Person
from mainstay.server.http_app import Web, make_app

HOME = Path("data").absolute()
MODEL = os.environ.get("MAINSTAY_MODEL", "openai/gpt-4.1-mini")


def ask(url: str, key: str, body: bytes | None = None) -> str:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"


async def main() -> None:
    service = Service(HOME, load_config(HOME, env={}), lambda config: Agent(MODEL, home=HOME, config=config))
    await service.open()  # it owns the home, with an agent for every workspace in it
    service.people.declare([Person(name=name, roles={"default": "member"}) for name in ("ann", "bob")], [])
    ann, bob = [(await service.people.make_key(name, "default", scopes=("chat",)))[0] for name in ("ann", "bob")]
    app = Starlette(routes=[Mount("/agent", app=make_app(service.gateway, Web(keys="required")))])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as at:
        serving = asyncio.create_task(server.serve(sockets=[at]))
        tea = f"http://127.0.0.1:{at.getsockname()[1]}/agent/api/sessions/tea"
        print(await asyncio.to_thread(ask, f"{tea}/prompt", ann, b'{"text": "Tea?"}'))
        for key in (ann, bob):
            print(await asyncio.to_thread(ask, tea, key))
        server.should_exit = True
        await serving
    await service.close()


asyncio.run(main())
