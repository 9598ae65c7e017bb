"""What a request weighs is the same, whether all of it is counted or only what is new in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mainstay.context.rules import Rules
from mainstay.context.tokens import Scale, tokenizer_for
from mainstay.context.weigh import weigh
from mainstay.core.errors import ContextTooLong
from mainstay.core.events import Event, Folded, MessageAdded, Received, TurnEnded, TurnStarted
from mainstay.core.messages import Message, Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import ModelInfo
from mainstay.core.session import Session
from mainstay.lane.contexts import LaneContexts

USUAL, OTHER = (ModelInfo(name=name, window=20_000) for name in ("gpt-4o", "mistral-large"))


class Tools:
    own: tuple[Any, ...] = ()
    ours: tuple[Any, ...] = ()

    def joined(self, guests: Any) -> Tools:
        return self

    def offer(self, **how: bool) -> tuple[Any, ...]:
        return ()


class Scales:
    def __init__(self) -> None:
        self._made: dict[str, Scale] = {}

    def of(self, model: ModelInfo) -> Scale:
        return self._made.setdefault(model.name, Scale(tokenizer_for(model), factor=1.0))


class Talk:
    """A session, and what is counted of it. It stands in for its pen, too."""

    def __init__(self, rules: Rules) -> None:
        self.session = Session("s")
        services: Any = SimpleNamespace(
            **dict.fromkeys(("accounts", "summariser", "clock", "facts")),
            scales=Scales(),
            tools=Tools(),
            rules=rules,
            few=(),
            contributors=(),
            instructions="Be good.",
            memory_tools="off",
            terse=lambda model: False,
            limits=SimpleNamespace(tools_inline_max=10, fold_wait_s=1.0),
        )
        self.contexts = LaneContexts(services)

    def note(self, *events: Event, soon: bool = False) -> None:
        for event in events:
            self.session.apply(self.session.head + 1, 1, event)

    async def check(self) -> None:
        contexts, pen = self.contexts, self
        await contexts.compile(pen)  # type: ignore[arg-type]
        got, scale = contexts.prompt_tokens(), contexts._scale
        shown = contexts._context(self.session).messages
        anew = [Message(one.id, one.role, one.parts, at=one.at, turn=one.turn) for one in shown]
        whole = contexts._around.weigh(scale.tokenizer) + sum(weigh(one, scale.tokenizer) for one in anew)
        assert got == round(whole * scale.factor)


@pytest.mark.parametrize("active_window", [None, 4])
@pytest.mark.parametrize("switched", [False, True], ids=["one model", "two models"])
async def test_over_turns_folds_and_models(switched: bool, active_window: int | None) -> None:
    talk = Talk(Rules(active_window=active_window))
    for turn in range(1, 25):
        talk.note(Received((Text("今天天气怎么样 internationalisation " * (turn % 7 + 1)),)))
        talk.note(TurnStarted((talk.session.head,), turn=turn))
        model = OTHER if switched and turn % 10 > 5 else USUAL
        talk.contexts.of(talk, model)  # type: ignore[arg-type]
        for step in range(1, 4):
            await talk.check()
            if (turn, step) == (11, 2):
                talk.contexts.tighten(ContextTooLong("too long", window=18_000))
                await talk.check()
            said = Text("answer 一二三 antidisestablishmentarianism " * 10 * step)
            talk.note(MessageAdded("assistant", (said,), turn=turn, step=step))
        talk.note(TurnEnded(Answered(), turn=turn))
        if turn in (9, 20):
            talk.note(Folded(talk.session.messages[6].id, "the summary " * 20, through=turn - 3))
