"""Socket mode: events are acknowledged once stored, and the connection is maintained."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from aiohttp import web
from support.slack_platform import ANN, BOT, DIRECT, ROOM, Answer, bounds, by_socket, callback

from mainstay.core.channels import DeliveryDeferred, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import StoreFailed
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_until


async def test_an_envelope_is_acknowledged_once_it_is_stored_and_not_before() -> None:
    async with by_socket() as rig:
        kept = asyncio.Event()
        told: list[str] = []

        async def slow(message: IncomingMessage) -> None:
            told.append(message.text)
            await kept.wait()

        await rig.channel.start(slow)
        rig.platform.say(ROOM, ANN, "keep me")
        await wait_until(lambda: told, "it is told")
        assert rig.platform.acknowledged == []
        kept.set()
        await wait_until(lambda: not rig.platform.unheard, "it is acknowledged")
        assert [set(one) for one in rig.platform.acknowledged] == [{"envelope_id"}]


async def test_a_message_that_cannot_be_stored_is_not_acknowledged_and_not_lost() -> None:
    async with by_socket() as rig:

        async def full(message: IncomingMessage) -> None:
            refused.append(message.text)
            raise StoreFailed("the disk is full")

        refused: list[str] = []
        await rig.channel.start(full)
        rig.platform.say(ROOM, ANN, "do not lose me")
        await wait_until(lambda: refused, "it was refused")
        await rig.channel.close()
        assert rig.platform.acknowledged == []
        ear = RecordingMessageHandler()
        await rig.recreate_channel().start(ear)  # as another process would
        await ear.wait_for("do not lose me")
        await wait_until(lambda: not rig.platform.unheard, "it is acknowledged")


async def test_a_message_that_can_never_be_stored_does_not_block_its_room_for_ever() -> None:
    async with by_socket(bounds(accept_timeout_s=0.3)) as rig:
        ear = RecordingMessageHandler()

        async def picky(message: IncomingMessage) -> None:
            if message.text == "poison":
                raise StoreFailed("not this one")
            await ear(message)

        await rig.channel.start(picky)
        rig.platform.say(ROOM, ANN, "poison")
        rig.platform.say(ROOM, ANN, "and so on")
        await ear.wait_for("and so on")
        await wait_until(lambda: len(rig.platform.acknowledged) == 1, "only that one is acknowledged")


async def test_messages_of_a_room_are_handled_in_order() -> None:
    async with by_socket() as rig:
        heard: list[str] = []

        async def uneven(message: IncomingMessage) -> None:
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            heard.append(message.text)

        await rig.channel.start(uneven)
        for number in range(50):
            rig.platform.say(ROOM, ANN, f"<@{BOT}> {number}")  # each comes as two events
        await wait_until(lambda: not rig.platform.unheard, "all are acknowledged")
        assert heard == [str(number) for number in range(50)]


async def test_one_room_does_not_wait_for_another() -> None:
    async with by_socket() as rig:
        ear, stuck = RecordingMessageHandler(), asyncio.Event()

        async def hear(message: IncomingMessage) -> None:
            if message.address.room == ROOM:
                await stuck.wait()
            await ear(message)

        await rig.channel.start(hear)
        rig.platform.say(ROOM, ANN, "slow")
        rig.platform.say(DIRECT, ANN, "quick")
        await ear.wait_for("quick")
        assert len(ear.received) == 1
        stuck.set()
        await ear.wait_for("slow")


async def test_events_over_the_limit_are_sent_again() -> None:
    async with by_socket(bounds(envelopes_pending_max=3)) as rig:
        ear, stuck = RecordingMessageHandler(), asyncio.Event()

        async def hear(message: IncomingMessage) -> None:
            await stuck.wait()
            await ear(message)

        await rig.channel.start(hear)
        for number in range(10):
            rig.platform.say(ROOM, ANN, f"word {number}")
        stuck.set()
        await wait_until(lambda: len(ear.received) >= 3, "the first are heard")
        while left := len(rig.platform.unheard):
            await rig.platform.hang_up()  # Slack tells of the others on the next
            await wait_until(lambda left=left: len(rig.platform.unheard) < left, "some more are heard")  # type: ignore[misc]
        assert sorted(one.text for one in ear.received) == sorted(f"word {number}" for number in range(10))


async def test_a_connection_that_is_renewed_overlaps_with_the_next() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        for reason in ("warning", "refresh_requested"):
            old = rig.platform.sockets[0]
            opened = [method for method, _ in rig.platform.calls].count("apps.connections.open")
            rig.platform.disconnect(reason)
            await wait_until(lambda old=old: old not in rig.platform.sockets, "the old one is closed")  # type: ignore[misc]
            assert (len(rig.platform.sockets), rig.platform.most_sockets) == (1, 2)
            assert [method for method, _ in rig.platform.calls].count("apps.connections.open") == opened + 1
            assert rig.channel.state == "connected"
            rig.platform.say(ROOM, ANN, f"after {reason}")
            await ear.wait_for(f"after {reason}")


async def test_while_slack_has_disabled_socket_mode_the_state_says_so_and_it_reconnects() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        refusals = iter(range(3))

        def off(request: web.Request) -> web.Response | None:
            if next(refusals, None) is None:
                return None
            rig.platform.spoils["apps.connections.open"] = [off]
            return web.json_response({"ok": False, "error": "forbidden_team"})

        seen: set[str] = set()
        rig.platform.spoils["apps.connections.open"] = [off]
        rig.platform.disconnect("link_disabled")
        await wait_until(
            lambda: seen.add(rig.channel.state) or any("forbidden_team" in one for one in seen), "it says so"
        )
        rig.platform.say(ROOM, ANN, "finally")
        await ear.wait_for("finally")
        await wait_until(lambda: rig.channel.state == "connected", "it is connected again")


async def test_slack_is_not_called_again_before_its_retry_time() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        headers = {"Retry-After": "600"}
        rig.platform.spoils["apps.connections.open"] = [
            lambda _: web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
        ]
        rig.platform.disconnect("link_disabled")
        await wait_until(lambda: "next attempt in 600 s" in rig.channel.state, "it waits")
        asked = len(rig.platform.calls)
        await rig.channel.post(ChatAddress("team", ROOM), "what we say goes its own way", key="k")
        assert [method for method, _ in rig.platform.calls[asked:]] == ["chat.postMessage"]


async def test_a_connection_without_a_hello_is_not_counted_as_connected() -> None:
    async with by_socket(bounds(connect_timeout_s=2.0)) as rig:
        rig.platform.greets = False
        with pytest.raises(DeliveryDeferred, match="in time"):
            await rig.channel.start(RecordingMessageHandler())
        assert rig.channel.state == "not started"
        rig.platform.greets = True
        await rig.channel.start(RecordingMessageHandler())
        assert rig.channel.state == "connected"


async def test_commands_and_unused_events_are_acknowledged() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        command = {"command": "/steer", "text": "be brief", "channel_id": DIRECT, "user_id": ANN, "trigger_id": "1.2.3"}
        rig.platform.envelope("slash_commands", command)
        rig.platform.envelope("interactive", {"type": "block_actions"})
        rig.platform.envelope("something_new", {})
        await wait_until(lambda: not rig.platform.unheard, "all are acknowledged")
        assert [(one.text, one.direct, one.user) for one in ear.received] == [("/steer be brief", True, ANN)]


def hostile() -> list[object]:
    whole = {"type": "message", "channel": ROOM, "user": ANN, "text": "hi", "ts": "1767225600.000100"}
    odd: list[object] = [None, 5, "x", [], {}, True, {"a": 1}, {"\ud83d": 1}, -1.5, "\ud83d", "x" * 100_000]
    made: list[object] = [{key: value for key, value in whole.items() if key != gone} for gone in whole]
    made += [whole | {key: value} for key in (*whole, "thread_ts", "subtype", "bot_id") for value in odd]
    made += [whole | {"ts": ts} for ts in ("", "1", "1.", ".1", "1.x", "9" * 400, "-1.5", "1e9.0", "\u0661.0")]
    made += [whole | {"subtype": name} for name in ("channel_join", "message_changed", "message_deleted", "never_seen")]
    made += [{"type": name} for name in ("reaction_added", "team_join", "", "message.im")]
    return [*made, *odd]


async def test_hostile_events_are_acknowledged_and_change_nothing() -> None:
    """Missing fields, other types, half characters, unknown kinds: no envelope is told for ever, and none breaks it."""
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        for number, told in enumerate(hostile()):
            if isinstance(told, dict) and told.get("ts") == "1767225600.000100":
                told["ts"] = f"1767225600.{number:06d}"  # each is another message
            rig.platform.envelope("events_api", callback(told))  # type: ignore[arg-type]
        for payload in (None, 5, [], {"type": 5}, {"type": "event_callback", "event": 5}):
            rig.platform.envelope("events_api", payload)
            rig.platform.envelope("slash_commands", payload)
        await wait_until(lambda: not rig.platform.unheard, "all are acknowledged")
        assert {(one.user, one.address.room) for one in ear.received} == {(ANN, ROOM), ("x", ROOM), (ANN, "x")}
        assert "?" in {one.text for one in ear.received}, "of half a character that much is left"
        rig.platform.say(ROOM, ANN, "still here")
        await ear.wait_for("still here")
        assert rig.channel.state == "connected"


async def test_frames_that_are_no_envelopes_are_ignored() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        frames: list[str | Answer] = ["", "{", "[]", "null", "hello", '{"type": 5}', '{"type":"events_api"}']
        frames += [json.dumps({"envelope_id": id, "type": "events_api"}) for id in (None, 5, [])]
        frames += [json.dumps({"envelope_id": "e", "type": kind}) for kind in (None, 5, {})]
        frames += ['{"a":' * 5_000, "{" + "\u0000", json.dumps({"type": "disconnected"})]
        for frame in frames:
            rig.platform.push(frame)
        rig.platform.say(ROOM, ANN, "still here")
        await ear.wait_for("still here")
        assert [one.text for one in ear.received] == ["still here"]


async def test_a_message_of_a_million_characters_is_cut_and_handled() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.say(ROOM, ANN, "<@U1" * 250_000)
        rig.platform.say(ROOM, ANN, "after it")
        await ear.wait_for("after it")
        assert [len(one.text) <= 100_010 for one in ear.received] == [True, True]
        assert ear.received[0].text.endswith(" …")


async def test_a_frame_beyond_the_bound_ends_the_connection_and_it_is_made_again_f20() -> None:
    """F20"""
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.push("x" * (5 * 1024 * 1024))
        rig.platform.say(ROOM, ANN, "after it")
        await ear.wait_for("after it")
        await wait_until(lambda: rig.channel.state == "connected", "it is connected again")
