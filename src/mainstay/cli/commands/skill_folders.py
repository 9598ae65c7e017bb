"""Skill folders that commands work on: the home's, which all workspaces share, and a workspace's own."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from mainstay.agent.file_origins import FileOriginLookup
from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.agent.memory_context import AgentFolders as Grounds
from mainstay.agent.session_folders import SKILLS_FOLDER
from mainstay.cli.commands.home_locator import WorkspaceLocation, resolve_home, run_async
from mainstay.config.loader import Config, load_config
from mainstay.config.schema import resolve_data_folder
from mainstay.core.errors import ConfigError
from mainstay.skills.lock_file import SkillLockEntry, read_lock, recover_interrupted
from mainstay.skills.registry import SkillRegistry, SkillScope
from mainstay.store.home import create_workspace_folder, prepare_home

ROOM_FOLDERS_MAX = 1_000  # skill folders of channels and rooms that are read


class SkillsFolder(msgspec.Struct, frozen=True):
    """The skills folder that a command works on: a workspace's, or without a workspace the home's."""

    config: Config
    location: WorkspaceLocation
    workspace: str | None = None

    @property
    def root(self) -> Path:
        if self.workspace is None:
            return self.location.data
        return checked_workspace_folder(self.location.data, self.workspace)

    @property
    def folder(self) -> Path:
        return self.root / SKILLS_FOLDER

    @property
    def description(self) -> str:
        return "the home's skills" if self.workspace is None else f"the skills of workspace {self.workspace}"

    def for_workspace(self, workspace: str | None) -> SkillsFolder:
        """Return the folder of another workspace. Raises ConfigError if there is none, so that a typo makes none."""
        skills = msgspec.structs.replace(self, workspace=workspace)
        if workspace is None or workspace == self.config.workspace or skills.root.is_dir():
            return skills
        known = sorted(folder.name for folder in (self.location.data / "workspaces").glob("*") if folder.is_dir())
        raise ConfigError(f"there is no workspace {workspace}; existing workspaces: {', '.join(known) or 'none'}")

    def create_folder(self) -> Path:
        """Create the home and the workspace if needed. Return the folder."""
        prepare_home(self.location.data)
        if self.workspace is not None:
            create_workspace_folder(self.location.data, self.workspace)
        return self.folder

    def list_scopes(self) -> list[SkillScope]:
        """Return the scopes, broadest first: configured folders and the home; for a workspace also its own, and those
        of its channels and rooms."""
        data = self.location.data
        folders = [os.path.realpath(data / Path(folder).expanduser()) for folder in self.config.skills.folders]
        scopes = [SkillScope(f"folder {folder}", folder, folder) for folder in folders]
        scopes.append(SkillScope("home", str(data / SKILLS_FOLDER), str(data)))
        if self.workspace is None:
            return scopes
        root = self.root
        scopes.append(SkillScope("workspace", str(self.folder), str(root)))
        # `#NAME` is a link to a room's folder
        found = [*root.glob(f"*/{SKILLS_FOLDER}"), *root.glob(f"*/[!#]*/{SKILLS_FOLDER}")]
        for folder in sorted(found)[:ROOM_FOLDERS_MAX]:
            name = str(folder.parent.relative_to(root))
            scopes.append(SkillScope(f"{'room' if '/' in name else 'channel'} {name}", str(folder), str(root)))
        return scopes

    def build_registry(self, *scopes: SkillScope, file_origins: FileOriginLookup) -> SkillRegistry:
        workspace, trusted = self.workspace or self.config.workspace, self.config.skills.trusted
        return SkillRegistry(
            lambda session: scopes,
            workspace=workspace,
            trusted=trusted,
            file_origin=file_origins.find_origin,
            unlimited=True,
        )

    def load_file_origins(self) -> FileOriginLookup:
        """Load the recorded origins of files that agents wrote, of this workspace and of those it has links to."""
        folder = checked_workspace_folder(self.location.data, self.workspace or self.config.workspace)
        origins = FileOriginLookup()
        run_async(origins.load_labels(self.config, Grounds(self.location.data, folder)))
        return origins

    def recover(self) -> SkillsFolder:
        """Finish what a killed command began."""
        for folder in {self.folder, self.location.data / SKILLS_FOLDER}:
            recover_interrupted(folder)
        return self


def open_skills_folder(options: argparse.Namespace, *, for_reading: bool = False) -> SkillsFolder:
    """Return the skills of --workspace. Without it: the home's, or `for_reading` those of the configured workspace."""
    home = resolve_home(options)
    config = load_config(home, env=os.environ).config
    place = WorkspaceLocation(home, resolve_data_folder(home, config), config.workspace)
    workspace = options.workspace or (config.workspace if for_reading else None)
    return SkillsFolder(config, place).for_workspace(workspace).recover()


def read_scope_lock(scope: SkillScope) -> dict[str, SkillLockEntry]:
    """Return the entries of the scope's lock file; none if it cannot be read, which the scope reports as a problem."""
    try:
        return read_lock(Path(scope.folder))
    except ConfigError:
        return {}
