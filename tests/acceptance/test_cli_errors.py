"""`mainstay error`: lists errors of a home, also through the process that owns it."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command, FakeModel

PATIENCE_S = 120.0
CHANNEL = (
    "channels:\n  team:\n    kind: slack\n    token: xoxb-1\n    app_token: xapp-1\n    base_url: http://127.0.0.1:9\n"
)


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def test_a_turn_that_failed_names_its_trace_and_is_in_the_list(mainstay: Command) -> None:
    """LOOM-030, LOOM-117"""
    assert mainstay("errors").stdout == "No errors.\n"
    failed = mainstay("run", "please refuse", "--session", "s")
    assert failed.returncode == 1
    (trace,) = re.findall(r"\(details: mainstay error show ([0-9a-f]{32})\)", failed.stderr)
    done = mainstay("run", "please refuse", "--session", "t", "--json")
    told = json.loads(done.stdout)
    where = {"session": "t", "turn": 1, "step": 1, "trace": told["trace"]}
    assert told["error"]["details"] == where

    [group] = mainstay.json("errors")["groups"]
    assert (group["count"], group["kind"]) == (2, "turn")
    assert {name: group["example"][name] for name in where} == where
    [one] = mainstay.json("errors", "--all", "--session", "s")["errors"]
    assert (one["trace"], one["turn"], one["workspace"]) == (trace, 1, "default")
    [ended] = [one for one in mainstay.json("session", "records", "s")["records"] if one["kind"] == "TurnEnded"]
    assert trace in json.dumps(ended), "the journal has the same"

    for given in (group["group"], one["id"], trace):
        shown = mainstay("errors", "show", given).stdout
        assert "mainstay session trace " in shown
        assert "--turn 1" in shown
    assert trace in mainstay("errors", "show", trace).stdout
    assert mainstay("errors", "--kind", "tool").stdout == "No errors.\n"
    assert mainstay("errors", "--since", "2999-01-01").stdout == "No errors.\n"


def test_clearing_needs_a_confirmation_and_clears_the_selected_errors(mainstay: Command) -> None:
    for session in ("s", "t"):
        mainstay("run", "please refuse", "--session", session)
    refused = mainstay("errors", "clear")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert mainstay.json("errors", "clear", "--session", "s", "--yes") == {"ok": True, "cleared": 1}
    assert [one["session"] for one in mainstay.json("errors", "--all")["errors"]] == ["t"]
    assert mainstay("errors", "clear", "--yes").stdout == "1 error cleared.\n"
    assert mainstay("errors").stdout == "No errors.\n"
    mainstay("run", "hello", "--session", "t")
    assert mainstay("errors").stdout == "No errors.\n", "what was cleared does not come back"


def test_an_invalid_command_line_is_one_sentence(mainstay: Command) -> None:
    for words in (["show", "nothing"], ["--kind", "odd"], ["--since", "soon"], ["odd"]):
        done = mainstay("errors", *words)
        assert done.returncode != 0
        assert done.stderr.count("\n") == 1, done.stderr


def test_a_session_that_is_deleted_has_no_errors_left(mainstay: Command) -> None:
    mainstay("run", "please refuse", "--session", "s")
    assert mainstay("session", "delete", "s", "--yes").returncode == 0
    assert mainstay("errors").stdout == "No errors.\n"


def test_beside_a_server_it_lists_what_no_journal_has(mainstay: Command) -> None:
    config = (mainstay.home / "mainstay.yaml").read_text()
    mainstay.configure(f"{config}server:\n  logs: json\n{CHANNEL}")
    (mainstay.home / "mainstay.yaml").chmod(0o600)
    server = mainstay.start("serve", "--port", "0")
    try:
        assert server.stderr is not None
        lines: list[dict[str, Any]] = []
        for raw in server.stderr:
            lines.append(json.loads(raw))
            if lines[-1]["level"] == "error":
                break
        [found] = until(lambda: mainstay.json("errors", "--kind", "channel")["groups"])
        assert "team" in found["sentence"]
        url = next(found[1] for one in lines if (found := re.search(r"at (http://[0-9.:]+)", one["message"])))
        body = json.dumps({"text": "please refuse"}).encode()
        asked = urllib.request.Request(f"{url}/api/sessions/s/prompt", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            trace = answer.headers["X-Trace-Id"]
        [turn] = until(lambda: mainstay.json("errors", "--kind", "turn", "--all")["errors"])
        assert turn["trace"] == trace
        with urllib.request.urlopen(f"{url}/api/errors?kind=turn", timeout=PATIENCE_S) as answer:
            assert [one["trace"] for one in json.loads(answer.read())["errors"]] == [trace]
        line = next(one for one in map(json.loads, server.stderr) if one["level"] == "warning" and "turn" in one)
        assert (line["session"], line["turn"], line["step"], line["trace"]) == ("s", 1, 1, trace)
        assert mainstay.json("errors", "clear", "--kind", "turn", "--yes")["cleared"] == 1
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE_S)
