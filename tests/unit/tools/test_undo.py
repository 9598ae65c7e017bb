"""Undoing what a turn changed: with the real file tools, and with real commands in the real sandbox."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.files_world import World
from support.tool_world import call

from mainstay.core.file_changes import UndoResult
from mainstay.core.limits import Limits
from mainstay.core.ports import Tool, ToolContext
from mainstay.io.undo_restore import WorkspaceUndo
from mainstay.io.undo_store import UndoStore
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, can_overlay
from mainstay.tools.bash import create_bash_tool

OVERLAY = pytest.mark.skipif(not can_overlay("/var/tmp"), reason="the kernel has no overlay for us")


class UndoWorld(World):
    """A workspace whose tools keep previous contents, in turns that the test chooses."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        super().__init__(folder)
        (self.home / "scratch").mkdir()
        self.lay(scratch=str(self.home / "scratch"), protected=(str(self.home / "undo"),))
        self.files.undo_store = self.store = UndoStore(str(self.home / "undo"), limits or Limits())
        self.undoing = WorkspaceUndo(self.store, lambda session: self.grounds, self.labels)
        self.turn = 1
        self.sandbox = BubblewrapSandbox()
        self.bash: Tool = create_bash_tool(self.files, self.sandbox, self.labels)

    def new_context(self, *, tainted: bool = False, secret: bool = False, session: str = "s") -> ToolContext:
        context = super().new_context(tainted=tainted, secret=secret, session=session)
        context.turn = self.turn
        return context

    async def command(self, script: str, *, tainted: bool = False) -> str:
        """Run a command as the policy lets it run: under taint with deletion protection."""
        context = self.new_context(tainted=tainted)
        context.protect_deletions = tainted
        return await call(self.bash, context, command=script)

    async def undo(self, turn: int | None = None) -> UndoResult:
        return await self.undoing.restore("s", turn)

    def contents(self) -> dict[str, tuple[Any, ...]]:
        """Return everything below the root by path: type, permissions, content or target."""
        found: dict[str, tuple[Any, ...]] = {}
        for path in sorted(self.root.rglob("*")):
            mode, name = path.lstat().st_mode, str(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = ("link", os.readlink(path))
            elif path.is_dir():
                found[name] = ("folder", stat.S_IMODE(mode))
            elif not path.is_file():
                found[name] = ("other",)
            else:
                found[name] = ("file", stat.S_IMODE(mode), path.read_bytes())
        return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[UndoWorld]:
    made = UndoWorld(tmp_path)
    yield made
    await made.sandbox.close()


def fill(world: UndoWorld) -> None:
    world.put("a.txt", "one\ntwo\n")
    world.put("deep/er/b.bin", b"\x00\x01")
    world.put("tool.sh", "#!/bin/sh\n").chmod(0o755)
    (world.root / "link").symlink_to("a.txt")
    (world.root / "empty").mkdir(mode=0o750)


def git(world: UndoWorld, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments],
        cwd=world.root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


# --- commands: every case runs unasked today -----------------------------------------------------


@OVERLAY
@pytest.mark.parametrize("tainted", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        *(": > a.txt", "cp /dev/null a.txt", "sed -i d a.txt", "echo three >> a.txt", "chmod 777 a.txt"),
        *("ln -sf tool.sh link", "python3 -c 'open(\"a.txt\", \"w\")'", "mkdir -p x/y; echo > x/y/z"),
    ],
)  # fmt: skip
async def test_what_a_command_empties_or_overwrites_comes_back(world: UndoWorld, script: str, tainted: bool) -> None:
    fill(world)
    before = world.contents()
    await world.command(script, tainted=tainted)
    assert world.contents() != before
    result = await world.undo()
    assert (world.contents(), result.refused) == (before, [])


@OVERLAY
@pytest.mark.parametrize(
    "script",
    [
        *("rm -rf ./* .[!.]*", 'rm -rf . "$PWD"', "find . -delete", "mv deep gone", "rm -r deep; echo file > deep"),
        *("rm a.txt; mkdir a.txt; echo x > a.txt/x", "rm -r empty; mkdir empty; chmod 700 empty"),
        *("rm link; mkdir link", "truncate -s 0 a.txt"),
        *("chmod 500 deep", "python3 -c 'import shutil; shutil.rmtree(\"deep\")'", "mkfifo pipe; rm tool.sh"),
    ],
)  # fmt: skip
async def test_what_a_command_of_a_clean_session_removes_comes_back(world: UndoWorld, script: str) -> None:
    fill(world)
    before = world.contents()
    await world.command(script)
    assert world.contents() != before
    result = await world.undo()
    assert (world.contents(), result.refused) == (before, [])


@OVERLAY
@pytest.mark.parametrize(
    "script", ["git reset --hard", "git clean -fdx", "git checkout HEAD a.txt", "git reset --hard HEAD~1"]
)
async def test_work_that_git_discards_comes_back_with_gits_own_state(world: UndoWorld, script: str) -> None:
    git(world, "init", "-q")
    world.put(".gitignore", "ignored\n")
    world.put("a.txt", "committed\n")
    git(world, "add", ".")
    git(world, "commit", "-qm", "one")
    world.put("b.txt", "second\n")
    git(world, "add", ".")
    git(world, "commit", "-qm", "two")
    world.put("a.txt", "a day of work\n")
    world.put("new.txt", "not added yet\n")
    world.put("ignored", "a local database\n")
    state = git(world, "log", "--oneline"), git(world, "status", "--short"), world.contents()
    await world.command(script)
    assert world.contents() != state[2]
    result = await world.undo()
    assert result.refused == []
    assert (git(world, "log", "--oneline"), git(world, "status", "--short")) == state[:2]
    assert (world.root / "a.txt").read_text() == "a day of work\n"
    assert {name for name in world.contents() if ".git/" not in name} == {
        name for name in state[2] if ".git/" not in name
    }
