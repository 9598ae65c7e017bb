"""`mainstay workspace …`: lists, creates and removes workspaces, each with sessions and memory of its own."""

from __future__ import annotations

import argparse

import msgspec

from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import WorkspaceLocation, run_async
from mainstay.cli.commands.output import format_time, print_json, print_table
from mainstay.cli.commands.plugin_mcp_helpers import confirm
from mainstay.cli.commands.user import load_home
from mainstay.config.schema import Config
from mainstay.core.errors import HomeTaken
from mainstay.core.outcome_text import format_count
from mainstay.gateway.home_client import execute_on_home
from mainstay.gateway.workspace_folders import check_removable, create_workspace, list_workspace_folders
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.operations.home import CreateWorkspace, RemoveWorkspace
from mainstay.operations.people import ListPeople
from mainstay.store.home import workspace_folder


def list_workspaces(options: argparse.Namespace) -> int:
    config, location = load_home(options)
    workspaces = run_async(list_workspace_folders(location.data, config))
    if options.json:
        print_json({"ok": True, "workspaces": workspaces})
        return 0
    rows = [
        [
            f"{workspace.name}*" if workspace.configured else workspace.name,
            _format_size(workspace.bytes),
            str(workspace.sessions),
            format_time(workspace.updated),
        ]
        for workspace in workspaces
    ]
    print_table(["WORKSPACE", "SIZE", "SESSIONS", "LAST USED"], rows, "bc")
    for workspace in workspaces:
        if workspace.trouble:
            print_note(f"{workspace.name}: {escape_line(workspace.trouble)}")
    return 0


def _format_size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.0f} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


def create(options: argparse.Namespace) -> int:
    config, location = load_home(options)
    run_async(_create_workspace(config, location, options.name))
    if options.json:
        print_json({"ok": True, "name": options.name, "folder": str(workspace_folder(location.data, options.name))})
    else:
        print(f"{options.name} was created")
        print_note(
            f"start with `mainstay chat --workspace {options.name}`; configure it under `workspaces` in mainstay.yaml"
        )
    return 0


async def _create_workspace(config: Config, location: WorkspaceLocation, name: str) -> None:
    try:
        await execute_on_home(config, location.data, CreateWorkspace(name=name))
    except HomeTaken:  # by a chat, which has one workspace open: a new folder does not concern it
        await create_workspace(location.data, config, name)


def remove(options: argparse.Namespace) -> int:
    config, location = load_home(options)
    check_removable(location.data, config, options.name)
    if not options.yes and not _confirm_removal(config, location, options.name):
        print("nothing was removed")
        return 0
    removed = run_async(execute_on_home(config, location.data, RemoveWorkspace(name=options.name)))
    if options.json:
        print_json({"ok": True, **msgspec.to_builtins(removed)})
        return 0
    print(escape_line(f"{removed.name} was moved to {removed.moved}"))
    if removed.withdrawn:
        print(f"lost their role in it: {', '.join(removed.withdrawn)}")
    return 0


def _confirm_removal(config: Config, location: WorkspaceLocation, name: str) -> bool:
    without = "removing a workspace needs confirmation; add --yes to confirm"
    workspace = next(
        workspace for workspace in run_async(list_workspace_folders(location.data, config)) if workspace.name == name
    )
    users = run_async(execute_on_home(config, location.data, ListPeople())).people
    members = [user.name for user in users if name in user.roles]
    lost = f"; {', '.join(members)} lose their role in it" if members else ""
    return confirm(f"Remove {name} with {format_count(workspace.sessions, 'session')}{lost}?", without)
