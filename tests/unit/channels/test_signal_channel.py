"""An account on Signal as a channel, against a daemon on loopback that speaks like signal-cli."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.signal_platform import ANN, BOB, GROUP, NUMBER, UUID, RpcError, SignalPlatform, SignalRig, signal

from mainstay.channels.signal.channel import SignalChannel
from mainstay.channels.signal.inbox import SignalInbox
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, DeliveryUnknown, IncomingFile, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError, StoreFailed
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_until
from mainstay.testing.store_writer import expect_error

ROOM = ChatAddress("sig", GROUP)


@pytest.fixture
async def rig() -> AsyncIterator[SignalRig]:
    async with signal() as made:
        yield made


# --- the wire ------------------------------------------------------------------------------------


async def test_invalid_lines_are_ignored(rig: SignalRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """F20: a line over the bound is read past and not kept; odd JSON is nothing."""
    monkeypatch.setattr("mainstay.channels.signal.client.LINE_BYTES_MAX", 100_000)
    monkeypatch.setattr("mainstay.channels.signal.client.CHUNK_BYTES", 10_000)
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    (client,) = rig.platform.clients
    lines = (b"", b"{", b"\xff\xfe", b"3", b"null", b"[]", b'{"id":7}', b'{"id":{}}', b'{"id":"1","error":3}')
    odd: tuple[Any, ...] = (
        None,
        3,
        [],
        {},
        {"envelope": 3},
        {"result": []},
        {"subscription": 0, "result": {"envelope": {}}},
    )
    for line in (*lines, b"[" * 50_000, b"x" * 100_001, b"y" * 1_000_000):
        rig.platform.write_raw(client, line + b"\n")
    smuggled = {
        "envelope": {**rig.platform.envelope(ANN, 5), "dataMessage": {"timestamp": 5, "message": "the end of it"}}
    }
    notification = json.dumps({"jsonrpc": "2.0", "method": "receive", "params": smuggled}).encode()
    rig.platform.write_raw(client, b" " * 150_000 + notification + b"\n")
    for params in odd:
        rig.platform.write(client, {"jsonrpc": "2.0", "method": "receive", "params": params})
    rig.platform.write(client, {"jsonrpc": "2.0", "method": "somethingNew", "params": {}})
    rig.platform.tell({"timestamp": -1, "dataMessage": {"timestamp": -1, "message": "x"}, "sourceUuid": "\ud800"})
    rig.platform.say(ANN, "still there?", group=GROUP)
    await ear.wait_for("still there?")
    assert len(ear.received) == 1
    assert len(rig.platform.clients) == 1, "and the connection is the same"
    assert (await rig.channel.post(ROOM, "yes", key="k")).id


async def test_a_unix_socket_works_too(tmp_path: Path) -> None:
    platform = SignalPlatform()
    await platform.start(str(tmp_path / "signal.sock"))
    channel, ear = SignalChannel("sig", platform.address, user=UUID), RecordingMessageHandler()
    try:
        await channel.start(ear)
        platform.say(ANN, "hello")
        assert (await ear.wait_for("hello")).direct
        platform.say(ANN, "\ufffc", group=GROUP, mentions=[{"number": NUMBER, "uuid": None, "start": 0, "length": 1}])
        platform.say(ANN, "next", group=GROUP)
        await ear.wait_for("next")
        assert [one.mentioned for one in ear.received] == [False, True, False], "the number was learnt from the daemon"
    finally:
        await channel.close()
        await platform.stop()


async def test_an_account_that_the_daemon_does_not_have_is_a_matter_of_configuration(rig: SignalRig) -> None:
    channel = SignalChannel("sig", rig.platform.address, user="+15550999999")
    await expect_error(ConfigError, channel.start(RecordingMessageHandler()))
    assert channel.state != "connected"


@pytest.mark.parametrize(
    ("address", "user"),
    [
        ("", NUMBER),
        ("localhost", NUMBER),
        ("localhost:99999", NUMBER),
        ("a b:7583", NUMBER),
        ("localhost:7583", ""),
        ("localhost:7583", "12345"),
    ],
)
def test_impossible_settings_are_reported_at_once(address: str, user: str) -> None:
    with pytest.raises(ConfigError, match=r"channels\.sig"):
        SignalChannel("sig", address, user=user)


async def test_it_waits_for_a_daemon_that_is_not_running_yet(tmp_path: Path) -> None:
    platform = SignalPlatform()
    path = str(tmp_path / "signal.sock")
    channel = SignalChannel("sig", path, user=NUMBER)
    starting = asyncio.create_task(channel.start(RecordingMessageHandler()))
    await wait_until(lambda: channel.state == "signal-cli cannot be reached", "it says so")
    error = await expect_error(DeliveryDeferred, channel.post(ROOM, "too early", key="k"))
    assert "cannot be reached" in str(error)
    await platform.start(path)
    await starting
    assert channel.state == "connected"
    await channel.close()
    await platform.stop()


async def test_a_daemon_that_has_vanished_is_noticed(rig: SignalRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.channels.signal.channel.HEALTH_CHECK_INTERVAL_S", 0.02)
    monkeypatch.setattr("mainstay.channels.signal.channel.REQUEST_TIMEOUT_S", 5.0)
    await rig.channel.start(RecordingMessageHandler())
    await wait_until(lambda: [one["method"] for one in rig.platform.requests].count("version") > 2, "it is felt for")
    monkeypatch.setattr("mainstay.channels.signal.channel.REQUEST_TIMEOUT_S", 0.05)
    rig.platform.mute = True
    await wait_until(lambda: rig.channel.state != "connected", "nobody answers")
    rig.platform.mute = False
    await wait_until(lambda: rig.channel.state == "connected", "somebody does")


# --- listening -----------------------------------------------------------------------------------


async def test_a_message_that_cannot_be_stored_blocks_only_its_own_room(rig: SignalRig) -> None:
    broken = True

    class Picky(RecordingMessageHandler):
        async def __call__(self, message: IncomingMessage) -> None:
            if message.address.room == GROUP and broken:
                self.rejected.append(message)
                raise StoreFailed("the disk is full")
            await super().__call__(message)

    ear = Picky()
    await rig.channel.start(ear)
    for text in ("stuck 1", "stuck 2"):
        rig.platform.say(ANN, text, group=GROUP)
    rig.platform.say(BOB, "elsewhere")
    await ear.wait_for("elsewhere")
    await wait_until(lambda: len(ear.rejected) > 1, "it is told again")
    assert (await rig.channel.post(ROOM, "we can still speak", key="k")).id
    broken = False
    await ear.wait_for("stuck 2")
    assert [one.text for one in ear.received] == ["elsewhere", "stuck 1", "stuck 2"]


async def test_when_too_much_waits_no_more_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.channels.signal.inbox.QUEUED_MAX", 2)
    gate, heard = asyncio.Event(), []

    async def hear(message: IncomingMessage) -> None:
        await gate.wait()
        heard.append(message.id)

    inbox = SignalInbox(hear)
    for id in ("1", "2", "2", "1"):  # told twice, waiting once
        await inbox.put(IncomingMessage(id=id, address=ROOM, user="u"))
    assert inbox.is_full
    more = asyncio.create_task(inbox.put(IncomingMessage(id="3", address=ROOM, user="u")))
    await asyncio.wait([more], timeout=0.05)
    assert not more.done()
    gate.set()
    await more
    await wait_until(lambda: heard == ["1", "2", "3"], "all of it is heard")
    assert not inbox.is_full
    await inbox.close()


async def test_when_too_much_waits_nothing_is_lost(rig: SignalRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.channels.signal.inbox.QUEUED_MAX", 3)
    gate = asyncio.Event()

    class Slow(RecordingMessageHandler):
        async def __call__(self, message: IncomingMessage) -> None:
            await gate.wait()
            await super().__call__(message)

    ear = Slow()
    await rig.channel.start(ear)
    for number in range(20):
        rig.platform.say(ANN, f"number {number}", group=GROUP)
    gate.set()
    await ear.wait_for("number 19")
    assert [one.text for one in ear.received] == [f"number {number}" for number in range(20)]


# --- speaking ------------------------------------------------------------------------------------


def results(kind: str, **more: Any) -> dict[str, Any]:
    return {"response": {"timestamp": 1, "results": [{"recipientAddress": {}, "type": kind, **more}]}}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (RpcError(-1, "Failed to send message", results("UNREGISTERED_FAILURE")), DeliveryRejected),
        (RpcError(-1, "Failed to send message", results("NETWORK_FAILURE")), DeliveryUnknown),
        (RpcError(-3, "I/O error"), DeliveryUnknown),
        (
            RpcError(-4, "Failed to send message due to untrusted identities", results("IDENTITY_FAILURE")),
            DeliveryRejected,
        ),
        (RpcError(-5, "Failed to send message due to rate limiting", results("RATE_LIMIT_FAILURE")), DeliveryDeferred),
        (RpcError(-5, "Rate limit", {"response": {"results": [3, {"retryAfterSeconds": "soon"}]}}), DeliveryDeferred),
        (RpcError(-32602, "Specified account does not exist"), DeliveryDeferred),
        (RpcError(-32602, "Invalid params"), DeliveryRejected),
        (RpcError(-32603, "Failed to send message: timeout (IOException)"), DeliveryUnknown),
        ("lose", DeliveryUnknown),
        ("drop", DeliveryUnknown),
    ],
    ids=[
        "unregistered",
        "network",
        "io",
        "untrusted",
        "soon",
        "odd",
        "account",
        "params",
        "internal",
        "lost",
        "dropped",
    ],
)
async def test_the_result_of_a_post_is_reported_correctly(
    rig: SignalRig, fault: RpcError | str, kind: type[Exception]
) -> None:
    """F45: only what was certainly not sent may be sent again."""
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.faults.append(fault)
    assert type(await expect_error(kind, rig.channel.post(ROOM, "well?", key="k"))) is kind


async def test_all_pending_posts_of_a_lost_connection_are_unknown(rig: SignalRig) -> None:
    """F45"""
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.mute = True
    posts = [asyncio.create_task(rig.channel.post(ROOM, f"n {n}", key=str(n))) for n in range(5)]
    await wait_until(lambda: len(rig.platform.requests) >= 7, "all of them are under way")
    rig.platform.mute = False
    rig.platform.cut()
    assert [type(one) for one in await asyncio.gather(*posts, return_exceptions=True)] == [DeliveryUnknown] * 5


async def test_an_answer_without_sense_leaves_it_unknown(rig: SignalRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    for result in (None, [], {}, {"timestamp": "now"}, 3):
        rig.platform.results.append(result)
        await expect_error(DeliveryUnknown, rig.channel.post(ROOM, "well?", key="k"))


async def test_each_edit_is_one_of_what_is_shown(rig: SignalRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    sent = await rig.channel.post(ROOM, "one", key="k")
    for text in ("one two", "one **two** three"):
        await rig.channel.edit(ROOM, sent.id, text)
    (shown,) = rig.platform.messages
    assert (shown["text"], len(shown["times"]), shown["styles"]) == ("one two three", 3, ["4:3:BOLD"])
    await expect_error(DeliveryRejected, rig.channel.edit(ROOM, f"{ANN['uuid']}.5", "not ours"))
    await expect_error(DeliveryRejected, rig.channel.delete(ROOM, "nonsense"))


async def test_people_and_groups_are_distinguished(rig: SignalRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    for room in (str(ANN["uuid"]), str(ANN["number"]), GROUP):
        await rig.channel.post(ChatAddress("sig", room), "hello", key=room)
    sends = [one["params"] for one in rig.platform.requests if one["method"] == "send"]
    assert [one.get("recipient") or one.get("groupId") for one in sends] == [[ANN["uuid"]], [ANN["number"]], GROUP]
    assert all(one["account"] == NUMBER for one in sends)


async def test_the_name_of_a_file_stays_a_file_name_with_any_content(rig: SignalRig, tmp_path: Path) -> None:
    await rig.channel.start(RecordingMessageHandler())
    (tmp_path / "f").write_bytes(b"1")
    name = "a;b,c=d;base64,x ü\n.txt"
    await rig.channel.upload(ROOM, str(tmp_path / "f"), name, "", key="k")
    assert rig.platform.messages[0]["files"] == [(name, b"1")]


@pytest.mark.parametrize("data", [None, 3, "not base64!", "YQ", {"data": "x"}])
async def test_a_file_of_another_type_than_declared_is_not_stored(rig: SignalRig, tmp_path: Path, data: Any) -> None:
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.results.append({"data": data})
    await expect_error(DeliveryRejected, rig.channel.download(IncomingFile(ref="x"), str(tmp_path / "got"), 1000))
    assert not (tmp_path / "got").exists()


async def test_a_file_that_is_larger_than_it_was_said_to_be_is_not_kept(rig: SignalRig, tmp_path: Path) -> None:
    """F20"""
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.files["x"] = b"y" * 1001
    await expect_error(
        DeliveryRejected, rig.channel.download(IncomingFile(ref="x", size=3), str(tmp_path / "got"), 1000)
    )
    assert not (tmp_path / "got").exists()


async def test_each_request_is_one_line_of_json(rig: SignalRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    await rig.channel.post(ROOM, "two\nlines \ud800 \x00\u2028 end", key="k")
    assert rig.platform.messages[0]["text"] == "two\nlines \ufffd \u2028 end"
    assert all(json.dumps(one) for one in rig.platform.requests)
