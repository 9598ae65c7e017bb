"""Where a skill comes from: a folder, an archive, or an address; and which skills are in it.

What is brought is unpacked into a folder of ours that nobody else can enter, looked at there, and gone afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.io.addresses import AddressRefused, place_of
from mainstay.io.archives import ArchiveRefused, Bounds, unpack
from mainstay.io.fetch import Fetched, FetchRules, fetch
from mainstay.io.packages import LEFT_OUT
from mainstay.io.response import FetchFailed
from mainstay.skills.header import FILES
from mainstay.trust.guards.lines import one_line

DOWNLOAD_BYTES_MAX = 50 * 1024 * 1024
DOWNLOAD_S = 300.0
BOUNDS = Bounds(archive_bytes_max=DOWNLOAD_BYTES_MAX)
DEPTH_MAX = 3
SKILLS_MAX = 1_000
LISTED_MAX = 40
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

Tell = Callable[[str], None]


class Brought(msgspec.Struct, frozen=True):
    """The folder of a skill that was brought, and what its author calls that folder, where that can be told."""

    folder: Path
    called: str = ""


def is_address(given: str) -> bool:
    return "://" in given


@contextmanager
def brought(given: str, archive: Path | None = None) -> Iterator[list[Brought]]:
    """All the skills in a folder or archive; `archive` is what an address gave. Raises ConfigError."""
    with TemporaryDirectory(prefix="mainstay-skill-") as made:
        source = archive if archive is not None else _path(given)
        root = Path(made) / "new"
        root.mkdir(mode=0o700)
        if _is_page(source):
            _place_page(source, root)
        else:
            _unpack(source, root, given)
        found = skills_in(root, given)
        if source.is_dir() and found[0].folder == root:
            found = [Brought(root, source.name)]
        yield found


def _path(given: str) -> Path:
    path = Path(given).expanduser()
    if path.name in FILES and path.is_file() and path.parent.name:
        return path.absolute().parent
    return path.absolute()


def _unpack(source: Path, root: Path, given: str) -> None:
    try:
        unpack(source, root, BOUNDS, left_out=LEFT_OUT)
    except ArchiveRefused as error:
        raise ConfigError(f"{one_line(given)} cannot be installed: {error}") from None


def _is_page(source: Path) -> bool:
    """An address may give a SKILL.md alone."""
    if not source.is_file() or source.stat().st_size > BOUNDS.file_bytes_max:
        return False
    with open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(8).removeprefix(b"\xef\xbb\xbf").startswith((b"---\n", b"---\r\n"))


def _place_page(source: Path, root: Path) -> None:
    (root / FILES[0]).write_bytes(source.read_bytes())


# --- which skills --------------------------------------------------------------------------------


def skills_in(root: Path, given: str) -> list[Brought]:
    """`root` itself is one, or they lie in it, not too deep. Raises ConfigError if there is none."""
    if _has_skill(root):
        return [Brought(root)]
    inside = list(root.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and not _has_skill(inside[0]):
        root = inside[0]  # archives of repositories have one folder around everything
    found = [Brought(one, one.name) for one in _below(root, DEPTH_MAX)]
    if not found:
        raise ConfigError(f"there is no {FILES[0]} in {one_line(given)}, nor at most {DEPTH_MAX} folders below it")
    if len(found) > SKILLS_MAX:
        raise ConfigError(f"{one_line(given)} holds more than {SKILLS_MAX} skills")
    return found


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for one in sorted(folder.iterdir()):
        if one.is_symlink() or not one.is_dir():
            continue
        if _has_skill(one):
            yield one
        elif depth > 1:
            yield from _below(one, depth - 1)


def _has_skill(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FILES)


def choose(found: Sequence[str], wanted: Sequence[str], *, everything: bool, given: str) -> list[int]:
    """Places in `found`, which are the names of all that are there. Raises ConfigError if that is not clear."""
    if everything or (len(found) == 1 and not wanted):
        return list(range(len(found)))
    shown = ", ".join(map(one_line, sorted(found)[:LISTED_MAX])) + (", …" if len(found) > LISTED_MAX else "")
    if not wanted:
        raise ConfigError(f"{one_line(given)} holds {len(found)} skills; choose with --skill NAME, or --all: {shown}")
    if missing := [name for name in wanted if name not in found]:
        raise ConfigError(f"there is no skill {one_line(missing[0])} in {one_line(given)}; there is {shown}")
    return [at for at, name in enumerate(found) if name in wanted]


# --- addresses -----------------------------------------------------------------------------------


async def download(url: str, into: Path, *, private: Sequence[str] = (), tell: Tell = lambda said: None) -> Path:
    """An archive from an address, as a file in the folder `into`. `private` are places of the private network that the
    owner allows, "host:port"; this machine itself is one if the address names it. Raises ConfigError."""
    try:
        place = place_of(url)
        here = place.host in _LOOPBACK
        places = (*private, *([f"{place.host}:{place.port}"] if here else []))
        rules = FetchRules(bytes_max=DOWNLOAD_BYTES_MAX, time_s=DOWNLOAD_S, private_ok=places)
        tell(f"fetching {one_line(place.url)}")
        got = await fetch(url, rules=rules, allow=_encrypted)
    except (AddressRefused, FetchFailed) as error:
        raise ConfigError(f"{one_line(url)[:200]} cannot be fetched: {_lower(str(error))}") from None
    _check(url, got)
    tell(f"fetched {len(got.body):,} bytes" + (f" from {one_line(got.url)}" if got.redirects else ""))
    path = into / "fetched"
    path.write_bytes(got.body)
    return path


def _encrypted(url: str) -> bool:
    """Asked before every request, redirects too: what is not encrypted may be changed on its way."""
    place = place_of(url)
    if place.scheme == "http" and place.host not in _LOOPBACK:
        raise AddressRefused("Only https is fetched from, or this machine itself.")
    return True


def _check(url: str, got: Fetched) -> None:
    if got.status != 200:
        raise ConfigError(f"{one_line(url)[:200]} cannot be fetched: the server answers {got.status}")
    if got.mime == "text/html":
        hint = "give the address of an archive (of a repository, its .zip or .tar.gz)"
        raise ConfigError(f"{one_line(url)[:200]} is a web page, not a skill; {hint}")


def _lower(said: str) -> str:
    return said[:1].lower() + said[1:].rstrip(".")
