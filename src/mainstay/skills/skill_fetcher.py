"""Fetches skills from a folder, an archive or a URL, and finds the skills in it.

Sources are unpacked into a private temporary folder, which is deleted afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.io.archives import ArchiveLimits
from mainstay.io.fetch import FetchResult, FetchRules, fetch
from mainstay.io.http_response import FetchFailed
from mainstay.io.package_installer import unpack_package
from mainstay.io.urls import AddressRefused, parse_url
from mainstay.skills.frontmatter import SKILL_FILE_NAMES

DOWNLOAD_BYTES_MAX = 50 * 1024 * 1024
DOWNLOAD_TIMEOUT_S = 300.0
ARCHIVE_LIMITS = ArchiveLimits(archive_bytes_max=DOWNLOAD_BYTES_MAX)
DEPTH_MAX = 5
SKILLS_MAX = 1_000
LISTED_NAMES_MAX = 40
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

ProgressCallback = Callable[[str], None]


class UnpackedSkill(msgspec.Struct, frozen=True):
    """The unpacked folder of a skill, and the folder's original name, if known."""

    folder: Path
    folder_name: str = ""
    omitted_links: tuple[str, ...] = ()  # paths in the folder that were links; such a skill is not installed


def is_url(source: str) -> bool:
    return "://" in source


@contextmanager
def open_source(location: str, archive: Path | None = None) -> Iterator[list[UnpackedSkill]]:
    """Unpack a folder or archive and yield the skills in it. `archive` is the downloaded file of a URL.

    Raises ConfigError.
    """
    with TemporaryDirectory(prefix="mainstay-skill-") as folder:
        source = archive if archive is not None else _resolve_path(location)
        root = Path(folder) / "new"
        links: list[str] = []
        if _is_single_file(source):
            root.mkdir(mode=0o755)
            (root / SKILL_FILE_NAMES[0]).write_bytes(source.read_bytes())
        else:
            unpack_package(source, root, ARCHIVE_LIMITS, shown_as=location, omitted_links=links)
        skills = find_skills(root, location)
        if source.is_dir() and skills[0].folder == root:
            skills = [UnpackedSkill(root, source.name)]
        yield [_add_omitted_links(skill, root, links) for skill in skills]


def _add_omitted_links(skill: UnpackedSkill, root: Path, links: Sequence[str]) -> UnpackedSkill:
    """Return the skill with the links of its own folder. Links elsewhere in the source do not concern it."""
    own = [path for link in links if (path := root / link).is_relative_to(skill.folder)]
    paths = tuple(str(path.relative_to(skill.folder)) for path in own)
    return msgspec.structs.replace(skill, omitted_links=paths)


def _resolve_path(location: str) -> Path:
    path = Path(location).expanduser()
    if path.name in SKILL_FILE_NAMES and path.is_file() and path.parent.name:
        return path.absolute().parent
    return path.absolute()


def _is_single_file(source: Path) -> bool:
    """Return whether the source is a single SKILL.md, which a URL may give."""
    if not source.is_file() or source.stat().st_size > ARCHIVE_LIMITS.file_bytes_max:
        return False
    with open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(8).removeprefix(b"\xef\xbb\xbf").startswith((b"---\n", b"---\r\n"))


# --- selection -----------------------------------------------------------------------------------


def find_skills(root: Path, location: str) -> list[UnpackedSkill]:
    """Return `root` if it is a skill, else the skills up to DEPTH_MAX folders below. Raises ConfigError if none."""
    if _has_skill_file(root):
        return [UnpackedSkill(root)]
    inside = list(root.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and not _has_skill_file(inside[0]):
        root = inside[0]  # repository archives have one top folder
    skills = [UnpackedSkill(folder, folder.name) for folder in _walk_skill_folders(root, DEPTH_MAX)]
    if not skills:
        raise ConfigError(
            f"there is no {SKILL_FILE_NAMES[0]} in {one_line(location)} or up to {DEPTH_MAX} folders below it"
        )
    if len(skills) > SKILLS_MAX:
        raise ConfigError(f"{one_line(location)} has more than {SKILLS_MAX} skills")
    return skills


def _walk_skill_folders(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            continue
        if _has_skill_file(path):
            yield path
        elif depth > 1:
            yield from _walk_skill_folders(path, depth - 1)


def _has_skill_file(folder: Path) -> bool:
    return any((folder / name).is_file() for name in SKILL_FILE_NAMES)


def choose_skills(available: Sequence[str], names: Sequence[str], *, choose_all: bool, location: str) -> list[int]:
    """Return indices into `available`, the names of all skills of the source. Raises ConfigError if ambiguous."""
    if choose_all or (len(available) == 1 and not names):
        return list(range(len(available)))
    listed = ", ".join(map(one_line, sorted(available)[:LISTED_NAMES_MAX])) + (
        ", …" if len(available) > LISTED_NAMES_MAX else ""
    )
    if not names:
        raise ConfigError(
            f"{one_line(location)} has {len(available)} skills; choose with --skill NAME, or --all: {listed}"
        )
    if missing := [name for name in names if name not in available]:
        raise ConfigError(f"there is no skill {one_line(missing[0])} in {one_line(location)}; available: {listed}")
    return [index for index, name in enumerate(available) if name in names]


# --- download ------------------------------------------------------------------------------------


async def download_archive(
    url: str, folder: Path, *, private_hosts: Sequence[str] = (), on_progress: ProgressCallback = lambda message: None
) -> Path:
    """Download an archive into a folder and return its path. Raises ConfigError.

    `private_hosts` are allowed hosts of the private network, as "host:port"; loopback is allowed if the URL names it.
    """
    try:
        place = parse_url(url)
        is_loopback = place.host in _LOOPBACK
        allowed = (*private_hosts, *([f"{place.host}:{place.port}"] if is_loopback else []))
        rules = FetchRules(bytes_max=DOWNLOAD_BYTES_MAX, timeout_s=DOWNLOAD_TIMEOUT_S, private_hosts=allowed)
        on_progress(f"fetching {one_line(place.url)}")
        response = await fetch(url, rules=rules, allow=_require_https)
    except (AddressRefused, FetchFailed) as error:
        raise ConfigError(f"{one_line(url)[:200]} cannot be fetched: {_lower_first(str(error))}") from None
    _check_response(url, response)
    on_progress(
        f"fetched {len(response.body):,} bytes" + (f" from {one_line(response.url)}" if response.redirects else "")
    )
    path = folder / "fetched"
    path.write_bytes(response.body)
    return path


def _require_https(url: str) -> bool:
    """Check every request, redirects included: an unencrypted download could be modified in transit."""
    place = parse_url(url)
    if place.scheme == "http" and place.host not in _LOOPBACK:
        raise AddressRefused("Only https URLs are allowed, except on this machine.")
    return True


def _check_response(url: str, response: FetchResult) -> None:
    if response.status != 200:
        raise ConfigError(f"{one_line(url)[:200]} cannot be fetched: the server responded with {response.status}")
    if response.mime == "text/html":
        hint = "give the URL of an archive (for a repository, its .zip or .tar.gz)"
        raise ConfigError(f"{one_line(url)[:200]} is a web page, not a skill; {hint}")


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")
