"""`mainstay workspace …`: the folders in which conversations and memory are kept apart."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from mainstay.agent.auditing import noting, workspace_gone
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.foreign import sure
from mainstay.cli.commands.homes import Place, run_async
from mainstay.cli.commands.out import print_json, print_table, when
from mainstay.cli.commands.talking import OWNER_LOOK_S, OWNER_WAIT_S, owner_of, tell
from mainstay.cli.commands.user import ask, here
from mainstay.config.schema import Config
from mainstay.core.errors import HomeTaken
from mainstay.gateway.people_commands import own_people
from mainstay.gateway.workspace_folders import check_removal, look, put_away
from mainstay.gateway.workspace_folders import create as make

REMOVE = "gateway.remove_workspace"  # what a server is asked, which has it open


def list_workspaces(options: argparse.Namespace) -> int:
    config, place = here(options)
    found = run_async(look(place.data, config))
    if options.json:
        print_json({"ok": True, "workspaces": found})
        return 0
    rows = [
        [f"{one.name}*" if one.configured else one.name, _size(one.bytes), str(one.sessions), when(one.updated)]
        for one in found
    ]
    print_table(["WORKSPACE", "SIZE", "SESSIONS", "NEWEST"], rows, "bc")
    for one in found:
        if one.trouble:
            tell(f"{one.name}: {visible(one.trouble)}")
    return 0


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.0f} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


def create(options: argparse.Namespace) -> int:
    _, place = here(options)
    folder = run_async(make(place.data, options.name))
    if options.json:
        print_json({"ok": True, "name": options.name, "folder": str(folder)})
    else:
        print(f"{options.name} was made")
        tell(f"`mainstay chat --workspace {options.name}` talks there; `workspaces` in mainstay.yaml sets it up")
    return 0


def remove(options: argparse.Namespace) -> int:
    config, place = here(options)
    check_removal(place.data, config, options.name)
    if not options.yes and not _is_sure(config, place, options.name):
        print("nothing was removed")
        return 0
    done = run_async(_removed(config, place, options.name))
    if options.json:
        print_json({"ok": True, **done})
        return 0
    print(visible(f"{done['name']} was put away: {done['moved']}"))
    if done["withdrawn"]:
        print(f"no role there any more: {', '.join(done['withdrawn'])}")
    return 0


def _is_sure(config: Config, place: Place, name: str) -> bool:
    without = "a workspace is put away with your word only; add --yes to give it"
    found = next(one for one in run_async(look(place.data, config)) if one.name == name)
    held = [one["name"] for one in run_async(ask(config, place, "list", {})) if name in one["roles"]]
    people = f"; {', '.join(held)} may not enter any more" if held else ""
    return sure(f"Put {name} away, with {count(found.sessions, 'session')}{people}?", without)


async def _removed(config: Config, place: Place, name: str) -> dict[str, Any]:
    """By the server that has it open, or by us while nobody else owns the home."""
    for _ in range(int(OWNER_WAIT_S / OWNER_LOOK_S)):
        if (remote := owner_of(place)) is not None:
            done: dict[str, Any] = await remote.household(REMOVE, {"name": name})
            return done
        try:
            async with own_people(place.data, config) as people:
                gone = await put_away(place.data, config, people, name)
                async with noting(place.data, config) as notes:
                    await workspace_gone(name, notes)
                return gone
        except HomeTaken as error:
            taken = error
            await asyncio.sleep(OWNER_LOOK_S)
    raise taken
