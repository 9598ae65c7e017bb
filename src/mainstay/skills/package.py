"""Skills as they come and go: looked at, moved to their place whole, pinned, linked, taken away.

What stands in a skills folder without an entry in its lock counts as the owner's own words. So a lock is written before
what it names is moved in, and after what it named was moved out: whoever is killed at any moment leaves a skill that
is not used, never one that is trusted. The next command finishes what was begun (edges/packages).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.io.archives import ArchiveRefused, unpack
from mainstay.io.packages import NEW, OLD, aside, changing, digest_of, standing, sync_folder, sync_tree
from mainstay.skills.header import SkillRefused
from mainstay.skills.lock import Pinned, checked_name, is_name, pinned_state, read_lock, read_own, write_lock
from mainstay.skills.plan import Before, Plan, changed, plan, short_digests
from mainstay.skills.skill import read_skill
from mainstay.skills.source import BOUNDS
from mainstay.trust.guards.lines import one_line

__all__ = [
    "Before",
    "Plan",
    "approve",
    "changes",
    "copy",
    "distrust",
    "install",
    "link",
    "plan",
    "remove",
    "trust",
    "vouch",
]

WRITTEN_HERE = "an agent that worked here"

WHAT = "a skill"
FINDINGS_KEPT_MAX = 20

Lock = dict[str, Pinned]


# --- installing ----------------------------------------------------------------------------------


def install(
    plans: Sequence[Plan], skills_folder: Path, *, trusted: bool = False, force: bool = False
) -> dict[str, Pinned]:
    """Installs all of them or none, each in the place of an installed one of its name. Raises ConfigError, and then
    nothing has changed. `force`: dangers are known, and what is the owner's own is replaced."""
    _refuse_twins(plans)
    for one in plans:
        if one.dangers and not force:
            raise ConfigError(f"{one.name} looks dangerous: {one.dangers[0]}; read it, and add --force to install it")
    with _changing(skills_folder), _aside(skills_folder) as made:
        known = read_own(skills_folder)
        for one in plans:
            if one.name not in known:
                _refuse_other(one.name, skills_folder, known, force=force)
        added = {}
        for one in plans:
            before = known.get(one.name)
            vouched = before is not None and before.trusted and before.digest == one.digest  # for these very files
            added[one.name] = _pinned(_staged(one.name, one.folder, one.digest, made), one, trusted or vouched)
        _move(skills_folder, list(added), made, [known, {**known, **added}])
        return added


def _refuse_twins(plans: Sequence[Plan]) -> None:
    names = [one.name for one in plans]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two skills are called {twins[0]}; install one of them by itself")


def _refuse_other(name: str, skills_folder: Path, known: dict[str, Pinned], *, force: bool) -> None:
    if os.path.lexists(skills_folder / name) and not force:
        whose = "was installed" if name in known else "is your own"
        raise ConfigError(f"{name} is there already, and {whose}; --force replaces it")


def _staged(name: str, folder: Path, digest: str, made: Path) -> Path:
    """Beside the place that it goes to, on disk, and the very thing that was looked at."""
    root = made / f"{NEW}{name}"
    root.mkdir(mode=0o755)
    try:
        unpack(folder, root, BOUNDS)
    except ArchiveRefused as error:
        raise ConfigError(f"{name} cannot be installed: {error}") from None
    if digest_of(root) != digest:
        raise _changed_meanwhile(name)
    sync_tree(root)
    return root


def _pinned(folder: Path, one: Plan, trusted: bool) -> Pinned:
    return Pinned(
        one.name,
        one.digest,
        source=one.source,
        at=_now(),
        trusted=trusted,
        findings=tuple(map(str, one.findings[:FINDINGS_KEPT_MAX])),
        files=short_digests(folder),
    )


def _move(skills_folder: Path, names: Sequence[str], made: Path, locks: Sequence[Lock]) -> None:
    """First the lock, then each to its place. `locks` are what it was, what it is to be, and what it is to be once all
    is in its place, if that is another. If something fails, all is as it was."""
    begun: list[str] = []
    try:
        write_lock(skills_folder, locks[1])
        for name in names:
            begun.append(name)
            _move_in(skills_folder / name, made)
        sync_folder(skills_folder)
        for lock in locks[2:]:
            write_lock(skills_folder, lock)
    except BaseException:
        write_lock(skills_folder, locks[1])
        for name in reversed(begun):
            _move_out(skills_folder / name, made)
        write_lock(skills_folder, locks[0])
        raise


def _move_in(place: Path, made: Path) -> None:
    if os.path.lexists(place):
        os.rename(place, made / f"{OLD}{place.name}")
    os.rename(made / f"{NEW}{place.name}", place)


def _write(skills_folder: Path, lock: Lock, before: Lock) -> None:
    """Nothing has changed if it fails, even if that is only because nobody knows whether it is on disk."""
    try:
        write_lock(skills_folder, lock)
    except BaseException:
        write_lock(skills_folder, before)
        raise


def _move_out(place: Path, made: Path) -> None:
    new, old = made / f"{NEW}{place.name}", made / f"{OLD}{place.name}"
    if not os.path.lexists(new) and os.path.lexists(place):
        os.rename(place, new)
    if os.path.lexists(old):
        os.rename(old, place)


# --- what is there -------------------------------------------------------------------------------


def changes(name: str, skills_folder: Path) -> Plan:
    """What an installed skill is now, and what of that was not approved."""
    pinned = _known(name, skills_folder)
    if pinned.link:
        raise ConfigError(f"{name} is a link to {one_line(pinned.link)}; approve it there")
    return changed(pinned, skills_folder)


def approve(found: Plan, skills_folder: Path, *, trusted: bool = False) -> Pinned:
    """Pins what is there now, which is what was shown. Whoever trusted it has trusted what it was."""
    with _changing(skills_folder), _aside(skills_folder):
        known = read_own(skills_folder)
        if found.name not in known:
            raise _unknown(found.name, skills_folder)
        if standing(skills_folder / found.name) != found.digest:
            raise _changed_meanwhile(found.name)
        made = _pinned(skills_folder / found.name, found, trusted)
        _write(skills_folder, {**known, found.name: made}, known)
        return made


def trust(name: str, skills_folder: Path, shown: str) -> Pinned:
    """Its words count as the owner's from now on. Raises ConfigError if it is not what was installed, or not what the
    owner was shown: `shown` is the hash of that."""
    _trustable(name, skills_folder)
    with _changing(skills_folder), _aside(skills_folder):
        pinned = _trustable(name, skills_folder)
        if (now := standing(skills_folder / name)) != pinned.digest:
            raise _changed_since(name)
        if now != shown:
            raise _changed_meanwhile(name)
        return _trusted(pinned, skills_folder, True)


def distrust(name: str, skills_folder: Path) -> Pinned:
    """Its words are somebody else's again, whatever they are by now. Raises ConfigError if it was not installed."""
    _trustable(name, skills_folder)
    with _changing(skills_folder), _aside(skills_folder):
        return _trusted(_trustable(name, skills_folder), skills_folder, False)


def _trustable(name: str, skills_folder: Path) -> Pinned:
    pinned = _known(name, skills_folder)
    if pinned.link:
        raise ConfigError(f"{name} is a link to {one_line(pinned.link)}; trust it there")
    return pinned


def _trusted(pinned: Pinned, skills_folder: Path, trusted: bool) -> Pinned:
    made = msgspec.structs.replace(pinned, trusted=trusted)
    known = read_own(skills_folder)
    _write(skills_folder, {**known, made.name: made}, known)
    return made


def vouch(name: str, skills_folder: Path, shown: str) -> Pinned:
    """What an agent wrote here counts as the owner's word: pinned, as if it had been installed. Raises ConfigError if
    it is not what the owner was shown: `shown` is the hash of that."""
    checked_name(name)
    if not os.path.lexists(skills_folder / name):
        raise _unknown(name, skills_folder)
    with _changing(skills_folder), _aside(skills_folder):
        known = read_own(skills_folder)
        if not shown or standing(skills_folder / name) != shown:
            raise _changed_meanwhile(name)
        made = Pinned(
            name, shown, source=WRITTEN_HERE, at=_now(), trusted=True, files=short_digests(skills_folder / name)
        )
        _write(skills_folder, {**known, name: made}, known)
        return made


def remove(name: str, skills_folder: Path) -> Pinned | None:
    """Takes a skill out; a link alone, if it is one. None if it was the owner's own. Raises ConfigError."""
    checked_name(name)
    place = skills_folder / name
    if not os.path.lexists(place) and name not in read_own(skills_folder):
        raise _unknown(name, skills_folder)
    with _changing(skills_folder), _aside(skills_folder) as made:
        known = read_own(skills_folder)
        try:
            if os.path.lexists(place):  # out of its place first: without its entry it would count as the owner's own
                os.rename(place, made / f"{OLD}{name}")
                sync_folder(skills_folder)
            if name in known:
                _write(skills_folder, {one: it for one, it in known.items() if one != name}, known)
        except BaseException:
            if os.path.lexists(old := made / f"{OLD}{name}"):
                os.rename(old, place)
            raise
        return known.get(name)


# --- to other workspaces -------------------------------------------------------------------------


def copy(name: str, source: Path, target: Path, *, force: bool = False, outside: bool = False) -> Pinned | None:
    """To another skills folder: what was installed stays so, with the same trust; what is the owner's own stays that,
    unless it is known that others had a hand in it (`outside`). Raises ConfigError."""
    folder = _folder(name, source, target)
    pinned = read_lock(source).get(name)
    digest = digest_of(folder)
    if pinned is not None and pinned.digest and digest != pinned.digest:
        raise _changed_since(name)
    with _changing(target), _aside(target) as made:
        known = read_own(target)
        _refuse_other(name, target, known, force=force)
        root = _staged(name, folder, digest, made)
        entry = Pinned(
            name, digest, source="an agent that had read others' words", at=_now(), files=short_digests(root)
        )
        if pinned is not None and pinned.digest:
            entry = msgspec.structs.replace(pinned, link="", at=_now())
        locks: list[Lock] = [known, {**known, name: entry}]
        own = not outside and (pinned is None or not pinned.digest)
        if own:  # only now that it is there: until then somebody else's may be in its place
            locks.append({one: it for one, it in known.items() if one != name})
        _move(target, [name], made, locks)
        return None if own else entry


def link(name: str, source: Path, target: Path, *, force: bool = False) -> Pinned:
    """A link in another skills folder, to where the skill really is: edits show in both. Raises ConfigError."""
    folder = _folder(name, source, target)
    with _changing(target), _aside(target) as made:
        known = read_own(target)
        _refuse_other(name, target, known, force=force)
        os.symlink(folder, made / f"{NEW}{name}")
        entry = Pinned(name, "", source=str(folder), at=_now(), link=str(folder))
        _move(target, [name], made, [known, {**known, name: entry}])
    return read_lock(target)[name]


def _folder(name: str, source: Path, target: Path) -> Path:
    """Where the skill really is. In `source` it may be a link that its lock knows."""
    checked_name(name)
    if source.resolve() == target.resolve():
        raise ConfigError(f"{name} is there already: say where from with --from, and where to with --to")
    place = source / name
    if place.is_symlink() and standing(place) != pinned_state(source, name):
        raise ConfigError(f"{name} is a link that was not made by `mainstay skill link`")
    folder = place.resolve()
    try:
        skill, _ = read_skill(str(folder))
    except SkillRefused as error:
        raise _unknown(name, source) if not os.path.lexists(place) else ConfigError(str(error)) from None
    if skill.name != name:
        raise ConfigError(f"the skill in {one_line(str(place))} calls itself {skill.name}")
    return folder


# --- words ---------------------------------------------------------------------------------------


def _known(name: str, skills_folder: Path) -> Pinned:
    checked_name(name)
    known = read_lock(skills_folder)
    if name in known:
        return known[name]
    if os.path.lexists(skills_folder / name):
        raise ConfigError(f"{name} is your own: it was not installed, and there is nothing to approve or trust")
    raise _unknown(name, skills_folder)


def _unknown(name: str, skills_folder: Path) -> ConfigError:
    there = {one.name for one in skills_folder.iterdir() if one.is_dir()} if skills_folder.is_dir() else set()
    names = ", ".join(sorted(filter(is_name, there | read_own(skills_folder).keys()))) or "none"
    return ConfigError(f"there is no skill {name} here; those that are: {names}")


def _changed_since(name: str) -> ConfigError:
    return ConfigError(f"the files of {name} have changed; look at them, and run `mainstay skill approve {name}`")


def _changed_meanwhile(name: str) -> ConfigError:
    return ConfigError(f"{name} has changed since it was looked at; look at it again")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _changing(skills_folder: Path) -> AbstractContextManager[None]:
    return changing(skills_folder, WHAT)


def _aside(skills_folder: Path) -> AbstractContextManager[Path]:
    return aside(skills_folder, lambda name: pinned_state(skills_folder, name))
