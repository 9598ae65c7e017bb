"""Databases that vanish, come back older or are damaged, and full disks: a real server, real files, real disks."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support import full_disk_process
from support.cli_support import Command
from support.example_model import ExampleModel, Messages
from support.served_command import PATIENCE_S, Served, repeat, set_up, until

PROMPT = "/api/sessions/s/prompt"
PAGE_BYTES = 4096


@pytest.fixture
def mainstay(tmp_path: Path) -> Iterator[Command]:
    model = ExampleModel(repeat)
    made = Command(tmp_path)
    made.env["KEY"] = "none"
    set_up(made, model)
    yield made
    model.close()


def database(mainstay: Command, workspace: str = "default") -> Path:
    return mainstay.home / "workspaces" / workspace / "workspace.db"


def unready(server: Served, words: str) -> str:
    """What `/readyz` says, once it says that."""
    found: str = until(
        lambda: next((said for status, said in [server.get("/readyz")] if status == 503 and words in said), ""),
        lambda: f"{server.get('/readyz')} {server.said}",
    )
    return found


# --- gone, or older ------------------------------------------------------------------------------


def test_f61_f63_a_lost_database_is_an_error_at_start_with_the_choices_and_a_backup_restores_it(
    mainstay: Command, tmp_path: Path
) -> None:
    for workspace in ("default", "team"):
        assert mainstay("run", "one", "--session", "s", "--workspace", workspace).returncode == 0
    backup = tmp_path / "backup"
    with Served(mainstay).ready() as server:
        assert server.post(PROMPT, b'{"text":"two"}')[0] == 200
        assert mainstay("backup", str(backup)).returncode == 0
        assert server.post(PROMPT, b'{"text":"three"}')[0] == 200
        refused = mainstay("restore", str(backup), "--yes")
        assert (refused.returncode, "in use by process" in refused.stderr) == (1, True)
        assert server.end() == 0
    database(mainstay, "team").unlink()
    listed = mainstay("session", "list", "--workspace", "team")
    assert (listed.returncode, "workspace.db is missing" in listed.stderr) == (1, True), "not: no sessions yet"
    with Served(mainstay) as server:  # the other workspaces are served
        said = unready(server, "workspace team")
        assert "workspace.db is missing" in said
        assert "mainstay restore FOLDER --workspace team" in said
        assert "mainstay workspace accept-loss team" in said
        assert server.post(PROMPT, b'{"text":"four"}')[0] == 200
        assert server.end() == 0
    shutil.copy(backup / "workspaces/default/workspace.db", database(mainstay))
    for arguments in (("serve", "--port", "0"), ("run", "five", "--session", "s")):
        refused = mainstay(*arguments)
        assert refused.returncode == 1
        assert "workspace.db is older than what the home knows of it" in refused.stderr
        assert refused.stderr.count("\n") == 1
    doctor = mainstay("doctor", "--offline")
    assert doctor.returncode == 1
    assert doctor.stdout.count("accept-loss") == 2
    verified = mainstay("audit", "verify")
    assert (verified.returncode, verified.stdout.count("accept-loss")) == (1, 2)
    restored = mainstay.json("restore", str(backup), "--yes")
    assert [(one["name"], one["lost_events"]) for one in restored["workspaces"]] == [("default", 8), ("team", 0)]
    with Served(mainstay).ready() as server:
        assert server.post(PROMPT, b'{"text":"six"}')[0] == 200
        journal = server.events("s")
        assert [word in journal for word in ("two", "three", "six")] == [True, False, True]
        assert server.end() == 0
    assert mainstay("audit", "verify").returncode == 0


def grpc_health(server: Served) -> int:
    found = re.search(r"gRPC at ([0-9.:]+)", server.said)
    assert found is not None, server.said
    with grpc.insecure_channel(found[1]) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        return int(check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S).status)


def test_f62_removing_the_log_while_serving_fails_readiness_and_loses_nothing(mainstay: Command) -> None:
    with Served(mainstay, "--grpc-port", "0").ready() as server:
        assert server.post(PROMPT, b'{"text":"kept"}')[0] == 200
        assert grpc_health(server) == health_pb2.HealthCheckResponse.SERVING
        for suffix in ("-wal", "-shm"):
            Path(f"{database(mainstay)}{suffix}").unlink()
        unready(server, "workspace.db-wal was removed or replaced")
        assert grpc_health(server) == health_pb2.HealthCheckResponse.NOT_SERVING
        status, said = server.post(PROMPT, b'{"text":"refused"}')
        assert (status, "not accepted" in said) == (503, True)
        server.end(signal.SIGKILL)
    with Served(mainstay).ready() as server:
        journal = server.events("s")
        assert ("kept" in journal, "refused" in journal) == (True, False)
        assert server.end() == 0


# --- damaged -------------------------------------------------------------------------------------


def test_f9_a_damaged_database_fails_readiness_and_takes_no_prompts(mainstay: Command) -> None:
    for number in range(3):
        assert mainstay("run", "words " * 2000, "--session", f"s{number}").returncode == 0
    with Served(mainstay).ready() as server:
        damage(database(mainstay))
        server.get("/api/sessions/s0/events", {"Accept": "application/json"})
        unready(server, "is damaged")
        before = database(mainstay).read_bytes(), Path(f"{database(mainstay)}-wal").read_bytes()
        status, said = server.post("/api/sessions/new/prompt", b'{"text":"refused"}')
        assert (status, "database is damaged or lost" in said) == (503, True)
        assert before == (database(mainstay).read_bytes(), Path(f"{database(mainstay)}-wal").read_bytes())
        doctor = mainstay("doctor", "--offline")
        assert doctor.returncode == 1
        assert "not ready: workspace default" in doctor.stdout
        server.end()


def damage(path: Path) -> None:
    with open(path, "r+b") as file:
        pages = file.seek(0, 2) // PAGE_BYTES
        for page in range(4, pages):
            file.seek(page * PAGE_BYTES)
            file.write(b"\xff" * 64)


def test_f9_a_database_that_is_damaged_while_a_turn_writes_to_it_fails_that_turn_and_is_left_as_it_is(
    tmp_path: Path,
) -> None:
    """The other workspace is served on."""
    asked, go_on = Event(), Event()

    def say(messages: Messages) -> str:
        if "wait" in str(messages[-1]["content"]):
            asked.set()
            assert go_on.wait(PATIENCE_S)
        return repeat(messages)

    model, mainstay = ExampleModel(say), Command(tmp_path)
    mainstay.env["KEY"] = "none"
    set_up(mainstay, model)
    other = {"X-Workspace": "team"}
    try:
        assert mainstay("run", "words " * 6000, "--session", "s0").returncode == 0
        assert mainstay("run", "one", "--session", "s", "--workspace", "team").returncode == 0
        with Served(mainstay).ready() as server, ThreadPoolExecutor(1) as threads:
            running = threads.submit(server.post, "/api/sessions/new/prompt", b'{"text":"wait"}')
            assert asked.wait(PATIENCE_S)
            damage(database(mainstay))
            server.get("/api/sessions/s0/events", {"Accept": "application/json"})
            unready(server, "is damaged")
            before = database(mainstay).read_bytes(), Path(f"{database(mainstay)}-wal").read_bytes()
            go_on.set()
            status, said = running.result(PATIENCE_S)
            assert (status, "damaged" in said) == (503, True), said
            status, said = server.post("/api/sessions/new/prompt", b'{"text":"refused"}')
            assert (status, "database is damaged or lost" in said) == (503, True)
            assert server.post(PROMPT, b'{"text":"two"}', other)[0] == 200
            assert before == (database(mainstay).read_bytes(), Path(f"{database(mainstay)}-wal").read_bytes())
            assert server.end() == 0
        assert "Traceback" not in server.said
        left = database(mainstay).read_bytes()
        refused = mainstay("serve", "--port", "0")
        assert (refused.returncode, refused.stderr.count("\n"), "is damaged" in refused.stderr) == (1, 1, True)
        assert database(mainstay).read_bytes() == left
    finally:
        go_on.set()
        model.close()


# --- full ----------------------------------------------------------------------------------------


def test_f4_a_full_disk_fails_readiness_and_doctor_refuses_prompts_and_is_named_at_start(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "--kill-child"]
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("this machine allows no mount namespaces, so there is no small disk to fill")
    command = [*namespace, sys.executable, full_disk_process.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["before"][0], seen["during"][0], seen["after"][0]) == (200, 503, 200)
    assert "disk is full" in seen["during"][1]
    assert "disk: " in seen["ready"][1]
    assert [word in seen["journal"] for word in ("before", "during", "after")] == [True, False, True]
    said, code = seen["doctor"]
    assert (code, "FAIL  Disk: " in said) == (1, True)
    said, code = seen["restore"]
    assert (code, said.count("\n"), "No space left on device" in said) == (1, 1, True)
    assert seen["run"][1] == 0, "a restore that failed has changed nothing"
    for name in ("serve", "list"):
        said, code = seen[name]
        assert (code, said.count("\n")) == (1, 1)
        assert str(tmp_path / "home") in said
        assert "space" in said
