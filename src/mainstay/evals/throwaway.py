"""A home that lasts for one case: with what the owner told the agent in the real one, and nothing it learned there.

Instructions, prompts, rules, skills, patterns and plugins are copied. Memory, sessions, people and budgets are not, and
nothing that an agent under test does is kept.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.grants import FILE as GRANTS
from mainstay.agent.places import own_database
from mainstay.agent.remembering import Place
from mainstay.agent.whose import Whose
from mainstay.config.schema import Config, StateSettings, ToolSettings, data_home
from mainstay.config.schema_observability import JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.core.recall import is_untrusted
from mainstay.core.remove import remove_tree
from mainstay.core.workers import in_thread
from mainstay.plugins.mcp.pins import FILE as PINS

OF_HOME = ("IDENTITY.md", "AGENTS.md", "prompts", "plugins", "secrets")
OF_WORKSPACE = ("AGENTS.md", GRANTS, PINS)
KNOWHOW = ("skills", "patterns")
COPIED_BYTES_MAX = 256 * 1024 * 1024
COPIED_FILES_MAX = 20_000
PREFIX = "mainstay-eval-"
NOTHING = ("",)  # a glob that no tool's name fits


class Original(msgspec.Struct, frozen=True):
    """What throwaway homes are made from."""

    home: Path  # where everything is kept
    workspace: Path
    config: Config
    left_out: frozenset[str] = frozenset()  # know-how that came from outside: here nobody would know it did

    @classmethod
    async def of(cls, home: Path, config: Config) -> Original:
        data = data_home(home, config)
        workspace = own_database(data, config.workspace).parent
        whose = Whose()
        if workspace.is_dir():
            await whose.learn(config, Place(data, workspace))
        entries = [one for root in (data, workspace) for kind in KNOWHOW for one in _entries(root / kind)]
        doubtful = [one for one in entries if is_untrusted(whose.origin(one)) or whose.any_untrusted(one)]
        return cls(data, workspace, settled(config, data), frozenset(doubtful))


def _entries(folder: Path) -> list[str]:
    return [one.path for one in os.scandir(folder)] if folder.is_dir() else []


@asynccontextmanager
async def throwaway(original: Original, folder: Path | None = None) -> AsyncIterator[tuple[Path, Path]]:
    """A home and a folder to work in, which is a copy of `folder`; both are gone afterwards."""
    top = _folder()
    home, work = top / "home", top / "work"
    try:
        await _to_its_end(lambda: _furnish(original, home, work, folder))
        yield home, work
    finally:
        await _to_its_end(lambda: remove_tree(top))


def _folder() -> Path:
    """Nobody else's: secrets are copied, too. At once, so that nothing is made which nobody knows of."""
    return Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))


async def _to_its_end(work: Callable[[], Any]) -> None:
    """In a thread. Whoever is called off meanwhile goes when it is done: what still copies cannot be cleared away."""
    doing, called_off = in_thread(work), False
    while not doing.done():
        try:
            await asyncio.wait((doing,))
        except asyncio.CancelledError:
            called_off = True
    if called_off:
        doing.exception()  # of no interest any more
        raise asyncio.CancelledError
    doing.result()


def _furnish(original: Original, home: Path, work: Path, folder: Path | None) -> None:
    workspace = home / "workspaces" / original.config.workspace
    workspace.mkdir(mode=0o700, parents=True)
    copy = _Copying(original.left_out)
    for name in (*OF_HOME, *KNOWHOW):
        copy(original.home / name, home / name)
    for name in (*OF_WORKSPACE, *KNOWHOW):
        copy(original.workspace / name, workspace / name)
    if folder is not None:
        _Copying(frozenset())(folder, work)
    work.mkdir(exist_ok=True)


class _Copying:
    """Copies files and folders, up to a bound."""

    def __init__(self, left_out: frozenset[str]) -> None:
        self._left_out = left_out
        self._bytes = self._files = 0

    def __call__(self, source: Path, target: Path) -> None:
        try:
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=self._ignored, copy_function=self._copy)
            elif source.is_file():
                self._copy(str(source), str(target))
        except (OSError, shutil.Error) as error:
            raise ConfigError(f"{source} cannot be copied for a case: {error}") from None

    def _ignored(self, folder: str, names: list[str]) -> set[str]:
        """And homes like the one that is being made, should they lie in what is copied into it."""
        ours = PREFIX if os.path.realpath(folder) == os.path.realpath(tempfile.gettempdir()) else "/"  # no name has one
        return {name for name in names if name.startswith(ours) or os.path.join(folder, name) in self._left_out}

    def _copy(self, source: str, target: str) -> str:
        if not os.path.isfile(source) and not os.path.islink(source):
            return target  # a socket, a pipe: nothing that could be copied
        self._files += 1
        self._bytes += os.lstat(source).st_size
        if self._bytes > COPIED_BYTES_MAX or self._files > COPIED_FILES_MAX:
            most = f"{COPIED_FILES_MAX:,} files and {COPIED_BYTES_MAX // 2**20} MB"
            raise ConfigError(f"{source}: what is copied for a case has more than {most}")
        return shutil.copy2(source, target, follow_symlinks=False)


# --- the configuration in it ---------------------------------------------------------------------


def settled(config: Config, home: Path) -> Config:
    """The same from anywhere: what is named relative to the home is named in full. What an agent under test does is
    judged here, and shown to no collector."""

    def placed(path: str) -> str:
        return str(home / Path(path).expanduser()) if path else ""

    def replaced(entries: dict[str, Any], change: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {name: msgspec.structs.replace(one, **change(one)) for name, one in entries.items()}

    def backend(one: Any) -> dict[str, Any]:
        url, local = one.url, "sqlite:///"
        described = one.description if "://" in one.description else placed(one.description)
        url = local + placed(url.removeprefix(local)) if url.startswith(local) else url
        return {"url": url, "description": described, "path": placed(one.path)}

    def server(one: Any) -> dict[str, Any]:
        return {"cwd": placed(one.cwd), "read": tuple(map(placed, one.read)), "write": tuple(map(placed, one.write))}

    folders = {name: tuple(map(placed, getattr(config, name).folders)) for name in KNOWHOW}
    return msgspec.structs.replace(
        config,
        skills=msgspec.structs.replace(config.skills, folders=folders["skills"]),
        patterns=msgspec.structs.replace(config.patterns, folders=folders["patterns"]),
        plugins=replaced(config.plugins, lambda one: {"path": placed(one.path)}),
        mcpServers=replaced(config.mcpServers, server),
        backends=replaced(config.backends, backend),
        tools=_tools(config.tools),
        judges=JudgeSettings(),
        telemetry=msgspec.structs.replace(config.telemetry, endpoint=""),
        state=StateSettings(),
    )


def _tools(given: ToolSettings) -> ToolSettings:
    """As in `mainstay run`, but that the folders of others are only read: work is done in the case's own."""
    roots = tuple(os.path.realpath(os.path.expanduser(one)) for one in given.roots)
    hidden = [os.path.join(root, os.path.expanduser(one)) for root in roots for one in given.protected]
    return msgspec.structs.replace(
        given,
        builtin=given.builtin or ("all",),
        memory="on" if given.memory == "auto" else given.memory,
        roots=(),
        readable=(*given.readable, *roots),
        protected=(*given.protected, *hidden),
    )


def for_case(config: Config, instructions: str | None, tools: tuple[str, ...] | None) -> Config:
    """With what a case says otherwise."""
    if tools is not None:
        config = msgspec.structs.replace(config, tools=msgspec.structs.replace(config.tools, only=tools or NOTHING))
    return config if instructions is None else msgspec.structs.replace(config, instructions=instructions)
