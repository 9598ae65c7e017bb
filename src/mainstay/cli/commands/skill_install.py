"""`mainstay skill install|copy|link|approve|trust|remove`: what is brought is shown, and a person is asked."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.foreign import sure
from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.out import paint, print_json
from mainstay.cli.commands.skill_places import Skills, skills_of
from mainstay.cli.commands.talking import tell
from mainstay.core.errors import ConfigError
from mainstay.io.fetch import private_places
from mainstay.io.packages import digest_of
from mainstay.skills import package
from mainstay.skills.allowed import rules_of
from mainstay.skills.find import Found, Scope
from mainstay.skills.lock import Pinned, checked_name, read_lock
from mainstay.skills.package import Plan
from mainstay.skills.skill import SkillRefused, read_skill
from mainstay.skills.source import Brought, brought, choose, download, is_address

SHOWN_MAX = 12  # files, findings
ASK = "a skill is {} with your word only; add --yes to give it"


# --- install -------------------------------------------------------------------------------------


def install(options: argparse.Namespace) -> int:
    at = skills_of(options)
    with _from(at, options.source) as found:
        plans = _plans(found, at.folder, options)
        if not options.json:
            for one in plans:
                _show(one)
            print(f"into {visible(at.whose)}: {visible(str(at.folder))}")
        _refuse_dangers(plans, options.force)
        _refuse_own(plans, options.force)
        what = plans[0].name if len(plans) == 1 else count(len(plans), "skill")
        if not options.yes and not sure(f"Install {what}?", ASK.format("installed")):
            print("nothing was installed")
            return 0
        added = package.install(plans, at.made(), trusted=options.trust, force=options.force)
    if options.json:
        print_json({"ok": True, "folder": str(at.folder), "skills": [_document(one, added[one.name]) for one in plans]})
        return 0
    for one in plans:
        print(f"{one.name} was installed" + (", and its words are trusted" if options.trust else ""))
    if not options.trust:
        tell("its words are somebody else's until you have read them: `mainstay skill trust NAME` makes them yours")
    return 0


@contextmanager
def _from(at: Skills, given: str) -> Iterator[list[Brought]]:
    if not is_address(given):
        with brought(given) as found:
            yield found
        return
    with TemporaryDirectory(prefix="mainstay-skill-") as made:
        private = private_places(at.config.tools.fetch_private)
        archive = run_async(download(given, Path(made), private=private, tell=tell))
        with brought(given, archive) as found:
            yield found


def _plans(found: Sequence[Brought], folder: Path, options: argparse.Namespace) -> list[Plan]:
    """Of several skills those that were chosen, by what they call themselves or what their folder is called."""
    names = [_name(one) for one in found]
    chosen = choose(names, options.skill, everything=options.all, given=options.source)
    source = os.path.abspath(os.path.expanduser(options.source))
    if is_address(options.source):
        source = re.split("[?#]", options.source)[0]  # what follows may be a key
    return [package.plan(found[n].folder, folder, source=source, called=found[n].called) for n in chosen]


def _name(one: Brought) -> str:
    try:
        return read_skill(str(one.folder))[0].name
    except SkillRefused:
        return one.called or one.folder.name


def _refuse_dangers(plans: Sequence[Plan], force: bool) -> None:
    for one in plans:
        if one.dangers and not force:
            more = f", and {len(one.dangers) - 1} more" if len(one.dangers) > 1 else ""
            said = f"{one.name} looks dangerous: {one.dangers[0]}{more}; nothing was done"
            raise ConfigError(f"{said}. Read it, and add --force if you want it all the same")


def _refuse_own(plans: Sequence[Plan], force: bool) -> None:
    for one in plans:
        if one.before is not None and one.before.own and not force:
            raise ConfigError(f"{one.name} is there already, and is your own; --force replaces it")


# --- what is shown -------------------------------------------------------------------------------


def _show(one: Plan) -> None:
    print(f"{paint(visible(one.name), 'bold')}: {visible(one.description)}")
    print(f"  from {visible(one.source)}")
    print(f"  {one.digest}")
    print(f"  {count(len(one.files), 'file')}, {one.bytes:,} bytes: {_some(one.files)}")
    if one.scripts:
        how_many = paint(count(len(one.scripts), "script"), "yellow")
        print(f"  {how_many}, run in the sandbox if at all: {_some(one.scripts)}")
    print(f"  brought in: {_trigger(one)}")
    if one.allowed_tools:
        narrows = ", ".join(map(visible, rules_of(one.allowed_tools)))
        print(f"  tools it wants: {visible(one.allowed_tools, 200)} (its turns are narrowed to {narrows or 'none'})")
    for what, said in (("needs", one.compatibility), ("license", one.license)):
        if said:
            print(f"  {what}: {visible(said, 200)}")
    _show_before(one)
    for finding in one.findings[:SHOWN_MAX]:
        colour = "red" if finding.level == "danger" else "yellow"
        print(f"  {paint(finding.level, colour)}: {visible(str(finding))}")
    if len(one.findings) > SHOWN_MAX:
        print(f"  and {len(one.findings) - SHOWN_MAX} more findings")


def _show_before(one: Plan) -> None:
    before = one.before
    if before is None:
        return
    if before.same and not before.own:
        print("  the same as is installed")
        return
    if before.own:
        print(f"  {paint('in place of your own', 'yellow')}")
    elif before.link:
        print(f"  in place of a link to {visible(before.link)}")
    elif before.source:
        print(f"  in place of what was installed from {visible(before.source)}, {visible(before.at)}")
    if before.edited:
        print(f"  {paint('whose files were changed since', 'yellow')}")
    if before.trusted:
        print("  which was trusted; this is not, unless you say so with --trust")
    if before.changes:
        print("  unlike it, it:")
    for change in before.changes:
        print(f"    {paint(visible(change), 'yellow')}")


def _trigger(one: Plan) -> str:
    match one.trigger:
        case "auto":
            return "always: all of it is among the instructions of every conversation"
        case "keyword":
            return f"when one of these words is said: {visible(', '.join(one.keywords), 200)}"
    return "when it is asked for; its description is always among the instructions"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(visible, names[:SHOWN_MAX]))
    return shown + (", …" if len(names) > SHOWN_MAX else "")


def _document(one: Plan, pinned: Pinned | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": one.name,
        "description": one.description,
        "source": one.source,
        "sha256": one.digest,
        "files": one.files,
        "bytes": one.bytes,
        "scripts": one.scripts,
        "allowed_tools": one.allowed_tools,
        "trigger": one.trigger,
        "findings": one.findings,
        "before": one.before,
    }
    return made | ({"trusted": pinned.trusted, "at": pinned.at} if pinned is not None else {})


# --- approve, trust, remove ----------------------------------------------------------------------


def approve(options: argparse.Namespace) -> int:
    at = skills_of(options)
    found = package.changes(options.name, at.folder)
    assert found.before is not None, "it was installed"
    if found.before.same:
        return _said(options, f"{found.name} is what was approved", {"name": found.name, "changed": False})
    if not options.json:
        _show(found)
    _refuse_dangers([found], options.force)
    if not options.yes and not sure(f"Approve {found.name} as it is now?", ASK.format("approved")):
        print("nothing was approved")
        return 0
    made = package.approve(found, at.folder, trusted=options.trust)
    lost = ", and is no longer trusted" if found.before.trusted and not made.trusted else ""
    return _said(options, f"{found.name} was approved{lost}", {"changed": True, **_document(found, made)})


def trust(options: argparse.Namespace) -> int:
    at = skills_of(options)
    if options.revoke:
        package.distrust(options.name, at.folder)
        said = f"the words of {options.name} are somebody else's again"
        return _said(options, said, {"name": options.name, "trusted": False})
    if (written := _written_here(at, options.name)) is not None:
        return _vouched(options, at, written)
    found = package.changes(options.name, at.folder)
    if not options.json:
        _show(found)
        print(f"  read it: {visible(str(at.folder / found.name))}")
    question = f"Do you vouch for every word of {found.name}?"
    if not options.yes and not sure(question, ASK.format("trusted")):
        print("nothing was changed")
        return 0
    package.trust(found.name, at.folder, found.digest)
    return _said(options, f"the words of {found.name} count as yours", {"name": found.name, "trusted": True})


def _written_here(at: Skills, name: str) -> Found | None:
    """A skill that an agent wrote after it had read something from outside, and that nobody has vouched for."""
    if name in read_lock(at.folder):
        return None
    shelf = at.shelf(Scope("here", str(at.folder), str(at.root)), whose=at.whose_words())
    return next((one for one in shelf.skills("") if one.skill.name == name and one.untrusted), None)


def _vouched(options: argparse.Namespace, at: Skills, found: Found) -> int:
    name, called = found.skill.name, os.path.basename(found.place)
    if called != name:  # a lock names folders, and what is in them has to be called so
        there = visible(called)
        how = f"write `name: {there}` into its SKILL.md, and trust that"
        raise ConfigError(f"{name} lies in a folder that is called {there}; {how}")
    shown = digest_of(at.folder / name)
    if not options.json:
        print(f"{visible(name)}: {visible(found.why)}\n  {shown}\n  read it: {visible(found.skill.folder)}")
    if not options.yes and not sure(f"Do you vouch for every word of {name}?", ASK.format("trusted")):
        print("nothing was changed")
        return 0
    package.vouch(name, at.folder, shown)
    return _said(options, f"the words of {name} count as yours", {"name": name, "trusted": True})


def remove(options: argparse.Namespace) -> int:
    at = skills_of(options)
    name = checked_name(options.name)
    place = at.folder / name
    if not os.path.lexists(place) and name not in read_lock(at.folder):
        package.remove(name, at.folder)  # which says what there is instead
    own = os.path.lexists(place) and not place.is_symlink() and name not in read_lock(at.folder)
    whose = ", which is your own and is nowhere else" if own else ""
    if not options.yes and not sure(f"Remove {name}{whose}?", ASK.format("removed")):
        print("nothing was removed")
        return 0
    gone = package.remove(name, at.folder)
    said = f"the link {name} was removed" if gone is not None and gone.link else f"{name} was removed"
    return _said(options, said, {"name": name, "own": gone is None})


# --- copy and link -------------------------------------------------------------------------------


def copy(options: argparse.Namespace) -> int:
    at = skills_of(options)
    source, target = at.at(options.start).recovered(), at.at(options.end).recovered()
    outside = _others_had_a_hand(source, options.name)
    made = package.copy(options.name, source.folder, target.made(), force=options.force, outside=outside)
    if outside and not options.json:
        tell("an agent wrote it after it had read others' words: the copy is not trusted")
    words = "own" if made is None else "trusted" if made.trusted else "untrusted"
    said = f"{options.name} was copied to {target.whose}"
    return _said(options, said, {"name": options.name, "folder": str(target.folder / options.name), "trust": words})


def link(options: argparse.Namespace) -> int:
    at = skills_of(options)
    source, target = at.at(options.start).recovered(), at.at(options.end).recovered()
    if _others_had_a_hand(source, options.name):
        raise ConfigError(
            f"an agent wrote {options.name} after it had read others' words: read it, and copy it, rather than link it"
        )
    made = package.link(options.name, source.folder, target.made(), force=options.force)
    said = f"{options.name} is in {target.whose} too: an edit shows in both"
    return _said(options, said, {"name": options.name, "folder": str(target.folder / options.name), "link": made.link})


def _others_had_a_hand(source: Skills, name: str) -> bool:
    """Files that an agent wrote under the influence of something from outside are known as such in the workspace that
    they really lie in, and only there."""
    return source.whose_words().any_untrusted(os.path.realpath(source.folder / checked_name(name)))


def _said(options: argparse.Namespace, sentence: str, document: dict[str, Any]) -> int:
    if options.json:
        print_json({"ok": True, **document})
    else:
        print(visible(sentence))
    return 0
