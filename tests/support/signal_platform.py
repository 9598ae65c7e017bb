"""signal-cli's daemon on loopback, and the network behind it: its JSON-RPC as it is documented, with its errors."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

from mainstay.channels.signal.channel import SignalChannel
from mainstay.testing.channel_rig import PostedMessage

NUMBER, UUID = "+15550100100", "11111111-aaaa-4bbb-8ccc-000000000000"
ANN = {"number": "+15550100101", "uuid": "22222222-aaaa-4bbb-8ccc-000000000001", "name": "Ann Lee"}
BOB = {"number": None, "uuid": "33333333-aaaa-4bbb-8ccc-000000000002", "name": "Bob"}  # who hides his number
GROUP = base64.b64encode(b"a group of several people, 32 b.").decode()


class RpcError(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


class Client:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.subscriptions: list[int] = []


class SignalPlatform:
    def __init__(self, *, receive: str = "manual") -> None:
        self.receive = receive  # manual, or on-connection
        self.groups = {GROUP}
        self.people = {str(person["uuid"]): person for person in (ANN, BOB)}
        self.envelopes: dict[str, dict[str, Any]] = {}  # by the ids that we know them by
        self.undelivered: list[dict[str, Any]] = []  # what the network keeps until a client receives
        self.messages: list[dict[str, Any]] = []  # ours
        self.files: dict[str, bytes] = {}
        self.typing: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.faults: list[RpcError | str] = []  # what becomes of the next sends
        self.results: list[Any] = []  # what the next sends and files are answered with instead
        self.mute = False  # nothing is answered
        self.clients: list[Client] = []
        self.unregistered: set[str] = set()
        self._time = int(time.time() * 1000)
        self._subscriptions = 0
        self._server: asyncio.Server | None = None
        self.address = ""

    def now(self) -> int:
        self._time += 1
        return self._time

    # --- what people do --------------------------------------------------------------------------

    def say(self, person: dict[str, Any], text: str | None, *, group: str = "", **more: Any) -> str:
        at = self.now()
        data = {"timestamp": at, "message": text, "expiresInSeconds": 0, "viewOnce": False, **more}
        if group:
            data["groupInfo"] = {"groupId": group, "groupName": "The group", "revision": 3, "type": "DELIVER"}
        envelope = {**self.envelope(person, at), "dataMessage": data}
        self.envelopes[f"{person['uuid']}.{at}"] = envelope
        self.tell(envelope)
        return f"{person['uuid']}.{at}"

    def envelope(self, person: dict[str, Any], at: int) -> dict[str, Any]:
        return {
            "source": person["number"] or person["uuid"],
            "sourceNumber": person["number"],
            "sourceUuid": person["uuid"],
            "sourceName": person["name"],
            "sourceDevice": 1,
            "timestamp": at,
            "serverReceivedTimestamp": at + 20,
            "serverDeliveredTimestamp": at + 40,
        }

    def tell(self, envelope: Any, account: str = NUMBER) -> None:
        told = {"envelope": envelope, "account": account}
        if not self._deliver(told):
            self.undelivered.append(told)

    def _deliver(self, told: dict[str, Any]) -> bool:
        delivered = False
        for client in self.clients:
            if client.writer.is_closing():  # what cannot be handed over stays where it was
                continue
            if self.receive != "manual":
                self.write(client, {"jsonrpc": "2.0", "method": "receive", "params": told})
                delivered = True
            for subscription in client.subscriptions:
                params = {"subscription": subscription, "result": told}
                self.write(client, {"jsonrpc": "2.0", "method": "receive", "params": params})
                delivered = True
        return delivered

    # --- the daemon ------------------------------------------------------------------------------

    def write(self, client: Client, message: Any) -> None:
        self.write_raw(client, json.dumps(message).encode() + b"\n")

    def write_raw(self, client: Client, line: bytes) -> None:
        client.writer.write(line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(writer)
        self.clients.append(client)
        try:
            while line := await reader.readline():
                self._handle(client, json.loads(line))
        except OSError:
            pass
        finally:
            self.clients.remove(client)
            writer.transport.abort()

    def _handle(self, client: Client, request: dict[str, Any]) -> None:
        self.requests.append(request)
        if self.mute:
            return
        method, params = request["method"], request.get("params") or {}
        fault = self.faults.pop(0) if method == "send" and self.faults else None
        try:
            if isinstance(fault, RpcError):
                raise fault
            if method != "version" and params.get("account") not in (NUMBER, UUID):
                raise RpcError(-32602, "Specified account does not exist")
            skipped = fault == "lose" or (self.results and method == "getAttachment")
            result = None if skipped else self._call(client, method, params)
        except RpcError as error:
            self.write(client, {"jsonrpc": "2.0", "error": error.error, "id": request["id"]})
            return
        if fault:
            client.writer.transport.abort()
            return
        if self.results and method in ("send", "getAttachment"):
            result = self.results.pop(0)
        self.write(client, {"jsonrpc": "2.0", "result": result, "id": request["id"]})
        if method == "subscribeReceive":
            waiting, self.undelivered = self.undelivered, []
            for told in waiting:
                self._deliver(told)

    def _call(self, client: Client, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "subscribeReceive":
                client.subscriptions.append(self._subscriptions)
                self._subscriptions += 1
                return client.subscriptions[-1]
            case "version":
                return {"version": "0.14.6"}
            case "getUserStatus":
                return [
                    {"recipient": one, "number": NUMBER, "uuid": UUID, "isRegistered": True}
                    for one in params["recipient"]
                ]
            case "send":
                return self._send(params)
            case "remoteDelete":
                room = self._room(params)
                self.messages = [one for one in self.messages if params["targetTimestamp"] not in one["times"]]
                return self._results(room, self.now())
            case "sendTyping":
                self.typing.append(self._room(params))
                return self._results(self.typing[-1], self.now())
            case "getAttachment":
                if params["id"] not in self.files:
                    raise RpcError(-1, f"Could not find attachment with ID: {params['id']}")
                return {"data": base64.b64encode(self.files[params["id"]]).decode()}
        raise RpcError(-32601, "Method not implemented")

    def _room(self, params: dict[str, Any]) -> str:
        if group := params.get("groupId"):
            if group not in self.groups:
                raise RpcError(-1, f"Group not found: {group}")
            return str(group)
        (recipient,) = params["recipient"]
        if recipient in self.unregistered:
            response = self._results(recipient, self.now(), "UNREGISTERED_FAILURE")
            raise RpcError(-1, "Failed to send message", {"response": response})
        return str(recipient)

    def _results(self, room: str, at: int, kind: str = "SUCCESS", **more: Any) -> dict[str, Any]:
        address = {"uuid": room, "number": None}
        return {"timestamp": at, "results": [{"recipientAddress": address, "type": kind, **more}]}

    def _send(self, params: dict[str, Any]) -> Any:
        room, text = self._room(params), params.get("message", "")
        files = [_file(one) for one in params.get("attachments", ())]
        if not text and not files:
            raise RpcError(
                -1, "Sending empty message is not allowed, either a message, attachment or sticker must be given."
            )
        styles = [one.split(":") for one in params.get("textStyle", ())]
        length = len(text.encode("utf-16-le")) // 2
        assert all(int(start) + int(size) <= length for start, size, _ in styles), "a style beyond the text"
        at = self.now()
        if edited := params.get("editTimestamp"):
            for message in self.messages:
                if message["times"][-1] == edited:  # clients edit what they show
                    message |= {"text": text, "times": [*message["times"], at], "styles": params.get("textStyle", [])}
        else:
            self.messages.append(
                {"room": room, "text": text, "times": [at], "files": files, "styles": params.get("textStyle", [])}
            )
        return self._results(room, at)

    async def start(self, path: str = "") -> None:
        if path:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=64 * 1024 * 1024)
            self.address = path
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
            self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        while self.clients:
            await asyncio.sleep(0.001)

    def cut(self) -> None:
        for client in self.clients:
            client.writer.transport.abort()


def _file(uri: str) -> tuple[str, bytes]:
    head, _, data = uri.partition(";base64,")
    return unquote(head.partition(";filename=")[2]), base64.b64decode(data)


class SignalRig:
    """For the suite of channels."""

    room, direct_room, user, other_user = GROUP, str(ANN["uuid"]), str(ANN["uuid"]), str(BOB["uuid"])
    delivers_missed = True

    def __init__(self, platform: SignalPlatform) -> None:
        self.platform = platform
        self.channel = self.recreate_channel()

    def recreate_channel(self) -> SignalChannel:
        self.channel = SignalChannel("sig", self.platform.address, user=NUMBER)
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
        more: dict[str, Any] = {}
        if mention:
            text = f"\ufffc {text}"
            more["mentions"] = [{"name": NUMBER, "number": NUMBER, "uuid": UUID, "start": 0, "length": 1}]
        for name, content in files:
            id = f"file{len(self.platform.files)}.bin"
            self.platform.files[id] = content
            more["attachments"] = [
                {"contentType": "application/octet-stream", "filename": name, "id": id, "size": len(content)}
            ]
        group = room if room in self.platform.groups else ""
        return self.platform.say(self.platform.people[user or self.user], text, group=group, **more)

    async def redeliver(self, id: str) -> None:
        self.platform.tell(self.platform.envelopes[id])

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        return [
            PostedMessage(
                id=str(one["times"][0]), text=one["text"], edited=len(one["times"]) > 1, files=tuple(one["files"])
            )
            for one in self.platform.messages
            if one["room"] == room
        ]

    async def count_typing(self, room: str) -> int:
        return self.platform.typing.count(room)

    async def drop_connection(self) -> None:
        self.platform.cut()

    async def limit_rate(self, seconds: float) -> None:
        response = self.platform._results(
            GROUP, self.platform.now(), "RATE_LIMIT_FAILURE", retryAfterSeconds=int(seconds)
        )
        self.platform.faults.append(RpcError(-5, "Failed to send message due to rate limiting", {"response": response}))

    async def accept_then_drop(self) -> None:
        self.platform.faults.append("drop")


@asynccontextmanager
async def signal(**settings: str) -> AsyncIterator[SignalRig]:
    platform = SignalPlatform(**settings)
    await platform.start()
    rig = SignalRig(platform)
    try:
        yield rig
    finally:
        await rig.channel.close()
        await platform.stop()
