"""How well and how fast text is guarded: precision and recall of the scanner and the redactor, CPU time of both.

The sets are those of tests/unit/guards/sets. One half was looked at while the guards were written, the other was not.
Where kingfisher-secret-scanner is installed, it is given the same secrets: it finds them in whole texts, without
streaming. Times are the best of several repetitions. Results go to benchmarks/results/guards.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import Row, Target, machine, table

from mainstay.trust.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.trust.guards.injection_scanner import scan_text
from mainstay.trust.guards.redaction import Redactor

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.guard_texts.attacks import attacks  # noqa: E402
from support.guard_texts.benign import benign  # noqa: E402
from support.guard_texts.leaks import clean, leaks, shown  # noqa: E402

REPEAT = 7
PROSE = (
    "The harbour was quiet when the boats came in. Three men carried the nets up the steps while a woman counted the "
    "baskets and wrote the figures into a small book. It had rained in the night, so the stones were still dark, and "
    "the smell of salt and wood lay over the square. By noon the market would be full of people from the villages. "
)
PAGE = (HERE.parent / "ARCHITECTURE.md").read_text("utf-8")


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def quality(name: str, found: int, wanted: int, alarms: int, harmless: int, floors: tuple[float, float]) -> list[Row]:
    note = f"{wanted} to be found, {harmless} harmless"
    precision, recall = share(found, found + alarms), share(found, wanted)
    return [
        Row(
            "guards",
            f"{name}, precision",
            "of 1",
            precision,
            target=Target(floors[0], of="ours", at_least=True),
            note=note,
        ),
        Row("guards", f"{name}, recall", "of 1", recall, target=Target(floors[1], of="ours", at_least=True), note=note),
    ]


def scanner() -> list[Row]:
    rows = []
    for half, name in ((False, "seen"), (True, "held out")):
        texts = [text for _, text, held in attacks() if held is half]
        harmless = [text for text, held in benign() if held is half]
        found = sum(scan_text(text) is not None for text in texts)
        alarms = sum(scan_text(text) is not None for text in harmless)
        rows += quality(f"scanner, {name}", found, len(texts), alarms, len(harmless), (0.97, 0.85))
    return rows


def redactor() -> list[Row]:
    rows = []
    ours = Redactor()
    for half, name in ((False, "seen"), (True, "held out")):
        texts = [(text, secret) for _, text, secret, held in leaks() if held is half]
        harmless = [text for text, held in clean() if held is half]
        found = sum(not shown(secret, ours.redact(text)[0]) for text, secret in texts)
        alarms = sum(ours.redact(text)[0] != text for text in harmless)
        rows += quality(f"redactor, {name}", found, len(texts), alarms, len(harmless), (0.98, 0.97))
    return rows


def other_scanner() -> list[Row]:
    """Its findings count if it finds anything in a text. Some of its rules check sums that made-up tokens lack."""
    try:
        from kingfisher_sdk import Scanner
    except ImportError:
        return []
    other = Scanner()
    texts = [text for _, text, _, _ in leaks()]
    harmless = [text for text, _ in clean()]
    found = sum(bool(other.scan(text)) for text in texts)
    alarms = sum(bool(other.scan(text)) for text in harmless)
    plain, note = sized(PROSE, 2048), "kingfisher-secret-scanner, whole texts only"
    each = spent(lambda: again(other.scan), 1) / len(chunks(plain))
    return [
        Row("guards", "another scanner, precision", "of 1", share(found, found + alarms), note=note),
        Row("guards", "another scanner, recall", "of 1", share(found, len(texts)), note=note),
        Row("guards", "another scanner, 2 KB of prose", "us of CPU", spent(lambda: other.scan(plain), 500), note=note),
        Row("guards", "another scanner, one chunk of a stream", "us of CPU", each, note=note),
    ]


def again(look: Callable[[str], Any]) -> None:
    """What one has to do with a scanner that knows whole texts only: look at the last kilobyte after every chunk."""
    text = ""
    for chunk in chunks(sized(PROSE, 2048)):
        text += chunk
        look(text[-1024:])


def sized(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


def chunks(text: str) -> list[str]:
    """As models stream: a word with its space."""
    return [" " + word for word in text.split(" ")]


def spent(work: Callable[[], Any], times: int) -> float:
    """Microseconds of CPU for one, the best of several rounds."""
    work()
    best = float("inf")
    for _ in range(REPEAT):
        start = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - start)
    return best / times * 1e6


def speed() -> list[Row]:
    ours, known = Redactor(), Redactor(["a-secret-of-the-configuration", "another-one-0123456789"])
    guards = Guardrails(GuardrailOptions(), b"k" * 32, ["a-secret-of-the-configuration"])
    plain, long = sized(PROSE, 2048), sized(PROSE, 65536)
    page, long_page = sized(PAGE, 2048), sized(PAGE, 65536)
    pieces = chunks(plain)

    def stream(redactor: Redactor) -> None:
        one = redactor.open_stream()
        for piece in pieces:
            one.feed(piece)
        one.finish()

    def result(text: str) -> None:
        guards.check_result(text, external=True)

    def row(figure: str, work: Callable[[], Any], times: int, bound: float | None = None, share: int = 1) -> Row:
        target = None if bound is None else Target(bound, of="ours")
        return Row("guards", figure, "us of CPU", spent(work, times) / share, target=target)

    return [
        row("scan 2 KB of prose", lambda: scan_text(plain), 2000, 15),
        row("scan 64 KB of prose", lambda: scan_text(long), 100, 150),
        row("scan 2 KB of a page about agents", lambda: scan_text(page), 100),
        row("scan 64 KB of pages about agents", lambda: scan_text(long_page), 5),
        row("redact 2 KB of prose", lambda: ours.redact(plain), 2000, 10),
        row("redact 64 KB of prose", lambda: ours.redact(long), 100),
        row("redact 2 KB of a page about agents", lambda: ours.redact(page), 200),
        row("redact one chunk of a stream", lambda: stream(ours), 50, 1, len(pieces)),
        row("redact one chunk, two known values", lambda: stream(known), 50, None, len(pieces)),
        row("a result of 100 characters, all guards", lambda: result(plain[:100]), 5000),
        row("a result of 2 KB of prose, all guards", lambda: result(plain), 1000, 100),
    ]  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=HERE / "results" / "guards.json", help="where the results go")
    given = options.parse_args()
    rows = [*scanner(), *redactor(), *speed(), *other_scanner()]
    print(table(rows))
    given.out.write_text(json.dumps({"machine": machine(), "rows": [row.data() for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
