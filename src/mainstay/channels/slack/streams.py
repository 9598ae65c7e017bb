"""Slack's own message streams: messages that grow by appended Markdown until they are stopped.

A stream has no setting that turns link previews off, and no escape for mentions: a text with a link, a mention or a
character reference is never sent to one. It takes metadata only when it is stopped, so one that a crash left open is
found as our message without metadata. While it is open, Slack refuses to edit or delete it.
"""

from __future__ import annotations

import re

import msgspec

from mainstay.channels.slack.attachments import hash_key
from mainstay.channels.slack.client import SlackClient, SlackRequestRefused
from mainstay.channels.slack.history import EVENT_TYPE
from mainstay.core.channels import DeliveryDeferred, DeliveryUnknown
from mainstay.core.chat_addresses import ChatAddress

OPEN_STREAMS_MAX = 1_000  # that are remembered; a forgotten one is edited
ENDED_CODE = "message_not_in_streaming_state"  # Slack ends streams by itself, after half a minute without text
OPEN_CODES = ("streaming_state_conflict", "cant_delete_message")  # the refusal to edit or delete an open stream
# Slack, or the app's installation, has no streams
_UNSUPPORTED_CODES = ("unknown_method", "missing_scope", "not_allowed_token_type", "access_denied", "method_deprecated")
# what Slack may take for a link, a mention or a character reference; with and without backslashes
_KEPT_OUT = re.compile(
    r":\\?/|[^\s.]\\?[.\u3002\uff0e\uff61]\\?[^\W\d_]{2}|&[#\w]|<[@#!]|@\\?(?:channel|here|everyone)\b", re.IGNORECASE
)


class _OpenStream(msgspec.Struct):
    key_hash: str
    text: str | None  # what was sent so far; None: unknown


def may_stream(text: str) -> bool:
    """Return whether the text may be sent to a stream."""
    return _KEPT_OUT.search(text) is None


class SlackStreams:
    """The streams of one channel. `team` is the id of the Slack workspace."""

    def __init__(self, client: SlackClient, team: str) -> None:
        self._client = client
        self._team = team
        self._open: dict[tuple[str, str], _OpenStream] = {}  # by room and message
        self._is_unsupported = False
        self._needs_thread = False  # Slack refused a stream in a direct conversation outside of a thread

    async def start(self, to: ChatAddress, text: str, asker: str, key: str) -> str | None:
        """Start a stream with this text for the user `asker`, and return its message; None if it cannot be one."""
        is_direct = to.room.startswith("D")
        if self._is_unsupported or not may_stream(text) or not (to.thread or (is_direct and not self._needs_thread)):
            return None
        if not is_direct and not asker:
            return None
        arguments = {
            "channel": to.room,
            "thread_ts": to.thread or None,
            "markdown_text": text,
            "recipient_user_id": asker or None,
            "recipient_team_id": self._team or None,
        }
        try:
            answer = await self._client.call("chat.startStream", arguments, writes=True)
        except SlackRequestRefused as error:
            self._is_unsupported = self._is_unsupported or error.code in _UNSUPPORTED_CODES
            self._needs_thread = self._needs_thread or not to.thread
            return None
        except DeliveryDeferred:  # such as the rate limit of streams, which is lower than that of messages
            return None
        ts = answer.get("ts")
        if not isinstance(ts, str) or not ts:
            raise DeliveryUnknown("Slack's answer does not say whether the stream was started.")
        self._open[to.room, ts] = _OpenStream(hash_key(key), text)
        while len(self._open) > OPEN_STREAMS_MAX:
            del self._open[next(iter(self._open))]
        return ts

    async def extend(self, to: ChatAddress, id: str, text: str) -> bool:
        """Append what `text` has more than was sent so far; False if that is impossible."""
        return await self._send_rest(to, id, text, "chat.appendStream")

    async def finish(self, to: ChatAddress, id: str, text: str) -> bool:
        """Append the rest of the text and stop the stream; False if that is impossible."""
        if not await self._send_rest(to, id, text, "chat.stopStream"):
            return False
        self._open.pop((to.room, id), None)
        return True

    async def stop(self, to: ChatAddress, id: str) -> dict[str, object]:
        """Stop the stream as it is, if it is open. Returns the message's metadata, which Slack has not stored if it had
        ended the stream by itself."""
        stream = self._open.pop((to.room, id), None)
        metadata = _metadata(stream.key_hash if stream else "")
        arguments = {"channel": to.room, "ts": id, "metadata": metadata}
        try:
            await self._client.call("chat.stopStream", arguments, writes=True)
        except SlackRequestRefused as error:
            if error.code != ENDED_CODE:
                raise
        return metadata

    def is_open(self, to: ChatAddress, id: str) -> bool:
        return (to.room, id) in self._open

    async def _send_rest(self, to: ChatAddress, id: str, text: str, method: str) -> bool:
        stream = self._open.get((to.room, id))
        sent = stream.text if stream is not None else None
        if stream is None or sent is None or not text.startswith(sent) or not may_stream(text):
            return False
        is_last = method == "chat.stopStream"
        if text == sent and not is_last:
            return True
        arguments = {"channel": to.room, "ts": id, "markdown_text": text[len(sent) :] or None}
        stream.text = None  # until Slack has confirmed it
        try:
            await self._client.call(
                method, arguments | ({"metadata": _metadata(stream.key_hash)} if is_last else {}), writes=True
            )
        except SlackRequestRefused as error:
            if error.code == ENDED_CODE:
                self._open.pop((to.room, id), None)
            return False
        except DeliveryDeferred:
            stream.text = sent
            raise
        stream.text = text
        return True


def _metadata(key_hash: str) -> dict[str, object]:
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key_hash}}
