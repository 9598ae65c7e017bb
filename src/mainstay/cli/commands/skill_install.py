"""`mainstay skill install|copy|link|approve|trust|remove`: shows what a skill contains and asks for confirmation."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import run_async
from mainstay.cli.commands.output import print_done, print_json, style_text
from mainstay.cli.commands.plugin_mcp_helpers import confirm
from mainstay.cli.commands.skill_folders import SkillsFolder, open_skills_folder
from mainstay.core.errors import ConfigError
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.io.fetch import parse_private_hosts
from mainstay.io.package_installer import compute_digest
from mainstay.skills import installer
from mainstay.skills.allowed_tools import parse_allowed_tools
from mainstay.skills.installer import SkillInstallPlan, SkippedSkill
from mainstay.skills.lock_file import SkillLockEntry, check_skill_name, read_lock
from mainstay.skills.registry import AvailableSkill, SkillScope
from mainstay.skills.skill import SkillRefused, read_skill
from mainstay.skills.skill_fetcher import UnpackedSkill, choose_skills, download_archive, is_url, open_source

LISTED_MAX = 12  # files and findings that are listed
CONFIRMATION_NEEDED = "{} a skill needs confirmation; add --yes to confirm"


# --- install -------------------------------------------------------------------------------------


def install(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options)
    with _open_source_skills(skills, options.source) as source_skills:
        plans, skipped = _plan_installation(source_skills, skills.folder, options)
        if not options.json:
            for plan in plans:
                _print_plan(plan)
            print(f"into {escape_line(skills.description)}: {escape_line(str(skills.folder))}")
        _refuse_dangerous(plans, options.force)
        _refuse_replacing_own(plans, options.force)
        what = plans[0].name if len(plans) == 1 else format_count(len(plans), "skill")
        if not options.yes and not confirm(f"Install {what}?", CONFIRMATION_NEEDED.format("installing")):
            print("nothing was installed")
            return 0
        added = installer.install_skills(plans, skills.create_folder(), trusted=options.trust, force=options.force)
    if options.json:
        documents = [_build_document(plan, added[plan.name]) for plan in plans]
        print_json({"ok": True, "folder": str(skills.folder), "skills": documents, "skipped": skipped})
        return 0
    for skill in skipped:
        print_note(f"{escape_line(skill.name)} was not installed: {escape_line(skill.reason)}")
    for plan in plans:
        print(f"{plan.name} was installed" + (" and trusted" if options.trust else ""))
    if not options.trust:
        print_note("its text is untrusted until you have read it: `mainstay skill trust NAME` marks it as trusted")
    return 0


@contextmanager
def _open_source_skills(skills: SkillsFolder, source: str) -> Iterator[list[UnpackedSkill]]:
    """Unpack or download the source. Yields the skills in it."""
    if not is_url(source):
        with open_source(source) as source_skills:
            yield source_skills
        return
    with TemporaryDirectory(prefix="mainstay-skill-") as temporary:
        private = parse_private_hosts(skills.config.tools.fetch_private)
        archive = run_async(download_archive(source, Path(temporary), private_hosts=private, on_progress=print_note))
        with open_source(source, archive) as source_skills:
            yield source_skills


def _plan_installation(
    source_skills: Sequence[UnpackedSkill], folder: Path, options: argparse.Namespace
) -> tuple[list[SkillInstallPlan], list[SkippedSkill]]:
    """Plan the installation of the chosen skills, chosen by their own names or their folders' names. With --all, skills
    that cannot be installed are skipped."""
    names = [_read_name(skill) for skill in source_skills]
    chosen = choose_skills(names, options.skill, choose_all=options.all, location=options.source)
    source = os.path.abspath(os.path.expanduser(options.source))
    if is_url(options.source):
        source = re.split("[?#]", options.source)[0]  # the query may contain a key
    if options.all and len(chosen) > 1:
        return installer.plan_all_installs(source_skills, folder, source=source, force=options.force)
    plans = [
        installer.plan_install(
            new.folder, folder, source=source, folder_name=new.folder_name, omitted_links=new.omitted_links
        )
        for new in (source_skills[n] for n in chosen)
    ]
    return plans, []


def _read_name(source_skill: UnpackedSkill) -> str:
    try:
        return read_skill(str(source_skill.folder))[0].name
    except SkillRefused:
        return source_skill.folder_name or source_skill.folder.name


def _refuse_dangerous(plans: Sequence[SkillInstallPlan], force: bool) -> None:
    for plan in plans:
        if plan.dangers and not force:
            more = f", and {len(plan.dangers) - 1} more" if len(plan.dangers) > 1 else ""
            problem = f"{plan.name} looks dangerous: {plan.dangers[0]}{more}; nothing was changed"
            raise ConfigError(f"{problem}. Read it, and add --force to accept it")


def _refuse_replacing_own(plans: Sequence[SkillInstallPlan], force: bool) -> None:
    for plan in plans:
        if plan.existing is not None and plan.existing.own and not force:
            raise ConfigError(f"a skill {plan.name} of your own exists already; --force replaces it")


# --- output --------------------------------------------------------------------------------------


def _print_plan(plan: SkillInstallPlan) -> None:
    print(f"{style_text(escape_line(plan.name), 'bold')}: {escape_line(plan.description)}")
    print(f"  from {escape_line(plan.source)}")
    print(f"  {plan.digest}")
    print(f"  {format_count(len(plan.files), 'file')}, {plan.size_bytes:,} bytes: {_join_first(plan.files)}")
    if plan.scripts:
        scripts = style_text(format_count(len(plan.scripts), "script"), "yellow")
        print(f"  {scripts}, run only in the sandbox: {_join_first(plan.scripts)}")
    print(f"  used: {_describe_trigger(plan)}")
    if plan.allowed_tools:
        rules = ", ".join(map(escape_line, parse_allowed_tools(plan.allowed_tools)))
        print(
            f"  allowed tools: {escape_line(plan.allowed_tools, 200)} (its turns are restricted to {rules or 'none'})"
        )
    for name, value in (("needs", plan.compatibility), ("license", plan.license)):
        if value:
            print(f"  {name}: {escape_line(value, 200)}")
    _print_replaced(plan)
    for finding in plan.findings[:LISTED_MAX]:
        colour = "red" if finding.level == "danger" else "yellow"
        print(f"  {style_text(finding.level, colour)}: {escape_line(str(finding))}")
    if len(plan.findings) > LISTED_MAX:
        print(f"  and {len(plan.findings) - LISTED_MAX} more findings")


def _print_replaced(plan: SkillInstallPlan) -> None:
    before = plan.existing
    if before is None:
        return
    if before.same and not before.own:
        print("  the same content is installed already")
        return
    if before.own:
        print(f"  {style_text('replaces a skill of your own', 'yellow')}")
    elif before.link:
        print(f"  replaces a link to {escape_line(before.link)}")
    elif before.source:
        print(f"  replaces the skill installed from {escape_line(before.source)}, {escape_line(before.at)}")
    if before.edited:
        print(f"  {style_text('its installed files were changed since', 'yellow')}")
    if before.trusted:
        print("  the installed skill is trusted; this one is not, unless you add --trust")
    if before.changes:
        print("  unlike the installed skill, it:")
    for change in before.changes:
        print(f"    {style_text(escape_line(change), 'yellow')}")


def _describe_trigger(plan: SkillInstallPlan) -> str:
    match plan.trigger:
        case "auto":
            return "always: its whole text is in the instructions of every session"
        case "keyword":
            return f"when a message contains one of: {escape_line(', '.join(plan.keywords), 200)}"
    if not plan.is_listed:
        return "when a user requests it by its name"
    return "on request; its description is in the instructions of every session"


def _join_first(names: Sequence[str]) -> str:
    listed = ", ".join(map(escape_line, names[:LISTED_MAX]))
    return listed + (", …" if len(names) > LISTED_MAX else "")


def _build_document(plan: SkillInstallPlan, lock_entry: SkillLockEntry | None = None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": plan.name,
        "description": plan.description,
        "source": plan.source,
        "sha256": plan.digest,
        "files": plan.files,
        "bytes": plan.size_bytes,
        "scripts": plan.scripts,
        "allowed_tools": plan.allowed_tools,
        "trigger": plan.trigger,
        "findings": plan.findings,
        "before": plan.existing,
    }
    return document | ({"trusted": lock_entry.trusted, "at": lock_entry.at} if lock_entry is not None else {})


# --- approve, trust, remove ----------------------------------------------------------------------


def approve(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options)
    plan = installer.plan_approval(options.name, skills.folder)
    assert plan.existing is not None, "it was installed"
    if plan.existing.same:
        done = f"{plan.name} has not changed since it was approved"
        return print_done(options, done, {"name": plan.name, "changed": False})
    if not options.json:
        _print_plan(plan)
    _refuse_dangerous([plan], options.force)
    if not options.yes and not confirm(f"Approve {plan.name} as it is now?", CONFIRMATION_NEEDED.format("approving")):
        print("nothing was approved")
        return 0
    approved = installer.approve_changes(plan, skills.folder, trusted=options.trust)
    lost = ", and is no longer trusted" if plan.existing.trusted and not approved.trusted else ""
    return print_done(options, f"{plan.name} was approved{lost}", {"changed": True, **_build_document(plan, approved)})


def trust(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options)
    if options.revoke:
        installer.distrust_skill(options.name, skills.folder)
        return print_done(options, f"{options.name} is untrusted again", {"name": options.name, "trusted": False})
    if (written := _find_untrusted_own(skills, options.name)) is not None:
        return _trust_own(options, skills, written)
    plan = installer.plan_approval(options.name, skills.folder)
    if not options.json:
        _print_plan(plan)
        print(f"  read it: {escape_line(str(skills.folder / plan.name))}")
    if not options.yes and not confirm(
        f"Do you trust the whole text of {plan.name}?", CONFIRMATION_NEEDED.format("trusting")
    ):
        print("nothing was changed")
        return 0
    installer.trust_skill(plan.name, skills.folder, plan.digest)
    return print_done(options, f"{plan.name} is trusted", {"name": plan.name, "trusted": True})


def _find_untrusted_own(skills: SkillsFolder, name: str) -> AvailableSkill | None:
    """Return the skill if an agent wrote it after reading untrusted text and it was not trusted since."""
    if name in read_lock(skills.folder):
        return None
    shelf = skills.build_registry(
        SkillScope("here", str(skills.folder), str(skills.root)), file_origins=skills.load_file_origins()
    )
    return next(
        (available for available in shelf.skills("") if available.skill.name == name and available.untrusted), None
    )


def _trust_own(options: argparse.Namespace, skills: SkillsFolder, available: AvailableSkill) -> int:
    name, folder_name = available.skill.name, os.path.basename(available.entry_path)
    if folder_name != name:  # the lock file has folder names, which must equal the skills' names
        shown_name = escape_line(folder_name)
        how = f"write `name: {shown_name}` into its SKILL.md, and trust that"
        raise ConfigError(f"the folder of {name} has another name, {shown_name}; {how}")
    digest = compute_digest(skills.folder / name)
    if not options.json:
        print(f"{escape_line(name)}: {escape_line(available.untrusted_reason)}\n  {digest}")
        print(f"  read it: {escape_line(available.skill.folder)}")
    if not options.yes and not confirm(
        f"Do you trust the whole text of {name}?", CONFIRMATION_NEEDED.format("trusting")
    ):
        print("nothing was changed")
        return 0
    installer.trust_agent_written(name, skills.folder, digest)
    return print_done(options, f"{name} is trusted", {"name": name, "trusted": True})


def remove(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options)
    name = check_skill_name(options.name)
    path = skills.folder / name
    if not os.path.lexists(path) and name not in read_lock(skills.folder):
        installer.remove_skill(name, skills.folder)  # raises, and names the skills that exist
    own = os.path.lexists(path) and not path.is_symlink() and name not in read_lock(skills.folder)
    warning = ", a skill of your own that has no other copy" if own else ""
    if not options.yes and not confirm(f"Remove {name}{warning}?", CONFIRMATION_NEEDED.format("removing")):
        print("nothing was removed")
        return 0
    removed = installer.remove_skill(name, skills.folder)
    done = f"the link {name} was removed" if removed is not None and removed.link else f"{name} was removed"
    return print_done(options, done, {"name": name, "own": removed is None})


# --- copy and link -------------------------------------------------------------------------------


def copy(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options)
    source, target = (
        skills.for_workspace(options.source_workspace).recover(),
        skills.for_workspace(options.target_workspace).recover(),
    )
    outside = _has_untrusted_files(source, options.name)
    copied = installer.copy_skill(
        options.name, source.folder, target.create_folder(), force=options.force, untrusted=outside
    )
    if outside and not options.json:
        print_note("an agent wrote it after reading untrusted text: the copy is not trusted")
    trust = "own" if copied is None else "trusted" if copied.trusted else "untrusted"
    done = f"{options.name} was copied to {target.description}"
    return print_done(
        options, done, {"name": options.name, "folder": str(target.folder / options.name), "trust": trust}
    )


def link(options: argparse.Namespace) -> int:
    skills = open_skills_folder(options)
    source, target = (
        skills.for_workspace(options.source_workspace).recover(),
        skills.for_workspace(options.target_workspace).recover(),
    )
    if _has_untrusted_files(source, options.name):
        raise ConfigError(
            f"an agent wrote {options.name} after reading untrusted text: read it, and copy it instead of linking it"
        )
    linked = installer.link_skill(options.name, source.folder, target.create_folder(), force=options.force)
    done = f"{options.name} was linked into {target.description}: edits show in both"
    return print_done(
        options, done, {"name": options.name, "folder": str(target.folder / options.name), "link": linked.link}
    )


def _has_untrusted_files(source: SkillsFolder, name: str) -> bool:
    """Whether an agent wrote a file of the skill after reading untrusted text. Only the workspace that has the real
    file records that."""
    return source.load_file_origins().has_untrusted(os.path.realpath(source.folder / check_skill_name(name)))
