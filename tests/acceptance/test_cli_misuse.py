"""Misuse of the command: each case prints one clear sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import Command, FakeModel


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_process_without_standard_streams_does_its_work(mainstay: Command, closing: str) -> None:
    command = f'"{sys.executable}" -m mainstay run hello --session s {closing}'
    done = subprocess.run(
        ["sh", "-c", command], env=mainstay.env, cwd=mainstay.folder, timeout=120, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert "You said" in mainstay("session", "show", "s").stdout


MISUSES = [
    ("backup",),
    ("backup", ""),
    ("backup", "home"),
    ("backup", "home/inside"),
    ("backup", "home/mainstay.yaml"),
    ("backup", "full"),
    ("backup", "\udcff"),
    ("restore", "nowhere", "--yes"),
    ("restore", "full", "--yes"),
    ("restore", "home/mainstay.yaml", "--yes"),
    ("restore", "saved"),
    ("restore", "saved", "--workspace", "nope"),
    ("restore", "saved", "--workspace", "../x", "--yes"),
    ("restore", "damaged", "--yes"),
    ("workspace", "accept-loss", "nope"),
    ("workspace", "accept-loss", "default", "--yes"),
    ("workspace", "accept-loss", "../x", "--yes"),
    ("session", "release", "nope"),
    ("session", "release", "s"),
    ("session", "release", "s", "--fail"),
    ("session", "release", ""),
    ("doctor", "--wait", "soon"),
    ("doctor", "there"),
]


def test_misused_commands_about_data_say_one_sentence_and_change_nothing(mainstay: Command) -> None:
    assert mainstay("run", "hello", "--session", "s").returncode == 0
    assert mainstay("backup", "saved").returncode == 0
    folder, database = mainstay.folder, mainstay.home / "workspaces/default/workspace.db"
    shutil.copytree(folder / "saved", folder / "damaged")
    (folder / "damaged/workspaces/default/workspace.db").write_bytes(b"no database")
    (folder / "full").mkdir()
    (folder / "full/file").touch()

    def look() -> tuple[bytes, set[str]]:
        names = {path.name for path in mainstay.home.rglob("*")} - {"workspace.db-wal", "workspace.db-shm", "lock"}
        return database.read_bytes(), names - {"gateway.db-wal", "gateway.db-shm"}

    before = look()
    for arguments in MISUSES:
        done = mainstay(*arguments)
        assert done.returncode in (1, 2), arguments
        assert (done.stdout, done.stderr.count("\n")) == ("", 1), (arguments, done.stderr)
        assert "internal error" not in done.stderr, arguments
        assert "Errno" not in done.stderr, arguments
        assert look() == before, arguments


def test_a_backup_needs_the_configuration_that_says_where_the_data_is_but_no_keys(mainstay: Command) -> None:
    written = (mainstay.home / "mainstay.yaml").read_text() + "state: {data_dir: elsewhere}\n"
    mainstay.configure(written)
    assert mainstay("run", "hello", "--session", "s").returncode == 0
    del mainstay.env["KEY"]
    assert mainstay.json("backup", "saved")["workspaces"] == ["default"]
    assert mainstay.json("restore", "saved", "--yes")["workspaces"][0]["sessions"] == 1
    mainstay.configure(written + "model: [")
    refused = mainstay("backup", "again")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), "not: an empty backup"
    assert "mainstay.yaml line" in refused.stderr
    assert not (mainstay.folder / "again").exists()


def test_a_session_name_that_is_no_text_is_refused_and_nothing_is_called_damaged(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "s")
    for verb in (["run", "x", "--session"], ["session", "show"]):
        argv = [os.fsencode(one) for one in mainstay.argv(*verb)] + [b"\xff"]
        done = subprocess.run(argv, env=mainstay.env, cwd=mainstay.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1
        assert "session's name" in done.stderr
        assert "damaged" not in done.stderr


def test_doctor_looks_into_the_database(mainstay: Command) -> None:
    mainstay("run", "hello " * 500, "--session", "s")
    assert "Database" in mainstay("doctor").stdout
    path = mainstay.home / "workspaces" / "default" / "workspace.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 4000 + whole[4100:])
    done = mainstay("doctor")
    assert done.returncode == 1
    assert "FAIL  Database" in done.stdout


def test_a_model_given_to_one_command_is_not_used_for_other_turns(mainstay: Command, model: FakeModel) -> None:
    victim = mainstay.start("run", "slow for a while", "--session", "report")
    model.wait_for_prompt("slow for a while")
    victim.kill()
    victim.communicate(timeout=120)
    mainstay("run", "hi", "--session", "other", "--model", "openai/else")
    assert "word word" in mainstay("session", "show", "report").stdout
    listed = {one["key"]: one.get("model", "") for one in mainstay.json("session", "list")["sessions"]}
    assert listed == {"report": "", "other": "openai/else"}
