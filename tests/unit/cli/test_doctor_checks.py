"""Checks of doctor: machine, terminal, port and disk; and no check blocks the others."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.cli.commands.doctor_step_runner import DoctorStep, DoctorStepRunner
from mainstay.cli.commands.doctor_terminal_checks import check_terminal
from mainstay.config.schema import FILE
from mainstay.core import machine_health
from mainstay.core.errors import ConfigError, StoreBusy
from mainstay.core.health import CheckFinding
from mainstay.core.listening_processes import find_listener
from mainstay.core.machine_health import available_memory_mb, check_open_files, group_by_extra
from mainstay.store import home_health as home_health
from mainstay.store.sqlite.health import check_sqlite

UTF8 = {"LANG": "C.UTF-8", "TERM": "xterm"}


# --- steps ---------------------------------------------------------------------------------------


async def test_a_step_that_hangs_is_given_up_and_the_next_one_runs() -> None:
    steps, never = DoctorStepRunner(shows_progress=False), threading.Event()

    def hang() -> list[CheckFinding]:
        never.wait(600)  # a disk that does not answer cannot be told to stop
        return []

    began = time.monotonic()
    late = DoctorStep(
        check="Disk",
        work=lambda: steps.run_in_thread(hang),
        activity="writing",
        timeout_s=0.05,
        timeout_verdict="warn",
        advice="wait",
    )
    assert await steps.run_step(late) == [
        CheckFinding("Disk", "warn", "writing took longer than 0.05 s and was cancelled", "wait")
    ]
    next_one = DoctorStep(check="Home", work=lambda: steps.run_in_thread(lambda: [CheckFinding("Home", "ok", "there")]))
    assert await steps.run_step(next_one) == [CheckFinding("Home", "ok", "there")]
    assert time.monotonic() - began < 120
    never.set()


async def test_a_bug_in_a_step_is_a_finding_and_its_fix_comes_from_the_error() -> None:
    async def divide() -> list[CheckFinding]:
        raise ZeroDivisionError("division by zero")

    async def misconfigured() -> list[CheckFinding]:
        raise ConfigError("a key is missing", fix="export KEY=…")

    steps = DoctorStepRunner(shows_progress=False)
    (found,) = await steps.run_step(DoctorStep(check="Server", work=divide, activity="checking it"))
    assert (found.verdict, found.message) == ("FAIL", "checking it failed: ZeroDivisionError: division by zero")
    (found,) = await steps.run_step(DoctorStep(check="Server", work=misconfigured, advice="look"))
    assert (found.message, found.fix) == ("a key is missing", "export KEY=…")


async def test_an_error_in_a_step_is_a_finding() -> None:
    steps = DoctorStepRunner(shows_progress=False)

    async def denied() -> list[CheckFinding]:
        raise PermissionError(13, "Permission denied", "/some/where")

    async def busy() -> list[CheckFinding]:
        raise StoreBusy("somebody else holds the database")

    (found,) = await steps.run_step(DoctorStep(check="Home", work=denied, advice="chmod it"))
    assert found == CheckFinding("Home", "FAIL", "/some/where: Permission denied", "chmod it")
    (found,) = await steps.run_step(DoctorStep(check="Database", work=busy))
    assert (found.verdict, found.message) == ("FAIL", "somebody else holds the database")


async def test_async_checks_that_read_files_have_a_loop_of_their_own() -> None:
    ours = asyncio.get_running_loop()

    async def look() -> list[CheckFinding]:
        assert asyncio.get_running_loop() is not ours
        return [CheckFinding("Skills", "ok", threading.current_thread().name)]

    (found,) = await DoctorStepRunner(shows_progress=False).run_async_in_thread(look)
    assert found.message != threading.main_thread().name


async def test_a_log_reader_is_told_which_check_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstay.cli.commands.doctor_step_runner.LOG_AFTER_S", 0.01)
    told = asyncio.Event()

    async def look() -> list[CheckFinding]:
        async with asyncio.timeout(120):
            while "still asking" not in capsys.readouterr().err:
                await asyncio.sleep(0.01)
        told.set()
        return []

    await DoctorStepRunner(shows_progress=True).run_step(
        DoctorStep(check="Model", work=look, activity="asking", timeout_s=30)
    )
    assert told.is_set()


# --- the terminal --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "encoding", "verdict", "says"),
    [
        (UTF8, "utf-8", "ok", "UTF-8, colour, xterm"),
        (UTF8 | {"NO_COLOR": "1"}, "utf-8", "ok", "UTF-8, no colour (NO_COLOR is set), xterm"),
        (UTF8 | {"TERM": "dumb"}, "utf-8", "warn", "TERM is dumb: the chat has no colours"),
        (UTF8 | {"LANG": "C"}, "utf-8", "warn", "LANG is C, which is not UTF-8"),
        (UTF8 | {"LC_ALL": "POSIX"}, "utf-8", "warn", "LC_ALL is POSIX, which is not UTF-8"),
        ({"TERM": "xterm"}, "utf-8", "warn", "no locale is set (LANG)"),
        (UTF8, "iso8859-1", "warn", "the output encoding is iso8859-1"),
    ],
    ids=["good", "no-colour", "dumb", "lang-c", "lc-all", "unset", "latin"],
)
def test_missing_capabilities_of_a_terminal_are_reported(
    env: dict[str, str], encoding: str, verdict: str, says: str
) -> None:
    found = check_terminal(env, encoding, is_interactive=True)
    assert (found.verdict, found.message[: len(says)]) == (verdict, says)
    assert bool(found.fix) == (verdict == "warn")


def test_a_pipe_without_a_locale_is_nothing_to_warn_of() -> None:
    assert check_terminal({}, "utf-8", is_interactive=False).verdict == "ok"
    assert check_terminal({"LANG": "C"}, "utf-8", is_interactive=False).verdict == "warn"


# --- bounds of the machine -----------------------------------------------------------------------


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, soft), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_a_low_bound_on_open_files_is_warned_of_with_what_a_server_would_want() -> None:
    alone = check_open_files()
    assert (alone.verdict, "1,024 may be needed" in alone.message) == ("warn", True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert check_open_files(hard - 256).verdict == "ok", "the server raises its soft limit to the hard one"
    served = check_open_files(hard + 5000)
    assert f"{hard + 5256:,} may be needed; the server accepts fewer connections" in served.message
    assert "server.connections_max" in served.fix


def test_free_memory_is_the_least_of_what_machine_and_container_allow(tmp_path: Path) -> None:
    machine, container = tmp_path / "proc", tmp_path / "cgroup"
    machine.mkdir()
    container.mkdir()
    (machine / "meminfo").write_text("MemTotal:       16000000 kB\nMemAvailable:    4096000 kB\n")
    assert available_memory_mb(machine, container) == 4000
    (container / "memory.max").write_text(f"{512 * 1024 * 1024}\n")
    (container / "memory.current").write_text(f"{312 * 1024 * 1024}\n")
    assert available_memory_mb(machine, container) == 200
    (container / "memory.max").write_text("max\n")
    assert available_memory_mb(machine, container) == 4000


def test_extras_are_read_from_what_the_package_says_it_wants() -> None:
    wanted = [
        "msgspec>=0.20",
        "uvloop>=0.21; platform_python_implementation == 'CPython'",
        "rich>=13; extra == 'chat'",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        "mainstay[sql]; extra == 'postgres'",
        "types-PyYAML; extra == 'dev'",
    ]
    assert group_by_extra(wanted) == {
        "": [("msgspec", "0.20")],
        "chat": [("rich", "13")],
        "postgres": [("psycopg", "3.2")],
        "dev": [("types-PyYAML", "0")],
    }


@pytest.mark.parametrize(
    ("found", "least", "older"),
    [
        ("1.9", "1.10", True),
        ("2.0", "2", False),
        ("2", "2.0.0", False),
        ("3.0.53", "3.0.40", False),
        ("13", "13.1", True),
    ],
)
def test_versions_are_compared_as_numbers(found: str, least: str, older: bool) -> None:
    assert (machine_health._parse_version(found) < machine_health._parse_version(least)) is older


def test_every_feature_of_the_database_is_used() -> None:
    found = check_sqlite()
    assert (found.verdict, "FTS5, JSON" in found.message, "WAL" in found.message) == ("ok", True, True)


# --- ports ---------------------------------------------------------------------------------------


def test_the_process_that_listens_on_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = find_listener(port)
        if not said and shutil.which("lsof") is None and not Path("/proc/net/tcp").exists():
            pytest.skip("neither /proc nor lsof tells who listens here")
        assert said.startswith(f"process {os.getpid()} (")
    assert find_listener(port) == ""


# --- disks ---------------------------------------------------------------------------------------


def test_a_disk_says_how_much_is_free_and_how_long_it_takes(tmp_path: Path) -> None:
    free, speed = home_health.check_disk(tmp_path)
    assert "free" in free.message
    assert speed.message.startswith("a synchronous write of 4 kB takes ")
    assert not list(tmp_path.iterdir())


def test_a_disk_of_another_machine_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"box:/export {tmp_path} nfs4 rw 0 0\nroot / ext4 rw 0 0\n")
    monkeypatch.setattr(home_health, "MOUNTS", mounts)
    said = [one for one in home_health.check_disk(tmp_path) if "network file system" in one.message]
    assert [one.verdict for one in said] == ["warn"]


def test_a_full_disk_fails(tmp_path: Path) -> None:
    """A real one, where one can be made."""
    small = tmp_path / "small"
    small.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a small disk can be mounted only by root")
    try:
        (small / "filler").write_bytes(bytes(60 * 1024))
        (found,) = home_health.check_disk(small)
        assert (found.verdict, found.check) == ("FAIL", "Disk")
        assert str(small) in found.fix
        assert home_health._check_sync_time(small).verdict == "FAIL"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_files_of_another_user_are_named_with_how_to_get_them_back(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    (tmp_path / "workspaces" / "default").mkdir(parents=True)
    lost = tmp_path / "workspaces" / "default" / "workspace.db"
    lost.touch()
    assert list(home_health.check_permissions(tmp_path, FILE, fix=False)) == []
    os.chown(lost, 12345, 12345)
    (found,) = home_health.check_permissions(tmp_path, FILE, fix=False)
    assert (found.verdict, str(lost) in found.message, "chown -R" in found.fix) == ("FAIL", True, True)
