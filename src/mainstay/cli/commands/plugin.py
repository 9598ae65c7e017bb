"""`mainstay plugin list|add|remove|new|log`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.elsewhere import PLUGINS, made_plugin
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.foreign import (
    AS_YOU,
    Here,
    Party,
    allow,
    forget,
    here,
    print_log,
    rules_about,
    sure,
    tell_forgotten,
    tell_owner,
)
from mainstay.cli.commands.homes import Place, run_async, writing
from mainstay.cli.commands.out import paint, print_json
from mainstay.cli.commands.talking import tell
from mainstay.config.schema_external_tools import PluginEntry
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.core.plugin_state import MemoryPluginState
from mainstay.core.ports import Tool
from mainstay.core.remove import remove_tree
from mainstay.plugins import package
from mainstay.plugins.host import PluginHost
from mainstay.plugins.lock import Installed, read_lock
from mainstay.plugins.manifest import FILE, Manifest, asks, read_manifest
from mainstay.plugins.tool import plugin_tools


class Found(msgspec.Struct, frozen=True):
    """A plugin as it is now. `state` is ok, disabled, or what is the matter."""

    name: str
    version: str
    state: str
    digest: str = ""
    folder: str = ""
    manifest: Manifest | None = None
    actions: list[dict[str, Any]] = []


# --- list ----------------------------------------------------------------------------------------


def list_plugins(options: argparse.Namespace) -> int:
    at = here(options)
    found = run_async(_found(at))
    if options.json:
        print_json({"ok": True, "plugins": [_document(one) | {"unconfined": at.unwalled} for one in found]})
        return 0
    if not found:
        tell("there are no plugins; `mainstay plugin add` installs one, `mainstay plugin new` writes one")
    for one in found:
        state = paint(one.state, "green") if one.state == "ok" else paint(visible(one.state), "yellow")
        print(f"{paint(one.name, 'bold')} {visible(one.version)}  {state}".rstrip())
        for action in one.actions:
            print(f"  {action['tool']}  {_traits(action)}")
        for want in asks(one.manifest) if one.manifest is not None else ():
            print(f"  may {want}")
        if at.unwalled:
            print(f"  {AS_YOU}: sandbox.kind is host")
    return 0


async def _found(at: Here) -> list[Found]:
    added = read_lock(at.plugins)
    return [await _one(at, name, added.get(name)) for name in sorted({*added, *at.config.plugins})]


async def _one(at: Here, name: str, added: Installed | None) -> Found:
    entry = at.config.plugins.get(name, PluginEntry())
    version, digest = (added.version, added.digest) if added is not None else ("", "")
    folder = at.plugins / name
    try:
        if entry.path:
            folder = at.folder(entry.path)
            manifest, needs, version, digest = read_manifest(folder), None, "", ""
        elif added is not None:
            manifest, needs = package.verify(name, at.plugins), added.needs
        else:
            raise ConfigError("the configuration names it, and it is not installed; run `mainstay plugin add`")
    except ConfigError as error:
        return Found(name, version, str(error), digest, str(folder))
    state = "ok" if entry.enabled else "disabled"
    try:
        actions = await _actions(at, manifest, folder, needs)
    except ConfigError as error:
        state, actions = str(error), []
    return Found(name, version or manifest.version, state, digest, str(folder), manifest, actions)


async def _actions(at: Here, manifest: Manifest, folder: Path, needs: Needs | None) -> list[dict[str, Any]]:
    """With what a rule says of each. Raises ConfigError if it lacks a variable."""
    policy = at.policy()
    async with at.grounds() as grounds:
        host = PluginHost(
            made_plugin(manifest, folder, needs, at.config, grounds), grounds.sandbox, MemoryPluginState()
        )
        tools: tuple[Tool, ...] = plugin_tools(host)
    return [
        {
            "tool": tool.name,
            "description": tool.description,
            "effect": tool.effect,
            "sink": bool(tool.sink),
            "untrusted": tool.untrusted,
            "named": policy.names(tool),
        }
        for tool in tools
    ]


def _traits(action: dict[str, Any]) -> str:
    traits = [action["effect"]]
    traits += ["sink"] if action["sink"] else []
    traits += [] if action["untrusted"] else ["trusted"]
    return ", ".join(traits) + ("" if action["named"] else "; denied: no rule names it")


def _document(one: Found) -> dict[str, Any]:
    made = {"name": one.name, "version": one.version, "state": one.state, "sha256": one.digest, "folder": one.folder}
    return made | {"actions": one.actions, "asks": asks(one.manifest) if one.manifest is not None else []}


# --- add and remove ------------------------------------------------------------------------------


def add(options: argparse.Namespace) -> int:
    at = here(options)
    source = Path(options.source).expanduser()
    planned = _planned(at, options.source, source)
    _refuse_other(options.sha256, planned.digest)
    name = planned.manifest.name
    if name in {one.lower() for one in (*at.config.mcpServers, *at.config.backends)}:
        raise ConfigError(f"an MCP server or a backend has the name {name} already: rename it in mainstay.yaml")
    if not options.json:
        _show(planned, same=_is_same(at, planned), walls=not at.unwalled)
    if not options.yes and not sure(f"Add {name}?", "a plugin is added with your word only; add --yes to give it"):
        print("nothing was added")
        return 0
    package.install(source, at.plugins, expected=planned.digest)
    rule = f"{name}__*"
    already = rules_about(at, Party("plugin", name, name))
    lacking = run_async(_unnamed(at, planned))
    if lacking and (options.allow or (not options.yes and sure(f"Let the agent use its tools ({rule})?", ""))):
        said = allow(at, rule)
        lacking = []
        if not options.json:
            print(said)
    if options.json:
        made = {"name": name, "version": planned.manifest.version, "sha256": planned.digest, "asks": planned.asks}
        made |= {"new": planned.new, "replaces": planned.replaces, "changes": planned.changes}
        print_json({"ok": True, **made, "allowed": not lacking, "already": already})
        return 0
    print(f"{name} {visible(planned.manifest.version)} was added")
    if already:
        print(f"already allowed by {', '.join(map(visible, already))}")
    if lacking:
        which = "its tools are" if len(lacking) == len(planned.manifest.actions) else f"{', '.join(lacking)}:"
        print(f'{which} denied until a rule names them: add "{rule}" to policy.allow, or add it again with --allow')
    _tell_lacking(at, name)
    tell_owner(at)
    return 0


def _planned(at: Here, given: str, source: Path) -> package.Plan:
    """What is told of it names what was given, and not where we have unpacked it."""
    if given.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{given} is an address: fetch it first, and add the file or folder")
    try:
        planned = package.plan(source, at.plugins)
    except ConfigError as error:
        lacks = f"there is no {FILE} in "
        if str(error).startswith(lacks):
            raise ConfigError(f"{lacks}{given}") from None
        raise
    if _is_same(at, planned):  # whatever has become of what was installed
        return msgspec.structs.replace(planned, new=[], changes=[])
    return planned


def _is_same(at: Here, planned: package.Plan) -> bool:
    known = read_lock(at.plugins).get(planned.manifest.name)
    return known is not None and known.digest == planned.digest


def _refuse_other(wanted: str | None, digest: str) -> None:
    if wanted is not None and wanted.lower().removeprefix("sha256:") != digest.removeprefix("sha256:"):
        raise ConfigError(f"this is not what was wanted: its hash is {digest}")


def _show(planned: package.Plan, *, same: bool, walls: bool) -> None:
    manifest = planned.manifest
    print(f"{paint(manifest.name, 'bold')} {visible(manifest.version)}: {visible(manifest.description)}")
    if same:
        print("  the same as was added")
    elif planned.replaces:
        print(f"  in place of {visible(planned.replaces)}")
    print(f"  {planned.digest}")
    print(f"  runs {visible(' '.join(manifest.run))}")
    print(f"{count(len(manifest.actions), 'action')}:")
    for action in manifest.actions:
        print(f"  {manifest.tool_name(action)} ({action.effect}): {visible(action.description, 200)}")
    print("it wants to:")
    for want in planned.asks:
        new = paint("  (new)", "yellow") if planned.replaces and want in planned.new else ""
        print(f"  {want}{new}")
    if not walls:
        print(f"it {AS_YOU}: sandbox.kind is host")
    if planned.changes:
        print(f"unlike {visible(planned.replaces)}, it:")
    for change in planned.changes:
        print(f"  {paint(visible(change), 'yellow')}")


async def _unnamed(at: Here, planned: package.Plan) -> list[str]:
    """Those of its tools that no rule names."""
    manifest = planned.manifest
    try:
        actions = await _actions(at, manifest, at.plugins / manifest.name, read_lock(at.plugins)[manifest.name].needs)
    except ConfigError:  # what it lacks is told afterwards
        return [manifest.tool_name(action) for action in manifest.actions]
    return [action["tool"] for action in actions if not action["named"]]


def _tell_lacking(at: Here, name: str) -> None:
    found = run_async(_one(at, name, read_lock(at.plugins).get(name)))
    if found.state not in ("ok", "disabled"):
        tell(f"it cannot be used yet: {visible(found.state)}")


def remove(options: argparse.Namespace) -> int:
    at = here(options)
    name: str = package.checked_name(options.name)
    if name not in read_lock(at.plugins):
        known = ", ".join(sorted(read_lock(at.plugins))) or "none"
        raise ConfigError(f"no plugin {name} is installed; those that are: {known}")
    asked = not options.yes and not options.keep_state
    if asked and not sure(f"Remove {name}, with all that it kept?", "what it kept goes too; add --yes or --keep-state"):
        print("nothing was removed")
        return 0
    if not options.keep_state:
        run_async(_clear(at, name))
    party = Party("plugin", name, name)
    revoked = forget(at, party)
    gone = package.remove(name, at.plugins)
    left = rules_about(at, party)
    if options.json:
        made = {"name": name, "version": gone.version, "kept_state": bool(options.keep_state)}
        print_json({"ok": True, **made, "revoked": revoked, "left": left})
        return 0
    print(f"{name} {visible(gone.version)} was removed")
    tell_forgotten(revoked, left)
    tell_owner(at)
    return 0


async def _clear(at: Here, name: str) -> None:
    """In every workspace of the home: it was the home's plugin."""
    from mainstay.store.sqlite import SqliteStore

    for database in sorted((at.place.data / "workspaces").glob("*/workspace.db")):
        async with writing(Place(at.place.home, at.place.data, database.parent.name)) as store:
            assert isinstance(store, SqliteStore)
            await store.plugin_state().clear(name)
        if not remove_tree(database.parent / PLUGINS / name):
            tell(f"some of what it kept is left in {visible(str(database.parent / PLUGINS / name))}")


# --- new and log ---------------------------------------------------------------------------------


def new(options: argparse.Namespace) -> int:
    from mainstay.plugins.scaffold import scaffold

    name = package.checked_name(options.name)
    folder = Path(options.dir or name).expanduser()
    made = scaffold(folder, name)
    if options.json:
        print_json({"ok": True, "name": name, "folder": str(folder.absolute()), "files": [str(one) for one in made]})
        return 0
    for one in made:
        print(visible(str(one)))
    where = visible(str(folder)) if folder.is_absolute() else f"./{visible(str(folder))}"
    first = read_manifest(folder).actions[0]
    words = " ".join((first.name, *(f"{name}=…" for name in first.parameters.get("required", ()))))
    tell(f"try it with `mainstay plugin call {where} {words}`, install it with `mainstay plugin add {where}`")
    return 0


def log(options: argparse.Namespace) -> int:
    at = here(options)
    name = package.checked_name(options.name)
    file = at.workspace / PLUGINS / name / "log"
    if not file.is_file() and name not in read_lock(at.plugins) and name not in at.config.plugins:
        raise ConfigError(f"there is no plugin {name}, and no log of one")
    return print_log(options, file, f"{name} has said nothing here")
