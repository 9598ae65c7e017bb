"""The home: private, owned by one process, with clear errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mainstay.core.errors import HomeTaken, HomeUnusable
from mainstay.store.home import (
    HomeLock,
    create_workspace_folder,
    describe_owner,
    is_home_locked,
    prepare_home,
    read_lock_owner,
    workspace_folder,
)


def test_a_home_is_made_private_with_its_parents(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    prepare_home(home)
    assert home.stat().st_mode & 0o777 == 0o700
    prepare_home(home)
    assert create_workspace_folder(home) == workspace_folder(home) == home / "workspaces" / "default"
    assert workspace_folder(home).stat().st_mode & 0o777 == 0o700


def test_the_holder_of_the_home_is_named_and_there_is_none_afterwards(tmp_path: Path) -> None:
    assert not is_home_locked(tmp_path)
    assert read_lock_owner(tmp_path) == {}
    lock = HomeLock(tmp_path)
    lock.acquire()
    assert is_home_locked(tmp_path)
    assert read_lock_owner(tmp_path)["pid"] == os.getpid()
    with pytest.raises(HomeTaken, match=f"process {os.getpid()} .*choose another --home"):
        HomeLock(tmp_path).acquire()
    lock.release()
    assert not is_home_locked(tmp_path)
    lock.release()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\0"])
def test_an_invalid_lock_file_is_no_obstacle(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    assert read_lock_owner(tmp_path) == {}
    assert describe_owner(read_lock_owner(tmp_path)) == "another process"
    lock = HomeLock(tmp_path)
    lock.acquire()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    lock.release()


def test_f48_a_lock_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(HomeUnusable, match="cannot be opened"):
        HomeLock(tmp_path).acquire()


def test_f48_a_home_whose_path_is_not_utf_8_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusable, match="is not UTF-8; choose another folder"):
        prepare_home(Path(os.fsdecode(bytes(tmp_path) + b"/\xff")))


def test_f48_a_home_inside_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeUnusable, match="cannot be used"):
        prepare_home(tmp_path / "file" / "home")


def test_f48_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(HomeUnusable, match="belongs to another user"):
        prepare_home(tmp_path)


def test_f48_a_home_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(HomeUnusable, match="cannot be written; check its permissions"):
        prepare_home(tmp_path)
