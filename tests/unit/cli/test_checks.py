"""What doctor thinks of a machine, a terminal, a port and a disk; and that no check holds up the others."""

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
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from mainstay.cli.commands import checks, checks_home, checks_local, checks_machine
from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.checks_address import Target, _ahead
from mainstay.cli.commands.checks_machine import available_mb, of_extras, open_files, terminal
from mainstay.cli.commands.checks_ports import listener
from mainstay.cli.commands.checks_steps import Step, Steps
from mainstay.config.schema import Config
from mainstay.config.schema_gateway import ServerSettings
from mainstay.core.errors import StoreBusy
from mainstay.providers.local import weights

UTF8 = {"LANG": "C.UTF-8", "TERM": "xterm"}


# --- steps ---------------------------------------------------------------------------------------


async def test_a_step_that_hangs_is_given_up_and_the_next_one_runs() -> None:
    steps, never = Steps(shown=False), threading.Event()

    def hang() -> list[Finding]:
        never.wait(30)  # a disk that does not answer cannot be told to stop
        return []

    began = time.monotonic()
    late = Step(check="Disk", work=lambda: steps.apart(hang), doing="writing", seconds=0.05, late="warn", then="wait")
    assert await steps.take(late) == [
        Finding("Disk", "warn", "writing took longer than 0.05 s, and was given up", "wait")
    ]
    next_one = Step(check="Home", work=lambda: steps.apart(lambda: [Finding("Home", "ok", "there")]))
    assert await steps.take(next_one) == [Finding("Home", "ok", "there")]
    assert time.monotonic() - began < 20
    never.set()


async def test_what_goes_wrong_in_a_step_is_a_finding() -> None:
    steps = Steps(shown=False)

    async def denied() -> list[Finding]:
        raise PermissionError(13, "Permission denied", "/some/where")

    async def busy() -> list[Finding]:
        raise StoreBusy("somebody else holds the database")

    (found,) = await steps.take(Step(check="Home", work=denied, then="chmod it"))
    assert found == Finding("Home", "FAIL", "/some/where: Permission denied", "chmod it")
    (found,) = await steps.take(Step(check="Database", work=busy))
    assert (found.verdict, found.says) == ("FAIL", "somebody else holds the database")


async def test_what_is_async_and_reads_files_has_a_loop_of_its_own() -> None:
    ours = asyncio.get_running_loop()

    async def look() -> list[Finding]:
        assert asyncio.get_running_loop() is not ours
        return [Finding("Skills", "ok", threading.current_thread().name)]

    (found,) = await Steps(shown=False).apart_async(look)
    assert found.says != threading.main_thread().name


async def test_whoever_reads_a_log_is_told_what_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstay.cli.commands.checks_steps.TOLD_AFTER_S", 0.01)
    told = asyncio.Event()

    async def look() -> list[Finding]:
        async with asyncio.timeout(20):
            while "still asking" not in capsys.readouterr().err:
                await asyncio.sleep(0.01)
        told.set()
        return []

    await Steps(shown=True).take(Step(check="Model", work=look, doing="asking", seconds=30))
    assert told.is_set()


# --- the terminal --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "encoding", "verdict", "says"),
    [
        (UTF8, "utf-8", "ok", "UTF-8, colour, xterm"),
        (UTF8 | {"NO_COLOR": "1"}, "utf-8", "ok", "UTF-8, no colour, as NO_COLOR wants it, xterm"),
        (UTF8 | {"TERM": "dumb"}, "utf-8", "warn", "TERM is dumb: the chat is plain"),
        (UTF8 | {"LANG": "C"}, "utf-8", "warn", "LANG is C, which does not say UTF-8"),
        (UTF8 | {"LC_ALL": "POSIX"}, "utf-8", "warn", "LC_ALL is POSIX, which does not say UTF-8"),
        ({"TERM": "xterm"}, "utf-8", "warn", "no locale is set (LANG)"),
        (UTF8, "iso8859-1", "warn", "it is written to in iso8859-1"),
    ],
    ids=["good", "no-colour", "dumb", "lang-c", "lc-all", "unset", "latin"],
)
def test_a_terminal_is_told_what_it_lacks(env: dict[str, str], encoding: str, verdict: str, says: str) -> None:
    found = terminal(env, encoding, interactive=True)
    assert (found.verdict, found.says[: len(says)]) == (verdict, says)
    assert bool(found.fix) == (verdict == "warn")


def test_a_pipe_without_a_locale_is_nothing_to_warn_of() -> None:
    assert terminal({}, "utf-8", interactive=False).verdict == "ok"
    assert terminal({"LANG": "C"}, "utf-8", interactive=False).verdict == "warn"


# --- bounds of the machine -----------------------------------------------------------------------


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, soft), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_a_low_bound_on_open_files_is_warned_of_with_what_a_server_would_want() -> None:
    alone = open_files(Config())
    assert (alone.verdict, "1,024 may be wanted" in alone.says) == ("warn", True)
    served = open_files(Config(server=ServerSettings(connections_max=5000)))
    assert "5,256 may be wanted" in served.says
    assert "server.connections_max" in served.fix


def test_free_memory_is_the_least_of_what_machine_and_container_allow(tmp_path: Path) -> None:
    machine, container = tmp_path / "proc", tmp_path / "cgroup"
    machine.mkdir()
    container.mkdir()
    (machine / "meminfo").write_text("MemTotal:       16000000 kB\nMemAvailable:    4096000 kB\n")
    assert available_mb(machine, container) == 4000
    (container / "memory.max").write_text(f"{512 * 1024 * 1024}\n")
    (container / "memory.current").write_text(f"{312 * 1024 * 1024}\n")
    assert available_mb(machine, container) == 200
    (container / "memory.max").write_text("max\n")
    assert available_mb(machine, container) == 4000


def test_extras_are_read_from_what_the_package_says_it_wants() -> None:
    wanted = [
        "msgspec>=0.20",
        "uvloop>=0.21; platform_python_implementation == 'CPython'",
        "rich>=13; extra == 'chat'",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        "mainstay[sql]; extra == 'postgres'",
        "types-PyYAML; extra == 'dev'",
    ]
    assert of_extras(wanted) == {
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
    assert (checks_machine._number(found) < checks_machine._number(least)) is older


def test_every_feature_of_the_database_is_used() -> None:
    found = checks.sqlite()
    assert (found.verdict, "FTS5, JSON" in found.says, "WAL" in found.says) == ("ok", True, True)


# --- ports ---------------------------------------------------------------------------------------


def test_whoever_listens_on_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = listener(port)
        if not said and shutil.which("lsof") is None and not Path("/proc/net/tcp").exists():
            pytest.skip("neither /proc nor lsof tells who listens here")
        assert said.startswith(f"process {os.getpid()} (")
    assert listener(port) == ""


# --- the clock of others -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("date", "ahead"),
    [
        ("Thu, 01 Jan 1970 01:00:00 GMT", 0.0),  # whole seconds: 3600 lies within the exchange
        ("Thu, 01 Jan 1970 02:00:00 GMT", 3599.5),
        ("Thu, 01 Jan 1970 00:00:00 GMT", -3600.5),
        ("some day", None),
        (None, None),
    ],
    ids=["in-step", "ahead", "behind", "nonsense", "silent"],
)
def test_the_date_of_an_answer_says_how_far_clocks_are_apart(date: str | None, ahead: float | None) -> None:
    assert _ahead(date, sent=3600.0, came=3601.0) == ahead


# --- disks ---------------------------------------------------------------------------------------


def test_a_disk_says_how_much_is_free_and_how_long_it_takes(tmp_path: Path) -> None:
    free, speed = checks_home.disk(tmp_path)
    assert "free" in free.says
    assert speed.says.startswith("4 kB are safe on it after ")
    assert not list(tmp_path.iterdir())


def test_a_disk_of_another_machine_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"box:/export {tmp_path} nfs4 rw 0 0\nroot / ext4 rw 0 0\n")
    monkeypatch.setattr(checks_home, "MOUNTS", mounts)
    said = [one for one in checks_home.disk(tmp_path) if "another machine" in one.says]
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
        (found,) = checks_home.disk(small)
        assert (found.verdict, found.check) == ("FAIL", "Disk")
        assert str(small) in found.fix
        assert checks_home._syncing(small).verdict == "FAIL"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_files_of_another_user_are_named_with_how_to_get_them_back(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    (tmp_path / "workspaces" / "default").mkdir(parents=True)
    lost = tmp_path / "workspaces" / "default" / "workspace.db"
    lost.touch()
    assert list(checks_home.permissions(tmp_path, fix=False)) == []
    os.chown(lost, 12345, 12345)
    (found,) = checks_home.permissions(tmp_path, fix=False)
    assert (found.verdict, str(lost) in found.says, "chown -R" in found.fix) == ("FAIL", True, True)


# --- weights -------------------------------------------------------------------------------------


def test_what_is_left_of_bringing_weights_is_told_and_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "weights"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("MAINSTAY_MODELS", str(place))
    assert list(checks_local.kept(fix=False)) == []
    first = weights.FIRST
    part = place / f"{first.file}.part"
    part.write_bytes(bytes(5_000_000))
    (place / ".wheels-killed").mkdir()
    place.chmod(0o777)
    said = [(one.verdict, one.says) for one in checks_local.kept(fix=False)]
    assert said == [
        ("FAIL", f"others may write to {place}, and could replace what was checked"),
        ("warn", f"1 folder of a download that was killed in {place}"),
        ("warn", f"{first.name} was brought in part, 5 of {first.size / 1e6:,.0f} MB"),
    ]
    assert [one.mended for one in checks_local.kept(fix=True)] == [True, True, False]
    assert part.exists()  # the next pull goes on from there
    with (place / first.file).open("wb") as whole:
        whole.truncate(first.size)  # as far as its size tells
    assert [one.mended for one in checks_local.kept(fix=True)] == [True]
    assert not part.exists()


def test_a_local_model_is_read_whole_only_by_those_who_want_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_MODELS", str(tmp_path))
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF" + bytes(100))
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<html>")

    def verdict(name: str) -> str:
        found = checks_local.weights_of(Target(Config(), f"local/{name}", "it is configured"), deep=False)
        return found[-1].verdict

    assert verdict(str(own)) == "ok"
    assert verdict(str(page)) == "FAIL"
    assert verdict(str(tmp_path / "none.gguf")) == "FAIL"
    assert verdict(weights.FIRST.name) == "FAIL"
    small = msgspec.structs.replace(weights.FIRST, sha256=sha256(b"GGUF").hexdigest())
    (tmp_path / "small").write_bytes(b"GGUF")
    assert checks_local._wrong(small, tmp_path / "small") == ""
    assert "its hash is another" in checks_local._wrong(weights.FIRST, tmp_path / "small")
