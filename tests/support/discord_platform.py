"""Discord on loopback: its REST API (v10) and gateway as far as a bot meets them, and people who talk to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from mainstay.channels.discord.channel import DiscordChannel
from mainstay.testing.channel_suite import PostedMessage

TOKEN = "bot.token.for-tests"
EPOCH_MS = 1_420_070_400_000
_count = itertools.count()


def snowflake() -> str:
    """Discord's ids hold the time. No two differ in their last digit alone: the suite makes up others that way."""
    return str(((int(time.time() * 1000) - EPOCH_MS) << 22) | (next(_count) * 16 & 0x3FFFFF))


BOT, ANN, BEN, GUILD = (str(900_000_000_000_000_000 + n) for n in range(4))
NAMES = {BOT: "agent", ANN: "ann", BEN: "ben"}


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Discord names no charset, and the library wants it so."""
    return web.Response(
        body=json.dumps(body).encode(), status=status, headers={"Content-Type": "application/json", **(headers or {})}
    )


def user(id: str) -> dict[str, Any]:
    return {"id": id, "username": NAMES[id], "discriminator": "0", "avatar": None, "bot": id == BOT}


class Socket:
    """One connection of a bot to the gateway, packed as it asks for."""

    def __init__(self, socket: web.WebSocketResponse, packed: bool) -> None:
        self.socket = socket
        self.session = ""
        self._zlib = zlib.compressobj() if packed else None

    async def send(self, op: int, data: Any = None, seq: int | None = None, kind: str | None = None) -> None:
        text = json.dumps({"op": op, "d": data, "s": seq, "t": kind})
        if self._zlib is None:
            await self.socket.send_str(text)
        else:
            await self.socket.send_bytes(self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH))


class Discord:
    """What it keeps, and what it was told to spoil."""

    def __init__(self) -> None:
        self.url = self.root = ""
        self.channels: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.typed: list[str] = []
        self.threads_made: list[dict[str, Any]] = []
        self.posted: list[dict[str, Any]] = []  # bodies, as they came
        self.identified = self.resumed = 0
        self.intents = 0
        self.refuse_s = 0.0
        self.swallow = False
        self.close_code = 0  # a client that identifies is closed with it
        self._nonces: dict[str, str] = {}
        self._sockets: list[Socket] = []
        self._told: dict[str, list[tuple[int, str, Any]]] = {}  # of a session: what it was told, for a resume
        self._seq = itertools.count(1)
        self._open: set[asyncio.Transport] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Discord]:
        app = web.Application(middlewares=[self._gate], client_max_size=32 * 1024 * 1024)
        app.add_routes(
            [
                web.get("/gateway", self._gateway),
                web.get("/cdn/{id}/{name}", self._cdn),
                web.get("/api/v10/users/@me", self._me),
                web.get("/api/v10/oauth2/applications/@me", self._application),
                web.get("/api/v10/gateway/bot", self._where),
                web.get("/api/v10/channels/{channel}", self._channel),
                web.post("/api/v10/channels/{channel}/typing", self._typing),
                web.get("/api/v10/channels/{channel}/messages", self._history),
                web.post("/api/v10/channels/{channel}/messages", self._create),
                web.get("/api/v10/channels/{channel}/messages/{id}", self._one),
                web.patch("/api/v10/channels/{channel}/messages/{id}", self._edit),
                web.delete("/api/v10/channels/{channel}/messages/{id}", self._delete),
                web.post("/api/v10/channels/{channel}/messages/{id}/threads", self._thread),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.root = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.url = f"{self.root}/api/v10"
        try:
            yield self
        finally:
            await runner.cleanup()

    def add_channel(self, kind: int, **more: Any) -> str:
        id = snowflake()
        self.channels[id] = {
            "id": id,
            "type": kind,
            "name": f"room-{id}",
            "position": 0,
            "bitrate": 1,
            "user_limit": 0,
            **more,
        }
        return id

    def cut(self) -> None:
        """Every connection, at any point."""
        for transport in self._open:
            transport.abort()
        self._open.clear()

    def forget_nonces(self) -> None:
        """As after some minutes."""
        self._nonces.clear()

    async def tell_all(self, op: int, data: Any = None) -> None:
        for one in self._sockets:
            await one.send(op, data)

    # --- REST ------------------------------------------------------------------------------------

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        if request.path.startswith("/api/") and request.headers.get("Authorization") != f"Bot {TOKEN}":
            return answer({"message": "401: Unauthorized", "code": 0}, status=401)
        channel = request.match_info.get("channel")
        if channel is not None and channel not in self.channels:
            return answer({"message": "Unknown Channel", "code": 10003}, status=404)
        response: web.StreamResponse = await handler(request)
        return response

    async def _me(self, request: web.Request) -> web.Response:
        return answer(user(BOT))

    async def _application(self, request: web.Request) -> web.Response:
        nothing = {"name": "agent", "description": "", "icon": None, "rpc_origins": [], "summary": "", "verify_key": ""}
        app = {"id": BOT, "bot_public": True, "bot_require_code_grant": False, "owner": user(ANN), "team": None}
        return answer({**nothing, **app, "flags": 1 << 18})

    async def _where(self, request: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
        url = f"{self.root.replace('http', 'ws')}/gateway"
        return answer({"url": url, "shards": 1, "session_start_limit": limit})

    async def _channel(self, request: web.Request) -> web.Response:
        return answer(self.channels[request.match_info["channel"]])

    async def _typing(self, request: web.Request) -> web.Response:
        self.typed.append(request.match_info["channel"])
        return web.Response(status=204)

    async def _history(self, request: web.Request) -> web.Response:
        query, channel = request.query, request.match_info["channel"]
        limit = int(query.get("limit", 50))
        assert 1 <= limit <= 100
        found = [one for one in self.messages.values() if one["channel_id"] == channel]
        found.sort(key=lambda one: int(one["id"]), reverse=True)
        if "before" in query:
            found = [one for one in found if int(one["id"]) < int(query["before"])]
        if "after" in query:
            return answer([one for one in found if int(one["id"]) > int(query["after"])][-limit:])
        return answer(found[:limit])

    async def _one(self, request: web.Request) -> web.Response:
        found = self.messages.get(request.match_info["id"])
        if found is None or found["channel_id"] != request.match_info["channel"]:
            return answer({"message": "Unknown Message", "code": 10008}, status=404)
        return answer(found)

    async def _create(self, request: web.Request) -> web.Response:
        if self.refuse_s:
            wait_s, self.refuse_s = self.refuse_s, 0.0
            body = {"message": "You are being rate limited.", "retry_after": wait_s, "global": False}
            return answer(body, status=429, headers={"Retry-After": str(wait_s), "Via": "1.1 loopback"})
        body, files = await self._body(request)
        self.posted.append(body)
        if len(body.get("content") or "") > 2000:
            return answer({"message": "Invalid Form Body", "code": 50035}, status=400)
        nonce = body.get("nonce")
        if body.get("enforce_nonce") and nonce in self._nonces:
            made = self.messages[self._nonces[nonce]]
        else:
            channel = request.match_info["channel"]
            made = await self.say(channel, body.get("content") or "", BOT, files, nonce)
            if nonce:
                self._nonces[nonce] = made["id"]
        if self.swallow:
            self.swallow = False
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            request.transport.close()
        return answer({**made, "nonce": nonce})

    async def _body(self, request: web.Request) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
        if request.content_type == "application/json":
            return await request.json(), []
        body, files = {}, []
        async for part in await request.multipart():
            if part.name == "payload_json":
                body = json.loads(await part.text())
            else:
                files.append((part.filename, bytes(await part.read())))
        return body, files

    async def _edit(self, request: web.Request) -> web.Response:
        found = self.messages.get(request.match_info["id"])
        if found is None or found["channel_id"] != request.match_info["channel"] or found["author"]["id"] != BOT:
            return answer({"message": "Unknown Message", "code": 10008}, status=404)
        body = await request.json()
        self.posted.append(body)
        found["content"], found["edited_timestamp"] = body["content"], found["timestamp"]
        await self.dispatch("MESSAGE_UPDATE", found)
        return answer(found)

    async def _delete(self, request: web.Request) -> web.Response:
        self.messages.pop(request.match_info["id"], None)
        return web.Response(status=204)

    async def _thread(self, request: web.Request) -> web.Response:
        channel, id = request.match_info["channel"], request.match_info["id"]
        if id not in self.messages:
            return answer({"message": "Unknown Message", "code": 10008}, status=404)
        if self.channels[channel]["type"] != 0:
            return answer({"message": "Cannot execute action on this channel type", "code": 50024}, status=400)
        if id in self.channels:
            body = {"message": "A thread has already been created for this message", "code": 160004}
            return answer(body, status=400)
        body = await request.json()
        self.threads_made.append(body)
        return answer(await self.make_thread(channel, id, body["name"]), status=201)

    async def make_thread(self, parent: str, id: str, name: str) -> dict[str, Any]:
        lasting = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": now(), "locked": False}
        thread = {"id": id, "type": 11, "guild_id": GUILD, "parent_id": parent, "owner_id": BOT, "name": name}
        self.channels[id] = {**thread, "thread_metadata": lasting, "message_count": 0, "member_count": 1}
        await self.dispatch("THREAD_CREATE", self.channels[id])
        return self.channels[id]

    async def _cdn(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers, "files are fetched without the bot's token"
        data = self.files.get(request.match_info["id"])
        return web.Response(status=404) if data is None else web.Response(body=data, content_type="image/png")

    # --- what is said ----------------------------------------------------------------------------

    def attach(self, files: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]]:
        attachments = []
        for name, data in files:
            id = snowflake()
            self.files[id] = data
            url = f"{self.root}/cdn/{id}/{name}?ex=1&hm=2"
            attachments.append({"id": id, "filename": name, "size": len(data), "url": url, "proxy_url": url})
        return attachments

    async def forward(self, channel: str, text: str, author: str, files: Sequence[tuple[str, bytes]] = ()) -> str:
        """Forward a message of another channel: Discord sends a snapshot of it, without its author."""
        original = {"type": 0, "content": text, "timestamp": now(), "edited_timestamp": None, "flags": 0}
        original |= {"attachments": self.attach(files), "embeds": [], "mentions": [], "mention_roles": []}
        reference = {"type": 1, "message_id": snowflake(), "channel_id": snowflake()}
        more = {"message_reference": reference, "message_snapshots": [{"message": original}], "flags": 1 << 14}
        return str((await self.say(channel, "", author, more=more))["id"])

    async def say(
        self,
        channel: str,
        text: str,
        author: str,
        files: Sequence[tuple[str, bytes]] = (),
        nonce: str | None = None,
        more: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        attachments = self.attach(files)
        mentions = [user(id) for id in NAMES if f"<@{id}>" in text]
        message = {"id": snowflake(), "channel_id": channel, "author": user(author), "content": text, "type": 0}
        message |= {"timestamp": now(), "edited_timestamp": None, "attachments": attachments, "mentions": mentions}
        message |= {"tts": False, "mention_everyone": False, "mention_roles": [], "embeds": [], "pinned": False}
        message |= more or {}
        self.messages[message["id"]] = message
        await self.dispatch("MESSAGE_CREATE", {**self._told_as(message), **({"nonce": nonce} if nonce else {})})
        return message

    def _told_as(self, message: dict[str, Any]) -> dict[str, Any]:
        """On the gateway it says which server it is of."""
        return message if self.channels[message["channel_id"]]["type"] == 1 else {**message, "guild_id": GUILD}

    async def tell_again(self, id: str) -> None:
        await self.dispatch("MESSAGE_CREATE", self._told_as(self.messages[id]))

    # --- the gateway -----------------------------------------------------------------------------

    async def dispatch(self, kind: str, data: Any) -> None:
        """To every session; to those whose connection is lost when they resume."""
        for session, told in self._told.items():
            seq = next(self._seq)
            told.append((seq, kind, data))
            for one in [one for one in self._sockets if one.session == session]:
                try:
                    await one.send(0, data, seq, kind)
                except (ConnectionError, RuntimeError):
                    self._sockets.remove(one)

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        assert request.query["v"] == "10"
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        mine = Socket(socket, request.query.get("compress") == "zlib-stream")
        await mine.send(10, {"heartbeat_interval": 41_250})
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    await self._take(mine, json.loads(frame.data))
        finally:
            if mine in self._sockets:
                self._sockets.remove(mine)
        return socket

    async def _take(self, mine: Socket, said: dict[str, Any]) -> None:
        data = said["d"]
        match said["op"]:
            case 1:
                await mine.send(11)
            case 2 if data["token"] != TOKEN:
                await mine.socket.close(code=4004)
            case 2 if self.close_code:
                await mine.socket.close(code=self.close_code)
            case 2:
                await self._identified(mine, data)
            case 6 if data["session_id"] in self._told:
                await self._resumed(mine, data)
            case 6:
                await mine.send(9, False)

    async def _identified(self, mine: Socket, data: dict[str, Any]) -> None:
        self.identified += 1
        self.intents = data["intents"]
        mine.session = f"session-{self.identified}"
        self._told[mine.session] = []
        self._sockets.append(mine)
        gateway = f"{self.root.replace('http', 'ws')}/gateway"
        ready = {"v": 10, "user": user(BOT), "guilds": [{"id": GUILD, "unavailable": True}], "session_id": mine.session}
        more = {"resume_gateway_url": gateway, "application": {"id": BOT, "flags": 0}}
        await mine.send(0, {**ready, **more}, next(self._seq), "READY")
        rooms = [one for one in self.channels.values() if one["type"] in (0, 2)]
        guild = {"id": GUILD, "name": "ours", "roles": [], "emojis": [], "features": [], "owner_id": ANN, "members": []}
        guild |= {"channels": rooms, "threads": [], "member_count": 3, "voice_states": [], "presences": []}
        await mine.send(0, guild, next(self._seq), "GUILD_CREATE")

    async def _resumed(self, mine: Socket, data: dict[str, Any]) -> None:
        self.resumed += 1
        mine.session = data["session_id"]
        for seq, kind, told in self._told[mine.session]:
            if seq > data["seq"]:
                await mine.send(0, told, seq, kind)
        self._sockets.append(mine)
        await mine.send(0, {}, next(self._seq), "RESUMED")

    async def forget_sessions(self) -> None:
        """As after a long break: clients must identify again."""
        self._told.clear()
        await self.tell_all(9, False)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 1_000_000:06d}+00:00"


class DiscordRig:
    """The channel and its platform."""

    user, other_user, delivers_missed = ANN, BEN, False

    def __init__(self, platform: Discord, where: Path) -> None:
        self.platform = platform
        self.where = where
        self.room = platform.add_channel(0, guild_id=GUILD, permission_overwrites=[])
        self.direct_room = platform.add_channel(1, recipients=[user(ANN)])
        self.channel = self.made()
        self._made = [self.channel]

    def made(self, token: str = TOKEN) -> DiscordChannel:
        return DiscordChannel("dc", token, base_url=self.platform.url)

    def recreate_channel(self) -> DiscordChannel:
        self.channel = self.made()
        self._made.append(self.channel)
        return self.channel

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
        if thread and thread not in self.platform.channels:  # people make a thread of a message like that
            await self.platform.make_thread(room, thread, "made by a person")
        content = f"<@{BOT}> {text}" if mention else text
        return str((await self.platform.say(thread or room, content, user or ANN, files))["id"])

    async def redeliver(self, id: str) -> None:
        await self.platform.tell_again(id)

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        found = []
        for message in self.platform.messages.values():
            channel = self.platform.channels[message["channel_id"]]
            thread = channel["id"] if channel["type"] == 11 else ""
            if message["author"]["id"] != BOT or room != (channel["parent_id"] if thread else channel["id"]):
                continue
            files = tuple((one["filename"], self._content(one)) for one in message["attachments"])
            edited = message["edited_timestamp"] is not None
            found.append(
                PostedMessage(id=message["id"], text=message["content"], thread=thread, edited=edited, files=files)
            )
        return found

    def _content(self, attachment: dict[str, Any]) -> bytes:
        found = re.search(r"/cdn/(\d+)/", attachment["url"])
        assert found is not None
        return self.platform.files[found[1]]

    async def count_typing(self, room: str) -> int:
        def parent(id: str) -> str:
            return str(self.platform.channels[id].get("parent_id") or id)

        return sum(parent(id) == room for id in self.platform.typed)

    async def drop_connection(self) -> None:
        self.platform.cut()

    async def limit_rate(self, seconds: float) -> None:
        self.platform.refuse_s = seconds

    async def accept_then_drop(self) -> None:
        self.platform.swallow = True


@asynccontextmanager
async def discord_rig(where: Path) -> AsyncIterator[DiscordRig]:
    async with Discord().serving() as platform:
        rig = DiscordRig(platform, where)
        try:
            yield rig
        finally:
            await rig.end()
