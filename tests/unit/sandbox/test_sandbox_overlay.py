"""Moving the files of a guarded command to their place, with layers made by hand."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.sandbox.bubblewrap import overlay
from mainstay.sandbox.bubblewrap.obeyed_file_guard import ObeyedFileGuard
from mainstay.sandbox.bubblewrap.overlay import (
    BoundedPathList,
    CommandOverlay,
    OverlayMerger,
)
from mainstay.sandbox.bubblewrap.overlay_folders import overlay_parents, remove_stale_overlays
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, can_overlay
from mainstay.sandbox.limits import SandboxUnusable
from mainstay.testing.sandbox_suite import create_folders

GUARDING = pytest.mark.skipif(not can_overlay("/var/tmp"), reason="the kernel has no overlay for us")


def merge(
    upper: Path, lower: Path, fixed: set[str] | None = None, mine: frozenset[str] = frozenset()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    merged = OverlayMerger(ObeyedFileGuard([str(lower)], fixed or set()), lambda path: path in mine)
    files = os.open(upper, os.O_RDONLY), os.open(lower, os.O_RDONLY)
    try:
        merged.merge_folder(*files, str(lower))
    finally:
        for file in files:
            os.close(file)
    return merged.changed.to_tuple(), merged.held.to_tuple()


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("upper", "lower"):
        (tmp_path / name).mkdir()
    return tmp_path / "upper", tmp_path / "lower"


def test_a_folder_swapped_for_a_link_meanwhile_is_not_followed(layers: tuple[Path, Path], tmp_path: Path) -> None:
    """F32"""
    upper, lower = layers
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (upper / "folder").mkdir()
    (upper / "folder/file").write_text("new")
    (lower / "folder").symlink_to(elsewhere)
    changed, held = merge(upper, lower)
    assert (changed, held) == ((), (f"{lower}/folder",))
    assert list(elsewhere.iterdir()) == []


def test_a_file_replaces_a_link_and_not_what_it_leads_to(layers: tuple[Path, Path], tmp_path: Path) -> None:
    """F32"""
    upper, lower = layers
    (tmp_path / "theirs").write_text("theirs")
    (upper / "name").write_text("new")
    (lower / "name").symlink_to(tmp_path / "theirs")
    merge(upper, lower)
    assert (lower / "name").read_text() == "new"
    assert not (lower / "name").is_symlink()
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_pipes_are_left_out_and_borrowed_rights_taken_off(layers: tuple[Path, Path]) -> None:
    upper, lower = layers
    os.mkfifo(upper / "pipe")
    (upper / "tool").write_text("x")
    (upper / "tool").chmod(0o6755)
    (upper / "closed").mkdir()
    (upper / "closed/file").write_text("x")
    (upper / "closed").chmod(0o500)
    merge(upper, lower)
    assert sorted(os.listdir(lower)) == ["closed", "tool"]
    assert stat.S_IMODE((lower / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((lower / "closed").stat().st_mode) == 0o500
    assert (lower / "closed/file").read_text() == "x"


def test_protected_names_are_kept_in_any_case(layers: tuple[Path, Path]) -> None:
    """F53"""
    upper, lower = layers
    (upper / "Policy.YAML").write_text("x")
    changed, held = merge(upper, lower, {f"{lower}/policy.yaml".casefold()})
    assert (changed, held) == ((), (f"{lower}/Policy.YAML",))
    assert list(lower.iterdir()) == []


def test_names_are_listed_up_to_a_limit_and_counted_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "NAMED_PATHS_MAX", 3)
    named = BoundedPathList()
    for number in range(10):
        named.add(str(number))
    assert named.to_tuple() == ("0", "1", "2", "… and 7 more")


def test_leftovers_of_a_crash_are_swept_and_work_in_progress_is_not(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    at_work = CommandOverlay([str(tmp_path / "root")], str(tmp_path), ObeyedFileGuard([], []))
    dead = tmp_path / ".mainstay-guarded-dead"
    (dead / "0.work/work").mkdir(parents=True)
    (dead / "0.work/work").chmod(0)
    (dead / "link").symlink_to(tmp_path / "root")
    (tmp_path / "root/file").write_text("mine")
    before = set(os.listdir(tmp_path))
    remove_stale_overlays(str(tmp_path))
    assert set(os.listdir(tmp_path)) == before - {dead.name}
    assert (tmp_path / "root/file").read_text() == "mine"
    at_work.merge()
    assert os.listdir(tmp_path) == ["root"]


def test_layers_are_beside_the_scratch_folder_and_never_in_the_workspace(tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    inside = SessionFolders(cwd=f"{real}/w", writable=(f"{real}/w",), scratch=f"{real}/s")
    assert overlay_parents(inside)[0] == real
    around = SessionFolders(cwd=real, writable=(real,), scratch=f"{real}/s/t")
    assert not any(place.startswith(real) for place in overlay_parents(around))


def test_a_failing_disk_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    guarded = CommandOverlay([str(tmp_path / "root")], str(tmp_path), ObeyedFileGuard([], []))
    (tmp_path / "root").rmdir()
    with pytest.raises(SandboxUnusable, match="could not be moved to their place: No such file"):
        guarded.merge()
    assert os.listdir(tmp_path) == []


@GUARDING
@pytest.mark.skipif(not can_overlay("/dev/shm"), reason="no second disk to keep layers on")
async def test_layers_on_another_disk_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("/dev/shm is no other disk")
    sandbox = BubblewrapSandbox()
    monkeypatch.setattr(sandbox, "_find_overlay_folder", lambda folders: "/dev/shm")
    before = os.listdir("/dev/shm")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/old").write_text("old")
    script = "echo new > new; chmod 750 new; ln -s new link; mkdir d; echo x > d/x; rm old; touch -d 2001-02-03 new"
    ran = await sandbox.exec(SandboxCommand(script=script, folders=create_folders(tmp_path), protect_deletions=True))
    work = tmp_path / "work"
    assert (ran.exit_code, len(ran.changed), ran.undone_deletions) == (0, 3, (f"{os.path.realpath(work)}/old",))
    assert sorted(os.listdir(work)) == ["d", "link", "new", "old"]
    assert (work / "link").read_text() == "new\n"
    assert stat.S_IMODE((work / "new").stat().st_mode) == 0o750
    assert (work / "new").stat().st_mtime < 1_000_000_000
    assert os.listdir("/dev/shm") == before


@GUARDING
async def test_a_workspace_of_two_folders_is_guarded_in_both(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox()
    grounds = create_folders(tmp_path)
    for folder in grounds.writable:
        Path(folder, "old").write_text("old")
    script = "; ".join(f"rm {folder}/old; echo x > {folder}/new" for folder in grounds.writable)
    ran = await sandbox.exec(SandboxCommand(script=script, folders=grounds, protect_deletions=True))
    assert sorted(ran.changed) == sorted(f"{folder}/new" for folder in grounds.writable)
    assert sorted(ran.undone_deletions) == sorted(f"{folder}/old" for folder in grounds.writable)
    assert all(Path(path).read_text() == "old" for path in ran.undone_deletions)


@GUARDING
async def test_files_of_the_session_may_be_removed_and_a_folder_with_other_files_may_not(
    tmp_path: Path,
) -> None:
    grounds = create_folders(tmp_path)
    work = Path(grounds.cwd)
    for name in ("build/mine.o", "mixed/mine.o", "mixed/theirs.c", "theirs.txt", "mine.txt"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("x")
    command = SandboxCommand(
        script="rm -rf build mixed theirs.txt mine.txt; echo new > new.txt; echo y > kept.txt",
        folders=grounds,
        protect_deletions=True,
        is_own_file=lambda path: "mine" in path.rsplit("/", 1)[-1],
    )
    (work / "kept.txt").write_text("old")
    ran = await BubblewrapSandbox().exec(command)
    assert sorted(ran.undone_deletions) == [f"{work}/mixed/theirs.c", f"{work}/theirs.txt"]
    assert sorted(one.relative_to(work).as_posix() for one in work.rglob("*") if one.is_file()) == [
        "kept.txt",
        "mixed/theirs.c",
        "new.txt",
        "theirs.txt",
    ]
    assert not (work / "build").exists()
    assert (sorted(ran.changed), ran.created) == ([f"{work}/kept.txt", f"{work}/new.txt"], (f"{work}/new.txt",))
