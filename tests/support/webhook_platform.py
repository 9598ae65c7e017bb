"""A third-party program that uses a webhook channel: it posts signed messages, receives ours, and has files."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mainstay.channels.webhook.channel import WebhookChannel
from mainstay.channels.webhook.http_receiver import WebhookChannelLimits
from mainstay.core.triggers import TriggerTarget, Webhook
from mainstay.io.webhook_signatures import SignatureInvalid, sign_webhook, verify_signature
from mainstay.testing.channel_rig import PostedMessage

SECRET = "known to both of us"
NAME = "hook"


class WebhookRig:
    delivers_missed = False
    room, direct_room, user, other_user = "room1", "private1", "u1", "u2"

    def __init__(self, bounds: WebhookChannelLimits | None = None) -> None:
        self.posts: list[dict[str, Any]] = []  # as they came, each key once
        self.heads: list[dict[str, str]] = []
        self.answers: list[str] = []  # to the next posts, instead of what would be said; "": it is taken and dropped
        self.bodies: dict[str, bytes] = {}  # what was posted to us, by id
        self.files: list[bytes] = []
        self.port = self.door_port = 0
        self._bounds = bounds
        self._count = 0

    def recreate_channel(self) -> WebhookChannel:
        place = f"127.0.0.1:{self.port}"
        self.channel = WebhookChannel(
            NAME, f"http://{place}/taken", secret=SECRET, private_ok=(place,), limits=self._bounds
        )
        return self.channel

    # --- the platform's people -------------------------------------------------------------------

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
        self._count += 1
        id = f"m{self._count}"
        given = []
        for name, content in files:
            self.files.append(content)
            given.append({"url": f"http://127.0.0.1:{self.port}/files/{len(self.files) - 1}", "name": name})
        message = {
            "id": id, "room": room, "thread": thread, "user": user or self.user, "text": text, "files": given,
            "at": int(time.time() * 1000), "direct": room == self.direct_room, "mentioned": mention,
        }  # fmt: skip
        self.bodies[id] = json.dumps(message).encode()
        await self.redeliver(id)
        return id

    async def redeliver(self, id: str) -> None:
        await self.deliver(self.bodies[id])

    async def deliver(self, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        if headers is None:
            headers = sign_webhook("timestamp", SECRET, body, at_s=int(time.time()))
        return await post(self.door_port, f"/channels/{NAME}", body, headers)

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        return [
            PostedMessage(
                id=f"s{number}",
                text=one["text"],
                thread=one["thread"] or f"s{number}",
                files=tuple((file["name"], b64decode(file["data"])) for file in one["files"]),
            )
            for number, one in enumerate(self.posts)
            if one["room"] == room
        ]

    async def count_typing(self, room: str) -> int:
        return 0

    async def drop_connection(self) -> None:
        """There is none between two messages."""

    async def limit_rate(self, seconds: float) -> None:
        self.answers.append(f"429 Slow Down\r\nRetry-After: {seconds:g}")

    async def accept_then_drop(self) -> None:
        self.answers.append("")

    # --- its server ------------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *rest = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in rest if one)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            answer = self._answered(line.split()[1], headers, body)
            if answer is None:
                writer.transport.abort()
                return
            writer.write(answer)
            await writer.drain()
            writer.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    def _answered(self, path: str, headers: dict[str, str], body: bytes) -> bytes | None:
        if path.startswith("/files/"):
            content = self.files[int(path.removeprefix("/files/"))]
            kind = "Content-Type: application/octet-stream\r\n"
            return f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(content)}\r\n\r\n".encode() + content
        assert path == "/taken"
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        try:
            verify_signature(
                Webhook(name="back", secret=SECRET, target=TriggerTarget(session="x")),
                raw,
                body,
                int(time.time() * 1000),
            )
        except SignatureInvalid:
            return b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        said = self.answers.pop(0) if self.answers else None
        if said:
            return f"HTTP/1.1 {said}\r\nContent-Length: 0\r\n\r\n".encode()
        message = json.loads(body)
        if message["room"] not in (self.room, self.direct_room):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        known = [one["key"] for one in self.posts]
        if message["key"] not in known:
            known.append(message["key"])
            self.posts.append(message)
            self.heads.append(headers)
        if said == "":
            return None
        id = f"s{known.index(message['key'])}"
        answer = json.dumps({"id": id, "thread": message["thread"] or id}).encode()
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer


async def post(port: int, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """A request of its own, and what is answered to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    writer.write(head.encode() + body)
    try:
        answer = await asyncio.wait_for(reader.read(), 120)
    finally:
        writer.close()
    top, _, rest = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), json.loads(rest)


async def answer_by(app: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request for an ASGI application, as a server hands it over that has mounted it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        writer.close()
        return
    line, *rest = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    headers = [(name.lower(), value) for name, _, value in (one.partition(b": ") for one in rest)]
    method, path, _ = line.decode().split()
    left = int(dict(headers).get(b"content-length", 0))

    async def receive() -> dict[str, Any]:
        nonlocal left
        piece = await reader.read(min(left, 65536)) if left else b""
        if left and not piece:
            return {"type": "http.disconnect"}
        left -= len(piece)
        return {"type": "http.request", "body": piece, "more_body": left > 0}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in message["headers"])
            writer.write(b"HTTP/1.1 %d X\r\n" % message["status"] + lines + b"\r\n")
        else:
            writer.write(message["body"])

    root = f"/channels/{NAME}"
    scope = {"type": "http", "method": method, "path": path, "root_path": root, "headers": headers, "client": ("x", 1)}
    try:
        await app(scope, receive, send)
        await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def webhook(bounds: WebhookChannelLimits | None = None) -> AsyncIterator[WebhookRig]:
    rig = WebhookRig(bounds)

    async def door(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_by(rig.channel.asgi_app(), reader, writer)

    platform = await asyncio.start_server(rig.serve, "127.0.0.1", 0)
    ours = await asyncio.start_server(door, "127.0.0.1", 0)
    rig.port, rig.door_port = (one.sockets[0].getsockname()[1] for one in (platform, ours))
    rig.recreate_channel()
    try:
        yield rig
    finally:
        await rig.channel.close()
        platform.close()
        ours.close()
