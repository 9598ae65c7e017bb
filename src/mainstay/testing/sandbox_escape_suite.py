"""Conformance suite for sandboxes that confine commands: each test tries to escape from inside.

class TestMySandbox(SandboxEscapeSuite):
    def make(self, folder: Path) -> Sandbox: ...
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.tool_ports import SandboxCommand
from mainstay.testing.sandbox_suite import SandboxSuiteBase, create_folders, read_text, write_file

PYTHON_COMMAND = f"{sys.executable} -S"


def write_readable_file(path: str, text: str) -> None:
    Path(path).write_text(text)
    os.chmod(path, 0o644)


def create_outside_secret(root: Path) -> tuple[str, str]:
    """Create a file to which the command has no access; return its path and its text."""
    folder = root / "beside"
    folder.mkdir(exist_ok=True)
    canary = uuid.uuid4().hex
    path = os.path.realpath(folder / "secret")
    write_readable_file(path, canary)
    return path, canary


@asynccontextmanager
async def run_host_server(abstract_name: str = "") -> AsyncIterator[tuple[int, list[str]]]:
    """Run a server on the host, on a port or an abstract Unix socket; yield the port and what it received."""
    received: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append((await reader.read(100)).decode())
        writer.close()

    if abstract_name:
        server: asyncio.Server = await asyncio.start_unix_server(serve, "\0" + abstract_name)
        port = 0
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
    async with server:
        yield port, received


class SandboxEscapeSuite(SandboxSuiteBase):
    """Tests of confinement; a subclass overrides `make`."""

    async def test_the_owners_home_is_not_visible(self, tmp_path: Path) -> None:
        canary = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix=".canary-", dir=Path.home()) as folder:
            write_readable_file(f"{folder}/id_rsa", canary)
            home = Path.home()
            script = (
                f"cat {folder}/id_rsa; cd {home}; grep -rs {canary[:8]} {folder} /proc/1/root{folder}; ls -A {home}"
            )
            result = await self.run_script(tmp_path, f"{script}; ls -A {home}/.ssh; ls -A ~; :")
            assert Path(folder).name.encode() not in result.stdout
        assert canary.encode() not in result.stdout
        assert b".ssh" not in result.stdout

    async def test_nothing_outside_of_its_folders_is_read(self, tmp_path: Path) -> None:
        path, canary = create_outside_secret(tmp_path)
        attempts = [f"cat {path}", f"cat ../beside/secret /proc/self/cwd/../beside/secret /proc/1/root{path}"]
        attempts += [f"cat /proc/*/root{path}", "cat /etc/shadow /root/.bashrc /run/docker.sock /var/log/*"]
        result = await self.run_script(tmp_path, "\n".join(attempts))
        assert result.stdout == b""
        assert canary.encode() not in result.stderr

    async def test_nothing_outside_of_its_folders_is_written(self, tmp_path: Path) -> None:
        path, canary = create_outside_secret(tmp_path)
        name = f"escaped-{uuid.uuid4().hex}"
        folders = (
            "/",
            "/usr",
            "/usr/bin",
            "/etc",
            "/dev",
            "/var",
            "/opt",
            "/run",
            str(Path.home()),
            "/proc/sys/kernel",
        )
        attempts = [f"echo x > {folder}/{name} && echo wrote {folder}" for folder in (*folders, os.path.dirname(path))]
        attempts += [
            f"echo x >> {path} && echo wrote",
            f"rm -f {path} && echo maybe",
            f"mkdir -p {os.path.dirname(path)}",
        ]
        result = await self.run_script(tmp_path, "\n".join(attempts) + f"; echo x > /tmp/{name}; :")
        for folder in folders:
            if not folder.startswith("/tmp"):  # the sandbox has its own /tmp
                assert f"wrote {folder}\n".encode() not in result.stdout
        assert read_text(path) == canary
        for folder in (*folders, os.path.dirname(path), "/tmp", "/var/tmp"):
            assert read_text(f"{folder}/{name}") is None

    async def test_a_symlink_in_the_workspace_does_not_lead_outside(self, tmp_path: Path) -> None:
        """F32"""
        path, canary = create_outside_secret(tmp_path)
        work = Path(create_folders(tmp_path).cwd)
        (work / "planted").symlink_to(path)
        (work / "folder").symlink_to(os.path.dirname(path))
        links = f"ln -s {path} own; ln {path} hard; ln -s /proc/1/root/{path} root"
        attempts = "cat planted folder/secret own hard root; echo x > planted; echo x > own; echo x > folder/new"
        result = await self.run_script(tmp_path, f"{links}; {attempts}; rm -rf folder/; :")
        assert canary.encode() not in result.stdout
        assert read_text(path) == canary
        assert sorted(os.listdir(os.path.dirname(path))) == ["secret"]

    async def test_the_network_is_unreachable(self, tmp_path: Path) -> None:
        async with run_host_server() as (port, received):
            script = (
                "import socket\n"
                f"for where in (('127.0.0.1', {port}), ('{_host_address()}', {port}), ('1.1.1.1', 53)):\n"
                "    try: socket.create_connection(where, 2).sendall(b'out')\n"
                "    except OSError: print('no')\n"
                "    else: print('reached', where)\n"
                "udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "try: udp.sendto(b'out', ('1.1.1.1', 53))\n"
                "except OSError: print('no')"
            )
            result = await self.run_command(tmp_path, self._python_command(tmp_path, script))
            assert result.stdout.split() == [b"no"] * 4, result
            assert received == []

    async def test_the_network_is_reachable_if_granted(self, tmp_path: Path) -> None:
        async with run_host_server() as (port, received):
            script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).sendall(b'out')"
            result = await self.run_command(tmp_path, replace(self._python_command(tmp_path, script), network=True))
            assert (result.exit_code, result.stderr) == (0, b"")
            await asyncio.sleep(0)
        assert received == ["out"]

    async def test_abstract_sockets_are_unreachable(self, tmp_path: Path) -> None:
        name = uuid.uuid4().hex
        async with run_host_server(name) as (_, received):
            script = (
                f"import socket; s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + '{name}'); s.sendall(b'out')"
            )
            result = await self.run_command(tmp_path, self._python_command(tmp_path, script))
            assert result.exit_code == 1
            assert received == []

    async def test_other_processes_are_neither_seen_nor_signalled(self, tmp_path: Path) -> None:
        marker = uuid.uuid4().hex
        other = await asyncio.create_subprocess_exec("sleep", "600", env={"MARK": marker, "PATH": os.environ["PATH"]})
        try:
            script = (
                f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; kill -9 {other.pid}; kill -9 {os.getpid()}; ls /proc"
            )
            result = await self.run_script(tmp_path, script)
            assert marker.encode() not in result.stdout
            assert sum(line.isdigit() for line in result.stdout.split()) < 10
            assert other.returncode is None
        finally:
            other.kill()
            await other.wait()

    async def test_its_supervisor_can_be_neither_inspected_nor_killed(self, tmp_path: Path) -> None:
        script = (
            "import ctypes, os\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "print('traced' if libc.ptrace(16, 1, 0, 0) == 0 else 'no')\n"
            "try: os.kill(1, 9)\n"
            "except OSError: print('no')\n"
            "paths = ['/proc/1/mem', '/proc/1/environ', '/proc/1/root', '/proc/1/cwd', '/proc/1/exe']\n"
            "for path in paths + [f'/proc/1/fd/{n}' for n in range(3, 30)]:\n"
            "    try: os.open(path, os.O_RDONLY); print('open', path)\n"
            "    except OSError: print('no')\n"
            "print('alive')"
        )
        result = await self.run_command(tmp_path, self._python_command(tmp_path, script))
        assert b"traced" not in result.stdout
        assert b"open" not in result.stdout
        assert b"alive" in result.stdout, result

    async def test_it_can_neither_mount_nor_gain_privileges(self, tmp_path: Path) -> None:
        attempts = (
            "unshare -U true",
            "unshare -Ur true",
            "mount -t tmpfs none /tmp",
            "mount --bind /tmp /usr",
            "chroot /",
        )
        result = await self.run_script(
            tmp_path, "\n".join(f"{attempt} 2>/dev/null && echo could {attempt}" for attempt in attempts) + "\n:"
        )
        assert result.stdout == b""
        status = (
            await self.run_script(tmp_path, "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status")
        ).stdout.split()
        assert {int(word, 16) for word in status[1::2]} == {0, 1}

    async def test_it_cannot_inject_terminal_input(self, tmp_path: Path) -> None:
        script = (
            "import fcntl, os, termios\n"
            "ends = os.openpty()\n"
            "for end in ends:\n"
            "    try: fcntl.ioctl(end, termios.TIOCSTI, b'x'); print('typed')\n"
            "    except OSError: print('no')\n"
            "try: os.open('/dev/tty', os.O_RDWR); print('a terminal')\n"
            "except OSError: print('no')"
        )
        result = await self.run_command(tmp_path, self._python_command(tmp_path, script))
        assert result.stdout.split() == [b"no"] * 3, result

    async def test_its_temporary_folders_are_limited_in_size(self, tmp_path: Path) -> None:
        for folder in ("/tmp", "/dev/shm", "/var/tmp"):
            result = await self.run_script(
                tmp_path, f"head -c 600000000 /dev/zero > {folder}/fill; echo $?; stat -c %s {folder}/fill"
            )
            assert result.stdout.split()[0] != b"0"
            assert int(result.stdout.split()[1]) <= 300_000_000

    async def test_hidden_files_stay_hidden_under_every_name(self, tmp_path: Path) -> None:
        """F53"""
        canary = uuid.uuid4().hex
        key, folder = (
            write_file(tmp_path, "a/b/key", canary),
            os.path.dirname(write_file(tmp_path, "closed/inner", canary)),
        )
        missing = f"{create_folders(tmp_path).cwd}/policy.yaml"
        folders = replace(create_folders(tmp_path), protected=(key, folder, missing))
        attempts = [
            "cat a/b/key closed/inner; ls closed; echo x > a/b/key; echo x > closed/inner; rm -rf closed a/b/key"
        ]
        attempts += [
            "ln a/b/key own; ln -s a/b/key link; cat own link; mv a/b/key k; mv a aa; mv a/b bb; mv closed open"
        ]
        attempts += ["cp -r a copied; echo x > closed/new; echo x > policy.yaml; mkdir policy.yaml; ls -R"]
        result = await self.run_command(
            tmp_path, replace(self.build_command(tmp_path, "\n".join(attempts)), folders=folders)
        )
        assert canary.encode() not in result.stdout
        assert read_text(key) == read_text(f"{folder}/inner") == canary
        assert os.listdir(folder) == ["inner"]
        assert read_text(missing) is None
        again = replace(self.build_command(tmp_path, f"grep -r {canary[:8]} ."), folders=folders)
        assert canary.encode() not in (await self.run_command(tmp_path, again)).stdout

    async def test_read_only_folders_cannot_be_written(self, tmp_path: Path) -> None:
        path, canary = create_outside_secret(tmp_path)
        inner = os.path.dirname(write_file(tmp_path, "vendor/lib", "as it was"))
        base_folders = create_folders(tmp_path)
        folders = replace(base_folders, readable=(os.path.dirname(path), inner))
        script = f"cat {path}; echo x > {path}; rm -f {path}; echo x > vendor/lib; mv vendor v; echo fine > own"
        result = await self.run_command(tmp_path, replace(self.build_command(tmp_path, script), folders=folders))
        assert result.stdout.decode() == canary == read_text(path)
        assert read_text(f"{inner}/lib") == "as it was"
        assert read_text(f"{base_folders.cwd}/own") == "fine\n"

    def _python_command(self, folder: Path, script: str) -> SandboxCommand:
        Path(create_folders(folder).cwd, "tried.py").write_text(script)
        return self.build_command(folder, f"{PYTHON_COMMAND} tried.py")


def _host_address() -> str:
    """Return an address of this machine other than 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.2"
