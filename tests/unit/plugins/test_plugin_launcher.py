"""Starting external programs: what they see, and what is left when they are gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import plugin_lab as lab

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions, Sandbox
from mainstay.plugins import launcher as launching
from mainstay.plugins.launcher import (
    ConfinementUnavailable,
    ProgramRunFolder,
    ProgramSpec,
    launch_program,
    resolve_interpreter,
    sweep_stale_folders,
)
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox
from mainstay.sandbox.host.sandbox import HostSandbox

walls = pytest.mark.skipif(lab.NO_WALLS is not None, reason=lab.NO_WALLS or "")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = BubblewrapSandbox()
    yield sandbox
    await sandbox.close()


async def output_of(sandbox: Sandbox, launch: ProgramSpec) -> tuple[int, str]:
    said = bytearray()
    async with launch_program(sandbox, launch, lambda stream, data: said.extend(data), name="it") as running:
        code = await running.process.wait()
    return code, said.decode()


@walls
async def test_it_has_a_home_a_folder_to_look_at_and_what_was_granted(sandbox: Sandbox, tmp_path: Path) -> None:
    for name in ("code", "home", "read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    script = (
        "cat file; cat ../read/file ../write/file; echo $HOME $GIVEN; touch ~/new ../write/new"
        "; touch new; touch ../read/new; cat ../other/file"
    )
    launch = ProgramSpec(
        argv=("sh", "-c", script),
        cwd=str(tmp_path / "code"),
        home=str(tmp_path / "home"),
        permissions=ProcessPermissions(read=(str(tmp_path / "read"),), write=(str(tmp_path / "write"),)),
        env={"GIVEN": "a b"},
    )
    code, said = await output_of(sandbox, launch)
    assert code != 0
    assert said.startswith(f"codereadwrite{tmp_path}/home a b\n")
    assert said.count("Read-only file system") == 2
    assert said.count("No such file") == 1
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/new")) == ["home/new", "write/new"]


@walls
async def test_the_folder_is_shared_and_passes(sandbox: Sandbox, tmp_path: Path) -> None:
    launch = ProgramSpec(argv=("sh", "-c", "echo hello > $HOME/said; sleep 3600"), cwd=str(tmp_path))
    async with launch_program(sandbox, launch, None, name="it") as running:
        said = Path(running.shared_folder, "said")
        await lab.until(lambda: said.exists() and said.read_text() == "hello\n")
        assert os.stat(Path(running.shared_folder).parent).st_mode & 0o777 == 0o700
    assert running.process.exit_code is not None
    assert not Path(running.shared_folder).parent.exists()


@walls
async def test_our_python_finds_our_kit_and_the_rest_of_a_checkout_stays_hidden(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    code = "import mainstay.core.plugin_protocol, grpc, os, sys; print(os.path.exists(sys.argv[1]))"
    beside = Path(__file__).parent  # tests lie beside the package in a checkout, and are not mounted
    launch = ProgramSpec(argv=("python", "-c", code, str(beside)), cwd=str(tmp_path))
    assert await output_of(sandbox, launch) == (0, "False\n")


@walls
async def test_a_proxy_is_configured_only_with_a_network_grant(sandbox: Sandbox, tmp_path: Path) -> None:
    words = ("sh", "-c", "echo $HTTPS_PROXY $https_proxy $NO_PROXY")
    assert await output_of(sandbox, ProgramSpec(argv=words, cwd=str(tmp_path))) == (0, "\n")
    granted = ProgramSpec(argv=words, cwd=str(tmp_path), permissions=ProcessPermissions(network=("example.com",)))
    proxy = "http://127.0.0.1:3128"
    assert await output_of(sandbox, granted) == (0, f"{proxy} {proxy} localhost,127.0.0.1,::1\n")
    own = ProgramSpec(argv=words, cwd=str(tmp_path), permissions=ProcessPermissions(network=("127.0.0.1:80",)))
    assert await output_of(sandbox, own) == (0, f"{proxy} {proxy}\n")


@walls
async def test_a_missing_program_is_reported(sandbox: Sandbox, tmp_path: Path) -> None:
    for needs in (ProcessPermissions(), ProcessPermissions(network=("example.com",))):
        code, said = await output_of(
            sandbox, ProgramSpec(argv=("no-such-program",), cwd=str(tmp_path), permissions=needs)
        )
        assert code == 127
        assert "no-such-program" in said


async def test_nothing_starts_where_nothing_can_hold_it(tmp_path: Path) -> None:
    sandbox = HostSandbox()
    launch = ProgramSpec(argv=("touch", str(tmp_path / "ran")), cwd=str(tmp_path))
    with pytest.raises(ConfinementUnavailable, match="it is not started: the sandbox 'host' cannot confine it"):
        async with launch_program(sandbox, launch, None, name="it"):
            pass
    assert not (tmp_path / "ran").exists()
    await sandbox.close()


async def test_an_interpreter_placeholder_means_our_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_interpreter(("python", "x.py")) == (sys.executable, "x.py")
    assert Path(resolve_interpreter(("node", "x.js"))[0]).name == "node"
    assert resolve_interpreter(("./run", "x")) == ("./run", "x")
    with pytest.raises(ConfigError):
        resolve_interpreter(())


async def test_a_run_folder_has_a_short_name_with_any_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    room = ProgramRunFolder.create()
    assert len(f"{room.program_folder}/plugin") < 100
    assert Path(room.path).parent == Path("/tmp").resolve()
    await room.remove()
    await room.remove()
    assert not Path(room.path).exists()


async def test_leftovers_of_a_dead_process_are_removed_and_folders_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", str(tmp_path / "mainstay-run-left")], check=True))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(launching, "PARENT_PATH_BYTES_MAX", 1000)
    used = ProgramRunFolder.create()
    left, fresh = tmp_path / "mainstay-run-left", tmp_path / "mainstay-run-fresh"
    for path in (left, fresh):
        path.mkdir()
    os.utime(used.path, (time.time() - 3600, time.time() - 3600))
    deep = "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')"
    old = f"{deep}\nos.utime(sys.argv[1], (1, 1))"
    subprocess.run([sys.executable, "-c", old, str(left)], check=True)
    await asyncio.to_thread(sweep_stale_folders)
    assert {path.name for path in tmp_path.iterdir()} == {Path(used.path).name, fresh.name}
    await used.remove()
