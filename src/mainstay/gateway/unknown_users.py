"""Replies to unknown users of chat channels: a pairing code in direct messages, a hint in rooms, rate limited."""

from __future__ import annotations

from mainstay.core.channels import ChatChannel, Delivery, IncomingMessage
from mainstay.core.ports import Clock
from mainstay.gateway.delivery import Deliverer
from mainstay.gateway.people import People
from mainstay.gateway.session_answer_poster import build_delivery_key

HINT_INTERVAL_S = 600.0  # a user gets the hint in a room no more often
HINTS_REMEMBERED_MAX = 1_000
HINTS_PER_MIN = 30  # hints per channel
PAIRING_HINT = "I do not know you yet: write to me in a direct message to be paired."


class UnknownUserResponder:
    """Answers users whose accounts are not paired. Their direct messages are not stored."""

    def __init__(self, people: People, deliverer: Deliverer, clock: Clock) -> None:
        self._people = people
        self._deliverer = deliverer
        self._clock = clock
        self._hinted_at: dict[tuple[str, str, str], float] = {}

    async def answer_message(self, message: IncomingMessage, channel: ChatChannel) -> None:
        if message.direct:
            code = await self._people.issue_pairing_code(channel.name, message.user, message.name)
            if code is not None:
                self._post_reply(message, channel, _format_pairing_prompt(code))
        elif message.mentioned and self._may_post_hint(channel.name, message.address.room, message.user):
            self._post_reply(message, channel, PAIRING_HINT)

    def _may_post_hint(self, channel: str, room: str, user: str) -> bool:
        now, key = self._clock.monotonic(), (channel, room, user)
        if now - self._hinted_at.get(key, -HINT_INTERVAL_S) < HINT_INTERVAL_S:
            return False
        if (
            sum(now - at < 60.0 for (hinted_channel, *_), at in self._hinted_at.items() if hinted_channel == channel)
            >= HINTS_PER_MIN
        ):
            return False
        self._hinted_at.pop(key, None)
        self._hinted_at[key] = now
        while len(self._hinted_at) > HINTS_REMEMBERED_MAX:
            del self._hinted_at[next(iter(self._hinted_at))]
        return True

    def _post_reply(self, message: IncomingMessage, channel: ChatChannel, text: str) -> None:
        address = message.address
        key = build_delivery_key("stranger", address.channel, address.room, message.id)
        self._deliverer.deliver(Delivery(key=key, to=address, text=text, at=self._clock.now_ms()), channel, None)


def _format_pairing_prompt(code: str) -> str:
    return (
        f"I do not know you yet. Your code is `{code}`; it is valid for an hour. "
        f"Give it to my administrator: `mainstay user pair {code} --as NAME` lets you in."
    )
