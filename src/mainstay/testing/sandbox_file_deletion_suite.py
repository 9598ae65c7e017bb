"""Conformance suite for sandboxes that protect files from deletion: a command's deletions are undone and reported.

class TestMySandbox(SandboxDeletionSuite):
    def make(self, folder: Path) -> Sandbox: ...
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.file_changes import EntryLocation, NewEntry
from mainstay.core.tool_ports import CommandResult, SandboxCommand
from mainstay.testing.sandbox_suite import OutputCollector, SandboxSuiteBase, create_folders, read_text, write_file
from mainstay.testing.store_writer import expect_error


def workspace_contents(folder: Path) -> dict[str, str]:
    """Return the text of every file and the target of every link in the workspace, by path."""
    work = Path(create_folders(folder).cwd)
    files = {}
    for path in sorted(work.rglob("*")):
        if path.is_symlink():
            files[str(path.relative_to(work))] = f"-> {os.readlink(path)}"
        elif path.is_file():
            files[str(path.relative_to(work))] = path.read_text()
    return files


class PreviousContents:
    """A recorder that keeps in memory what was there before each change; None: nothing."""

    def __init__(self) -> None:
        self.by_path: dict[str, bytes | None] = {}

    def record(self, path: str, old: EntryLocation | None, new: NewEntry) -> None:
        kept = None
        if old is not None and stat.S_ISREG(old.status.st_mode):
            with open(os.open(old.name, os.O_RDONLY, dir_fd=old.folder_fd), "rb") as file:
                kept = file.read()
        self.by_path.setdefault(path, kept)


class SandboxDeletionSuite(SandboxSuiteBase):
    """Tests of deletion protection; a subclass overrides `make`."""

    def build_protected(self, folder: Path, script: str) -> SandboxCommand:
        return replace(self.build_command(folder, script), protect_deletions=True)

    async def run_protected(self, folder: Path, script: str) -> CommandResult:
        before = set(os.listdir(folder))
        result = await self.run_command(folder, self.build_protected(folder, script))
        assert set(os.listdir(folder)) == before | {"work", "scratch"}  # its overlay layers were removed
        return result

    def relative_paths(self, folder: Path, paths: tuple[str, ...]) -> list[str]:
        """Return the paths relative to the workspace, sorted."""
        work = create_folders(folder).cwd + "/"
        return sorted(path.removeprefix(work) for path in paths)

    async def test_written_files_remain_and_are_reported(self, tmp_path: Path) -> None:
        write_file(tmp_path, "old", "old\n")
        write_file(tmp_path, "deep/file", "one\n")
        script = "echo new > new; echo more >> old; mkdir -p a/b; echo x > a/b/c; ln -s old link; echo two > deep/file"
        result = await self.run_protected(tmp_path, f"{script}; chmod 755 new; cat old; echo s > {tmp_path}/scratch/s")
        assert result.stdout == b"old\nmore\n"
        expected = {"new": "new\n", "old": "old\nmore\n", "a/b/c": "x\n", "link": "-> old", "deep/file": "two\n"}
        assert workspace_contents(tmp_path) == expected
        scratch = create_folders(tmp_path).scratch + "/s"
        assert self.relative_paths(tmp_path, result.changed) == sorted([*expected, scratch])
        assert result.undone_deletions == ()
        assert (tmp_path / "work/new").stat().st_mode & 0o777 == 0o755

    async def test_deleted_files_are_restored_and_reported(self, tmp_path: Path) -> None:
        for name in ("gone", "deep/a", "deep/b", "moved", "kept"):
            write_file(tmp_path, name, name)
        before = workspace_contents(tmp_path)
        script = "rm gone; rm -r deep; mv moved elsewhere; ls; echo x > own; rm own"
        result = await self.run_protected(tmp_path, script)
        assert result.stdout.split() == [b"elsewhere", b"kept"]
        assert workspace_contents(tmp_path) == before | {"elsewhere": "moved"}
        assert self.relative_paths(tmp_path, result.undone_deletions) == ["deep/a", "deep/b", "gone", "moved"]
        assert self.relative_paths(tmp_path, result.changed) == ["elsewhere"]

    async def test_a_recreated_folder_loses_no_files(self, tmp_path: Path) -> None:
        for name in ("folder/a", "folder/b", "folder/in/c", "file", "other/x"):
            write_file(tmp_path, name, name)
        script = (
            "rm -r folder; mkdir folder; echo new > folder/a; echo n > folder/n; rm file; mkdir file; echo x > file/x"
        )
        result = await self.run_protected(tmp_path, f"{script}; rm -r other; echo x > other")
        assert workspace_contents(tmp_path) == {
            "folder/a": "new\n",
            "folder/b": "folder/b",
            "folder/in/c": "folder/in/c",
            "folder/n": "n\n",
            "file": "file",
            "other/x": "other/x",
        }
        assert self.relative_paths(tmp_path, result.undone_deletions) == ["file", "folder/b", "folder/in/c", "other"]
        assert self.relative_paths(tmp_path, result.changed) == ["folder/a", "folder/n"]

    async def test_a_symlink_that_it_created_does_not_lead_outside(self, tmp_path: Path) -> None:
        """F32"""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").write_text("theirs")
        write_file(tmp_path, "folder/inner", "inner")
        (tmp_path / "work/planted").symlink_to(outside)
        real = os.path.dirname(create_folders(tmp_path).cwd) + "/outside"
        script = f"rm -r folder; ln -s {real} folder; ln -s {real}/file link; echo x > link; echo x > folder/file"
        result = await self.run_protected(tmp_path, f"{script}; rm planted; mkdir planted; echo x > planted/file; :")
        assert {path.name: path.read_text() for path in outside.iterdir()} == {"file": "theirs"}
        assert workspace_contents(tmp_path)["folder/inner"] == "inner"
        assert self.relative_paths(tmp_path, result.undone_deletions) == ["folder", "planted"]

    async def test_instruction_files_and_hidden_files_are_not_written(self, tmp_path: Path) -> None:
        """F53"""
        work = create_folders(tmp_path).cwd
        note, key = write_file(tmp_path, "AGENTS.md", "be good"), write_file(tmp_path, "deep/key", "secret")
        folders = replace(
            create_folders(tmp_path), obeyed_paths=(note, f"{work}/MEMORY.md"), protected=(key, f"{work}/policy.yaml")
        )
        every = "AGENTS.md MEMORY.md policy.yaml deep/key"
        script = f"for one in {every}; do cat $one; echo x > $one; rm -f $one; echo x > $one; done"
        more = "mv deep d2; cat d2/key; rm -r deep; mv AGENTS.md a; echo fine > fine; echo x > Memory.md"
        command = replace(self.build_protected(tmp_path, f"{script}; {more}; :"), folders=folders)
        result = await self.run_command(tmp_path, command)
        assert b"secret" not in result.stdout
        files = workspace_contents(tmp_path)
        assert files["AGENTS.md"] == "be good"
        assert files["deep/key"] == "secret"
        assert files["fine"] == "fine\n"
        assert {"MEMORY.md", "policy.yaml", "Memory.md"}.isdisjoint(files)
        assert "secret" not in [text for name, text in files.items() if name != "deep/key"]
        assert {"MEMORY.md", "policy.yaml"} <= set(self.relative_paths(tmp_path, result.undone_deletions))

    async def test_after_a_timeout_written_files_remain_and_deleted_files_are_restored(self, tmp_path: Path) -> None:
        write_file(tmp_path, "old", "old")
        command = replace(self.build_protected(tmp_path, "echo x > new; rm old; sleep 1000"), timeout_s=0.5)
        result = await self.run_command(tmp_path, command)
        assert result.timed_out
        assert workspace_contents(tmp_path) == {"new": "x\n", "old": "old"}
        assert self.relative_paths(tmp_path, result.undone_deletions) == ["old"]

    async def test_after_cancelling_written_files_remain_and_deleted_files_are_restored(self, tmp_path: Path) -> None:
        write_file(tmp_path, "old", "old")
        sandbox, output = self.make(tmp_path), OutputCollector()
        command = self.build_protected(tmp_path, "echo x > new; rm old; echo up; sleep 1000")
        running = asyncio.create_task(sandbox.exec(command, output.add))
        await output.wait_for(b"up")
        assert workspace_contents(tmp_path) == {"old": "old"}
        running.cancel()
        await expect_error(asyncio.CancelledError, running)  # type: ignore[arg-type]
        assert workspace_contents(tmp_path) == {"new": "x\n", "old": "old"}
        await sandbox.close()

    async def test_programs_that_write_a_temporary_file_and_rename_it_work(self, tmp_path: Path) -> None:
        write_file(tmp_path, "settings", "a = 1\n")
        script = "sed -i s/1/2/ settings; git init -q . && git config user.name n && git config user.email e"
        result = await self.run_protected(
            tmp_path, f"{script} && git add settings && git commit -qm m && git log --oneline | wc -l"
        )
        assert result.stdout.strip() == b"1", result
        assert read_text(f"{create_folders(tmp_path).cwd}/settings") == "a = 2\n"
        assert (tmp_path / "work/.git/HEAD").exists()
        assert (
            {".git/config"}
            <= set(self.relative_paths(tmp_path, result.undone_deletions))
            <= {".git/config", ".git/hooks"}
        ), "git obeys these"

    async def test_changes_of_a_background_process_are_applied_when_it_ends(self, tmp_path: Path) -> None:
        write_file(tmp_path, "old", "old")
        sandbox = self.make(tmp_path)
        command = self.build_protected(tmp_path, "echo x > new; rm old; echo up; sleep 1000")
        process = await sandbox.start(command)
        assert (await process.read(10)).startswith(b"up")
        await process.stop()
        assert workspace_contents(tmp_path) == {"new": "x\n", "old": "old"}
        assert b"old" in await process.read()
        await sandbox.close()

    async def test_a_recorder_gets_what_was_there_before_and_removals_are_applied(self, tmp_path: Path) -> None:
        for name in ("gone", "emptied", "deep/a", "kept"):
            write_file(tmp_path, name, name)
        recorder = PreviousContents()
        script = "rm gone; : > emptied; rm -r deep; echo file > deep; echo x > new"
        command = replace(self.build_command(tmp_path, script), change_recorder=recorder)
        result = await self.run_command(tmp_path, command)
        assert workspace_contents(tmp_path) == {"emptied": "", "deep": "file\n", "new": "x\n", "kept": "kept"}
        work = create_folders(tmp_path).cwd
        assert {path.removeprefix(f"{work}/"): data for path, data in recorder.by_path.items()} == {
            "gone": b"gone",
            "emptied": b"emptied",
            "deep/a": b"deep/a",
            "deep": None,
            "new": None,
        }
        assert self.relative_paths(tmp_path, result.removed) == ["deep/a", "gone"]
        assert self.relative_paths(tmp_path, result.created) == ["deep", "new"]
        assert result.undone_deletions == ()

    async def test_a_recorder_is_called_for_overwritten_files_of_a_protected_command_too(self, tmp_path: Path) -> None:
        write_file(tmp_path, "old", "old")
        write_file(tmp_path, "other", "other")
        recorder = PreviousContents()
        command = replace(self.build_protected(tmp_path, "echo new > old; rm other"), change_recorder=recorder)
        result = await self.run_command(tmp_path, command)
        assert recorder.by_path == {f"{create_folders(tmp_path).cwd}/old": b"old"}
        assert self.relative_paths(tmp_path, result.undone_deletions) == ["other"]
