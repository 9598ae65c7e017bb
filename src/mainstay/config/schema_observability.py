"""What can be configured about judging answers, what they may cost, and what is kept of what happened."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.config.schema_base import Count, Section
from mainstay.core.judging import CORRECTIONS, CORRECTIONS_MAX, THRESHOLD

Share = Annotated[float, Meta(ge=0, le=1)]
Money = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]


class JudgeEntry(Section, frozen=True, kw_only=True):
    """A judge: a model that is told what to look for, or a function."""

    criteria: Annotated[str, Meta(description="What a model is to judge the answer by, in words.")] = ""
    function: Annotated[
        str,
        Meta(description="Or a Python function that scores it: `module:name`, or `file.py:name` below the home."),
    ] = ""
    model: Annotated[str | None, Meta(description="The model that judges; null: the one that answered.")] = None
    weight: Annotated[float, Meta(gt=0, description="How much it counts with `weighted`.")] = 1.0
    timeout_s: Annotated[Seconds, Meta(description="How long it may take; then it has failed.")] = 60.0
    money: Annotated[Money | None, Meta(description="Dollars that one verdict of it may cost at most.")] = None


class JudgeSettings(Section, frozen=True, kw_only=True):
    panel: Annotated[dict[str, JudgeEntry], Meta(description="The judges, by name; none: nothing is judged.")] = {}
    combine: Annotated[
        Literal["mean", "median", "min", "max", "weighted", "vote"],
        Meta(description="How several scores become one; vote: the share of judges that it satisfies."),
    ] = "mean"
    threshold: Annotated[Share, Meta(description="The score that is good enough.")] = THRESHOLD
    corrections: Annotated[
        Annotated[int, Meta(ge=1, le=CORRECTIONS_MAX)],
        Meta(description="How often an answer that is not good enough is tried again."),
    ] = CORRECTIONS
    streaming: Annotated[
        Literal["hold", "draft"],
        Meta(description="hold: an answer is shown when it has passed; draft: as it is written, as a draft."),
    ] = "hold"


class BudgetEntry(Section, frozen=True, kw_only=True):
    money: Annotated[Money | None, Meta(description="Dollars.")] = None
    tokens: Annotated[Count | None, Meta(description="Tokens, prompts and answers together.")] = None
    tool_calls: Annotated[Count | None, Meta(description="Tool calls.")] = None


class PeriodBudgets(Section, frozen=True, kw_only=True):
    """Hours, days and months of UTC."""

    hour: Annotated[BudgetEntry, Meta(description="In one hour of the clock.")] = BudgetEntry()
    day: Annotated[BudgetEntry, Meta(description="In one day.")] = BudgetEntry()
    month: Annotated[BudgetEntry, Meta(description="In one month.")] = BudgetEntry()


class BudgetSettings(Section, frozen=True, kw_only=True):
    turn: Annotated[BudgetEntry, Meta(description="What one turn may use, its sub-agents and judges included.")] = (
        BudgetEntry()
    )
    session: Annotated[BudgetEntry, Meta(description="What one session may use, in all.")] = BudgetEntry()
    person: Annotated[PeriodBudgets, Meta(description="What each person may use, in all workspaces together.")] = (
        PeriodBudgets()
    )
    workspace: Annotated[PeriodBudgets, Meta(description="What a workspace may use.")] = PeriodBudgets()
    home: Annotated[PeriodBudgets, Meta(description="What all of them together may use.")] = PeriodBudgets()
    warn_at: Annotated[Share, Meta(description="The share of a budget at which people are warned.")] = 0.8
    unknown_price: Annotated[
        Money, Meta(description="Dollars per million tokens of a model whose price nobody knows.")
    ] = 20.0


def bounds_money(budgets: BudgetSettings) -> bool:
    """Whether anything of what may be spent is money."""
    periods = [(one.hour, one.day, one.month) for one in (budgets.person, budgets.workspace, budgets.home)]
    entries = (budgets.turn, budgets.session, *(entry for some in periods for entry in some))
    return any(entry.money is not None for entry in entries)


class AuditSettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Keep a record of who did what.")] = True
    retention_days: Annotated[Count | None, Meta(description="How long it is kept; null: for good.")] = 365
    fail_closed: Annotated[bool, Meta(description="Begin no turn while the record cannot be written.")] = False


class TelemetrySettings(Section, frozen=True, kw_only=True):
    endpoint: Annotated[
        str, Meta(description="Where traces go by OTLP over HTTP: `http://127.0.0.1:4318`; empty: nowhere.")
    ] = ""
    headers: Annotated[
        dict[str, Annotated[str, Meta(extra={"named": "anyhow"})]],
        Meta(description="What is sent along, a key for instance: `authorization: ${OTLP_KEY}`."),
    ] = {}
    sample: Annotated[Share, Meta(description="The share of turns that are traced; those that fail always are.")] = 1.0
    content: Annotated[bool, Meta(description="Put what was said into the traces, without secrets.")] = False
    service: Annotated[str, Meta(description="The name of this service in them.")] = "mainstay"
    metrics: Annotated[bool, Meta(description="`/metrics` of `mainstay serve`, for Prometheus.")] = True
