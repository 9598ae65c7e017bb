"""Measure Mainstay against the limit, print a table and save the results.

A full run writes benchmarks/results/latest.json and latest.md; `--quick` and `--only` save results only with `--out`.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from cases import CASES
from processes import HERE, BenchmarkRun, ChildProcessFailed
from report import Row, describe_machine, format_document, format_table


def measure_cases(names: list[str], benchmark: BenchmarkRun) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += CASES[name](benchmark)
        except ChildProcessFailed as error:
            rows.append(Row(name, name, "", error=str(error)))
    return rows


def save_results(rows: list[Row], benchmark: BenchmarkRun, folder: Path) -> None:
    machine = describe_machine()
    results = {
        "machine": machine,
        "pairs": benchmark.pairs,
        "quick": benchmark.quick,
        "rows": [row.to_dict() for row in rows],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "latest.md").write_text(format_document(rows, machine, benchmark.pairs, benchmark.quick))


def exit_on_signal(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)  # context managers stop the child processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7, help="interleaved pairs per case (default 7)")
    parser.add_argument("--quick", action="store_true", help="small sizes and two pairs: check that everything runs")
    parser.add_argument("--only", help="cases, separated by commas: " + ",".join(CASES))
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument(
        "--place", dest="parent_folder", type=Path, help="folder on the disk to use (default: the temporary folder)"
    )
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, exit_on_signal)
    with tempfile.TemporaryDirectory(dir=arguments.parent_folder) as folder:
        benchmark = BenchmarkRun(2 if arguments.quick else arguments.pairs, arguments.quick, Path(folder))
        rows = measure_cases(names, benchmark)
    print("\n" + format_table(rows))
    if out := arguments.out or (None if arguments.quick or arguments.only else HERE / "results"):
        save_results(rows, benchmark, out)
    sys.exit(any(row.error for row in rows))


if __name__ == "__main__":
    main()
