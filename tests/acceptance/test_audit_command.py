"""`mainstay audit show|verify|export` on a home without and with a running server."""

from __future__ import annotations

import hashlib
import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages, Said
from support.served_command import Served, set_up, until

KEY = "sk-canary-7d21aa90b3c4"
SQL = "SELECT what FROM orders"
BACKEND = "policy: {allow: ['*__*']}\nbackends: {shop: {kind: sql, url: 'sqlite:///shop.db'}}\n"


def say(messages: Messages) -> Said:
    last = messages[-1]
    if last["role"] == "user" and "orders" in str(last["content"]):
        return [("shop__query", {"sql": SQL})]
    return "That is all."


@pytest.fixture
def model() -> Iterator[ExampleModel]:
    made = ExampleModel(say)
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: ExampleModel) -> Command:
    made = Command(tmp_path)
    made.env["KEY"] = KEY
    set_up(made, model, BACKEND)
    database = apsw.Connection(str(made.home / "shop.db"))
    database.execute("CREATE TABLE orders (id INTEGER, what TEXT); INSERT INTO orders VALUES (1, 'tea')")
    database.close()
    return made


def shown(mainstay: Command, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mainstay.json("audit", "show", *options)["entries"]
    return found


def kinds_of(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["kind"], one["what"]) for one in entries]


# --- alone ---------------------------------------------------------------------------------------


def test_loom_126_operations_on_a_backend_are_audited_verified_exported_and_the_export_verified(
    mainstay: Command, tmp_path: Path
) -> None:
    assert mainstay("audit", "show").stdout == "The audit log is empty.\n"
    assert mainstay("run", "which orders are there?", "--session", "shop").returncode == 0
    entries = shown(mainstay, "--session", "shop")
    assert kinds_of(entries) == [("input", "prompt"), ("tool", "shop__query"), ("turn", "answered")]
    called = entries[1]["details"]
    asked = hashlib.sha256(json.dumps({"sql": SQL}).encode()).hexdigest()
    assert (called["arguments"], called["error"], called["origin"]) == (asked, False, "untrusted:shop__query")
    turn = entries[2]["details"]
    assert (turn["model"], turn["prompt"], turn["completion"]) == ("fake", 80, 16)
    assert turn["tools"] == {"shop__query": 1}
    assert [one["kind"] for one in shown(mainstay, "--kind", "tool", "--since", "1h")] == ["tool"]
    assert shown(mainstay, "--until", "2020-01-01") == []
    assert "SELECT" not in json.dumps(shown(mainstay))
    table = mainstay("audit", "show", "--limit", "1").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["ENTRY", "4"]

    done = mainstay("audit", "verify")
    assert (done.returncode, done.stdout) == (0, "Every entry is unchanged.\n")
    for format, name in (("jsonl", "a.jsonl"), ("csv", "a.csv")):
        assert mainstay("audit", "export", "--format", format, "--out", name).returncode == 0
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        assert mainstay("audit", "export", "--format", format).stdout == (tmp_path / name).read_text()
        assert mainstay("audit", "verify", name).returncode == 0
        again = mainstay("audit", "export", "--format", format, "--out", name)
        assert (again.returncode, "already exists" in again.stderr) == (1, True)
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("shop__query", "shop__other", 1))
        broken = mainstay("audit", "verify", name)
        line = 3 if format == "jsonl" else 4
        assert (broken.returncode, broken.stdout.splitlines()[0]) == (1, f"line {line}: entry 3 was changed")


def test_a_changed_or_missing_entry_is_one_line_and_another_exit_code(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "one")
    with closing(sqlite3.connect(mainstay.home / "gateway.db")) as db:
        db.execute("UPDATE audit SET person='mallory' WHERE seq=2")
        db.execute("DELETE FROM audit WHERE seq=3")
        db.commit()
    done = mainstay("audit", "verify")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "gateway.db: entry 2 was changed",
        "audit-head: entry 3 is missing at the end",
        "2 problems found.",
    ]
    found = json.loads(mainstay("audit", "verify", "--json").stdout)
    assert (found["ok"], [one["where"] for one in found["findings"]]) == (False, ["gateway.db", "audit-head"])
    doctor = mainstay("doctor", "--offline").stdout
    assert "entry 2 was changed" in doctor


def test_an_audit_that_went_on_after_it_was_cut_is_wrong_until_that_is_accepted_and_for_good_to_an_export(
    mainstay: Command,
) -> None:
    mainstay("run", "hello", "--session", "one")
    assert mainstay("audit", "export", "--out", "early.jsonl").returncode == 0
    with closing(sqlite3.connect(mainstay.home / "gateway.db")) as db:
        db.execute("DELETE FROM audit WHERE seq=3")
        db.commit()
    mainstay("run", "hello", "--session", "two")
    went_on = "gateway.db: entry 3 says that the audit log was continued although entry 3 is gone"
    done = mainstay("audit", "verify")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, f"{went_on}, and no entry acknowledges this")
    done = mainstay("audit", "verify", "--accept", "3")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"note: {went_on}; entry 6 acknowledges this",
        "Every entry is unchanged.",
    ]
    assert kinds_of(shown(mainstay, "--kind", "record"))[1:] == [
        ("record.resumed", "entry 3 is gone"),
        ("record.accepted", "3"),
    ]
    done = mainstay("audit", "verify", "--against", "early.jsonl")
    assert done.returncode == 1
    assert "early.jsonl: entry 3 was different when this export was written" in done.stdout
    for name in ("gateway.db", "gateway.db-wal", "gateway.db-shm"):
        (mainstay.home / name).unlink(missing_ok=True)
    assert "audit-head says that it held an audit log" in mainstay("doctor", "--offline").stdout


@pytest.mark.parametrize(
    ("words", "what"),
    [(("memory", "forget", "one#1"), "records"), (("session", "delete", "one"), "session")],
    ids=["a record", "a session"],
)
def test_records_of_a_killed_process_are_audited_before_a_command_deletes_them(
    mainstay: Command, words: tuple[str, ...], what: str
) -> None:
    mainstay.env["MAINSTAY__AUDIT__ENABLED"] = "false"  # the journal has it and the audit has not, as after a kill
    mainstay("run", "hello", "--session", "one")
    del mainstay.env["MAINSTAY__AUDIT__ENABLED"]
    with closing(sqlite3.connect(mainstay.home / "gateway.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")  # while it cannot be, nothing is forgotten
        mainstay.env["MAINSTAY__LIMITS__STORE_BUSY_S"] = "0.2"
        refused = mainstay(*words, "--yes")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "nothing is deleted while the audit log cannot be written" in refused.stderr
        db.execute("ROLLBACK")
    assert mainstay(*words, "--yes").returncode == 0
    assert kinds_of(shown(mainstay, "--session", "one")) == [
        ("input", "prompt"),
        ("turn", "answered"),
        ("forgotten", what),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", "nowhere.jsonl"), "nowhere.jsonl cannot be read: No such file or directory"),
        (("export",), "there is no audit log in"),
        (("verify",), "there is no audit log in"),
        (("show", "--since", "some day"), "is not a time"),
        (("show", "--limit", "0"), "is not a whole number above 0"),
        (("show", "--limit", "1" + "0" * 30), "--limit is at most 100000"),
        (("shwo",), "did you mean 'show'?"),
        (("verify", "a.jsonl", "--accept", "3"), "omit FILE"),
        (("verify", "--accept", "3"), "there is no audit log in"),
    ],
    ids=[
        "no file",
        "nothing",
        "nothing to verify",
        "no time",
        "no number",
        "too many",
        "no verb",
        "a file and more",
        "nothing to accept",
    ],
)
def test_an_impossible_request_is_one_sentence(mainstay: Command, words: tuple[str, ...], said: str) -> None:
    done = mainstay("audit", *words)
    assert done.returncode != 0
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (mainstay.home / "gateway.db").exists()


# --- beside a server -----------------------------------------------------------------------------


def test_sigil_039_a_server_keeps_people_keys_and_what_was_done_in_all_workspaces_in_one_record(
    mainstay: Command, model: ExampleModel
) -> None:
    set_up(mainstay, model, "workspaces: {team: {instructions: Be kind.}}\n")
    with Served(mainstay).ready() as server:
        mainstay("user", "add", "ann", "--role", "admin")
        mainstay("user", "add", "bob", "--in", "team")
        ann = mainstay("user", "key", "ann", "--scope", "admin", "--scope", "chat").stdout.split()[0]
        bob = mainstay("user", "key", "bob", "--in", "team").stdout.split()[0]
        for count, who in ((1, ann), (2, bob)):  # each workspace is followed on its own: the second waits for the first
            body = json.dumps({"text": "hello"}).encode()
            assert server.post("/api/sessions/one/prompt", body, bearer(who))[0] == 200
            until(lambda count=count: len(kinds_of(shown(mainstay, "--kind", "turn"))) == count, lambda: server.said)
        made = json.dumps({"name": "kim", "roles": {"team": "guest"}}).encode()
        assert server.post("/api/people", made, bearer(ann))[0] == 201
        server.process.send_signal(signal.SIGHUP)
        found = until(lambda: len(kinds_of(shown(mainstay, "--kind", "turn"))) == 2 and shown(mainstay))
        until(lambda: "configured" in [one["kind"] for one in shown(mainstay)], lambda: server.said)
        assert {one["workspace"] for one in found if one["kind"] == "turn"} == {"default", "team"}
        people = [(one["kind"], one["what"], one["person"]) for one in found if one["kind"].startswith("person")]
        assert people == [
            ("person.changed", "ann", ""),
            ("person.changed", "bob", ""),
            ("person.changed", "kim", "ann"),
        ]
        assert [one["kind"] for one in found if one["kind"].startswith("key")] == ["key.made", "key.made"]

        status, said = server.get("/api/audit?kind=turn", bearer(ann))
        assert (status, [one["person"] for one in json.loads(said)["entries"]]) == (200, ["ann", "bob"])
        assert server.get("/api/audit", bearer(bob))[0] == 403
        assert mainstay("audit", "verify").returncode == 0
        assert server.end() == 0
    everything = mainstay("audit", "export").stdout
    assert not [secret for secret in (KEY, ann, bob) if secret in everything]
    with closing(sqlite3.connect(mainstay.home / "gateway.db")) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
    assert {"people", "identities", "pairings", "keys", "audit"} <= tables
    assert {path.name for path in (mainstay.home / "workspaces").iterdir()} == {"default", "team"}
    assert mainstay("audit", "verify").returncode == 0


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "Accept": "application/json"}


def test_an_admin_of_one_workspace_sees_what_was_done_in_it_and_nothing_else(
    mainstay: Command, model: ExampleModel
) -> None:
    set_up(mainstay, model, "workspaces: {team: {instructions: Be kind.}}\n")
    mainstay("run", "hello", "--session", "mine")
    with Served(mainstay).ready() as server:
        mainstay("user", "add", "eve", "--role", "admin", "--in", "team")
        eve = mainstay("user", "key", "eve", "--scope", "admin", "--scope", "chat", "--in", "team").stdout.split()[0]
        server.post("/api/sessions/one/prompt", json.dumps({"text": "hello"}).encode(), bearer(eve))
        until(lambda: shown(mainstay, "--kind", "turn", "--workspace", "team"))
        found = json.loads(server.get("/api/audit?limit=1000", bearer(eve))[1])["entries"]
        assert {one["workspace"] for one in found} == {"team"}
        assert server.get("/api/audit?workspace=default", bearer(eve))[0] == 403
        assert server.get("/api/audit?workspace=team", bearer(eve))[0] == 200
        server.end()


def test_a_server_that_is_killed_has_everything_on_record_once_when_it_is_back(
    mainstay: Command, model: ExampleModel
) -> None:
    for number in range(2):
        with Served(mainstay).ready() as server:
            for session in ("a", "b"):
                answer = server.post(f"/api/sessions/{session}{number}/prompt", json.dumps({"text": "hello"}).encode())
                assert answer[0] == 200
            server.end(signal.SIGKILL)  # most likely before the projection ran
    with Served(mainstay).ready() as server:
        until(lambda: len(shown(mainstay, "--kind", "turn")) == 4, lambda: str(kinds_of(shown(mainstay))))
        server.end()
    for session in ("a0", "b0", "a1", "b1"):
        assert kinds_of(shown(mainstay, "--session", session)) == [("input", "prompt"), ("turn", "answered")]
    assert mainstay("audit", "verify").stdout == "Every entry is unchanged.\n"
