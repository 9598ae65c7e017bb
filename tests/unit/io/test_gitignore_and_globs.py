"""Patterns for paths and .gitignore rules: as git has them, and never slow."""

from __future__ import annotations

import fnmatch
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.core.tool_ports import SessionFolders
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.file_walk import FileWalk, IgnoreRules
from mainstay.io.globs import GlobRefused, compile_component, compile_path_glob

WHOLE = os.environ.get("MAINSTAY_TEST_ALL") == "1"
PIECES = [
    *(
        "a",
        "b",
        "*",
        "**",
        "?",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "/",
        "/",
        "!",
        "\\",
        "#",
        " ",
        "foo",
        "bar",
        "foo.txt",
    ),
    *("*.txt", ".", "\\*", "\\!", "[[:alpha:]]", "]", "[", "-"),
]
NAMES = ["a", "b", "ab", "foo", "bar", "foo.txt", "b.txt", ".a", "c", "a b", "a*", "!a", "#a", "[a"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_rules_cover_what_git_says_they_do(tmp_path: Path) -> None:
    chance = random.Random(3)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for _ in range(150):
        path = tmp_path.joinpath(*(chance.choice(NAMES) for _ in range(chance.randint(1, 3))))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:  # a file is where a folder would have to be
            continue
    paths = sorted(
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if ".git" not in path.relative_to(tmp_path).parts
    )
    for _ in range(400 if WHOLE else 60):
        rules = [
            "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 5))) for _ in range(chance.randint(1, 3))
        ]
        text = "\n".join(rules)
        (tmp_path / ".gitignore").write_text(text)
        asked = ["git", "-C", str(tmp_path), "check-ignore", "-z", "--stdin", "--no-index"]
        said = subprocess.run(asked, input="\0".join(paths) + "\0", capture_output=True, text=True, timeout=120).stdout
        ignored = IgnoreRules().with_rules(0, text)
        ours = {path for path in paths if _covers(ignored, path, tmp_path)}
        assert ours == set(said.split("\0")) - {""}, f"of {rules}"


def _covers(ignored: IgnoreRules, path: str, root: Path) -> bool:
    """It, or a folder that it lies in."""
    steps = path.split("/")
    return any(
        ignored.is_ignored(steps[:at], is_folder=at < len(steps) or (root / path).is_dir())
        for at in range(1, len(steps) + 1)
    )


def _tree(root: Path, *paths: str) -> ConfinedFiles:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    real = os.path.realpath(root)
    return ConfinedFiles(SessionFolders(cwd=real, writable=(real,), protected=(f"{real}/kept",)))


def test_a_walk_leaves_out_what_is_ignored_above_below_and_in_the_repository(tmp_path: Path) -> None:
    files = _tree(
        tmp_path,
        *(
            "a.py",
            "a.log",
            "sub/b.py",
            "sub/b.log",
            "sub/keep.log",
            "sub/deep/c.tmp",
            "build/x.py",
            "kept/secret",
            "own.txt",
        ),
        *(".git/config", ".git/info/exclude"),
    )
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "sub" / ".gitignore").write_text("!keep.log\n*.tmp\n")
    (tmp_path / ".git" / "info" / "exclude").write_text("own.txt\n")
    (tmp_path / "link").symlink_to("sub")
    found = {seen.relative_path for seen in FileWalk(files, ".")}
    assert found == {".gitignore", "a.py", "sub/.gitignore", "sub/b.py", "sub/keep.log"}
    assert {seen.relative_path for seen in FileWalk(files, "sub")} == {".gitignore", "b.py", "keep.log"}
    assert {seen.path for seen in FileWalk(files, "sub/deep")} == set()


def test_a_walk_that_is_stopped_says_so(tmp_path: Path) -> None:
    files = _tree(tmp_path, *(f"{n}.txt" for n in range(20)))
    seen: list[str] = []
    walk = FileWalk(files, ".", should_stop=lambda: len(seen) >= 5)
    for one in walk:
        seen.append(one.name)
    assert len(seen) == 5
    assert walk.cut_reason == "it was stopped"


@pytest.mark.parametrize(
    ("pattern", "fits", "not_so"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "lib/src/a.ts", "src/a.tsx"]),
        ("src/*.ts", ["src/a.ts"], ["src/x/a.ts"]),
        ("**/test_*", ["test_a", "x/test_b"], ["x/a_test"]),
        ("*.{js,ts}", ["a.js", "x/b.ts"], ["a.jsx", "a.{js,ts}"]),
        ("{a,b}/{c,d}.txt", ["a/c.txt", "b/d.txt"], ["c/a.txt"]),
        ("/top.md", ["top.md"], ["x/top.md"]),
        ("[!a]?.c", ["bx.c"], ["ax.c", "b.c", "b/.c"]),
        ("docs/**", ["docs/a", "docs/x/y"], ["docs", "doc/a"]),
        ("**", ["a", "b/c"], []),
        ("./a/*", ["a/b"], ["b/a/b"]),
    ],
    ids=range(11),
)
def test_a_pattern_fits_what_it_should(pattern: str, fits: list[str], not_so: list[str]) -> None:
    matches = compile_path_glob(pattern)
    assert [path for path in fits if not matches(path)] == []
    assert [path for path in not_so if matches(path)] == []


@settings(max_examples=2_000 if WHOLE else 300, deadline=None)
@given(st.text("ab*?.", max_size=8), st.text("ab.", max_size=8))
def test_a_name_fits_as_the_standard_library_has_it(pattern: str, name: str) -> None:
    assert compile_component(pattern)(name) == fnmatch.fnmatchcase(name, pattern)


def test_no_pattern_takes_long_and_too_many_choices_are_refused() -> None:
    began = time.process_time()
    assert not compile_component("*a" * 60 + "b")("a" * 255)
    assert not compile_path_glob("**/a/" * 30 + "b")("a/" * 200 + "c")
    assert time.process_time() - began < 1.0
    for pattern in ("{a,b}" * 10, "x" * 2_000):
        with pytest.raises(GlobRefused):
            compile_path_glob(pattern)
