"""Every Python block in docs/ is run, page by page, against a model on loopback; `# not run` is only compiled."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.example_model import ExampleModel, Messages, Said

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "reference" not in path.parts)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def say(messages: Messages) -> Said:
    """Enough sense for what the pages ask."""
    said = messages[-1]["content"] or ""
    if messages[-1]["role"] == "tool":
        return f"It is {said}."
    if "be stubborn" in said or "does not fit" in said:
        return "No."
    if "JSON Schema" in said:
        return '{"name": "Lisbon", "people": 545000}'
    return [("add", {"a": 2, "b": 3})] if "2 + 3" in said else "Very well."


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExampleModel]:
    made = ExampleModel(say)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield made
    made.close()


def blocks(page: Path) -> list[tuple[int, str]]:
    text = page.read_text()
    return [(text[: found.start(1)].count("\n"), found[1]) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page: Path, model: ExampleModel) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for line, source in blocks(page):
        code = compile("\n" * line + source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if "# not run" in source:
            continue
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))
        else:
            exec(code, names)
    for name in [name for name in names if name.startswith("test_")]:  # a page about tests has tests
        if not inspect.iscoroutinefunction(names[name]):
            names[name]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert os.path.exists(page.parent / target), f"{page.name} links to {target}"


def test_most_pages_have_code() -> None:
    assert sum(bool(blocks(page)) for page in PAGES) >= 10
