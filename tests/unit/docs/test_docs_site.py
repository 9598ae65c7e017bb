"""The documentation as a site: every page is in the navigation, every link is valid, nothing is loaded from other
sites."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from support.docs_pages import (
    DOCS,
    PAGES,
    READ,
    ROOT,
    anchors,
    blocks,
    in_navigation,
    links,
    name_of,
    prose,
    site,
    slugify,
)

EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=name_of)


def test_every_page_is_in_the_navigation_once_and_nothing_else_is() -> None:
    there = sorted(in_navigation(site()["nav"]))
    assert there == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_every_section_page_names_the_pages_of_its_section() -> None:
    for section in ("how-to", "concepts", "reference"):
        named = {link.target.partition("#")[0] for link in links(DOCS / section / "index.md")}
        pages = {page.name for page in (DOCS / section).glob("*.md")} - {"index.md"}
        assert pages - named == set(), section


@EACH_PAGE
def test_the_links_of_a_page_lead_to_a_page_of_the_site_and_to_a_heading_of_it(page: Path) -> None:
    for link in links(page):
        if re.match(r"\w+:", link.target):
            assert link.target.startswith("https://"), link.target
            continue
        path, _, anchor = link.target.partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        assert target.is_relative_to(DOCS), f"{link.target} leads out of the site"
        assert target.is_file(), f"{link.target} does not exist"
        assert not anchor or anchor in anchors(target), f"{link.target} names no heading"


@EACH_PAGE
def test_a_page_begins_with_a_title_and_with_what_it_is_about(page: Path) -> None:
    title, about, *_ = [part for part in prose(page).split("\n\n") if part.strip()]
    assert re.fullmatch(r"# \S.*", title.strip())
    assert re.match(r"[\w`*\[(\"']", about.strip()), f"after the title comes {about[:40]!r}"


@EACH_PAGE
def test_images_say_in_words_what_they_show(page: Path) -> None:
    assert [link.target for link in links(page) if link.image and not link.words] == []


def test_headings_become_the_anchors_that_the_site_makes() -> None:
    assert slugify("What happens to a call, that was `running`?") == "what-happens-to-a-call-that-was-running"
    assert slugify("mainstay/v1/agent.proto") == "mainstayv1agentproto"
    assert slugify("05_crash_and_resume, twice") == "05_crash_and_resume-twice"


# --- blocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_the_blocks_of_a_page_can_be_read(page: Path) -> None:
    for block in blocks(page):
        try:
            match block.kind:
                case "python":
                    compile(block.text, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
                case "json":
                    json.loads(block.text)
                case "yaml":
                    yaml.safe_load(block.text)
                case "":
                    assert "\n" in block.text, "a block without a kind is a drawing"
        except (SyntaxError, ValueError, yaml.YAMLError) as error:
            pytest.fail(f"{block.where}: {error}")


# --- what is made from the code ------------------------------------------------------------------


def test_the_reference_pages_and_drawings_are_what_the_code_says() -> None:
    import reference

    stale = [path for path, render in reference.PAGES.items() if (DOCS / path).read_text(encoding="utf-8") != render()]
    assert stale == [], "run: python scripts/reference.py"


def test_every_page_of_the_reference_is_generated_or_compared_by_another_test() -> None:
    import reference

    by_hand = {"index.md", "promises.md"}  # a list of pages; names of tests
    there = {page.name for page in (DOCS / "reference").glob("*.md")}
    assert there - by_hand == {Path(path).name for path in reference.PAGES if re.fullmatch(r"reference/.*\.md", path)}


def test_every_public_name_stands_on_the_page_of_the_library() -> None:
    import reference_library

    import mainstay

    assert set(mainstay.__all__) - reference_library.documented() == set()
    text = (DOCS / "reference" / "library.md").read_text(encoding="utf-8")
    missing = [name for name in mainstay.__all__ if not re.search(rf"^#+ {name}$|`{name}`", text, re.MULTILINE)]
    assert missing == []


def test_the_diagram_of_the_packages_has_each_above_the_packages_it_imports() -> None:
    import diagrams

    imports = diagrams.package_imports()
    levels = {name: level for level, names in diagrams.package_levels().items() for name in names}
    assert set(levels) == set(imports) - set(diagrams.FOR_AUTHORS)
    for package in levels:
        assert [below for below in imports[package] if levels[below] >= levels[package]] == []


def test_the_protobuf_file_of_the_operations_is_generated_from_the_table() -> None:
    import reference

    path = "proto/mainstay/v1/operations.proto"
    assert (ROOT / path).read_text(encoding="utf-8") == reference.FILES[path](), "run: python scripts/reference.py"


# --- the site itself -----------------------------------------------------------------------------


def test_nothing_is_configured_to_be_fetched_from_another_site() -> None:
    settings = site()
    assert settings["theme"]["font"] is False
    assert settings["plugins"] == ["search"]
    assert not {"extra_javascript", "extra_templates", "hooks"} & set(settings)
    assert [page for page in map(name_of, PAGES) if "```mermaid" in (ROOT / page).read_text(encoding="utf-8")] == []
    for sheet in (DOCS / "stylesheets").iterdir():
        assert not re.search(r"url\(|@import", sheet.read_text(encoding="utf-8"))


@pytest.mark.skipif(find_spec("zensical") is None, reason="zensical is not installed (the extra `docs`)")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_another_site(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    made = {path.relative_to(tmp_path / "site").with_suffix(".md") for path in (tmp_path / "site").rglob("*.html")}
    assert made - {Path("404.md")} == {page.relative_to(DOCS) for page in PAGES}
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]* src=\"(\w+:)?//|<link[^>]* rel=\"?(?:stylesheet|preconnect)[^>]*//"
    )
    for path in (tmp_path / "site").rglob("*.html"):
        assert not loads.search(path.read_text(encoding="utf-8")), path.name
    found = json.loads((tmp_path / "site" / "search.json").read_text(encoding="utf-8"))
    places = {one["location"].partition("#")[0] for one in found["items"]}
    assert {str(page.relative_to(DOCS).with_suffix(".html")) for page in PAGES} - places <= {"index.html"}
