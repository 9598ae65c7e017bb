"""Precision, recall and CPU time of the injection scanner and the redactor.

The texts are those of tests/support/guard_texts. One half was used while the guards were written, the other was held
out. If kingfisher-secret-scanner is installed, it scans the same secrets, in complete texts without streaming. Times
are the best of several repetitions. Results go to benchmarks/results/guards.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import Row, Target, describe_machine, format_table

from mainstay.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.guards.injection_scanner import scan_text
from mainstay.guards.redaction import Redactor

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.guard_texts.attacks import attacks  # noqa: E402
from support.guard_texts.benign import benign  # noqa: E402
from support.guard_texts.leaks import clean, leaks, shown  # noqa: E402

REPETITIONS = 7
PROSE = (
    "The harbour was quiet when the boats came in. Three men carried the nets up the steps while a woman counted the "
    "baskets and wrote the figures into a small book. It had rained in the night, so the stones were still dark, and "
    "the smell of salt and wood lay over the square. By noon the market would be full of people from the villages. "
)
PAGE = (HERE.parent / "ARCHITECTURE.md").read_text("utf-8")


def divide(part: int, total: int) -> float:
    return part / total if total else 1.0


def build_quality_rows(
    name: str, detected: int, harmful: int, false_alarms: int, harmless: int, targets: tuple[float, float]
) -> list[Row]:
    note = f"{harmful} to be found, {harmless} harmless"
    precision, recall = divide(detected, detected + false_alarms), divide(detected, harmful)
    return [
        Row(
            "guards",
            f"{name}, precision",
            "of 1",
            precision,
            target=Target(targets[0], of="ours", at_least=True),
            note=note,
        ),
        Row(
            "guards", f"{name}, recall", "of 1", recall, target=Target(targets[1], of="ours", at_least=True), note=note
        ),
    ]


def measure_scanner() -> list[Row]:
    rows = []
    for held_out, name in ((False, "seen"), (True, "held out")):
        texts = [text for _, text, text_held_out in attacks() if text_held_out is held_out]
        harmless = [text for text, text_held_out in benign() if text_held_out is held_out]
        detected = sum(scan_text(text) is not None for text in texts)
        false_alarms = sum(scan_text(text) is not None for text in harmless)
        rows += build_quality_rows(f"scanner, {name}", detected, len(texts), false_alarms, len(harmless), (0.95, 0.9))
    return rows


def measure_redactor() -> list[Row]:
    rows = []
    redactor = Redactor()
    for held_out, name in ((False, "seen"), (True, "held out")):
        texts = [(text, secret) for _, text, secret, text_held_out in leaks() if text_held_out is held_out]
        harmless = [text for text, text_held_out in clean() if text_held_out is held_out]
        detected = sum(not shown(secret, redactor.redact(text)[0]) for text, secret in texts)
        false_alarms = sum(redactor.redact(text)[0] != text for text in harmless)
        rows += build_quality_rows(f"redactor, {name}", detected, len(texts), false_alarms, len(harmless), (0.98, 0.97))
    return rows


def measure_kingfisher() -> list[Row]:
    """Any finding in a text counts as a hit. Some of its rules verify checksums, which synthetic tokens lack."""
    try:
        from kingfisher_sdk import Scanner
    except ImportError:
        return []
    kingfisher = Scanner()
    texts = [text for _, text, _, _ in leaks()]
    harmless = [text for text, _ in clean()]
    detected = sum(bool(kingfisher.scan(text)) for text in texts)
    false_alarms = sum(bool(kingfisher.scan(text)) for text in harmless)
    prose, note = repeat_to_size(PROSE, 2048), "kingfisher-secret-scanner, whole texts only"
    chunk_us = measure_cpu_us(lambda: scan_after_every_chunk(kingfisher.scan), 1) / len(split_words(prose))
    return [
        Row("guards", "another scanner, precision", "of 1", divide(detected, detected + false_alarms), note=note),
        Row("guards", "another scanner, recall", "of 1", divide(detected, len(texts)), note=note),
        Row(
            "guards",
            "another scanner, 2 KB of prose",
            "us of CPU",
            measure_cpu_us(lambda: kingfisher.scan(prose), 500),
            note=note,
        ),
        Row("guards", "another scanner, one chunk of a stream", "us of CPU", chunk_us, note=note),
    ]


def scan_after_every_chunk(scan: Callable[[str], Any]) -> None:
    """Use a scanner of complete texts for a stream: scan the last kilobyte after every chunk."""
    text = ""
    for chunk in split_words(repeat_to_size(PROSE, 2048)):
        text += chunk
        scan(text[-1024:])


def repeat_to_size(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


def split_words(text: str) -> list[str]:
    """Chunks as models stream them: a word with the space before it."""
    return [" " + word for word in text.split(" ")]


def measure_cpu_us(function: Callable[[], Any], calls: int) -> float:
    """Microseconds of CPU per call, the best of several repetitions."""
    function()
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.process_time()
        for _ in range(calls):
            function()
        best = min(best, time.process_time() - start)
    return best / calls * 1e6


def measure_speed() -> list[Row]:
    redactor, configured = Redactor(), Redactor(["a-secret-of-the-configuration", "another-one-0123456789"])
    guards = Guardrails(GuardrailOptions(), b"k" * 32, ["a-secret-of-the-configuration"])
    prose, long_prose = repeat_to_size(PROSE, 2048), repeat_to_size(PROSE, 65536)
    page, long_page = repeat_to_size(PAGE, 2048), repeat_to_size(PAGE, 65536)
    chunks = split_words(prose)

    def redact_stream(redactor: Redactor) -> None:
        stream = redactor.open_stream()
        for chunk in chunks:
            stream.feed(chunk)
        stream.finish()

    def check_result(text: str) -> None:
        guards.check_result(text, external=True)

    def build_row(
        figure: str, function: Callable[[], Any], calls: int, bound: float | None = None, parts: int = 1
    ) -> Row:
        target = None if bound is None else Target(bound, of="ours")
        return Row("guards", figure, "us of CPU", measure_cpu_us(function, calls) / parts, target=target)

    return [
        build_row("scan 2 KB of prose", lambda: scan_text(prose), 2000, 15),
        build_row("scan 64 KB of prose", lambda: scan_text(long_prose), 100, 150),
        build_row("scan 2 KB of a page about agents", lambda: scan_text(page), 100),
        build_row("scan 64 KB of pages about agents", lambda: scan_text(long_page), 5),
        build_row("redact 2 KB of prose", lambda: redactor.redact(prose), 2000, 10),
        build_row("redact 64 KB of prose", lambda: redactor.redact(long_prose), 100),
        build_row("redact 2 KB of a page about agents", lambda: redactor.redact(page), 200),
        build_row("redact one chunk of a stream", lambda: redact_stream(redactor), 50, 1, len(chunks)),
        build_row("redact one chunk, two known values", lambda: redact_stream(configured), 50, None, len(chunks)),
        build_row("a result of 100 characters, all guards", lambda: check_result(prose[:100]), 5000),
        build_row("a result of 2 KB of prose, all guards", lambda: check_result(prose), 1000, 100),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "guards.json", help="file for the results")
    arguments = parser.parse_args()
    rows = [*measure_scanner(), *measure_redactor(), *measure_speed(), *measure_kingfisher()]
    print(format_table(rows))
    arguments.out.write_text(
        json.dumps({"machine": describe_machine(), "rows": [row.to_dict() for row in rows]}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
