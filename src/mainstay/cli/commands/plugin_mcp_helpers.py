"""Shared by the commands for plugins, MCP servers and backends: folders, policy rules, logs, confirmation."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainstay.agent.allow_rule_store import AllowRuleStore, find_rules_about, remove_rules_about
from mainstay.agent.external_tools import PLUGINS_FOLDER, ExternalToolEnvironment, build_environment
from mainstay.agent.trust_setup import build_policy, list_known_secrets
from mainstay.cli.commands.agent_setup import find_owner, print_note
from mainstay.cli.commands.home_locator import WorkspaceLocation, build_overrides, resolve_home, run_async
from mainstay.cli.commands.output import print_json
from mainstay.cli.parser.root import UsageError
from mainstay.config.editor import add_item
from mainstay.config.loader import Config, load_config
from mainstay.config.schema import resolve_data_folder
from mainstay.core.errors import HomeTaken
from mainstay.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.trust.command_patterns import escape_pattern
from mainstay.trust.information_flow import DESTINATION_PREFIX, is_destination_allowed
from mainstay.trust.policy import Policy
from mainstay.trust.rules import ToolRule

ALLOW_KEY = ("policy", "allow")
UNSANDBOXED_NOTE = "runs as you, with all your permissions"


class ConfiguredHome(msgspec.Struct, frozen=True):
    """A home's configuration, and the location of its workspace."""

    config: Config
    location: WorkspaceLocation

    @property
    def plugins_folder(self) -> Path:
        return self.location.data / PLUGINS_FOLDER

    @property
    def workspace_folder(self) -> Path:
        return self.location.folder

    @property
    def workspace_folders(self) -> list[Path]:
        """The folders of all workspaces, without links, which may lead outside of the home."""
        folders = sorted((self.location.data / "workspaces").glob("*"))
        return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]

    @property
    def is_unsandboxed(self) -> bool:
        """Whether external tools run without a sandbox, by the owner's configuration."""
        return self.config.sandbox.kind == "host"

    def resolve_path(self, path: str) -> Path:
        """Return the path relative to the home, like all paths in the configuration."""
        return self.location.data / Path(path).expanduser()

    def build_policy(self) -> Policy:
        return build_policy(self.config, AllowRuleStore(self.workspace_folder), None)

    def build_guards(self) -> Guardrails:
        return Guardrails(GuardrailOptions(), b"", list_known_secrets(self.config, os.environ))

    @asynccontextmanager
    async def open_environment(self, workspace: Path | None = None) -> AsyncIterator[ExternalToolEnvironment]:
        environment = build_environment(
            self.config, self.location.data, workspace or self.workspace_folder, self.build_guards()
        )
        try:
            yield environment
        finally:
            await environment.close()


def load_tools_home(options: argparse.Namespace) -> ConfiguredHome:
    home = resolve_home(options)
    config = load_config(home, env=os.environ, overrides=build_overrides(options)).config
    return ConfiguredHome(config, WorkspaceLocation(home, resolve_data_folder(home, config), config.workspace))


def confirm(question: str, refusal: str) -> bool:
    """Ask the user to confirm. Raises UsageError(`refusal`) if stdin is not a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(refusal)
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def add_allow_rule(tools_home: ConfiguredHome, rule: str) -> str:
    """Add the rule to policy.allow, and return a sentence about it."""
    added = add_item(tools_home.location.home, ALLOW_KEY, rule)
    return f"{rule} was added to policy.allow" if added else f"{rule} is already in policy.allow"


class PluginOrMcpServer(msgspec.Struct, frozen=True):
    """A plugin or an MCP server, as policy rules refer to it."""

    kind: str  # plugin, mcp
    name: str
    prefix: str  # how its tools' names begin

    @property
    def destination(self) -> str:
        return f"{self.kind}:{self.name}"


def list_allowing_rules(tools_home: ConfiguredHome, source: PluginOrMcpServer) -> list[str]:
    """Return the rules that allow its tools or allow it as a destination, each with where it is set."""
    policy, grants = tools_home.config.policy, AllowRuleStore(tools_home.workspace_folder).rules
    tools = f"{source.prefix}__", f"{source.kind}.{source.prefix}"
    rules = [f"{rule} (policy.allow)" for rule in policy.allow if ToolRule.parse(rule).may_cover_prefix(*tools)]
    rules += [
        f"{rule} (policy.destinations)"
        for rule in policy.destinations
        if is_destination_allowed(source.destination, (rule,))
    ]
    for rule in grants:
        if rule.startswith(DESTINATION_PREFIX):
            matches = is_destination_allowed(source.destination, (rule.removeprefix(DESTINATION_PREFIX),))
        else:
            matches = ToolRule.parse(rule).may_cover_prefix(*tools)
        rules += [f"{rule} (always allowed)"] if matches else []
    return rules


def revoke_grants(tools_home: ConfiguredHome, source: PluginOrMcpServer) -> list[str]:
    """Revoke the "always allow" rules of a removed plugin or server in every workspace, and return them.

    A new one with its name then needs approval again.
    """

    async def everywhere() -> list[str]:
        revoked = [
            rule
            for folder in tools_home.workspace_folders
            for rule in await _revoke_workspace_grants(tools_home, folder, source)
        ]
        return list(dict.fromkeys(revoked))

    return run_async(everywhere())


async def _revoke_workspace_grants(tools_home: ConfiguredHome, folder: Path, source: PluginOrMcpServer) -> list[str]:
    """Revoke the rules of one workspace.

    Through the process that owns the home, which has them in memory, unless it works in another workspace.
    """
    destination = escape_pattern(source.destination)  # as an "always allow" rule spells it
    if (
        owner := find_owner(WorkspaceLocation(tools_home.location.home, tools_home.location.data, folder.name))
    ) is not None:
        try:
            revoked = find_rules_about(await owner.approvals.rules(), source.prefix, destination)
            for rule in revoked:
                await owner.approvals.revoke(rule)
            return revoked
        except HomeTaken:  # another workspace, or the process has just ended
            pass
    return remove_rules_about(folder, source.prefix, destination)


def print_revoked(revoked: Sequence[str], remaining: Sequence[str]) -> None:
    if revoked:
        print(f"no longer allowed: {', '.join(map(escape_line, revoked))}")
    if remaining:
        print_note(f"another one with this name would still be allowed by {', '.join(map(escape_line, remaining))}")


def print_log(options: argparse.Namespace, file: Path, empty_note: str) -> int:
    """Print a log and its rotated predecessor; if both are empty, `empty_note`."""
    lines = read_log_lines(file)
    if options.json:
        print_json({"ok": True, "name": options.name, "lines": lines})
        return 0
    for line in lines:
        print(sanitize_text(line))
    if not lines:
        print_note(empty_note)
    return 0


def read_log_lines(file: Path) -> list[str]:
    lines: list[str] = []
    for path in (file.with_name(f"{file.name}.1"), file):
        if path.is_file() and not path.is_symlink():
            lines += path.read_text(errors="replace").splitlines()
    return lines


def quote_argument(name: str) -> str:
    """Return the name quoted for a shell command."""
    return escape_line(shlex.quote(name))


def print_restart_note(tools_home: ConfiguredHome) -> None:
    """Print a note if a process owns the home: it read the configuration when it started."""
    if find_owner(tools_home.location) is not None:
        print_note(
            "the process that owns this home must be restarted to use it; for `mainstay serve`, SIGHUP is enough"
        )


def parse_pairs(arguments: Sequence[str], description: str) -> dict[str, str]:
    """Parse `KEY=VALUE` arguments. Raises UsageError for another form or a repeated key."""
    values: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = check_utf8(argument).partition("=")
        if not key or not equals:
            raise UsageError(f"{argument!r} is not a valid {description}")
        if key in values:
            raise UsageError(f"{key!r} is given twice")
        values[key] = value
    return values


def check_utf8(argument: str) -> str:
    """Return a command-line argument that is valid UTF-8. Raises UsageError."""
    if any("\ud800" <= char <= "\udfff" for char in argument):
        raise UsageError(f"'{escape_line(argument, 80)}' is not UTF-8")
    return argument
