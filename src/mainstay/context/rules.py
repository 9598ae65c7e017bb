"""How much of a model's window goes to what. The numbers are targets for an ample window; a small one scales them."""

from __future__ import annotations

import msgspec

from mainstay.context.tokens import Scale
from mainstay.core.ports import ModelInfo


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What can be configured about contexts."""

    window: int | None = None  # instead of what the model says
    reserve_tokens: int = 16_384  # for the answer
    recent_tokens: int = 20_000  # of the newest history that folds leave alone
    summary_tokens: int = 3_000
    profile_tokens: int = 2_000
    fixed_tokens: int = 5_000
    high: float = 0.9  # of the budget: relief begins
    low: float = 0.6  # and ends
    early: float = 0.85  # a fold is begun beside the conversation
    active_window: int | None = None  # so many messages, for those who want the simple rule
    batch_size: int = 50  # messages that are summarised at once
    large_chars: int = 16 * 1024  # a result that is the first to become a stub


class Budget(msgspec.Struct, frozen=True):
    """The rules for one model. All but `window` are in tokens as we count them, which may be fewer than it counts."""

    window: int
    total: int  # everything the model reads
    high: int
    low: int
    early: int
    recent: int
    summary: int
    profile: int


def budget(model: ModelInfo, rules: Rules, scale: Scale) -> Budget:
    window = min(rules.window or model.window, scale.window or model.window)
    total = max(int((window - min(rules.reserve_tokens, window // 4)) / scale.factor), 1)
    return Budget(
        window=window,
        total=total,
        high=int(total * rules.high),
        low=int(total * rules.low),
        early=int(total * rules.early),
        recent=min(rules.recent_tokens, total * 2 // 5),
        summary=min(rules.summary_tokens, total // 6),
        profile=min(rules.profile_tokens, total // 6),
    )


def window_of(total: int, rules: Rules) -> int:
    """The window whose budget this would be."""
    return total + min(rules.reserve_tokens, total // 3)


def window_bytes(model: ModelInfo, rules: Rules) -> int:
    """How much to read of a journal that was never folded: all that can be behind a full window, stubs included. More
    than that only a history has that was written before there were folds."""
    return max((rules.window or model.window) * 40, 4 * 1024 * 1024)
