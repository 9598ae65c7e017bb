"""What the model will see: compiled for every call from the session, which is never changed to fit."""

from __future__ import annotations

from mainstay.context.window import fit
from mainstay.core.ports import Context, ModelInfo, Tool
from mainstay.core.session import Session

RESERVE_TOKENS = 16_384


def budget(model: ModelInfo) -> int:
    """Tokens for everything the model reads: its window less what it needs for its answer."""
    return model.window - min(RESERVE_TOKENS, model.window // 4)


def compile_context(session: Session, *, instructions: str, tools: tuple[Tool, ...], model: ModelInfo) -> Context:
    """Fixed first (instructions, tools), then the summary, then as much of the recent history as fits."""
    system = instructions
    if session.summary:
        system = f"{system}\n\n# The conversation so far\n\n{session.summary}"
    return Context(system, fit(session, budget(model)), tools)
