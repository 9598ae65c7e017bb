"""A folder of documents as tools: full-text search, paging, changed files, and confinement to the folder."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.api_double import context, run

from mainstay.backends.base import BackendRefused
from mainstay.backends.documents import index
from mainstay.backends.documents.backend import LINES_MAX, DocumentsBackend
from mainstay.backends.documents.index import (
    PASSAGE_CHARS_MAX,
    PASSAGE_LINES_MAX,
    DocumentIndex,
    split_passages,
)
from mainstay.backends.documents.manifest import DocumentsScope, DocumentsSettings
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import tool_origin


def library(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    for name, text in {
        "README.md": "# Library\n\nAll about boats.\n",
        "guide/sails.md": "# Sails\n\nA spinnaker is a large sail.\n\n# Ropes\n\nA halyard raises it.\n",
        "guide/page.html": "<title>Knots</title><script>spinnaker()</script><p>A <b>bowline</b> is a knot.</p>",
        "data/boats.csv": "name,length\nOptimist,2.3\nLaser,4.2\n",
        "code/rig.py": "def hoist_mainsail(rope):\n    return rope\n",
        "data/harbour.json": '{"harbour": "Kiel"}',
        "書.md": "帆船は風で進む。\n",
        "manual.pdf": "%PDF-1.7 spinnaker",
        ".hidden.md": "spinnaker secret",
        "skipped.log": "spinnaker log",
        ".gitignore": "*.log\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "picture.md").write_bytes(b"\x00\x01spinnaker")
    return root


def backend(
    root: Path, *, index_path: str = "", protected_paths: tuple[str, ...] = (), **more: Any
) -> DocumentsBackend:
    settings = DocumentsSettings(path=str(root), **more)
    return DocumentsBackend("docs", settings, index_path=index_path, protected_paths=protected_paths)


# --- what is there -------------------------------------------------------------------------------


async def test_documents_are_listed_and_part_of_the_fixed_section(tmp_path: Path) -> None:
    """LOOM-018: what a backend holds is part of the fixed section."""
    docs = backend(library(tmp_path), about="About boats.")
    await docs.start()
    listed = await run(docs.tools[0])
    assert "guide/sails.md (" in listed
    assert "manual.pdf (18 bytes, not text)" in listed
    assert ".hidden.md" not in listed
    assert "skipped.log" not in listed
    assert (await run(docs.tools[0], path="guide")).count("\n") == 1
    assert "rig.py" in await run(docs.tools[0], path="**/*.py")
    assert docs.schema_summary().startswith("### docs: documents, reading only\nAbout boats.\n")
    assert "- guide/sails.md" in docs.schema_summary()
    assert {tool.name for tool in docs.tools} == {"docs__describe", "docs__query"}
    assert {tool_origin(tool) for tool in docs.tools} == {"backend:docs"}


async def test_a_large_library_is_named_by_its_folders_within_the_budget(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"f{number % 3}").mkdir(exist_ok=True)
        (tmp_path / f"f{number % 3}" / f"note{number}.md").write_text("x")
    docs = backend(tmp_path, schema_tokens=100, rows_max=10)
    await docs.start()
    assert "- f1/: 100 files" in docs.schema_summary()
    assert len(docs.schema_summary()) < 100 * 4
    listed = await run(docs.tools[0])
    assert "f2/: 100 files" in listed
    assert "[1 to 10 of 300; continue with offset=10]" in listed


# --- finding -------------------------------------------------------------------------------------


async def test_passages_are_found_by_their_words_with_their_lines(tmp_path: Path) -> None:
    query = backend(library(tmp_path)).tools[1]
    said = await run(query, text="what is a spinnaker?")
    assert said.startswith("guide/sails.md:1-7\n# Sails\n")
    assert "secret" not in said
    assert "log" not in said
    assert (await run(query, text="knots bowline")).startswith("guide/page.html:1-")
    assert "script" not in await run(query, text="bowline")
    assert (await run(query, text="optimist")).startswith("data/boats.csv:")
    assert (await run(query, text="hoist_mainsail")).startswith("code/rig.py:1-2")
    assert (await run(query, text="Kiel")).startswith("data/harbour.json:")
    assert (await run(query, text="で進む")).startswith("書.md:")  # written without spaces
    assert (await run(query, text="manual")).startswith("manual.pdf:")  # by its name
    assert await run(query, text="submarine") == "Nothing was found."
    assert "sails.md" not in await run(query, text="sail halyard", path="data")


async def test_the_best_passage_comes_first_and_the_others_follow(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"n{number:02}.md").write_text("wind and water " * 20 + ("keel" if number < 12 else ""))
    (tmp_path / "best.md").write_text("keel keel keel")
    query = backend(tmp_path).tools[1]
    first = await run(query, text="keel")
    assert first.startswith("best.md:1-1")
    assert first.endswith("[1 to 8; continue with offset=8]")
    rest = await run(query, text="keel", offset=8)
    assert rest.count(".md:") == 5


@pytest.mark.parametrize(
    "text", ['"', "AND OR NOT", "a*", "(", "text:x", "NEAR(a b)", "^a", "-x", "'; DROP TABLE files", "\x00"]
)
async def test_no_question_is_a_mistake_of_the_indexs_language(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text("nothing of it")
    assert isinstance(await run(backend(tmp_path).tools[1], text=text), str)


# --- reading -------------------------------------------------------------------------------------


async def test_a_document_is_read_on_in_by_lines(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("\n".join(f"line {n}" for n in range(1, 501)))
    query = backend(tmp_path).tools[1]
    first = await run(query, path="long.txt")
    assert first.startswith("long.txt\nline 1\n")
    assert first.endswith(f"[lines 1 to {LINES_MAX} of 500; continue with offset={LINES_MAX + 1}]")
    assert (await run(query, path="./long.txt", offset=499)).splitlines()[1:3] == ["line 499", "line 500"]
    assert "nothing from 900 on" in await run(query, path="long.txt", offset=900)


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_line_without_end_is_cut_in_every_output(tmp_path: Path, size: int) -> None:
    (tmp_path / "one.json").write_text("[" + "1," * size + '"needle",' + "2," * size + "3]")
    query = backend(tmp_path).tools[1]
    assert len(await run(query, path="one.json")) < 20_000
    assert len(await run(query, text="needle")) < 2 * PASSAGE_CHARS_MAX
    if size == 10:
        assert "needle" in await run(query, text="needle")


async def test_files_outside_the_folder_cannot_be_read(tmp_path: Path) -> None:
    root = library(tmp_path)
    (tmp_path / "outside.md").write_text("outside spinnaker")
    os.symlink(tmp_path / "outside.md", root / "link.md")
    os.symlink(tmp_path, root / "up")
    os.symlink("/etc", root / "etc")
    os.mkfifo(root / "pipe.md")
    query = backend(root).tools[1]
    for path in (
        *("../outside.md", "link.md", "up/outside.md", "etc/passwd", "/etc/passwd", "guide/../../outside.md"),
        *(
            str(tmp_path / "outside.md"),
            ".hidden.md",
            "skipped.log",
            "pipe.md",
            "guide",
            "",
            "~",
            "a\x00b",
            ".git/config",
        ),
    ):
        with pytest.raises(BackendRefused):
            await run(query, path=path)
    assert "outside" not in await run(query, text="spinnaker outside")
    with pytest.raises(BackendRefused, match="it cannot be read"):
        await run(query, path="manual.pdf")
    with pytest.raises(BackendRefused, match="is not a text file"):
        await run(query, path="picture.md")


async def test_a_scope_holds_for_finding_listing_and_reading(tmp_path: Path) -> None:
    """LOOM-124: the scope holds for `documents` too: paths."""
    docs = backend(library(tmp_path), scope=DocumentsScope(paths=("**/*.md",)))
    await docs.start()
    assert "boats.csv" not in await run(docs.tools[0])
    assert "boats.csv" not in docs.schema_summary()
    assert await run(docs.tools[1], text="optimist") == "Nothing was found."
    with pytest.raises(BackendRefused):
        await run(docs.tools[1], path="data/boats.csv")
    assert "Sails" in await run(docs.tools[1], path="guide/sails.md")


async def test_a_protected_file_is_no_document(tmp_path: Path) -> None:
    root = library(tmp_path)
    docs = backend(root, protected_paths=(str(root / "data"), str(root / "guide" / "sails.md")))
    assert "data" not in await run(docs.tools[0])
    assert await run(docs.tools[1], text="optimist halyard") == "Nothing was found."
    with pytest.raises(BackendRefused):
        await run(docs.tools[1], path="guide/sails.md")
    assert "bowline" in await run(docs.tools[1], path="guide/page.html")


# --- fresh ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a file"])
async def test_changed_documents_are_found_by_the_next_query(tmp_path: Path, kept: bool) -> None:
    root = library(tmp_path)
    docs = backend(root, index_path=str(tmp_path / "index.db") if kept else "")
    query = docs.tools[1]
    assert await run(query, text="catamaran") == "Nothing was found."
    (root / "new.md").write_text("A catamaran has two hulls.")
    assert (await run(query, text="catamaran")).startswith("new.md:1-1")
    (root / "new.md").write_text("A trimaran has three hulls.")
    assert await run(query, text="catamaran") == "Nothing was found."
    assert (await run(query, text="trimaran")).startswith("new.md:1-1")
    (root / "new.md").rename(root / "other.md")
    assert (await run(query, text="trimaran")).startswith("other.md:1-1")
    (root / "other.md").unlink()
    assert await run(query, text="trimaran") == "Nothing was found."
    await docs.close()


async def test_a_stored_index_is_reused_only_for_the_same_folder(tmp_path: Path) -> None:
    root, kept = library(tmp_path), tmp_path / "index.db"
    first = DocumentIndex(str(root), (), str(kept))
    assert first.search_passages("spinnaker", "", 0, 8, lambda: False).passages
    first.close()
    before = kept.read_bytes()
    again = DocumentIndex(str(root), (), str(kept))
    assert again.search_passages("spinnaker", "", 0, 8, lambda: False).passages
    again.close()
    assert kept.read_bytes() == before  # nothing was read and written again
    narrowed = DocumentIndex(str(root), ("data/**",), str(kept))
    assert not narrowed.search_passages("spinnaker", "", 0, 8, lambda: False).passages
    narrowed.close()


@pytest.mark.parametrize("damage", [b"", b"not a database" * 100, b"SQLite format 3\x00" + b"\xff" * 4000])
async def test_a_damaged_index_is_made_again(tmp_path: Path, damage: bytes) -> None:
    kept = tmp_path / "index.db"
    kept.write_bytes(damage)
    docs = backend(library(tmp_path), index_path=str(kept))
    assert "sails.md" in await run(docs.tools[1], text="spinnaker")
    await docs.close()


async def test_a_question_that_was_given_up_stops_and_the_next_one_is_right(tmp_path: Path) -> None:
    kept = tmp_path / "index.db"
    docs = backend(library(tmp_path), index_path=str(kept))
    gone = context()
    gone.cancel()
    query = docs.tools[1]
    await query.run(query.parse('{"text": "spinnaker"}'), gone)
    assert (await run(query, text="spinnaker")).startswith("guide/sails.md")
    before = kept.read_bytes()
    await query.run(query.parse('{"text": "spinnaker"}'), gone)
    assert kept.read_bytes() == before  # what was not come to is not gone
    assert (await run(query, text="spinnaker")).startswith("guide/sails.md")
    await docs.close()


# --- bounds --------------------------------------------------------------------------------------


async def test_more_than_can_be_searched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (tmp_path / f"{number}.md").write_text(f"sail {'x ' * 500}")
    monkeypatch.setattr(index, "INDEX_BYTES_MAX", 3_000)
    assert "more text than is indexed" in await run(backend(tmp_path).tools[1], text="sail")
    monkeypatch.setattr(index, "INDEX_BYTES_MAX", 1_000_000)
    monkeypatch.setattr(index, "FILES_MAX", 4)
    query = backend(tmp_path).tools[1]
    assert "only the first 4 files" in await run(query, text="sail")
    (tmp_path / "0.md").unlink()
    assert "0.md" not in await run(query, text="sail")


def test_passages_have_all_lines_once_and_are_bounded() -> None:
    chance = random.Random(7)
    for _ in range(200):
        lines = [
            "x" * chance.choice([0, 0, 5, 60, 400]) if chance.random() > 0.1 else "# Heading"
            for _ in range(chance.randrange(200))
        ]
        passages = list(split_passages("\n".join(lines)))
        covered = [number for first, last, _ in passages for number in range(first, last + 1)]
        assert covered == list(range(1, len("\n".join(lines).splitlines()) + 1))
        assert all(last - first < PASSAGE_LINES_MAX for first, last, _ in passages)
        assert all(len(text) <= PASSAGE_CHARS_MAX + 400 for _, _, text in passages)


async def test_configuration_errors_are_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        await backend(tmp_path / "nowhere").start()
    with pytest.raises(ConfigError, match="documents are read-only"):
        backend(tmp_path, write=True)
    with pytest.raises(ConfigError, match=r"scope\.paths"):
        backend(tmp_path, scope=DocumentsScope(paths=("x" * 2000,)))


async def test_a_thousand_files_are_indexed_within_two_seconds_and_asked_within_ten_milliseconds(
    tmp_path: Path,
) -> None:
    """Of processor time; the figures of a loaded machine are given room, those of one at rest are a fifth."""
    chance = random.Random(3)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(3, 9))) for _ in range(3000)]
    for number in range(1000):
        folder = tmp_path / f"f{number % 20}"
        folder.mkdir(exist_ok=True)
        text = "\n".join(" ".join(chance.choices(words, k=10)) for _ in range(62))
        (folder / f"n{number}.md").write_text(text[:4096])
    index = DocumentIndex(str(tmp_path), ())
    began = time.thread_time()
    index.search_passages(words[0], "", 0, 8, lambda: False)
    built = time.thread_time() - began
    asked = []
    for word in words[1:60]:
        began = time.thread_time()
        assert index.search_passages(word, "", 0, 8, lambda: False).passages
        asked.append(time.thread_time() - began)
    assert built < 2.0
    assert min(asked) < 0.010
    index.close()


async def test_many_questions_at_once_get_their_own_answers(tmp_path: Path) -> None:
    root = library(tmp_path)
    index = DocumentIndex(str(root), ())
    found: dict[str, str] = {}

    def ask(word: str, path: str) -> None:
        for _ in range(10):
            found[word] = index.search_passages(word, "", 0, 1, lambda: False).passages[0].path
            assert found[word] == path

    pairs = [("spinnaker", "guide/sails.md"), ("bowline", "guide/page.html"), ("optimist", "data/boats.csv")]
    threads = [threading.Thread(target=ask, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == dict(pairs)
