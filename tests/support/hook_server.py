"""Webhooks on a real server, real lanes and a real store; `python hook_server.py FOLDER LOOP`: as a process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

from mainstay.agent.system_clock import SystemClock
from mainstay.core.events import Received
from mainstay.core.input_envelope import InputEnvelope
from mainstay.core.limits import Limits
from mainstay.core.messages import Text, parts_text
from mainstay.core.outcome import Reply
from mainstay.core.ports import Context, Options
from mainstay.core.triggers import TRIGGER_ID_PREFIX, SubmittedPrompt, Trigger, TriggerRun, TriggerTarget, Webhook
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices
from mainstay.providers.scripted import ScriptedProvider, Step
from mainstay.store.sqlite.store import SqliteStore
from mainstay.triggers.webhook_app import ASGIApp, WebhookAppLimits, build_webhook_app
from mainstay.triggers.webhook_delivery_handler import WebhookDeliveryHandler
from mainstay.turn.toolbox import Toolbox

T = TypeVar("T")

SECRET = "a secret of some length"
STANDARD = "whsec_" + base64.b64encode(b"twenty-four bytes of it.").decode()
GITHUB = "It's a Secret to Everybody"
HOOKS = {
    "ci": Webhook(name="ci", secret=SECRET, target=TriggerTarget(session="builds"), text="A build ended:"),
    "rooms": Webhook(name="rooms", secret="for rooms, long enough", target=TriggerTarget(channel="chat", room="ops")),
    "standard": Webhook(name="standard", secret=STANDARD, target=TriggerTarget(session="payments"), scheme="standard"),
    "github": Webhook(
        name="github",
        secret=GITHUB,
        target=TriggerTarget(session="issues"),
        scheme="github",
        template="{{ sender.login }} opened {{ issue.title }}",
    ),
}


class LaneAdapter:
    """A minimal adapter from triggers to lanes."""

    def __init__(self, lanes: LaneRegistry, store: SqliteStore) -> None:
        self._lanes = lanes
        self._store = store

    def _place(self, trigger: Trigger, key: str) -> tuple[str, str]:
        target = trigger.target
        session = target.session or f"{target.channel}:{target.room}:{trigger.name}-{key[:12]}"
        return session, f"{TRIGGER_ID_PREFIX}{trigger.name}:{key}"

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        session, id = self._place(trigger, key)
        seen = await self._store.find_input(session, id)
        return SubmittedPrompt(session, seen[0]) if seen is not None else None

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        if (before := await self.find_submitted(trigger, key)) is not None:
            return before
        session, id = self._place(trigger, key)
        said = (Text(trigger.text), Text(trigger.data, origin=f"untrusted:{TRIGGER_ID_PREFIX}{trigger.name}"))
        parts = tuple(one for one in said if one.text)
        ticket = await self._lanes.get(session).accept(InputEnvelope(parts=parts, thread=session, id=id))
        return SubmittedPrompt(session, ticket.seq, ticket.reply)

    async def get_outcome(self, session: str, seq: int) -> str:
        return ""


class WebhookRig:
    """A home with webhooks. `answer` is what the model says."""

    def __init__(self, folder: Path, *, answer: Callable[[Context, Options], Step] | None = None) -> None:
        limits = Limits(ride_along_s=0.001)
        provider = ScriptedProvider(answer or (lambda context, options: "Very well."))
        self.store = SqliteStore(str(folder / "workspace.db"), limits=limits)
        self.clock = SystemClock()
        self.lanes = LaneRegistry(
            LaneServices(
                store=self.store,
                provider_for=lambda spec: provider,
                tools=Toolbox([], limits),
                limits=limits,
                clock=self.clock,
                hub=EventHub(64),
            )
        )
        self.runs: list[TriggerRun] = []

    async def open(self) -> None:
        await self.store.open()
        await self.lanes.resume_unfinished()
        self.log = self.store.trigger_log()
        self.deliveries = WebhookDeliveryHandler(
            LaneAdapter(self.lanes, self.store), self.log, self.clock, self._follow
        )

    def _follow(self, run: TriggerRun, reply: Awaitable[Reply]) -> None:
        self.runs.append(run)

    async def close(self) -> None:
        await self.lanes.close()
        await self.store.close()

    def app(self, hooks: Mapping[str, Webhook] = HOOKS, bounds: WebhookAppLimits | None = None) -> ASGIApp:
        return build_webhook_app(hooks, self.deliveries.deliver, clock=self.clock, standalone=True, limits=bounds)

    async def said(self, session: str) -> list[str]:
        """What was received in a session, in order."""
        records = await self.store.read_records(session, limit=100_000)
        return [parts_text(record.event.parts) for record in records if isinstance(record.event, Received)]


class Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: Any) -> Any:
    """On loopback; gives the port."""
    at = socket.socket()
    at.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=1
    )
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[at]))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    try:
        yield at.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        at.close()


async def run_process(folder: Path) -> None:
    rig = WebhookRig(folder)
    await rig.open()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with serving(rig.app()) as port:
        print(port, flush=True)
        await stop.wait()
    await rig.close()


def loop_of(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_of(sys.argv[2])) as runner:
        runner.run(run_process(Path(sys.argv[1])))
