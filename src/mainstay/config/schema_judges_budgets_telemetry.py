"""Configuration schema of judges, budgets, audit log and telemetry."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.core.judges import CORRECTIONS_DEFAULT, CORRECTIONS_MAX, SCORE_THRESHOLD
from mainstay.core.settings import ConfigSection, Count

Share = Annotated[float, Meta(ge=0, le=1)]
Money = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]


class JudgeEntry(ConfigSection, frozen=True, kw_only=True):
    """A judge of answers: a model with criteria, or a function."""

    criteria: Annotated[str, Meta(description="Criteria by which a model scores the answer, in words.")] = ""
    function: Annotated[
        str,
        Meta(
            description="Instead of a model, a Python function that scores the answer: `module:name`, or "
            "`file.py:name` below the home."
        ),
    ] = ""
    model: Annotated[
        str | None, Meta(description="Model that judges: `<provider>/<model>`; null: the one that answered.")
    ] = None
    weight: Annotated[float, Meta(gt=0, description="Weight of the judge's score with `combine: weighted`.")] = 1.0
    timeout_s: Annotated[
        Seconds, Meta(description="Timeout of one verdict, in seconds; then the judge has failed.")
    ] = 60.0
    money: Annotated[
        Money | None, Meta(description="Most dollars that one verdict may cost; null: no limit of its own.")
    ] = None


class JudgeSettings(ConfigSection, frozen=True, kw_only=True):
    panel: Annotated[
        dict[str, JudgeEntry], Meta(description="The judges, by name; empty: answers are not judged.")
    ] = {}
    combine: Annotated[
        Literal["mean", "median", "min", "max", "weighted", "vote"],
        Meta(description="How the scores of several judges are combined; vote: the share of satisfied judges."),
    ] = "mean"
    threshold: Annotated[Share, Meta(description="Lowest combined score with which an answer passes.")] = (
        SCORE_THRESHOLD
    )
    corrections: Annotated[
        Annotated[int, Meta(ge=1, le=CORRECTIONS_MAX)],
        Meta(description="Retries of an answer that does not pass."),
    ] = CORRECTIONS_DEFAULT
    streaming: Annotated[
        Literal["hold", "draft"],
        Meta(description="hold: an answer is shown once it has passed; draft: it is streamed, marked as a draft."),
    ] = "hold"


class BudgetEntry(ConfigSection, frozen=True, kw_only=True):
    money: Annotated[Money | None, Meta(description="Dollars.")] = None
    tokens: Annotated[Count | None, Meta(description="Tokens, prompts and answers together.")] = None
    tool_calls: Annotated[Count | None, Meta(description="Tool calls.")] = None


class PeriodBudgets(ConfigSection, frozen=True, kw_only=True):
    """Budgets per calendar hour, day and month, in UTC."""

    hour: Annotated[BudgetEntry, Meta(description="Per hour (UTC).")] = BudgetEntry()
    day: Annotated[BudgetEntry, Meta(description="Per day (UTC).")] = BudgetEntry()
    month: Annotated[BudgetEntry, Meta(description="Per month (UTC).")] = BudgetEntry()


class BudgetSettings(ConfigSection, frozen=True, kw_only=True):
    turn: Annotated[BudgetEntry, Meta(description="Budget of one turn, with its sub-agents and judges.")] = (
        BudgetEntry()
    )
    session: Annotated[BudgetEntry, Meta(description="Budget of one session, in total.")] = BudgetEntry()
    person: Annotated[PeriodBudgets, Meta(description="Budget of each person, in all workspaces together.")] = (
        PeriodBudgets()
    )
    workspace: Annotated[PeriodBudgets, Meta(description="Budget of each workspace.")] = PeriodBudgets()
    home: Annotated[PeriodBudgets, Meta(description="Budget of all workspaces together.")] = PeriodBudgets()
    warn_at: Annotated[Share, Meta(description="Share of a budget at which people are warned.")] = 0.8
    unknown_price: Annotated[
        Money, Meta(description="Price of a model whose price is not known, in dollars per million tokens.")
    ] = 20.0


def limits_money(budgets: BudgetSettings) -> bool:
    """Return True if any budget limits money."""
    periods = [(scope.hour, scope.day, scope.month) for scope in (budgets.person, budgets.workspace, budgets.home)]
    entries = (budgets.turn, budgets.session, *(entry for period in periods for entry in period))
    return any(entry.money is not None for entry in entries)


class AuditSettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Write an audit log of who did what.")] = True
    retention_days: Annotated[Count | None, Meta(description="Days that audit entries are kept; null: for ever.")] = 365
    fail_closed: Annotated[bool, Meta(description="Start no turn while the audit log cannot be written.")] = False


class TelemetrySettings(ConfigSection, frozen=True, kw_only=True):
    endpoint: Annotated[
        str,
        Meta(
            description="URL of an OpenTelemetry collector that receives traces (OTLP over HTTP): "
            "`http://127.0.0.1:4318`; empty: no traces."
        ),
    ] = ""
    headers: Annotated[
        dict[str, Annotated[str, Meta(extra={"named": "anyhow"})]],
        Meta(description="HTTP headers of every export, for example for authentication: `authorization: ${OTLP_KEY}`."),
    ] = {}
    sample: Annotated[
        Share, Meta(description="Share of turns that are traced (sampling); failed turns always are.")
    ] = 1.0
    content: Annotated[bool, Meta(description="Include message contents in traces, with secrets redacted.")] = False
    service: Annotated[str, Meta(description="Service name in traces (`service.name`).")] = "mainstay"
    metrics: Annotated[bool, Meta(description="Serve Prometheus metrics at `/metrics` of `mainstay serve`.")] = True
