"""The processes a measurement needs: a model server, workers, bare interpreters. None outlives its use."""

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


class Failed(Exception):
    """A child process did not give a result."""


class Server:
    """The model server, on the last core."""

    def __init__(self, latency_ms: float = 0, gap_ms: float = 0) -> None:
        command = [sys.executable, str(HERE / "model_server.py"), *pinned(-1)]
        command += ["--latency-ms", str(latency_ms), "--gap-ms", str(gap_ms)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Server:
        try:
            assert self.process.stdout is not None
            self.root = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
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

    def requests(self) -> int:
        with urllib.request.urlopen(self.root + "/stats") as response:
            return int(json.load(response)["requests"])


@dataclass(frozen=True)
class Bench:
    """What the cases share: how often to repeat, how large to be, where to put homes."""

    pairs: int
    quick: bool
    place: Path

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def home(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.place))

    def work(
        self, server: Server, case: str, subject: str, *options: str, home: Path | None = None
    ) -> dict[str, float]:
        """One worker on the first core, from start to its result."""
        where = ["--url", server.root + "/v1", "--home", str(home or self.home()), *pinned(0)]
        before = server.requests()
        out = python(str(HERE / "work.py"), case, subject, *where, *options)
        result: dict[str, float] = json.loads(out.splitlines()[-1])
        return result | {"requests": server.requests() - before}


def python(*arguments: str) -> str:
    """Run Python on this checkout, and return what it printed."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": path}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"took over {CHILD_TIMEOUT_S} s") from error
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failed(said[-1][:160])
    return done.stdout


def pinned(which: int) -> list[str]:
    if not hasattr(os, "sched_getaffinity"):
        return []
    return ["--core", str(sorted(os.sched_getaffinity(0))[which])]
