"""Temporary home for one evaluation case: a copy of the owner's files without memory or sessions.

Instructions, prompts, rules, skills, patterns and plugins are copied. Memory, sessions, users and budgets are not, and
nothing that the agent under test does is kept.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from mainstay.agent.allow_rule_store import FILE as GRANTS
from mainstay.agent.file_origins import FileOriginLookup
from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.agent.memory_context import AgentFolders
from mainstay.config.schema import Config, StateSettings, ToolSettings, resolve_data_folder
from mainstay.config.schema_external_tools import McpEntry
from mainstay.config.schema_judges_budgets_telemetry import JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.resource_errors import create_temporary_folder
from mainstay.core.tree_removal import remove_tree
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.mcp.tool_pins import PINS_FILE as PINS

S = TypeVar("S", bound=msgspec.Struct)

HOME_FILES = ("IDENTITY.md", "AGENTS.md", "prompts", "plugins", "secrets")
WORKSPACE_FILES = ("AGENTS.md", GRANTS, PINS)
KNOWLEDGE_FOLDERS = ("skills", "patterns")
COPIED_BYTES_MAX = 256 * 1024 * 1024
COPIED_FILES_MAX = 20_000
FOLDER_PREFIX = "mainstay-eval-"
NO_TOOLS = ("",)  # a glob that matches no tool name


class HomeTemplate(msgspec.Struct, frozen=True):
    """The home that temporary homes are copied from."""

    home: Path  # the data home
    workspace: Path
    config: Config
    excluded_paths: frozenset[str] = frozenset()  # untrusted skills and patterns: a copy would lose their labels

    @classmethod
    async def from_home(cls, home: Path, config: Config) -> HomeTemplate:
        data = resolve_data_folder(home, config)
        workspace = checked_workspace_folder(data, config.workspace)
        origins = FileOriginLookup()
        if workspace.is_dir():
            await origins.load_labels(config, AgentFolders(data, workspace))
        entries = [
            path for root in (data, workspace) for kind in KNOWLEDGE_FOLDERS for path in _list_entries(root / kind)
        ]
        untrusted = [path for path in entries if is_untrusted(origins.find_origin(path)) or origins.has_untrusted(path)]
        return cls(data, workspace, isolate_config(config, data), frozenset(untrusted))


def _list_entries(folder: Path) -> list[str]:
    return [entry.path for entry in os.scandir(folder)] if folder.is_dir() else []


@asynccontextmanager
async def create_temporary_home(template: HomeTemplate, folder: Path | None = None) -> AsyncIterator[tuple[Path, Path]]:
    """Create a temporary home and a working folder, a copy of `folder`; both are removed on exit."""
    root = _create_folder()
    home, work = root / "home", root / "work"
    try:
        await _run_to_completion(lambda: _fill_home(template, home, work, folder))
        yield home, work
    finally:
        await _run_to_completion(lambda: remove_tree(root))


def _create_folder() -> Path:
    """Create a folder that only this user can read. Blocks, so that a cancellation cannot leave it behind."""
    return Path(os.path.realpath(create_temporary_folder(FOLDER_PREFIX)))


async def _run_to_completion(work: Callable[[], object]) -> None:
    """Run in a thread; a cancellation waits for its end, because a tree that is being copied cannot be removed."""
    future, is_cancelled = run_in_thread(work), False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        future.exception()  # mark it as retrieved
        raise asyncio.CancelledError
    future.result()


def _fill_home(template: HomeTemplate, home: Path, work: Path, folder: Path | None) -> None:
    workspace = home / "workspaces" / template.config.workspace
    workspace.mkdir(mode=0o700, parents=True)
    copy_tree = _BoundedCopier(template.excluded_paths)
    for name in (*HOME_FILES, *KNOWLEDGE_FOLDERS):
        copy_tree(template.home / name, home / name)
    for name in (*WORKSPACE_FILES, *KNOWLEDGE_FOLDERS):
        copy_tree(template.workspace / name, workspace / name)
    if folder is not None:
        _BoundedCopier(frozenset())(folder, work)
    work.mkdir(exist_ok=True)


class _BoundedCopier:
    """Copies files and folders, up to a total number of files and bytes."""

    def __init__(self, excluded_paths: frozenset[str]) -> None:
        self._excluded_paths = excluded_paths
        self._byte_count = self._file_count = 0

    def __call__(self, source: Path, target: Path) -> None:
        try:
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=self._list_ignored, copy_function=self._copy_file)
            elif source.is_file():
                self._copy_file(str(source), str(target))
        except (OSError, shutil.Error) as error:
            raise ConfigError(f"cannot copy {source} for a case: {error}") from None

    def _list_ignored(self, folder: str, names: list[str]) -> set[str]:
        """Return the names to skip: untrusted entries, and temporary homes if the copied folder contains them."""
        # "/": none
        prefix = FOLDER_PREFIX if os.path.realpath(folder) == os.path.realpath(tempfile.gettempdir()) else "/"
        return {name for name in names if name.startswith(prefix) or os.path.join(folder, name) in self._excluded_paths}

    def _copy_file(self, source: str, target: str) -> str:
        if not os.path.isfile(source) and not os.path.islink(source):
            return target  # a socket or a pipe cannot be copied
        self._file_count += 1
        self._byte_count += os.lstat(source).st_size
        if self._byte_count > COPIED_BYTES_MAX or self._file_count > COPIED_FILES_MAX:
            limit = f"{COPIED_FILES_MAX:,} files and {COPIED_BYTES_MAX // 2**20} MB"
            raise ConfigError(f"{source}: the files copied for a case exceed {limit}")
        return shutil.copy2(source, target, follow_symlinks=False)


# --- configuration -------------------------------------------------------------------------------


def isolate_config(config: Config, home: Path) -> Config:
    """Return the configuration with absolute paths, and without telemetry, shared state and judges in the turn."""

    def absolute(path: str) -> str:
        return str(home / Path(path).expanduser()) if path else ""

    def replace_each(entries: dict[str, S], change: Callable[[S], dict[str, object]]) -> dict[str, S]:
        return {name: msgspec.structs.replace(entry, **change(entry)) for name, entry in entries.items()}

    def replace_server(entry: McpEntry) -> dict[str, object]:
        return {
            "cwd": absolute(entry.cwd),
            "read": tuple(map(absolute, entry.read)),
            "write": tuple(map(absolute, entry.write)),
        }

    folders = {name: tuple(map(absolute, getattr(config, name).folders)) for name in KNOWLEDGE_FOLDERS}
    return msgspec.structs.replace(
        config,
        skills=msgspec.structs.replace(config.skills, folders=folders["skills"]),
        patterns=msgspec.structs.replace(config.patterns, folders=folders["patterns"]),
        plugins=replace_each(config.plugins, lambda entry: {"path": absolute(entry.path)}),
        mcpServers=replace_each(config.mcpServers, replace_server),
        backends={name: settings.resolve_paths(home) for name, settings in config.backends.items()},
        tools=_restrict_tools(config.tools),
        judges=JudgeSettings(),
        telemetry=msgspec.structs.replace(config.telemetry, endpoint=""),
        state=StateSettings(),
    )


def _restrict_tools(settings: ToolSettings) -> ToolSettings:
    """Use the tools of `mainstay run`, with the configured roots read-only: the agent works in its own folder."""
    roots = tuple(os.path.realpath(os.path.expanduser(path)) for path in settings.roots)
    hidden = [os.path.join(root, os.path.expanduser(path)) for root in roots for path in settings.protected]
    return msgspec.structs.replace(
        settings,
        builtin=settings.builtin or ("all",),
        memory="on" if settings.memory == "auto" else settings.memory,
        roots=(),
        readable=(*settings.readable, *roots),
        protected=(*settings.protected, *hidden),
    )


def apply_case_options(config: Config, instructions: str | None, tools: tuple[str, ...] | None) -> Config:
    """Apply the instructions and tools of a case."""
    if tools is not None:
        config = msgspec.structs.replace(config, tools=msgspec.structs.replace(config.tools, only=tools or NO_TOOLS))
    return config if instructions is None else msgspec.structs.replace(config, instructions=instructions)
