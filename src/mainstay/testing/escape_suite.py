"""What a sandbox with walls must withstand: each test is a way out, tried from inside.

class TestMySandbox(ConfinedSuite):
    def make(self, where: Path) -> Sandbox: ...
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

from mainstay.core.outside import Command
from mainstay.testing.sandbox_suite import Stage, grounds_at, text_of, write

PYTHON = f"{sys.executable} -S"


def plant(path: str, text: str) -> None:
    Path(path).write_text(text)
    os.chmod(path, 0o644)


def secret_beside(where: Path) -> tuple[str, str]:
    """A file that nobody gave to the command, and what is in it."""
    folder = where / "beside"
    folder.mkdir(exist_ok=True)
    canary = uuid.uuid4().hex
    path = os.path.realpath(folder / "secret")
    plant(path, canary)
    return path, canary


@asynccontextmanager
async def listening(abstract: str = "") -> AsyncIterator[tuple[int, list[str]]]:
    """A service of the host, its port, and what it heard."""
    heard: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.read(100)).decode())
        writer.close()

    if abstract:
        server: asyncio.Server = await asyncio.start_unix_server(serve, "\0" + abstract)
        port = 0
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
    async with server:
        yield port, heard


class ConfinedSuite(Stage):
    """Ways out. `make` is the one thing a subclass must say."""

    async def test_the_owners_home_is_not_there(self, tmp_path: Path) -> None:
        canary = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix=".canary-", dir=Path.home()) as folder:
            plant(f"{folder}/id_rsa", canary)
            home = Path.home()
            script = (
                f"cat {folder}/id_rsa; cd {home}; grep -rs {canary[:8]} {folder} /proc/1/root{folder}; ls -A {home}"
            )
            ran = await self.run(tmp_path, f"{script}; ls -A {home}/.ssh; ls -A ~; :")
            assert Path(folder).name.encode() not in ran.stdout
        assert canary.encode() not in ran.stdout
        assert b".ssh" not in ran.stdout

    async def test_nothing_outside_of_its_folders_is_read(self, tmp_path: Path) -> None:
        path, canary = secret_beside(tmp_path)
        tries = [f"cat {path}", f"cat ../beside/secret /proc/self/cwd/../beside/secret /proc/1/root{path}"]
        tries += [f"cat /proc/*/root{path}", "cat /etc/shadow /root/.bashrc /run/docker.sock /var/log/*"]
        ran = await self.run(tmp_path, "\n".join(tries))
        assert ran.stdout == b""
        assert canary.encode() not in ran.stderr

    async def test_nothing_outside_of_its_folders_is_written(self, tmp_path: Path) -> None:
        path, canary = secret_beside(tmp_path)
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
        tries = [f"echo x > {folder}/{name} && echo wrote {folder}" for folder in (*folders, os.path.dirname(path))]
        tries += [f"echo x >> {path} && echo wrote", f"rm -f {path} && echo maybe", f"mkdir -p {os.path.dirname(path)}"]
        ran = await self.run(tmp_path, "\n".join(tries) + f"; echo x > /tmp/{name}; :")
        for folder in folders:
            if not folder.startswith("/tmp"):  # that is its own
                assert f"wrote {folder}\n".encode() not in ran.stdout
        assert text_of(path) == canary
        for folder in (*folders, os.path.dirname(path), "/tmp", "/var/tmp"):
            assert text_of(f"{folder}/{name}") is None

    async def test_a_link_in_the_workspace_leads_nowhere(self, tmp_path: Path) -> None:
        """F32"""
        path, canary = secret_beside(tmp_path)
        work = Path(grounds_at(tmp_path).cwd)
        (work / "planted").symlink_to(path)
        (work / "folder").symlink_to(os.path.dirname(path))
        made = f"ln -s {path} own; ln {path} hard; ln -s /proc/1/root/{path} root"
        tries = "cat planted folder/secret own hard root; echo x > planted; echo x > own; echo x > folder/new"
        ran = await self.run(tmp_path, f"{made}; {tries}; rm -rf folder/; :")
        assert canary.encode() not in ran.stdout
        assert text_of(path) == canary
        assert sorted(os.listdir(os.path.dirname(path))) == ["secret"]

    async def test_the_network_is_not_reached(self, tmp_path: Path) -> None:
        async with listening() as (port, heard):
            script = (
                "import socket\n"
                f"for where in (('127.0.0.1', {port}), ('{_address()}', {port}), ('1.1.1.1', 53)):\n"
                "    try: socket.create_connection(where, 2).sendall(b'out')\n"
                "    except OSError: print('no')\n"
                "    else: print('reached', where)\n"
                "udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "try: udp.sendto(b'out', ('1.1.1.1', 53))\n"
                "except OSError: print('no')"
            )
            ran = await self.run_command(tmp_path, self._python(tmp_path, script))
            assert ran.stdout.split() == [b"no"] * 4, ran
            assert heard == []

    async def test_granted_it_is(self, tmp_path: Path) -> None:
        async with listening() as (port, heard):
            script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).sendall(b'out')"
            ran = await self.run_command(tmp_path, replace(self._python(tmp_path, script), network=True))
            assert (ran.code, ran.stderr) == (0, b"")
            await asyncio.sleep(0)
        assert heard == ["out"]

    async def test_abstract_sockets_are_not_reached(self, tmp_path: Path) -> None:
        name = uuid.uuid4().hex
        async with listening(name) as (_, heard):
            script = (
                f"import socket; s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + '{name}'); s.sendall(b'out')"
            )
            ran = await self.run_command(tmp_path, self._python(tmp_path, script))
            assert ran.code == 1
            assert heard == []

    async def test_other_processes_are_neither_seen_nor_signalled(self, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        other = await asyncio.create_subprocess_exec("sleep", "600", env={"MARK": mark, "PATH": os.environ["PATH"]})
        try:
            script = (
                f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; kill -9 {other.pid}; kill -9 {os.getpid()}; ls /proc"
            )
            ran = await self.run(tmp_path, script)
            assert mark.encode() not in ran.stdout
            assert sum(line.isdigit() for line in ran.stdout.split()) < 10
            assert other.returncode is None
        finally:
            other.kill()
            await other.wait()

    async def test_its_keeper_can_neither_be_looked_into_nor_killed(self, tmp_path: Path) -> None:
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
        ran = await self.run_command(tmp_path, self._python(tmp_path, script))
        assert b"traced" not in ran.stdout
        assert b"open" not in ran.stdout
        assert b"alive" in ran.stdout, ran

    async def test_nothing_is_mounted_and_no_rights_are_gained(self, tmp_path: Path) -> None:
        tries = (
            "unshare -U true",
            "unshare -Ur true",
            "mount -t tmpfs none /tmp",
            "mount --bind /tmp /usr",
            "chroot /",
        )
        ran = await self.run(tmp_path, "\n".join(f"{one} 2>/dev/null && echo could {one}" for one in tries) + "\n:")
        assert ran.stdout == b""
        status = (await self.run(tmp_path, "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status")).stdout.split()
        assert {int(word, 16) for word in status[1::2]} == {0, 1}

    async def test_no_terminal_is_typed_into(self, tmp_path: Path) -> None:
        script = (
            "import fcntl, os, termios\n"
            "ends = os.openpty()\n"
            "for end in ends:\n"
            "    try: fcntl.ioctl(end, termios.TIOCSTI, b'x'); print('typed')\n"
            "    except OSError: print('no')\n"
            "try: os.open('/dev/tty', os.O_RDWR); print('a terminal')\n"
            "except OSError: print('no')"
        )
        ran = await self.run_command(tmp_path, self._python(tmp_path, script))
        assert ran.stdout.split() == [b"no"] * 3, ran

    async def test_its_own_places_are_bounded(self, tmp_path: Path) -> None:
        for folder in ("/tmp", "/dev/shm", "/var/tmp"):
            ran = await self.run(
                tmp_path, f"head -c 600000000 /dev/zero > {folder}/fill; echo $?; stat -c %s {folder}/fill"
            )
            assert ran.stdout.split()[0] != b"0"
            assert int(ran.stdout.split()[1]) <= 300_000_000

    async def test_hidden_files_stay_hidden_under_every_name(self, tmp_path: Path) -> None:
        """F53"""
        canary = uuid.uuid4().hex
        key, folder = write(tmp_path, "a/b/key", canary), os.path.dirname(write(tmp_path, "closed/inner", canary))
        missing = f"{grounds_at(tmp_path).cwd}/policy.yaml"
        hidden = replace(grounds_at(tmp_path), protected=(key, folder, missing))
        tries = ["cat a/b/key closed/inner; ls closed; echo x > a/b/key; echo x > closed/inner; rm -rf closed a/b/key"]
        tries += ["ln a/b/key own; ln -s a/b/key link; cat own link; mv a/b/key k; mv a aa; mv a/b bb; mv closed open"]
        tries += ["cp -r a copied; echo x > closed/new; echo x > policy.yaml; mkdir policy.yaml; ls -R"]
        ran = await self.run_command(tmp_path, replace(self.command(tmp_path, "\n".join(tries)), grounds=hidden))
        assert canary.encode() not in ran.stdout
        assert text_of(key) == text_of(f"{folder}/inner") == canary
        assert os.listdir(folder) == ["inner"]
        assert text_of(missing) is None
        again = replace(self.command(tmp_path, f"grep -r {canary[:8]} ."), grounds=hidden)
        assert canary.encode() not in (await self.run_command(tmp_path, again)).stdout

    async def test_what_is_only_to_be_read_is_only_read(self, tmp_path: Path) -> None:
        path, canary = secret_beside(tmp_path)
        inner = os.path.dirname(write(tmp_path, "vendor/lib", "as it was"))
        grounds = grounds_at(tmp_path)
        given = replace(grounds, readable=(os.path.dirname(path), inner))
        script = f"cat {path}; echo x > {path}; rm -f {path}; echo x > vendor/lib; mv vendor v; echo fine > own"
        ran = await self.run_command(tmp_path, replace(self.command(tmp_path, script), grounds=given))
        assert ran.stdout.decode() == canary == text_of(path)
        assert text_of(f"{inner}/lib") == "as it was"
        assert text_of(f"{grounds.cwd}/own") == "fine\n"

    def _python(self, where: Path, script: str) -> Command:
        Path(grounds_at(where).cwd, "tried.py").write_text(script)
        return self.command(where, f"{PYTHON} tried.py")


def _address() -> str:
    """One of this machine's own, if it has any beside loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.2"
