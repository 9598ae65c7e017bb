"""What the commands about plugins and MCP servers share: where these are, what the rules say of them, a question."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainstay.app.commands.homes import Place, home_of, overrides_of
from mainstay.app.commands.talking import owner_of, tell
from mainstay.app.commands.tree import UsageError
from mainstay.app.config import Config, load_config
from mainstay.app.config_edit import add_item
from mainstay.app.elsewhere import PLUGINS, Grounds, grounds_of
from mainstay.app.grants import Grants
from mainstay.app.schema import data_home
from mainstay.app.trust import known_secrets, make_policy
from mainstay.guards.guard import GuardRules, Guards
from mainstay.policy.policy import Policy

ALLOW = ("policy", "allow")


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


def tell_owner(here: Here) -> None:
    """Whoever owns the home has read all this when it started."""
    if owner_of(here.place) is not None:
        tell("the process that owns this home now takes it up when it is started again")


def pairs(given: Sequence[str], what: str) -> dict[str, str]:
    """`KEY=VALUE`, each key once."""
    made: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise UsageError(f"{one!r} is no {what}")
        if key in made:
            raise UsageError(f"{key!r} is given twice")
        made[key] = value
    return made
