"""People nobody knows: they are told how to become known, and nothing else."""

from __future__ import annotations

from mainstay.core.channels import ChatChannel, Delivery, Incoming
from mainstay.core.ports import Clock
from mainstay.gateway.delivery import Courier
from mainstay.gateway.people import People
from mainstay.gateway.reporter import key_of

AGAIN_S = 600.0  # a room is told no more often that somebody is a stranger
TOLD_MAX = 1_000
PER_MIN = 30  # such sentences, on a channel
PAIR_FIRST = "I do not know you yet: write to me in a direct message to be paired."


class Strangers:
    """Nothing that they say to us alone is kept."""

    def __init__(self, people: People, courier: Courier, clock: Clock) -> None:
        self._people = people
        self._courier = courier
        self._clock = clock
        self._told: dict[tuple[str, str, str], float] = {}

    async def meet(self, message: Incoming, channel: ChatChannel) -> None:
        if message.direct:
            code = await self._people.ask(channel.name, message.user, message.name)
            if code is not None:
                self._say(message, channel, _prompt(code))
        elif message.mentioned and self._may_tell(channel.name, message.address.room, message.user):
            self._say(message, channel, PAIR_FIRST)

    def _may_tell(self, channel: str, room: str, user: str) -> bool:
        now, place = self._clock.monotonic(), (channel, room, user)
        if now - self._told.get(place, -AGAIN_S) < AGAIN_S:
            return False
        if sum(now - at < 60.0 for (there, *_), at in self._told.items() if there == channel) >= PER_MIN:
            return False
        self._told.pop(place, None)
        self._told[place] = now
        while len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return True

    def _say(self, message: Incoming, channel: ChatChannel, text: str) -> None:
        at = message.address
        key = key_of("stranger", at.channel, at.room, message.id)
        self._courier.deliver(Delivery(key=key, to=at, text=text, at=self._clock.now_ms()), channel, None)


def _prompt(code: str) -> str:
    return (
        f"I do not know you yet. Your code is `{code}`; it is good for an hour. "
        f"Give it to whoever runs me: `mainstay user pair {code} --as NAME` lets you in."
    )
