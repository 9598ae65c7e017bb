"""Writing to Telegram. Imported once a bot is started, with the client library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from telegram import Bot, InputFile, LinkPreviewOptions, ReplyParameters
from telegram.constants import ChatAction, ParseMode
from telegram.error import BadRequest, ChatMigrated, TelegramError

from mainstay.channels.layout import clean, units
from mainstay.channels.local_files import read_file
from mainstay.channels.telegram.files import UPLOAD_BYTES_MAX, Shelf, fetch_file, is_picture
from mainstay.channels.telegram.markup import html_of, plain_of
from mainstay.channels.telegram.updates import ID_MAX, TOPIC, Threads
from mainstay.channels.telegram.wire import Wire, is_gone, trouble_of
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, ChannelError, NeverSent, Sent

CAPTION_UNITS_MAX = 1024
CALL_S = 45.0
UPLOAD_S = 180.0
BUSY_S = 5.0
MOVED_MAX = 1000
# A preview is fetched by Telegram from whatever address stands in a text, and tells its owner that it was written.
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)

T = TypeVar("T")


class Where(msgspec.Struct, frozen=True):
    """A place in a chat, as the methods of the API take it."""

    chat: int
    topic: int | None = None
    reply: ReplyParameters | None = None


class Speaker:
    def __init__(self, wire: Wire, threads: Threads, shelf: Shelf) -> None:
        self._bot: Bot = wire.bot
        self._threads = threads
        self._shelf = shelf
        self._moved: dict[int, int] = {}  # groups that have become larger ones, and so others

    async def post(self, to: Address, text: str) -> Sent:
        async def work(where: Where, text: str, mode: str | None) -> int:
            sent = await self._bot.send_message(
                where.chat,
                text,
                parse_mode=mode,
                message_thread_id=where.topic,
                reply_parameters=where.reply,
                link_preview_options=NO_PREVIEW,
            )
            return sent.message_id

        return self._sent(to, await self._written(to, clean(text), work))

    async def edit(self, to: Address, id: str, text: str) -> None:
        async def work(where: Where, text: str, mode: str | None) -> None:
            try:
                await self._bot.edit_message_text(
                    text, where.chat, _number(id), parse_mode=mode, link_preview_options=NO_PREVIEW
                )
            except BadRequest as error:
                if "not modified" not in error.message.lower():
                    raise

        await self._written(to, clean(text), work)

    async def delete(self, to: Address, id: str) -> None:
        async def work(where: Where) -> None:
            try:
                await self._bot.delete_message(where.chat, _number(id))
            except BadRequest as error:
                if not is_gone(error):
                    raise

        await self._do(to, work)

    async def upload(self, to: Address, path: str, name: str, comment: str) -> Sent:
        content = await read_file(path, UPLOAD_BYTES_MAX)
        caption = html_of(comment)
        if units(plain_of(caption)) > CAPTION_UNITS_MAX:  # then it is a message of its own, before the file
            await self.post(to, caption)
            caption = ""

        async def picture(where: Where, text: str, mode: str | None) -> int:
            sent = await self._bot.send_photo(
                where.chat,
                InputFile(content, filename=name),
                caption=text or None,
                parse_mode=mode,
                message_thread_id=where.topic,
                reply_parameters=where.reply,
            )
            return sent.message_id

        async def document(where: Where, text: str, mode: str | None) -> int:
            sent = await self._bot.send_document(
                where.chat,
                InputFile(content, filename=name),
                caption=text or None,
                parse_mode=mode,
                message_thread_id=where.topic,
                reply_parameters=where.reply,
            )
            return sent.message_id

        if is_picture(content):
            try:
                return self._sent(to, await self._written(to, caption, picture, UPLOAD_S))
            except NeverSent:  # not as a picture: its sides may be too long. As a file it is as good as any
                pass
        return self._sent(to, await self._written(to, caption, document, UPLOAD_S))

    async def typing(self, to: Address) -> None:
        async def work(where: Where) -> None:
            await self._bot.send_chat_action(where.chat, ChatAction.TYPING, message_thread_id=where.topic)

        try:
            await self._do(to, work, BUSY_S)
        except ChannelError:
            pass  # nobody misses it

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        async def work(where: Where) -> str:
            return str((await self._bot.get_file(file.ref)).file_path or "")

        if file.size > bytes_max:
            raise NeverSent("The file is larger than allowed.")
        path = await self._do(Address("", "0"), work)
        return await fetch_file(self._shelf, path.removeprefix(f"{self._shelf.url}/"), file, target, bytes_max)

    # --- how -------------------------------------------------------------------------------------

    def _sent(self, to: Address, id: int) -> Sent:
        thread = to.thread or (str(id) if _number(to.room) < 0 else "")  # the chats of two have positive numbers
        if thread:
            self._threads.remember(to.room, str(id), thread)
        return Sent(id=str(id), thread=thread)

    async def _written(
        self,
        to: Address,
        text: str,
        work: Callable[[Where, str, str | None], Awaitable[T]],
        limit_s: float = CALL_S,
    ) -> T:
        """With text in Telegram's HTML; as plain text, should it not be able to read that."""

        async def write(where: Where) -> T:
            try:
                return await work(where, text, ParseMode.HTML)
            except BadRequest as error:
                if "can't parse" not in error.message.lower():
                    raise
            return await work(where, plain_of(text), None)

        return await self._do(to, write, limit_s)

    async def _do(self, to: Address, work: Callable[[Where], Awaitable[T]], limit_s: float = CALL_S) -> T:
        room = _number(to.room)
        moved = self._moved.get(room)
        where = Where(room, *_thread(to.thread)) if moved is None else Where(moved)
        try:
            async with asyncio.timeout(limit_s):
                try:
                    return await work(where)
                except ChatMigrated as error:  # it was not done; it is done in what the group has become
                    if len(self._moved) >= MOVED_MAX:
                        self._moved.clear()
                    self._moved[room] = error.new_chat_id
                    return await work(Where(error.new_chat_id))  # without a thread: ids of messages are others there
        except (TelegramError, TimeoutError, RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise trouble_of(error) from None


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise NeverSent("There is no such place on Telegram.") from None
    if abs(number) >= ID_MAX:
        raise NeverSent("There is no such place on Telegram.")
    return number


def _thread(thread: str) -> tuple[int | None, ReplyParameters | None]:
    if not thread:
        return None, None
    if thread.startswith(TOPIC):
        return _number(thread.removeprefix(TOPIC)), None
    return None, ReplyParameters(_number(thread), allow_sending_without_reply=True)
