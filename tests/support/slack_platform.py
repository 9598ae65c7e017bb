"""Slack as a test plays it: a workspace on loopback that speaks the Web API, socket mode and the Events API.

Arguments, answers, errors and envelopes have the shapes that Slack documents. What is not acknowledged is sent again,
on the next connection or when a test says so; Slack would do that after a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import msgspec
from aiohttp import ClientSession, WSMsgType, web

from mainstay.channels.slack.channel import SlackChannel
from mainstay.channels.slack.limits import SlackLimits
from mainstay.testing.channel_suite import PostedMessage

TOKEN, APP_TOKEN, SECRET = "xoxb-1-2-secret", "xapp-1-A1-2-secret", "8f742231b10e8888abcd99yyyzzz85a5"
BOT, BOT_ID, TEAM, APP = "U0BOT0001", "B0BOT0001", "T0TEAM001", "A0APP0001"
ANN, BEN = "U0ANN0001", "U0BEN0001"
ROOM, DIRECT, OTHER_ROOM = "C0ROOM001", "D0ANN0001", "C0ROOM002"
MENTION_FIELDS = ("user", "text", "ts", "team", "thread_ts", "files", "attachments")  # of an app_mention event
QUICK = SlackLimits(
    reconnect_wait_s=0.02,
    connect_timeout_s=120.0,
    request_timeout_s=120.0,
    ping_interval_s=1.0,
    share_poll_waits_s=(0.0, 0.02, 0.05, 0.1, 0.5),
    page_messages=3,
    http_accept_timeout_s=1.0,
)

Answer = dict[str, Any]


class Failed(Exception):
    """A method's own error."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.body = {"ok": False, "error": error, **more}


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Workspace:
    """Rooms, people and messages, and everything that can be asked about them."""

    def __init__(self) -> None:
        self.url = ""
        self.people = {ANN: "ann", BEN: "ben", BOT: "mainstay"}
        self.rooms: dict[str, list[Answer]] = {ROOM: [], DIRECT: [], OTHER_ROOM: []}
        self.room_names: dict[str, str] = {}  # that the app may read
        self.archived: set[str] = set()
        self.files: dict[str, tuple[Answer, bytes]] = {}
        self.statuses: list[Answer] = []
        self.streams: set[str] = set()  # the messages that are being streamed
        self.ephemerals: list[Answer] = []  # what was shown to one person
        self.calls: list[tuple[str, Answer]] = []
        self.downloads: list[tuple[str, str]] = []  # path and Authorization
        self.spoils: dict[str, list[Callable[[web.Request], Any]]] = {}  # by method: what happens to the next calls
        self.tell: Callable[[Answer], None] = lambda event: None
        self._clock = itertools.count(int(time.time() * 1_000_000))
        self._numbers = itertools.count(1)

    def stamp(self) -> str:
        seconds, micros = divmod(next(self._clock), 1_000_000)
        return f"{seconds}.{micros:06d}"

    # --- what happens there ----------------------------------------------------------------------

    def say(
        self,
        room: str,
        user: str,
        text: str,
        *,
        thread: str = "",
        files: Sequence[Answer] = (),
        attachments: Sequence[Answer] = (),
    ) -> Answer:
        message: Answer = {"type": "message", "user": user, "text": text, "ts": self.stamp(), "team": TEAM}
        if attachments:
            message |= {"attachments": list(attachments)}
        if thread:
            message |= {"thread_ts": thread, "parent_user_id": user}
        if files:
            message |= {"subtype": "file_share", "files": list(files), "upload": False}
        return self._add(room, message)

    def _add(self, room: str, message: Answer) -> Answer:
        self.rooms[room].append(message)
        kind = "im" if room.startswith("D") else "channel"
        event = message | {"channel": room, "channel_type": kind, "event_ts": message["ts"]}
        event.pop("metadata", None)
        self.tell(event)
        if f"<@{BOT}>" in message["text"] and kind == "channel" and message.get("user") != BOT:
            kept = {key: message[key] for key in MENTION_FIELDS if key in message}
            self.tell({"type": "app_mention", "channel": room, "event_ts": message["ts"], **kept})
        return message

    def keep_file(self, name: str, content: bytes, mime: str = "application/octet-stream") -> Answer:
        id = f"F0FILE{next(self._numbers):03d}"
        url = f"{self.url}/files-pri/{TEAM}-{id}/{name}"
        file = {
            "id": id,
            "name": name,
            "title": name,
            "mimetype": mime,
            "size": len(content),
            "mode": "hosted",
            "is_external": False,
            "url_private": url,
            "url_private_download": f"{self.url}/files-pri/{TEAM}-{id}/download/{name}",
        }
        self.files[id] = (file, content)
        return file

    def message(self, room: str, ts: str) -> Answer | None:
        return next((one for one in self.rooms.get(room, ()) if one["ts"] == ts), None)

    # --- the methods -----------------------------------------------------------------------------

    def room(self, asked: Answer, key: str = "channel") -> str:
        room = str(asked.get(key, ""))
        if room not in self.rooms:
            raise Failed("channel_not_found")
        return room

    def auth_test(self, asked: Answer) -> Answer:
        return {
            "url": "https://team.slack.example/",
            "team": "Team",
            "user": self.people[BOT],
            "team_id": TEAM,
            "user_id": BOT,
            "bot_id": BOT_ID,
            "is_enterprise_install": False,
        }

    def users_info(self, asked: Answer) -> Answer:
        id = str(asked.get("user"))
        if id not in self.people:
            raise Failed("user_not_found")
        name = self.people[id]
        profile = {"display_name": name.title(), "real_name": f"{name.title()} Lee"}
        return {"user": {"id": id, "team_id": TEAM, "name": name, "is_bot": id == BOT, "profile": profile}}

    def chat_postMessage(self, asked: Answer) -> Answer:
        room = self.room(asked)
        if room in self.archived:
            raise Failed("is_archived")
        text = str(asked.get("text", ""))
        if not text:
            raise Failed("no_text")
        message: Answer = {"type": "message", "user": BOT, "bot_id": BOT_ID, "app_id": APP, "team": TEAM}
        message |= {"text": text, "ts": self.stamp()}
        if asked.get("thread_ts"):
            message["thread_ts"] = asked["thread_ts"]
        if asked.get("metadata"):
            message["metadata"] = json.loads(asked["metadata"])
        self._add(room, message)
        return {"channel": room, "ts": message["ts"], "message": message}

    def chat_startStream(self, asked: Answer) -> Answer:
        """Needs a thread, and outside of direct conversations the user who reads along; takes no metadata."""
        room = self.room(asked)
        if not asked.get("thread_ts") or self.message(room, str(asked["thread_ts"])) is None:
            raise Failed("invalid_thread_ts")
        if not room.startswith("D") and asked.get("recipient_team_id") != TEAM:
            raise Failed("missing_recipient_team_id")
        if not room.startswith("D") and asked.get("recipient_user_id") not in self.people:
            raise Failed("missing_recipient_user_id")
        message: Answer = {"type": "message", "user": BOT, "bot_id": BOT_ID, "app_id": APP, "team": TEAM}
        message |= {"text": asked.get("markdown_text", ""), "ts": self.stamp(), "thread_ts": asked["thread_ts"]}
        self.streams.add(message["ts"])
        self._add(room, message)
        return {"channel": room, "ts": message["ts"]}

    def chat_appendStream(self, asked: Answer) -> Answer:
        message = self.message(self.room(asked), str(asked.get("ts")))
        if message is None:
            raise Failed("message_not_found")
        if message["ts"] not in self.streams:
            raise Failed("message_not_in_streaming_state")
        if not asked.get("markdown_text"):
            raise Failed("no_text")
        message["text"] += asked["markdown_text"]
        return {"channel": asked["channel"], "ts": message["ts"]}

    def chat_stopStream(self, asked: Answer) -> Answer:
        if asked.get("markdown_text"):
            self.chat_appendStream(asked)
        message = self.message(self.room(asked), str(asked.get("ts")))
        if message is None or message["ts"] not in self.streams:
            raise Failed("message_not_in_streaming_state")
        self.streams.remove(message["ts"])
        if asked.get("metadata"):
            message["metadata"] = json.loads(asked["metadata"])
        return {"channel": asked["channel"], "ts": message["ts"], "message": message}

    def chat_postEphemeral(self, asked: Answer) -> Answer:
        self.room(asked)
        if asked.get("user") not in self.people:
            raise Failed("user_not_in_channel")
        if not asked.get("text"):
            raise Failed("no_text")
        self.ephemerals.append(asked)
        return {"message_ts": self.stamp()}

    def chat_update(self, asked: Answer) -> Answer:
        message = self.message(self.room(asked), str(asked.get("ts")))
        if message is None:
            raise Failed("message_not_found")
        if message.get("user") != BOT:
            raise Failed("cant_update_message")
        if message["ts"] in self.streams:
            raise Failed("streaming_state_conflict")
        message |= {"text": asked["text"], "edited": {"user": BOT, "ts": self.stamp()}}
        if "metadata" in asked:
            message["metadata"] = json.loads(asked["metadata"])
        changed = {"type": "message", "subtype": "message_changed", "hidden": True, "message": dict(message)}
        self.tell(changed | {"channel": asked["channel"], "ts": self.stamp(), "channel_type": "channel"})
        return {"channel": asked["channel"], "ts": message["ts"], "text": message["text"]}

    def chat_delete(self, asked: Answer) -> Answer:
        room = self.room(asked)
        message = self.message(room, str(asked.get("ts")))
        if message is None:
            raise Failed("message_not_found")
        if message["ts"] in self.streams:
            raise Failed("cant_delete_message")
        self.rooms[room].remove(message)
        gone = {"type": "message", "subtype": "message_deleted", "hidden": True, "deleted_ts": message["ts"]}
        self.tell(gone | {"channel": room, "ts": self.stamp(), "previous_message": message, "channel_type": "channel"})
        return {"channel": room, "ts": message["ts"]}

    def conversations_info(self, asked: Answer) -> Answer:
        room = self.room(asked)
        if room not in self.room_names:
            raise Failed("missing_scope", needed="channels:read", provided="chat:write")
        return {"channel": {"id": room, "name": self.room_names[room], "is_channel": True}}

    def conversations_history(self, asked: Answer) -> Answer:
        room = self.room(asked)
        of_room = [one for one in self.rooms[room] if one.get("thread_ts", one["ts"]) == one["ts"]]
        return self._page(list(reversed(of_room)), asked)

    def conversations_replies(self, asked: Answer) -> Answer:
        room, ts = self.room(asked), str(asked.get("ts"))
        if self.message(room, ts) is None:
            raise Failed("thread_not_found")
        return self._page([one for one in self.rooms[room] if ts in (one["ts"], one.get("thread_ts"))], asked, ts)

    def _page(self, messages: list[Answer], asked: Answer, parent: str = "") -> Answer:
        oldest = str(asked.get("oldest") or "0")
        inclusive = asked.get("inclusive") == "true"
        late = [one for one in messages if float(one["ts"]) > float(oldest) or (inclusive and one["ts"] == oldest)]
        first = [one for one in messages if one["ts"] == parent and one not in late]  # a thread's is always among them
        found, begin = first + late, int(str(asked.get("cursor") or "p0")[1:])
        size = int(asked.get("limit") or 100)
        page = [dict(one) for one in found[begin : begin + size]]
        for one in page:
            if asked.get("include_all_metadata") != "true":
                one.pop("metadata", None)
        more = begin + size < len(found)
        answer: Answer = {"messages": page, "has_more": more}
        return answer | ({"response_metadata": {"next_cursor": f"p{begin + size}"}} if more else {})

    def assistant_threads_setStatus(self, asked: Answer) -> Answer:
        self.room(asked, "channel_id")
        self.statuses.append(asked)
        return {}

    def files_getUploadURLExternal(self, asked: Answer) -> Answer:
        if not str(asked.get("length", "")).isdigit() or int(asked["length"]) <= 0:
            raise Failed("invalid_arguments")
        file = self.keep_file(str(asked["filename"]), b"")
        return {"upload_url": f"{self.url}/upload/v1/{file['id']}", "file_id": file["id"]}

    def files_completeUploadExternal(self, asked: Answer) -> Answer:
        told = json.loads(asked["files"])
        if any(one["id"] not in self.files for one in told):
            raise Failed("file_not_found")
        room = self.room(asked, "channel_id")
        files = [self.files[one["id"]][0] for one in told]
        message: Answer = {"type": "message", "subtype": "file_share", "user": BOT, "bot_id": BOT_ID, "files": files}
        blocks = json.loads(asked.get("blocks") or "[]")
        shown = [block["text"]["text"] for block in blocks if block["type"] == "section"]
        message |= {"text": asked.get("initial_comment") or "".join(shown), "blocks": blocks}
        if asked.get("thread_ts"):
            message["thread_ts"] = asked["thread_ts"]
        # a moment later, as there
        asyncio.get_running_loop().call_later(0.03, lambda: self._add(room, message | {"ts": self.stamp()}))
        return {"files": [{"id": one["id"], "title": one.get("title", "")} for one in told]}

    def files_info(self, asked: Answer) -> Answer:
        if asked.get("file") not in self.files:
            raise Failed("file_not_found")
        return {"file": self.files[str(asked["file"])][0]}

    def files_delete(self, asked: Answer) -> Answer:
        if self.files.pop(str(asked.get("file")), None) is None:
            raise Failed("file_not_found")
        return {}


class Platform(Workspace):
    """The workspace, and how one gets there."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: list[web.WebSocketResponse] = []
        self.most_sockets = 0  # at a time
        self.unheard: dict[str, Answer] = {}  # unacknowledged envelopes, by their ids
        self.acknowledged: list[Answer] = []
        self.greets = True
        self.tickets: set[str] = set()
        self.tell = self._tell_by_socket
        self._transports: set[asyncio.Transport] = set()
        self._sending: set[asyncio.Future[Any]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Platform]:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/api/{method}", self._method)
        app.router.add_get("/link", self._socket)
        app.router.add_get("/files-pri/{tail:.*}", self._file)
        app.router.add_post("/upload/v1/{id}", self._upload)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            for socket in list(self.sockets):
                await socket.close()
            await runner.cleanup()

    @property
    def api(self) -> str:
        return f"{self.url}/api/"

    # --- HTTP ------------------------------------------------------------------------------------

    async def _method(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._transports.add(request.transport)
        method = request.match_info["method"]
        asked = {**request.query, **{key: str(value) for key, value in (await request.post()).items()}}
        self.calls.append((method, asked))
        for spoil in self.spoils.pop(method, [])[:1]:
            answer = spoil(request)
            if isinstance(answer, web.StreamResponse):
                return answer
        wanted = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if request.headers.get("Authorization") != f"Bearer {wanted}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if method == "apps.connections.open":
            ticket = f"t{len(self.calls)}"
            self.tickets.add(ticket)
            return web.json_response({"ok": True, "url": f"ws{self.url[4:]}/link?ticket={ticket}&app_id={APP}"})
        does = getattr(self, method.replace(".", "_"), None)
        if does is None:
            return web.json_response({"ok": False, "error": "unknown_method", "req_method": method})
        try:
            answer = {"ok": True, **does(asked)}
        except Failed as failed:
            answer = failed.body
        if method == "chat.postMessage" and self.spoils.pop("swallow", None):
            request.transport.abort()
        return web.json_response(answer)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self.downloads.append((request.path, request.headers.get("Authorization", "")))
        id = request.path.split("/")[2].rpartition("-")[2]
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(text="<html>sign in</html>", content_type="text/html")
        if id not in self.files:
            return web.Response(status=404)
        file, content = self.files[id]
        return web.Response(body=content, content_type=str(file["mimetype"]))

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        id, content = request.match_info["id"], await request.read()
        file = self.files[id][0]
        self.files[id] = (file | {"size": len(content)}, content)
        return web.Response(text=f"OK - {len(content)}")

    # --- socket mode -----------------------------------------------------------------------------

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("ticket", "") not in self.tickets:
            return web.Response(status=403)
        self.tickets.remove(request.query["ticket"])  # it is good for one connection
        assert request.transport is not None
        self._transports.add(request.transport)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if self.greets:
            hello = {"type": "hello", "num_connections": len(self.sockets) + 1, "connection_info": {"app_id": APP}}
            await socket.send_json(hello | {"debug_info": {"host": "applink-1", "approximate_connection_time": 18060}})
        self.sockets.append(socket)
        self.most_sockets = max(self.most_sockets, len(self.sockets))
        for envelope in list(self.unheard.values()):
            await self._send(socket, envelope | {"retry_attempt": 1, "retry_reason": "timeout"})
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    answer = json.loads(message.data)
                    self.acknowledged.append(answer)
                    self.unheard.pop(answer.get("envelope_id"), None)
        finally:
            self.sockets.remove(socket)
        return socket

    async def _send(self, socket: web.WebSocketResponse, message: Answer) -> None:
        try:
            await socket.send_json(message)
        except (ConnectionError, RuntimeError):
            pass

    def _tell_by_socket(self, event: Answer) -> None:
        self.envelope("events_api", callback(event))

    def envelope(self, kind: str, payload: Any) -> str:
        """To one of the connected clients; if there is none, to the next one."""
        id = f"e-{len(self.acknowledged)}-{len(self.unheard)}-{self.stamp()}"
        made = {"envelope_id": id, "type": kind, "payload": payload, "accepts_response_payload": False}
        self.unheard[id] = made
        self.push(made)
        return id

    def push(self, message: Any) -> None:
        """As it is."""
        if live := [one for one in self.sockets if not one.closed]:
            socket = live[-1]
            work = socket.send_str(message) if isinstance(message, str) else self._send(socket, message)
            task = asyncio.ensure_future(work)
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def disconnect(self, reason: str) -> None:
        self.push({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}})

    async def hang_up(self) -> None:
        for socket in list(self.sockets):
            await socket.close(code=1001)

    def cut(self) -> None:
        for transport in self._transports:
            transport.abort()
        self._transports.clear()


_events = itertools.count(1)


def callback(event: Answer) -> Answer:
    return {
        "token": "unused",
        "team_id": TEAM,
        "api_app_id": APP,
        "event": event,
        "type": "event_callback",
        "event_id": f"Ev{next(_events):08d}",
        "event_time": int(time.time()),
        "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True, "is_enterprise_install": False}],
    }


def signed(body: bytes, *, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    """The headers that Slack adds."""
    stamp = str(int(time.time() if at is None else at))
    made = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={made}"}


class Poster:
    """Slack's side of the Events API: posts, and posts again what was not answered with 200."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self.session = session
        self.url = url
        self.statuses: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, event: Answer) -> None:
        task = asyncio.create_task(self._deliver(callback(event)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, payload: Answer) -> None:
        for attempt in range(200):
            retry = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": "http_error"} if attempt else {}
            if await self.post(json.dumps(payload).encode(), headers=retry) == 200:
                return
            await asyncio.sleep(0.02)

    async def post(self, body: bytes, *, media: str = "application/json", headers: dict[str, str] | None = None) -> int:
        return (await self.exchange(body, {"Content-Type": media, **signed(body), **(headers or {})}))[0]

    async def exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        async with self.session.post(self.url, data=body, headers=headers) as response:
            self.statuses.append(response.status)
            return response.status, await response.read()

    async def command(self, fields: dict[str, str]) -> tuple[int, bytes]:
        body = urlencode(fields).encode()
        return await self.exchange(body, {"Content-Type": "application/x-www-form-urlencoded", **signed(body)})

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class SlackRig:
    """For the suite."""

    room, direct_room, user, other_user, delivers_missed = ROOM, DIRECT, ANN, BEN, True

    def __init__(self, platform: Platform, make: Callable[[], SlackChannel]) -> None:
        self.platform = platform
        self._make = make
        self._drops = 0
        self.channel = make()

    def recreate_channel(self) -> SlackChannel:
        self.channel = self._make()
        return self.channel

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
        kept = [self.platform.keep_file(name, content) for name, content in files]
        said = f"<@{BOT}> {escaped(text)}" if mention else escaped(text)
        return str(self.platform.say(room, user or ANN, said, thread=thread, files=kept)["ts"])

    async def redeliver(self, id: str) -> None:
        for room in self.platform.rooms:
            if message := self.platform.message(room, id):
                self.platform.tell(message | {"channel": room, "channel_type": "im" if room == DIRECT else "channel"})

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        ours = [one for one in self.platform.rooms[room] if one.get("user") == BOT]
        return [
            PostedMessage(
                id=one["ts"],
                text=one["text"],
                thread=one.get("thread_ts", ""),
                edited="edited" in one,
                files=tuple((file["name"], self.platform.files[file["id"]][1]) for file in one.get("files", ())),
            )
            for one in ours
        ]

    async def count_typing(self, room: str) -> int:
        return sum(one["channel_id"] == room for one in self.platform.statuses)

    async def drop_connection(self) -> None:
        """Without a word first, and the next time with one."""
        if self._drops:
            await self.platform.hang_up()
        else:
            self.platform.cut()
        self._drops += 1

    async def limit_rate(self, seconds: float) -> None:
        body = {"ok": False, "error": "ratelimited"}
        headers = {"Retry-After": str(int(seconds))}
        self.platform.spoils["chat.postMessage"] = [lambda _: web.json_response(body, status=429, headers=headers)]

    async def accept_then_drop(self) -> None:
        self.platform.spoils["swallow"] = [lambda _: None]


@asynccontextmanager
async def by_socket(bounds: SlackLimits = QUICK) -> AsyncIterator[SlackRig]:
    async with Platform().serving() as platform:
        rig = SlackRig(
            platform,
            lambda: SlackChannel("team", TOKEN, app_token=APP_TOKEN, base_url=platform.api, limits=bounds),
        )
        try:
            yield rig
        finally:
            await rig.channel.close()


@asynccontextmanager
async def by_http(bounds: SlackLimits = QUICK) -> AsyncIterator[tuple[SlackRig, Poster]]:
    """The channel's application is served as the gateway serves it: by uvicorn."""
    import uvicorn

    async with Platform().serving() as platform:
        rig = SlackRig(
            platform,
            lambda: SlackChannel("team", TOKEN, signing_secret=SECRET, base_url=platform.api, limits=bounds),
        )

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await rig.channel.asgi_app()(scope, receive, send)

        config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with ClientSession() as session:
            poster = Poster(session, f"http://127.0.0.1:{port}/channels/team")
            platform.tell = poster.tell
            try:
                yield rig, poster
            finally:
                await poster.close()
                await rig.channel.close()
                server.should_exit = True
                await serving


def bounds(**changes: Any) -> SlackLimits:
    return msgspec.structs.replace(QUICK, **changes)
