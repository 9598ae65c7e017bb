"""The processes that a measurement of the gateway needs, and what the system says of them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import HERE, SOURCE, Failed

START_S = 60.0
TICK = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1024


def cpu_s(pid: int) -> float:
    """Of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB / 1024


def others_s(*pids: int) -> float:
    """What all others on this machine have spent."""
    spent = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    busy = (sum(spent[:3]) + sum(spent[5:8])) / TICK  # all but idle and waiting for a disk
    return busy - sum(map(cpu_s, pids))


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTAY_")}
    return kept | {"PYTHONPATH": path, "BENCH_KEY": "sk-bench"}


@contextmanager
def model(**options: float) -> Iterator[tuple[str, int]]:
    """Its address, and its process."""
    command = [sys.executable, str(HERE / "gateway_model.py")]
    command += [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        end(process)


def end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Gateway:
    """`mainstay serve` with a home of its own, until it is left."""

    def __init__(self, place: Path, model_url: str, more: str = "") -> None:
        self.home = Path(tempfile.mkdtemp(dir=place))
        provider = f'providers: {{openai: {{base_url: "{model_url}/v1", api_key: "${{BENCH_KEY}}"}}}}'
        text = f"model: openai/fake-model\n{provider}\ninstructions: You are a helpful assistant.\n{more}"
        (self.home / "mainstay.yaml").write_text(text)
        self.log = self.home.with_suffix(".log")

    def __enter__(self) -> Gateway:
        began = time.monotonic()
        command = [sys.executable, "-m", "mainstay", "serve", "--home", str(self.home), "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
            )
        self.pid = self.process.pid
        try:
            self.url = self._address(began + START_S)
            while not self._ready():
                self._check(began + START_S)
        except BaseException:
            end(self.process)
            raise
        self.start_s = time.monotonic() - began
        return self

    def __exit__(self, *error: object) -> None:
        end(self.process)

    def _address(self, until: float) -> str:
        while " at http://" not in (said := self.log.read_text()):
            self._check(until)
        return "http://" + said.split(" at http://")[1].split()[0].rstrip(",")

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _check(self, until: float) -> None:
        if self.process.poll() is not None or time.monotonic() > until:
            raise Failed(f"the gateway did not start: {self.log.read_text()[-500:]}")
        time.sleep(0.005)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)

    def keys(self, people: int) -> list[str]:
        """Of people who may talk to it, as members of the workspace."""
        made = []
        for n in range(people):
            self.post("/api/people", {"name": f"person{n}", "roles": {"default": "member"}})
            made.append(self.post("/api/keys", {"person": f"person{n}"})["key"])
        return made


class Client:
    """A client's process. `result` waits for its end."""

    def __init__(self, job: str, url: str, model_url: str, **given: Any) -> None:
        body = json.dumps({"job": job, "url": url, "model": model_url} | given)
        command = [sys.executable, str(HERE / "gateway_client.py"), body]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            end(self.process)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            raise Failed("a client ended without a result")
        found: dict[str, Any] = json.loads(said)
        return found

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def waits(self, seconds: float) -> bool:
        """True as soon as there is something to read; at the latest after so long."""
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def leave(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.line()
