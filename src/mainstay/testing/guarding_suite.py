"""What a sandbox must do that holds removals back.

class TestMySandbox(GuardingSuite):
    def make(self, where: Path) -> Sandbox: ...
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.outside import Ran
from mainstay.testing.sandbox_suite import Heard, Stage, grounds_at, text_of, write
from mainstay.testing.writing import expect


def contents(where: Path) -> dict[str, str]:
    """Every file and link of the workspace."""
    work = Path(grounds_at(where).cwd)
    found = {}
    for path in sorted(work.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(work))] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(work))] = path.read_text()
    return found


class GuardingSuite(Stage):
    """`make` is the one thing a subclass must say."""

    async def guarded(self, where: Path, script: str) -> Ran:
        before = set(os.listdir(where))
        ran = await self.run_command(where, replace(self.command(where, script), guarded=True))
        assert set(os.listdir(where)) == before | {"work", "scratch"}  # nothing of its layers is left
        return ran

    def named(self, where: Path, paths: tuple[str, ...]) -> list[str]:
        work = grounds_at(where).cwd + "/"
        return sorted(path.removeprefix(work) for path in paths)

    async def test_what_it_wrote_is_there_and_named(self, tmp_path: Path) -> None:
        write(tmp_path, "old", "old\n")
        write(tmp_path, "deep/file", "one\n")
        script = "echo new > new; echo more >> old; mkdir -p a/b; echo x > a/b/c; ln -s old link; echo two > deep/file"
        ran = await self.guarded(tmp_path, f"{script}; chmod 755 new; cat old; echo s > {tmp_path}/scratch/s")
        assert ran.stdout == b"old\nmore\n"
        wanted = {"new": "new\n", "old": "old\nmore\n", "a/b/c": "x\n", "link": "-> old", "deep/file": "two\n"}
        assert contents(tmp_path) == wanted
        scratch = grounds_at(tmp_path).scratch + "/s"
        assert self.named(tmp_path, ran.changed) == sorted([*wanted, scratch])
        assert ran.held == ()
        assert (tmp_path / "work/new").stat().st_mode & 0o777 == 0o755

    async def test_what_it_removed_is_still_there_and_named(self, tmp_path: Path) -> None:
        for name in ("gone", "deep/a", "deep/b", "moved", "kept"):
            write(tmp_path, name, name)
        before = contents(tmp_path)
        script = "rm gone; rm -r deep; mv moved elsewhere; ls; echo x > own; rm own"
        ran = await self.guarded(tmp_path, script)
        assert ran.stdout.split() == [b"elsewhere", b"kept"]
        assert contents(tmp_path) == before | {"elsewhere": "moved"}
        assert self.named(tmp_path, ran.held) == ["deep/a", "deep/b", "gone", "moved"]
        assert self.named(tmp_path, ran.changed) == ["elsewhere"]

    async def test_a_folder_made_again_loses_nothing(self, tmp_path: Path) -> None:
        for name in ("folder/a", "folder/b", "folder/in/c", "file", "other/x"):
            write(tmp_path, name, name)
        script = (
            "rm -r folder; mkdir folder; echo new > folder/a; echo n > folder/n; rm file; mkdir file; echo x > file/x"
        )
        ran = await self.guarded(tmp_path, f"{script}; rm -r other; echo x > other")
        assert contents(tmp_path) == {
            "folder/a": "new\n",
            "folder/b": "folder/b",
            "folder/in/c": "folder/in/c",
            "folder/n": "n\n",
            "file": "file",
            "other/x": "other/x",
        }
        assert self.named(tmp_path, ran.held) == ["file", "folder/b", "folder/in/c", "other"]
        assert self.named(tmp_path, ran.changed) == ["folder/a", "folder/n"]

    async def test_a_link_it_left_behind_leads_nobody_out(self, tmp_path: Path) -> None:
        """F32"""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").write_text("theirs")
        write(tmp_path, "folder/inner", "inner")
        (tmp_path / "work/planted").symlink_to(outside)
        real = os.path.dirname(grounds_at(tmp_path).cwd) + "/outside"
        script = f"rm -r folder; ln -s {real} folder; ln -s {real}/file link; echo x > link; echo x > folder/file"
        ran = await self.guarded(tmp_path, f"{script}; rm planted; mkdir planted; echo x > planted/file; :")
        assert {path.name: path.read_text() for path in outside.iterdir()} == {"file": "theirs"}
        assert contents(tmp_path)["folder/inner"] == "inner"
        assert self.named(tmp_path, ran.held) == ["folder", "planted"]

    async def test_notes_and_hidden_files_are_not_written(self, tmp_path: Path) -> None:
        """F53"""
        work = grounds_at(tmp_path).cwd
        note, key = write(tmp_path, "AGENTS.md", "be good"), write(tmp_path, "deep/key", "secret")
        given = replace(grounds_at(tmp_path), notes=(note, f"{work}/MEMORY.md"), protected=(key, f"{work}/policy.yaml"))
        every = "AGENTS.md MEMORY.md policy.yaml deep/key"
        script = f"for one in {every}; do cat $one; echo x > $one; rm -f $one; echo x > $one; done"
        more = "mv deep d2; cat d2/key; rm -r deep; mv AGENTS.md a; echo fine > fine; echo x > Memory.md"
        command = replace(self.command(tmp_path, f"{script}; {more}; :"), guarded=True, grounds=given)
        ran = await self.run_command(tmp_path, command)
        assert b"secret" not in ran.stdout
        found = contents(tmp_path)
        assert found["AGENTS.md"] == "be good"
        assert found["deep/key"] == "secret"
        assert found["fine"] == "fine\n"
        assert {"MEMORY.md", "policy.yaml", "Memory.md"}.isdisjoint(found)
        assert "secret" not in [text for name, text in found.items() if name != "deep/key"]
        assert {"MEMORY.md", "policy.yaml"} <= set(self.named(tmp_path, ran.held))

    async def test_out_of_time_what_it_wrote_stays_and_what_it_removed_too(self, tmp_path: Path) -> None:
        write(tmp_path, "old", "old")
        command = replace(self.command(tmp_path, "echo x > new; rm old; sleep 1000"), guarded=True, timeout_s=0.5)
        ran = await self.run_command(tmp_path, command)
        assert ran.timed_out
        assert contents(tmp_path) == {"new": "x\n", "old": "old"}
        assert self.named(tmp_path, ran.held) == ["old"]

    async def test_cancelled_it_is_the_same(self, tmp_path: Path) -> None:
        write(tmp_path, "old", "old")
        sandbox, heard = self.make(tmp_path), Heard()
        command = replace(self.command(tmp_path, "echo x > new; rm old; echo up; sleep 1000"), guarded=True)
        running = asyncio.create_task(sandbox.exec(command, heard.take))
        await heard.until(b"up")
        assert contents(tmp_path) == {"old": "old"}
        running.cancel()
        await expect(asyncio.CancelledError, running)  # type: ignore[arg-type]
        assert contents(tmp_path) == {"new": "x\n", "old": "old"}
        await sandbox.close()

    async def test_programs_that_write_beside_and_rename_work(self, tmp_path: Path) -> None:
        write(tmp_path, "settings", "a = 1\n")
        script = "sed -i s/1/2/ settings; git init -q . && git config user.name n && git config user.email e"
        ran = await self.guarded(
            tmp_path, f"{script} && git add settings && git commit -qm m && git log --oneline | wc -l"
        )
        assert ran.stdout.strip() == b"1", ran
        assert text_of(f"{grounds_at(tmp_path).cwd}/settings") == "a = 2\n"
        assert (tmp_path / "work/.git/HEAD").exists()
        assert {".git/config"} <= set(self.named(tmp_path, ran.held)) <= {".git/config", ".git/hooks"}, (
            "git obeys these"
        )

    async def test_a_guarded_process_is_settled_when_it_ends(self, tmp_path: Path) -> None:
        write(tmp_path, "old", "old")
        sandbox = self.make(tmp_path)
        command = replace(self.command(tmp_path, "echo x > new; rm old; echo up; sleep 1000"), guarded=True)
        process = await sandbox.start(command)
        assert (await process.read(10)).startswith(b"up")
        await process.stop()
        assert contents(tmp_path) == {"new": "x\n", "old": "old"}
        assert b"old" in await process.read()
        await sandbox.close()
