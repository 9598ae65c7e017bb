"""`mainstay skill list|show|search|validate`: which skills there are, whose words they are, and what is wrong."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.whose import Whose
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.skill_places import Skills, pinned_in, skills_of
from mainstay.cli.commands.talking import tell
from mainstay.skills.allowed import rules_of
from mainstay.skills.find import Found, Scope
from mainstay.skills.header import FILES, SkillRefused
from mainstay.skills.lock import Pinned
from mainstay.skills.match import folded
from mainstay.skills.skill import normal_name, read_skill
from mainstay.skills.validate import validate as problems_of

DESCRIPTION_CHARS = 60
FOUND_MAX = 50


class Listed(msgspec.Struct, frozen=True):
    """A skill as it stands in a scope."""

    found: Found
    pinned: Pinned | None
    hidden_by: str = ""  # the narrower scope that has another of its name

    @property
    def trust(self) -> str:
        if self.found.untrusted:
            return "untrusted"
        return "trusted" if self.pinned is not None and self.pinned.digest else "own"


# --- list and search -----------------------------------------------------------------------------


def list_skills(options: argparse.Namespace) -> int:
    at = skills_of(options, looking=True)
    listed, troubles = _listed(at)
    if options.json:
        print_json({"ok": True, "skills": [_document(one) for one in listed], "troubles": troubles})
        return 0
    if listed:
        print_table(("NAME", "SCOPE", "TRIGGER", "TRUST", "DESCRIPTION"), [_row(one) for one in listed])
    elif not troubles:
        tell(f"there are no skills in {visible(str(at.folder))}; `mainstay skill install` brings some")
    for said in troubles:
        tell(f"{paint('!', 'yellow')} {visible(said)}")
    return 0


def search(options: argparse.Namespace) -> int:
    listed, _ = _listed(skills_of(options, looking=True))
    words = folded(" ".join(options.words)).split()
    scored = [(_score(one, words), one) for one in listed if not one.hidden_by]
    best = [one for score, one in sorted(scored, key=lambda one: -one[0]) if score][:FOUND_MAX]
    if options.json:
        print_json({"ok": True, "skills": [_document(one) for one in best]})
        return 0
    for one in best:
        skill = one.found.skill
        print(
            f"{paint(visible(skill.name), 'bold')} ({visible(one.found.scope.name)}): {visible(skill.description, 200)}"
        )
    if not best:
        tell(f"none of {count(len(listed), 'skill')} is about that")
    return 0


def _score(one: Listed, words: list[str]) -> int:
    """A word in a name counts most."""
    skill = one.found.skill
    name, text = folded(skill.name), folded(f"{skill.description} {' '.join(skill.keywords)}")
    return sum(3 * (word in name) + (word in text) for word in words)


def _listed(at: Skills) -> tuple[list[Listed], list[str]]:
    """Scope by scope, the broadest first; and what is wrong."""
    whose = at.whose_words()
    scopes = at.scopes()
    by_scope = [(scope, _of_scope(at, scope, whose)) for scope in scopes]
    listed: list[Listed] = []
    for place, (scope, (found, _)) in enumerate(by_scope):
        pinned = pinned_in(scope)
        for one in found:
            name = normal_name(one.skill.name)
            others = (
                other.name
                for other, (those, _) in by_scope[place + 1 :]
                if other.name in ("home", "workspace") and any(normal_name(it.skill.name) == name for it in those)
            )
            listed.append(Listed(one, pinned.get(os.path.basename(one.place)), next(others, "")))
    return listed, [said for _, (_, troubles) in by_scope for said in troubles]


def _of_scope(at: Skills, scope: Scope, whose: Whose) -> tuple[tuple[Found, ...], list[str]]:
    shelf = at.shelf(scope, whose=whose)
    return shelf.skills(""), [*shelf.troubles(""), *_elsewhere(at, scope, shelf.skills(""))]


def _elsewhere(at: Skills, scope: Scope, found: tuple[Found, ...]) -> list[str]:
    """Those that are for another workspace: nobody would look for them there."""
    said = []
    there = {os.path.basename(one.place) for one in found}
    for place in sorted(Path(scope.folder).glob("[!.]*")):
        if place.name in there or not place.is_dir() or not any((place / name).is_file() for name in FILES):
            continue
        try:
            skill, _ = read_skill(str(place))
        except SkillRefused:  # it is told of already
            continue
        if skill.workspace and skill.workspace != (at.workspace or at.config.workspace):
            said.append(f"The skill {skill.name} is for the workspace {skill.workspace} only.")
    return said


def _row(one: Listed) -> tuple[str, ...]:
    skill = one.found.skill
    scope = one.found.scope.name + (f" (hidden by {one.hidden_by})" if one.hidden_by else "")
    trust = one.trust + (" (link)" if one.pinned is not None and one.pinned.link else "")
    return skill.name, scope, skill.trigger, trust, visible(skill.description, DESCRIPTION_CHARS)


def _document(one: Listed) -> dict[str, Any]:
    skill, pinned = one.found.skill, one.pinned
    made: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "scope": one.found.scope.name,
        "folder": skill.folder,
        "trigger": skill.trigger,
        "keywords": skill.keywords,
        "allowed_tools": skill.allowed_tools,
        "trust": one.trust,
        "why": one.found.why,
        "hidden_by": one.hidden_by,
        "warnings": skill.warnings,
    }
    if pinned is not None:
        made |= {"source": pinned.source, "at": pinned.at, "sha256": pinned.digest, "link": pinned.link}
    return made


# --- show ----------------------------------------------------------------------------------------


def show(options: argparse.Namespace) -> int:
    at = skills_of(options, looking=True)
    shelf = at.shelf(*at.scopes(), whose=at.whose_words())
    found = shelf.get("", options.name)
    now, body = shelf.open(found)
    one = Listed(now, pinned_in(now.scope).get(os.path.basename(found.place)))
    files = shelf.files(now)
    if options.json:
        findings = one.pinned.findings if one.pinned is not None else ()
        print_json({"ok": True, **_document(one), "files": files, "findings": findings, "body": body})
        return 0
    skill = now.skill
    print(f"{paint(visible(skill.name), 'bold')}: {visible(skill.description)}")
    for what, said in _facts(one, files):
        if said:
            print(f"  {what}: {visible(said)}")
    for said in [*skill.warnings, *(one.pinned.findings if one.pinned is not None else ())]:
        print(f"  {paint('!', 'yellow')} {visible(said)}")
    print()
    print(safe(body).strip("\n"))
    return 0


def _facts(one: Listed, files: list[str]) -> list[tuple[str, str]]:
    skill, pinned = one.found.skill, one.pinned
    whose = {"own": "your own", "trusted": "installed, and trusted", "untrusted": "somebody else's words"}[one.trust]
    return [
        ("scope", one.found.scope.name),
        ("folder", skill.folder),
        ("trigger", skill.trigger + (f" ({', '.join(skill.keywords)})" if skill.keywords else "")),
        ("words", whose + (f": {one.found.why}" if one.found.why else "")),
        ("from", pinned.source + (f", {pinned.at}" if pinned.at else "") if pinned is not None else ""),
        ("link to", pinned.link if pinned is not None else ""),
        ("narrows its turns to", ", ".join(rules_of(skill.allowed_tools)) if skill.allowed_tools else ""),
        ("for workspace", skill.workspace),
        ("needs", skill.compatibility),
        ("license", skill.license),
        ("files", ", ".join(files)),
    ]


# --- validate ------------------------------------------------------------------------------------


def validate(options: argparse.Namespace) -> int:
    """What the format asks for; 1 if one of them is not that."""
    said = {given: problems_of(_folder(given)) for given in options.paths or _every(options)}
    wrong = [given for given, problems in said.items() if problems]
    bad = bool(wrong)
    if options.json:
        valid = [{"path": given, "valid": not problems, "problems": problems} for given, problems in said.items()]
        error = {"error": {"type": "NotValid", "message": f"not valid: {', '.join(wrong)}"}} if bad else {}
        print_json({"ok": not bad, **error, "skills": valid})
        return int(bad)
    if not said:
        tell("there are no skills here to look at; name a folder")
    for given, problems in said.items():
        print(f"{visible(given)}: {paint('not valid', 'red') if problems else paint('valid', 'green')}")
        for problem in problems:
            print(f"  {visible(problem)}")
    return int(bad)


def _every(options: argparse.Namespace) -> list[str]:
    """All that the workspace has, also those that cannot be used."""
    at = skills_of(options, looking=True)
    folders = (one for scope in at.scopes() for one in sorted(Path(scope.folder).glob("*")))
    return [str(one) for one in folders if one.is_dir() and not one.name.startswith(".")]


def _folder(given: str) -> Path:
    """A folder, or the SKILL.md in it. `.` has a name too."""
    path = Path(os.path.abspath(os.path.expanduser(given)))
    return path.parent if path.name in FILES and path.is_file() else path
