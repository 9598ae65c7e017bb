"""Undoing what a turn changed: with the real file tools, and with real commands in the real sandbox."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.files_world import World
from support.tool_world import call

from mainstay.core.errors import InputRefused
from mainstay.core.file_changes import UndoResult
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import FileOriginLabel
from mainstay.io import undo_restore, undo_store
from mainstay.io.undo_restore import WorkspaceUndo
from mainstay.io.undo_store import UndoStore
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, can_overlay
from mainstay.tools.bash import create_bash_tool
from mainstay.tools.process import BackgroundProcesses, create_process_tool

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
        shown = await call(self.bash, context, command=script)
        return f"{shown}\n[held back]" if context.held_changes else shown

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
async def test_f70_what_a_command_empties_or_overwrites_comes_back(
    world: UndoWorld, script: str, tainted: bool
) -> None:
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
async def test_f67_what_a_command_of_a_clean_session_removes_comes_back(world: UndoWorld, script: str) -> None:
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


# --- file tools ----------------------------------------------------------------------------------


async def change_with_tools(world: UndoWorld) -> None:
    await world.run("write", path="a.txt", content="written\n")
    await world.run("write", path="new/deep/c.txt", content="c\n")
    await world.run("edit", path="tool.sh", old="/bin/sh", new="/bin/bash")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-written\n+patched\n*** Delete File: b.txt\n"
    await world.run("apply_patch", patch=f"{patch}*** Add File: d.txt\n+d\n*** End Patch")


async def test_what_write_edit_and_apply_patch_change_comes_back(world: UndoWorld) -> None:
    fill(world)
    world.put("b.txt", "b\n").chmod(0o640)
    before = world.contents()
    await change_with_tools(world)
    preview = await world.undoing.preview("s", None)
    assert [(file.path, file.change) for file in preview.files if "new" not in file.path] == [
        *(("a.txt", "changed"), ("b.txt", "removed"), ("d.txt", "created"), ("tool.sh", "changed"))
    ]
    diff = next(file.diff for file in preview.files if file.path == "a.txt")
    assert diff.splitlines() == ["--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1 @@", "-one", "-two", "+patched"]
    result = await world.undo()
    assert (world.contents(), result.refused) == (before, [])
    assert "a.txt" in result.restored
    with pytest.raises(InputRefused, match="no turn"):
        await world.undo()


async def test_undoing_twice_goes_one_turn_further_back_also_after_a_restart(world: UndoWorld) -> None:
    world.put("a.txt", "zero")
    for turn in (1, 2, 3):
        world.turn = turn
        await world.run("write", path="a.txt", content=f"turn {turn}")
    world.turn = 4  # changes nothing
    await world.run("write", path="a.txt", content="turn 3")
    for turn, text in ((3, "turn 2"), (2, "turn 1"), (1, "zero")):
        restarted = WorkspaceUndo(UndoStore(world.store.folder, Limits()), lambda session: world.grounds, world.labels)
        assert (await restarted.restore("s", None)).turn == turn
        assert (world.root / "a.txt").read_text() == text


@OVERLAY
async def test_commands_and_tools_of_several_turns_undo_in_order(world: UndoWorld) -> None:
    fill(world)
    states = [world.contents()]
    for turn, script in enumerate(("echo 2 >> a.txt; rm -r deep", "mkdir deep; mv tool.sh deep/t", "rm -r deep"), 1):
        world.turn = turn
        await world.command(script)
        states.append(world.contents())
    for state in reversed(states[:-1]):
        assert (await world.undo()).refused == []
        assert world.contents() == state


async def test_a_file_that_was_changed_since_stays_and_the_rest_is_undone(world: UndoWorld) -> None:
    for name in ("a", "b", "c"):
        world.put(name, name)
    for name in ("a", "b", "c"):
        await world.run("write", path=name, content="agent")
    world.put("a", "by hand")
    (world.root / "b").unlink()
    result = await world.undo()
    assert [(one.path, one.reason) for one in result.refused] == [
        *(("a", "It was changed since."), ("b", "It was removed since."))
    ]
    assert result.restored == ["c"]
    assert {name: data for name, (_, _, data) in world.contents().items()} == {"a": b"by hand", "c": b"c"}
    assert [(one.turn, one.is_undone, one.paths) for one in await world.undoing.list_turns("s")] == [(1, True, 2)]
    world.put("a", "agent")  # the turn can be tried again by its number, and is not the newest any more
    assert (await world.undo(1)).restored == ["a"]
    with pytest.raises(InputRefused):
        await world.undo()


async def test_an_edit_by_hand_between_two_changes_of_a_turn_is_not_lost(world: UndoWorld) -> None:
    world.put("a", "old")
    await world.run("write", path="a", content="agent")
    world.put("a", "by hand")
    await world.run("write", path="a", content="agent again")
    [refused] = (await world.undo()).refused
    assert "changed by another program" in refused.reason
    assert (world.root / "a").read_text() == "agent again"


async def test_another_turn_that_changed_the_file_is_undone_first(world: UndoWorld) -> None:
    world.put("a", "old")
    await world.run("write", path="a", content="first")
    world.turn = 2
    await world.run("write", path="a", content="second")
    assert [one.reason for one in (await world.undo(1)).refused] == ["It was changed since."]
    await world.undo()
    assert (await world.undo(1)).restored == ["a"]
    assert (world.root / "a").read_text() == "old"


async def test_created_folders_with_files_of_others_stay(world: UndoWorld) -> None:
    await world.run("write", path="new/agent.txt", content="x")
    world.put("new/mine.txt", "mine")
    result = await world.undo()
    assert [(one.path, one.reason) for one in result.refused] == [("new", "The folder is not empty.")]
    assert list(world.contents()) == ["new", "new/mine.txt"]


async def test_binary_files_are_named_with_their_sizes_and_a_diff_is_bounded(world: UndoWorld) -> None:
    world.put("image", b"\x89PNG\x00")
    world.put("long", "".join(f"{line}\n" for line in range(3000)))
    await world.run("write", path="image", content="text")
    await world.run("write", path="long", content="".join(f"{line} new\n" for line in range(3000)))
    image, long = (await world.undoing.preview("s", None)).files
    assert (image.note, image.diff) == ("5 bytes → 4 bytes, not shown as text", "")
    assert long.note.endswith("shown in part")
    assert len(long.diff.splitlines()) <= 400


async def test_hard_links_get_their_content_back_under_the_changed_name(world: UndoWorld) -> None:
    world.put("a", "old")
    os.link(world.root / "a", world.root / "b")
    await world.run("write", path="a", content="new")
    await world.undo()
    assert [(world.root / name).read_text() for name in "ab"] == ["old", "old"]


async def test_a_path_that_leads_elsewhere_now_is_not_followed(world: UndoWorld) -> None:
    world.put("folder/a", "old")
    await world.run("write", path="folder/a", content="new")
    (world.home / "elsewhere").mkdir()
    (world.home / "elsewhere/a").write_text("new")
    os.rename(world.root / "folder", world.home / "moved")
    (world.root / "folder").symlink_to(world.home / "elsewhere")
    [refused] = (await world.undo()).refused
    assert refused.path == "folder/a"
    assert (world.home / "elsewhere/a").read_text() == "new"


async def test_files_outside_of_the_folders_of_now_are_not_touched(world: UndoWorld) -> None:
    world.put("a", "old")
    await world.run("write", path="a", content="new")
    (world.home / "other").mkdir()
    world.lay(cwd=str(world.home / "other"), writable=(str(world.home / "other"),))
    [refused] = (await world.undo()).refused
    assert "outside" in refused.reason
    assert (world.root / "a").read_text() == "new"


# --- labels --------------------------------------------------------------------------------------


async def test_restored_untrusted_content_is_untrusted_again_and_own_content_is_not(world: UndoWorld) -> None:
    world.lay(trusted_globs=("**",))
    path = str(world.put("a", "from outside"))
    await world.labels.save([FileOriginLabel(path, "untrusted:web")])
    await world.run("write", path="own", content="mine")
    world.turn = 2
    await world.run("write", path="a", content="mine")
    await world.run("write", path="own", content="theirs", tainted=True)
    assert not is_untrusted(world.label("a").origin)  # type: ignore[union-attr]
    await world.undo()
    assert is_untrusted(world.label("a").origin)  # type: ignore[union-attr]
    own = world.label("own")
    assert own is not None
    assert (own.origin, own.session) == ("", "s")
    await world.undo()
    assert world.label("own") is None


# --- limits --------------------------------------------------------------------------------------


async def test_what_does_not_fit_is_named_in_the_result_before_undoing_and_after(tmp_path: Path) -> None:
    world = UndoWorld(tmp_path, Limits(undo_turn_bytes_max=1000))
    world.put("large", "x" * 1001)
    world.put("small", "x" * 900)
    assert "[/undo cannot restore these" in await world.run("write", path="large", content="new")
    assert "/undo" not in await world.run("write", path="small", content="new")
    large = (await world.undoing.preview("s", None)).files[0]
    assert (large.path, large.refusal) == ("large", "Its previous content (1001 bytes) was not kept.")
    result = await world.undo()
    assert (result.restored, [one.path for one in result.refused]) == (["small"], ["large"])
    world.turn = 2
    assert "/undo" not in await world.run("write", path="small", content="new")  # the limit is for each turn


async def test_a_file_that_is_edited_often_is_kept_once(tmp_path: Path) -> None:
    world = UndoWorld(tmp_path, Limits(undo_turn_bytes_max=1000))
    world.put("a", "x" * 900)
    for number in range(5):
        assert "/undo" not in await world.run("write", path="a", content=f"{number}" * 900)
    await world.undo()
    assert (world.root / "a").read_text() == "x" * 900


async def test_the_oldest_turns_are_dropped_beyond_the_workspaces_limit_and_after_a_week(tmp_path: Path) -> None:
    world = UndoWorld(tmp_path, limits := Limits(undo_workspace_bytes_max=2500))
    assert limits.undo_kept_s == 7 * 24 * 3600.0
    world.put("a", "x" * 1000)
    world.store._now_s = lambda: 100.0
    for turn in (1, 2, 3):
        world.turn = turn
        await world.run("write", path="a", content=f"{turn}" * 1000)
        os.utime(f"{world.store.folder}/s/{turn}/log", (turn, turn))
    assert [one.turn for one in await world.undoing.list_turns("s")] == [3, 2]
    world.store._now_s = lambda: 3 + limits.undo_kept_s
    assert [one.turn for one in await world.undoing.list_turns("s")] == [3]
    world.store._now_s = lambda: 4 + limits.undo_kept_s
    assert await world.undoing.list_turns("s") == []
    assert not os.path.exists(f"{world.store.folder}/s/3")


async def test_more_paths_than_the_limit_are_counted_and_told(tmp_path: Path) -> None:
    world = UndoWorld(tmp_path, Limits(undo_turn_paths_max=2))
    for name in ("a", "b", "c", "d"):
        await world.run("write", path=name, content="x")
    assert (await world.undoing.preview("s", None)).paths_not_recorded == 2
    result = await world.undo()
    assert (result.paths_not_recorded, sorted(world.contents())) == (2, ["c", "d"])


async def test_kept_contents_are_for_the_owner_only_and_go_with_the_session(world: UndoWorld) -> None:
    world.put("a", "old")
    await world.run("write", path="a", content="new")
    folder = Path(world.store.folder)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "s", folder / "s/1")} == {0o700}
    world.store.remove_session("s")
    assert list(folder.iterdir()) == []


# --- faults --------------------------------------------------------------------------------------


def full_disk(*arguments: Any, **named: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_with_a_full_disk_the_change_is_made_and_said_not_to_be_undoable(
    world: UndoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a", "old")
    monkeypatch.setattr(undo_store, "_copy_content", full_disk)
    assert "[/undo cannot restore these" in await world.run("write", path="a", content="new")
    assert (world.root / "a").read_text() == "new"
    assert [path for path in Path(world.store.folder).rglob("*") if path.is_file()] == []


async def test_a_disk_that_is_full_while_undoing_leaves_whole_files_and_can_be_tried_again(
    world: UndoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        world.put(name, name)
        await world.run("write", path=name, content="agent")
    stage, staged = undo_restore.stage_file, []

    def stage_some(*arguments: Any) -> str:
        staged.append(1)
        return full_disk() if len(staged) == 2 else stage(*arguments)

    monkeypatch.setattr(undo_restore, "stage_file", stage_some)
    result = await world.undo()
    assert (result.restored, [(one.path, one.reason) for one in result.refused]) == (
        ["a", "c"],
        [("b", "It cannot be restored: No space left on device.")],
    )
    assert sorted(world.contents()) == ["a", "b", "c"]  # no drafts
    assert (world.root / "b").read_text() == "agent"
    assert (await world.undo(1)).restored == ["b"]
    assert (world.root / "b").read_text() == "b"


@pytest.mark.parametrize("damage", [b"", b"x", b"longer than before"])
async def test_a_kept_content_that_is_damaged_is_not_restored(world: UndoWorld, damage: bytes) -> None:
    world.put("a", "o")
    await world.run("write", path="a", content="new")
    [blob] = [path for path in Path(world.store.folder).rglob("*") if path.is_file() and path.name != "log"]
    blob.write_bytes(damage)
    assert [one.reason for one in (await world.undo()).refused] == ["Its kept content is damaged."]
    assert (world.root / "a").read_text() == "new"


async def test_an_undo_that_a_crash_interrupted_continues(world: UndoWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        world.put(name, name)
        await world.run("write", path=name, content="agent")
    monkeypatch.setattr(UndoStore, "mark_undone", full_disk)
    with pytest.raises(OSError, match="No space"):
        await world.undo()
    monkeypatch.undo()
    world.put("a", "a")
    assert (await world.undo()).refused == []
    assert [(world.root / name).read_text() for name in "ab"] == ["a", "b"]


async def test_a_log_whose_end_is_torn_is_read_up_to_there_and_written_on(world: UndoWorld) -> None:
    world.put("a", "old")
    await world.run("write", path="a", content="new")
    with open(f"{world.store.folder}/s/1/log", "ab") as file:
        file.write(b'\n{"path": "/x", "bef')
    await world.run("write", path="b", content="new")
    assert (await world.undo()).restored == ["a", "b"]


# --- commands ------------------------------------------------------------------------------------


@OVERLAY
async def test_commands_that_only_read_are_not_slowed_down_and_record_nothing(world: UndoWorld) -> None:
    fill(world)
    git(world, "init", "-q")
    git(world, "add", "a.txt")
    (world.root / "a.txt").touch()
    for script in ("ls -la", "cat a.txt | wc -l", "git status", "touch a.txt", "python3 -c 1", "mkdir -p empty"):
        await world.command(script)
    assert await world.undoing.list_turns("s") == []


@OVERLAY
async def test_objects_of_git_stay_since_a_commit_made_later_may_use_them(world: UndoWorld) -> None:
    git(world, "init", "-q")
    world.put("a.txt", "a\n")
    await world.command("git add a.txt")
    git(world, "-c", "core.fsync=none", "commit", "-qm", "by hand")
    await world.undo()
    assert git(world, "fsck", "--full") == ""
    assert git(world, "show", "HEAD:a.txt") == "a\n"


@OVERLAY
async def test_caches_and_the_scratch_folder_are_not_recorded(world: UndoWorld) -> None:
    await world.command("mkdir __pycache__ && echo x > __pycache__/a.pyc; echo x > ../scratch/y")
    assert await world.undoing.list_turns("s") == []


@OVERLAY
async def test_a_command_that_is_stopped_or_fails_is_undone_too(world: UndoWorld) -> None:
    fill(world)
    before = world.contents()
    context = world.new_context()
    assert "timed out" in await call(world.bash, context, command="rm -r deep; sleep 60", timeout=0.3)
    await world.command("echo x > a.txt; exit 3")
    assert (await world.undo()).refused == []
    assert world.contents() == before


@OVERLAY
async def test_what_deletion_protection_held_back_needs_no_undoing(world: UndoWorld) -> None:
    fill(world)
    before = world.contents()
    assert "held back" in await world.command("rm a.txt; echo x > new", tainted=True)
    await world.undo()
    assert world.contents() == before


@OVERLAY
async def test_too_much_for_the_limit_is_named_in_the_commands_result(tmp_path: Path) -> None:
    world = UndoWorld(tmp_path, Limits(undo_turn_bytes_max=5))
    fill(world)
    assert "a.txt (8 bytes)" in await world.command("rm -r *")
    result = await world.undo()
    assert {one.path for one in result.refused} == {"a.txt", "tool.sh"}
    assert sorted(world.contents()) == ["deep", "deep/er", "deep/er/b.bin", "empty", "link"]
    await world.sandbox.close()


@OVERLAY
async def test_background_commands_are_undone_once_they_have_ended(world: UndoWorld) -> None:
    fill(world)
    before = world.contents()
    processes = BackgroundProcesses(world.files, world.sandbox)
    tool = create_process_tool(processes)
    opaque = 'python3 -c \'open("served", "w"); print("written", flush=True); input()\''
    for command in ("rm -r deep", opaque):
        started = await call(tool, world.new_context(), action="start", command=command, wait=60)
        for process in processes.list_processes("s"):  # of the opaque one it is not known what it will change
            assert "written" in started
            assert not (world.root / "served").exists()
            await processes.stop_process("s", process)
        assert world.contents() != before
        await world.undo()
        assert world.contents() == before
    await processes.close()


@OVERLAY
async def test_a_background_command_that_changes_nothing_sees_the_files_as_they_are(world: UndoWorld) -> None:
    processes = BackgroundProcesses(world.files, world.sandbox)
    tool = create_process_tool(processes)
    (world.root / "log").write_text("first\n")
    started = await call(tool, world.new_context(), action="start", command="tail -n +1 -F log", wait=60)
    assert "first" in started
    (world.root / "log").write_text("first\nsecond\n")
    [process] = processes.list_processes("s")
    assert "second" in await call(tool, world.new_context(), action="poll", id=process.id, wait=60)
    await processes.close()


@OVERLAY
@pytest.mark.parametrize("tainted", [False, True])
async def test_changes_that_were_held_back_are_not_recorded(world: UndoWorld, tainted: bool) -> None:
    world.put(".envrc", "export A=1\n")
    before = world.contents()
    script = "mkdir -p sub/.vscode; echo {} > sub/.vscode/tasks.json; echo >> .envrc; rm .envrc; echo x > notes"
    assert "held back" in await world.command(script, tainted=tainted)
    assert world.contents().keys() - before.keys() == {"notes"}
    preview = await world.undoing.preview("s", None)
    assert [(file.path, file.change, file.refusal) for file in preview.files] == [("notes", "created", "")]
    result = await world.undo()
    assert (world.contents(), result.restored, result.refused) == (before, ["notes"], [])
