"""Connecting channels: an unreachable one is retried, a refused one is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chat_world import World

from mainstay.core.channels import DeliveryDeferred, MessageHandler
from mainstay.core.errors import ConfigError
from mainstay.gateway import channel_connection
from mainstay.testing.channel_rig import eventually
from mainstay.testing.loopback_channel import LoopbackChannel, LoopbackRig


class ThirdTryChannel(LoopbackChannel):
    """Connects at the third try."""

    tries = 0

    async def start(self, on_message: MessageHandler) -> None:
        self.tries += 1
        if self.tries < 3:
            raise DeliveryDeferred("nobody answers")
        await super().start(on_message)


async def test_a_channel_that_cannot_be_reached_is_tried_again_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_connection, "RETRY_S", 0.01)
    rig = LoopbackRig()
    shy = ThirdTryChannel(rig.platform)
    world = World(tmp_path, rig)
    await world.begin(shy)
    try:

        async def connected() -> bool | None:
            return world.board.channel_states() == {"chat": "connected"} or None

        await eventually(connected, "it is connected")
        assert shy.tries == 3
    finally:
        await world.end()


async def test_a_refused_channel_is_not_retried_and_says_why(tmp_path: Path) -> None:
    class Refused(LoopbackChannel):
        tries = 0

        async def start(self, on_message: MessageHandler) -> None:
            self.tries += 1
            raise ConfigError("the token is wrong")

    rig = LoopbackRig()
    refused = Refused(rig.platform)
    world = World(tmp_path, rig)
    await world.begin(refused)
    assert world.board.channel_states() == {"chat": "the token is wrong"}
    await world.end()
    assert refused.tries == 1
