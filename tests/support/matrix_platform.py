"""Matrix as a test plays it: people and rooms on a real homeserver, and a proxy before it that can be made to fail."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from yarl import URL

from mainstay.channels.matrix.channel import MatrixChannel
from mainstay.channels.matrix.client import MatrixCredentials
from mainstay.testing.channel_suite import PostedMessage
from support.synapse_server import Synapse

BOT, ANN, BEN = "@agent:localhost", "@ann:localhost", "@ben:localhost"
CALLED = "The Agent"
_numbers = itertools.count()


class Proxy:
    """Hands everything on to the homeserver, but for what it was told to spoil."""

    def __init__(self, upstream: str) -> None:
        self.url = ""
        self.paths: list[str] = []  # that were asked for
        self.refuse_s = 0.0  # the next post is refused for so long
        self.swallow = False  # the answer to the next post is cut off
        self.sinces: list[str] = []  # that were asked for, the newest last
        self.rewind: str = ""  # the next sync begins here
        self._upstream = upstream
        self._open: set[asyncio.Transport] = set()
        self._syncing: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with aiohttp.ClientSession(auto_decompress=False) as self._session:
                yield self
        finally:
            await runner.cleanup()

    def asked(self, end: str) -> int:
        """How often a path with this end was."""
        return sum(path.endswith(end) for path in self.paths)

    def cut(self) -> None:
        for transport in self._open:
            transport.abort()
        self._open.clear()

    def end_syncs(self) -> None:
        for one in self._syncing:
            if not one.done():
                one.set_result(None)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        self.paths.append(request.path)
        posts = request.method == "PUT" and "/send/m.room.message/" in request.path
        if posts and self.refuse_s:
            body = {"errcode": "M_LIMIT_EXCEEDED", "error": "too soon", "retry_after_ms": int(self.refuse_s * 1000)}
            self.refuse_s = 0.0
            return web.json_response(body, status=429)
        if request.path.endswith("/sync"):
            return await self._sync(request)
        status, headers, body = await self._forward(request, request.path_qs)
        if posts and self.swallow:
            self.swallow = False
            request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            request.transport.close()
        return web.Response(status=status, headers=headers, body=body)

    async def _sync(self, request: web.Request) -> web.StreamResponse:
        since = request.query.get("since", "")
        self.sinces.append(since)
        target = request.path_qs
        if self.rewind:
            target, self.rewind = target.replace(quote(since), quote(self.rewind)), ""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._syncing.add(ended)
        answering = asyncio.ensure_future(self._forward(request, target))
        try:
            await asyncio.wait((ended, answering), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return web.json_response({"next_batch": since})
            status, headers, body = answering.result()
            return web.Response(status=status, headers=headers, body=body)
        finally:
            self._syncing.discard(ended)
            answering.cancel()

    async def _forward(self, request: web.Request, target: str) -> tuple[int, dict[str, str], bytes]:
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        data = await request.read()
        url = f"{self._upstream}{target}"
        async with self._session.request(request.method, URL(url, encoded=True), data=data, headers=headers) as answer:
            kept = {k: v for k, v in answer.headers.items() if k in ("Content-Type", "Content-Disposition")}
            return answer.status, kept, await answer.read()


class People:
    """The accounts that all tests share, and the rooms that each makes for itself."""

    def __init__(self, synapse: Synapse) -> None:
        self.synapse = synapse
        self.tokens: dict[str, str] = {}
        self.direct = ""

    async def come(self) -> None:
        for user in (BOT, ANN, BEN):
            self.tokens[user] = await self.synapse.register(user[1:].partition(":")[0], admin=user == ANN)
        await self.call(BOT, "PUT", f"profile/{BOT}/displayname", {"displayname": CALLED})
        self.direct = await self.room(ANN, BOT)

    async def call(self, user: str, method: str, path: str, body: Any = None, *, base: str = "client/v3") -> Any:
        return await self.synapse.call(self.tokens[user], method, path, body, base=base)

    async def room(self, creator: str, *others: str, join: bool = True, more: dict[str, Any] | None = None) -> str:
        asked = {"preset": "private_chat", "invite": list(others), **(more or {})}
        room = str((await self.call(creator, "POST", "createRoom", asked))["room_id"])
        for user in others if join else ():
            await self.call(user, "POST", f"join/{quote(room)}", {})
        return room

    async def send(self, user: str, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        path = f"rooms/{quote(room)}/send/{kind}/t{next(_numbers)}"
        return str((await self.call(user, "PUT", path, content))["event_id"])

    async def media(self, user: str, name: str, data: bytes) -> str:
        headers = {"Authorization": f"Bearer {self.tokens[user]}", "Content-Type": "application/octet-stream"}
        url = f"{self.synapse.url}/_matrix/media/v3/upload?filename={quote(name)}"
        async with aiohttp.ClientSession() as session, session.post(url, data=data, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return str((await answer.json())["content_uri"])

    async def content(self, user: str, mxc: str) -> bytes:
        url = f"{self.synapse.url}/_matrix/client/v1/media/download/{mxc.removeprefix('mxc://')}"
        headers = {"Authorization": f"Bearer {self.tokens[user]}"}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.read()

    async def events(self, room: str) -> list[dict[str, Any]]:
        """The oldest first, as Ann sees them."""
        found = await self.call(ANN, "GET", f"rooms/{quote(room)}/messages?dir=b&limit=200")
        return list(reversed(found["chunk"]))


class MatrixRig:
    """The channel on its homeserver."""

    user, other_user, delivers_missed = ANN, BEN, True

    def __init__(self, people: People, proxy: Proxy, room: str, where: Path) -> None:
        self.people = people
        self.proxy = proxy
        self.room = room
        self.direct_room = people.direct
        self.where = where
        self.welcome: set[str] = {ANN}
        self.channel = self.made()
        self._made = [self.channel]
        self._before: dict[str, str] = {}  # message -> where a sync that tells of it begins

    @property
    def account(self) -> MatrixCredentials:
        return MatrixCredentials(homeserver=self.proxy.url, user=BOT, token=self.people.tokens[BOT])

    def made(self) -> MatrixChannel:
        return MatrixChannel(
            "mx", self.account, state_path=str(self.where / "mx.json"), is_inviter_allowed=self.welcome.__contains__
        )

    def recreate_channel(self) -> MatrixChannel:
        self.channel = self.made()
        self._made.append(self.channel)
        return self.channel

    def made_too(self, channel: MatrixChannel) -> None:
        self._made.append(channel)

    async def end(self) -> None:
        for channel in self._made:
            await channel.close()

    async def send_message(
        self,
        room: str,
        text: str,
        *,
        user: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": f"{CALLED}: {text}" if mention else text}
        content["m.mentions"] = {"user_ids": [BOT]} if mention else {}
        if thread:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": thread}
        for name, data in files:
            url = await self.people.media(user or ANN, name, data)
            content |= {"msgtype": "m.file", "filename": name, "url": url, "info": {"size": len(data)}}
        before = self.proxy.sinces[-1] if self.proxy.sinces else ""
        id = await self.people.send(user or ANN, room, content)
        self._before[id] = before
        return id

    async def redeliver(self, id: str) -> None:
        self.proxy.rewind = self._before[id]
        self.proxy.end_syncs()

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        found: dict[str, PostedMessage] = {}
        for event in await self.people.events(room):
            content = event["content"]
            if event["sender"] != BOT or event["type"] != "m.room.message" or "body" not in content:
                continue
            relates = content.get("m.relates_to", {})
            if relates.get("rel_type") == "m.replace":
                if old := found.get(relates["event_id"]):
                    text = content["m.new_content"]["body"]
                    found[old.id] = PostedMessage(id=old.id, text=text, thread=old.thread, edited=True, files=old.files)
                continue
            files = ()
            if "url" in content:
                files = ((content["filename"], await self.people.content(ANN, content["url"])),)
            thread = relates.get("event_id", "") if relates.get("rel_type") == "m.thread" else ""
            found[event["event_id"]] = PostedMessage(
                id=event["event_id"], text=content["body"], thread=thread, files=files
            )
        return list(found.values())

    async def count_typing(self, room: str) -> int:
        return sum(room in path and "/typing/" in path for path in self.proxy.paths)

    async def drop_connection(self) -> None:
        self.proxy.cut()

    async def limit_rate(self, seconds: float) -> None:
        self.proxy.refuse_s = seconds

    async def accept_then_drop(self) -> None:
        self.proxy.swallow = True


@asynccontextmanager
async def matrix_rig(people: People, where: Path) -> AsyncIterator[MatrixRig]:
    async with Proxy(people.synapse.url).serving() as proxy:
        rig = MatrixRig(people, proxy, await people.room(ANN, BOT, BEN), where)
        try:
            yield rig
        finally:
            await rig.end()
