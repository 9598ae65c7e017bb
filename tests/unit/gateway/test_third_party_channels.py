"""Channels of other distributions whose code fails: the server goes on, and says which channel it is and why."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.fake_distribution import ROOK, installed_distribution

from mainstay import Agent
from mainstay.cli.commands.doctor_gateway_checks import check_gateway
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.core.channels import DeliveryUnknown
from mainstay.core.errors import StoreFailed
from mainstay.gateway import channel_connection
from mainstay.gateway.channel_connection import ChannelConnection
from mainstay.gateway.delivery import with_call_timeout
from mainstay.gateway.service import GatewayService
from mainstay.testing import ScriptedProvider, VirtualClock
from mainstay.testing.channel_rig import RecordingMessageHandler, eventually
from mainstay.testing.loopback_channel import LoopbackChannel, LoopbackRig

YAML = "channels:\n  rook: {url: 'https://r.example', key: '${ROOK_KEY}'}\n"
FACTORY = "the channel 'rook' of mainstay-rook-channel cannot be used: its factory failed: KeyError: 'url'"
FORMAT = (
    "the channel 'rook' of mainstay-rook-channel cannot be used: it has no format; "
    "mainstay.core.channels.ChatChannel lists what a channel has"
)


@pytest.fixture(autouse=True)
def rook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ROOK_KEY", "sesame")
    monkeypatch.delenv("ROOK", raising=False)
    monkeypatch.setattr(channel_connection, "RETRY_S", 0.01)
    with installed_distribution(tmp_path / "site", "channel", "rook", ROOK, monkeypatch):
        yield


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "mainstay.yaml").write_text(YAML)
    return folder


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[GatewayService]:
    """A server with the rook of the configuration and another channel, `chat`."""
    rig = LoopbackRig()
    loaded = load_config(home, env=os.environ)
    service = GatewayService(
        home, loaded, lambda config: Agent(ScriptedProvider(["hi"]), home=home, config=config), (rig.channel,)
    )
    await service.open()
    try:
        yield service
    finally:
        await service.close()


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ("factory", FACTORY),
        ("format", FORMAT),
        (
            "coroutine",
            "the channel 'rook' of mainstay-rook-channel cannot be used: its factory returned an object of the type "
            "'coroutine', not a channel",
        ),
        (
            "name",
            "the channel 'rook' of mainstay-rook-channel cannot be used: its name is 'other'; it must be the name "
            "that its factory gets",
        ),
    ],
)
async def test_a_channel_that_cannot_be_built_is_reported_and_the_others_serve(
    home: Path, monkeypatch: pytest.MonkeyPatch, fault: str, state: str
) -> None:
    monkeypatch.setenv("ROOK", fault)
    async with serving(home) as service:
        assert service.channel_states() == {"chat": "connected", "rook": state}


@pytest.mark.parametrize(("fault", "sentence"), [("factory", FACTORY), ("format", FORMAT)])
def test_channel_test_and_doctor_name_what_is_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str, sentence: str
) -> None:
    monkeypatch.setenv("ROOK", fault)
    assert main(["channel", "test", "rook", "--home", str(home)]) == 1
    assert capsys.readouterr().err == f"mainstay: {sentence}\n"
    found = asyncio.run(check_gateway(load_config(home, env=os.environ).config, home, fix=False))
    assert [(one.verdict, one.message) for one in found if one.check == "Channel"] == [("FAIL", sentence)]


def test_doctor_does_not_call_a_channel_ok_whose_own_check_fails(home: Path) -> None:
    found = asyncio.run(check_gateway(load_config(home, env=os.environ).config, home, fix=False))
    assert [(one.verdict, one.message) for one in found if one.check == "Channel"] == [
        ("FAIL", "rook: nobody is there")
    ]


def test_a_factory_that_cannot_be_imported_is_an_error_that_names_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ROOK.replace("mainstay_rook:build_rook", "mainstay_rook:build_rok")
    with installed_distribution(tmp_path / "other", "channel", "rook", source, monkeypatch):
        assert main(["channel", "test", "rook", "--home", str(home)]) == 1
        problem = "names the function 'mainstay_rook:build_rok', but the module 'mainstay_rook' has no 'build_rok'"
        assert f"the channel 'rook' of mainstay-rook-channel {problem}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("start", "its code failed in start: KeyError: 'token'"),
        ("receive", "its code failed while it received messages: UnicodeDecodeError: 'utf-8' codec can't decode"),
    ],
)
async def test_a_channel_whose_code_fails_is_logged_once_and_started_again_until_it_works(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str, reason: str
) -> None:
    monkeypatch.setenv("ROOK", fault)
    monkeypatch.setattr(channel_connection, "RETRY_S", 0.1)
    caplog.set_level(logging.ERROR)
    async with serving(home) as service:

        async def failed() -> str | None:
            state = service.channel_states()["rook"]
            return state if state != "connected" else None

        state = await eventually(failed, "the failure is shown")
        assert state.startswith(reason)
        assert state.endswith("; it is tried again")
        channel = service.channel_router.get_channel("rook")
        assert channel is not None

        async def connected() -> bool:
            return service.channel_states()["rook"] == "connected" and getattr(channel, "starts", 0) == 3

        await eventually(connected, "it is connected again")
    logged = [record for record in caplog.records if "rook" in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].getMessage().startswith(f"rook is not connected: {reason}")
    assert "it is tried again in 0.1 s" in logged[0].getMessage()
    assert logged[0].exc_info is not None


@pytest.mark.parametrize("error", [StoreFailed("the disk is full"), asyncio.CancelledError()], ids=repr)
async def test_f57_a_receive_loop_that_an_error_of_the_handler_ended_is_started_again(error: BaseException) -> None:
    """Also by a cancellation that nobody asked for, such as of something that it awaited."""

    class Careless(LoopbackChannel):
        starts = 0

        async def start(self, on_message: object) -> None:
            self.starts += 1
            await super().start(RecordingMessageHandler())
            self._loop = asyncio.create_task(self._receive(self.starts))

        async def _receive(self, start: int) -> None:
            if start == 1:
                raise error
            await asyncio.Event().wait()

        async def close(self) -> None:
            self._loop.cancel()
            await super().close()

    channel = Careless(LoopbackRig().platform)
    connection = ChannelConnection(channel, RecordingMessageHandler(), VirtualClock())
    await connection.open()

    async def again() -> bool:
        return channel.starts == 2 and connection.state == "connected"

    await eventually(again, "it is started again")
    await connection.close()


def test_channel_test_names_the_channel_whose_code_fails(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROOK", "start")
    assert main(["channel", "test", "rook", "--json", "--home", str(home)]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {
        "type": "ChannelError",
        "message": "rook is not connected: its code failed in start: KeyError: 'token'",
    }


async def test_a_post_that_raises_an_unexpected_exception_is_an_unknown_delivery() -> None:
    async def post() -> None:
        raise KeyError("id")

    with pytest.raises(DeliveryUnknown, match="the channel's code failed: KeyError: 'id'"):
        await with_call_timeout(post())
