"""One conversation's turns in order; different conversations side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kernel_world import World, envelope, virtual

from mainstay.core.errors import InputRefused, LaneFull, SessionArchived
from mainstay.core.events import Received, SessionChanged, TurnStarted
from mainstay.core.input_envelope import InputEnvelope, check_session_name, session_key, to_parts
from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, Text, ToolCall
from mainstay.core.ports import Context, Options
from mainstay.testing import Stall


def echo(context: Context, options: Options) -> str:
    return f"re: {context.messages[-1].text}"


@virtual
async def test_prompts_wait_their_turn_and_are_served_first_in_first_out_each_as_its_own_turn() -> None:
    stall = Stall("re: 0")
    answers = iter([stall])

    def step(context: Context, options: Options) -> Any:
        return next(answers, None) or echo(context, options)

    async with World(step) as world:
        tickets = [await world.send(str(n)) for n in range(5)]
        await stall.reached.wait()
        assert len(world.provider.asked) == 1, "one turn at a time"
        stall.release()
        replies = [await ticket.reply for ticket in tickets]
        assert [reply.text for reply in replies] == [f"re: {n}" for n in range(5)]
        assert [reply.turn for reply in replies] == [1, 2, 3, 4, 5]
        assert [message.text for message in await world.history()] == [
            text for n in range(5) for text in (str(n), f"re: {n}")
        ]
        ends = [index for index, kind in enumerate(await world.kinds()) if kind == "TurnEnded"]
        starts = [index for index, kind in enumerate(await world.kinds()) if kind == "TurnStarted"]
        assert all(end < start for end, start in zip(ends, starts[1:], strict=False)), "stored before the next is taken"
        await world.check_replay()


@virtual
async def test_sending_returns_as_soon_as_the_input_is_on_disk() -> None:
    stall = Stall()
    async with World([stall]) as world:
        ticket = await world.send("hello", "never seen before")
        assert not ticket.reply.done()
        assert isinstance((await world.journal("never seen before"))[0], Received)


@virtual
async def test_different_lanes_never_wait_for_each_other() -> None:
    stalls: list[Stall] = []

    def step(context: Context, options: Options) -> Any:
        if context.messages[-1].text == "stall":
            stalls.append(Stall("at last"))
            return stalls[-1]
        return echo(context, options)

    async with World(step) as world:
        held = await world.send("stall", "held")
        replies = await asyncio.gather(*(world.ask(f"hi {n}", f"other-{n}") for n in range(50)))
        assert [reply.text for reply in replies] == [f"re: hi {n}" for n in range(50)]
        assert not held.reply.done()
        stalls[0].release()
        assert (await held.reply).text == "at last"


@virtual
async def test_mailbox_depth_max_prompts_wait_then_the_sender_is_told_it_is_busy_and_later_it_works_again() -> None:
    stall = Stall("first")
    answers = iter([stall])

    def step(context: Context, options: Options) -> Any:
        return next(answers, None) or "ok"

    async with World(step) as world:
        assert world.limits.mailbox_depth_max == 5
        tickets = [await world.send("running")]
        await stall.reached.wait()
        tickets += [await world.send(f"waiting {n}") for n in range(5)]
        before = await world.journal()
        with pytest.raises(LaneFull, match="busy: 5 messages wait"):
            await world.send("one too many")
        assert await world.journal() == before, "what was refused left no trace"
        assert (await world.ask("elsewhere", "t")).text == "ok", "other lanes are not full"
        stall.release()
        assert len([await ticket.reply for ticket in tickets]) == 6
        assert (await world.ask("now there is room")).text == "ok"


@virtual
async def test_mailbox_depth_max_is_configurable_and_steer_and_abort_pass_a_full_mailbox() -> None:
    stall = Stall("first")
    answers = iter([stall])

    def step(context: Context, options: Options) -> Any:
        return next(answers, None) or "ok"

    async with World(step, limits=Limits(mailbox_depth_max=1)) as world:
        await world.send("running")
        await stall.reached.wait()
        waiting = await world.send("waiting")
        with pytest.raises(LaneFull):
            await world.send("too many")
        await world.steer("but this")
        assert await world.abort()
        assert (await waiting.reply).text == "ok"


@virtual
async def test_session_turns_max_ends_a_session_after_so_many_turns() -> None:
    async with World(echo, limits=Limits(session_turns_max=2)) as world:
        await world.ask("one")
        await world.ask("two")
        with pytest.raises(InputRefused, match="has had its 2 turns"):
            await world.ask("three")
        assert (await world.ask("one", "another")).turn == 1
    async with World(echo) as world:
        for n in range(30):
            assert (await world.ask(str(n))).turn == n + 1, "there is no bound unless one is set"


@virtual
async def test_session_turns_max_is_not_overrun_by_prompts_that_wait() -> None:
    async with World(echo, limits=Limits(session_turns_max=2)) as world:
        outcomes = await asyncio.gather(*(world.ask(str(n)) for n in range(4)), return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == ["Reply", "Reply", "InputRefused", "InputRefused"]


# --- coalescing ------------------------------------------------------------------------------------


@virtual
async def test_within_coalesce_window_s_quick_messages_of_one_sender_become_one() -> None:
    async with World(echo, limits=Limits(coalesce_window_s=2)) as world:
        first = await world.send("one", sender="ann")
        await asyncio.sleep(1.5)
        second = await world.send("two", sender="ann")
        await asyncio.sleep(1.5)
        third = await world.send(["three", Binary("image/png", b"x")], sender="ann")
        replies = [await ticket.reply for ticket in (first, second, third)]
        assert {reply.turn for reply in replies} == {1}
        (message, _) = await world.history()
        assert message.parts == (Text("one\ntwo\nthree"), Binary("image/png", b"x", origin="untrusted:attachment"))
        assert message.at == world.clock._start_ms + 3000, "the last one's time is kept"
        assert [event.inputs for event in await world.journal() if isinstance(event, TurnStarted)] == [(1, 2, 3)]
        await world.check_replay()


@virtual
async def test_another_sender_is_not_joined() -> None:
    async with World(echo, limits=Limits(coalesce_window_s=2)) as world:
        tickets = [
            await world.send("a1", sender="ann"),
            await world.send("b1", sender="bob"),
            await world.send("a2", sender="ann"),
            await world.send("a3", sender="ann"),
        ]
        replies = [await ticket.reply for ticket in tickets]
        assert [reply.turn for reply in replies] == [1, 2, 3, 3]
        assert [reply.text for reply in replies] == ["re: a1", "re: b1", "re: a2\na3", "re: a2\na3"]


@virtual
async def test_messages_further_apart_than_the_window_are_turns_of_their_own() -> None:
    stall = Stall("one")
    answers = iter([stall])

    def step(context: Context, options: Options) -> Any:
        return next(answers, None) or echo(context, options)

    async with World(step, limits=Limits(coalesce_window_s=2)) as world:
        await world.send("running")
        await stall.reached.wait()
        early = await world.send("early")
        await asyncio.sleep(10)
        late = await world.send("late")
        stall.release()
        assert ((await early.reply).text, (await late.reply).text) == ("re: early", "re: late")


@virtual
async def test_without_a_window_nothing_is_joined_and_nothing_waits() -> None:
    async with World(echo) as world:
        assert world.limits.coalesce_window_s == 0
        before = asyncio.get_running_loop().time()
        first, second = await world.send("one"), await world.send("two")
        assert ((await first.reply).turn, (await second.reply).turn) == (1, 2)
        assert asyncio.get_running_loop().time() == before


# --- what is accepted ------------------------------------------------------------------------------


@virtual
async def test_input_bytes_max_refuses_a_message_that_is_too_large_and_stores_nothing() -> None:
    async with World(echo, limits=Limits(input_bytes_max=10)) as world:
        assert (await world.ask("é" * 5)).text
        with pytest.raises(InputRefused, match="has 11 bytes; at most 10"):
            await world.ask("é" * 5 + "x")
        with pytest.raises(InputRefused, match="has 12 bytes"):
            await world.ask(["x" * 6, "y" * 6])
        assert (await world.kinds()).count("Received") == 1


@virtual
async def test_attachment_bytes_max_refuses_a_file_that_is_too_large() -> None:
    async with World(echo, limits=Limits(attachment_bytes_max=10)) as world:
        assert await world.ask(Binary("image/png", b"x" * 10))
        with pytest.raises(InputRefused, match="larger than 10 bytes"):
            await world.ask(["see this", Binary("image/png", b"x" * 11)])


@pytest.mark.parametrize("empty", ["", "  \n\t", ["", " "], []], ids=repr)
def test_an_empty_message_is_refused(empty: Any) -> None:
    @virtual
    async def check() -> None:
        async with World(echo) as world:
            with pytest.raises(InputRefused, match="empty"):
                await world.ask(empty)

    check()


@virtual
async def test_half_characters_are_made_fit_to_be_kept_in_text_sender_and_id() -> None:
    async with World(echo) as world:
        reply = await world.ask("a \ud800 b", sender="ann \udfff", id="m1 \ud83d")
        assert reply.text == "re: a ? b"
        assert (await world.ask("a \ud800 b", sender="ann \udfff", id="m1 \ud83d")) == reply
        assert (await world.history())[0].text == "a ? b"


def test_only_text_and_files_make_a_prompt() -> None:
    assert to_parts(["a", Binary("x/y"), Text("b")]) == (Text("a"), Binary("x/y"), Text("b"))
    with pytest.raises(InputRefused, match="not ToolCall"):
        to_parts([ToolCall("1", "x", "{}")])
    with pytest.raises(InputRefused, match="not int"):
        to_parts([3])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "a\nb", "a\0b", "x" * 513, "é" * 257, "a\ud800"], ids=ascii)
def test_session_name_bytes_max_and_what_else_a_name_must_not_be(name: str) -> None:
    with pytest.raises(InputRefused, match="session's name"):
        check_session_name(name, Limits())
    assert check_session_name("é" * 256, Limits()) == "é" * 256
    with pytest.raises(InputRefused):
        check_session_name("abcd", Limits(session_name_bytes_max=3))


@virtual
async def test_any_reasonable_name_is_a_session_of_its_own() -> None:
    names = [
        "a",
        "A",
        "a/b",
        "../a",
        "a:b",
        "\uff41",
        "é",
        "e\u0301",
        "con",
        "a.",
        "%2e%2e",
        "'; DROP TABLE sessions; --",
    ]
    async with World(echo) as world:
        for name in names:
            assert (await world.ask(name, name)).turn == 1
        for name in names:
            assert [message.text for message in await world.history(name)] == [name, f"re: {name}"]


# --- whose lane ------------------------------------------------------------------------------------


def test_the_key_is_a_policy() -> None:
    where = InputEnvelope(parts=(), channel="slack", room="C1", thread="T1", sender="ann")
    assert session_key(where, "thread") == "slack:C1:T1"
    assert session_key(where, "user") == "user:slack:ann"
    assert session_key(where, "single") == "main"
    bare = InputEnvelope(parts=(), thread="mine", sender="ann")
    assert session_key(bare, "thread") == "mine"
    assert session_key(bare, "user") == "user:ann"
    other = InputEnvelope(parts=(), channel="matrix", room="R", thread="X", sender="bob")
    assert session_key(other, "single") == session_key(where, "single")
    assert session_key(other, "thread") != session_key(where, "thread")


# --- status ----------------------------------------------------------------------------------------


@virtual
async def test_a_paused_session_keeps_prompts_until_it_is_activated() -> None:
    async with World(echo) as world:
        await world.ask("before")
        await world.lanes.get("s").record_changes(SessionChanged(status="paused"))
        tickets = [await world.send("one"), await world.send("two")]
        await world.lanes.wait_until_settled()
        assert not any(ticket.reply.done() for ticket in tickets)
        assert len(world.provider.asked) == 1
        await world.lanes.get("s").record_changes(SessionChanged(status="active"))
        assert [(await ticket.reply).text for ticket in tickets] == ["re: one", "re: two"]


@virtual
async def test_prompts_of_a_paused_session_wait_across_a_restart() -> None:
    async with World(echo) as world:
        await world.ask("before")
        await world.lanes.get("s").record_changes(SessionChanged(status="paused"))
        await world.send("one")
        await world.crash()
    async with world.after(echo) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        assert later.provider.asked == []
        await later.lanes.get("s").record_changes(SessionChanged(status="active"))
        await later.lanes.wait_until_settled()
        assert (await later.history())[-1].text == "re: one"


@virtual
async def test_an_archived_session_refuses_prompts_and_keeps_its_history() -> None:
    async with World(echo) as world:
        await world.ask("before")
        await world.lanes.get("s").record_changes(SessionChanged(status="archived"))
        with pytest.raises(SessionArchived, match="archived"):
            await world.ask("more")
        with pytest.raises(SessionArchived):
            await world.steer("more")
        assert len(await world.history()) == 2
        await world.lanes.get("s").record_changes(SessionChanged(status="active"))
        assert (await world.ask("more")).text == "re: more"


@virtual
async def test_settings_change_only_what_they_name() -> None:
    async with World(echo) as world:
        lane = world.lanes.get("s")
        await lane.record_changes(SessionChanged(title="A", metadata={"team": "red"}))
        await lane.record_changes(SessionChanged(instructions="Be kind."))
        await lane.accept(envelope("hi"))
        await world.lanes.wait_until_settled()
        standing = await world.store.get_session("s")
        assert (standing.title, standing.metadata, standing.fixed) == ("A", {"team": "red"}, 2)
        assert world.provider.asked[0].system == "Be kind."
