"""Slack's message streams, on its double: what is sent to them, and what becomes of them when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from support.slack_platform import ANN, BOT, DIRECT, ROOM, TEAM, SlackRig, by_socket

from mainstay.channels.slack.attachments import hash_key
from mainstay.channels.slack.streams import may_stream
from mainstay.core.channels import DeliveryDeferred, DeliveryUnknown, SupportsStreams
from mainstay.core.chat_addresses import ChatAddress
from mainstay.testing.channel_rig import RecordingMessageHandler


def says(error: str, status: int = 200) -> Callable[[Any], web.Response]:
    return lambda _: web.json_response({"ok": False, "error": error}, status=status)


async def connected(rig: SlackRig) -> ChatAddress:
    """Return a thread that somebody began."""
    await rig.channel.start(RecordingMessageHandler())
    return ChatAddress("team", ROOM, rig.platform.say(ROOM, ANN, "tell me")["ts"])


def methods(rig: SlackRig) -> list[str]:
    return [method for method, _ in rig.platform.calls if method.startswith("chat.")]


async def start(rig: SlackRig, at: ChatAddress, text: str = "One") -> str:
    sent = await rig.channel.start_stream(at, text, asker=ANN, key="k")
    assert sent is not None
    return sent.id


async def test_a_stream_grows_by_what_is_new_and_is_found_under_its_key_when_it_is_finished() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        assert isinstance(rig.channel, SupportsStreams)
        id = await start(rig, at)
        assert await rig.channel.extend_stream(at, id, "One, **two**")
        assert await rig.channel.extend_stream(at, id, "One, **two**")
        assert await rig.channel.find_posted(at, "k") is None
        unfinished = await rig.channel.find_stream(at, 0)
        assert unfinished is not None
        assert unfinished.id == id
        assert await rig.channel.finish_stream(at, id, "One, **two** and three")
        calls = [fields for method, fields in rig.platform.calls if method.endswith("Stream")]
        assert [call["markdown_text"] for call in calls] == ["One", ", **two**", " and three"]
        assert (calls[0]["thread_ts"], calls[0]["recipient_user_id"], calls[0]["recipient_team_id"]) == (
            at.thread,
            ANN,
            TEAM,
        )
        (message,) = [one for one in rig.platform.rooms[ROOM] if one["user"] == BOT]
        assert message["text"] == "One, **two** and three"
        assert message["metadata"]["event_payload"] == {"key": hash_key("k")}
        found = await rig.channel.find_posted(at, "k")
        assert found is not None
        assert found.id == id
        assert await rig.channel.find_stream(at, 0) is None


async def test_what_cannot_be_appended_is_left_to_an_edit_which_stops_the_stream_first() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        id = await start(rig, at, "One two")
        for extend in (rig.channel.extend_stream, rig.channel.finish_stream):
            assert not await extend(at, id, "Another beginning")
            assert not await extend(at, id, "One two https://example.com/?q=secret")
        await rig.channel.edit(at, id, "Another beginning")
        assert methods(rig)[-2:] == ["chat.stopStream", "chat.update"]
        message = rig.platform.message(ROOM, id)
        assert message is not None
        assert message["text"] == "Another beginning"
        assert "secret" not in str(rig.platform.calls)
        assert not await rig.channel.extend_stream(at, id, "Another beginning, longer")


@pytest.mark.parametrize("change", ["edit", "delete"])
async def test_a_stream_that_an_earlier_process_left_open_is_stopped_before_it_is_changed(change: str) -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        id = await start(rig, at)
        await rig.channel.close()
        await rig.recreate_channel().start(RecordingMessageHandler())
        assert not await rig.channel.finish_stream(at, id, "One and two")
        if change == "edit":
            await rig.channel.edit(at, id, "One and two")
        else:
            await rig.channel.delete(at, id)
        assert [one["text"] for one in rig.platform.rooms[ROOM] if one["user"] == BOT] == (
            ["One and two"] if change == "edit" else []
        )
        assert not rig.platform.streams
        assert await rig.channel.find_stream(at, 0) is None, "it is finished"


async def test_a_stream_that_slack_has_ended_is_edited() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        id = await start(rig, at)
        rig.platform.streams.clear()
        assert not await rig.channel.extend_stream(at, id, "One, two")
        assert not await rig.channel.finish_stream(at, id, "One, two")
        await rig.channel.edit(at, id, "One, two")
        assert methods(rig)[-1] == "chat.update"


async def test_after_a_lost_connection_nothing_is_appended_twice() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        id = await start(rig, at)

        def drop(request: web.Request) -> None:
            assert request.transport is not None
            request.transport.abort()

        rig.platform.spoils["chat.appendStream"] = [drop]
        with pytest.raises(DeliveryUnknown):
            await rig.channel.extend_stream(at, id, "One, two")
        assert not await rig.channel.extend_stream(at, id, "One, two")
        await rig.channel.edit(at, id, "One, two")
        message = rig.platform.message(ROOM, id)
        assert message is not None
        assert message["text"] == "One, two"


async def test_a_rate_limit_defers_an_append_and_a_start_becomes_an_ordinary_message() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        rig.platform.spoils["chat.startStream"] = [says("ratelimited", 429)]
        assert await rig.channel.start_stream(at, "One", asker=ANN, key="k") is None
        id = await start(rig, at)
        rig.platform.spoils["chat.appendStream"] = [says("ratelimited", 429)]
        with pytest.raises(DeliveryDeferred):
            await rig.channel.extend_stream(at, id, "One, two")
        assert await rig.channel.extend_stream(at, id, "One, two"), "it was certainly not appended"


async def test_where_there_are_no_streams_slack_is_asked_once() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        rig.platform.spoils["chat.startStream"] = [says("unknown_method")]
        for _ in range(3):
            assert await rig.channel.start_stream(at, "One", asker=ANN, key="k") is None
        assert methods(rig) == ["chat.startStream"]


async def test_outside_of_threads_and_without_a_recipient_there_is_no_stream() -> None:
    async with by_socket() as rig:
        at = await connected(rig)
        assert await rig.channel.start_stream(at, "One", asker="", key="k") is None
        assert await rig.channel.start_stream(ChatAddress("team", ROOM), "One", asker=ANN, key="k") is None
        assert methods(rig) == []
        for _ in range(2):  # Slack may allow it there; this one does not
            assert await rig.channel.start_stream(ChatAddress("team", DIRECT), "One", asker=ANN, key="k") is None
        assert methods(rig) == ["chat.startStream"]
        thread = ChatAddress("team", DIRECT, rig.platform.say(DIRECT, ANN, "hello")["ts"])
        assert await rig.channel.start_stream(thread, "One", asker="", key="k") is not None


@pytest.mark.parametrize(
    "text",
    [
        *("https://example.com", "see example.com/x", "www.example.com", r"exam\.ple", "example。com", "[a](ftp://b)"),
        *("hello <!channel>", "hello <@U0ANN0001>", "hello <#C1>", "@here", "@channel", "&lt;!channel&gt;", "&#60;"),
    ],
)
def test_links_mentions_and_references_are_never_streamed(text: str) -> None:
    assert not may_stream(text)


@pytest.mark.parametrize(
    "text", ["One. Two: three (e.g. 1.5)…", "x < y and a[1] > b", "if a & b:\n    **go**", "wait...\nno", "a/b or @ann"]
)
def test_ordinary_text_is_streamed(text: str) -> None:
    assert may_stream(text)
