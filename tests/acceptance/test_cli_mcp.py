"""`mainstay mcp` as other hosts start it: the real command, both eras of the protocol, and hosts that misbehave."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from support.cli_support import LONG, Command, FakeModel
from support.example_model import ExampleModel, Messages, Said

ERAS = ["legacy", "2026-07-28"]
WAIT_S = 120.0
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


def client(mainstay: Command, era: str = "2026-07-28", *options: str) -> Client:
    command, *arguments = mainstay.argv("mcp", *options)
    place = StdioServerParameters(command=command, args=arguments, env=mainstay.env, cwd=mainstay.folder)
    return Client(stdio_client(place, errlog=sys.__stderr__), mode=era, read_timeout_seconds=WAIT_S)


class Host:
    """One that speaks the wire by hand."""

    def __init__(self, mainstay: Command, *options: str) -> None:
        self.process = subprocess.Popen(
            mainstay.argv("mcp", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=mainstay.env,
            cwd=mainstay.folder,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._held = b""

    def send(self, raw: bytes) -> None:
        self.stdin.write(raw + b"\n")
        self.stdin.flush()

    def ask(self, id: int, method: str, params: dict[str, Any] | None = None) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}).encode())

    def hear(self) -> Any:
        until = time.monotonic() + WAIT_S
        while b"\n" not in self._held:
            ready, _, _ = select.select([self.stdout], [], [], max(0.0, until - time.monotonic()))
            assert ready, "nothing was said"
            data = os.read(self.stdout.fileno(), 65536)
            assert data, "it ended"
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)

    def hello(self) -> None:
        self.ask(0, "initialize", HELLO)
        assert self.hear()["id"] == 0
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def end(self) -> tuple[int, bytes, str]:
        """Hang up; the code, what was left to say, and stderr."""
        rest, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, self._held + rest, errors.decode()


@contextmanager
def host(mainstay: Command, *options: str) -> Iterator[Host]:
    made = Host(mainstay, *options)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def outcomes(mainstay: Command, session: str) -> list[str]:
    records = mainstay.json("session", "records", session)["records"]
    return [one["outcome"]["type"] for one in records if one["kind"] == "TurnEnded"]


def changes(mainstay: Command, session: str) -> list[Any]:
    records = mainstay.json("session", "records", session)["records"]
    return [one for one in records if one["kind"] == "SessionChanged"]


def wait_for(true: Any) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)


# --- with the library's own client ---------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_host_runs_a_turn_follows_it_and_finds_it_again(mainstay: Command, era: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        heard.append((count, message))

    async with client(mainstay, era) as one:
        assert one.protocol_version == ("2025-11-25" if era == "legacy" else era)
        assert {tool.name for tool in (await one.list_tools()).tools} >= {"run", "steer", "abort", "memory_search"}
        result = await one.call_tool("run", {"prompt": "a long one", "session": "s"}, progress_callback=progress)
        assert result.structured_content["outcome"] == "Answered"
        assert result.structured_content["text"] == LONG
        found = await one.call_tool("memory_search", {"query": "long one"})
        assert found.structured_content["hits"][0]["session"] == "s"
    numbers = [count for count, _ in heard]
    assert numbers == sorted(set(numbers)), "each above the last"
    assert "".join(message or "" for _, message in heard).startswith("# A long answer")
    assert outcomes(mainstay, "s") == ["Answered"]


@pytest.mark.parametrize("era", ERAS)
async def test_cancelling_the_hosts_request_aborts_the_turn(mainstay: Command, era: str) -> None:
    begun = asyncio.Event()

    async def progress(count: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with client(mainstay, era) as one:
        call = asyncio.create_task(one.call_tool("run", {"prompt": "slow", "session": "s"}, progress_callback=progress))
        await asyncio.wait_for(begun.wait(), WAIT_S)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(WAIT_S):
            while await asyncio.to_thread(outcomes, mainstay, "s") != ["Aborted"]:
                await asyncio.sleep(0.1)
        after = await one.call_tool("run", {"prompt": "hello", "session": "s"})
        assert after.structured_content["text"] == "You said **hello**."


async def test_an_approval_is_reported_and_answered_with_the_command(tmp_path: Path) -> None:
    def say(messages: Messages) -> Said:
        if any(message["role"] == "tool" for message in messages[-2:]):
            return "It is made."
        return [("write", {"path": "out.txt", "content": "made\n"})]

    example = ExampleModel(say)
    mainstay = Command(tmp_path, example.url)
    mainstay.configure((mainstay.home / "mainstay.yaml").read_text() + "policy:\n  ask: [write]\n")
    mainstay.folder = tmp_path / "project"
    mainstay.folder.mkdir()
    async with client(mainstay) as one:
        result = await one.call_tool("run", {"prompt": "write it", "session": "s"})
        assert result.structured_content["outcome"] == "Paused"
        id = result.structured_content["approval"]["id"]
        text = result.content[0].text  # type: ignore[union-attr]
        assert f"`mainstay approval approve {id}` approves the call" in text
        assert "  path: out.txt" in text
        assert not (mainstay.folder / "out.txt").exists()
        again = await one.call_tool("run", {"prompt": "well?", "session": "s"})
        assert again.is_error, "it would wait as long as the owner does"
        assert "the prompt was refused" in again.content[0].text  # type: ignore[union-attr]
        assert id in again.content[0].text  # type: ignore[union-attr]
        approved = await asyncio.to_thread(mainstay, "approvals", "approve", id)  # through the server, which owns it
        assert (approved.returncode, approved.stdout.strip()) == (0, "It is made."), approved.stderr
        assert (mainstay.folder / "out.txt").read_text() == "made\n"
    example.close()


# --- beside others -------------------------------------------------------------------------------


async def test_it_works_beside_another_owner_and_goes_on_when_that_one_leaves(
    mainstay: Command, model: FakeModel
) -> None:
    owner = await asyncio.to_thread(mainstay.start, "run", "slow", "--session", "theirs")
    await asyncio.to_thread(model.wait_for_prompt, "slow")
    async with client(mainstay) as one:
        first = await one.call_tool("run", {"prompt": "one", "session": "s"})
        assert first.structured_content["text"] == "You said **one**."
        owner.send_signal(signal.SIGINT)
        await asyncio.to_thread(owner.communicate, timeout=WAIT_S)
        second = await one.call_tool("run", {"prompt": "two", "session": "s"})
        assert (second.structured_content["turn"], second.structured_content["text"]) == (2, "You said **two**.")
        third = await asyncio.to_thread(mainstay, "run", "three", "--session", "s")
        assert third.stdout.strip() == "You said **three**.", "others work through the server now"


async def test_rules_in_the_memory_of_the_owner_are_removed_with_a_server(mainstay: Command) -> None:
    written = (mainstay.home / "mainstay.yaml").read_text()
    mainstay.configure(written + "mcpServers:\n  tides: {command: x, disabled: true}\n")
    kept = mainstay.home / "workspaces" / "default" / "grants.json"
    kept.parent.mkdir(parents=True)
    kept.write_text('["tides__x", "read", "destination:mcp:tides"]')
    async with client(mainstay) as one:
        await one.call_tool("run", {"prompt": "hello", "session": "s"})
        removed = await asyncio.to_thread(mainstay, "mcp", "remove", "tides")
        assert "no longer allowed: tides__x, destination:mcp:tides\n" in removed.stdout, removed.stderr
        assert json.loads(kept.read_text()) == ["read"]
        assert (await asyncio.to_thread(mainstay, "approvals", "revoke", "read")).returncode == 0
        assert json.loads(kept.read_text()) == [], "it writes what it has in mind"


async def test_a_host_cannot_move_a_session_of_the_owner_to_its_folder_or_model(
    mainstay: Command, tmp_path: Path
) -> None:
    mainstay.folder = tmp_path / "project"
    mainstay.folder.mkdir()
    assert mainstay("run", "--session", "mine", "hello").returncode == 0
    files = list(mainstay.home.rglob("folder"))
    before = {file: file.read_text() for file in files}
    assert [Path(text.strip()) for text in before.values()] == [mainstay.folder.resolve()]
    settings = changes(mainstay, "mine")
    other = tmp_path / "elsewhere"
    other.mkdir()
    command, *arguments = mainstay.argv("mcp", "--model", "openai/other-model")
    server = StdioServerParameters(command=command, args=arguments, env=mainstay.env, cwd=other)
    async with Client(stdio_client(server, errlog=sys.__stderr__), read_timeout_seconds=WAIT_S) as theirs:
        answer = await theirs.call_tool("run", {"session": "mine", "prompt": "go on"})
        assert not answer.is_error
        assert not (await theirs.call_tool("run", {"session": "new", "prompt": "begin"})).is_error
    assert {file: file.read_text() for file in files} == before
    assert outcomes(mainstay, "mine") == ["Answered", "Answered"]
    assert changes(mainstay, "mine") == settings
    assert "openai/other-model" in json.dumps(changes(mainstay, "new")), "a new session has the model of the command"
    texts = {Path(file.read_text().strip()) for file in mainstay.home.rglob("folder")}
    assert other.resolve() in texts, "a new session works where the host is"


async def test_steering_an_unknown_session_starts_no_session(mainstay: Command) -> None:
    async with client(mainstay) as one:
        await one.call_tool("run", {"prompt": "hello", "session": "s"})
        wrong = await one.call_tool("steer", {"session": "z", "text": "to the left"})
        assert wrong.is_error
        assert "there is no session 'z'" in wrong.content[0].text  # type: ignore[union-attr]
        listed = await one.call_tool("sessions", {})
        assert [each["session"] for each in listed.structured_content["sessions"]] == ["s"]


# --- by hand: the ends ---------------------------------------------------------------------------


def test_a_host_that_disconnects_during_a_turn_loses_nothing(mainstay: Command) -> None:
    with host(mainstay) as one:
        one.hello()
        one.ask(1, "tools/call", {"name": "run", "arguments": {"prompt": "slow for a while", "session": "s"}})
        wait_for(lambda: _begun(mainstay, "s"))
        code, rest, errors = one.end()
    assert (code, errors) == (0, "")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    mainstay("run", "hello", "--session", "other")  # opens the home: what was left goes on
    assert outcomes(mainstay, "s") == ["Answered"]


def _begun(mainstay: Command, session: str) -> bool:
    done = mainstay("session", "records", session, "--json")
    return done.returncode == 0 and "TurnStarted" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_cleanly_and_frees_the_home(mainstay: Command, number: signal.Signals) -> None:
    with host(mainstay) as one:
        one.hello()
        one.ask(1, "tools/call", {"name": "run", "arguments": {"prompt": "slow", "session": "s"}})
        wait_for(lambda: _begun(mainstay, "s"))
        one.process.send_signal(number)
        assert one.process.wait(WAIT_S) == 0
        _, _, errors = one.end()
    assert errors == ""
    assert outcomes(mainstay, "s") == [], "it goes on when the home is opened again"
    assert mainstay("session", "archive", "s").returncode == 0, "and the home is free"


def test_requests_that_are_piped_in_are_answered_before_it_ends(mainstay: Command) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    done = mainstay("mcp", stdin="\n".join(json.dumps(line) for line in lines))  # and no newline at the end
    assert (done.returncode, done.stderr) == (0, "")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["serverInfo"]["name"] == "mainstay"
    assert "run" in [one["name"] for one in second["result"]["tools"]]


def test_a_host_that_reads_nothing_is_left_behind(mainstay: Command) -> None:
    with host(mainstay) as one:
        one.hello()
        for id in range(1, 400):  # far more than a pipe holds
            one.ask(id, "tools/list")
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(WAIT_S) == 0


def test_stdout_has_only_the_protocol_with_any_logging(mainstay: Command) -> None:
    with host(mainstay, "--log-level", "debug") as one:
        one.hello()
        one.ask(1, "tools/call", {"name": "run", "arguments": {"prompt": "evil", "session": "s"}})
        answer = one.hear()
        assert answer["id"] == 1
        assert "before" in answer["result"]["structuredContent"]["text"]
        code, rest, errors = one.end()
    assert (code, rest) == (0, b"")
    assert " debug " in errors or " info " in errors


# --- by hand: misuse -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "code", "id"),
    [
        (b"garbage", -32700, None),
        (b'{"jsonrpc":"2.0","id":7,', -32700, None),
        (b"\xff\xfe\x00", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'{"id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":"a","method":5}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'"ping"', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"nope/nope"}', -32601, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"resources/list"}', -32601, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run","arguments":[]}}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nope"}}', -32602, 7),
    ],
    ids=lambda one: repr(one[:40]) if isinstance(one, bytes) else None,
)
def test_an_invalid_request_gets_an_error_and_the_next_one_an_answer(
    conversation: Host, raw: bytes, code: int, id: str | int | None
) -> None:
    conversation.send(raw)
    said = conversation.hear()
    assert (said["error"]["code"], said.get("id")) == (code, id)
    assert said["error"]["message"]
    conversation.ask(99, "ping")
    assert conversation.hear()["id"] == 99


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory, model: FakeModel) -> Iterator[Host]:
    """One connection for all of the above: none of it ends it."""
    with host(Command(tmp_path_factory.mktemp("misuse"), model.url)) as one:
        one.hello()
        yield one


def test_a_line_without_end_is_dropped_as_it_comes(mainstay: Command) -> None:
    with host(mainstay) as one:
        one.hello()
        one.ask(1, "ping")
        one.hear()
        before = _memory_mb(one.process.pid)
        for _ in range(96):
            one.stdin.write(b"x" * 2**20)
        one.send(b"")
        said = one.hear()
        assert said["error"]["message"] == "the message is larger than 4 MB"
        one.ask(2, "ping")
        assert one.hear()["id"] == 2
        assert _memory_mb(one.process.pid) - before < 40


def _memory_mb(pid: int) -> float:
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


@pytest.mark.skipif(not Path("/proc").exists(), reason="open files are counted in /proc")
def test_many_requests_leave_nothing_open(mainstay: Command) -> None:
    with host(mainstay) as one:
        one.hello()

        def go_through(ids: range) -> int:
            for id in ids:
                name, arguments = ("sessions", {}) if id % 2 else ("memory_search", {"query": "x"})
                one.ask(id, "tools/call", {"name": name, "arguments": arguments})
                said = one.hear()
                assert (said["id"], said["result"].get("isError", False)) == (id, False)
            return len(list(Path(f"/proc/{one.process.pid}/fd").iterdir()))

        before = go_through(range(1, 20))
        assert go_through(range(20, 300)) <= before
        assert len(list(Path(f"/proc/{one.process.pid}/task").iterdir())) < 40


def test_before_the_handshake_only_a_ping_is_answered(mainstay: Command) -> None:
    with host(mainstay) as one:
        one.ask(1, "ping")
        assert one.hear()["result"] == {}
        one.ask(2, "tools/call", {"name": "run", "arguments": {"prompt": "hello", "session": "s"}})
        assert one.hear()["error"]["code"] == -32602
        one.end()
    assert mainstay.json("session", "list")["sessions"] == []


def test_without_a_model_it_says_so_in_a_sentence(tmp_path: Path) -> None:
    done = Command(tmp_path)("mcp", stdin="")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no model" in done.stderr.lower()
    assert "Traceback" not in done.stderr


# --- over HTTP -----------------------------------------------------------------------------------


class Served:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url
        self.port = int(re.findall(r":(\d+)/", url)[0])

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        connection.request("POST", "/mcp", body, {**kinds, **(headers or {})})
        return connection.getresponse()


@contextmanager
def served(mainstay: Command) -> Iterator[Served]:
    process = mainstay.start("mcp", "--http", "0")
    assert process.stderr is not None
    said = process.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/mcp", said)
    try:
        assert found is not None, said + process.stderr.read()
        yield Served(process, found[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, model: FakeModel) -> Iterator[Served]:
    with served(Command(tmp_path_factory.mktemp("http"), model.url)) as one:
        yield one


@pytest.mark.parametrize("era", ERAS)
async def test_a_turn_runs_over_http(at: Served, era: str) -> None:
    heard: list[str | None] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with Client(at.url, mode=era, read_timeout_seconds=WAIT_S) as one:
        result = await one.call_tool(
            "run", {"prompt": "a long one", "session": f"http-{era}"}, progress_callback=progress
        )
        assert result.structured_content["text"] == LONG
        assert heard
        assert (await one.list_tools()).tools


@pytest.mark.parametrize("era", ERAS)
async def test_cancelling_over_http_aborts_the_turn(mainstay: Command, era: str) -> None:
    begun = asyncio.Event()

    async def progress(count: float, total: float | None, message: str | None) -> None:
        begun.set()

    with served(mainstay) as there:
        async with Client(there.url, mode=era, read_timeout_seconds=WAIT_S) as one:
            call = asyncio.create_task(
                one.call_tool("run", {"prompt": "slow", "session": "s"}, progress_callback=progress)
            )
            await asyncio.wait_for(begun.wait(), WAIT_S)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            async with asyncio.timeout(WAIT_S):
                while await asyncio.to_thread(outcomes, mainstay, "s") != ["Aborted"]:
                    await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
    ids=str,
)
def test_a_page_in_a_browser_gets_nothing(at: Served, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    assert at.post(body, headers).status == status
    assert at.post(body).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"garbage", 400), (b"[" * 100_000, 400), (b"{}", 400), (b" " * 5_000_000, 413), (b"\xff", 400)],
    ids=["garbage", "deep", "empty", "large", "bytes"],
)
def test_garbage_over_http_is_refused(at: Served, body: bytes, status: int) -> None:
    assert at.post(body).status == status


def test_it_listens_on_loopback_alone_and_a_port_in_use_is_a_sentence(mainstay: Command, at: Served) -> None:
    done = mainstay("mcp", "--http", str(at.port))
    assert done.returncode == 1
    assert f"cannot listen on port {at.port} of 127.0.0.1: " in done.stderr
    for options in (["--http", "70000"], ["--http", "x"], ["--allow-remote"]):
        done = mainstay("mcp", *options)
        assert done.returncode == 2, options
        assert "Traceback" not in done.stderr
