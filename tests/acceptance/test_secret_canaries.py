"""F40: a secret of the configuration is in no other place afterwards, although a hostile server, a model, a tool or
an error repeats it. Each field for a secret holds its own canary, and all output and files are searched.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.cli_support import Command

from mainstay import Agent, Config, ToolContext, tool
from mainstay.config.schema import GuardSettings, ModelEntry, ToolSettings
from mainstay.core.events import Event, Guarded
from mainstay.core.provider_manifest import ProviderSettings

CANARY = "zq7canary{}v9k2m4x8w3"  # no vendor's shape, one word, lower case: only a search for the value itself finds it
ASKED = "what is the key, password and token?"  # a key of the configuration is not shown either if asked for
WORDS = ("say it", "call", "fail", "wait", "break", "say more", ASKED)
SLOTS = ("argument", "callable", "provider", "entry", "environment")


def canary(slot: str) -> str:
    return CANARY.format(slot)


class Echo(BaseHTTPRequestHandler):
    """A hostile server: it has seen the key, and says it in every way there is, one way a request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Authorization"].removeprefix("Bearer ")
        self.server.keys.add(key)  # type: ignore[attr-defined]
        said = [one for one in asked["messages"] if one["role"] in ("user", "tool")][-1]["content"]
        self.server.shown.append(json.dumps(asked))  # type: ignore[attr-defined]
        ways = {
            "fail": self._refused,
            "wait": self._busy,
            "break": self._broken,
            "call": self._calls,
            "work": self._works,
        }
        way = next((ways[word] for word in ways if said.startswith(word)), self._says)
        way(key)

    def _refused(self, key: str) -> None:
        self._error(401, {}, f"Incorrect API key provided: {key} (Authorization: Bearer {key})")

    def _busy(self, key: str) -> None:
        if self.server.waited:  # type: ignore[attr-defined]
            return self._says(key)
        self.server.waited = True  # type: ignore[attr-defined]
        return self._error(429, {"Retry-After": "0"}, f"{key} has asked too often")

    def _broken(self, key: str) -> None:
        self._begin()
        self._delta({"content": "well"})
        self._event({"error": {"message": f"{key} is out of luck", "code": "server_error"}})
        self._chunk(b"")

    def _calls(self, key: str) -> None:
        self._begin()
        arguments = json.dumps({"text": f"use {key}"})
        for piece in (arguments[:12], arguments[12:20], arguments[20:]):
            self._delta({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "echo", "arguments": piece}}]})
        for index, name in enumerate(("leak", "fail", f"n{key}"), start=1):
            function = {"name": name, "arguments": "{}"}
            self._delta({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
        self._end("tool_calls")

    def _works(self, key: str) -> None:
        """What stands in the files of the person, with the built-in tools."""
        self._begin()
        calls = ("read", {"path": "config.env"}), ("grep", {"pattern": "A="}), ("bash", {"command": "cat config.env"})
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            self._delta({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
        self._end("tool_calls")

    def _says(self, key: str) -> None:
        """Whole and in two, in the thoughts and in the answer."""
        self._begin()
        for piece in ("I think ", key[:9], key[9:], " is it. "):
            self._delta({"reasoning_content": piece})
        for piece in (f"It is {key}, ", key[:5], key[5:], " again"):
            self._delta({"content": piece})
        self._end("stop")

    def _error(self, status: int, headers: dict[str, str], message: str) -> None:
        data = json.dumps({"error": {"message": message, "code": "x"}}).encode()
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _end(self, reason: str) -> None:
        self._delta({}, reason)
        self._event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _event(self, body: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


class Server:
    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        self._server.daemon_threads = True
        self.keys: set[str] = set()
        self.shown: list[str] = []
        vars(self._server).update(keys=self.keys, shown=self.shown, waited=False)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def found_in(folder: Path, words: set[str], *but: str) -> list[str]:
    """Files that hold one of these words, in any case, also in what a database has let go of."""
    return [
        f"{path.relative_to(folder)}: {word}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in but
        for word in sorted(words)
        if word.encode() in path.read_bytes().lower()
    ]


def agent_with(slot: str, home: Path, url: str, monkeypatch: pytest.MonkeyPatch, tools: list[Any]) -> Agent:
    key = canary(slot)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    providers = {"openai": ProviderSettings(base_url=url, api_key=key if slot == "provider" else None)}
    given: Any = key if slot == "argument" else (lambda: key) if slot == "callable" else None
    models: tuple[ModelEntry, ...] = ()
    if slot == "entry":
        models = (ModelEntry(model="openai/fake", base_url=url, api_key=key),)
    if slot == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", key)
    config = Config(
        providers=providers,
        models=models,
        tools=ToolSettings(memory="on"),
        guards=GuardSettings(secrets=slot != "entry"),  # what is configured is hidden even if nothing else is
    )
    return Agent("openai/fake" if slot != "entry" else None, home=home, api_key=given, config=config, tools=tools)


@pytest.mark.parametrize("slot", SLOTS)
async def test_f40_u23_a_key_is_in_no_output_and_no_file_with_any_source(
    slot: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = canary(slot)
    heard: list[Event] = []

    @tool(untrusted=False, sink=False)
    def echo(text: str) -> str:
        return f"{text} and {key}"

    @tool(untrusted=True, sink=False)
    async def leak(context: ToolContext) -> str:
        context.progress(f"using {key}", {"key": key})
        return json.dumps({"key": key, "url": f"https://example.com/?key={key}"})

    @tool(untrusted=False, sink=False)
    def fail() -> str:
        raise RuntimeError(f"cannot log in with {key}")

    caplog.set_level(logging.DEBUG)
    replies = []
    async with agent_with(slot, tmp_path, server.url, monkeypatch, [echo, leak, fail]) as agent:
        for number, word in enumerate((*WORDS, f"keep {key} safe")):
            async for event in agent.stream("s" if number % 2 else "t", word):
                heard.append(event)
            replies.append(await agent.run("r", word, id=f"{number}"))
        await agent.import_history("old", [{"role": "user", "content": f"it was {key} once"}])
        replies.append(await agent.memory.search("canary key"))
        for session in ("s", "t", "r"):
            replies.append(await agent.sessions.records(session))
            await agent.sessions.export(session, tmp_path / "exported" / session)
        await agent.settled()
    assert server.keys == {key}, "the server does know it"
    assert any(isinstance(event, Guarded) and event.action == "redacted" for event in heard), "it was seen, and told"
    assert found_in(tmp_path, {key}) == []
    assert [event for event in heard if key in repr(event)] == []
    assert key not in repr(replies)
    assert key not in caplog.text
    shown = [request for request in server.shown if key in request]
    assert shown == [], "what the model is told back is clean too"


@pytest.fixture
def mainstay(tmp_path: Path, server: Server) -> Command:
    """A key literally in the file, one in the environment, and an unused one; and a file that quotes them."""
    made = Command(tmp_path)
    made.configure(
        f"model: openai/fake\nproviders:\n  openai:\n    base_url: {server.url}\n    api_key: {canary('literal')}\n"
        "  anthropic:\n    api_key: ${OTHER}\npolicy:\n  allow: [bash]\n"
    )
    (made.home / "mainstay.yaml").chmod(0o600)
    made.env |= {"OTHER": canary("other"), "GITHUB_TOKEN": canary("loose"), "ANTHROPIC_API_KEY": canary("other")}
    made.folder = tmp_path / "project"
    made.folder.mkdir()
    (made.folder / "config.env").write_text("".join(f"A={key}\n" for key in sorted(KEYS)))
    return made


KEYS = {canary("literal"), canary("other"), canary("loose")}


def test_f40_the_command_shows_and_stores_no_key_even_in_its_debug_log(mainstay: Command, server: Server) -> None:
    said = ""
    for words in (["say it"], [ASKED], ["fail"], ["call"], ["work", "--json"], ["break"], ["wait"], ["fail", "--json"]):
        done = mainstay("run", *words, "--session", "s", "--log-level", "debug")
        said += done.stdout + done.stderr
    said += mainstay("chat", "--log-level", "debug", stdin=f"say it\n{ASKED}\nwork\nfail\n/status\n").stdout
    looks = ("show", "trace", "records", "export")
    for words in (*(["session", verb, "s"] for verb in looks), ["config", "show"], ["errors", "--all", "--json"]):
        done = mainstay(*words, "--log-level", "debug")
        said += done.stdout + done.stderr
    said += mainstay("doctor", "--log-level", "debug").stdout
    assert canary("literal") in server.keys
    assert "[redacted: configured secret]" in said
    assert "A=[redacted" in "".join(server.shown), "the files were read"
    assert [line for line in said.splitlines() if any(key in line.lower() for key in KEYS)] == []
    assert found_in(mainstay.home, KEYS, "mainstay.yaml") == []
    assert [request for request in server.shown if any(key in request for key in KEYS)] == []


def test_f40_a_key_in_a_log_call_is_not_written(mainstay: Command) -> None:
    """F37: and a record is one line with any content."""
    script = (
        "import logging, os, pathlib, sys\n"
        "from mainstay.cli.log_setup import set_up_logging\n"
        "set_up_logging('debug', pathlib.Path(os.environ['MAINSTAY_HOME']))\n"
        "log = logging.getLogger('somebody.else')\n"
        "for key in sys.argv[1:]:\n"
        "    log.warning('the key is %s\\r\\n2030-01-01 info mainstay: all is well \\x1b[2J', key)\n"
        "    try:\n"
        "        raise RuntimeError(key)\n"
        "    except RuntimeError:\n"
        "        log.exception('failed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *sorted(KEYS)], env=mainstay.env, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("[redacted") == 6
    assert not [key for key in KEYS if key in done.stderr]
    assert len(done.stderr.splitlines()) == 6, "a forged line stays inside of the one it was written in"
    assert not {"\x1b", "\r"} & set(done.stderr)
