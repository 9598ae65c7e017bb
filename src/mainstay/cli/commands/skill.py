"""`mainstay skill list|show|search|validate`: the skills of a workspace, their trust and their problems."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.file_origins import FileOriginLookup
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.commands.skill_folders import SkillsFolder, open_skills_folder, read_scope_lock
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.skills.allowed_tools import parse_allowed_tools
from mainstay.skills.frontmatter import SKILL_FILE_NAMES, SkillRefused
from mainstay.skills.keyword_matcher import fold_case
from mainstay.skills.lock_file import SkillLockEntry
from mainstay.skills.registry import AvailableSkill, SkillScope
from mainstay.skills.skill import normalise_name, read_skill
from mainstay.skills.validator import validate_skill as problems_of

DESCRIPTION_CHARS_MAX = 60
HITS_MAX = 50


class ListedSkill(msgspec.Struct, frozen=True):
    """A skill of one scope."""

    available: AvailableSkill
    lock_entry: SkillLockEntry | None
    hidden_by: str = ""  # the narrower scope that has a skill of the same name; empty: none

    @property
    def trust(self) -> str:
        if self.available.untrusted:
            return "untrusted"
        return "trusted" if self.lock_entry is not None and self.lock_entry.digest else "own"


# --- list and search -----------------------------------------------------------------------------


def list_skills(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options, for_reading=True)
    listed, problems = _list_all(skills)
    if options.json:
        print_json({"ok": True, "skills": [_build_document(skill) for skill in listed], "troubles": problems})
        return 0
    if listed:
        print_table(("NAME", "SCOPE", "TRIGGER", "TRUST", "DESCRIPTION"), [_build_row(skill) for skill in listed])
    elif not problems:
        print_note(f"there are no skills in {escape_line(str(skills.folder))}; `mainstay skill install` installs some")
    for problem in problems:
        print_note(f"{style_text('!', 'yellow')} {escape_line(problem)}")
    return 0


def search(options: argparse.Namespace) -> int:
    listed, _ = _list_all(open_skills_folder(options, for_reading=True))
    words = fold_case(" ".join(options.words)).split()
    scored = [(_score_match(skill, words), skill) for skill in listed if not skill.hidden_by]
    best = [skill for score, skill in sorted(scored, key=lambda pair: -pair[0]) if score][:HITS_MAX]
    if options.json:
        print_json({"ok": True, "skills": [_build_document(skill) for skill in best]})
        return 0
    for hit in best:
        skill = hit.available.skill
        name, scope = style_text(escape_line(skill.name), "bold"), escape_line(hit.available.scope.name)
        print(f"{name} ({scope}): {escape_line(skill.description, 200)}")
    if not best:
        print_note(f"none of {format_count(len(listed), 'skill')} matches")
    return 0


def _score_match(listed: ListedSkill, words: list[str]) -> int:
    """Count the words that occur; one in the name counts three times as much."""
    skill = listed.available.skill
    name, text = fold_case(skill.name), fold_case(f"{skill.description} {' '.join(skill.keywords)}")
    return sum(3 * (word in name) + (word in text) for word in words)


def _list_all(skills: SkillsFolder) -> tuple[list[ListedSkill], list[str]]:
    """Return all skills by scope, broadest scope first, and the problems."""
    file_origins = skills.load_file_origins()
    scopes = skills.list_scopes()
    by_scope = [(scope, _list_scope(skills, scope, file_origins)) for scope in scopes]
    listed: list[ListedSkill] = []
    for position, (scope, (available, _)) in enumerate(by_scope):
        lock_entries = read_scope_lock(scope)
        for skill in available:
            name = normalise_name(skill.skill.name)
            others = (
                other.name
                for other, (those, _) in by_scope[position + 1 :]
                if other.name in ("home", "workspace") and any(normalise_name(it.skill.name) == name for it in those)
            )
            listed.append(ListedSkill(skill, lock_entries.get(os.path.basename(skill.entry_path)), next(others, "")))
    return listed, [problem for _, (_, problems) in by_scope for problem in problems]


def _list_scope(
    skills: SkillsFolder, scope: SkillScope, file_origins: FileOriginLookup
) -> tuple[tuple[AvailableSkill, ...], list[str]]:
    shelf = skills.build_registry(scope, file_origins=file_origins)
    return shelf.skills(""), [*shelf.problems(""), *_find_other_workspaces_skills(skills, scope, shelf.skills(""))]


def _find_other_workspaces_skills(
    skills: SkillsFolder, scope: SkillScope, available: tuple[AvailableSkill, ...]
) -> list[str]:
    """Return a note for each skill of the scope that is restricted to another workspace, and so not available."""
    notes = []
    names = {os.path.basename(skill.entry_path) for skill in available}
    for folder in sorted(Path(scope.folder).glob("[!.]*")):
        if (
            folder.name in names
            or not folder.is_dir()
            or not any((folder / name).is_file() for name in SKILL_FILE_NAMES)
        ):
            continue
        try:
            skill, _ = read_skill(str(folder))
        except SkillRefused:  # already among the problems
            continue
        if skill.workspace and skill.workspace != (skills.workspace or skills.config.workspace):
            notes.append(f"The skill {skill.name} is for the workspace {skill.workspace} only.")
    return notes


def _build_row(listed: ListedSkill) -> tuple[str, ...]:
    skill = listed.available.skill
    scope = listed.available.scope.name + (f" (hidden by {listed.hidden_by})" if listed.hidden_by else "")
    trust = listed.trust + (" (link)" if listed.lock_entry is not None and listed.lock_entry.link else "")
    return skill.name, scope, skill.trigger, trust, escape_line(skill.description, DESCRIPTION_CHARS_MAX)


def _build_document(listed: ListedSkill) -> dict[str, Any]:
    skill, lock_entry = listed.available.skill, listed.lock_entry
    document: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "scope": listed.available.scope.name,
        "folder": skill.folder,
        "trigger": skill.trigger,
        "keywords": skill.keywords,
        "allowed_tools": skill.allowed_tools,
        "trust": listed.trust,
        "why": listed.available.untrusted_reason,
        "hidden_by": listed.hidden_by,
        "warnings": skill.warnings,
    }
    if lock_entry is not None:
        document |= {
            "source": lock_entry.source,
            "at": lock_entry.at,
            "sha256": lock_entry.digest,
            "link": lock_entry.link,
        }
    return document


# --- show ----------------------------------------------------------------------------------------


def show(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options, for_reading=True)
    shelf = skills.build_registry(*skills.list_scopes(), file_origins=skills.load_file_origins())
    available = shelf.get("", options.name)
    loaded, body = shelf.load_skill(available)
    listed = ListedSkill(loaded, read_scope_lock(loaded.scope).get(os.path.basename(available.entry_path)))
    files = shelf.list_files(loaded)
    findings = listed.lock_entry.findings if listed.lock_entry is not None else ()
    if options.json:
        print_json({"ok": True, **_build_document(listed), "files": files, "findings": findings, "body": body})
        return 0
    skill = loaded.skill
    print(f"{style_text(escape_line(skill.name), 'bold')}: {escape_line(skill.description)}")
    for name, value in _list_facts(listed, files):
        if value:
            print(f"  {name}: {escape_line(value)}")
    for warning in [*skill.warnings, *findings]:
        print(f"  {style_text('!', 'yellow')} {escape_line(warning)}")
    print()
    print(sanitize_text(body).strip("\n"))
    return 0


def _list_facts(listed: ListedSkill, files: list[str]) -> list[tuple[str, str]]:
    skill, lock_entry = listed.available.skill, listed.lock_entry
    trust = {"own": "your own", "trusted": "installed and trusted", "untrusted": "untrusted"}[listed.trust]
    return [
        ("scope", listed.available.scope.name),
        ("folder", skill.folder),
        ("trigger", skill.trigger + (f" ({', '.join(skill.keywords)})" if skill.keywords else "")),
        ("trust", trust + (f": {listed.available.untrusted_reason}" if listed.available.untrusted_reason else "")),
        (
            "source",
            lock_entry.source + (f", {lock_entry.at}" if lock_entry.at else "") if lock_entry is not None else "",
        ),
        ("link to", lock_entry.link if lock_entry is not None else ""),
        ("restricts its turns to", ", ".join(parse_allowed_tools(skill.allowed_tools)) if skill.allowed_tools else ""),
        ("for workspace", skill.workspace),
        ("needs", skill.compatibility),
        ("license", skill.license),
        ("files", ", ".join(files)),
    ]


# --- validate ------------------------------------------------------------------------------------


def validate(options: argparse.Namespace) -> int:
    """Check skills against the specification; exit code 1 if one is not valid."""
    results = {path: problems_of(_resolve_folder(path)) for path in options.paths or _list_folders(options)}
    invalid = [path for path, problems in results.items() if problems]
    failed = bool(invalid)
    if options.json:
        skills = [{"path": path, "valid": not problems, "problems": problems} for path, problems in results.items()]
        error = {"error": {"type": "NotValid", "message": f"not valid: {', '.join(invalid)}"}} if failed else {}
        print_json({"ok": not failed, **error, "skills": skills})
        return int(failed)
    if not results:
        print_note("there are no skills in this home; name a folder")
    for path, problems in results.items():
        print(f"{escape_line(path)}: {style_text('not valid', 'red') if problems else style_text('valid', 'green')}")
        for problem in problems:
            print(f"  {escape_line(problem)}")
    return int(failed)


def _list_folders(options: argparse.Namespace) -> list[str]:
    """Return the folders of all skills of the workspace, including those that cannot be used."""
    skills = open_skills_folder(options, for_reading=True)
    folders = (folder for scope in skills.list_scopes() for folder in sorted(Path(scope.folder).glob("*")))
    return [str(folder) for folder in folders if folder.is_dir() and not folder.name.startswith(".")]


def _resolve_folder(path: str) -> Path:
    """Return the absolute path of a skill's folder, given that or the SKILL.md in it."""
    absolute = Path(os.path.abspath(os.path.expanduser(path)))
    return absolute.parent if absolute.name in SKILL_FILE_NAMES and absolute.is_file() else absolute
