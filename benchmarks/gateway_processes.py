"""Child processes of the gateway benchmark (model server, gateway, clients), and their CPU and memory from /proc."""

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

from processes import HERE, SOURCE, ChildProcessFailed

START_TIMEOUT_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1024


def read_cpu_s(pid: int) -> float:
    """CPU time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def read_rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB / 1024


def read_other_cpu_s(*pids: int) -> float:
    """CPU time of all processes on this machine except these."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    busy_s = (sum(ticks[:3]) + sum(ticks[5:8])) / TICKS_PER_S  # everything but idle and iowait
    return busy_s - sum(map(read_cpu_s, pids))


def build_environment() -> dict[str, str]:
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTAY_")}
    return inherited | {"PYTHONPATH": path, "BENCH_KEY": "sk-bench"}


@contextmanager
def run_model_server(**options: float) -> Iterator[tuple[str, int]]:
    """Run `paced_model_server.py` and yield its URL and process id."""
    command = [sys.executable, str(HERE / "paced_model_server.py")]
    command += [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        stop_process(process)


def stop_process(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class GatewayProcess:
    """`mainstay serve` with a new home, stopped on exit from the context."""

    def __init__(self, folder: Path, model_url: str, extra_config: str = "") -> None:
        self.home = Path(tempfile.mkdtemp(dir=folder))
        provider = f'providers: {{openai: {{base_url: "{model_url}/v1", api_key: "${{BENCH_KEY}}"}}}}'
        text = f"model: openai/fake-model\n{provider}\ninstructions: You are a helpful assistant.\n{extra_config}"
        (self.home / "mainstay.yaml").write_text(text)
        self.log = self.home.with_suffix(".log")

    def __enter__(self) -> GatewayProcess:
        started = time.monotonic()
        command = [sys.executable, "-m", "mainstay", "serve", "--home", str(self.home), "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=build_environment()
            )
        self.pid = self.process.pid
        try:
            self.url = self._wait_for_address(started + START_TIMEOUT_S)
            while not self._is_ready():
                self._check_startup(started + START_TIMEOUT_S)
        except BaseException:
            stop_process(self.process)
            raise
        self.start_s = time.monotonic() - started
        return self

    def __exit__(self, *error: object) -> None:
        stop_process(self.process)

    def _wait_for_address(self, deadline: float) -> str:
        while " at http://" not in (log := self.log.read_text()):
            self._check_startup(deadline)
        return "http://" + log.split(" at http://")[1].split()[0].rstrip(",")

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _check_startup(self, deadline: float) -> None:
        if self.process.poll() is not None or time.monotonic() > deadline:
            raise ChildProcessFailed(f"the gateway did not start: {self.log.read_text()[-500:]}")
        time.sleep(0.005)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def create_api_keys(self, people: int) -> list[str]:
        """Create people who are members of the workspace, and an API key for each."""
        keys = []
        for n in range(people):
            self.post("/api/people", {"name": f"person{n}", "roles": {"default": "member"}})
            keys.append(self.post("/api/keys", {"person": f"person{n}"})["key"])
        return keys


class ClientProcess:
    """`gateway_client.py` in a child process with one job. `read_result` waits for a line of its output."""

    def __init__(self, job: str, url: str, model_url: str, **arguments: Any) -> None:
        job_json = json.dumps({"job": job, "url": url, "model": model_url} | arguments)
        command = [sys.executable, str(HERE / "gateway_client.py"), job_json]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            stop_process(self.process)

    def read_result(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessFailed("a client exited without a result")
        result: dict[str, Any] = json.loads(line)
        return result

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for_output(self, timeout_s: float) -> bool:
        """Return True as soon as there is output to read, False after the timeout."""
        return bool(select.select([self.process.stdout], [], [], timeout_s)[0])

    def finish(self) -> dict[str, Any]:
        """Close the client's input, which ends a `subscribe` job, and return its result."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.read_result()
