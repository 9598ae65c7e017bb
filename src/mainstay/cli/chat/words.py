"""Events and outcomes in words, for whoever watches."""

from __future__ import annotations

from mainstay.core.events import ApprovalAsked, Event, Judged, Lagged, Relieved, Stuck, Waiting, Warned
from mainstay.core.messages import Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused

Line = str | tuple[tuple[str, str], ...]  # a line to show: a text, or pieces of it, each with a style
MARK = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} "  # before what a person typed


def ending(outcome: Outcome) -> str:
    match outcome:
        case Answered():
            return "answered"
        case Aborted():
            return "stopped"
        case Exhausted(bound=bound):
            return f"stopped at its limit: {bound}"
        case Paused():
            return "waits for an approval"
        case Failed(sentence=sentence):
            return sentence


def stopped(outcome: Outcome) -> str:
    """The same, below what was said in the turn: of a budget that refused it, that has all of it but the name."""
    if isinstance(outcome, Exhausted) and outcome.budget:
        return f"stopped at its limit: {outcome.budget}"
    return ending(outcome)


CUT = "the answer is cut: it has the length that it may have (limits.output_tokens_max, or a budget)"


def traced(outcome: Outcome) -> str:
    """Under what more can be found out about a turn that failed."""
    return f"trace {outcome.trace}" if isinstance(outcome, Failed) and outcome.trace else ""


def notice(event: Event) -> str | None:
    """What a watcher should know beside what is said and done, or None."""
    match event:
        case Waiting(reason=reason, seconds=seconds):
            return f"waiting{f' {seconds:.0f} s' if seconds >= 1 else ''}: {reason}"
        case Warned(sentence=sentence):
            return sentence
        case Stuck(doing=doing, seconds=seconds):
            return f"this turn seems stuck: {doing}, {seconds:.0f} s past its bound; /stop ends it"
        case Relieved(texts=texts) if texts:
            return "long messages do not fit this model's window whole: it sees their beginning and end from here on"
        case Judged():
            return verdict(event)
        case Lagged(missed=missed):
            return f"{missed} events came too fast to show"
    return None


def verdict(judged: Judged) -> str:
    """`judged 0.82`; `judged 0.55, not good enough: trying again (2 of 4)`."""
    failed = "".join(f"; judge {one.judge} failed: {one.error}" for one in judged.scores if one.error)
    if judged.passed:
        return f"judged {judged.score:.2f}{failed}"
    rest = f"trying again ({judged.attempt + 1} of {judged.tries})"
    if judged.last:
        rest = "no better one came" if judged.attempt > 1 else "it is not tried again"
    return f"judged {judged.score:.2f}, not good enough: {rest}{failed}"


def plain(line: Line) -> str:
    return line if isinstance(line, str) else "".join(text for text, _ in line)


def lasted(seconds: float) -> str:
    """`12 ms`, `1.4 s`, `3 min 20 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "< 1 ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def waits(asked: ApprovalAsked) -> str:
    return f"waits for an approval ({asked.id})"


def usage_line(usage: Usage, charge: str, seconds: float, first_s: float | None = None) -> str:
    """What a turn took: `1.2k tokens in, 64 out · $0.0003 · 1.4 s, first word after 0.3 s`."""
    facts = []
    if usage.prompt or usage.completion:
        cached = f" ({short(usage.cached)} cached)" if usage.cached else ""
        facts.append(f"{short(usage.prompt)} tokens in{cached}, {short(usage.completion)} out")
        facts += [charge] if charge else []
    facts.append(f"{seconds:.1f} s" + (f", first word after {first_s:.1f} s" if first_s is not None else ""))
    return " · ".join(facts)


def charge(model: str, cost: float) -> str:
    """In dollars; or why there are none."""
    if cost:
        return dollars(cost)
    return "free" if model.startswith("local/") else "no price known"


def count(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short(number: int) -> str:
    """1234 as 1.2k."""
    return f"{number}" if number < 1000 else f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def dollars(amount: float) -> str:
    """Digits that say something: $12.34, $0.0021; nothing where nothing is known."""
    if not amount:
        return ""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"
