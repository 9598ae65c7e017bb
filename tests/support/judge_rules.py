"""Judges for tests: they score an answer by its text."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings
from mainstay.core.judges import JudgeInput
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.providers.scripted import Pieces

GATE: list[asyncio.Event] = []  # the next verdict waits for the first of these


async def not_secret(exhibit: JudgeInput) -> tuple[bool, str]:
    if GATE:
        await GATE.pop(0).wait()
    fine = "secret" not in exhibit.answer
    return fine, "" if fine else f"it says {exhibit.answer!r}"


def judges(streaming: Literal["hold", "draft"] = "hold", corrections: int = 3) -> JudgeSettings:
    panel = {"discreet": JudgeEntry(function="support.judge_rules:not_secret")}
    return JudgeSettings(panel=panel, streaming=streaming, corrections=corrections)


def spoken(*words: Any) -> Pieces:
    """In these pieces, the last of which is the end."""
    pieces = [TextPiece(word) if isinstance(word, str) else word for word in words]
    return Pieces([*pieces, StreamFinished(FinishReason.END, Usage(10, 5))])
