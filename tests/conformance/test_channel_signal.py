"""Signal keeps what every channel promises (MICLAW-064), against a daemon on loopback that speaks like signal-cli."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from support.signal_platform import signal

from mainstay.testing.channel_suite import ChannelRig, ChannelSuite


class TestSignal(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return signal()


class TestSignalThatReceivesByItself(ChannelSuite):
    """A daemon in its other mode sends everything twice on request."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        return signal(receive="on-connection")
