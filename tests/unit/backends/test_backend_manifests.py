"""Manifests of backends: what a backend's folder says of itself is what the configuration, `doctor` and the reference
use."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Annotated, Self

import msgspec
import pytest
from msgspec import Meta

from mainstay import backends
from mainstay.agent.external_tools_health import check_external_tools
from mainstay.backends.base import BackendRefused, BackendTool, BackendToolArguments
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.health import BackendContents
from mainstay.cli.main import main
from mainstay.config.loader import list_values, load_config, set_value
from mainstay.config.reference import render_page
from mainstay.core import components
from mainstay.core.backend_settings import BackendSettings, resolve_path
from mainstay.core.components import Component, find_component
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.settings import Secret

KINDS = tuple(backends.COMPONENTS)


class LogbookSettings(BackendSettings, frozen=True, kw_only=True):
    book: Annotated[str, Meta(description="The file.")] = ""
    clasp: Annotated[Secret, Meta(description="What opens it.")] = ""
    pages: Annotated[int, Meta(description="Pages at a time.")] = 3

    @property
    def location(self) -> str:
        return self.book

    def find_problem(self, mcp_servers: Collection[str]) -> str:
        return "'pages' must be odd" if self.pages % 2 == 0 else ""

    def resolve_paths(self, home: Path) -> Self:
        return msgspec.structs.replace(self, book=resolve_path(self.book, home))


class _Ask(BackendToolArguments, frozen=True):
    word: str


class _LogbookQuery(BackendTool[_Ask]):
    action = "query"
    arguments = _Ask

    async def execute(self, arguments: _Ask, context: ToolContext) -> str:
        return f"{self.settings.location}: {arguments.word}"


class _Logbook:
    def __init__(self, name: str, settings: LogbookSettings) -> None:
        self.name, self.settings = name, settings
        self.tools: tuple[Tool, ...] = (_LogbookQuery(self, ""),)

    def schema_summary(self) -> str:
        return "### a logbook"

    async def start(self) -> None:
        if not os.path.exists(self.settings.book):
            raise BackendRefused("It is closed.", f"there is no book {self.settings.book}, clasp {self.settings.clasp}")

    async def close(self) -> None: ...


def build(name: str, settings: LogbookSettings, context: BackendFactoryContext) -> _Logbook:
    return _Logbook(name, settings)


async def check(backend: _Logbook, start_programs: bool) -> BackendContents:
    return BackendContents(summary=f"{backend.settings.pages} pages", warnings=("page 2 is torn",))


@pytest.fixture
def logbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more built-in backend: a folder, and a line in the index."""
    module = ModuleType("fake_logbook")
    component = Component(
        kind="backend",
        name="logbook",
        summary="A ship's logbook.",
        settings=LogbookSettings,
        factory="fake_logbook:build",
        required={"book": "log.txt"},
        check="fake_logbook:check",
    )
    module.__dict__.update(COMPONENT=component, build=build, check=check)
    monkeypatch.setitem(sys.modules, "fake_logbook", module)
    monkeypatch.setitem(backends.COMPONENTS, "logbook", "fake_logbook")
    components._load_manifest.cache_clear()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def configure(home: Path, text: str) -> None:
    (home / "mainstay.yaml").write_text(text)
    (home / "mainstay.yaml").chmod(0o600)


# --- every place that lists backends derives from the index --------------------------------------


@pytest.mark.usefixtures("logbook")
def test_a_new_backend_can_be_configured_and_its_secret_is_masked(home: Path) -> None:
    configure(home, "backends:\n  ship: {kind: logbook, book: log.txt, clasp: open-sesame, pages: 5}\n")
    loaded = load_config(home, env={})
    settings = LogbookSettings(kind="logbook", book="log.txt", clasp="open-sesame", pages=5)
    assert loaded.config.backends == {"ship": settings}
    assert settings.list_secrets() == ["open-sesame"]
    assert "open-sesame" not in repr(loaded.config) + repr(list_values(loaded))


@pytest.mark.usefixtures("logbook")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{kind: logbook, bok: x}", "line 2: unknown key 'backends.ship.bok'; did you mean 'backends.ship.book'?"),
        ("{kind: logbook, pages: x}", "line 2: 'backends.ship.pages': expected a whole number, got 'x'"),
        ("{kind: logbook}", "line 2: 'backends.ship': 'kind: logbook' needs 'book'"),
        ("{kind: logbook, book: x, pages: 2}", "line 2: 'backends.ship': 'pages' must be odd"),
        ("{kind: logbook, url: x}", "line 2: 'backends.ship': 'url' is not a key of 'kind: logbook'; remove it"),
        ("{kind: sql, book: x}", "line 2: 'backends.ship': 'book' is not a key of 'kind: sql'; remove it"),
        ("{kind: logbok}", "line 2: 'backends.ship.kind': there is no backend 'logbok'; did you mean 'logbook'?"),
        ("{book: x}", "line 2: 'backends.ship' needs 'kind'"),
        ("{kind: 5}", "line 2: 'backends.ship.kind': expected text, got a whole number"),
    ],
)  # fmt: skip
def test_mistakes_in_its_settings_have_a_line_and_a_near_match(home: Path, text: str, sentence: str) -> None:
    configure(home, f"backends:\n  ship: {text}\n")
    with pytest.raises(ConfigError) as failed:
        load_config(home, env={})
    assert str(failed.value).startswith(f"mainstay.yaml {sentence}")


@pytest.mark.usefixtures("logbook")
def test_it_can_be_set_by_variables_and_commands_and_differ_by_workspace(home: Path) -> None:
    prefix = "MAINSTAY__BACKENDS__SHIP__"
    env = {f"{prefix}PAGES": "7", f"{prefix}KIND": "logbook", f"{prefix}BOOK": "b"}
    assert load_config(home, env=env).config.backends == {"ship": LogbookSettings(kind="logbook", book="b", pages=7)}
    configure(home, "backends:\n  ship: {kind: logbook, book: a}\n")
    set_value(home, "backends.ship.pages", "9", env={})
    shared = LogbookSettings(kind="logbook", book="a", pages=9)
    assert load_config(home, env={}).config.backends == {"ship": shared}
    text = (home / "mainstay.yaml").read_text()
    configure(home, f"{text}workspaces:\n  team:\n    backends:\n      log: {{kind: logbook, book: b}}\n")
    config = load_config(home, env={}).for_workspace("team")
    assert config.backends == {"ship": shared, "log": LogbookSettings(kind="logbook", book="b")}


@pytest.mark.usefixtures("logbook")
def test_it_is_in_the_reference() -> None:
    page = render_page()
    assert "### `backends.<name>`, kind `logbook`\n\nA ship's logbook.\n" in page
    assert "| `book` | text | (required) | The file. |\n" in page
    assert "| `pages` | a whole number | `3` | Pages at a time. |\n" in page


LISTED = "backends:\n  ship: {kind: logbook, book: log.txt, clasp: open-sesame}\npolicy:\n  allow: ['ship__*']\n"


@pytest.mark.usefixtures("logbook")
def test_commands_list_test_and_query_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, LISTED)
    assert main(["backend", "test", "ship", "--home", str(home)]) == 1
    refused = capsys.readouterr().err
    assert f"ship: there is no book {home}/log.txt" in refused
    assert "open-sesame" not in refused
    (home / "log.txt").touch()
    assert main(["backend", "list", "--json", "--home", str(home)]) == 0
    (row,) = json.loads(capsys.readouterr().out)["backends"]
    assert (row["kind"], row["where"], row["open"]) == ("logbook", f"{home}/log.txt", True)
    assert (row["tools"], row["state"]) == (["ship__query"], "3 pages; page 2 is torn")
    assert main(["backend", "test", "ship", "--home", str(home)]) == 0
    assert "ship has 3 pages" in capsys.readouterr().out
    assert main(["backend", "query", "ship", "word=whale", "--home", str(home)]) == 0
    assert f"{home}/log.txt: whale" in capsys.readouterr().out


@pytest.mark.usefixtures("logbook")
def test_doctor_runs_the_check_of_its_manifest(home: Path) -> None:
    configure(home, LISTED)
    config = load_config(home, env={}).config
    (found,) = asyncio.run(check_external_tools(config, home))
    assert (found.check, found.verdict) == ("Backend", "FAIL")
    assert f"ship: logbook: there is no book {home}/log.txt" in found.message
    (home / "log.txt").touch()
    (found,) = asyncio.run(check_external_tools(config, home))
    assert (found.check, found.verdict, found.message) == (
        "Backend",
        "warn",
        "ship: logbook, 3 pages; page 2 is torn",
    )


# --- the built-in manifests ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_is_complete(kind: str) -> None:
    component = find_component("backend", kind)
    assert component.name == kind
    assert component.summary.endswith(".")
    assert component.required
    assert components._find_manifest_problem(component) == ""
    assert bool(component.libraries) == bool(component.install)
    assert issubclass(component.settings, BackendSettings)
    assert component.settings().kind == kind
    assert callable(component.load_factory())
    assert callable(component.load_check())
    own = [field for field in msgspec.structs.fields(component.settings) if field.name != "kind"]
    assert all(any(isinstance(part, Meta) and part.description for part in field.type.__metadata__) for field in own)


def test_manifests_import_no_library_and_no_backend_and_configuring_one_imports_only_its_manifest() -> None:
    program = """
import sys
from mainstay.core.components import find_component, list_components
import mainstay.core.backend_settings
before = set(sys.modules)
find_component("backend", "sql")
assert {name for name in sys.modules if name.endswith(".manifest")} == {"mainstay.backends.sql.manifest"}
assert "importlib.metadata" not in set(sys.modules) - before
list(list_components("backend"))
known = sys.stdlib_module_names | {"mainstay", "msgspec"}
print(sorted({name for name in set(sys.modules) - before if name.partition(".")[0] not in known}))
print(sorted(name for name in sys.modules if name.startswith("mainstay.backends.") and name.count(".") > 2))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(backends.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    others, modules = done.stdout.splitlines()
    assert others == "[]"
    assert modules == str(sorted(backends.COMPONENTS.values()))


@pytest.mark.parametrize(
    ("text", "location", "resolved"),
    [
        ("{kind: sql, url: 'sqlite:///shop.db'}", "shop.db", "HOME/shop.db"),
        ("{kind: sql, url: 'sqlite:////srv/shop.db'}", "/srv/shop.db", "/srv/shop.db"),
        ("{kind: sql, url: 'mysql://me:secret@db/shop?ssl_ca=x'}", "mysql://db/shop", "mysql://db/shop"),
        ("{kind: rest, description: api.yaml}", "api.yaml", "HOME/api.yaml"),
        ("{kind: rest, description: a, url: 'https://k:s@api.example/v1'}", "https://api.example/v1", None),
        ("{kind: documents, path: docs}", "docs", "HOME/docs"),
        ("{kind: mcp, server: files}", "the MCP server files", "the MCP server files"),
    ],
)
def test_the_location_is_shown_without_credentials(home: Path, text: str, location: str, resolved: str | None) -> None:
    configure(home, f"mcpServers: {{files: {{command: x}}}}\nbackends:\n  it: {text}\n")
    settings = load_config(home, env={}).config.backends["it"]
    assert settings.location == location
    assert settings.resolve_paths(home).location == (resolved or location).replace("HOME", str(home))


# --- documentation -------------------------------------------------------------------------------

ROOT = Path(__file__).parents[3]


def test_the_page_quotes_the_example() -> None:
    page = (ROOT / "docs/how-to/components.md").read_text()
    section = page.partition("\n## A backend\n")[2].partition("\n## ")[0]
    source = (ROOT / "examples/components/backend/mainstay_csv_backend.py").read_text()
    project = (ROOT / "examples/components/backend/pyproject.toml").read_text()
    blocks = re.findall(r"```(py|toml)\n(?:# [\w.]+\n)?(.*?)```", section, re.DOTALL)
    quoted = [(language, part) for language, block in blocks for part in block.strip().split("\n\n\n")]
    assert len(quoted) > 5
    assert [part for language, part in quoted if part not in (source if language == "py" else project)] == []
