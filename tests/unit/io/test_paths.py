"""Folder names that no two texts share, and reading that never leaves its folder."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstay.io.paths import FOLDER_NAME_BYTES_MAX, encode_folder_name, read_confined

names = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="aAbB=/%.-:0\u00e9\u00c9e\u0301\u1e9e\u00dfsS\u212ak", max_size=12),
    st.text(min_size=100, max_size=300),
    st.sampled_from(
        ["skills", "Skills", "knowledge", "MEMORY.md", "workspace.db", "workspace.db-wal", ".", "..", "...", ""]
    ),
)


def seen_by_a_careless_disk(name: str) -> str:
    """As a file system sees it that ignores case and how an accent is written."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFKC", name).casefold())


@given(names, names)
@example("General", "general")
@example("a/b", "a=2Fb")
@example("%3A", ":")
@example("caf\u00e9", "cafe\u0301")
@example("\ud558", "\u1112\u1161")
@example("x" * 200, "x" * 201)
@example("skills", "=73kills")
@example("A", "a==1")
def test_two_texts_never_share_a_folder(one: str, other: str) -> None:
    same = seen_by_a_careless_disk(encode_folder_name(one)) == seen_by_a_careless_disk(encode_folder_name(other))
    assert same == (one == other)


@given(names)
def test_a_folder_name_is_always_safe(text: str) -> None:
    name = encode_folder_name(text)
    assert name
    assert name[0] != "."
    assert not set(name) & set('/\\\0\n:*?"<>| ')
    assert len(name.encode()) <= FOLDER_NAME_BYTES_MAX
    assert name.lower() not in ("memory.md", "agents.md", "skills", "patterns", "knowledge", "attachments", "scratch")
    assert not name.lower().startswith("workspace.db")
    assert not any(unicodedata.category(char).startswith("C") for char in name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("general", "general"),
        ("spaces/abc", "spaces=2Fabc"),
        ("..", "=2E."),
        ("C123ABC", "C123ABC==71"),
        ("19%3Ameeting@thread.v2", "19%3Ameeting@thread.v2==10"),
        ("-100123", "-100123"),
        ("\u4f1a\u8b70\u5ba4", "\u4f1a\u8b70\u5ba4"),
        ("", "="),
    ],
)
def test_a_folder_name_stays_readable(text: str, name: str) -> None:
    assert encode_folder_name(text) == name


def test_files_inside_are_read_up_to_the_limit_with_their_size(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.md").write_bytes(b"0123456789")
    assert read_confined(str(tmp_path), str(tmp_path / "deep" / "a.md"), 4) == (b"0123", 10)
    assert read_confined(str(tmp_path), str(tmp_path / "deep" / "a.md"), 100) == (b"0123456789", 10)


def test_a_link_that_stays_inside_is_followed_and_one_that_leaves_is_not(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-of-another"
    root.mkdir()
    outside.mkdir()
    (root / "real.md").write_text("mine")
    (outside / "secret.md").write_text("not mine")
    (root / "inner.md").symlink_to("real.md")
    (root / "outer.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside, target_is_directory=True)
    (root / "loop.md").symlink_to("loop.md")
    assert read_confined(str(root), str(root / "inner.md"), 100)[0] == b"mine"
    for path in (root / "outer.md", root / "folder" / "secret.md", root / ".." / outside.name / "secret.md", root):
        with pytest.raises(PermissionError):
            read_confined(str(root), str(path), 100)
    with pytest.raises(OSError):
        read_confined(str(root), str(root / "loop.md"), 100)


def test_a_root_that_is_itself_reached_by_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("here")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    assert read_confined(str(tmp_path / "link"), str(tmp_path / "link" / "a.md"), 100)[0] == b"here"


def test_a_special_file_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "missing"):
        with pytest.raises(OSError):
            read_confined(str(tmp_path), str(tmp_path / name), 100)


def test_reading_leaves_no_handle_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.md").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    probe = os.open(tmp_path, os.O_RDONLY)
    os.close(probe)
    for _ in range(20):
        read_confined(str(tmp_path), str(tmp_path / "a" / "b" / "c.md"), 10)
        for bad in ("pipe", "a/b/none.md", "a/none/c.md"):
            with pytest.raises(OSError):
                read_confined(str(tmp_path), str(tmp_path / bad), 10)
    again = os.open(tmp_path, os.O_RDONLY)
    os.close(again)
    assert again == probe
