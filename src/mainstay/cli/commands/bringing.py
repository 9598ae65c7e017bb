"""Bringing weights while somebody watches: what is offered, a question, a bar, and what is said at the end.

`chat`, `run`, `init` and `model pull` share it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from mainstay.agent.discover import Found, of_pulled
from mainstay.cli.chat.safe import visible
from mainstay.core.errors import ConfigError
from mainstay.providers.local.growing import began, kept
from mainstay.providers.local.pull import Pulled, Watch, pull
from mainstay.providers.local.weights import FIRST, Weights, folder

ACCEPTS = "MAINSTAY_LOCAL"  # 1: bring a model if there is none, without asking
RUNTIME = "xllamacpp"
NEEDS_RUNTIME = "llama.cpp, which runs models on this machine, is not installed: pip install -e '.[local]'"
DRAWN_S = 0.1
_BAR = 24


def can_run() -> bool:
    """Whether what runs a local model is installed. It is not loaded for that."""
    return importlib.util.find_spec(RUNTIME) is not None


def accepted(env: Mapping[str, str] = os.environ) -> bool:
    """Somebody has said beforehand that a model may be brought."""
    return env.get(ACCEPTS, "").strip().lower() in ("1", "true", "yes", "on")


def offer(*, yes: bool, quiet: bool = False) -> Found | None:
    """The model that was brought for whoever had none; None if they did not want it, or could not be asked."""
    agreed = yes or accepted()
    asking = sys.stdin.isatty() and sys.stderr.isatty()
    if not agreed and not (asking and can_run()):
        return None
    if not can_run():
        raise ConfigError(NEEDS_RUNTIME)
    if not agreed:
        _say("There is no model to talk to yet, but one can be brought that runs on this machine.")
    if not (agreed or wanted(FIRST)):
        return None
    bring(FIRST, quiet=quiet)
    return of_pulled(FIRST)


def described(one: Weights) -> str:
    """What somebody agrees to."""
    lines = [
        f"{one.title}: {one.about}",
        f"  {size_of(one.size)} to download, about {size_of(one.memory_mb * 10**6)} of memory while it runs",
        f"  licence: {one.licence}",
        f"  from: {one.source}" + (" (or the same bytes from a package index)" if one.wheels else ""),
        f"  into: {folder()}",
    ]
    return "\n".join(lines)


def size_of(bytes: int) -> str:
    return f"{bytes / 1e9:.1f} GB" if bytes >= 1e9 else f"{bytes / 1e6:.0f} MB"


def wanted(one: Weights) -> bool:
    """A person's word on this download. Enter is yes."""
    _say(described(one))
    sys.stderr.write("Bring it? [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        _say("")
        return False
    return answer.strip().lower() in ("", "y", "yes")


def bring(one: Weights, *, given: str = "", quiet: bool = False) -> Pulled:
    """Raises NotPulled; KeyboardInterrupt once it has said what is kept. `quiet`: nothing is shown on the way."""
    place = folder()
    if quiet:
        return pull(one, place, given=given)
    bar = Bar(one, sys.stderr)
    try:
        return pull(one, place, given=given, watch=Watch(bar.tell, bar.progress))
    except KeyboardInterrupt:
        bar.tell(f"stopped; {kept(one, began(one, place))}")
        raise
    finally:
        bar.close()


def _say(sentence: str) -> None:
    print(visible_lines(sentence), file=sys.stderr, flush=True)


def visible_lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


class Bar:
    """How far it is. On a terminal a line that is drawn again, elsewhere a line for every tenth."""

    def __init__(self, one: Weights, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._one = one
        self._out = out
        self._clock = clock
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._tenth = -1
        self._drawn_s = -DRAWN_S
        self._shown = 0  # columns of the line that stands there
        self._first: tuple[float, int] | None = None

    def progress(self, have: int) -> None:
        now = self._clock()
        if self._first is None:
            self._first = now, have
        if self._live:
            if now - self._drawn_s >= DRAWN_S or have == self._one.size:
                self._drawn_s = now
                self._draw(f"{drawn(have, self._one.size)}  {self._facts(have, now)}")
        elif (tenth := have * 10 // self._one.size) > self._tenth:
            self._tenth = tenth
            print(f"{self._one.name}: {tenth * 10} %, {self._facts(have, now)}", file=self._out, flush=True)

    def tell(self, sentence: str) -> None:
        self._wipe()
        print(f"mainstay: {visible(sentence)}", file=self._out, flush=True)

    def close(self) -> None:
        self._wipe()

    def _facts(self, have: int, now: float) -> str:
        """Bytes, how fast they came since it began, how long the rest takes at that."""
        assert self._first is not None, "something came"
        since, had = self._first
        facts = [f"{have / 1e6:,.0f} of {self._one.size / 1e6:,.0f} MB"]
        if now - since >= 1 and have > had:
            speed = (have - had) / (now - since)
            left = round((self._one.size - have) / speed)
            facts += [f"{speed / 1e6:.1f} MB/s", f"{left // 60}:{left % 60:02} left"]
        return ", ".join(facts)

    def _draw(self, line: str) -> None:
        line = line[: _columns() - 1]
        self._out.write("\r" + line.ljust(self._shown))
        self._out.flush()
        self._shown = len(line)

    def _wipe(self) -> None:
        if self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._out.flush()
            self._shown = 0


def drawn(have: int, size: int) -> str:
    full = have * _BAR // size if size else 0
    return f"[{'#' * full}{'.' * (_BAR - full)}] {have * 100 // size if size else 0:3} %"


def _columns() -> int:
    from shutil import get_terminal_size

    return max(20, get_terminal_size().columns)
