"""Sends messages and files to Telegram. Imported when a bot is started, since it loads the client library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from telegram import Bot, InputFile, LinkPreviewOptions, ReplyParameters
from telegram.constants import ChatAction, ParseMode
from telegram.error import BadRequest, ChatMigrated, TelegramError

from mainstay.channels.attachment_files import read_file
from mainstay.channels.styled_text import strip_control_chars, utf16_length
from mainstay.channels.telegram.attachments import UPLOAD_BYTES_MAX, TelegramFileBaseUrl, download_file, is_photo
from mainstay.channels.telegram.client import TelegramClient, is_message_missing, to_channel_error
from mainstay.channels.telegram.events import ID_MAX, TOPIC_PREFIX, TelegramThreadCache
from mainstay.channels.telegram.markup import html_to_plain_text, markdown_to_html
from mainstay.core.channels import ChannelError, DeliveryRejected, IncomingFile, SentMessage
from mainstay.core.chat_addresses import ChatAddress

CAPTION_UTF16_MAX = 1024
REQUEST_TIMEOUT_S = 45.0
UPLOAD_TIMEOUT_S = 180.0
TYPING_TIMEOUT_S = 5.0
MIGRATED_GROUPS_MAX = 1000
# For a preview Telegram would fetch every link in a text, which would tell the linked server about the message.
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)

T = TypeVar("T")


class TelegramTarget(msgspec.Struct, frozen=True):
    """A chat, topic and replied message, as arguments of the Bot API."""

    chat: int
    topic: int | None = None
    reply: ReplyParameters | None = None


class TelegramSender:
    def __init__(self, client: TelegramClient, threads: TelegramThreadCache, file_server: TelegramFileBaseUrl) -> None:
        self._bot: Bot = client.bot
        self._threads = threads
        self._file_server = file_server
        self._migrated_groups: dict[int, int] = {}  # id of a group -> id of the supergroup that it was upgraded to

    async def post(self, to: ChatAddress, text: str) -> SentMessage:
        async def send(target: TelegramTarget, text: str, mode: str | None) -> int:
            sent = await self._bot.send_message(
                target.chat,
                text,
                parse_mode=mode,
                message_thread_id=target.topic,
                reply_parameters=target.reply,
                link_preview_options=NO_PREVIEW,
            )
            return sent.message_id

        return self._build_receipt(to, await self._send_text(to, strip_control_chars(text), send))

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        async def send(target: TelegramTarget, text: str, mode: str | None) -> None:
            try:
                await self._bot.edit_message_text(
                    text, target.chat, _parse_id(id), parse_mode=mode, link_preview_options=NO_PREVIEW
                )
            except BadRequest as error:
                if "not modified" not in error.message.lower():
                    raise

        await self._send_text(to, strip_control_chars(text), send)

    async def delete(self, to: ChatAddress, id: str) -> None:
        async def send(target: TelegramTarget) -> None:
            try:
                await self._bot.delete_message(target.chat, _parse_id(id))
            except BadRequest as error:
                if not is_message_missing(error):
                    raise

        await self._call_api(to, send)

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str) -> SentMessage:
        content = await read_file(path, UPLOAD_BYTES_MAX)
        caption = markdown_to_html(comment)
        # too long for a caption: sent as a message before the file
        if utf16_length(html_to_plain_text(caption)) > CAPTION_UTF16_MAX:
            await self.post(to, caption)
            caption = ""

        async def send_photo(target: TelegramTarget, text: str, mode: str | None) -> int:
            sent = await self._bot.send_photo(
                target.chat,
                InputFile(content, filename=name),
                caption=text or None,
                parse_mode=mode,
                message_thread_id=target.topic,
                reply_parameters=target.reply,
            )
            return sent.message_id

        async def send_document(target: TelegramTarget, text: str, mode: str | None) -> int:
            sent = await self._bot.send_document(
                target.chat,
                InputFile(content, filename=name),
                caption=text or None,
                parse_mode=mode,
                message_thread_id=target.topic,
                reply_parameters=target.reply,
            )
            return sent.message_id

        if is_photo(content):
            try:
                return self._build_receipt(to, await self._send_text(to, caption, send_photo, UPLOAD_TIMEOUT_S))
            except DeliveryRejected:  # refused as a photo (its dimensions may be too large): send it as a document
                pass
        return self._build_receipt(to, await self._send_text(to, caption, send_document, UPLOAD_TIMEOUT_S))

    async def typing(self, to: ChatAddress) -> None:
        async def send(target: TelegramTarget) -> None:
            await self._bot.send_chat_action(target.chat, ChatAction.TYPING, message_thread_id=target.topic)

        try:
            await self._call_api(to, send, TYPING_TIMEOUT_S)
        except ChannelError:
            pass  # the typing indicator is optional

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        async def fetch_path(chat: TelegramTarget) -> str:
            return str((await self._bot.get_file(file.ref)).file_path or "")

        if file.size > bytes_max:
            raise DeliveryRejected("The file is larger than allowed.")
        path = await self._call_api(ChatAddress("", "0"), fetch_path)
        return await download_file(
            self._file_server, path.removeprefix(f"{self._file_server.url}/"), file, target, bytes_max
        )

    # --- requests --------------------------------------------------------------------------------

    def _build_receipt(self, to: ChatAddress, id: int) -> SentMessage:
        thread = to.thread or (str(id) if _parse_id(to.room) < 0 else "")  # ids of private chats are positive
        if thread:
            self._threads.remember(to.room, str(id), thread)
        return SentMessage(id=str(id), thread=thread)

    async def _send_text(
        self,
        to: ChatAddress,
        text: str,
        send: Callable[[TelegramTarget, str, str | None], Awaitable[T]],
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> T:
        """Send the text as Telegram's HTML, and as plain text if Telegram cannot parse that."""

        async def send_with_fallback(target: TelegramTarget) -> T:
            try:
                return await send(target, text, ParseMode.HTML)
            except BadRequest as error:
                if "can't parse" not in error.message.lower():
                    raise
            return await send(target, html_to_plain_text(text), None)

        return await self._call_api(to, send_with_fallback, timeout_s)

    async def _call_api(
        self, to: ChatAddress, call: Callable[[TelegramTarget], Awaitable[T]], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> T:
        room = _parse_id(to.room)
        supergroup = self._migrated_groups.get(room)
        target = (
            TelegramTarget(room, *_thread_arguments(to.thread)) if supergroup is None else TelegramTarget(supergroup)
        )
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await call(target)
                except ChatMigrated as error:  # nothing was sent: repeat it in the supergroup
                    if len(self._migrated_groups) >= MIGRATED_GROUPS_MAX:
                        self._migrated_groups.clear()
                    self._migrated_groups[room] = error.new_chat_id
                    return await call(TelegramTarget(error.new_chat_id))  # no thread: message ids differ there
        except (TelegramError, TimeoutError, RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise to_channel_error(error) from None


def _parse_id(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise DeliveryRejected("There is no such chat on Telegram.") from None
    if abs(number) >= ID_MAX:
        raise DeliveryRejected("There is no such chat on Telegram.")
    return number


def _thread_arguments(thread: str) -> tuple[int | None, ReplyParameters | None]:
    if not thread:
        return None, None
    if thread.startswith(TOPIC_PREFIX):
        return _parse_id(thread.removeprefix(TOPIC_PREFIX)), None
    return None, ReplyParameters(_parse_id(thread), allow_sending_without_reply=True)
