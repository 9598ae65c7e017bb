"""Formats events, outcomes, durations, token counts and prices as text for people."""

from __future__ import annotations

from mainstay.core.events import ApprovalAsked, Event, Judged, Lagged, Relieved, Stuck, Waiting, Warned
from mainstay.core.messages import Usage
from mainstay.core.outcome import Exhausted, Failed, Outcome
from mainstay.core.outcome_text import describe_outcome, format_dollars
from mainstay.providers.registry import runs_in_process

StyledLine = str | tuple[tuple[str, str], ...]  # a text, or pairs of text and style
PROMPT_MARK = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} "  # in front of the user's input


def describe_stop(outcome: Outcome) -> str:
    """Describe the outcome below the turn's text; of an exhausted budget only its name, as the text has the rest."""
    if isinstance(outcome, Exhausted) and outcome.budget:
        return f"stopped at a limit: {outcome.budget}"
    return describe_outcome(outcome)


CUT_OFF_NOTE = "the answer is cut off at its maximum length (limits.output_tokens_max, or a budget)"


def format_trace_id(outcome: Outcome) -> str:
    """Return the command that shows the details of a failed turn by its trace id, or "" if there is none."""
    return f"details: mainstay error show {outcome.trace}" if isinstance(outcome, Failed) and outcome.trace else ""


def describe_event(event: Event) -> str | None:
    """Return a note about the event for the user, or None if it needs none."""
    match event:
        case Waiting(reason=reason, seconds=seconds):
            return f"waiting{f' {seconds:.0f} s' if seconds >= 1 else ''}: {reason}"
        case Warned(sentence=sentence):
            return sentence
        case Stuck(doing=doing, seconds=seconds):
            return f"this turn seems stuck: {doing}, {seconds:.0f} s past its limit; /stop stops it"
        case Relieved(texts=texts) if texts:
            return "long messages do not fit the model's context window: from now on it sees their beginning and end"
        case Judged():
            return describe_verdict(event)
        case Lagged(missed=missed):
            return f"{missed} events arrived too fast and were not shown"
    return None


def describe_verdict(judged: Judged) -> str:
    """Return `score 0.82`, or `score 0.55, too low: trying again (2 of 4)`."""
    failed = "".join(f"; judge {score.judge} failed: {score.error}" for score in judged.scores if score.error)
    if judged.passed:
        return f"score {judged.score:.2f}{failed}"
    rest = f"trying again ({judged.attempt + 1} of {judged.tries})"
    if judged.last:
        rest = "no attempt was better" if judged.attempt > 1 else "no more attempts"
    return f"score {judged.score:.2f}, too low: {rest}{failed}"


def to_plain_text(line: StyledLine) -> str:
    return line if isinstance(line, str) else "".join(text for text, _ in line)


def format_duration(seconds: float) -> str:
    """Return `12 ms`, `1.4 s` or `3 min 20 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "< 1 ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def describe_waiting(approval: ApprovalAsked) -> str:
    return f"waiting for approval ({approval.id})"


def format_usage(usage: Usage, price: str, seconds: float, first_token_s: float | None = None) -> str:
    """Return a turn's usage: `1.2k tokens in, 64 out · $0.0003 · 1.4 s, first token after 0.3 s`."""
    facts = []
    if usage.prompt or usage.completion:
        cached = f" ({format_number(usage.cached)} cached)" if usage.cached else ""
        facts.append(f"{format_number(usage.prompt)} tokens in{cached}, {format_number(usage.completion)} out")
        facts += [price] if price else []
    facts.append(
        f"{seconds:.1f} s" + (f", first token after {first_token_s:.1f} s" if first_token_s is not None else "")
    )
    return " · ".join(facts)


def format_price(model: str, cost: float) -> str:
    """Return the cost in dollars, or why there is none."""
    if cost:
        return format_dollars(cost)
    return "free" if runs_in_process(model) else "price unknown"


def format_number(number: int) -> str:
    """Return 1234 as `1.2k`."""
    return f"{number}" if number < 1000 else f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"
