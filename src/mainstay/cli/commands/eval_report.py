"""Output of `mainstay eval`: progress, results table, reasons for failures, comparison with the baseline, totals."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import msgspec

from mainstay.cli.commands.output import print_table, style_text
from mainstay.core.outcome_text import format_count, format_dollars
from mainstay.evals.baseline import BaselineComparison
from mainstay.evals.results import CaseResult, EvalRun
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.terminal.formatters import format_duration, format_number

OTHER_COLUMNS = 46  # columns of the table without the name
NAME_CHARS_MIN, NAME_CHARS_MAX = 16, 80
REASONS_MAX = 8
_STYLES = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}


class EvalProgress:
    """Progress on stderr: one line that is redrawn on a terminal, otherwise one line per case."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total = total
        self._done = 0
        self._running: list[str] = []
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_quiet = is_quiet and not self._is_live

    def on_case_started(self, name: str) -> None:
        self._running.append(name)
        self._draw_line()

    def on_case_finished(self, result: CaseResult) -> None:
        self._done += 1
        self._running.remove(result.name)
        if not self._is_live and not self._is_quiet:
            line = f"{self._done}/{self._total} {result.result}: {escape_line(result.name)}"
            print(line, file=sys.stderr, flush=True)
        self._draw_line()

    def clear(self) -> None:
        if self._is_live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _draw_line(self) -> None:
        if self._is_live:
            line = escape_line(f"{self._done}/{self._total} done · {', '.join(self._running)}")
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)


def print_report(run: EvalRun, comparison: BaselineComparison | None, baseline_name: str) -> None:
    rows = [_format_row(result) for result in run.results]
    print_table(["CASE", "RESULT", "SCORE", "TOKENS", "COST", "TIME"], rows, right_aligned="cdef")
    for result in run.results:
        if result.reasons or result.notes:
            _print_reasons(result, is_known_failure=comparison is not None and result.name in comparison.known_failures)
    if comparison is not None:
        _print_comparison(comparison, baseline_name)
    print(f"\n{style_text(_format_totals(run), 'bold')}")
    if run.stop_reason:
        why = "interrupted" if run.stop_reason == "interrupted" else "the money limit is reached"
        print(style_text(f"{why}: {format_count(run.count('skipped'), 'case')} not run", "yellow"))


def _format_row(result: CaseResult) -> list[str]:
    score = "" if result.score is None else f"{result.score:.2f}"
    done = result.result != "skipped"
    tokens, time = (format_number(result.tokens), format_duration(result.seconds)) if done else ("", "")
    return [
        _shorten_name(result.name),
        result.result,
        score,
        tokens,
        format_dollars(result.cost + result.judge_cost),
        time,
    ]


def _shorten_name(name: str) -> str:
    """Cut the middle of a name that is too long for the terminal; its ends say more."""
    if not sys.stdout.isatty():
        return name
    most = min(max(shutil.get_terminal_size().columns - OTHER_COLUMNS, NAME_CHARS_MIN), NAME_CHARS_MAX)
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[: most - 1 - half]}…{name[-half:]}"


def _print_reasons(result: CaseResult, *, is_known_failure: bool) -> None:
    before = " (as before)" if is_known_failure else ""
    print(f"\n{style_text(result.result, _STYLES[result.result])} {escape_line(result.name)}{before}")
    reasons = result.reasons or result.notes
    for reason in reasons[:REASONS_MAX]:
        print(f"  {escape_line(reason)}")
    if len(reasons) > REASONS_MAX:
        print(f"  and {len(reasons) - REASONS_MAX} more")


def _print_comparison(comparison: BaselineComparison, baseline_name: str) -> None:
    for title, style, changed in (
        (f"worse than {escape_line(baseline_name)}", "red", comparison.regressions),
        (f"better than {escape_line(baseline_name)}", "green", comparison.improvements),
    ):
        if changed:
            print(f"\n{style_text(title, style)}")
            for name, how in changed.items():
                print(f"  {escape_line(name)}: {how}")
    if not comparison.regressions:
        before = (
            f"; {format_count(known, 'case')} failed before too" if (known := len(comparison.known_failures)) else ""
        )
        print(f"\nnothing is worse than {escape_line(baseline_name)}{before}")
    if comparison.missing:
        print(f"\nin {escape_line(baseline_name)}, but no longer a case: {_format_names(comparison.missing)}")
    if comparison.extra:
        print(f"\nnot in {escape_line(baseline_name)} yet: {_format_names(comparison.extra)}")


def _format_names(names: tuple[str, ...]) -> str:
    return escape_line(", ".join(names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _format_totals(run: EvalRun) -> str:
    counts = [f"{run.count(kind)} {kind}" for kind in ("passed", "failed", "skipped") if run.count(kind)]
    counts += [format_count(errors, "error")] if (errors := run.count("error")) else []
    facts = [f"{format_count(len(run.results), 'case')}: {', '.join(counts)}"]
    facts += [f"score {run.score:.2f}"] if run.score is not None else []
    facts += [f"{format_number(run.tokens)} tokens"] if run.tokens else []
    facts += [format_dollars(run.cost)] if run.cost else []
    facts += [f"judges {format_dollars(run.judge_cost)}"] if run.judge_cost else []
    return " · ".join([*facts, format_duration(run.seconds)])


def build_report(
    run: EvalRun, comparison: BaselineComparison | None, baseline_name: str, *, ok: bool
) -> dict[str, Any]:
    """Return all results for `--json` and `--out`."""
    report: dict[str, Any] = {
        "ok": ok,
        "name": run.name,
        "model": run.model,
        "cases": len(run.results),
        **{kind: run.count(kind) for kind in ("passed", "failed", "error", "skipped")},
        "score": None if run.score is None else round(run.score, 4),
        "tokens": run.tokens,
        "cost": run.cost,
        "judging": run.judge_cost,
        "seconds": round(run.seconds, 3),
        "cut": run.stop_reason,
        "results": [msgspec.to_builtins(result) for result in run.results],
    }
    if comparison is not None:
        compared = msgspec.to_builtins(comparison) | {"known": sorted(comparison.known_failures)}
        report["baseline"] = {"file": baseline_name, **compared}
    return report
