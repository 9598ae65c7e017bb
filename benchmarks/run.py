"""Measures Mainstay against the limit, prints a table and keeps the results.

A full run writes benchmarks/results/latest.json and latest.md; `--quick` and `--only` keep nothing
unless `--out` says where.
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
from processes import HERE, Bench, Failed
from report import Row, document, machine, table


def measure(names: list[str], bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += CASES[name](bench)
        except Failed as error:
            rows.append(Row(name, name, "", error=str(error)))
    return rows


def keep(rows: list[Row], bench: Bench, folder: Path) -> None:
    where = machine()
    results = {"machine": where, "pairs": bench.pairs, "quick": bench.quick, "rows": [row.data() for row in rows]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "latest.md").write_text(document(rows, where, bench.pairs, bench.quick))


def ended(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)  # on the way out, the processes started here are ended


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=7, help="interleaved pairs a case (default 7)")
    options.add_argument("--quick", action="store_true", help="small sizes and two pairs: does it run at all?")
    options.add_argument("--only", help="some of: " + ",".join(CASES))
    options.add_argument("--out", type=Path, help="where the results go")
    options.add_argument("--place", type=Path, help="a folder on the disk to use (default: the temporary folder)")
    given = options.parse_args()
    names = given.only.split(",") if given.only else list(CASES)
    if unknown := set(names) - set(CASES):
        options.error(f"no such case: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, ended)
    with tempfile.TemporaryDirectory(dir=given.place) as place:
        bench = Bench(2 if given.quick else given.pairs, given.quick, Path(place))
        rows = measure(names, bench)
    print("\n" + table(rows))
    if out := given.out or (None if given.quick or given.only else HERE / "results"):
        keep(rows, bench, out)
    sys.exit(any(row.error for row in rows))


if __name__ == "__main__":
    main()
