"""Compares this checkout with another one, such as the release before, in interleaved runs.

python benchmarks/compare.py ../other-checkout [--pairs 7] [--only chat,tool,run]

Each case runs once per checkout in turn, each run in a fresh process; the ratio is the median of the pairs' ratios.
`run` is `mainstay run` with a fresh home: the CPU time of the whole process, and the modules of Mainstay that it loads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import PAIRED_CASES, PairedCase
from processes import CHILD_TIMEOUT_S, HERE, BenchmarkRun, ModelServerProcess, build_core_option

COLD_RUN = """
import resource, sys
from mainstay.__main__ import main
sys.argv = ["mainstay", "run", "hello", "--model", "openai/fake-model"]
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
usage = resource.getrusage(resource.RUSAGE_SELF)
print()
print(1000 * (usage.ru_utime + usage.ru_stime), sum(name.startswith("mainstay") for name in sys.modules))
"""


class Checkout:
    """A source tree to measure."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def run_python(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        """Run Python with this checkout's packages; return the last line that it printed."""
        environment = os.environ | (env or {}) | {"PYTHONPATH": str(self.root / "src")}
        command = [sys.executable, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, env=environment)
        if process.returncode:
            raise SystemExit(f"{self.root}: {process.stderr[-3000:]}")
        return process.stdout.rpartition("\n")[0].rpartition("\n")[2]

    def run_case(
        self, case: PairedCase, sizes: list[str], server: ModelServerProcess, benchmark: BenchmarkRun
    ) -> dict[str, float]:
        common = ["--url", server.root_url + "/v1", "--home", str(benchmark.create_home()), *build_core_option(0)]
        script = str(self.root / "benchmarks" / "work.py")
        result: dict[str, float] = json.loads(
            self.run_python(script, case.worker_case, "mainstay", *common, *sizes, *case.options)
        )
        return result

    def run_cold(self, server: ModelServerProcess, benchmark: BenchmarkRun) -> dict[str, float]:
        home = str(benchmark.create_home())
        env = {
            "HOME": home,
            "MAINSTAY_HOME": home,
            "OPENAI_BASE_URL": server.root_url + "/v1",
            "OPENAI_API_KEY": "bench",
        }
        cpu_ms, modules = self.run_python("-c", COLD_RUN, env=env).split()
        return {"cpu_ms": float(cpu_ms), "modules": float(modules)}


def compare_case(case: PairedCase, checkouts: tuple[Checkout, Checkout], benchmark: BenchmarkRun) -> None:
    sizes = case.build_size_options(benchmark)
    with ModelServerProcess(case.latency_ms, case.gap_ms) as server:
        runs = [
            [checkout.run_case(case, sizes, server, benchmark) for checkout in checkouts]
            for _ in range(benchmark.pairs)
        ]
    for figure in case.figures:
        print_row(figure.name, figure.unit, figure.key, runs)


def compare_cold_run(checkouts: tuple[Checkout, Checkout], benchmark: BenchmarkRun) -> None:
    with ModelServerProcess() as server:
        for checkout in checkouts:
            checkout.run_python("-m", "compileall", "-q", str(checkout.root / "src"))
            checkout.run_cold(server, benchmark)  # the first one reads everything from the disk
        runs = [[checkout.run_cold(server, benchmark) for checkout in checkouts] for _ in range(benchmark.pairs)]
    print_row("mainstay run, fresh home, whole process", "CPU ms", "cpu_ms", runs)
    print_row("mainstay run, fresh home", "modules", "modules", runs)


def print_row(name: str, unit: str, key: str, runs: list[list[dict[str, float]]]) -> None:
    other, this = ([pair[n][key] for pair in runs] for n in (0, 1))
    ratios = sorted(b / a for a, b in zip(other, this, strict=True))
    median = statistics.median
    print(
        f"| {name} | {unit} | {median(other):.4g} | {median(this):.4g} | {median(ratios):.3f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |",
        flush=True,
    )


def main() -> None:
    cases = {case.name: case for case in PAIRED_CASES}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--pairs", type=int, default=7, help="interleaved pairs per case (default 7)")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", default="", help="cases, separated by commas: run, " + ", ".join(cases))
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name] or ["run", *cases]
    if unknown := set(names) - {"run", *cases}:
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}")
    if not (arguments.other / "src" / "mainstay").is_dir():
        parser.error(f"{arguments.other} is not a checkout of Mainstay")
    checkouts = (Checkout(arguments.other), Checkout(HERE.parent))
    print("| | unit | other | this | this / other (range) |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        benchmark = BenchmarkRun(arguments.pairs, arguments.quick, Path(folder))
        for name in names:
            compare_cold_run(checkouts, benchmark) if name == "run" else compare_case(cases[name], checkouts, benchmark)


if __name__ == "__main__":
    main()
