"""The skills of one scope, as they lie in its folder now.

The folder is looked at often, so nothing is read or hashed again while the times and sizes of its files stay as they
were. What was installed is used only while it is what was approved; before a body is handed out, that is looked at once
more (skills/trees).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.recall import is_untrusted
from mainstay.io.beneath import brief, is_inside
from mainstay.skills.header import FILES, SkillRefused
from mainstay.skills.lock import Pinned, read_lock
from mainstay.skills.skill import Skill, normal_name, read_skill
from mainstay.skills.trees import Allowance, Mark, NotCompared, Trees, is_settled, stat_mark

SKILLS_MAX = 1_000  # of one scope
ENTRIES_MAX = 10_000  # of its folder
TREES_A_LOOK = 25
LISTED_MAX = 200
WALKED_MAX = 2_000  # files and folders, to list those
DEPTH_MAX = 12
LOCK = "lock.json"
_PASSED_OVER = frozenset(("__pycache__", "node_modules"))

Labels = Callable[[str], str]  # the origin that is known of a file; "" for none


class Scope(msgspec.Struct, frozen=True):
    """Where skills lie: `folder` has to be really inside of `root`."""

    name: str
    folder: str
    root: str


class Found(msgspec.Struct, frozen=True):
    """A skill that can be used, and whose words it speaks."""

    skill: Skill
    scope: Scope
    untrusted: bool = False
    why: str = ""  # it is
    place: str = ""  # where it stands in the scope: another folder than its own if it is a link
    vouched: bool = False  # for these very files, whoever wrote them
    rank: int = 0  # of its scope, among those of a session: the narrowest has the highest


class Seen(msgspec.Struct, frozen=True):
    """What was found in a scope: the skills by name, and what is to be said of those that are left out."""

    found: tuple[Found, ...] = ()
    troubles: tuple[str, ...] = ()
    refused: dict[str, str] = {}  # by the name of their folder


class Rules(msgspec.Struct, frozen=True):
    """Which skills are for whom: the workspace, installed skills that the owner vouches for, what is known of files."""

    workspace: str
    trusted: Collection[str] = ()
    labels: Labels = lambda path: ""


class _Known(msgspec.Struct, frozen=True):
    """One entry of the folder when it was read."""

    mark: Mark
    tree: Mark = ()
    found: Found | None = None
    trouble: str = ""
    waits: bool = False  # for a thread to compare it


class Ground:
    """The folder of one scope."""

    def __init__(self, scope: Scope, rules: Rules, trees: Trees) -> None:
        self.scope = scope
        self._rules = rules
        self._trees = trees
        self._folder = scope.folder  # its real path
        self._known: dict[str, _Known] = {}
        self._lock: tuple[Mark, dict[str, Pinned]] = (), {}
        self._turn = 0
        self._seen = Seen()

    def look(self, left: Allowance) -> Seen:
        """What is there now: the very same object while nothing changes."""
        try:
            entries = self._entries()
            pinned = self._pinned()
        except (ConfigError, SkillRefused) as error:
            return self._say(Seen(troubles=(f"No skill of {brief(self.scope.folder)} is used: {_sentence(error)}",)))
        known: dict[str, _Known] = {}
        looked = self._some_trees(entries, pinned, left)
        for name, is_link in entries[:SKILLS_MAX]:
            pin = _pin(pinned, name)
            if (one := self._entry(name, is_link, pin, looked.get(name), left)) is not None:
                known[name] = one
        for name in pinned.keys() - known.keys() - {normal_name(name) for name in known} if pinned else ():
            gone = _Known((), trouble=f"The skill {brief(name)} was installed, but it is no longer in its place.")
            known[name] = self._known[name] if self._known.get(name) == gone else gone
        if known.keys() == self._known.keys() and all(known[name] is self._known[name] for name in known):
            return self._seen
        self._known = known
        return self._say(_summary(known, over=len(entries) > SKILLS_MAX, folder=self.scope.folder))

    def prepare(self, until: float) -> None:
        """Takes its time: what was installed is compared with what was approved, so that no look has to. What is left
        when it is `until` is done meanwhile."""
        try:
            entries, pinned = self._entries(), self._pinned()
        except (ConfigError, SkillRefused):  # a look will say so
            return
        for name, _ in entries[:SKILLS_MAX]:
            if (pin := _pin(pinned, name)) is not None and pin.digest:
                learn = self._trees.learn if time.monotonic() < until else self._trees.want
                learn(self._real(name))

    def open(self, found: Found, left: Allowance | None = None) -> tuple[Found, str]:
        """The skill as it is at this moment, with its body. Raises SkillRefused; NotCompared where that takes longer
        than is `left`."""
        name = os.path.basename(found.place)
        try:
            pinned = self._pinned().get(normal_name(name))
        except ConfigError as error:
            raise SkillRefused(_sentence(error)) from None
        again, body = self._read(name, os.path.islink(found.place), pinned, partial(self._trees.now, left=left))
        if again is None or again.skill.name != found.skill.name:
            raise SkillRefused(f"The skill {brief(found.skill.name)} has been changed just now; ask for it again.")
        return again, body

    def _say(self, seen: Seen) -> Seen:
        if seen != self._seen:
            self._seen = seen
        return self._seen

    def _entries(self) -> list[tuple[str, bool]]:
        """Names of folders and whether they are links, sorted; nothing if there is no such folder."""
        folder = self.scope.folder
        try:
            found = []
            with os.scandir(folder) as listed:
                for count, entry in enumerate(listed):
                    if count >= ENTRIES_MAX:
                        raise SkillRefused(f"it has more than {ENTRIES_MAX} entries")
                    if entry.name[0] != "." and (entry.is_symlink() or entry.is_dir(follow_symlinks=False)):
                        found.append((entry.name, entry.is_symlink()))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SkillRefused(f"it cannot be read ({error.strerror})") from None
        if found:
            self._folder = os.path.realpath(folder)
            if not is_inside(self._folder, os.path.realpath(self.scope.root)):
                raise SkillRefused("it leads out of where it belongs")
        return sorted(found)

    def _pinned(self) -> Mapping[str, Pinned]:
        """Read again when it has changed; always if it has links, about which another lock has its say."""
        path = os.path.join(self.scope.folder, LOCK)
        mark = _mark_of(path)
        if mark is None:
            if os.path.lexists(path):  # it is there and cannot be looked at: then nobody knows whose skills these are
                raise SkillRefused("its lock cannot be read")
            return {}
        before, pinned = self._lock
        if before != mark or any(one.link for one in pinned.values()):
            pinned = {normal_name(one): it for one, it in read_lock(Path(self.scope.folder)).items()}
            self._lock = mark, pinned
        return pinned

    def _some_trees(
        self, entries: list[tuple[str, bool]], pinned: Mapping[str, Pinned], left: Allowance
    ) -> dict[str, Mark]:
        """By name, the installed skills whose other files are looked at this time. Where there are many, it is some of
        them each time: what is shown before a skill is opened comes from its SKILL.md, and that is always looked at."""
        if not pinned:
            return {}
        pins = ((name, _pin(pinned, name)) for name, _ in entries[:SKILLS_MAX])
        names = [name for name, pin in pins if pin is not None and pin.digest]
        looked: dict[str, Mark] = {}
        while len(looked) < min(TREES_A_LOOK, len(names)) and left.files > 0:
            name = names[(self._turn + len(looked)) % len(names)]
            if not self._trees.fits(real := self._real(name), left):
                break  # it is the first one next time
            looked[name] = self._trees.glance(real, left)
        self._turn += len(looked)
        return looked

    def _real(self, name: str) -> str:
        return os.path.realpath(os.path.join(self._folder, name))

    def _entry(
        self, name: str, is_link: bool, pinned: Pinned | None, tree: Mark | None, left: Allowance
    ) -> _Known | None:
        """None if it is no skill. `tree` is what its other files are like now, if they were looked at."""
        place = f"{self._folder}/{name}"
        mark = _mark_of(f"{place}/{FILES[0]}") or _mark_of(f"{place}/{FILES[1]}")
        if mark is None:
            return None
        before = self._known.get(name)
        real = os.path.realpath(place) if is_link else place
        if pinned is None or not pinned.digest:
            tree = ()
        elif tree is None:
            tree = self._trees.glance(real, left) if before is None or before.waits else before.tree
        whole: Mark = (mark, tree, is_link, real, pinned, self._label(real))
        if before is not None and before.mark == whole and not before.waits:
            return before
        try:
            found, _ = self._read(name, is_link, pinned, partial(self._trees.listed, left=left))
            return _Known(whole, tree, found)
        except SkillRefused as error:
            return _Known(whole, tree, trouble=_sentence(error), waits=isinstance(error, NotCompared))

    def _read(
        self, name: str, is_link: bool, pinned: Pinned | None, hash: Callable[[str, str], str]
    ) -> tuple[Found | None, str]:
        """One skill and its body; None if it is for another workspace."""
        place = os.path.join(self._folder, name)
        real = os.path.realpath(place)
        if is_link and (pinned is None or pinned.link != real):
            raise SkillRefused(f"{brief(name)} is a link that no lock knows; `mainstay skill link` makes one.")
        if pinned is not None and pinned.link and not is_link:
            raise SkillRefused(f"{brief(name)} is no longer the link that the lock knows.")
        try:
            skill, body = read_skill(place)
        except SkillRefused as error:
            raise SkillRefused(f"The skill {brief(name)} cannot be used: {error}") from None
        if pinned is not None:
            _compare(name, skill, pinned, lambda: hash(real, skill.digest))
        if skill.workspace and skill.workspace != self._rules.workspace:
            return None, ""
        vouched = pinned is not None and pinned.trusted and bool(pinned.digest)
        why = self._doubt(name, pinned) or ("" if vouched else self._label(real))
        return Found(skill, self.scope, bool(why), why, place, vouched), body

    def _doubt(self, name: str, pinned: Pinned | None) -> str:
        if pinned is None or pinned.trusted or normal_name(name) in self._rules.trusted:
            return ""
        return f"It was installed from {brief(pinned.source) or 'elsewhere'}."

    def _label(self, folder: str) -> str:
        labels = self._rules.labels
        if any(is_untrusted(labels(path)) for path in (folder, f"{folder}/{FILES[0]}", f"{folder}/{FILES[1]}")):
            return "It was written after something from outside had been read."
        return ""


def _compare(name: str, skill: Skill, pinned: Pinned, hash: Callable[[], str]) -> None:
    """Raises SkillRefused if it is not what was approved."""
    if normal_name(skill.name) != normal_name(name):
        raise SkillRefused(f"The skill {brief(name)} was installed under this name and calls itself {skill.name!r}.")
    if not pinned.digest:
        return
    try:
        now = hash()
    except NotCompared as error:
        raise NotCompared(f"The skill {brief(name)} is left out for the moment: {error}.") from None
    except (ConfigError, OSError) as error:
        raise SkillRefused(f"The skill {brief(name)} cannot be compared with what was approved: {error}.") from None
    if now != pinned.digest:
        raise SkillRefused(
            f"The skill {brief(name)} is not used: its files are not those that were approved. "
            f"Look at them, then `mainstay skill approve {brief(name)}`."
        )


def _summary(known: Mapping[str, _Known], *, over: bool, folder: str) -> Seen:
    chosen: dict[str, tuple[str, Found]] = {}
    troubles, refused = [], {}
    for name, one in sorted(known.items()):
        if one.trouble:
            troubles.append(one.trouble)
            refused[name] = one.trouble
        if one.found is None:
            continue
        called = one.found.skill.name
        if called in chosen:
            mine, other = (name, chosen[called][0]) if name != called else (chosen[called][0], name)
            troubles.append(f"Two skills of {brief(folder)} are called {called}: {other} is used, {mine} is not.")
        if called not in chosen or name == called:
            chosen[called] = name, one.found
    if over:
        troubles.append(f"{brief(folder)} has more than {SKILLS_MAX} skills; the rest is left out.")
    return Seen(tuple(found for _, (_, found) in sorted(chosen.items())), tuple(troubles), refused)


# --- files ---------------------------------------------------------------------------------------


def files_of(folder: str) -> list[str]:
    """What a skill has beside its SKILL.md, sorted, and only so many; links and hidden files are nobody's business."""
    found: list[str] = []
    todo, walked = [""], 0
    while todo and len(found) <= LISTED_MAX and walked < WALKED_MAX:
        below = todo.pop()
        try:
            with os.scandir(os.path.join(folder, below)) as listed:
                entries = sorted(islice(listed, WALKED_MAX), key=lambda entry: entry.name)
        except OSError:
            continue
        walked += len(entries)
        shown = [one for one in entries if not one.name.startswith(".") and one.name not in _PASSED_OVER]
        found += [os.path.join(below, one.name) for one in shown if one.is_file(follow_symlinks=False)]
        if below.count("/") < DEPTH_MAX:
            folders = [one.name for one in shown if one.is_dir(follow_symlinks=False)]
            todo += [os.path.join(below, one) for one in reversed(folders)]
    return sorted(path for path in found if path not in FILES)[:LISTED_MAX]


def _mark_of(path: str) -> Mark | None:
    """Never the same twice for a file that was changed a moment ago."""
    try:
        found, now = os.stat(path), time.time_ns()
    except OSError:
        return None
    return (*stat_mark(found), 0 if is_settled(found, now) else now)


def _pin(pinned: Mapping[str, Pinned], name: str) -> Pinned | None:
    """Of an entry of the folder."""
    return pinned.get(name if not pinned or name in pinned else normal_name(name))


def _sentence(error: Exception) -> str:
    text = str(error)
    return text if text.endswith((".", "`")) else f"{text}."
