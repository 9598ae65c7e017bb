"""Removal of a folder tree: any depth, any names, and nothing beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.core import tree_removal
from mainstay.core.tree_removal import remove_tree

DEEP = (
    "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(5000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w')"
)


def test_a_tree_of_any_depth_is_removed_with_few_open_folders(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "left"
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", str(folder)], check=True))
    folder.mkdir()
    subprocess.run([sys.executable, "-c", DEEP, str(folder)], check=True)
    taken = "import resource, sys\nfrom mainstay.core.tree_removal import remove_tree\n" + (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\nsys.setrecursionlimit(200)\n"
        "sys.exit(0 if remove_tree(sys.argv[1]) else 'it is left')"
    )
    subprocess.run(
        [sys.executable, "-c", taken, str(folder)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(tree_removal.__file__).parents[2])},
    )
    assert not folder.exists()


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    folder = tmp_path / "left"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "link").symlink_to(kept)
    (folder / "link").symlink_to(kept)
    assert remove_tree(folder)
    assert (kept / "file").read_text() == "mine"
    (tmp_path / "top").symlink_to(kept)
    assert not remove_tree(tmp_path / "top")
    assert (kept / "file").exists()


def test_folders_that_were_closed_and_odd_names_go_too(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(str(inner)) + b"/\xff\n-rf *")).write_text("")
    os.mkfifo(inner / "pipe")
    for path, mode in ((inner, 0), (inner.parent, 0o500), (folder, 0o500)):
        path.chmod(mode)
    assert remove_tree(folder)
    assert not folder.exists()


def test_many_entries_go_and_more_than_the_bound_wait_for_another_time(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    for number in range(2500):
        (folder / str(number)).touch()
    assert not remove_tree(folder, 1500)
    assert len(os.listdir(folder)) == 500
    assert remove_tree(folder)


def test_a_missing_folder_counts_as_removed_and_a_file_is_no_tree(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    assert not remove_tree(tmp_path / "file")
    assert (tmp_path / "file").exists()
