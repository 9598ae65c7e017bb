"""Skills as they come and go: looked at, moved to their place whole, pinned, linked, taken away.

What stands in a skills folder without an entry in its lock counts as the owner's own words. So a lock is written before
what it names is moved in, and after what it named was moved out: whoever is killed at any moment leaves a skill that
is not used, never one that is trusted. The next command finishes what was begun (edges/packages).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.edges.archives import ArchiveRefused, unpack
from mainstay.edges.packages import (
    NEW,
    OLD,
    aside,
    changing,
    digest_of,
    file_digests,
    standing,
    sync_folder,
    sync_tree,
)
from mainstay.guards.lines import one_line
from mainstay.skills.header import SkillRefused
from mainstay.skills.lock import Pinned, checked_name, is_name, pinned_state, read_lock, read_own, write_lock
from mainstay.skills.scan import Finding, is_script, scan
from mainstay.skills.skill import Skill, Trigger, read_skill
from mainstay.skills.source import BOUNDS

WHAT = "a skill"
FILES_KEPT_MAX = 500  # of one skill, in the lock, to tell what has changed
FINDINGS_KEPT_MAX = 20
CHANGES_MAX = 20
_SHORT = 16


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the place of a skill already."""

    own: bool = False  # the owner's own: it was not installed
    same: bool = False  # the very same files
    source: str = ""
    at: str = ""
    trusted: bool = False
    link: str = ""
    edited: bool = False  # its files are not those that were installed
    changes: tuple[str, ...] = ()  # what is otherwise now: sentences that go on from "it"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What installing a skill would mean."""

    name: str
    description: str
    folder: Path  # where it was brought to
    source: str
    digest: str
    files: tuple[str, ...]
    bytes: int
    scripts: tuple[str, ...] = ()
    allowed_tools: str = ""
    trigger: Trigger = "manual"
    keywords: tuple[str, ...] = ()
    compatibility: str = ""
    license: str = ""
    findings: tuple[Finding, ...] = ()
    before: Before | None = None

    @property
    def dangers(self) -> list[Finding]:
        return [one for one in self.findings if one.level == "danger"]


# --- looking -------------------------------------------------------------------------------------


def plan(folder: Path, skills_folder: Path, *, source: str, called: str = "") -> Plan:
    """Looks at a folder with a SKILL.md, and changes nothing. `called` is what its author calls the folder. Raises
    ConfigError if it cannot be installed at all."""
    try:
        skill, _ = read_skill(str(folder))
    except SkillRefused as error:
        raise ConfigError(f"{one_line(source)} cannot be installed: {error}") from None
    if not is_name(skill.name):
        raise ConfigError(f"{one_line(source)} cannot be installed: {_no_name(skill.name)}")
    digests = list(file_digests(folder))
    files = tuple(path for path, _, _ in digests)
    return Plan(
        name=skill.name,
        description=skill.description,
        folder=folder,
        source=source,
        digest=digest_of(folder),
        files=files,
        bytes=sum((folder / path).stat().st_size for path in files),
        scripts=tuple(path for path in files if is_script(folder, path)),
        allowed_tools=skill.allowed_tools,
        trigger=skill.trigger,
        keywords=skill.keywords,
        compatibility=skill.compatibility,
        license=skill.license,
        findings=(*_odd(skill, folder, called), *scan(folder)),
        before=_before(skill, folder, skills_folder),
    )


def _no_name(name: str) -> str:
    try:
        checked_name(name)
    except ConfigError as error:
        return str(error)
    return ""


def _odd(skill: Skill, folder: Path, called: str) -> Iterator[Finding]:
    """What a validator says of it. The folder that it was unpacked into has no say in what it is called."""
    for said in skill.warnings:
        if "is not that of its folder" not in said:
            yield Finding("warning", "SKILL.md", 0, f"is not quite in the format: {said.rstrip('.')}")
    if called and called != skill.name:
        yield Finding("warning", "SKILL.md", 0, f"calls itself {skill.name}, and its folder {one_line(called)[:80]}")


def _before(skill: Skill, folder: Path, skills_folder: Path) -> Before | None:
    place = skills_folder / skill.name
    if not os.path.lexists(place):
        return None
    pinned = read_lock(skills_folder).get(skill.name)
    now = standing(place)
    if pinned is None:
        return Before(own=True, same=now == digest_of(folder), changes=tuple(_changes(place, skill, folder)))
    return Before(
        same=not pinned.link and now == pinned.digest == digest_of(folder),
        source=pinned.source,
        at=pinned.at,
        trusted=pinned.trusted,
        link=pinned.link,
        edited=now != pinned_state(skills_folder, skill.name),
        changes=tuple(_changes(place, skill, folder)),
    )


def _changes(place: Path, new: Skill, folder: Path) -> Iterator[str]:
    """What the new one has otherwise than the one that is there."""
    try:
        old, _ = read_skill(str(place))
        had = {path: (runs, inner) for path, runs, inner in file_digests(place)}
    except (SkillRefused, ConfigError, OSError):
        return
    for what, was, now in (
        ("describes itself otherwise", old.description, new.description),
        ("wants other tools", old.allowed_tools, new.allowed_tools),
        ("is brought in otherwise", (old.trigger, old.keywords), (new.trigger, new.keywords)),
    ):
        if was != now:
            yield what
    has = {path: (runs, inner) for path, runs, inner in file_digests(folder)}
    yield from _told(had, has)


def _told(had: Mapping[str, object], has: Mapping[str, object]) -> Iterator[str]:
    differ = [("changes", path) for path in sorted(had.keys() & has.keys()) if had[path] != has[path]]
    differ += [("adds", path) for path in sorted(has.keys() - had.keys())]
    differ += [("has no longer", path) for path in sorted(had.keys() - has.keys())]
    yield from (f"{what} {one_line(path)}" for what, path in differ[:CHANGES_MAX])
    if len(differ) > CHANGES_MAX:
        yield f"differs in {len(differ) - CHANGES_MAX} more files"


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
        if one.before is not None and one.before.own and not force:
            raise ConfigError(f"{one.name} is there already, and is your own; --force replaces it")
    with _changing(skills_folder), _aside(skills_folder) as made:
        known = read_own(skills_folder)
        added = {one.name: _staged(one, made, trusted=trusted) for one in plans}
        for one in plans:
            if one.name not in known and os.path.lexists(skills_folder / one.name) and not force:
                raise ConfigError(f"{one.name} is there already, and is your own; --force replaces it")
        with _moved(skills_folder, [one.name for one in plans], made, known):
            write_lock(skills_folder, {**known, **added})
        return added


def _refuse_twins(plans: Sequence[Plan]) -> None:
    names = [one.name for one in plans]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two skills are called {twins[0]}; install one of them by itself")


def _staged(one: Plan, made: Path, *, trusted: bool) -> Pinned:
    """Beside the place that it goes to, on disk, and the very thing that was shown."""
    root = made / f"{NEW}{one.name}"
    root.mkdir(mode=0o755)
    try:
        unpack(one.folder, root, BOUNDS)
    except ArchiveRefused as error:
        raise ConfigError(f"{one_line(one.source)} cannot be installed: {error}") from None
    if digest_of(root) != one.digest:
        raise ConfigError(f"{one_line(one.source)} has changed since it was looked at; look at it again")
    sync_tree(root)
    return _pinned(root, one, trusted=trusted)


def _pinned(root: Path, one: Plan, *, trusted: bool) -> Pinned:
    return Pinned(
        one.name,
        one.digest,
        source=one.source,
        at=_now(),
        trusted=trusted,
        findings=tuple(map(str, one.findings[:FINDINGS_KEPT_MAX])),
        files=_short_digests(root),
    )


def _short_digests(root: Path) -> dict[str, str]:
    made = {path: f"{'x' if runs else '-'}{inner[:_SHORT]}" for path, runs, inner in file_digests(root)}
    return made if len(made) <= FILES_KEPT_MAX else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _moved(skills_folder: Path, names: Sequence[str], made: Path, known: dict[str, Pinned]) -> Iterator[None]:
    """First the lock, which is written inside, then each to its place. If something fails, all is as it was."""
    done: list[str] = []
    try:
        yield
        for name in names:
            done.append(name)
            _move_in(skills_folder / name, made)
        sync_folder(skills_folder)
    except BaseException:
        for name in reversed(done):
            _move_out(skills_folder / name, made)
        write_lock(skills_folder, known)
        raise


def _move_in(place: Path, made: Path) -> None:
    if os.path.lexists(place):
        os.rename(place, made / f"{OLD}{place.name}")
    os.rename(made / f"{NEW}{place.name}", place)


def _move_out(place: Path, made: Path) -> None:
    new, old = made / f"{NEW}{place.name}", made / f"{OLD}{place.name}"
    if not os.path.lexists(new) and os.path.lexists(place):
        os.rename(place, new)
    if os.path.lexists(old):
        os.rename(old, place)


# --- what is there -------------------------------------------------------------------------------


def changed(name: str, skills_folder: Path) -> Plan:
    """What an installed skill is now; `before.changes` tells what it is otherwise than when it was approved."""
    pinned = _known(name, skills_folder)
    if pinned.link:
        raise ConfigError(f"{name} is a link to {one_line(pinned.link)}; approve it there")
    place = skills_folder / name
    found = plan(place, skills_folder, source=pinned.source)
    if found.name != name:
        raise ConfigError(f"what is in {one_line(str(place))} calls itself {found.name} now; install it anew")
    has = _short_digests(place)
    changes = tuple(_told(pinned.files, has)) if pinned.files and has else ()
    before = Before(same=found.digest == pinned.digest, source=pinned.source, at=pinned.at, trusted=pinned.trusted)
    return msgspec.structs.replace(found, before=msgspec.structs.replace(before, changes=changes))


def approve(found: Plan, skills_folder: Path, *, trusted: bool = False) -> Pinned:
    """Pins what is there now, which is what was shown. Whoever trusted it has trusted what it was."""
    with _changing(skills_folder), _aside(skills_folder):
        known = read_own(skills_folder)
        if found.name not in known:
            raise _unknown(found.name, known)
        if standing(skills_folder / found.name) != found.digest:
            raise ConfigError(f"{found.name} has changed since it was looked at; look at it again")
        made = _pinned(skills_folder / found.name, found, trusted=trusted)
        write_lock(skills_folder, {**known, found.name: made})
        return made


def trust(name: str, skills_folder: Path, *, trusted: bool = True) -> Pinned:
    """Its words count as the owner's from now on, or no longer. Raises ConfigError if it is not what was installed."""
    pinned = _known(name, skills_folder)
    if pinned.link:
        raise ConfigError(f"{name} is a link to {one_line(pinned.link)}; trust it there")
    with _changing(skills_folder), _aside(skills_folder):
        if trusted and standing(skills_folder / name) != pinned.digest:
            raise ConfigError(f"the files of {name} have changed; run `mainstay skill approve {name}` first")
        made = msgspec.structs.replace(pinned, trusted=trusted)
        write_lock(skills_folder, {**read_own(skills_folder), name: made})
        return made


def remove(name: str, skills_folder: Path) -> Pinned | None:
    """Takes a skill out; a link alone, if it is one. None if it was the owner's own. Raises ConfigError."""
    checked_name(name)
    with _changing(skills_folder), _aside(skills_folder) as made:
        known = read_own(skills_folder)
        place = skills_folder / name
        there = os.path.lexists(place)
        if not there and name not in known:
            raise _unknown(name, known)
        if there:  # out of its place first: without its entry it would count as the owner's own
            os.rename(place, made / f"{OLD}{name}")
            sync_folder(skills_folder)
        gone = known.pop(name, None)
        if gone is not None:
            try:
                write_lock(skills_folder, known)
            except BaseException:
                if there:
                    os.rename(made / f"{OLD}{name}", place)
                raise
        return gone


def copy(name: str, source: Path, target: Path, *, force: bool = False, outside: bool = False) -> Pinned | None:
    """To another skills folder: what was installed stays so, with the same trust; what is the owner's own stays that,
    unless it is known that others had a hand in it (`outside`). Raises ConfigError."""
    place = _place(name, source, target)
    pinned = read_lock(source).get(name)
    digest = digest_of(place.resolve())
    if pinned is not None and pinned.digest and digest != pinned.digest:
        raise ConfigError(f"the files of {name} have changed; run `mainstay skill approve {name}` first")
    with _changing(target), _aside(target) as made:
        known = read_own(target)
        _refuse_other(name, target, known, force=force)
        root = made / f"{NEW}{name}"
        root.mkdir(mode=0o755)
        try:
            unpack(place.resolve(), root, BOUNDS)
        except ArchiveRefused as error:
            raise ConfigError(f"{name} cannot be copied: {error}") from None
        if digest_of(root) != digest:
            raise ConfigError(f"{name} was being changed while it was copied; try again")
        sync_tree(root)
        entry = _copied(name, pinned, root, digest, outside=outside)
        with _moved(target, [name], made, known):
            rest = {one: it for one, it in known.items() if one != name}
            write_lock(target, rest if entry is None else {**rest, name: entry})
        return entry


def _copied(name: str, pinned: Pinned | None, root: Path, digest: str, *, outside: bool) -> Pinned | None:
    if pinned is not None and pinned.digest:
        return msgspec.structs.replace(pinned, link="", at=_now(), files=_short_digests(root))
    if outside:
        said = "an agent that had read others' words"
        return Pinned(name, digest, source=said, at=_now(), files=_short_digests(root))
    return None


def link(name: str, source: Path, target: Path, *, force: bool = False) -> Pinned:
    """A link in another skills folder, to where the skill really is: edits show in both. Raises ConfigError."""
    place = _place(name, source, target).resolve()
    with _changing(target), _aside(target) as made:
        known = read_own(target)
        _refuse_other(name, target, known, force=force)
        os.symlink(place, made / f"{NEW}{name}")
        entry = Pinned(name, "", source=str(place), at=_now(), link=str(place))
        with _moved(target, [name], made, known):
            write_lock(target, {**known, name: entry})
    return read_lock(target)[name]


def _place(name: str, source: Path, target: Path) -> Path:
    """Where the skill stands. It may be a link to another that its lock knows."""
    checked_name(name)
    if source.resolve() == target.resolve():
        raise ConfigError(f"{name} is there already: say where from with --from, and where to with --to")
    place = source / name
    pinned = read_lock(source).get(name)
    if place.is_symlink() and (pinned is None or pinned.link != os.readlink(place)):
        raise ConfigError(f"{name} is a link that was not made by `mainstay skill link`")
    try:
        skill, _ = read_skill(str(place.resolve()))
    except SkillRefused:
        raise _unknown(name, read_own(source), where=source) from None
    if skill.name != name:
        raise ConfigError(f"the skill in {one_line(str(place))} calls itself {skill.name}")
    return place


def _refuse_other(name: str, target: Path, known: dict[str, Pinned], *, force: bool) -> None:
    if os.path.lexists(target / name) and not force:
        whose = "was installed" if name in known else "is your own"
        raise ConfigError(f"{name} is there already, and {whose}; --force replaces it")


def _known(name: str, skills_folder: Path) -> Pinned:
    checked_name(name)
    known = read_lock(skills_folder)
    if name in known:
        return known[name]
    if os.path.lexists(skills_folder / name):
        raise ConfigError(f"{name} is your own: it was not installed, and there is nothing to approve or trust")
    raise _unknown(name, known)


def _unknown(name: str, known: dict[str, Pinned], where: Path | None = None) -> ConfigError:
    there = {one.name for one in where.iterdir() if one.is_dir()} if where is not None and where.is_dir() else set()
    names = ", ".join(sorted(one for one in (*known, *(there - known.keys())) if is_name(one))) or "none"
    return ConfigError(f"there is no skill {name} here; those that are: {names}")


def _changing(skills_folder: Path) -> AbstractContextManager[None]:
    return changing(skills_folder, WHAT)


def _aside(skills_folder: Path) -> AbstractContextManager[Path]:
    return aside(skills_folder, lambda name: pinned_state(skills_folder, name))
