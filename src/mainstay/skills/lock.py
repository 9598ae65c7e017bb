"""`skills/lock.json` of a scope: which skills were installed there, from where, and what their files were then.

What stands in a skills folder and not in its lock is the owner's own. So no skill of somebody else's is ever in its
place without an entry here, not even for a moment (skills/package).
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.io.packages import LOCK, digest_of, read_lock_file, recovered, write_lock_file
from mainstay.trust.guards.lines import one_line

__all__ = ["Pinned", "checked_name", "digest_of", "is_name", "read_lock", "recover", "write_lock"]

BYTES_MAX = 8 * 1024 * 1024
NAME_CHARS_MAX = 64
NAME_BYTES_MAX = 200  # of what a file system takes, some are ours
UNREADABLE = "unreadable"  # no file has this hash


class Pinned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A skill that was installed: the very files that were shown.

    A linked one (`link` is the folder that it leads to, absolute and real) is what it is there: `read_lock` gives it
    the digest and trust that the lock beside that folder has. An empty digest means that nothing is pinned: it is the
    owner's own there, and edits show here at once.
    """

    name: str
    digest: str  # "sha256:…" over all files
    source: str = ""  # a path or address, as it was given
    at: str = ""  # when, as ISO 8601 in UTC
    trusted: bool = False  # the owner has read it and vouches for it
    link: str = ""
    findings: tuple[str, ...] = ()  # what the scan said when it was installed
    files: dict[str, str] = {}  # the beginning of each file's hash, to tell what has changed; never to decide it


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skills: tuple[Pinned, ...] = ()
    format: int = 1


def read_lock(skills_folder: Path) -> dict[str, Pinned]:
    """By name. Raises ConfigError if it cannot be read: then nobody knows whose words the skills of this folder are."""
    return {name: _where_it_leads(one) if one.link else one for name, one in read_own(skills_folder).items()}


def read_own(skills_folder: Path) -> dict[str, Pinned]:
    """As it is written: a linked one without what is known where it leads."""
    data = read_lock_file(skills_folder, BYTES_MAX)
    if data is None:
        return {}
    try:
        lock = msgspec.json.decode(data, type=_Lock)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        lock = None
    sound = lock is not None and lock.format == 1 and len(data) <= BYTES_MAX and all(map(_is_sound, lock.skills))
    if lock is None or not sound:
        path = one_line(str(skills_folder / LOCK))
        # Without its lock, whatever lies in the folder would count as the owner's own.
        how = "move the skills that were installed away with it, and install them again"
        raise ConfigError(f"{path} is damaged, or of a newer release; {how}")
    return {one.name: one for one in lock.skills}


def _is_sound(one: Pinned) -> bool:
    return is_name(one.name) and (bool(one.digest) != bool(one.link)) and (not one.link or one.link.startswith("/"))


def _where_it_leads(one: Pinned) -> Pinned:
    there = Path(one.link)
    try:
        known = read_own(there.parent).get(there.name)
    except ConfigError:
        return msgspec.structs.replace(one, digest=UNREADABLE, trusted=False)
    if known is None:
        return msgspec.structs.replace(one, digest="", trusted=True)
    return msgspec.structs.replace(
        one,
        digest=known.digest or UNREADABLE,  # a link to a link is never made
        trusted=known.trusted,
        findings=known.findings,
        files=known.files,
    )


def write_lock(skills_folder: Path, skills: dict[str, Pinned]) -> None:
    """Replaced in one step: whoever reads sees the old one or the new one. Raises ConfigError for what could not be
    read again: that would be the end of the whole lock."""
    pinned = (skills[name] for name in sorted(skills))
    plain = tuple(
        msgspec.structs.replace(one, digest="", trusted=False, findings=(), files={}) if one.link else one
        for one in pinned
    )
    if odd := [one.name for one in plain if not _is_sound(one)]:
        raise ConfigError(f"{one_line(odd[0])} cannot be pinned: a name and a hash or a link are needed")
    try:
        data = msgspec.json.format(msgspec.json.encode(_Lock(plain)), indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise ConfigError(f"{one_line(str(error.object))[:200]} is not UTF-8, and no lock can hold it") from None
    if len(data) > BYTES_MAX:
        raise ConfigError(f"too many skills are installed in {one_line(str(skills_folder))}; remove some")
    write_lock_file(skills_folder, data)


def recover(skills_folder: Path) -> bool:
    """True if a command was killed half-way and what the lock names is in its place only now."""
    return recovered(skills_folder, "a skill", lambda name: pinned_state(skills_folder, name))


def pinned_state(skills_folder: Path, name: str) -> str:
    """As `edges.packages.standing` says it of the place: a digest, or where a link leads."""
    pinned = read_own(skills_folder).get(name)
    if pinned is None:
        return ""
    return f"link:{pinned.link}" if pinned.link else pinned.digest


def is_name(name: str) -> bool:
    """As the specification has it: small letters of any language, digits, single hyphens in between."""
    return (
        0 < len(name) <= NAME_CHARS_MAX
        and name == unicodedata.normalize("NFKC", name) == name.lower()
        and not name.startswith("-")
        and not name.endswith("-")
        and "--" not in name
        and all(char == "-" or char.isalnum() for char in name)
        and len(name.encode()) <= NAME_BYTES_MAX
    )


def checked_name(name: str) -> str:
    """A skill's name, from which a path may be made. Raises ConfigError."""
    if not is_name(name):
        rule = f"small letters, digits and single hyphens, at most {NAME_CHARS_MAX}"
        raise ConfigError(f"{one_line(name)[:80]!r} is no skill's name: {rule}")
    return name
