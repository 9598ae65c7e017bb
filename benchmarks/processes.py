"""Child processes of the benchmarks: the model server, workers and plain interpreters. Each is stopped after use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
CHILD_TIMEOUT_S = 600


class ChildProcessFailed(Exception):
    """A child process did not return a result."""


class ModelServerProcess:
    """`model_server.py` in a child process on the last core."""

    def __init__(self, latency_ms: float = 0, gap_ms: float = 0) -> None:
        command = [sys.executable, str(HERE / "model_server.py"), *build_core_option(-1)]
        command += ["--latency-ms", str(latency_ms), "--gap-ms", str(gap_ms)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> ModelServerProcess:
        try:
            assert self.process.stdout is not None
            self.root_url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def count_requests(self) -> int:
        with urllib.request.urlopen(self.root_url + "/stats") as response:
            return int(json.load(response)["requests"])


@dataclass(frozen=True)
class BenchmarkRun:
    """Settings that all cases share: number of pairs, full or quick sizes, and the folder for home directories."""

    pairs: int
    quick: bool
    folder: Path

    def pick_size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def create_home(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def run_worker(
        self, server: ModelServerProcess, case: str, subject: str, *options: str, home: Path | None = None
    ) -> dict[str, float]:
        """Run `work.py` on the first core and return its result and the number of its model requests."""
        common = ["--url", server.root_url + "/v1", "--home", str(home or self.create_home()), *build_core_option(0)]
        requests_before = server.count_requests()
        output = run_python(str(HERE / "work.py"), case, subject, *common, *options)
        result: dict[str, float] = json.loads(output.splitlines()[-1])
        return result | {"requests": server.count_requests() - requests_before}


def run_python(*arguments: str) -> str:
    """Run Python with this checkout's packages and return its standard output."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": path}
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired as error:
        raise ChildProcessFailed(f"took over {CHILD_TIMEOUT_S} s") from error
    if process.returncode:
        print(process.stderr[-3000:], file=sys.stderr)
        error_lines = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        raise ChildProcessFailed(error_lines[-1][:160])
    return process.stdout


def build_core_option(index: int) -> list[str]:
    """The `--core` option for one of the cores that this process may use; empty where the system cannot pin."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return ["--core", str(sorted(os.sched_getaffinity(0))[index])]
