"""Slack as a channel.

What is posted carries a mark of its key as metadata, by which it is found again after a connection was lost. An answer
that is being written is an ordinary message that is edited: Slack's own streams can only be added to, need a thread,
and take that mark at their end, when it is too late.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol

from mainstay.channels.slack.bounds import Bounds
from mainstay.channels.slack.events import Me
from mainstay.channels.slack.files import download, hand_over, mark, show
from mainstay.channels.slack.history import EVENT_TYPE, History
from mainstay.channels.slack.inbox import Inbox, Names
from mainstay.channels.slack.mrkdwn import from_markdown
from mainstay.channels.slack.posted import Posted, Take
from mainstay.channels.slack.web import Refused, TokenRefused, Web
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, ChannelError, Hear, Incoming, MaybeSent, NotSent, Sent, Shows
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Said
from mainstay.io.addresses import AddressRefused, place_of

LENGTH = 4_000  # Slack takes ten times as much, and asks for no more than this
EDIT_EVERY_S = 1.2  # fifty a minute
STATUS_CHARS_MAX = 60
_ABSENT = ("missing_scope", "unknown_method", "not_allowed_token_type", "access_denied", "method_deprecated")


class _Socket(Protocol):
    state: str

    async def close(self) -> None: ...


class SlackChannel:
    """`token` is the bot's (`xoxb-…`). With an `app_token` (`xapp-…`) it listens in socket mode; with a
    `signing_secret` Slack posts to `app()`. `base_url` is the Web API's, where that is not Slack's own."""

    kind = "slack"

    def __init__(
        self,
        name: str,
        token: str,
        *,
        app_token: str = "",
        signing_secret: str = "",
        base_url: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        self.name = name
        self._bounds = bounds or Bounds()
        self._token, self._app_token, self._secret = token.strip(), app_token.strip(), signing_secret.strip()
        self._base_url = base_url and base_url.rstrip("/") + "/"
        self._check()
        self.account = ""  # who we are there, once connected; for people
        self._web: Web | None = None
        self._inbox: Inbox | None = None
        self._history: History | None = None
        self._socket: _Socket | None = None
        self._closed = False
        self._shows_busy = True  # until Slack says that the app may not
        self._app = Posted(name, self._secret, self._taker, self._bounds) if self._secret else None

    def _check(self) -> None:
        where = f"channels.{self.name}"
        if not self._token:
            raise ConfigError(f"{where}.token: the bot's token is missing (xoxb-…).")
        if self._token.startswith("xapp-"):
            raise ConfigError(f"{where}.token: this is an app token; it belongs into app_token, and here the bot's.")
        if not self._app_token and not self._secret:
            raise ConfigError(f"{where}: give an app_token for socket mode, or a signing_secret for events by HTTP.")
        if self._app_token and not self._app_token.startswith("xapp-"):
            raise ConfigError(f"{where}.app_token: an app token begins with xapp-.")
        if not all(one.isascii() and one.isprintable() for one in (self._token, self._app_token, self._secret)):
            raise ConfigError(f"{where}: a token or secret holds characters that none has.")
        try:
            place_of(self._base_url or "https://slack.com/")
        except AddressRefused as error:
            raise ConfigError(f"{where}.base_url: {error}") from None
        if any(importlib.util.find_spec(library) is None for library in ("slack_sdk", "aiohttp")):
            raise ConfigError("Slack needs a library that is not installed: pip install -e '.[slack]'")

    # --- its life --------------------------------------------------------------------------------

    @property
    def shows(self) -> Shows:
        return Shows(
            markup="some",
            length=LENGTH,
            edits=True,
            deletes=True,
            files=True,
            typing=True,
            threads=True,
            history=True,
            search=True,
            once="look",
            edit_every_s=EDIT_EVERY_S,
            file_bytes_max=self._bounds.file_bytes_max,
        )

    @property
    def state(self) -> str:
        if self._closed:
            return "closed"
        if self._inbox is None or self._web is None:
            return "not started"
        return self._web.trouble or (self._socket.state if self._socket else "connected")

    async def start(self, hear: Hear) -> None:
        """Raises ConfigError if a token is refused, another ChannelError if Slack cannot be reached now."""
        assert self.state == "not started", "a channel is started once"
        self._web = Web(self._token, self._base_url, self._bounds)
        try:
            me = await self._who(self._web)
            self.account = f"{me.user} ({me.user_id})" if me.user else me.user_id
            names = Names(self._web, self._bounds)
            self._history = History(self._web, me, names, self._bounds)
            self._inbox = Inbox(self.name, me, names, hear, self._bounds)
            if self._app_token:
                await self._listen(self._web, self._inbox)
        except BaseException:
            web, self._web, self._inbox, self._history = self._web, None, None, None
            await web.close()
            raise

    async def _listen(self, web: Web, inbox: Inbox) -> None:
        from mainstay.channels.slack.socket import Socket

        socket = Socket(web, self._app_token, inbox.take, self._bounds)
        try:
            await socket.start()
        except ConfigError as error:
            raise ConfigError(f"channels.{self.name}: {error}") from None
        self._socket = socket

    async def _who(self, web: Web) -> Me:
        try:
            answer = await web.call("auth.test", {})
        except (TokenRefused, Refused) as error:
            raise ConfigError(f"channels.{self.name}: the token cannot be used. {error}") from None
        known = {key: value for key, value in answer.items() if isinstance(value, str)}
        if not known.get("user_id"):
            raise NotSent("Slack does not say who we are.")
        return Me(known["user_id"], known.get("bot_id", ""), known.get("user", ""))

    async def close(self) -> None:
        self._closed = True
        socket, web = self._socket, self._web
        self._socket = self._web = self._inbox = self._history = None
        if socket is not None:
            await socket.close()
        if web is not None:
            await web.close()

    def app(self) -> Any:
        return self._app

    def _taker(self) -> Take | None:
        return self._inbox.take if self._inbox is not None else None

    # --- what goes out ---------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        answer = await self._open().call(
            "chat.postMessage",
            {
                "channel": to.room,
                "thread_ts": to.thread or None,
                "text": text,
                "mrkdwn": True,
                # a link that was shown would be fetched: so a model could be made to send something out with it
                "unfurl_links": False,
                "unfurl_media": False,
                "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": mark(key)}},
            },
            writes=True,
        )
        ts = answer.get("ts")
        if not isinstance(ts, str) or not ts:
            raise MaybeSent("Slack does not say what became of the message.")
        return Sent(id=ts, thread=_thread(to, ts))

    async def whisper(self, to: Address, user: str, text: str) -> Sent:
        """Slack keeps it nowhere: it is gone when they reload."""
        asked = {"channel": to.room, "user": user, "thread_ts": to.thread or None, "text": text}
        answer = await self._open().call("chat.postEphemeral", asked, writes=True)
        return Sent(id=str(answer.get("message_ts", "")), thread=to.thread)

    async def find(self, to: Address, key: str) -> Sent | None:
        self._open()
        assert self._history is not None
        return await self._history.find(to, key)

    async def edit(self, to: Address, id: str, text: str) -> None:
        """What is left out of it stays: the metadata does."""
        await self._open().call("chat.update", {"channel": to.room, "ts": id, "text": text}, writes=True)

    async def delete(self, to: Address, id: str) -> None:
        web = self._open()
        try:
            if id.startswith("F"):  # a file of which Slack had not said yet in which message it is
                await web.call("files.delete", {"file": id}, writes=True)
            else:
                await web.call("chat.delete", {"channel": to.room, "ts": id}, writes=True)
        except Refused as error:
            if error.code not in ("message_not_found", "file_not_found", "file_deleted"):
                raise

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        web, history = self._open(), self._history
        assert history is not None
        id = await hand_over(web, path, name, self._bounds.file_bytes_max)
        await show(web, to, id, name, comment, key)
        try:
            for wait_s in self._bounds.share_s:  # it is shown in Slack's own time
                await asyncio.sleep(wait_s)
                if found := await history.find(to, key, just_now=True):
                    return found
        except ChannelError:  # that it is there was said; where, cannot be had
            pass
        return Sent(id=id, thread=to.thread)

    async def typing(self, to: Address, note: str = "") -> None:
        web = self._web
        if web is None or not to.thread or not self._shows_busy:
            return
        status = f"is busy: {note[:STATUS_CHARS_MAX]}" if note else "is thinking…"
        try:
            async with asyncio.timeout(self._bounds.typing_s):
                await web.call(
                    "assistant.threads.setStatus", {"channel_id": to.room, "thread_ts": to.thread, "status": status}
                )
        except Refused as error:
            self._shows_busy = error.code not in _ABSENT
        except (ChannelError, TimeoutError):
            pass

    def format(self, text: str) -> str:
        return from_markdown(text)

    # --- what came in, and before ----------------------------------------------------------------

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        return await download(self._open(), file, target, bytes_max, self._bounds)

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        self._open()
        assert self._history is not None
        return await self._history.since(at, after, limit)

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        self._open()
        assert self._history is not None
        return await self._history.search(at, query, limit)

    def _open(self) -> Web:
        if self._web is None:
            raise NotSent("The channel is closed." if self._closed else "The channel is not started.")
        return self._web


def _thread(to: Address, ts: str) -> str:
    """Where answers to it belong: between two, that is where it was said."""
    return to.thread or ("" if to.room.startswith("D") else ts)
