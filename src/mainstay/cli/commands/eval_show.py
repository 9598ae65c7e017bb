"""What `mainstay eval` prints: progress while it runs, then a table, what failed and why, what is worse, and totals."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import msgspec

from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count, dollars, lasted, short
from mainstay.cli.commands.out import paint, print_table
from mainstay.evals.baseline import Comparison
from mainstay.evals.results import Result, Run

BESIDE = 46  # columns of the table beside the name's
NAME_MIN, NAME_MAX = 16, 80
REASONS_MAX = 8
_STYLES = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}


class Progress:
    """On a terminal one line that changes, elsewhere a line a case. It goes to stderr: stdout is for results."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._done = 0
        self._running: list[str] = []
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._quiet = quiet and not self._live

    def began(self, name: str) -> None:
        self._running.append(name)
        self._draw()

    def ended(self, result: Result) -> None:
        self._done += 1
        self._running.remove(result.name)
        if not self._live and not self._quiet:
            line = f"{self._done}/{self._total} {result.result}: {visible(result.name)}"
            print(line, file=sys.stderr, flush=True)
        self._draw()

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        if self._live:
            line = visible(f"{self._done}/{self._total} done · {', '.join(self._running)}")
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)


def show(run: Run, comparison: Comparison | None, baseline: str) -> None:
    print_table(["CASE", "RESULT", "SCORE", "TOKENS", "COST", "TIME"], [_row(one) for one in run.results], right="cdef")
    for one in run.results:
        if one.reasons or one.notes:
            _show_reasons(one, known=comparison is not None and one.name in comparison.known)
    if comparison is not None:
        _show_comparison(comparison, baseline)
    print(f"\n{paint(_totals(run), 'bold')}")
    if run.cut:
        why = "interrupted" if run.cut == "interrupted" else "the money is spent"
        print(paint(f"{why}: {count(run.count('skipped'), 'case')} not done", "yellow"))


def _row(one: Result) -> list[str]:
    score = "" if one.score is None else f"{one.score:.2f}"
    done = one.result != "skipped"
    tokens, time = (short(one.tokens), lasted(one.seconds)) if done else ("", "")
    return [_shortened(one.name), one.result, score, tokens, dollars(one.cost + one.judging), time]


def _shortened(name: str) -> str:
    """As long as the terminal has room for; both ends of a name tell more than its middle."""
    if not sys.stdout.isatty():
        return name
    most = min(max(shutil.get_terminal_size().columns - BESIDE, NAME_MIN), NAME_MAX)
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[: most - 1 - half]}…{name[-half:]}"


def _show_reasons(one: Result, *, known: bool) -> None:
    before = " (as before)" if known else ""
    print(f"\n{paint(one.result, _STYLES[one.result])} {visible(one.name)}{before}")
    told = one.reasons or one.notes
    for reason in told[:REASONS_MAX]:
        print(f"  {visible(reason)}")
    if len(told) > REASONS_MAX:
        print(f"  and {len(told) - REASONS_MAX} more")


def _show_comparison(comparison: Comparison, baseline: str) -> None:
    for title, style, changed in (
        (f"worse than in {visible(baseline)}", "red", comparison.worse),
        (f"better than in {visible(baseline)}", "green", comparison.better),
    ):
        if changed:
            print(f"\n{paint(title, style)}")
            for name, how in changed.items():
                print(f"  {visible(name)}: {how}")
    if not comparison.worse:
        before = f"; {count(known, 'case')} failed before too" if (known := len(comparison.known)) else ""
        print(f"\nnothing is worse than in {visible(baseline)}{before}")
    if comparison.missing:
        print(f"\nin {visible(baseline)}, but no case any more: {_names(comparison.missing)}")
    if comparison.extra:
        print(f"\nnot in {visible(baseline)} yet: {_names(comparison.extra)}")


def _names(names: tuple[str, ...]) -> str:
    return visible(", ".join(names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _totals(run: Run) -> str:
    counts = [f"{run.count(one)} {one}" for one in ("passed", "failed", "skipped") if run.count(one)]
    counts += [count(errors, "error")] if (errors := run.count("error")) else []
    facts = [f"{count(len(run.results), 'case')}: {', '.join(counts)}"]
    facts += [f"score {run.score:.2f}"] if run.score is not None else []
    facts += [f"{short(run.tokens)} tokens"] if run.tokens else []
    facts += [dollars(run.cost)] if run.cost else []
    facts += [f"judges {dollars(run.judging)}"] if run.judging else []
    return " · ".join([*facts, lasted(run.seconds)])


def document(run: Run, comparison: Comparison | None, baseline: str, *, ok: bool) -> dict[str, Any]:
    """Everything, for other programs."""
    made: dict[str, Any] = {
        "ok": ok,
        "name": run.name,
        "model": run.model,
        "cases": len(run.results),
        **{one: run.count(one) for one in ("passed", "failed", "error", "skipped")},
        "score": None if run.score is None else round(run.score, 4),
        "tokens": run.tokens,
        "cost": run.cost,
        "judging": run.judging,
        "seconds": round(run.seconds, 3),
        "cut": run.cut,
        "results": [msgspec.to_builtins(one) for one in run.results],
    }
    if comparison is not None:
        told = msgspec.to_builtins(comparison) | {"known": sorted(comparison.known)}
        made["baseline"] = {"file": baseline, **told}
    return made
