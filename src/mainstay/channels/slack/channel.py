"""Slack channel.

Every posted message carries a hash of its idempotency key as metadata, by which it is found again after a connection
was lost. An answer grows in one of Slack's message streams; where it has links or is no stream, the message is edited.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol

from mainstay.channels.slack.attachments import download_file, hash_key, share_file, upload_file
from mainstay.channels.slack.client import SlackClient, SlackRequestRefused, SlackTokenRefused
from mainstay.channels.slack.event_dispatcher import SlackInbox, SlackUserNameCache
from mainstay.channels.slack.events import SlackIdentity
from mainstay.channels.slack.history import EVENT_TYPE, SlackHistory
from mainstay.channels.slack.http_receiver import EnvelopeHandler, SlackEventsApp
from mainstay.channels.slack.limits import SlackLimits
from mainstay.channels.slack.manifest import SlackSettings
from mainstay.channels.slack.markup import markdown_to_mrkdwn
from mainstay.channels.slack.streams import OPEN_CODES, SlackStreams
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    ChannelError,
    DeliveryDeferred,
    DeliveryUnknown,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import RoomMessage
from mainstay.io.urls import AddressRefused, parse_url

MESSAGE_CHARS_MAX = 4_000  # characters, as Slack recommends; it accepts ten times as many
EDIT_INTERVAL_S = 1.2  # the rate limit is fifty edits a minute
STATUS_CHARS_MAX = 60
_NO_TYPING_CODES = ("missing_scope", "unknown_method", "not_allowed_token_type", "access_denied", "method_deprecated")


class _SlackReceiver(Protocol):
    state: str

    async def close(self) -> None: ...


class SlackChannel:
    """`token` is the bot token (`xoxb-…`). With an `app_token` (`xapp-…`) it receives by Socket Mode; with a
    `signing_secret` Slack posts events to `app()`. `base_url` replaces the address of Slack's Web API."""

    kind = "slack"

    def __init__(
        self,
        name: str,
        token: str,
        *,
        app_token: str = "",
        signing_secret: str = "",
        base_url: str = "",
        limits: SlackLimits | None = None,
    ) -> None:
        self.name = name
        self._limits = limits or SlackLimits()
        self._token, self._app_token, self._secret = token.strip(), app_token.strip(), signing_secret.strip()
        self._base_url = base_url and base_url.rstrip("/") + "/"
        self._check_config()
        self.account = ""  # the bot's name and id, for display; empty before it is connected
        self._client: SlackClient | None = None
        self._inbox: SlackInbox | None = None
        self._history: SlackHistory | None = None
        self._streams: SlackStreams | None = None
        self._receiver: _SlackReceiver | None = None
        self._closed = False
        self._typing_supported = True  # False once Slack has refused the app's typing indicator
        self._app = (
            SlackEventsApp(name, self._secret, self._get_envelope_handler, self._limits) if self._secret else None
        )

    def _check_config(self) -> None:
        path = f"channels.{self.name}"
        if not self._token:
            raise ConfigError(f"{path}.token: the bot token (xoxb-…) is missing.")
        if self._token.startswith("xapp-"):
            raise ConfigError(
                f"{path}.token: this is an app token, which belongs in app_token; give the bot token here."
            )
        if not self._app_token and not self._secret:
            raise ConfigError(f"{path}: give an app_token for Socket Mode, or a signing_secret for the Events API.")
        if self._app_token and not self._app_token.startswith("xapp-"):
            raise ConfigError(f"{path}.app_token: an app token begins with xapp-.")
        secrets = (self._token, self._app_token, self._secret)
        if not all(secret.isascii() and secret.isprintable() for secret in secrets):
            raise ConfigError(f"{path}: a token or secret contains characters that are not printable ASCII.")
        try:
            parse_url(self._base_url or "https://slack.com/")
        except AddressRefused as error:
            raise ConfigError(f"{path}.base_url: {error}") from None
        if any(importlib.util.find_spec(library) is None for library in ("slack_sdk", "aiohttp")):
            raise ConfigError("Slack needs a library that is not installed: pip install -e '.[slack]'")

    # --- lifecycle -------------------------------------------------------------------------------

    @property
    def capabilities(self) -> ChannelCapabilities:
        return ChannelCapabilities(
            markup="some",
            length_max=MESSAGE_CHARS_MAX,
            edits=True,
            deletes=True,
            files=True,
            typing=True,
            threads=True,
            history=True,
            search=True,
            idempotency="look",
            edit_interval_s=EDIT_INTERVAL_S,
            file_bytes_max=self._limits.file_bytes_max,
        )

    @property
    def state(self) -> str:
        if self._closed:
            return "closed"
        if self._inbox is None or self._client is None:
            return "not started"
        return self._client.token_problem or (self._receiver.state if self._receiver else "connected")

    async def start(self, on_message: MessageHandler) -> None:
        """Connect. Raises ConfigError if a token is refused, and a ChannelError if Slack cannot be reached now."""
        assert self._inbox is None, "it is not started, or closed"
        self._closed = False
        self._client = SlackClient(self._token, self._base_url, self._limits)
        try:
            me = await self._fetch_identity(self._client)
            self.account = f"{me.user} ({me.user_id})" if me.user else me.user_id
            names = SlackUserNameCache(self._client, self._limits)
            self._history = SlackHistory(self._client, me, names, self._limits)
            self._streams = SlackStreams(self._client, me.team_id)
            self._inbox = SlackInbox(self.name, me, names, on_message, self._limits)
            if self._app_token:
                await self._start_socket_mode(self._client, self._inbox)
        except BaseException:
            client, self._client, self._inbox, self._history, self._streams = self._client, None, None, None, None
            await client.close()
            raise

    async def _start_socket_mode(self, client: SlackClient, inbox: SlackInbox) -> None:
        from mainstay.channels.slack.socket_mode import SocketModeReceiver

        receiver = SocketModeReceiver(client, self._app_token, inbox.handle_envelope, self._limits)
        try:
            await receiver.start()
        except ConfigError as error:
            raise ConfigError(f"channels.{self.name}: {error}") from None
        self._receiver = receiver

    async def _fetch_identity(self, client: SlackClient) -> SlackIdentity:
        try:
            answer = await client.call("auth.test", {})
        except (SlackTokenRefused, SlackRequestRefused) as error:
            raise ConfigError(f"channels.{self.name}: the token cannot be used. {error}") from None
        fields = {key: value for key, value in answer.items() if isinstance(value, str)}
        if not fields.get("user_id"):
            raise DeliveryDeferred("Slack did not return the bot's user id.")
        return SlackIdentity(
            fields["user_id"], fields.get("bot_id", ""), fields.get("user", ""), fields.get("team_id", "")
        )

    async def close(self) -> None:
        self._closed = True
        receiver, client = self._receiver, self._client
        self._receiver = self._client = self._inbox = self._history = self._streams = None
        if receiver is not None:
            await receiver.close()
        if client is not None:
            await client.close()

    def asgi_app(self) -> Any:
        return self._app

    def _get_envelope_handler(self) -> EnvelopeHandler | None:
        return self._inbox.handle_envelope if self._inbox is not None else None

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        answer = await self._connected_client().call(
            "chat.postMessage",
            {
                "channel": to.room,
                "thread_ts": to.thread or None,
                "text": text,
                "mrkdwn": True,
                # for a preview Slack would fetch the link, which a manipulated model could use to leak data
                "unfurl_links": False,
                "unfurl_media": False,
                "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": hash_key(key)}},
            },
            writes=True,
        )
        ts = answer.get("ts")
        if not isinstance(ts, str) or not ts:
            raise DeliveryUnknown("Slack's answer does not say whether the message was posted.")
        return SentMessage(id=ts, thread=_answer_thread(to, ts))

    async def post_ephemeral(self, to: ChatAddress, user: str, text: str) -> SentMessage:
        """Post an ephemeral message. Slack does not store it: it disappears when the user reloads."""
        arguments = {"channel": to.room, "user": user, "thread_ts": to.thread or None, "text": text}
        answer = await self._connected_client().call("chat.postEphemeral", arguments, writes=True)
        return SentMessage(id=str(answer.get("message_ts", "")), thread=to.thread)

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        self._connected_client()
        assert self._history is not None
        return await self._history.find(to, key)

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        """Replace the text. Fields that are not given stay, so the metadata does; the blocks of a stream do not."""
        await self._change(to, id, "chat.update", {"text": text, "blocks": []})

    async def delete(self, to: ChatAddress, id: str) -> None:
        try:
            if id.startswith("F"):  # a file whose message was not known when it was uploaded
                await self._connected_client().call("files.delete", {"file": id}, writes=True)
            else:
                await self._change(to, id, "chat.delete", {})
        except SlackRequestRefused as error:
            if error.code not in ("message_not_found", "file_not_found", "file_deleted"):
                raise

    async def _change(self, to: ChatAddress, id: str, method: str, arguments: dict[str, Any]) -> None:
        """Change a message that may be an open stream, which is stopped first."""
        client, streams = self._connected_client(), self._streams
        assert streams is not None
        arguments = {"channel": to.room, "ts": id, **arguments}
        if streams.is_open(to, id):
            metadata = await streams.stop(to, id)
            if method == "chat.update":
                arguments["metadata"] = metadata
        try:
            await client.call(method, arguments, writes=True)
        except SlackRequestRefused as error:
            if error.code not in OPEN_CODES:
                raise
            await streams.stop(to, id)  # of an earlier process
            await client.call(method, arguments, writes=True)

    async def start_stream(self, to: ChatAddress, text: str, *, asker: str, key: str) -> SentMessage | None:
        self._connected_client()
        assert self._streams is not None
        ts = await self._streams.start(to, text, asker, key)
        return SentMessage(id=ts, thread=_answer_thread(to, ts)) if ts is not None else None

    async def extend_stream(self, to: ChatAddress, id: str, text: str) -> bool:
        self._connected_client()
        assert self._streams is not None
        return await self._streams.extend(to, id, text)

    async def finish_stream(self, to: ChatAddress, id: str, text: str) -> bool:
        self._connected_client()
        assert self._streams is not None
        return await self._streams.finish(to, id, text)

    async def find_stream(self, to: ChatAddress, since: int) -> SentMessage | None:
        self._connected_client()
        assert self._history is not None
        return await self._history.find_unfinished(to, since)

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        client, history = self._connected_client(), self._history
        assert history is not None
        id = await upload_file(client, path, name, self._limits.file_bytes_max)
        await share_file(client, to, id, name, comment, key)
        try:
            for wait_s in self._limits.share_poll_waits_s:  # Slack shows it with a delay
                await asyncio.sleep(wait_s)
                if sent := await history.find(to, key, recent_only=True):
                    return sent
        except ChannelError:  # the upload was confirmed, only its message is not known
            pass
        return SentMessage(id=id, thread=to.thread)

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        client = self._client
        if client is None or not to.thread or not self._typing_supported:
            return
        status = f"is busy: {note[:STATUS_CHARS_MAX]}" if note else "is thinking…"
        try:
            async with asyncio.timeout(self._limits.typing_timeout_s):
                await client.call(
                    "assistant.threads.setStatus", {"channel_id": to.room, "thread_ts": to.thread, "status": status}
                )
        except SlackRequestRefused as error:
            self._typing_supported = error.code not in _NO_TYPING_CODES
        except (ChannelError, TimeoutError):
            pass

    def format(self, text: str) -> str:
        return markdown_to_mrkdwn(text)

    # --- attachments, history and search ---------------------------------------------------------

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        return await download_file(self._connected_client(), file, target, bytes_max, self._limits)

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        self._connected_client()
        assert self._history is not None
        return await self._history.fetch_since(at, after, limit)

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        self._connected_client()
        assert self._history is not None
        return await self._history.search(at, query, limit)

    def _connected_client(self) -> SlackClient:
        if self._client is None:
            raise DeliveryDeferred("The channel is closed." if self._closed else "The channel is not started.")
        return self._client


def _answer_thread(to: ChatAddress, ts: str) -> str:
    """Return the thread for answers to a posted message; empty in direct messages, which have none by default."""
    return to.thread or ("" if to.room.startswith("D") else ts)


def build_slack_channel(name: str, settings: SlackSettings, context: ChannelFactoryContext) -> SlackChannel:
    return SlackChannel(
        name,
        settings.token,
        app_token=settings.app_token,
        signing_secret=settings.signing_secret,
        base_url=settings.base_url,
    )
