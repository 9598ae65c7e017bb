"""F1, F12, F13, F14, F15: under any order of actions of people, model, tools and machine a session stays consistent and
then answers one more prompt.

Every example is one session on virtual time (see `session_scenes`, which also says what must hold). `make test` plays
a fixed few hundred, `make test-all` ten times as many.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from support.session_scenes import (
    ACTIONS,
    ANSWERS,
    CALLED,
    CALLS,
    CUT,
    END,
    ProviderEncoders,
    Scene,
    calling,
    play,
    seen,
)

from mainstay.core.events import Event, MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.messages import Finish, FinishReason, Text, ToolCall, ToolResult
from mainstay.core.outcome import Answered
from mainstay.core.session import Session
from mainstay.testing import MemoryStore, virtual_run
from mainstay.testing.store_suite import SessionWriter

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
SHARES = 4  # so that several workers can have a part each

actions = st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=16).map(lambda some: (("prompt",), *some))
called = st.builds(
    calling,
    st.lists(st.integers(0, len(CALLS) - 1), min_size=1, max_size=12),
    text=st.sampled_from(("", "let me see")),
    reason=st.sampled_from(("tool_calls", "length", "end")),
)
answers = st.lists(st.one_of(called, st.sampled_from(ANSWERS)), max_size=12).map(tuple)
scenes = st.builds(
    Scene, actions, answers, st.sampled_from((0.0, 0.004)), st.sampled_from((128_000, 600)), st.booleans()
)


def example_settings(number: int) -> Any:
    return settings(
        max_examples=number * 10 if WHOLE else max(number // 2, 1),
        derandomize=not WHOLE,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("share", range(SHARES))
def test_any_interleaving_keeps_the_session_consistent(share: int) -> None:
    @example_settings(200)
    @given(st.just(share), scenes)  # the share is part of the example, so each draws others
    def lived(_: int, scene: Scene) -> None:
        virtual_run(play(scene))

    lived.hypothesis.inner_test.__qualname__ += f"_{share}"  # hypothesis derives its fixed choices from the name
    lived()


unsafe = st.sampled_from([number for number, (name, _) in enumerate(CALLS) if name in ("charge", "book", "put")])
moments = st.sampled_from((0.0, 0.001, 0.003, 0.005, 0.03, 2.9, 3.1, 29.0))


@example_settings(150)
@given(
    calls=st.lists(unsafe, min_size=1, max_size=4),
    when=st.lists(st.tuples(moments, st.sampled_from(("crash", "steer", "abort", "prompt"))), min_size=1, max_size=5),
    delay_s=st.sampled_from((0.0, 0.004)),
    watched=st.booleans(),
)
def test_no_unsafe_effect_happens_twice_and_none_is_denied(
    calls: list[int], when: list[tuple[float, str]], delay_s: float, watched: bool
) -> None:
    """Effects under fire: crashes, steers and aborts around a handful of calls that change the world."""
    actions: list[tuple[Any, ...]] = [("prompt",)]
    for seconds, what in when:
        actions += [("wait", seconds), (what,)]
    virtual_run(play(Scene(tuple(actions), (calling(calls), calling(calls)), delay_s, watched=watched)))


@example_settings(120)
@given(scenes)
@example(Scene((("prompt",), ("prompt",), ("wait", 400.0)), (calling((0, 5)), calling((1,))) * 3, 0.0, 600))
def test_a_small_window_is_never_cut_through_a_turn(scene: Scene) -> None:
    """The lanes themselves read and compile through a window that holds next to nothing."""
    virtual_run(play(scene._replace(window=1200)))


@pytest.mark.parametrize("size", [0, 100, 300, 1000, 3000])
async def test_a_turn_that_ended_while_a_prompt_waited_is_read_whole(size: int) -> None:
    """The prompt came between two steps with calls: a window that began with it would hold calls without results."""

    def calls(step: int) -> list[Event]:
        call = ToolCall(f"call_1_{step}_0", "look", "{}")
        result = ToolResult(call.id, call.name, "x" * 50)
        added = MessageAdded("assistant", (call, Finish(FinishReason.TOOL_CALLS)), turn=1, step=step)
        return [added, ToolFinished(result, turn=1, step=step)]

    writing = SessionWriter(MemoryStore(), "s")
    await writing.append(Received((Text("first"),)), TurnStarted((1,), turn=1), *calls(1))
    await writing.append(Received((Text("second"),)))
    await writing.append(*calls(2), MessageAdded("assistant", (Text("done"),), turn=1, step=3))
    await writing.append(TurnEnded(Answered(), turn=1))
    tail = await writing.store.load_tail("s", size)
    assert tail is not None
    view = Session.from_tail(tail)
    ProviderEncoders().check(seen(view), asking=False)
    assert [one.event.parts for one in view.queued_inputs.values()] == [(Text("second"),)]
    assert [message.role for message in view.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]


FOUND = {
    "a steer that waits while a started call is taken up": Scene(
        (("prompt",), ("wait", 0.4), ("steer",), ("wait", 0.0), ("crash",), ("wait", 400.0)), (calling((7,)),)
    ),
    "the same input twice at the same time": Scene((("twice",), ("wait", 8.0)), (), 0.004),
    "a sender who goes away while the input is being written": Scene(
        (("prompt",), ("wait", 8.0), ("impatient",), ("wait", 45.0)), (), 0.004
    ),
    "a turn that ends its process again and again": Scene(
        (("prompt",), *((("wait", 0.4), ("crash",)) * 6), ("wait", 45.0)), (calling((3,)),)
    ),
    "closed while an input is being accepted": Scene((("prompt",), ("sleep",), ("wait", 8.0)), (), 0.0),
    "a prompt that came between two steps with calls, read through a small window": Scene(
        (("prompt",), ("wait", 0.4), ("prompt",), ("wait", 2.605), ("crash",), ("wait", 45.0)),
        (calling((1,)), calling((0, 14, 16)), (("text", "fine"), END)),
        0.0,
        1200,
    ),
    "a tool that calls exit": Scene((("prompt",), ("wait", 8.0)), (calling((15,)),)),
    "a tool whose error holds half a character": Scene((("prompt",), ("wait", 8.0)), (calling((9,)),)),
    "an abort of a tool that will not stop": Scene(
        (("prompt",), ("wait", 0.4), ("abort",), ("wait", 45.0)), (calling((11,)),)
    ),
    "a steer skips a call that was made before in the same answer": Scene(
        (("prompt",), ("wait", 0.4), ("steer",), ("wait", 45.0)), (calling((7, 4, 7, 4)),)
    ),
    "a stream cut twice in a call": Scene((("prompt",), ("wait", 45.0)), ((("call", 6), CUT), (("call", 6), CUT))),
    "a call that the output limit cut": Scene((("prompt",), ("wait", 45.0)), (calling((6, 6), reason="length"),)),
    "a call whose end is all that is missing": Scene((("prompt",), ("wait", 400.0)), ((("call", 6), 500.0, CALLED),)),
}


@pytest.mark.parametrize("scene", FOUND.values(), ids=FOUND.keys())
def test_found_failures_stay_fixed(scene: Scene) -> None:
    virtual_run(play(scene))
