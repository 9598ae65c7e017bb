"""The message stream that a draft is shown in, on platforms that have such streams."""

from __future__ import annotations

from mainstay.core.channels import ChannelError, ChatChannel, Delivery, SentMessage, SupportsStreams
from mainstay.core.ports import Clock
from mainstay.gateway.delivery import draft_key, find_lost_stream, with_call_timeout

# Platforms end a stream by themselves, and show that as an error: Slack half a minute after the last text, and some
# minutes after its beginning. What is said later is added by edits.
IDLE_S_MAX = 20.0
AGE_S_MAX = 240.0


class DraftStream:
    """The stream of one draft. Where the platform has none, nothing is a stream."""

    def __init__(self, channel: ChatChannel, clock: Clock) -> None:
        self._channel = channel if isinstance(channel, SupportsStreams) else None
        self._clock = clock
        self._started_at: float | None = None  # monotonic time; None: no open stream
        self._extended_at = 0.0

    @property
    def ends_at(self) -> float | None:
        """The monotonic time at which the open stream has to be finished; None: there is none."""
        if self._started_at is None:
            return None
        return min(self._extended_at + IDLE_S_MAX, self._started_at + AGE_S_MAX)

    async def find_lost(self, delivery: Delivery) -> SentMessage | None:
        """Return the stream of the draft if a crash left it open."""
        return await find_lost_stream(self._channel, delivery)

    async def start(self, delivery: Delivery, text: str, asker: str) -> SentMessage | None:
        """Start a stream for the user who asked; None if this text or address cannot have one."""
        if self._channel is None:
            return None
        starting = self._channel.start_stream(delivery.to, text, asker=asker, key=draft_key(delivery))
        sent = await with_call_timeout(starting)
        if sent is not None:
            self._started_at = self._extended_at = self._clock.monotonic()
        return sent

    async def extend(self, delivery: Delivery, text: str) -> bool:
        """Append what is new in the text; False if the message has to be edited."""
        if self._channel is None or self._started_at is None:
            return False
        if await with_call_timeout(self._channel.extend_stream(delivery.to, delivery.ids[0], text)):
            self._extended_at = self._clock.monotonic()
            return True
        self._started_at = None
        return False

    async def finish(self, delivery: Delivery, text: str) -> None:
        """Finish the open stream with this text, which is already in it. A failure is left to the next edit."""
        if self._channel is None or self._started_at is None:
            return
        self._started_at = None
        try:
            await with_call_timeout(self._channel.finish_stream(delivery.to, delivery.ids[0], text))
        except ChannelError:
            pass
