"""What somebody has allowed for good: rules beside the configured ones, in a file that no tool reaches."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mainstay.core.errors import ConfigError, InputRefused
from mainstay.core.workers import in_thread
from mainstay.plugins.mcp.names import SEAM
from mainstay.trust.flow import DESTINATION

FILE = "grants.json"


def forget_grants(workspace_folder: Path, prefix_of_tools: str, destination: str) -> list[str]:
    """What was allowed for good to a plugin or a server that is taken out; another one of its name is asked about
    anew. Which rules these were. Raises ConfigError."""
    grants = Grants(workspace_folder)
    gone = grants_about(grants.rules, prefix_of_tools, destination)
    if gone:
        grants.keep([rule for rule in grants.rules if rule not in gone])
    return gone


def grants_about(rules: Iterable[str], prefix_of_tools: str, destination: str) -> list[str]:
    """Those that are about tools whose names begin so (`books`, `books__`), or open this destination
    (`plugin:books`)."""
    begins = f"{prefix_of_tools.removesuffix(SEAM)}{SEAM}".lower()
    return [one for one in rules if one == f"{DESTINATION}{destination}" or one.lower().startswith(begins)]


class Grants:
    """`on_change` hears of every change; without a `folder` they last as long as the agent is open."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / FILE if folder is not None else None
        self.rules: list[str] = self._read()
        self.on_change: Callable[[list[str]], None] = lambda rules: None

    async def add(self, rule: str) -> None:
        if rule not in self.rules:
            await self._change([*self.rules, rule])

    async def remove(self, rule: str) -> None:
        if rule not in self.rules:
            raise InputRefused(f"no such rule was allowed: {rule[:200]!r}")
        await self._change([one for one in self.rules if one != rule])

    def keep(self, rules: list[str]) -> None:
        """These and no others."""
        self._write(rules)
        self.rules = rules
        self.on_change(rules)

    async def _change(self, rules: list[str]) -> None:
        await in_thread(lambda: self._write(rules))
        self.rules = rules
        self.on_change(rules)

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self._path} cannot be read: {error}; mend or remove it to be asked again") from None
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise ConfigError(f"{self._path} is not a list of rules; mend it, or remove it to be asked again")
        return found

    def _write(self, rules: list[str]) -> str:
        if self._path is not None:
            draft = self._path.with_suffix(".part")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
                json.dump(rules, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        return ""
