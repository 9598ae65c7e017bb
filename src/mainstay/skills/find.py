"""The skills that a session has: those of its scopes, the narrowest of a name."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

import msgspec

from mainstay.core.recall import is_untrusted
from mainstay.io.beneath import brief
from mainstay.skills.header import SkillRefused
from mainstay.skills.look import Found, Ground, Labels, Rules, Scope, Seen, files_of
from mainstay.skills.skill import normal_name
from mainstay.skills.trees import Allowance, Trees

__all__ = ["Found", "Scope", "Shelf"]

AGAIN_S = 1.0  # so often the disk is looked at, at most
PREPARE_S = 5.0
NEAR_MAX = 5
_KNOWN_MAX = 1024


class _Merged(msgspec.Struct, frozen=True):
    seen: tuple[Seen, ...]
    found: tuple[Found, ...]
    by_name: dict[str, Found]


class Shelf:
    """`scopes(session)` gives a session's scopes, the broadest first; `workspace` is the one that it is for.

    `trusted` names installed skills that the owner vouches for, and `labels(path)` gives the origin that is known of a
    file. Nothing here waits for anything but the disk, and that is asked at most every `again_s` seconds, and for no
    more than a little: installed skills that are large are left out until a thread has compared them with what was
    approved (`prepare` does so at once). `patient`: whoever asks has the time for that.
    """

    def __init__(
        self,
        scopes: Callable[[str], Sequence[Scope]],
        *,
        workspace: str,
        trusted: Collection[str] = (),
        labels: Labels = lambda path: "",
        again_s: float = AGAIN_S,
        patient: bool = False,
    ) -> None:
        self._scopes = scopes
        self._rules = Rules(workspace, frozenset(map(normal_name, trusted)), labels)
        self._again_s = again_s
        self._patient = patient
        self._trees = Trees()
        self._grounds: dict[Scope, tuple[Ground, float, Seen]] = {}
        self._merged: dict[tuple[Scope, ...], _Merged] = {}
        self._quick: dict[
            int, tuple[tuple[Scope, ...], float, _Merged]
        ] = {}  # by the very tuple, until it is time again

    def prepare(self, session: str = "") -> None:
        """Takes its time: for a thread, before a session is asked for."""
        until = time.monotonic() + PREPARE_S
        for scope in self._scopes(session):
            ground = self._ground(scope)
            ground.prepare(until)
            ground.look(Allowance())  # which has then read what the next one will find unchanged

    def skills(self, session: str) -> tuple[Found, ...]:
        """By name; the very same object while nothing changes."""
        return self._look(session).found

    def has_some(self) -> bool:
        """For any session so far, or one that has no room."""
        return bool(self.skills("")) or any(seen.found for _, _, seen in self._grounds.values())

    def get(self, session: str, name: str, *, again: bool = True) -> Found:
        """Raises SkillRefused, with the reason why it is left out, or names that are like it. `again`: it is looked for
        once more before."""
        wanted = normal_name(name)
        merged = self._look(session)
        if wanted not in merged.by_name and again:
            merged = self._look(session, now=True)  # it may have been put there this very moment
        if (found := merged.by_name.get(wanted)) is not None:
            return found
        for seen in reversed(merged.seen):
            if (trouble := seen.refused.get(name.strip()) or seen.refused.get(wanted)) is not None:
                raise SkillRefused(trouble)
        like = get_close_matches(wanted[:200], merged.by_name, NEAR_MAX, 0.5) if again else ()
        near = [merged.by_name[one].skill.name for one in like]
        hint = f" There is {', '.join(near)}." if near else ""
        raise SkillRefused(f"There is no skill {brief(name)!r}.{hint}")

    def open(self, found: Found, left: Allowance | None = None) -> tuple[Found, str]:
        """It and its body as they are now, compared with what was approved. Raises SkillRefused; NotCompared where that
        takes longer than is `left`."""
        return self._ground(found.scope).open(found, left)

    def body(self, found: Found) -> str:
        return self.open(found)[1]

    def files(self, found: Found) -> list[str]:
        """What it has beside SKILL.md, as paths in its folder; only so many."""
        return files_of(found.skill.folder)

    def nameable(self, found: Found) -> tuple[list[str], int]:
        """Those of its files whose names count as its own words, and how many others there are. What an agent called a
        file after it had read something from outside is no word of the owner's, unless they have vouched for it."""
        files = self.files(found)
        if found.untrusted or found.vouched:
            return files, 0
        own = [one for one in files if not is_untrusted(self.origin(os.path.join(found.skill.folder, one)))]
        return own, len(files) - len(own)

    def folders(self, session: str) -> tuple[str, ...]:
        """Where its skills really are: to be made readable."""
        return tuple(found.skill.folder for found in self.skills(session))

    def troubles(self, session: str) -> list[str]:
        """What is left out and why, a sentence each."""
        return [trouble for seen in self._look(session).seen for trouble in seen.troubles]

    def warnings(self, session: str) -> list[str]:
        """What a validator would say of those that are used nevertheless."""
        return [f"{one.skill.name}: {said}" for one in self.skills(session) for said in one.skill.warnings]

    def origin(self, path: str) -> str:
        """What is known of a file, by its real path."""
        return self._rules.labels(path)

    def _look(self, session: str, *, now: bool = False) -> _Merged:
        scopes = tuple(self._scopes(session))
        quick = self._quick.get(id(scopes))
        if quick is not None and quick[0] is scopes and not now and time.monotonic() < quick[1]:
            return quick[2]
        merged = self._look_again(scopes, now)
        if len(self._quick) >= _KNOWN_MAX:
            self._quick.clear()
        until = min((self._grounds[scope][1] for scope in scopes), default=0.0)
        self._quick[id(scopes)] = scopes, until, merged
        return merged

    def _look_again(self, scopes: tuple[Scope, ...], now: bool) -> _Merged:
        seen = tuple([self._seen(scope, now) for scope in scopes])
        merged = self._merged.get(scopes)
        if merged is None or any(new is not old for new, old in zip(seen, merged.seen, strict=True)):
            if len(self._merged) >= _KNOWN_MAX:  # all of it can be made again
                self._merged.clear()
            merged = self._merged[scopes] = _merge(seen)
        return merged

    def _seen(self, scope: Scope, now: bool) -> Seen:
        known = self._grounds.get(scope)
        at = time.monotonic()
        if known is not None and at < known[1] and not now:
            return known[2]
        ground = self._ground(scope)
        seen = ground.look(Allowance(sys.maxsize, sys.maxsize) if self._patient else Allowance())
        self._grounds[scope] = ground, at + self._again_s, seen
        return seen

    def _ground(self, scope: Scope) -> Ground:
        known = self._grounds.get(scope)
        if known is not None:
            return known[0]
        if len(self._grounds) >= _KNOWN_MAX:
            self._grounds.clear()
        ground = Ground(scope, self._rules, self._trees)
        self._grounds[scope] = ground, 0.0, Seen()
        return ground


def _merge(seen: tuple[Seen, ...]) -> _Merged:
    """Of each name the narrowest; a broader one that is hidden by it is simply not there."""
    by_name: dict[str, Found] = {}
    for rank, one in enumerate(seen):
        for found in one.found:
            by_name[normal_name(found.skill.name)] = msgspec.structs.replace(found, rank=rank)
    ordered = tuple(sorted(by_name.values(), key=lambda one: one.skill.name))
    return _Merged(seen, ordered, by_name)
