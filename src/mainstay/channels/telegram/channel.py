"""Telegram channel: a bot that receives by long polling or a webhook."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mainstay.channels.incoming_dispatch import compute_backoff_s
from mainstay.channels.styled_text import markdown_to_spans
from mainstay.channels.telegram.attachments import TelegramFileBaseUrl
from mainstay.channels.telegram.events import TelegramThreadCache, TelegramUpdateDecoder, TelegramUser
from mainstay.channels.telegram.http_receiver import TelegramWebhookApp
from mainstay.channels.telegram.manifest import TelegramSettings
from mainstay.channels.telegram.markup import markdown_to_html
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    DeliveryDeferred,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import RoomMessage
from mainstay.io.urls import AddressRefused, parse_url

if TYPE_CHECKING:
    from mainstay.channels.telegram.client import TelegramClient

DEFAULT_BASE_URL = "https://api.telegram.org"

_log = logging.getLogger(__name__)
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{10,100}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_CAPABILITIES = ChannelCapabilities(
    markup="some",
    length_max=4096,
    edits=True,
    deletes=True,
    files=True,
    typing=True,
    threads=True,
    edit_interval_s=3.0,  # the rate limit is twenty messages a minute in a group
)


class TelegramChannel:
    """A private chat is one conversation. In a group a message that mentions the bot begins a thread of replies, and in
    a forum each topic is a thread. In groups a bot receives only messages addressed to it, unless its privacy mode is
    turned off."""

    kind = "telegram"

    def __init__(self, name: str, token: str, *, base_url: str = "", secret: str = "", url: str = "") -> None:
        """With a secret, Telegram posts updates to `asgi_app()` (webhook) instead of being polled. `url` is that
        application's public address; if it is given, it is registered with Telegram."""
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"channels.{name}.token is not a Telegram bot token; @BotFather issues one.")
        if secret and not _SECRET.fullmatch(secret):
            raise ConfigError(f"channels.{name}.secret may contain only letters, digits, _ and -.")
        if url and not secret:
            raise ConfigError(f"channels.{name}.url needs a secret, which authenticates Telegram's requests.")
        try:
            self._base_url = parse_url(base_url or DEFAULT_BASE_URL).url.rstrip("/")
        except AddressRefused as error:
            raise ConfigError(f"channels.{name}.base_url is not a server address: {error}") from None
        self.name = name
        self._token = token
        self._file_server = TelegramFileBaseUrl(f"{self._base_url}/file/bot{token}", allow_private=bool(base_url))
        self._webhook_app = TelegramWebhookApp(secret) if secret else None
        self._secret, self._url = secret, url
        self._threads = TelegramThreadCache()
        self._state = "not started"
        self.account = ""  # the bot's name on the platform, for display; empty before it is connected
        self._client: Any = None
        self._sender: Any = None
        self._poll_task: asyncio.Task[None] | None = None

    @property
    def capabilities(self) -> ChannelCapabilities:
        return _CAPABILITIES

    @property
    def state(self) -> str:
        return self._state

    # --- receiving -------------------------------------------------------------------------------

    async def start(self, on_message: MessageHandler) -> None:
        try:
            from mainstay.channels.telegram.client import TelegramClient
            from mainstay.channels.telegram.polling import TelegramPoller
            from mainstay.channels.telegram.sender import TelegramSender
        except ImportError:
            raise ConfigError("Telegram needs python-telegram-bot: pip install -e '.[telegram]'") from None
        markdown_to_spans("")  # raises ConfigError now if its library is missing
        client = self._client = TelegramClient(self._token, self._base_url)
        try:
            me = await self._connect(client)
        except BaseException:
            await self.close()
            raise
        self.account = f"@{me.username}"
        reader = TelegramUpdateDecoder(self.name, me, self._threads)
        self._sender = TelegramSender(client, self._threads, self._file_server)
        self._set_state("connected")
        if not me.can_read_all_group_messages:
            _log.info("%s: privacy mode is on: in groups the bot receives only messages addressed to it", self.name)
        if self._webhook_app is not None:
            self._webhook_app.set_handler(reader, on_message)
        else:
            self._poll_task = asyncio.create_task(TelegramPoller(client, reader, on_message, self._set_state).run())

    async def _connect(self, client: TelegramClient) -> TelegramUser:
        """Fetch the bot's account, retrying until Telegram answers, and set or delete the webhook."""
        from telegram.error import InvalidToken, TelegramError

        attempts = 0
        while True:
            try:
                me = msgspec.convert(await client.connect(), TelegramUser)
                if self._webhook_app is None:  # getUpdates is refused while a webhook is set
                    await client.bot.delete_webhook(drop_pending_updates=False)
                elif self._url:  # one connection, so that updates arrive in order
                    await client.bot.set_webhook(
                        self._url, secret_token=self._secret, allowed_updates=["message"], max_connections=1
                    )
                return me
            except InvalidToken:
                raise ConfigError(f"channels.{self.name}: Telegram refuses the token.") from None
            except (TelegramError, msgspec.MsgspecError, LookupError, TypeError, ValueError):
                self._set_state("Telegram cannot be reached")
            await asyncio.sleep(compute_backoff_s(attempts))
            attempts += 1

    def _set_state(self, state: str) -> None:
        if self._client is not None:
            self._state = state

    async def close(self) -> None:
        self._state = "closed"
        client, self._client, self._sender = self._client, None, None
        if self._webhook_app is not None:
            self._webhook_app.set_handler(None, None)
        if self._poll_task is not None:
            self._poll_task.cancel()
            await asyncio.wait([self._poll_task])
            self._poll_task = None
        if client is not None:
            await client.close()

    def asgi_app(self) -> Any:
        return self._webhook_app

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        sent: SentMessage = await self._connected_sender().post(to, text)
        return sent

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None  # a bot cannot read its own messages

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        await self._connected_sender().edit(to, id, text)

    async def delete(self, to: ChatAddress, id: str) -> None:
        await self._connected_sender().delete(to, id)

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        sent: SentMessage = await self._connected_sender().upload(to, path, name, comment)
        return sent

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        if self._sender is not None:
            await self._sender.typing(to)

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        return str(await self._connected_sender().download(file, target, bytes_max))

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        return ()  # a bot cannot read earlier messages; the gateway's log has those it received

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        return ()

    def format(self, text: str) -> str:
        return markdown_to_html(text)

    def _connected_sender(self) -> Any:
        if self._sender is None:
            raise DeliveryDeferred(f"{self.name} is not connected: {self._state}.")
        return self._sender


def build_telegram_channel(name: str, settings: TelegramSettings, context: ChannelFactoryContext) -> TelegramChannel:
    return TelegramChannel(name, settings.token, base_url=settings.base_url, secret=settings.secret, url=settings.url)
