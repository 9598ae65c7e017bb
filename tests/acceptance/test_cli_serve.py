"""`mainstay serve` as a process of its own: what it says, what commands do beside it, signals, and its log."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel
from support.served_command import PATIENCE_S, Served, repeat, set_up, until

from mainstay.io.webhook_signatures import sign_webhook

AT_ONCE_S = 120.0  # what takes no longer did not wait for a turn of many minutes
SECRET = "what nobody is to know of a webhook"
KEY = "sk-canary-1f0c9a7be2d84c55"
TEAM = "workspaces:\n  team:\n    instructions: Be kind.\n"
HOOK = f"triggers:\n  webhooks:\n    bugs: {{secret: {SECRET}, session: bugs, text: Triage this., workspace: team}}\n"


def _channel(secret: str = SECRET, name: str = "chat") -> str:
    return f"channels:\n  {name}: {{kind: webhook, secret: {secret}, url: 'http://127.0.0.1:9/x', workspace: team}}\n"


@pytest.fixture
def model() -> Iterator[ExampleModel]:
    made = ExampleModel(repeat)
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: ExampleModel) -> Command:
    made = Command(tmp_path)
    made.env["KEY"] = KEY
    set_up(made, model)
    return made


def is_open(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return False
    return True


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


# --- beginning, and what keeps it from it --------------------------------------------------------


def test_it_says_where_it_listens_and_what_is_connected_and_no_other_takes_its_home(
    mainstay: Command, model: ExampleModel
) -> None:
    set_up(mainstay, model, TEAM + _channel())
    with Served(mainstay).ready() as server:
        said = server.heard("need no API key")
        assert re.match(r"mainstay \S+ at http://127\.0\.0\.1:\d+\nworkspaces: default, team\nchat: connected\n", said)
        assert server.get("/healthz") == (200, '{"status":"alive"}')
        second = mainstay("serve", "--port", "0")
        assert second.returncode == 1
        assert f"is in use by process {server.process.pid} (" in second.stderr
        assert second.stderr.count("\n") == 1
        assert server.end() == 0
        assert server.said.removeprefix(said).count("\n") == 1  # all is well, so nothing more is said of it
        assert "stopping" in server.said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--host", "0.0.0.0", "--port", "0"],
            "does not listen on 0.0.0.0 without an API key: make one with `mainstay",
        ),
        (["--port", "TAKEN"], "of 127.0.0.1: Address already in use"),
        (["--port", "0", "--grpc-port", "TAKEN"], "gRPC cannot be served on 127.0.0.1:"),
        (["--port", "0", "--workspace", "../x"], "1 to 64 characters"),
    ],
    ids=["no key", "port", "grpc port", "workspace"],
)
def test_a_reason_not_to_start_is_one_sentence(mainstay: Command, arguments: list[str], sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = mainstay("serve", *(port if one == "TAKEN" else one for one in arguments))
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not done.stdout


def test_a_slow_channel_delays_readiness_and_blocks_no_request(mainstay: Command, model: ExampleModel) -> None:
    """It is alive from the first moment, and can be stopped at any."""
    with socket.create_server(("127.0.0.1", 0)) as mute:  # a daemon that takes calls, and never answers
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        set_up(mainstay, model, f"channels:\n  signal: {{address: '{address}', user: '+15550100100'}}\n")
        with Served(mainstay) as server:
            assert server.get("/healthz")[0] == 200
            status, said = server.get("/readyz")
            assert (status, "server: it is starting" in said) == (503, True)
            assert server.post("/api/sessions/s/prompt", b'{"text":"hello"}')[0] == 200
            assert server.end(within_s=50.0) == 0  # the channel would wait a minute


def test_a_workspace_that_is_broken_keeps_out_no_other(mainstay: Command, model: ExampleModel) -> None:
    assert mainstay("workspace", "create", "team").returncode == 0
    (mainstay.home / "workspaces" / "team" / "workspace.db").write_bytes(b"this is no database" * 1000)
    with Served(mainstay) as server:
        server.heard("the workspace team cannot be opened: ")
        assert server.post("/api/sessions/s/prompt", b'{"text":"hello"}')[0] == 200
        status, said = server.get("/readyz")
        assert (status, "workspace team: " in said) == (503, True)
        refused = mainstay("run", "--workspace", "team", "hello")
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        assert mainstay("run", "hello").stdout == "[Be terse.] hello \n"
        assert server.end() == 0


# --- beside it -----------------------------------------------------------------------------------


def test_commands_work_through_it_in_any_workspace(mainstay: Command, model: ExampleModel) -> None:
    set_up(mainstay, model, TEAM)
    with Served(mainstay).ready() as server:
        assert mainstay("run", "one", "--session", "s").stdout.strip() == "[Be terse.] one"
        assert mainstay("run", "two", "--workspace", "team", "--session", "t").stdout.strip() == "[Be kind.] two"
        chatted = mainstay("chat", "--workspace", "team", "--session", "t", stdin="three\n/quit\n")
        assert "[Be kind.] three" in chatted.stdout
        sessions = mainstay.json("session", "list", "--workspace", "team")["sessions"]
        assert [one["key"] for one in sessions] == ["t"]
        assert mainstay("session", "archive", "t", "--workspace", "team").returncode == 0
        assert "archived" in mainstay("run", "four", "--workspace", "team", "--session", "t").stderr
        assert mainstay.json("approvals", "list", "--workspace", "team")["approvals"] == []
        assert mainstay("user", "add", "ann", "--in", "team").returncode == 0
        made = mainstay("user", "key", "ann", "--in", "team")
        assert made.returncode == 0, made.stderr
        keyed = {"Authorization": f"Bearer {made.stdout.strip()}"}
        assert server.post("/api/sessions/mine/prompt", b'{"text":"hi"}', keyed)[0] == 200  # who was let in just now
        assert "[Be kind.] hi" in server.events("mine", keyed)
        assert mainstay("memory", "remember", "the boat is green", "--workspace", "team").returncode == 0
        there, elsewhere = (mainstay("memory", "list", "--workspace", one).stdout for one in ("team", "default"))
        assert "the boat is green" in there
        assert "the boat is green" not in elsewhere
        added = mainstay("trigger", "add", "later", "Look up", "--cron", "0 0 1 1 *", "--workspace", "team")
        assert "it will not run until" not in added.stderr
        ran = mainstay("trigger", "run", "later", "--workspace", "team")
        assert "[Be kind.]" in ran.stdout, ran.stderr
        assert server.end() == 0


def test_webhooks_and_event_files_reach_the_workspace_that_they_name(mainstay: Command, model: ExampleModel) -> None:
    set_up(mainstay, model, TEAM + HOOK)
    with Served(mainstay).ready() as server:
        body = b'{"bug": "it is slow"}'
        signed = sign_webhook("timestamp", SECRET, body, at_s=int(time.time()), id="one")
        assert server.post("/hooks/bugs", body, signed)[0] == 202
        assert server.post("/hooks/bugs", body, signed | {"X-Mainstay-Signature": "v1=00"})[0] == 401
        assert server.post("/hooks/other", body, signed)[0] == 404
        events = mainstay.home / "events"
        events.mkdir(exist_ok=True)
        for name, where in (("there", {"workspace": "team"}), ("here", {})):
            file = events / f"{name}.tmp"
            file.write_text(json.dumps({"type": "immediate", "threadId": name, "text": f"Say {name}", **where}))
            file.rename(events / f"{name}.json")
        asked_of = [("Be kind.", "it is slow"), ("Be kind.", "Say there"), ("Be terse.", "Say here")]
        for system, text in asked_of:
            until(lambda system=system, text=text: _was_asked(model, system, text), lambda: server.said)
        assert not _was_asked(model, "Be terse.", "Say there")
        assert not _was_asked(model, "Be terse.", "it is slow")
        assert server.end() == 0


def _was_asked(model: ExampleModel, system: str, text: str) -> bool:
    return any(str(one[0]["content"]).startswith(system) and text in str(one[-1]["content"]) for one in model.asked)


# --- signals -------------------------------------------------------------------------------------


def test_on_sighup_what_changed_is_changed_and_turns_go_on(mainstay: Command, model: ExampleModel) -> None:
    """F47"""
    set_up(mainstay, model, TEAM + _channel())
    with Served(mainstay).ready() as server:
        assert mainstay("run", "one", "--workspace", "team").stdout.strip() == "[Be kind.] one"
        model.pause_s = 0.3
        going_on = mainstay.start("run", "a turn of several words that is under way")
        until(lambda: _was_asked(model, "Be terse.", "under way"))
        people = "people:\n  ann: {called: Ann Lee, workspaces: [team]}\n"
        set_up(mainstay, model, TEAM.replace("kind", "polite") + _channel(name="talk") + people)
        server.process.send_signal(signal.SIGHUP)
        said = server.heard("the configuration was reloaded; changed: ")
        assert "changed: workspace team, people, channel chat, channel talk\n" in said
        model.pause_s = 0.0
        assert finished(going_on)[:2] == (0, "[Be terse.] a turn of several words that is under way \n")
        assert mainstay("run", "two", "--workspace", "team").stdout.strip() == "[Be polite.] two"
        assert [one["called"] for one in mainstay.json("user", "list")["users"]] == ["Ann Lee"]
        channels = mainstay.json("channel", "list")["channels"]
        assert [(one["name"], one["connected"]) for one in channels] == [("talk", True)]
        assert server.post("/channels/chat", b"{}")[0] == 404
        assert server.post("/channels/talk", b"{}")[0] == 401  # it is there, and wants a signature
        assert server.end() == 0


def test_on_sighup_a_broken_configuration_changes_nothing_and_is_logged(mainstay: Command, model: ExampleModel) -> None:
    """F47"""
    set_up(mainstay, model, TEAM)
    with Served(mainstay).ready() as server:
        for broken, sentence in (
            ("server: {port: many}\n", "the configuration was not reloaded: mainstay.yaml line"),
            ("state: {data_dir: elsewhere}\n", "the configuration was not reloaded: state.data_dir"),
        ):
            set_up(mainstay, model, TEAM.replace("kind", "rude") + broken, instructions="Be long.")
            server.process.send_signal(signal.SIGHUP)
            server.heard(sentence)
        for workspace, system in (("default", "Be terse."), ("team", "Be kind.")):
            assert server.post("/api/sessions/s/prompt", b'{"text":"hello"}', {"X-Workspace": workspace})[0] == 200
            assert _was_asked(model, system, "hello")
        set_up(mainstay, model, TEAM + "server: {keys: required}\n")
        server.process.send_signal(signal.SIGHUP)
        server.heard("changed: server.keys\n")
        assert server.get("/api/sessions")[0] == 401  # also callers on this machine, from now on
        (mainstay.home / "mainstay.yaml").unlink()  # to go on without it would admit every caller
        server.process.send_signal(signal.SIGHUP)
        server.heard("mainstay.yaml was removed")
        assert server.get("/api/sessions")[0] == 401
        assert server.end() == 0


def test_sigterm_waits_for_a_turn_and_a_second_one_does_not(mainstay: Command, model: ExampleModel) -> None:
    """F47: and waiting turns are resumed at the next start."""
    set_up(mainstay, model, "server: {drain_s: 3600}\n")
    with Served(mainstay).ready() as server:
        model.pause_s = 0.2
        slow = mainstay.start("run", "a few words to be waited for", "--session", "waited")
        until(lambda: _was_asked(model, "Be terse.", "waited for"))
        assert server.end() == 0
        assert finished(slow)[:2] == (0, "[Be terse.] a few words to be waited for \n")
    with Served(mainstay).ready() as server:
        model.pause_s = 60.0
        slow = mainstay.start("run", "many words that take much longer than anybody waits", "--session", "left")
        until(lambda: _was_asked(model, "Be terse.", "many words"))
        at = server.url
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not is_open(at))  # it was heard: two at once are one
        began = time.monotonic()
        assert server.end(signal.SIGTERM) == 0
        assert time.monotonic() - began < AT_ONCE_S
        code, _, said = finished(slow)
        assert code == 1
        assert "the turn resumes when the agent is opened again" in said
    model.pause_s = 0.0
    with Served(mainstay).ready() as server:
        until(lambda: '"TurnEnded"' in server.events("left"), lambda: server.said)
        assert (
            "[Be terse.] many words that take much longer than anybody waits"
            in mainstay("session", "show", "left").stdout
        )
        assert server.end() == 0


# --- the log -------------------------------------------------------------------------------------


def test_a_log_in_json_has_a_document_a_line_and_no_secret(mainstay: Command, model: ExampleModel) -> None:
    """F40: with a key in headers, paths and the configuration, at the most verbose level."""
    json_too = f"server: {{logs: json}}\n{TEAM}"
    set_up(mainstay, model, json_too + _channel())
    pasted, bearer, later = "sk-proj-" + "a1B2c3D4" * 6, "ms_notakey_" + "0f" * 20, "another thing that nobody knows"
    with Served(mainstay, "--log-level", "debug").ready() as server:

        def reload(more: str, outcome: str) -> None:
            before = server.said.count(outcome)
            set_up(mainstay, model, json_too + more)
            server.process.send_signal(signal.SIGHUP)
            until(lambda: server.said.count(outcome) > before, lambda: server.said)

        headers = {"Authorization": f"Bearer {bearer}", "X-Note": pasted, "X-Api-Key": KEY}
        assert server.get("/api/sessions", headers)[0] == 401
        assert server.get(f"/api/sessions/{pasted}/nowhere")[0] == 404
        assert server.post("/channels/chat", SECRET.encode())[0] == 401
        misplaced = "people:\n  {}: {{}}\n"  # what is wrong is named
        reload(misplaced.format("a fine name"), "'people.a fine name'")
        reload(misplaced.format(SECRET), "the configuration was not reloaded")
        reload(misplaced.format(f"{KEY} it is"), "the configuration was not reloaded")
        reload(_channel(later), "the configuration was reloaded")
        reload(misplaced.format(later), "the configuration was not reloaded")
        reload(misplaced.format(pasted), "the configuration was not reloaded")
        token = "1234567:AAH-canary-of-a-bot-0123456789abcd"  # its library writes whole addresses into the log
        reload(f"channels:\n  telegram: {{token: '{token}', base_url: 'http://127.0.0.1:9'}}\n", '"level":"debug"')
        until(lambda: "getMe" in server.said, lambda: server.said)
        assert server.end() == 0
    lines = [json.loads(line) for line in server.said.splitlines()]
    assert all({"time", "level", "logger", "message"} <= one.keys() for one in lines)
    assert {"debug", "info", "error"} <= {one["level"] for one in lines}
    assert sum("at http://127.0.0.1:" in one["message"] for one in lines) == 1  # nothing is said twice
    for secret in (SECRET, KEY, pasted, bearer, later, token):
        assert secret not in server.said


def test_the_log_level_applies_and_json_is_used_to_the_end(mainstay: Command, model: ExampleModel) -> None:
    set_up(mainstay, model, "server: {logs: json, host: 0.0.0.0}\n")
    done = mainstay("serve", "--port", "0", "--log-level", "error")
    assert done.returncode == 1
    (line,) = (json.loads(one) for one in done.stderr.splitlines())
    assert line["level"] == "error"
    assert "without an API key" in line["message"]
