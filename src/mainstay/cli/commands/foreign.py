"""What the commands about plugins and MCP servers share: where these are, what the rules say of them, what they said,
a question."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainstay.agent.elsewhere import PLUGINS, Grounds, grounds_of
from mainstay.agent.grants import Grants, forget_grants, grants_about
from mainstay.agent.trust import known_secrets, make_policy
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.commands.homes import Place, home_of, overrides_of, run_async
from mainstay.cli.commands.out import print_json
from mainstay.cli.commands.talking import owner_of, tell
from mainstay.cli.commands.tree import UsageError
from mainstay.config.editing import add_item
from mainstay.config.loading import Config, load_config
from mainstay.config.schema import data_home
from mainstay.core.errors import HomeTaken
from mainstay.trust.commands import escaped
from mainstay.trust.flow import DESTINATION, opened
from mainstay.trust.guards.guard import GuardRules, Guards
from mainstay.trust.policy import Policy
from mainstay.trust.rules import Rule

ALLOW = ("policy", "allow")
AS_YOU = "runs as you, with everything you can do"


class Here(msgspec.Struct, frozen=True):
    """A home as these commands see it."""

    config: Config
    place: Place

    @property
    def plugins(self) -> Path:
        return self.place.data / PLUGINS

    @property
    def workspace(self) -> Path:
        return self.place.database.parent

    @property
    def workspaces(self) -> list[Path]:
        """The folders of all that there are; a link may lead to what is another's."""
        found = sorted((self.place.data / "workspaces").glob("*"))
        return [one for one in found if one.is_dir() and not one.is_symlink()]

    @property
    def unwalled(self) -> bool:
        """What comes from elsewhere runs without a sandbox, because its owner has said so."""
        return self.config.sandbox.kind == "host"

    def folder(self, path: str) -> Path:
        """Relative to the home, as everything in the configuration is."""
        return self.place.data / Path(path).expanduser()

    def policy(self) -> Policy:
        return make_policy(self.config, Grants(self.workspace), None)

    def guards(self) -> Guards:
        return Guards(GuardRules(), b"", known_secrets(self.config, os.environ))

    @asynccontextmanager
    async def grounds(self, workspace: Path | None = None) -> AsyncIterator[Grounds]:
        made = grounds_of(self.config, self.place.data, workspace or self.workspace, self.guards())
        try:
            yield made
        finally:
            await made.close()


def here(options: argparse.Namespace) -> Here:
    home = home_of(options)
    config = load_config(home, env=os.environ, overrides=overrides_of(options)).config
    return Here(config, Place(home, data_home(home, config), config.workspace))


def sure(question: str, without: str) -> bool:
    """A person's yes. Where there is nobody to ask, `without` says what to add to the command instead."""
    if not sys.stdin.isatty():
        raise UsageError(without)
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def allow(here: Here, rule: str) -> str:
    """Adds it to policy.allow; a sentence about it."""
    added = add_item(here.place.home, ALLOW, rule)
    return f"{rule} was added to policy.allow" if added else f"{rule} is in policy.allow already"


class Party(msgspec.Struct, frozen=True):
    """A plugin or a server, as rules know it."""

    kind: str  # plugin, mcp
    name: str
    prefix: str  # how its tools' names begin

    @property
    def destination(self) -> str:
        return f"{self.kind}:{self.name}"


def rules_about(here: Here, party: Party) -> list[str]:
    """Those that let its tools be used, or open it as a destination, and where they stand."""
    policy, kept = here.config.policy, Grants(here.workspace).rules
    tools = f"{party.prefix}__", f"{party.kind}.{party.prefix}"
    found = [f"{one} (policy.allow)" for one in policy.allow if Rule.parse(one).may_cover(*tools)]
    found += [f"{one} (policy.destinations)" for one in policy.destinations if opened(party.destination, (one,))]
    for one in kept:
        if one.startswith(DESTINATION):
            about = opened(party.destination, (one.removeprefix(DESTINATION),))
        else:
            about = Rule.parse(one).may_cover(*tools)
        found += [f"{one} (allowed for good)"] if about else []
    return found


def forget(here: Here, party: Party) -> list[str]:
    """What was allowed for good to one that is taken out, in every workspace of the home: another of its name is asked
    about anew. Which rules these were."""

    async def everywhere() -> list[str]:
        gone = [rule for folder in here.workspaces for rule in await _forgotten(here, folder, party)]
        return list(dict.fromkeys(gone))

    return run_async(everywhere())


async def _forgotten(here: Here, folder: Path, party: Party) -> list[str]:
    """Through whoever owns the home, who has them in mind; unless that one works in another workspace."""
    opens = escaped(party.destination)  # as an "always" writes it
    if (owner := owner_of(Place(here.place.home, here.place.data, folder.name))) is not None:
        try:
            gone = grants_about(await owner.approvals.rules(), party.prefix, opens)
            for rule in gone:
                await owner.approvals.revoke(rule)
            return gone
        except HomeTaken:  # or it has just gone
            pass
    return forget_grants(folder, party.prefix, opens)


def tell_forgotten(gone: Sequence[str], left: Sequence[str]) -> None:
    if gone:
        print(f"no longer allowed: {', '.join(map(visible, gone))}")
    if left:
        tell(f"another of this name would be allowed still, by {', '.join(map(visible, left))}")


def print_log(options: argparse.Namespace, file: Path, nothing: str) -> int:
    """What is in a log and in what was moved aside from it; `nothing` is said if that is nothing."""
    lines = log_lines(file)
    if options.json:
        print_json({"ok": True, "name": options.name, "lines": lines})
        return 0
    for line in lines:
        print(safe(line))
    if not lines:
        tell(nothing)
    return 0


def log_lines(file: Path) -> list[str]:
    lines: list[str] = []
    for one in (file.with_name(f"{file.name}.1"), file):
        if one.is_file() and not one.is_symlink():
            lines += one.read_text(errors="replace").splitlines()
    return lines


def quoted(name: str) -> str:
    """As it stands in a command."""
    return visible(shlex.quote(name))


def tell_owner(here: Here) -> None:
    """Whoever owns the home has read all this when it started."""
    if owner_of(here.place) is not None:
        tell("the process that owns this home takes it up when it is started again; `mainstay serve` also on SIGHUP")


def pairs(given: Sequence[str], what: str) -> dict[str, str]:
    """`KEY=VALUE`, each key once."""
    made: dict[str, str] = {}
    for one in given:
        key, equals, value = text_of(one).partition("=")
        if not key or not equals:
            raise UsageError(f"{one!r} is no {what}")
        if key in made:
            raise UsageError(f"{key!r} is given twice")
        made[key] = value
    return made


def text_of(given: str) -> str:
    """A word of the command line that can be written down."""
    if any("\ud800" <= char <= "\udfff" for char in given):
        raise UsageError(f"'{visible(given, 80)}' is not UTF-8")
    return given
