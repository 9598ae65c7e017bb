"""A Telegram bot as a channel."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.channels.layout import lay_out
from mainstay.channels.telegram.files import Shelf
from mainstay.channels.telegram.hook import Hook
from mainstay.channels.telegram.markup import html_of
from mainstay.channels.telegram.updates import Reader, Threads, User
from mainstay.channels.telling import growing
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, Hear, Incoming, NotSent, Sent, Shows
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Said
from mainstay.io.addresses import AddressRefused, place_of

API = "https://api.telegram.org"

_log = logging.getLogger(__name__)
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{10,100}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_SHOWS = Shows(
    markup="some",
    length=4096,
    edits=True,
    deletes=True,
    files=True,
    typing=True,
    threads=True,
    edit_every_s=3.0,  # a group may be written to twenty times a minute
)


class TelegramChannel:
    """Private chats are one conversation each. In a group a message that names us begins a thread of replies, and in a
    forum each topic is one. A bot hears of a group only what is meant for it unless its privacy mode is turned off."""

    kind = "telegram"

    def __init__(self, name: str, token: str, *, base_url: str = "", secret: str = "", url: str = "") -> None:
        """With a secret, Telegram posts to `app()` instead of being asked; `url` is where that is reached from outside,
        and Telegram is told so if it is given."""
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"channels.{name}.token is no token of a Telegram bot, as @BotFather gives it.")
        if secret and not _SECRET.fullmatch(secret):
            raise ConfigError(f"channels.{name}.secret may hold letters, digits, _ and -: Telegram takes no others.")
        if url and not secret:
            raise ConfigError(f"channels.{name}.url needs a secret, by which Telegram is known.")
        try:
            self._base_url = place_of(base_url or API).url.rstrip("/")
        except AddressRefused as error:
            raise ConfigError(f"channels.{name}.base_url is no address of a server: {error}") from None
        self.name = name
        self._token = token
        self._shelf = Shelf(f"{self._base_url}/file/bot{token}", private=bool(base_url))
        self._hook = Hook(secret) if secret else None
        self._secret, self._url = secret, url
        self._threads = Threads()
        self._state = "not started"
        self.account = ""  # who we are there, once connected; for people
        self._wire: Any = None
        self._speaker: Any = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def shows(self) -> Shows:
        return _SHOWS

    @property
    def state(self) -> str:
        return self._state

    # --- listening -------------------------------------------------------------------------------

    async def start(self, hear: Hear) -> None:
        try:
            from mainstay.channels.telegram.polling import Poller
            from mainstay.channels.telegram.speaking import Speaker
            from mainstay.channels.telegram.wire import Wire
        except ImportError:
            raise ConfigError("Telegram needs python-telegram-bot: pip install -e '.[telegram]'") from None
        lay_out("")  # what that needs is missing now, or never
        wire = self._wire = Wire(self._token, self._base_url)
        try:
            me = await self._enter(wire)
        except BaseException:
            await self.close()
            raise
        self.account = f"@{me.username}"
        reader = Reader(self.name, me, self._threads)
        self._speaker = Speaker(wire, self._threads, self._shelf)
        self._report("connected")
        if not me.can_read_all_group_messages:
            _log.info("%s: of groups the bot hears only what is meant for it (its privacy mode is on)", self.name)
        if self._hook is not None:
            self._hook.listen(reader, hear)
        else:
            self._listening = asyncio.create_task(Poller(wire, reader, hear, self._report).run())

    async def _enter(self, wire: Any) -> User:
        """Ask who we are until there is an answer, and say how we want to listen."""
        from telegram.error import InvalidToken, TelegramError

        tries = 0
        while True:
            try:
                me = msgspec.convert(await wire.open(), User)
                if self._hook is None:  # while Telegram posts to somebody it does not answer
                    await wire.bot.delete_webhook(drop_pending_updates=False)
                elif self._url:  # one at a time, so that they come in order
                    await wire.bot.set_webhook(
                        self._url, secret_token=self._secret, allowed_updates=["message"], max_connections=1
                    )
                return me
            except InvalidToken:
                raise ConfigError(f"channels.{self.name}: Telegram refuses the token.") from None
            except (TelegramError, msgspec.MsgspecError, LookupError, TypeError, ValueError):
                self._report("Telegram cannot be reached")
            await asyncio.sleep(growing(tries))
            tries += 1

    def _report(self, state: str) -> None:
        if self._wire is not None:
            self._state = state

    async def close(self) -> None:
        self._state = "closed"
        wire, self._wire, self._speaker = self._wire, None, None
        if self._hook is not None:
            self._hook.listen(None, None)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
            self._listening = None
        if wire is not None:
            await wire.close()

    def app(self) -> Any:
        return self._hook

    # --- speaking --------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        sent: Sent = await self._at_work().post(to, text)
        return sent

    async def find(self, to: Address, key: str) -> Sent | None:
        return None  # a bot cannot read what it has written

    async def edit(self, to: Address, id: str, text: str) -> None:
        await self._at_work().edit(to, id, text)

    async def delete(self, to: Address, id: str) -> None:
        await self._at_work().delete(to, id)

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        sent: Sent = await self._at_work().upload(to, path, name, comment)
        return sent

    async def typing(self, to: Address, note: str = "") -> None:
        if self._speaker is not None:
            await self._speaker.typing(to)

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        return str(await self._at_work().download(file, target, bytes_max))

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        return ()  # a bot cannot read what was said; what it heard is in the log

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        return ()

    def format(self, text: str) -> str:
        return html_of(text)

    def _at_work(self) -> Any:
        if self._speaker is None:
            raise NotSent(f"{self.name} is not connected: {self._state}.")
        return self._speaker
