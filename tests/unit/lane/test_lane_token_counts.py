"""The token count of a request is the same, counted whole or incrementally."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mainstay.context.token_budget import ContextSizeSettings
from mainstay.context.token_counts import count_message_tokens
from mainstay.context.tokenizers import TokenCalibration, tokenizer_for
from mainstay.core.errors import ContextTooLong
from mainstay.core.events import Event, Folded, MessageAdded, Received, TurnEnded, TurnStarted
from mainstay.core.messages import Message, Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import ModelInfo
from mainstay.core.session import Session
from mainstay.lane.context_compiler import LaneContextCompiler

USUAL, OTHER = (ModelInfo(name=name, window=20_000) for name in ("gpt-4o", "mistral-large"))


class Tools:
    agent_tools: tuple[Any, ...] = ()
    local_tools: tuple[Any, ...] = ()

    def with_client_tools(self, client_tools: Any) -> Tools:
        return self

    def select_for_request(self, **options: bool) -> tuple[Any, ...]:
        return ()


class Calibrations:
    def __init__(self) -> None:
        self._made: dict[str, TokenCalibration] = {}

    def for_model(self, model: ModelInfo) -> TokenCalibration:
        return self._made.setdefault(model.name, TokenCalibration(tokenizer_for(model), factor=1.0))


class Talk:
    """A session, and what is counted of it. It stands in for its pen, too."""

    def __init__(self, rules: ContextSizeSettings) -> None:
        self.session = Session("s")
        services: Any = SimpleNamespace(
            **dict.fromkeys(("budget_manager", "summariser", "clock", "extract_facts")),
            calibrations=Calibrations(),
            tools=Tools(),
            context_rules=rules,
            small_model_tools=(),
            contributors=(),
            instructions="Be good.",
            memory_tools="off",
            is_small_model=lambda model: False,
            limits=SimpleNamespace(tools_inline_max=10, fold_wait_s=1.0),
        )
        self.contexts = LaneContextCompiler(services)

    def record_nowait(self, *events: Event, flush_soon: bool = False) -> None:
        for event in events:
            self.session.apply(self.session.head + 1, 1, event)

    async def check(self) -> None:
        contexts, pen = self.contexts, self
        await contexts.compile(pen)  # type: ignore[arg-type]
        got, scale = contexts.prompt_tokens(), contexts._calibration
        shown = contexts._compile_context(self.session).messages
        anew = [Message(one.id, one.role, one.parts, at=one.at, turn=one.turn) for one in shown]
        whole = contexts._stable_sections.count_tokens(scale.tokenizer) + sum(
            count_message_tokens(one, scale.tokenizer) for one in anew
        )
        assert got == round(whole * scale.factor)


@pytest.mark.parametrize("active_window", [None, 4])
@pytest.mark.parametrize("switched", [False, True], ids=["one model", "two models"])
async def test_over_turns_folds_and_models(switched: bool, active_window: int | None) -> None:
    talk = Talk(ContextSizeSettings(active_window=active_window))
    for turn in range(1, 25):
        talk.record_nowait(Received((Text("今天天气怎么样 internationalisation " * (turn % 7 + 1)),)))
        talk.record_nowait(TurnStarted((talk.session.head,), turn=turn))
        model = OTHER if switched and turn % 10 > 5 else USUAL
        talk.contexts.bind_session(talk, model)  # type: ignore[arg-type]
        for step in range(1, 4):
            await talk.check()
            if (turn, step) == (11, 2):
                talk.contexts.shrink_window(ContextTooLong("too long", window=18_000))
                await talk.check()
            said = Text("answer 一二三 antidisestablishmentarianism " * 10 * step)
            talk.record_nowait(MessageAdded("assistant", (said,), turn=turn, step=step))
        talk.record_nowait(TurnEnded(Answered(), turn=turn))
        if turn in (9, 20):
            talk.record_nowait(Folded(talk.session.messages[6].id, "the summary " * 20, through=turn - 3))
