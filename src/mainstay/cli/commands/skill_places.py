"""Where the skills are that commands are about: the home's own, which every workspace has, and those of a workspace."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from mainstay.agent.places import own_database
from mainstay.agent.remembering import Place as Grounds
from mainstay.agent.whose import Whose
from mainstay.agent.workplace import SKILLS
from mainstay.cli.commands.homes import Place, home_of, run_async
from mainstay.config.loading import Config, load_config
from mainstay.config.schema import data_home
from mainstay.core.errors import ConfigError
from mainstay.skills.find import Scope, Shelf
from mainstay.skills.lock import Pinned, read_lock, recover
from mainstay.store.home import make_workspace, prepare

ROOMS_MAX = 1_000  # folders of channels and rooms that are looked into


class Skills(msgspec.Struct, frozen=True):
    """The skills folder that a command is about. Without a workspace: the home's own."""

    config: Config
    place: Place
    workspace: str | None = None

    @property
    def root(self) -> Path:
        if self.workspace is None:
            return self.place.data
        return own_database(self.place.data, self.workspace).parent

    @property
    def folder(self) -> Path:
        return self.root / SKILLS

    @property
    def whose(self) -> str:
        return "the home's own skills" if self.workspace is None else f"the skills of workspace {self.workspace}"

    def at(self, workspace: str | None) -> Skills:
        """Raises ConfigError if there is no such workspace: one that is misspelt would be made."""
        found = msgspec.structs.replace(self, workspace=workspace)
        if workspace is None or workspace == self.config.workspace or found.root.is_dir():
            return found
        there = sorted(one.name for one in (self.place.data / "workspaces").glob("*") if one.is_dir())
        raise ConfigError(f"there is no workspace {workspace}; those that are: {', '.join(there) or 'none yet'}")

    def made(self) -> Path:
        """The folder, in a home that is there."""
        prepare(self.place.data)
        if self.workspace is not None:
            make_workspace(self.place.data, self.workspace)
        return self.folder

    def scopes(self) -> list[Scope]:
        """The broadest first: folders of the configuration, the home; of a workspace also its own, its channels' and
        its rooms'."""
        data = self.place.data
        given = [os.path.realpath(data / Path(one).expanduser()) for one in self.config.skills.folders]
        found = [Scope(f"folder {one}", one, one) for one in given]
        found.append(Scope("home", str(data / SKILLS), str(data)))
        if self.workspace is None:
            return found
        root = self.root
        found.append(Scope("workspace", str(self.folder), str(root)))
        for one in sorted([*root.glob(f"*/{SKILLS}"), *root.glob(f"*/*/{SKILLS}")])[:ROOMS_MAX]:
            name = str(one.parent.relative_to(root))
            found.append(Scope(f"{'room' if '/' in name else 'channel'} {name}", str(one), str(root)))
        return found

    def shelf(self, *scopes: Scope, whose: Whose) -> Shelf:
        workspace, trusted = self.workspace or self.config.workspace, self.config.skills.trusted
        return Shelf(lambda session: scopes, workspace=workspace, trusted=trusted, labels=whose.origin, patient=True)

    def whose_words(self) -> Whose:
        """What is known of the files that agents have written: of this workspace, and of those it has links to."""
        folder = own_database(self.place.data, self.workspace or self.config.workspace).parent
        whose = Whose()
        run_async(whose.learn(self.config, Grounds(self.place.data, folder)))
        return whose

    def recovered(self) -> Skills:
        """What a command that was killed has begun is finished."""
        for folder in {self.folder, self.place.data / SKILLS}:
            recover(folder)
        return self


def skills_of(options: argparse.Namespace, *, looking: bool = False) -> Skills:
    """Those of the workspace that is named; without one the home's own or, for who only looks, all that are had in the
    configured one."""
    home = home_of(options)
    config = load_config(home, env=os.environ).config
    place = Place(home, data_home(home, config), config.workspace)
    workspace = options.workspace or (config.workspace if looking else None)
    return Skills(config, place).at(workspace).recovered()


def pinned_in(scope: Scope) -> dict[str, Pinned]:
    """Nothing for a lock that cannot be read: its scope has no skills then, and says so."""
    try:
        return read_lock(Path(scope.folder))
    except ConfigError:
        return {}
