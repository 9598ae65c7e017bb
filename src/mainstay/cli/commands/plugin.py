"""`mainstay plugin list|add|remove|new|log`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.external_tools import PLUGINS_FOLDER, build_plugin
from mainstay.agent.workspace_stores import get_auxiliary_stores, list_used_workspaces
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import open_store_locked, run_async
from mainstay.cli.commands.output import print_json, style_text
from mainstay.cli.commands.plugin_mcp_helpers import (
    UNSANDBOXED_NOTE,
    ConfiguredHome,
    PluginOrMcpServer,
    add_allow_rule,
    confirm,
    list_allowing_rules,
    load_tools_home,
    print_log,
    print_restart_note,
    print_revoked,
    revoke_grants,
)
from mainstay.config.schema_external_tools import PluginEntry
from mainstay.core.errors import ConfigError
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.core.tree_removal import remove_tree
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.plugins import installer
from mainstay.plugins.host import PluginHost
from mainstay.plugins.lock_file import InstalledPlugin, read_lock
from mainstay.plugins.manifest import MANIFEST_FILE, PluginManifest, describe_requests, read_manifest
from mainstay.plugins.tool import build_plugin_tools
from mainstay.store.memory.plugin_state import InMemoryPluginState


class PluginStatus(msgspec.Struct, frozen=True):
    """An installed or configured plugin."""

    name: str
    version: str
    state: str  # ok, disabled, or an error message
    digest: str = ""
    folder: str = ""
    manifest: PluginManifest | None = None
    actions: list[dict[str, Any]] = []


# --- list ----------------------------------------------------------------------------------------


def list_plugins(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    plugins = run_async(_list_statuses(home))
    if options.json:
        print_json(
            {
                "ok": True,
                "plugins": [_build_document(plugin) | {"unconfined": home.is_unsandboxed} for plugin in plugins],
            }
        )
        return 0
    if not plugins:
        print_note("there are no plugins; `mainstay plugin add` installs one, `mainstay plugin new` creates one")
    for plugin in plugins:
        state = (
            style_text(plugin.state, "green")
            if plugin.state == "ok"
            else style_text(escape_line(plugin.state), "yellow")
        )
        print(f"{style_text(plugin.name, 'bold')} {escape_line(plugin.version)}  {state}".rstrip())
        for action in plugin.actions:
            print(f"  {action['tool']}  {_format_traits(action)}")
        for permission in describe_requests(plugin.manifest) if plugin.manifest is not None else ():
            print(f"  may {permission}")
        if home.is_unsandboxed:
            print(f"  {UNSANDBOXED_NOTE}: sandbox.kind is host")
    return 0


async def _list_statuses(home: ConfiguredHome) -> list[PluginStatus]:
    installed = read_lock(home.plugins_folder)
    return [await _load_status(home, name, installed.get(name)) for name in sorted({*installed, *home.config.plugins})]


async def _load_status(home: ConfiguredHome, name: str, installed: InstalledPlugin | None) -> PluginStatus:
    entry = home.config.plugins.get(name, PluginEntry())
    version, digest = (installed.version, installed.digest) if installed is not None else ("", "")
    folder = home.plugins_folder / name
    try:
        if entry.path:
            folder = home.resolve_path(entry.path)
            manifest, needs, version, digest = read_manifest(folder), None, "", ""
        elif installed is not None:
            manifest, needs = installer.verify_plugin(name, home.plugins_folder), installed.needs
        else:
            raise ConfigError("it is configured, but not installed; run `mainstay plugin add`")
    except ConfigError as error:
        return PluginStatus(name, version, str(error), digest, str(folder))
    state = "ok" if entry.enabled else "disabled"
    try:
        actions = await _list_actions(home, manifest, folder, needs)
    except ConfigError as error:
        state, actions = str(error), []
    return PluginStatus(name, version or manifest.version, state, digest, str(folder), manifest, actions)


async def _list_actions(
    home: ConfiguredHome, manifest: PluginManifest, folder: Path, permissions: ProcessPermissions | None
) -> list[dict[str, Any]]:
    """Return the plugin's tools, each with whether a rule names it. Raises ConfigError if a variable is not set."""
    policy = home.build_policy()
    async with home.open_environment() as environment:
        host = PluginHost(
            build_plugin(manifest, folder, permissions, home.config, environment),
            environment.sandbox,
            InMemoryPluginState(),
        )
        tools: tuple[Tool, ...] = build_plugin_tools(host)
    return [
        {
            "tool": tool.name,
            "description": tool.description,
            "effect": tool.effect,
            "sink": bool(tool.sink),
            "untrusted": tool.untrusted,
            "named": policy.has_rule_for(tool),
        }
        for tool in tools
    ]


def _format_traits(action: dict[str, Any]) -> str:
    traits = [action["effect"]]
    traits += ["sink"] if action["sink"] else []
    traits += [] if action["untrusted"] else ["trusted"]
    return ", ".join(traits) + ("" if action["named"] else "; denied: no rule allows it")


def _build_document(plugin: PluginStatus) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "state": plugin.state,
        "sha256": plugin.digest,
        "folder": plugin.folder,
        "actions": plugin.actions,
        "asks": describe_requests(plugin.manifest) if plugin.manifest is not None else [],
    }


# --- add and remove ------------------------------------------------------------------------------


def add(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    source = Path(options.source).expanduser()
    plan = _plan_installation(home, options.source, source)
    _check_digest(options.sha256, plan.digest)
    name = plan.manifest.name
    if name in {other.lower() for other in (*home.config.mcpServers, *home.config.backends)}:
        raise ConfigError(f"an MCP server or a backend has the name {name} already: rename it in mainstay.yaml")
    if not options.json:
        _print_plan(plan, is_installed=_is_installed(home, plan), has_sandbox=not home.is_unsandboxed)
    if not options.yes and not confirm(f"Add {name}?", "adding a plugin needs confirmation; add --yes to confirm"):
        print("nothing was added")
        return 0
    installer.install_plugin(source, home.plugins_folder, expected_digest=plan.digest)
    rule = f"{name}__*"
    already = list_allowing_rules(home, PluginOrMcpServer("plugin", name, name))
    denied = run_async(_find_denied_tools(home, plan))
    if denied and (options.allow or (not options.yes and confirm(f"Let the agent use its tools ({rule})?", ""))):
        note = add_allow_rule(home, rule)
        denied = []
        if not options.json:
            print(note)
    if options.json:
        document = {"name": name, "version": plan.manifest.version, "sha256": plan.digest, "asks": plan.requests}
        document |= {"new": plan.new_requests, "replaces": plan.replaced_version, "changes": plan.changes}
        print_json({"ok": True, **document, "allowed": not denied, "already": already})
        return 0
    print(f"{name} {escape_line(plan.manifest.version)} was added")
    if already:
        print(f"already allowed by {', '.join(map(escape_line, already))}")
    if denied:
        which = "its tools are" if len(denied) == len(plan.manifest.actions) else f"{', '.join(denied)}:"
        print(f'{which} denied until a rule allows them: add "{rule}" to policy.allow, or add it again with --allow')
    _print_unusable(home, name)
    print_restart_note(home)
    return 0


def _plan_installation(home: ConfiguredHome, source_text: str, source: Path) -> installer.PluginInstallPlan:
    """Inspect the plugin. Errors name the source as it was given, not the folder it was unpacked to."""
    if source_text.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{source_text} is an address: download it first, and add the file or folder")
    try:
        plan = installer.plan_install(source, home.plugins_folder)
    except ConfigError as error:
        problem = f"there is no {MANIFEST_FILE} in "
        if str(error).startswith(problem):
            raise ConfigError(f"{problem}{source_text}") from None
        raise
    if _is_installed(home, plan):  # even if the installed files were changed since
        return msgspec.structs.replace(plan, new_requests=[], changes=[])
    return plan


def _is_installed(home: ConfiguredHome, plan: installer.PluginInstallPlan) -> bool:
    installed = read_lock(home.plugins_folder).get(plan.manifest.name)
    return installed is not None and installed.digest == plan.digest


def _check_digest(expected: str | None, digest: str) -> None:
    if expected is not None and expected.lower().removeprefix("sha256:") != digest.removeprefix("sha256:"):
        raise ConfigError(f"the content does not match --sha256: its hash is {digest}")


def _print_plan(plan: installer.PluginInstallPlan, *, is_installed: bool, has_sandbox: bool) -> None:
    manifest = plan.manifest
    print(f"{style_text(manifest.name, 'bold')} {escape_line(manifest.version)}: {escape_line(manifest.description)}")
    if is_installed:
        print("  the same content is installed already")
    elif plan.replaced_version:
        print(f"  replaces {escape_line(plan.replaced_version)}")
    print(f"  {plan.digest}")
    print(f"  runs {escape_line(' '.join(manifest.run))}")
    print(f"{format_count(len(manifest.actions), 'action')}:")
    for action in manifest.actions:
        print(f"  {manifest.tool_name(action)} ({action.effect}): {escape_line(action.description, 200)}")
    print("it wants to:")
    for permission in plan.requests:
        new = style_text("  (new)", "yellow") if plan.replaced_version and permission in plan.new_requests else ""
        print(f"  {permission}{new}")
    if not has_sandbox:
        print(f"it {UNSANDBOXED_NOTE}: sandbox.kind is host")
    if plan.changes:
        print(f"unlike {escape_line(plan.replaced_version)}, it:")
    for change in plan.changes:
        print(f"  {style_text(escape_line(change), 'yellow')}")


async def _find_denied_tools(home: ConfiguredHome, plan: installer.PluginInstallPlan) -> list[str]:
    """Return the plugin's tools that no rule names, which are denied."""
    manifest = plan.manifest
    try:
        needs = read_lock(home.plugins_folder)[manifest.name].needs
        actions = await _list_actions(home, manifest, home.plugins_folder / manifest.name, needs)
    except ConfigError:  # a variable is not set, which is reported later
        return [manifest.tool_name(action) for action in manifest.actions]
    return [action["tool"] for action in actions if not action["named"]]


def _print_unusable(home: ConfiguredHome, name: str) -> None:
    plugin = run_async(_load_status(home, name, read_lock(home.plugins_folder).get(name)))
    if plugin.state not in ("ok", "disabled"):
        print_note(f"it cannot be used yet: {escape_line(plugin.state)}")


def remove(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    name: str = installer.check_plugin_name(options.name)
    if name not in read_lock(home.plugins_folder):
        known = ", ".join(sorted(read_lock(home.plugins_folder))) or "none"
        raise ConfigError(f"no plugin {name} is installed; installed: {known}")
    asks_first = not options.yes and not options.keep_state
    without = "its stored state is deleted too; add --yes to confirm, or --keep-state"
    if asks_first and not confirm(f"Remove {name} with its stored state?", without):
        print("nothing was removed")
        return 0
    if not options.keep_state:
        run_async(_clear_state(home, name))
    party = PluginOrMcpServer("plugin", name, name)
    revoked = revoke_grants(home, party)
    removed = installer.remove_plugin(name, home.plugins_folder)
    left = list_allowing_rules(home, party)
    if options.json:
        document = {"name": name, "version": removed.version, "kept_state": bool(options.keep_state)}
        print_json({"ok": True, **document, "revoked": revoked, "left": left})
        return 0
    print(f"{name} {escape_line(removed.version)} was removed")
    print_revoked(revoked, left)
    print_restart_note(home)
    return 0


async def _clear_state(home: ConfiguredHome, name: str) -> None:
    """Delete the plugin's state in every workspace of the home, because plugins belong to the home."""
    for folder in list_used_workspaces(home.config.storage, home.location.data):
        async with open_store_locked(msgspec.structs.replace(home.location, workspace=folder.name)) as store:
            await get_auxiliary_stores(store).plugin_state().clear(name)
        if not remove_tree(folder / PLUGINS_FOLDER / name):
            print_note(f"some of its files could not be deleted: {escape_line(str(folder / PLUGINS_FOLDER / name))}")


# --- new and log ---------------------------------------------------------------------------------


def create(options: argparse.Namespace) -> int:
    from mainstay.plugins.scaffold import scaffold_plugin

    name = installer.check_plugin_name(options.name)
    folder = Path(options.dir or name).expanduser()
    files = scaffold_plugin(folder, name)
    if options.json:
        print_json({"ok": True, "name": name, "folder": str(folder.absolute()), "files": [str(file) for file in files]})
        return 0
    for file in files:
        print(escape_line(str(file)))
    path = escape_line(str(folder)) if folder.is_absolute() else f"./{escape_line(str(folder))}"
    first = read_manifest(folder).actions[0]
    required = first.parameters.get("required")
    arguments = " ".join((first.name, *(f"{name}=…" for name in (required if isinstance(required, list) else ()))))
    print_note(f"try it with `mainstay plugin call {path} {arguments}`, install it with `mainstay plugin add {path}`")
    return 0


def show_log(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    name = installer.check_plugin_name(options.name)
    file = home.workspace_folder / PLUGINS_FOLDER / name / "log"
    if not file.is_file() and name not in read_lock(home.plugins_folder) and name not in home.config.plugins:
        raise ConfigError(f"there is no plugin {name}, and no log of one")
    return print_log(options, file, f"{name} has written no output")
