"""Traces on their way to a real OTLP endpoint, which reads them with the official messages; what a terminal draws of
them; and what a server tells Prometheus."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages, Said
from support.ports import choose_port

from mainstay import Agent, Config, tool
from mainstay.agent.telemetry import OtlpCollectorClient
from mainstay.config.loader import load_config
from mainstay.config.schema import ToolSettings
from mainstay.config.schema_judges_budgets_telemetry import TelemetrySettings
from mainstay.core.errors import ConfigError
from mainstay.core.turn_location import trace_id
from mainstay.observe import span_exporter
from mainstay.testing import Call, ScriptedProvider

proto: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
parser: Any = pytest.importorskip("prometheus_client.parser")
PATIENCE_S = 120.0
KEY = "zq7canarycollectorv9k2m4x8w3"


class Endpoint:
    """Takes OTLP over HTTP, as a collector does. `answer` is its response to every request."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.answer: Callable[[int], tuple[int, dict[str, str]]] = lambda n: (200, {})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"endpoint": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for _, request in self.requests
            for one in request.resource_spans
            for scope in one.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: Endpoint

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        request = proto.ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        status, headers = self.endpoint.answer(len(self.endpoint.requests) + 1)
        self.endpoint.requests.append((dict(self.headers), request))
        body = proto.ExportTraceServiceResponse().SerializeToString()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@tool(untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def configured(url: str, **more: Any) -> Config:
    return Config(telemetry=TelemetrySettings(endpoint=url, headers={"authorization": f"Bearer {KEY}"}, **more))


def values_of(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


async def eventually(holds: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := holds()):
            await asyncio.sleep(0.02)
    return found


# --- to a collector ------------------------------------------------------------------------------


async def test_loom_012_a_turn_arrives_at_a_collector_with_what_is_known_of_its_spans(
    tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    script = [[Call("add", {"a": 2, "b": 3})], f"It is 5, and the key is {KEY}."]
    with caplog.at_level(logging.DEBUG):
        async with Agent(
            ScriptedProvider(script), tools=[add], home=tmp_path, config=configured(endpoint.url, content=True)
        ) as agent:
            await agent.run("s", f"what is 2 + 3? {KEY}")
            created = (await agent.sessions.get("s")).created
        assert len(endpoint.requests) == 1, "it was sent before the agent was closed"
    headers, request = endpoint.requests[0]
    assert headers["authorization"] == f"Bearer {KEY}"
    about = values_of(request.resource_spans[0].resource.attributes)
    assert about["service.name"] == "mainstay"
    root, *others = endpoint.spans
    assert root.trace_id.hex() == trace_id("s", created, 1)
    assert [span.name for span in others] == ["chat scripted", "execute_tool add", "chat scripted"]
    assert {span.parent_span_id for span in others} == {root.span_id}
    known = values_of(root.attributes)
    assert (known["mainstay.session"], known["mainstay.turn"], known["mainstay.outcome"]) == ("s", 1, "answered")
    assert known["gen_ai.usage.input_tokens"] == 20
    assert "2 + 3" in known["gen_ai.input.messages"]
    assert "It is 5" in values_of(others[-1].attributes)["gen_ai.output.messages"]
    assert KEY not in str(request), "F40: a secret of the configuration is in no trace"
    assert KEY not in caplog.text


async def test_f40_conversation_text_is_in_no_trace_unless_configured(tmp_path: Path, endpoint: Endpoint) -> None:
    words = "the quick brown fox"
    async with Agent(ScriptedProvider([words]), home=tmp_path, config=configured(endpoint.url)) as agent:
        await agent.run("s", f"say: {words}")
    assert endpoint.named("invoke_agent default")
    assert words not in str(endpoint.requests)


KILLED = """
    import asyncio, os, signal, sys
    from mainstay import Agent, tool
    from mainstay.testing import Call, ScriptedProvider

    @tool(effect="unsafe", untrusted=False, sink=False)
    def post() -> str:
        "Post it."
        os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        script = ["Hello.", [Call("post")]]
        async with Agent(ScriptedProvider(script), tools=[post], home=sys.argv[1]) as agent:
            await agent.run("s", "hello")
            await agent.run("s", "post it")

    asyncio.run(main())
"""


async def test_a_turn_of_a_killed_process_is_exported_once_and_whole_by_the_next_process(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    (tmp_path / "mainstay.yaml").write_text(f"telemetry: {{endpoint: '{endpoint.url}'}}\n")
    argv = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    died = await asyncio.to_thread(subprocess.run, argv, timeout=PATIENCE_S, check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(endpoint.named("invoke_agent default")) <= 1, "the first turn may have been sent, the second has no end"

    @tool(effect="unsafe", untrusted=False, sink=False)
    def post() -> str:
        """Post it."""
        return "posted"

    async with Agent(ScriptedProvider(["It may have been posted."]), tools=[post], home=tmp_path) as agent:
        await agent.settled()
        created = (await agent.sessions.get("s")).created
    second = trace_id("s", created, 2)
    spans = [span for span in endpoint.spans if span.trace_id.hex() == second]
    names = ["invoke_agent default", "chat scripted", "execute_tool post", "interrupted", "chat scripted"]
    assert sorted(span.name for span in spans) == sorted(names)
    assert [mark.name for mark in spans[0].events] == ["mainstay.turn.resumed"]


async def test_a_sub_agent_arrives_in_the_trace_of_the_turn_that_sent_it(tmp_path: Path, endpoint: Endpoint) -> None:
    def say(context: Any, options: Any) -> Any:
        last = context.messages[-1]
        if last.role != "user":
            return "Done."
        return [Call("ls", {"path": "."})] if "look" in last.text else [Call("spawn", {"prompt": "look around"})]

    telemetry = TelemetrySettings(endpoint=endpoint.url)
    config = Config(telemetry=telemetry, tools=ToolSettings(builtin=("ls", "spawn")))
    async with Agent(ScriptedProvider(say), home=tmp_path, config=config) as agent:
        await agent.run("s", "go")
    (call,), (child,) = endpoint.named("execute_tool spawn"), endpoint.named("invoke_agent sub-agent")
    (root,) = endpoint.named("invoke_agent default")
    assert {span.trace_id for span in endpoint.spans} == {root.trace_id}
    assert (call.parent_span_id, child.parent_span_id) == (root.span_id, call.span_id)
    assert values_of(child.attributes)["mainstay.session"] == "s/call_1_1_0"
    assert endpoint.named("execute_tool ls")[0].parent_span_id == child.span_id


async def test_loom_126_requests_to_a_backend_are_in_the_trace(tmp_path: Path, endpoint: Endpoint) -> None:
    database = apsw.Connection(str(tmp_path / "shop.db"))
    database.execute("CREATE TABLE orders (id INTEGER, what TEXT); INSERT INTO orders VALUES (1, 'tea')")
    database.close()
    asks = "SELECT what FROM orders"
    telemetry = {"endpoint": endpoint.url, "content": True}
    backends = {"shop": {"kind": "sql", "url": "sqlite:///shop.db"}}
    written = {"telemetry": telemetry, "backends": backends, "policy": {"allow": ["shop__*"]}}
    (tmp_path / "mainstay.yaml").write_text(json.dumps(written))
    script = [[Call("shop__query", {"sql": asks}), Call("shop__query", {"sql": "DROP TABLE orders"})], "Tea."]
    async with Agent(ScriptedProvider(script), home=tmp_path) as agent:
        await agent.run("s", "what was ordered?")
    read, wrote = (values_of(span.attributes) for span in endpoint.named("execute_tool shop__query"))
    assert asks in read["gen_ai.tool.call.arguments"]
    assert "tea" in read["gen_ai.tool.call.result"]
    assert "DROP TABLE orders" in wrote["gen_ai.tool.call.arguments"]
    assert wrote["error.type"] in ("tool_error", "denied")


@pytest.mark.parametrize("status", [200, 400, 429, 500])
async def test_the_connection_is_reused_after_any_answer_of_the_collector(endpoint: Endpoint, status: int) -> None:
    endpoint.answer = lambda n: (status, {"Retry-After": "7"})
    collector = OtlpCollectorClient(endpoint.url + "/", {})
    first, second = await collector.send(b""), await collector.send(b"")
    collector.close()
    assert (first.status, second.status, first.retry_after_s) == (status, status, 7.0)


async def test_a_collector_that_closes_or_is_unreachable_is_named_without_its_key(endpoint: Endpoint) -> None:
    endpoint.answer = lambda n: (200, {"Connection": "close"})
    collector = OtlpCollectorClient(endpoint.url, {"x-key": KEY})
    assert [(await collector.send(b"")).status for _ in range(3)] == [200] * 3
    port = choose_port()  # where no server listens
    lost = await OtlpCollectorClient(f"http://user:{KEY}@127.0.0.1:{port}", {"x-key": KEY}).send(b"")
    assert lost.status == 0
    assert f"127.0.0.1:{port} cannot be reached" in lost.error
    assert KEY not in lost.error
    collector.close()


WRONG = {
    "no scheme": ("localhost:4318", {}, "telemetry.endpoint is not a URL"),
    "no host": ("http://", {}, "telemetry.endpoint is not a URL"),
    "no port": ("http://here:99999", {}, "telemetry.endpoint is not a URL"),
    "spaces": ("http://he re", {}, "telemetry.endpoint is not a URL"),
    "a name": ("http://here", {"x y": "z"}, "'x y' cannot be used"),
    "ours": ("http://here", {"Content-Length": "9"}, "'Content-Length' cannot be used"),
    "a value": ("http://here", {"x": "a\r\nInjected: yes"}, "the value of 'x' must be one line of text"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_where_nothing_can_be_sent_is_one_sentence_with_its_line(wrong: str, tmp_path: Path) -> None:
    url, headers, said = WRONG[wrong]
    (tmp_path / "mainstay.yaml").write_text(json.dumps({"telemetry": {"endpoint": url, "headers": headers}}))
    for refuse in (lambda: OtlpCollectorClient(url, headers), lambda: load_config(tmp_path, env={})):
        with pytest.raises(ConfigError, match=re.escape(said)) as refused:
            refuse()
        assert "Injected" not in str(refused.value)
    assert "line 1" in str(refused.value)


async def test_turns_do_not_wait_for_a_collector_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_exporter, "REQUEST_TIMEOUT_S", 3600.0)
    with socket.create_server(("127.0.0.1", 0)) as hung:  # it takes connections, and never says a word
        config = configured(f"http://127.0.0.1:{hung.getsockname()[1]}")
        async with Agent(ScriptedProvider(lambda context, options: "yes"), home=tmp_path, config=config) as agent:
            began = time.monotonic()
            for _ in range(30):
                await agent.run("s", "hello")
            took = time.monotonic() - began
            closing = time.monotonic()
        assert took < 120.0, "a request to it alone may take an hour"
        assert time.monotonic() - closing < 120.0


# --- in a terminal -------------------------------------------------------------------------------


def using_tools(messages: Messages) -> Said:
    last = messages[-1]
    if last["role"] == "user" and "files" in str(last["content"]):
        return [("ls", {"path": "."})]
    return f"Done with {len(messages)} messages. \x1b[31mred\x1b[0m"


@pytest.fixture
def model() -> Iterator[ExampleModel]:
    made = ExampleModel(using_tools)
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: ExampleModel) -> Command:
    made = Command(tmp_path)
    made.env |= {"OPENAI_API_KEY": "none"}
    made.configure(f"model: openai/gpt-4.1-mini\nproviders:\n  openai: {{base_url: '{model.url}'}}\n")
    return made


def test_a_turn_is_drawn_in_the_terminal_from_the_journal_alone(mainstay: Command) -> None:
    assert mainstay("run", "hello", "--session", "one").returncode == 0
    assert mainstay("run", "which files are here?", "--session", "one").returncode == 0
    drawn = mainstay("session", "trace", "one").stdout
    assert "\x1b" not in drawn, "there is no colour in a pipe"
    lines = drawn.splitlines()
    assert re.match(r"turn 2 of one · answered · .* · trace [0-9a-f]{32}$", lines[0])
    assert [line.split()[0] for line in lines[1:5]] == ["default", "chat", "ls", "chat"]
    assert all(len(line) <= 120 for line in lines)
    first = mainstay("session", "trace", "one", "--turn", "1").stdout
    assert first.startswith("turn 1 of one")
    both = mainstay("session", "trace", "one", "--all").stdout
    assert [line[:6] for line in both.splitlines() if line.startswith("turn ")] == ["turn 1", "turn 2"]
    spans = mainstay.json("session", "trace", "one")["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [one["name"] for one in spans] == [
        "invoke_agent default",
        "chat gpt-4.1-mini",
        "execute_tool ls",
        "chat gpt-4.1-mini",
    ]
    chat = {one["key"]: one["value"] for one in spans[1]["attributes"]}
    assert chat["gen_ai.provider.name"] == {"stringValue": "openai"}
    assert chat["server.address"] == {"stringValue": "127.0.0.1"}
    wrong = mainstay("session", "trace", "one", "--turn", "7")
    assert wrong.returncode == 1
    assert "there is no turn 7" in wrong.stderr


def test_a_chat_draws_the_turn_before(mainstay: Command) -> None:
    said = mainstay("chat", "--new", stdin="/trace\nhello\n/trace\n/trace 9\n/trace x\n").stdout
    assert re.search(r"turn 1 of \S+ · answered · ", said)
    assert "there is no turn 9" in said
    assert "a turn's number is needed: /trace NUMBER" in said
    assert "send a prompt first" in said


# --- for Prometheus ------------------------------------------------------------------------------


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + json.dumps(sample.labels, sort_keys=True): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_server_tells_prometheus_how_it_does_and_traces_go_on_beside(mainstay: Command, endpoint: Endpoint) -> None:
    from support.served_command import Served, until

    before = (mainstay.home / "mainstay.yaml").read_text()
    mainstay.configure(f"{before}server: {{keys: auto}}\ntelemetry: {{endpoint: '{endpoint.url}', service: here}}\n")
    with Served(mainstay) as served:
        served.ready()
        assert samples(served.get("/metrics")[1])["mainstay_lanes_awake{}"] == 0
        assert served.post("/api/sessions/s/prompt", b'{"text": "hello"}')[0] == 200
        turns = 'mainstay_turns_total{"agent": "main", "outcome": "answered"}'
        until(lambda: samples(served.get("/metrics")[1]).get(turns) == 1)
        found = samples(served.get("/metrics")[1])
        assert found["mainstay_lanes_awake{}"] == 1
        assert found["process_cpu_seconds_total{}"] > 0
        assert found["process_resident_memory_bytes{}"] > 1e7
        until(lambda: endpoint.spans)
        until(lambda: samples(served.get("/metrics")[1])["mainstay_spans_sent_total{}"] == len(endpoint.spans))
        drawn = mainstay("session", "trace", "s")
        assert drawn.stdout.startswith("turn 1 of s"), "also while the server has the home"
        assert served.end() == 0
