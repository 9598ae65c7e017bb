"""Token budget of a context: how a model's window is divided. The defaults are for large windows; small ones scale."""

from __future__ import annotations

import msgspec

from mainstay.context.tokenizers import TokenCalibration
from mainstay.core.ports import ModelInfo


class ContextSizeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Configurable settings of contexts."""

    window: int | None = None  # tokens; overrides the model's own
    reserve_tokens: int = 16_384  # for the answer
    recent_tokens: int = 20_000  # of the newest history that folds do not touch
    summary_tokens: int = 3_000
    profile_tokens: int = 2_000
    fixed_tokens: int = 5_000
    high_share: float = 0.9  # share of the budget at which compaction begins
    low_share: float = 0.6  # share of the budget down to which it compacts
    early_share: float = 0.85  # share of the budget at which a fold starts in the background
    active_window: int | None = None  # show only this many of the newest messages; None: as many as fit
    batch_size: int = 50  # messages that are summarised in one call
    large_chars: int = 16 * 1024  # longer results are the first to become stubs


class TokenBudget(msgspec.Struct, frozen=True):
    """The rules applied to one model. All but `window` are in tokens by our count, which may be below the model's."""

    window: int
    total: int  # of the whole request
    high: int
    low: int
    early: int
    recent: int
    summary: int
    profile: int


def compute_budget(model: ModelInfo, rules: ContextSizeSettings, calibration: TokenCalibration) -> TokenBudget:
    window = min(rules.window or model.window, calibration.window or model.window)
    total = max(int((window - min(rules.reserve_tokens, window // 4)) / calibration.factor), 1)
    if calibration.total_guess is not None and calibration.total_guess < total:
        total = calibration.total_guess
        window = min(window, _window_for_total(int(total * calibration.factor), rules))
    return TokenBudget(
        window=window,
        total=total,
        high=int(total * rules.high_share),
        low=int(total * rules.low_share),
        early=int(total * rules.early_share),
        recent=min(rules.recent_tokens, total * 2 // 5),
        summary=min(rules.summary_tokens, total // 6),
        profile=min(rules.profile_tokens, total // 6),
    )


def _window_for_total(total: int, rules: ContextSizeSettings) -> int:
    """Return the window that would have this total budget."""
    return total + min(rules.reserve_tokens, total // 3)


def journal_bytes_for_window(model: ModelInfo, rules: ContextSizeSettings) -> int:
    """Return how many bytes to load of a journal that was never folded: enough for a full window, stubs included.

    Only a history written before folds existed is longer.
    """
    return max((rules.window or model.window) * 40, 4 * 1024 * 1024)
