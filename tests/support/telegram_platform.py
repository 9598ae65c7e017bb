"""Telegram's Bot API on loopback: the methods that we use, with the answers and errors that are documented."""

from __future__ import annotations

import asyncio
import html
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any

from aiohttp import web

from mainstay.channels.telegram.channel import TelegramChannel
from mainstay.testing.channel_rig import PostedMessage

TOKEN = "123456:TEST-token_of_the_double"
GROUP = -1001234567890
FORUM = -1009876543210
BASIC = -400500
ME = {"id": 123456, "is_bot": True, "first_name": "Tester", "username": "tester_bot"}
ANN = {"id": 5001, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "annlee"}
BOB = {"id": 5002, "is_bot": False, "first_name": "Bob"}


class ApiError(Exception):
    def __init__(self, code: int, description: str, parameters: dict[str, int] | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.answer = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.answer["parameters"] = parameters


class TelegramPlatform:
    def __init__(self) -> None:
        self.chats: dict[int, dict[str, Any]] = {
            GROUP: {"id": GROUP, "type": "supergroup", "title": "The group"},
            FORUM: {"id": FORUM, "type": "supergroup", "title": "The forum", "is_forum": True},
            BASIC: {"id": BASIC, "type": "group", "title": "A small group"},
            ANN["id"]: {"id": ANN["id"], "type": "private", "first_name": "Ann"},
        }
        self.people = {person["id"]: person for person in (ANN, BOB)}
        self.messages: dict[tuple[int, int], dict[str, Any]] = {}
        self.updates: list[Any] = []
        self.confirmed = 0
        self.files: dict[str, tuple[str, bytes]] = {}
        self.actions: list[dict[str, str]] = []
        self.webhook: dict[str, str] = {}
        self.calls: list[str] = []
        self.faults: list[Exception | str] = []  # what becomes of the next posts: an ApiError, "drop", "lose"
        self.garbage: list[bytes] = []  # what the next questions for updates are answered with instead
        self.answered = 0  # questions for updates to which there was something to tell
        self._ids = 100
        self._update_ids = 9000
        self._news = asyncio.Event()
        self._asking: asyncio.Event | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    # --- what people do --------------------------------------------------------------------------

    def say(self, chat: int, sender: dict[str, Any], **more: Any) -> dict[str, Any]:
        message = self.message(chat, sender, **more)
        self.push(message)
        return message

    def message(self, chat: int, sender: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._ids += 1
        message = {"message_id": self._ids, "from": sender, "chat": self.chats[chat], "date": int(time.time()), **more}
        self.messages[chat, self._ids] = message
        return message

    def push(self, message: Any) -> int:
        return self.push_raw({"message": message})

    def push_raw(self, update: Any) -> int:
        self._update_ids += 1
        self.updates.append({"update_id": self._update_ids, **update} if isinstance(update, dict) else update)
        self._news.set()
        return self._update_ids

    def keep_file(self, name: str, content: bytes) -> dict[str, Any]:
        id = f"file-{len(self.files)}"
        self.files[id] = (f"documents/{id}.bin", content)
        return {"file_id": id, "file_unique_id": f"u{id}", "file_name": name, "file_size": len(content)}

    # --- the API ---------------------------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != TOKEN:
            return _answer(ApiError(401, "Unauthorized"))
        method = request.match_info["method"].lower()
        self.calls.append(method)
        form = dict(await request.post())
        handler = getattr(self, f"do_{method}", None)
        if handler is None:
            return _answer(ApiError(404, "Not Found"))
        fault = self.faults.pop(0) if method.startswith("send") and method != "sendchataction" and self.faults else None
        try:
            if isinstance(fault, Exception):
                raise fault
            if fault != "lose":
                result = await handler(form)
        except ApiError as error:
            return _answer(error)
        if fault:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if isinstance(result, bytes):
            return web.Response(body=result, content_type="application/json")
        return web.Response(text=json.dumps({"ok": True, "result": result}), content_type="application/json")

    async def serve_file(self, request: web.Request) -> web.Response:
        if request.match_info["token"] != TOKEN:
            return web.Response(status=401)
        self.calls.append("file")
        if request.match_info["path"] == "documents/elsewhere.bin":
            raise web.HTTPFound(f"{self.url}/file/bot{TOKEN}/documents/secret.bin")
        for path, content in self.files.values():
            if path == request.match_info["path"]:
                return web.Response(body=content, content_type="application/octet-stream")
        return web.Response(status=404)

    async def do_getme(self, form: dict[str, Any]) -> Any:
        return {**ME, "can_join_groups": True, "can_read_all_group_messages": True, "supports_inline_queries": False}

    async def do_deletewebhook(self, form: dict[str, Any]) -> Any:
        self.webhook = {}
        return True

    async def do_setwebhook(self, form: dict[str, Any]) -> Any:
        self.webhook = form
        return True

    async def do_getupdates(self, form: dict[str, Any]) -> Any:
        if self.webhook:
            raise ApiError(409, "Conflict: can't use getUpdates method while webhook is active")
        if self._asking is not None:
            self._asking.set()  # the one who asked before is sent away
        mine = self._asking = asyncio.Event()
        if self.garbage:
            return self.garbage.pop(0)
        offset = int(form.get("offset", 0))
        if offset > 0:
            self.confirmed = max(self.confirmed, offset - 1)
            self.updates = [one for one in self.updates if not isinstance(one, dict) or one["update_id"] >= offset]
        deadline = time.monotonic() + int(form.get("timeout", 0))
        while not self.updates and time.monotonic() < deadline and not mine.is_set():
            self._news.clear()
            waits = [asyncio.create_task(self._news.wait()), asyncio.create_task(mine.wait())]
            await asyncio.wait(waits, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
            for one in waits:
                one.cancel()
        if mine.is_set():
            raise ApiError(
                409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            )
        if self._asking is mine:
            self._asking = None
        told = self.updates[: int(form.get("limit", 100))]
        self.answered += bool(told)
        if any(isinstance(one, dict) and "raw" in one for one in told):
            parts = [one["raw"] if "raw" in one else json.dumps(one).encode() for one in told]
            return b'{"ok":true,"result":[' + b",".join(parts) + b"]}"
        return told

    async def do_sendmessage(self, form: dict[str, Any]) -> Any:
        return self._post(form, self._text(form, "text", 4096))

    async def do_senddocument(self, form: dict[str, Any]) -> Any:
        return self._file(form, "document")

    async def do_sendphoto(self, form: dict[str, Any]) -> Any:
        return self._file(form, "photo")

    def _file(self, form: dict[str, Any], field: str) -> Any:
        given = form[field]
        part = form[given.removeprefix("attach://")] if isinstance(given, str) else given
        content = part.file.read()
        kept = self.keep_file(part.filename, content)
        more: dict[str, Any] = {"document": kept}
        if field == "photo":
            if b"too wide" in content:
                raise ApiError(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
            more = {"photo": [{**kept, "width": 90, "height": 90}], "_name": part.filename}
        caption = self._text(form, "caption", 1024) if form.get("caption") else ""
        return self._post(form, "", **more, **({"caption": caption} if caption else {}))

    def _text(self, form: dict[str, Any], field: str, units_max: int) -> str:
        text = str(form.get(field, ""))
        if form.get("parse_mode") == "HTML":
            text = parse(text)
        text = text.strip()
        if not text:
            raise ApiError(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > units_max:
            raise ApiError(400, f"Bad Request: {'message' if field == 'text' else 'message caption'} is too long")
        return text

    def _chat(self, form: dict[str, Any]) -> int:
        chat = self.chats.get(int(form["chat_id"]))
        if chat is None:
            raise ApiError(400, "Bad Request: chat not found")
        if "moved" in chat:
            raise ApiError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": chat["moved"]},
            )
        if chat.get("blocked"):
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        return int(chat["id"])

    def _post(self, form: dict[str, Any], text: str, **more: Any) -> Any:
        chat = self._chat(form)
        if topic := form.get("message_thread_id"):
            if not self.chats[chat].get("is_forum"):
                raise ApiError(400, "Bad Request: message thread not found")
            more |= {"message_thread_id": int(topic), "is_topic_message": True}
        reply = json.loads(form.get("reply_parameters", "{}"))
        replied = self.messages.get((chat, reply.get("message_id", 0)))
        if replied is not None:
            more |= self.reply(replied)
        elif reply and not reply.get("allow_sending_without_reply"):
            raise ApiError(400, "Bad Request: message to be replied not found")
        return self.message(chat, ME, **({"text": text} if text else {}), **more)

    def reply(self, to: dict[str, Any]) -> dict[str, Any]:
        """What a message that replies to another has beside its own."""
        more: dict[str, Any] = {"reply_to_message": {key: to[key] for key in to if key != "reply_to_message"}}
        if to["chat"]["type"] == "supergroup":
            more["message_thread_id"] = to.get("message_thread_id", to["message_id"])
        return more

    async def do_editmessagetext(self, form: dict[str, Any]) -> Any:
        message = self.messages.get((self._chat(form), int(form["message_id"])))
        if message is None or message["from"] != ME:
            raise ApiError(400, "Bad Request: message to edit not found")
        text = self._text(form, "text", 4096)
        if message["text"] == text:
            raise ApiError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the "
                "same as a current content and reply markup of the message",
            )
        message |= {"text": text, "edit_date": int(time.time())}
        return message

    async def do_deletemessage(self, form: dict[str, Any]) -> Any:
        if self.messages.pop((self._chat(form), int(form["message_id"])), None) is None:
            raise ApiError(400, "Bad Request: message to delete not found")
        return True

    async def do_sendchataction(self, form: dict[str, Any]) -> Any:
        self._chat(form)
        self.actions.append(form)
        return True

    async def do_getfile(self, form: dict[str, Any]) -> Any:
        if form["file_id"] not in self.files:
            raise ApiError(400, "Bad Request: invalid file_id")
        path, content = self.files[form["file_id"]]
        if len(content) > 20 * 1024 * 1024:
            raise ApiError(400, "Bad Request: file is too big")
        return {"file_id": form["file_id"], "file_unique_id": "u", "file_size": len(content), "file_path": path}

    # --- running ---------------------------------------------------------------------------------

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/bot{token}/{method}", self.serve)
        app.router.add_get("/file/bot{token}/{path:.+}", self.serve_file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def cut(self) -> None:
        """Every connection that is there, at once."""
        assert self._runner is not None
        assert self._runner.server is not None
        for one in self._runner.server.connections:
            if one.transport is not None:
                one.transport.abort()


class _Html(HTMLParser):
    TAGS = ("b", "strong", "i", "em", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.TAGS:
            raise ApiError(400, f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}" at byte offset 0')
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ApiError(400, "Bad Request: can't parse entities: Unmatched end tag at byte offset 0")

    def handle_data(self, data: str) -> None:
        if "<" in data:
            raise ApiError(400, "Bad Request: can't parse entities: Unsupported start tag at byte offset 0")
        self.text.append(data)

    def handle_entityref(self, name: str) -> None:
        known = name in ("lt", "gt", "amp", "quot")
        self.text.append(html.unescape(f"&{name};") if known else f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.text.append(html.unescape(f"&#{name};"))


def parse(text: str) -> str:
    """The text as it is shown; what is not allowed is refused as Telegram does it."""
    parser = _Html()
    parser.feed(text)
    rest = parser.rawdata
    parser.close()
    if parser.open or "<" in rest:
        raise ApiError(400, "Bad Request: can't parse entities: Can't find end tag corresponding to start tag")
    return "".join(parser.text)


def _answer(error: ApiError) -> web.Response:
    return web.Response(status=error.code, text=json.dumps(error.answer), content_type="application/json")


class TelegramRig:
    """For the suite of channels."""

    room, direct_room, user, other_user = str(GROUP), str(ANN["id"]), str(ANN["id"]), str(BOB["id"])
    delivers_missed = True

    def __init__(self, platform: TelegramPlatform) -> None:
        self.platform = platform
        self.channel = self.recreate_channel()

    def recreate_channel(self) -> TelegramChannel:
        self.channel = TelegramChannel("tg", TOKEN, base_url=self.platform.url)
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
        platform = self.platform
        sender = platform.people[int(user or self.user)]
        more: dict[str, Any] = {}
        field = "caption" if files else "text"
        if mention:
            name = f"@{ME['username']}"
            text = f"{name} {text}"
            entities = "caption_entities" if files else "entities"
            more[entities] = [{"type": "mention", "offset": 0, "length": len(name)}]
        if re.fullmatch(r"\d+", thread):
            more |= platform.reply(platform.messages[int(room), int(thread)])
        for name, content in files:
            more["document"] = platform.keep_file(name, content)
        more[field] = text
        return str(platform.say(int(room), sender, **more)["message_id"])

    async def redeliver(self, id: str) -> None:
        self.platform.push(next(one for (_, number), one in self.platform.messages.items() if number == int(id)))

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        return [self._shown(one) for (chat, _), one in self.platform.messages.items() if self._ours(chat, one, room)]

    def _ours(self, chat: int, message: dict[str, Any], room: str) -> bool:
        return chat == int(room) and message["from"] == ME

    def _shown(self, message: dict[str, Any]) -> PostedMessage:
        kept = message.get("document") or (message.get("photo") or [None])[0]
        files = ((kept["file_name"], self.platform.files[kept["file_id"]][1]),) if kept else ()
        return PostedMessage(
            id=str(message["message_id"]),
            text=message.get("text", message.get("caption", "")),
            thread=str(message.get("message_thread_id", message["message_id"])),
            edited="edit_date" in message,
            files=files,
        )

    async def count_typing(self, room: str) -> int:
        return sum(1 for one in self.platform.actions if one["chat_id"] == room)

    async def drop_connection(self) -> None:
        self.platform.cut()

    async def limit_rate(self, seconds: float) -> None:
        after = int(seconds)
        self.platform.faults.append(ApiError(429, f"Too Many Requests: retry after {after}", {"retry_after": after}))

    async def accept_then_drop(self) -> None:
        self.platform.faults.append("drop")


@asynccontextmanager
async def telegram() -> AsyncIterator[TelegramRig]:
    platform = TelegramPlatform()
    await platform.start()
    rig = TelegramRig(platform)
    try:
        yield rig
    finally:
        await rig.channel.close()
        await platform.stop()
