"""Allow rules from approvals that were answered with "always", stored in a file that no tool can reach."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mainstay.core.errors import ConfigError, InputRefused
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.mcp.tool_names import SEPARATOR
from mainstay.trust.information_flow import DESTINATION_PREFIX

FILE = "grants.json"


def remove_rules_about(workspace_folder: Path, tool_prefix: str, destination: str) -> list[str]:
    """Remove the rules about a plugin or MCP server that is being removed: a later one of the same name needs approval
    again. Returns the removed rules. Raises ConfigError."""
    stored = AllowRuleStore(workspace_folder)
    removed = find_rules_about(stored.rules, tool_prefix, destination)
    if removed:
        stored.replace_all([rule for rule in stored.rules if rule not in removed])
    return removed


def find_rules_about(rules: Iterable[str], tool_prefix: str, destination: str) -> list[str]:
    """Return the rules about tools with this name prefix (`books`, `books__`), or that allow this destination
    (`plugin:books`)."""
    prefix = f"{tool_prefix.removesuffix(SEPARATOR)}{SEPARATOR}".lower()
    return [rule for rule in rules if rule == f"{DESTINATION_PREFIX}{destination}" or rule.lower().startswith(prefix)]


class AllowRuleStore:
    """The stored allow rules of a workspace. Without a `folder` they last as long as the agent is open."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / FILE if folder is not None else None
        self.rules: list[str] = self._read()
        self._subscribers: list[Callable[[list[str]], None]] = []

    def subscribe(self, on_change: Callable[[list[str]], None]) -> None:
        """Call `on_change` with the rules after every change."""
        self._subscribers.append(on_change)

    async def add(self, rule: str) -> None:
        if rule not in self.rules:
            await self._save([*self.rules, rule])

    async def remove(self, rule: str) -> None:
        if rule not in self.rules:
            raise InputRefused(f"there is no such rule: {rule[:80]!r}")
        await self._save([other for other in self.rules if other != rule])

    def replace_all(self, rules: list[str]) -> None:
        """Replace all rules. Blocks while it writes the file."""
        self._write(rules)
        self._set(rules)

    async def _save(self, rules: list[str]) -> None:
        await run_in_thread(lambda: self._write(rules))
        self._set(rules)

    def _set(self, rules: list[str]) -> None:
        self.rules = rules
        for on_change in self._subscribers:
            on_change(rules)

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            rules = json.loads(self._path.read_text())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self._path} cannot be read: {error}; repair it, or remove it to drop all stored rules"
            ) from None
        if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
            raise ConfigError(f"{self._path} is not a list of rules; repair it, or remove it to drop all stored rules")
        return rules

    def _write(self, rules: list[str]) -> str:
        if self._path is not None:
            draft = self._path.with_suffix(".part")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
                json.dump(rules, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        return ""
