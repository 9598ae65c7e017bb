"""The embedder of `examples/components/embedder`, installed as a distribution of its own and used as the page says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.cli_support import Command
from support.docs_pages import DOCS, blocks
from support.example_distributions import ROOT, install_example
from support.example_model import ExampleModel

PAGE = DOCS / "how-to" / "components.md"
SOURCE = ROOT / "examples" / "components" / "embedder" / "mainstay_trigram_embedder.py"


def test_messages_are_found_by_their_vectors(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    site = install_example("embedder", tmp_path_factory.mktemp("embedder"))
    model = ExampleModel(lambda messages: "Noted.")
    mainstay = Command(tmp_path, model.url)
    mainstay.env["PYTHONPATH"] += os.pathsep + str(site)
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "trigrams" in one.text)
    mainstay.configure((mainstay.home / "mainstay.yaml").read_text() + block.text)
    try:
        assert mainstay("run", "The heating in the cellar was repaired.").returncode == 0
    finally:
        model.close()
    assert "2 vectors by trigrams/512" in mainstay("memory", "status").stdout
    assert "heating in the cellar" in mainstay("memory", "search", "heatign cellr repaird").stdout
    listed = mainstay("doctor", "--offline").stdout
    assert "the embedder 'trigrams' comes with mainstay-trigram-embedder: Letter trigrams" in listed
    assert "ok    Memory: full-text and semantic search; trigrams, 512 dimensions" in listed


def test_the_page_shows_the_example() -> None:
    section = PAGE.read_text().partition("\n## An embedder\n")[2].partition("\n## ")[0]
    source = SOURCE.read_text() + (SOURCE.parent / "pyproject.toml").read_text()
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 4
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ")), f"{block.where}: {line}"
