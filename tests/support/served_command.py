"""`mainstay serve` as a process of its own, for tests: started, asked over HTTP, ended or killed."""

from __future__ import annotations

import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from support.cli_support import Command
from support.example_model import ExampleModel, Messages

PATIENCE_S = 120.0


def repeat(messages: Messages) -> str:
    """Whom it was told to be, and what was said last."""
    system = str(messages[0]["content"]).partition("\n")[0]
    return f"[{system}] {messages[-1]['content']}"


def set_up(mainstay: Command, model: ExampleModel, more: str = "", instructions: str = "Be terse.") -> None:
    """Written as an editor would, while another process may be reading."""
    place = f"providers:\n  openai: {{base_url: '{model.url}', api_key: '${{KEY}}'}}\n"
    mainstay.home.mkdir(mode=0o700, exist_ok=True)
    new = mainstay.home / "new.yaml"
    new.write_text(f"model: openai/fake\n{place}instructions: {instructions}\n{more}")
    new.chmod(0o600)
    new.rename(mainstay.home / "mainstay.yaml")


class Served:
    """`mainstay serve`, until it is ended or killed; `said` is what it wrote."""

    def __init__(self, mainstay: Command, *arguments: str) -> None:
        self.process = mainstay.start("serve", "--port", "0", *arguments)
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def heard(self, words: str) -> str:
        """All that it said, once that is among it."""
        until(lambda: words in self.said or self.process.poll() is not None, lambda: self.said)
        assert words in self.said, f"it ended: {self.said}"
        return self.said

    @property
    def url(self) -> str:
        found = re.search(r"at (http://[0-9.:]+)", self.heard("workspaces: "))
        assert found is not None
        return found[1]

    def ready(self) -> Served:
        until(lambda: self.get("/readyz")[0] == 200, lambda: self.said)
        return self

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        return asked(urllib.request.Request(self.url + path, headers=headers or {}))

    def events(self, session: str, headers: dict[str, str] | None = None) -> str:
        given = {"Accept": "application/json", **(headers or {})}
        status, said = self.get(f"/api/sessions/{session}/events", given)
        assert status == 200, said
        return said

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, str]:
        given = {"Content-Type": "application/json", **(headers or {})}
        return asked(urllib.request.Request(self.url + path, body, given))

    def end(self, how: int = signal.SIGTERM, within_s: float = PATIENCE_S) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(within_s)
        self._reader.join(PATIENCE_S)
        return code

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.returncode is None:
            self.end(signal.SIGKILL)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def asked(request: urllib.request.Request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def until(holds: Callable[[], Any], said: Callable[[], str] = lambda: "") -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, f"it did not happen: {said()}"
        time.sleep(0.05)
    return found
