"""The example of `examples/components/store`: installed as a distribution of its own, used from `mainstay.yaml`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.docs_pages import DOCS, blocks
from support.example_distributions import ROOT, install_example

import mainstay

PAGE = DOCS / "how-to" / "components.md"
SOURCE = ROOT / "examples" / "components" / "store" / "mainstay_files_store.py"
USE = """
import asyncio, contextlib, io, json, pathlib, sys
from mainstay import Agent
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError
from mainstay.testing import ScriptedProvider

home = pathlib.Path(sys.argv[1])

async def talk(*answers):
    async with Agent(ScriptedProvider(list(answers)), home=home) as agent:
        replies = [(await agent.run("s", f"question {number}")).text for number, _ in enumerate(answers)]
        found = {hit.text for hit in await agent.memory.search("question") if "question" in hit.text}
        return replies, [info.key for info in await agent.sessions.list()], len(found)

def run(*command):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([*command, "--json", "--home", str(home)])
    return json.loads(out.getvalue())

def find_mistake(text):
    (home / "mainstay.yaml").write_text(text)
    try:
        load_config(home, env={})
    except ConfigError as error:
        return str(error)

first = asyncio.run(talk("one", "two"))
print(json.dumps({
    "first": first,
    "again": asyncio.run(talk("three")),
    "list": run("session", "list"),
    "show": run("session", "show", "s"),
    "workspaces": run("workspace", "list"),
    "values": run("config", "show"),
    "doctor": run("doctor", "--offline"),
    "files": sorted(path.name for path in (home / "workspaces" / "default").iterdir()),
    "mistakes": [find_mistake(text) for text in sys.argv[2:]],
}))
"""
MISTAKES = {
    "storage:\n  backend: fils\n": "mainstay.yaml line 2: 'storage.backend' is not valid: there is no store 'fils'; "
    "did you mean 'files'? (others come with a distribution that has an entry point in the group mainstay.stores)",
    "storage:\n  backend: files\n  options: {foldr: x}\n": "mainstay.yaml line 3: unknown key 'storage.options.foldr'; "
    "did you mean 'storage.options.folder'?",
    "storage:\n  backend: files\n  options: {folder: 3}\n": "mainstay.yaml line 3: 'storage.options.folder': expected "
    "text, got a whole number; put it in quotes to make it text",
    "storage:\n  options: {folder: x}\n": "mainstay.yaml line 2: 'storage.options': 'folder' is not a key of the store "
    "'sqlite'; remove it",
}


def test_a_store_of_another_distribution_is_used_like_a_built_in_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "backend: files" in one.text)
    (home / "mainstay.yaml").write_text(block.text)
    path = os.pathsep.join((str(install_example("store", tmp_path)), str(Path(mainstay.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-c", USE, str(home), *MISTAKES],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "FilesStore keeps journals only" in done.stderr
    out = json.loads(done.stdout)
    assert out["first"] == [["one", "two"], ["s"], 2]
    assert out["again"] == [["three"], ["s"], 2]  # memory is derived from the journals of the first agent again
    assert [row["key"] for row in out["list"]["sessions"]] == ["s"]
    assert "question 1" in json.dumps(out["show"])
    assert [(row["name"], row["sessions"]) for row in out["workspaces"]["workspaces"]] == [("default", 1)]
    assert "talks" in out["files"]
    assert "workspace.db" not in out["files"]
    found = [(one["check"], one["verdict"], one["says"]) for one in out["doctor"]["checks"]]
    assert ("Database", "ok", f"{home}/workspaces/default/talks: 1 sessions") in found
    assert (
        "Components",
        "ok",
        "the store 'files' comes with mainstay-files-store: Every session is a JSON file.",
    ) in found
    assert "storage.options.folder" in json.dumps(out["values"])
    assert out["mistakes"] == list(MISTAKES.values())


def test_sigil_034_a_store_that_is_configured_by_name_passes_the_suite_from_its_own_folder(tmp_path: Path) -> None:
    """Outside of this package: only the installed distributions are on the path. The tests of long journals take most
    of the time; `make test` runs them on the same store in `tests/conformance/test_stores.py`."""
    chosen = [] if os.environ.get("MAINSTAY_TEST_ALL") else ["-k", "not loaded and not loading"]
    site = install_example("store", tmp_path)
    path = os.pathsep.join((str(site), str(Path(mainstay.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, "test_files_store.py"],
        cwd=tmp_path / "source",
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_the_page_shows_the_example() -> None:
    section = PAGE.read_text().partition("\n## A store\n")[2].partition("\n## ")[0]
    source = SOURCE.read_text() + (SOURCE.parent / "pyproject.toml").read_text()
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 5
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ", "agent = Agent(")), f"{block.where}: {line}"
