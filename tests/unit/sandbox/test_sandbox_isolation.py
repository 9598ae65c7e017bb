"""Parts of the sandbox: mounts, the system call filter, Landlock, and which toolchains are mounted."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
import struct
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.sandbox.bubblewrap import host_mounts
from mainstay.sandbox.bubblewrap.host_mounts import build_toolchain_environment, find_toolchains
from mainstay.sandbox.bubblewrap.mounts import BubblewrapSetup, plan_mounts
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.bubblewrap.seccomp import build_filter
from mainstay.sandbox.limits import SandboxUnusable
from mainstay.sandbox.process_tree import SupervisorLimits, build_supervised_argv
from mainstay.testing.sandbox_suite import create_folders

WORKS = pytest.mark.skipif(bubblewrap_problem() is not None, reason=bubblewrap_problem() or "")
ALLOW = 0x7FFF0000


def landlock() -> int:
    return int(ctypes.CDLL(None).syscall(444, None, 0, 1)) if sys.platform == "linux" else 0


def judge(code: bytes, arch: int, number: int, second: int = 0) -> int:
    """The kernel's side of a filter, as far as ours goes."""
    data = struct.pack("=IIQQQ", number, arch, 0, 0, second)
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at = value = 0
    while True:
        kind, yes, no, constant = steps[at]
        at += 1
        match kind:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, constant)
            case 0x15:
                at += yes if value == constant else no
            case 0x35:
                at += yes if value >= constant else no
            case 0x06:
                return constant
            case _:
                raise AssertionError(kind)


@pytest.mark.parametrize(("machine", "arch", "ioctl"), [("x86_64", 0xC000003E, 16), ("aarch64", 0xC00000B7, 29)])
def test_the_filter_refuses_what_it_lists_and_nothing_else(machine: str, arch: int, ioctl: int) -> None:
    code = build_filter(machine)
    verdicts = {number: judge(code, arch, number) for number in range(500)}
    refused = {number for number, verdict in verdicts.items() if verdict != ALLOW}
    mount, keyctl = {"x86_64": (165, 250), "aarch64": (40, 219)}[machine]
    assert {mount, keyctl, 425, 429, 442} <= refused
    assert len(refused) == 31
    assert verdicts[mount] & 0xFFFF == errno.EPERM
    assert verdicts[425] & 0xFFFF == errno.ENOSYS
    assert judge(code, arch, ioctl, 0x5412) & 0xFFFF == errno.EPERM
    assert judge(code, arch, ioctl, 0x541C) & 0xFFFF == errno.EPERM
    assert judge(code, arch, ioctl, 0x5413) == ALLOW
    assert judge(code, 0x40000003, 4) & 0xFFFF == errno.EPERM  # 32-bit programs count otherwise
    assert judge(code, arch, 0x40000000 + 1) & 0xFFFF == errno.EPERM
    assert build_filter("vax") == b""


@pytest.mark.skipif(landlock() < 2, reason="the kernel has no Landlock that we use")
def test_landlock_alone_keeps_writes_in_their_folders(tmp_path: Path) -> None:
    """The second wall, without the first."""
    for name in ("in", "out"):
        (tmp_path / name / "sub").mkdir(parents=True)
    (tmp_path / "out/file").write_text("theirs")
    script = (
        "cd in; echo x > own; mv own sub/; ln sub/own own2; cat ../out/file; echo ok > /dev/null && "
        "echo x > ../out/new; echo x > ../out/file; rm ../out/file; mv sub/own ../out/; ln -s x ../out/l; "
        "truncate -s 0 ../out/file"
    )
    ours, theirs = socket.socketpair()
    watched = (256, 1 << 31, 0, str(tmp_path))
    words, code = build_supervised_argv(
        SupervisorLimits(control=theirs.fileno(), limits={}, writable=(str(tmp_path / "in"),), watched=watched),
        ["/bin/sh", "-c", script],
    )
    done = subprocess.run(words, cwd=tmp_path, pass_fds=(theirs.fileno(), code), capture_output=True, check=False)
    os.close(code)
    ours.close()
    theirs.close()
    assert done.stdout == b"theirs"
    assert sorted(os.listdir(tmp_path / "in")) == ["own2", "sub"]
    assert os.listdir(tmp_path / "in/sub") == ["own"]
    assert sorted(os.listdir(tmp_path / "out")) == ["file", "sub"]
    assert (tmp_path / "out/file").read_text() == "theirs"


@WORKS
@pytest.mark.skipif(landlock() < 6, reason="the kernel's Landlock does not know abstract sockets")
async def test_a_granted_network_does_not_open_abstract_sockets(tmp_path: Path) -> None:
    name, heard = uuid.uuid4().hex, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set()
        writer.close()

    async with await asyncio.start_unix_server(serve, "\0" + name):
        (tmp_path / "work").mkdir()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}')"
        (tmp_path / "work/try.py").write_text(script)
        command = SandboxCommand(script=f"{sys.executable} -S try.py", folders=create_folders(tmp_path), network=True)
        ran = await BubblewrapSandbox().exec(command)
    assert ran.exit_code == 1
    assert b"PermissionError" in ran.stderr
    assert not heard.is_set()


@WORKS
async def test_arguments_of_a_command_are_not_visible_in_the_process_list(tmp_path: Path) -> None:
    """F40"""
    canary, seen = uuid.uuid4().hex, ""

    def look(stream: str, data: bytes) -> None:
        nonlocal seen
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                seen += Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            except OSError:
                continue

        (tmp_path / "work/seen").touch()

    script = "echo $TOKEN | wc -c; until [ -e seen ]; do sleep 0.01; done"
    command = SandboxCommand(script=script, folders=create_folders(tmp_path), env={"TOKEN": canary})
    ran = await BubblewrapSandbox().exec(command, look)
    assert ran.stdout.strip() == b"33"
    assert "until [ -e seen ]" in seen
    assert canary not in seen


@WORKS
async def test_the_running_installation_is_not_writable_even_inside_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F53"""
    venv = tmp_path / "work/tools/venv"
    venv.mkdir(parents=True)
    (venv / "module.py").write_text("as installed")
    monkeypatch.setattr(sys, "prefix", os.path.realpath(venv))
    tries = "echo x > tools/venv/module.py; mv tools t; mv tools/venv v; rm -rf tools; echo x > own"
    script = f"cat tools/venv/module.py; {tries}"
    ran = await BubblewrapSandbox().exec(SandboxCommand(script=script, folders=create_folders(tmp_path)))
    assert ran.stdout == b"as installed"
    assert (venv / "module.py").read_text() == "as installed"
    assert (tmp_path / "work/own").exists()


@WORKS
async def test_a_removed_folder_is_reported_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = BubblewrapSandbox()
    monkeypatch.setattr(sandbox, "_toolchains", [str(tmp_path / "uninstalled")])
    with pytest.raises(SandboxUnusable, match="could not be started"):
        await sandbox.exec(SandboxCommand(script="true", folders=create_folders(tmp_path)))


@pytest.mark.parametrize(
    "made",
    ["mkdir -p a/b; echo x > a/b/key", "ln -s ../beside a; echo x > key", "mkdir -p a/b/key/c"],
    ids=["file", "link", "folder"],
)
def test_forbidden_new_paths_are_removed_and_nothing_else(tmp_path: Path, made: str) -> None:
    """F32, F53: a link on the way there leads us nowhere."""
    (tmp_path / "beside/b").mkdir(parents=True)
    (tmp_path / "beside/b/key").write_text("theirs")
    grounds = create_folders(tmp_path)
    path = f"{grounds.cwd}/a/b/key"
    site = BubblewrapSetup(SandboxCommand(script="true", folders=replace(grounds, protected=(path,))), None)
    subprocess.run(["sh", "-c", made], cwd=grounds.cwd, check=True)
    assert os.path.lexists(path)
    assert site.finish() == ((), (), (), ())
    assert not os.path.lexists(path)
    assert (tmp_path / "beside/b/key").read_text() == "theirs"


def test_mounts_come_parents_first_and_the_strictest_wins(tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    for name in ("w/a/b", "w/ro", "w/hidden/scratch"):
        os.makedirs(f"{real}/{name}")
    Path(real, "w/a/b/key").touch()
    grounds = SessionFolders(
        cwd=f"{real}/w",
        writable=(f"{real}/w", f"{real}/w/a"),
        readable=(f"{real}/w/ro",),
        protected=(f"{real}/w/a/b/key", f"{real}/w/hidden", f"{real}/w/missing"),
        scratch=f"{real}/w/hidden/scratch",
    )
    laid = plan_mounts(SandboxCommand(script="true", folders=grounds), [f"{real}/w/a/python", "/opt/tool"])
    kinds = {one.path.removeprefix(real): one.kind for one in laid}
    assert kinds == {
        "/opt/tool": "read",
        "/w": "write",
        "/w/a": "pin",
        "/w/a/b": "pin",
        "/w/a/b/key": "hide",
        "/w/hidden": "hide",
        "/w/hidden/scratch": "write",
        "/w/ro": "read",
    }
    order = list(kinds)
    assert all(order.index(os.path.dirname(path)) < order.index(path) for path in order[2:] if path != "/w")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own = Path(os.path.realpath(tmp_path)) / "home"
    own.mkdir()
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    return own


@pytest.mark.parametrize(
    ("on_path", "let_in"),
    [
        ("bin", ["bin"]),
        (".pyenv/shims", [".pyenv"]),
        (".nvm/versions/node/v20/bin", [".nvm"]),
        (".cargo/bin", [".cargo/bin", ".rustup"]),
        (".local/bin", [".local/bin", ".local/share/uv"]),
        ("project/.venv/bin", ["project/.venv"]),
        ("go/bin", ["go/bin"]),
        ("", []),
        (".", []),
    ],
    ids=["bin", "pyenv", "nvm", "cargo", "local", "venv", "go", "home", "dot"],
)
def test_of_a_home_only_installations_are_mounted(
    home: Path, monkeypatch: pytest.MonkeyPatch, on_path: str, let_in: list[str]
) -> None:
    for name in (".rustup", ".local/share/uv", ".local/share/keyrings", ".ssh", on_path):
        (home / name).mkdir(parents=True, exist_ok=True)
    if on_path.startswith("project"):
        (home / "project/.venv/pyvenv.cfg").touch()
    monkeypatch.setenv("PATH", f"/usr/bin:{home}/{on_path}:relative/bin")
    assert sorted(find_toolchains()) == sorted(f"{home}/{name}" for name in let_in)


def test_toolchains_find_themselves_although_home_is_another(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".cargo/bin", ".rustup", ".pyenv/bin"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{home}/.cargo/bin:{home}/.pyenv/bin")
    for name in host_mounts._PASSED_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", f"{home}/secret/java")
    monkeypatch.setenv("GOROOT", "/usr/lib/go")
    assert build_toolchain_environment(find_toolchains()) == {
        "RUSTUP_HOME": f"{home}/.rustup",
        "PYENV_ROOT": f"{home}/.pyenv",
        "GOROOT": "/usr/lib/go",
    }
