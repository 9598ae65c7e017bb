"""`mainstay backup`, `mainstay restore` and `mainstay workspace accept-loss`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from mainstay.agent import home_backup
from mainstay.agent.home_backup import RestoredWorkspace
from mainstay.cli.commands.home_locator import resolve_home, run_async
from mainstay.cli.commands.output import format_time, print_json
from mainstay.cli.commands.plugin_mcp_helpers import confirm
from mainstay.config.loader import load_config
from mainstay.config.schema import Config, check_workspace, resolve_data_folder
from mainstay.core.errors import ConfigError
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line


def back_up(options: argparse.Namespace) -> int:
    home, folder = resolve_home(options), Path(options.folder).expanduser().absolute()
    config, data = _load_config(home)  # a file that cannot be read may say that the data is elsewhere
    manifest = home_backup.back_up_home(home, data, config.storage, folder)
    if options.json:
        print_json({"ok": True, "folder": str(folder), **_to_document(manifest)})
        return 0
    for path, rows in manifest.databases.items():
        counts = ", ".join(f"{number:,} {table}" for table, number in rows.items() if number)
        print(escape_line(f"{path}: {counts or 'empty'}"))
    print(escape_line(f"{format_count(manifest.files, 'other file')}; written to {folder}"))
    return 0


def _to_document(manifest: home_backup.BackupManifest) -> dict[str, object]:
    return {"workspaces": manifest.workspaces, "databases": manifest.databases, "files": manifest.files}


def restore(options: argparse.Namespace) -> int:
    home, folder = resolve_home(options), Path(options.folder).expanduser().absolute()
    workspace = check_workspace(options.workspace) if options.workspace is not None else None
    manifest = home_backup.read_backup(folder)
    names = home_backup.select_workspaces(folder, manifest, workspace)
    question = f"Replace the databases of {', '.join(names)} by those of {format_time(manifest.at)}?"
    if not options.yes and not confirm(question, "restoring needs confirmation; add --yes to confirm"):
        print("nothing was changed")
        return 0
    config, data = _load_config(home, folder)
    restored = run_async(home_backup.restore_home(home, data, config, folder, workspace))
    return _print_workspaces(options, restored)


def _load_config(home: Path, backup: Path | None = None) -> tuple[Config, Path]:
    """Return the configuration and the data folder; of a home without a configuration, those of the backup."""
    source = backup if backup is not None and not (home / "mainstay.yaml").exists() else home
    config = load_config(source, env=_KnownVariables(os.environ)).config
    data = resolve_data_folder(home, config)
    if _UNSET in str(data):
        raise ConfigError("state.data_dir needs an environment variable that is not set")
    return config, data


_UNSET = "<unset>"


class _KnownVariables(dict[str, str]):
    """The environment, with a placeholder for every other variable: API keys are often set for the server only, and are
    not needed to copy files."""

    def __missing__(self, name: str) -> str:
        return _UNSET

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: str | None = None) -> str:  # type: ignore[override]
        return self[name]


def accept_loss(options: argparse.Namespace) -> int:
    config, data = _load_config(resolve_home(options))
    name = check_workspace(options.name)
    loss = home_backup.find_acceptable_loss(data, config, name)
    question = f"{loss.describe()}. Go on without them? Spending stays counted."
    if not options.yes and not confirm(question, "accepting a loss needs confirmation; add --yes to confirm"):
        print("nothing was changed")
        return 0
    return _print_workspaces(options, [run_async(home_backup.accept_loss(data, config, name))])


def _print_workspaces(options: argparse.Namespace, workspaces: list[RestoredWorkspace]) -> int:
    if options.json:
        print_json({"ok": True, "workspaces": workspaces})
        return 0
    for workspace in workspaces:
        lost = f"; lost: {format_count(workspace.lost_events, 'event')}" if workspace.lost_events else ""
        moved = f"; the earlier files are in {workspace.moved}" if workspace.moved else ""
        print(escape_line(f"{workspace.name}: {format_count(workspace.sessions, 'session')}{lost}{moved}"))
    return 0
