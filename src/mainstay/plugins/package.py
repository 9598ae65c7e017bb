"""Plugins as they come and go: a folder or an archive, looked at, moved to its place at once, and pinned."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.io.archives import ArchiveRefused, Bounds, unpack
from mainstay.io.packages import LEFT_OUT, OLD, aside, changing, digest_of, recovered, sync_folder
from mainstay.plugins.grants import given_now
from mainstay.plugins.lock import Installed, read_lock, write_lock
from mainstay.plugins.manifest import FILE, Manifest, Name, asks, changes, read_manifest
from mainstay.trust.guards.lines import one_line

BOUNDS = Bounds(files_max=20_000)
WHAT = "a plugin"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What adding a plugin would mean."""

    manifest: Manifest
    digest: str
    asks: list[str]
    new: list[str]  # those of them that the installed one did not ask for; all, if none is installed
    replaces: str = ""  # the version that is installed now
    changes: list[str] = []  # what it does otherwise than that: sentences that go on from "it"


def plan(source: Path, plugins_folder: Path) -> Plan:
    """Looks at a folder or archive, and changes nothing. Raises ConfigError."""
    with tempfile.TemporaryDirectory(prefix="mainstay-plugin-") as made:
        return _planned(_unpacked(source, Path(made)), plugins_folder)


def install(source: Path, plugins_folder: Path, *, expected: str = "") -> Installed:
    """Adds a plugin, or replaces the one of its name. `expected` is the digest that the owner was shown: anything else
    is refused. Raises ConfigError, and then nothing has changed."""
    with _changing(plugins_folder), _aside(plugins_folder) as made:
        root = _unpacked(source, made)
        found = _planned(root, plugins_folder)
        if expected and found.digest != expected:
            raise ConfigError(f"{one_line(str(source))} has changed since it was looked at; look at it again")
        manifest = found.manifest
        added = Installed(
            name=manifest.name,
            version=manifest.version,
            digest=found.digest,
            needs=given_now(manifest.needs),
            env=tuple(manifest.wants_env()),
            context=manifest.context,
            added=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        with _moved(root, plugins_folder / manifest.name, made):
            write_lock(plugins_folder, {**read_lock(plugins_folder), manifest.name: added})
        return added


def remove(name: str, plugins_folder: Path) -> Installed:
    """What it kept is not removed with it: that is in the workspaces' databases."""
    checked_name(name)
    with _changing(plugins_folder), _aside(plugins_folder) as made:
        known = read_lock(plugins_folder)
        gone = known.pop(name, None)
        if gone is None:
            raise _unknown(name, known)
        write_lock(plugins_folder, known)
        if (plugins_folder / name).exists():
            os.rename(plugins_folder / name, made / f"{OLD}{name}")
        return gone


def installed(plugins_folder: Path) -> list[Installed]:
    return list(read_lock(plugins_folder).values())


def verify(name: str, plugins_folder: Path) -> Manifest:
    """The manifest of an installed plugin whose files are those that were added. Raises ConfigError otherwise: this is
    asked at every load."""
    checked_name(name)
    try:
        return _verified(name, plugins_folder)
    except ConfigError:
        if not _recovered(plugins_folder):
            raise
        return _verified(name, plugins_folder)


def _verified(name: str, plugins_folder: Path) -> Manifest:
    known = read_lock(plugins_folder)
    if name not in known:
        raise _unknown(name, known)
    folder = plugins_folder / name
    again = "; look at it, and run `mainstay plugin add` again"
    try:
        digest = digest_of(folder)
    except OSError as error:
        raise ConfigError(f"the files of plugin {name} cannot be read: {error.strerror}{again}") from None
    except ConfigError as error:
        raise ConfigError(f"plugin {name}: {error}{again}") from None
    if digest != known[name].digest:
        raise ConfigError(f"the files of plugin {name} have changed since it was added{again}")
    manifest = read_manifest(folder)
    assert manifest.name == name, "a folder is called as its manifest says"
    return manifest


def checked_name(name: str) -> str:
    """A plugin's name, from which a path may be made."""
    try:
        return msgspec.convert(name, Name)
    except msgspec.ValidationError:
        raise ConfigError(
            f"{one_line(name)[:60]!r} is no plugin's name: small letters and digits, at most 32"
        ) from None


def _unknown(name: str, known: dict[str, Installed]) -> ConfigError:
    names = ", ".join(sorted(known)) or "none"
    return ConfigError(f"no plugin {name} is installed; those that are: {names}")


# --- steps ---------------------------------------------------------------------------------------


def _unpacked(source: Path, into: Path) -> Path:
    """The folder that holds the manifest: what was unpacked, or the only folder in it."""
    inside = into / "new"
    inside.mkdir(mode=0o755)
    try:
        unpack(source, inside, BOUNDS, left_out=LEFT_OUT)
    except ArchiveRefused as error:
        raise ConfigError(f"{one_line(str(source))} cannot be added: {error}") from None
    found = list(inside.iterdir())
    if not (inside / FILE).exists() and len(found) == 1 and found[0].is_dir():
        return found[0]
    return inside


def _planned(root: Path, plugins_folder: Path) -> Plan:
    manifest = read_manifest(root)
    wanted = asks(manifest)
    before = read_lock(plugins_folder).get(manifest.name)
    old = _before(manifest.name, plugins_folder) if before else None
    had = asks(old) if old is not None else []
    given_now(manifest.needs)  # raises for what cannot be granted
    return Plan(
        manifest=manifest,
        digest=digest_of(root),
        asks=wanted,
        new=[one for one in wanted if one not in had],
        replaces=before.version if before else "",
        changes=changes(old, manifest) if old is not None else [],
    )


def _before(name: str, plugins_folder: Path) -> Manifest | None:
    try:
        return verify(name, plugins_folder)
    except ConfigError:  # nobody knows any more what was shown then
        return None


def _changing(plugins_folder: Path) -> AbstractContextManager[None]:
    return changing(plugins_folder, WHAT)


def _aside(plugins_folder: Path) -> AbstractContextManager[Path]:
    return aside(plugins_folder, partial(_pinned, plugins_folder))


def _recovered(plugins_folder: Path) -> bool:
    """Something that a killed command had moved away is in its place again."""
    return recovered(plugins_folder, WHAT, partial(_pinned, plugins_folder))


def _pinned(plugins_folder: Path, name: str) -> str:
    """What was added last counts until the lock says otherwise."""
    known = read_lock(plugins_folder).get(name)
    return known.digest if known is not None else ""


@contextmanager
def _moved(root: Path, place: Path, aside: Path) -> Iterator[None]:
    """In its place, unless what follows fails. A rename each: whoever is killed between them leaves nothing that would
    verify, never a mixture, and what was there before is found again."""
    old = aside / f"{OLD}{place.name}"
    if place.exists():
        os.rename(place, old)
    try:
        os.rename(root, place)
        sync_folder(place.parent)
        yield
    except BaseException:
        if place.exists():
            os.rename(place, root)
        if old.exists():
            os.rename(old, place)
        raise
