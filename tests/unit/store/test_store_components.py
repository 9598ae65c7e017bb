"""Manifests of stores: what is listed in the index can be configured, is checked by `doctor` and is in the reference;
and a store that keeps journals only is completed in memory."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
from msgspec import Meta

from mainstay import Agent, Config, store
from mainstay.agent.health import check_store
from mainstay.agent.workspace_stores import (
    build_store,
    get_auxiliary_stores,
    has_store,
    list_used_workspaces,
    open_store,
)
from mainstay.cli.main import main
from mainstay.config.component_options import resolve_store_options
from mainstay.config.loader import list_values, load_config, set_value
from mainstay.config.reference import render_page
from mainstay.config.schema import StorageSettings, ToolSettings
from mainstay.core import components
from mainstay.core.component_options import StoreOptions
from mainstay.core.errors import ConfigError, HomeUnusable
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.ports import Store
from mainstay.core.settings import Secret
from mainstay.core.store_components import AuxiliaryStores, StoreComponent, StoreLocation
from mainstay.store.memory.auxiliary_stores import InMemoryAuxiliaryStores
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import MemoryStore, ScriptedProvider
from mainstay.testing.store_suite import SessionWriter

KEPT: dict[str, MemoryStore] = {}  # by workspace: stores that outlive their agents


class ShelfOptions(StoreOptions, frozen=True, kw_only=True):
    room: Annotated[str, Meta(description="Where the shelf stands.")]
    lock: Annotated[Secret, Meta(description="What opens it.")] = ""

    def find_problem(self) -> str:
        return "'storage.options.room' must not be the cellar" if self.room == "cellar" else ""


def build_shelf(options: ShelfOptions, location: StoreLocation) -> MemoryStore:
    return KEPT.setdefault(f"{options.room}/{location.workspace}", MemoryStore())


def check_shelf(options: ShelfOptions, context: CheckContext) -> Iterator[CheckFinding]:
    yield CheckFinding("Database", "ok", f"the shelf in the {options.room} stands upright")


SHELF = StoreComponent(
    kind="store",
    name="shelf",
    summary="A shelf.",
    settings=ShelfOptions,
    factory=f"{__name__}:build_shelf",
    check=f"{__name__}:check_shelf",
)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in store as its folder would bring it: a manifest, and one line of the index."""
    KEPT.clear()
    manifest = ModuleType("mainstay_shelf_manifest")
    manifest.COMPONENT = SHELF  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, manifest.__name__, manifest)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.setitem(store.COMPONENTS, "shelf", manifest.__name__)


def write_config(home: Path, text: str) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "mainstay.yaml").write_text(text)
    (home / "mainstay.yaml").chmod(0o600)
    return home


# --- manifests -----------------------------------------------------------------------------------


def test_manifests_import_neither_libraries_nor_stores() -> None:
    code = """
import sys
from mainstay.core.components import find_component
names = [find_component("store", name).name for name in ("sqlite", "memory")]
loaded = [name for name in sys.modules if name.startswith(("apsw", "mainstay.store."))]
print(names, sorted(loaded), "importlib.metadata" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    modules = ["memory", "memory.manifest", "sqlite", "sqlite.manifest"]
    assert done.stdout.split("] [")[0] == "['sqlite', 'memory'"
    assert done.stdout.strip().endswith("] False")
    assert [name for name in modules if f"'mainstay.store.{name}'" not in done.stdout] == []
    assert done.stdout.count("mainstay.store.") == len(modules)


@pytest.mark.usefixtures("shelf")
def test_listed_stores_are_configured_checked_and_documented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = write_config(tmp_path / "home", "storage:\n  backend: shelf\n  options: {room: attic, lock: sesame42}\n")
    loaded = load_config(home, env={})
    assert loaded.config.storage.options == ShelfOptions(room="attic", lock="sesame42")
    assert ("storage.options.lock", "set (hidden)", "mainstay.yaml:3") in list_values(loaded)
    assert "sesame42" not in repr(loaded)

    async def talk() -> None:
        async with Agent(ScriptedProvider(["Hello."]), home=home) as agent:
            assert (await agent.run("s", "hi")).text == "Hello."
        assert await KEPT["attic/default"].list_heads() == {"s": 4}

    asyncio.run(talk())
    assert not (home / "workspaces" / "default" / "workspace.db").exists()
    main(["doctor", "--offline", "--json", "--home", str(home)])
    says = [one["says"] for one in json.loads(capsys.readouterr().out)["checks"] if one["check"] == "Database"]
    assert says == ["the shelf in the attic stands upright"]
    main(["session", "list", "--json", "--home", str(home)])
    assert [one["key"] for one in json.loads(capsys.readouterr().out)["sessions"]] == ["s"]
    page = render_page()
    assert "### `storage.options`, backend `shelf`\n\nA shelf.\n" in page
    assert "| `room` | text | (required) | Where the shelf stands. |" in page


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{backend: shelf}", "'storage.options' needs 'room' for the store 'shelf'"),
        ("{backend: shelf, options: {room: cellar}}", "'storage.options.room' must not be the cellar"),
        ("{backend: shelf, options: {rom: x}}", "line 1: unknown key 'storage.options.rom'"),
        ("{backend: shelf, options: {room: 3}}", "line 1: 'storage.options.room': expected text"),
        ("{backend: shlf}", "line 1: 'storage.backend' is not valid: there is no store 'shlf'; did you mean 'shelf'?"),
        ("{options: {room: x}}", "line 1: 'storage.options': 'room' is not a key of the store 'sqlite'; remove it"),
    ],
)
def test_mistakes_are_found_before_anything_is_opened(tmp_path: Path, text: str, sentence: str) -> None:
    write_config(tmp_path, f"storage: {text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, env={})
    assert sentence in str(caught.value)


@pytest.mark.usefixtures("shelf")
def test_options_come_from_variables_and_commands_too(tmp_path: Path) -> None:
    write_config(tmp_path, "storage: {backend: shelf, options: {room: '${ROOM}'}}\n")
    env = {"ROOM": "hall", "MAINSTAY__STORAGE__OPTIONS__LOCK": "sesame42"}
    assert load_config(tmp_path, env=env).config.storage.options == ShelfOptions(room="hall", lock="sesame42")
    with pytest.raises(ConfigError, match="needs the environment variable 'ROOM'"):
        load_config(tmp_path, env={})
    set_value(tmp_path, "storage.options.room", "porch")
    assert load_config(tmp_path, env={}).config.storage.options == ShelfOptions(room="porch")
    named = {"MAINSTAY__STORAGE__BACKEND": "shelf", "MAINSTAY__STORAGE__OPTIONS__ROOM": "den"}
    assert load_config(tmp_path / "new", env=named).config.storage.options == ShelfOptions(room="den")


def test_a_store_that_cannot_be_used_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = StoreComponent(
        kind="store", name="far", summary="Far.", settings=StoreOptions, factory="x:y",
        libraries={"no_such_module": "far-driver"}, install="pip install far-driver",
    )  # fmt: skip
    monkeypatch.setattr(components, "_load_manifest", lambda module: lacking)
    context = CheckContext(home=tmp_path, data=tmp_path, workspace="default")
    monkeypatch.setitem(store.COMPONENTS, "far", "far")
    (found,) = check_store(StorageSettings(backend="far"), context)
    assert (found.verdict, found.message, found.fix) == (
        "FAIL",
        "far: far-driver not installed",
        "pip install far-driver",
    )


# --- the stores of a home ------------------------------------------------------------------------


async def test_a_workspace_is_there_once_its_database_is(tmp_path: Path) -> None:
    storage, folder = StorageSettings(), tmp_path / "workspaces" / "team"
    folder.mkdir(parents=True)
    assert not has_store(storage, folder)
    async with open_store(storage, folder, read_only=True) as empty:
        assert await empty.list_heads() == {}
    assert list_used_workspaces(storage, tmp_path) == []
    async with open_store(storage, folder) as opened:
        await SessionWriter(opened, "s").write_turn("hi")
    assert list_used_workspaces(storage, tmp_path) == [folder]
    async with open_store(storage, folder, read_only=True) as reader:
        assert await reader.list_heads() == {"s": 4}


def test_a_database_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workspace.db").symlink_to(tmp_path / "other.db")
    with pytest.raises(HomeUnusable, match="is a symbolic link, which may lead into another workspace"):
        build_store(StorageSettings(), tmp_path)


def test_options_of_the_default_store_are_empty() -> None:
    assert resolve_store_options(StorageSettings()) == StoreOptions()


# --- a store given to an agent -------------------------------------------------------------------


async def test_an_agent_takes_any_store_and_opens_and_closes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class WatchedStore(MemoryStore):
        calls: list[str] = []

        async def open(self) -> None:
            self.calls.append("open")

        async def close(self) -> None:
            self.calls.append("close")

    kept = WatchedStore()
    for home in (":memory:", tmp_path / "home"):
        with caplog.at_level(logging.WARNING, "mainstay"):
            async with Agent(ScriptedProvider(["Hello."]), home=home, store=kept) as agent:
                await agent.run(f"at {Path(home).name}", "hi")
                assert len(await agent.memory.search("hi")) > 0
                found = await agent.sessions.list()
    assert {info.key for info in found} == {"at :memory:", "at home"}
    assert kept.calls == ["open", "close"] * 2
    assert [record.message for record in caplog.records] == [
        "WatchedStore keeps journals only: file labels, trigger runs, plugin state and queued messages end with this "
        "process"
    ]
    assert not (tmp_path / "home" / "workspaces" / "default" / "workspace.db").exists()


@pytest.mark.usefixtures("shelf")
async def test_an_agent_without_a_home_says_that_the_configured_store_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for backend in ("sqlite", "memory", "shelf"):
        with caplog.at_level(logging.WARNING, "mainstay"):
            config = Config(storage=StorageSettings(backend=backend))
            async with Agent(ScriptedProvider(["Hello."]), home=":memory:", config=config) as agent:
                assert (await agent.run("s", "hi")).text == "Hello."
    assert [record.message for record in caplog.records] == [
        "the store is in memory and ends with this process: without a home, storage.backend 'shelf' is unused"
    ]
    assert KEPT == {}


async def test_an_agent_without_a_home_refuses_an_unknown_store() -> None:
    config = Config(storage=StorageSettings(backend="sqlte"))
    with pytest.raises(ConfigError, match="there is no store 'sqlte'; did you mean 'sqlite'"):
        await Agent(ScriptedProvider([]), home=":memory:", config=config).runtime()


async def test_a_store_that_keeps_everything_is_used_for_everything(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "elsewhere.db"))
    config = Config(tools=ToolSettings(builtin=("schedule", "read")))
    async with Agent(ScriptedProvider(["Hello."]), home=tmp_path / "home", store=store, config=config) as agent:
        await agent.run("s", "hi")
        assert (await agent.runtime()).auxiliary_stores is store
    again = SqliteStore(str(tmp_path / "elsewhere.db"), read_only=True)
    await again.open()
    assert list(await again.list_heads()) == ["s"]
    await again.close()


async def test_a_failed_opening_closes_the_store_and_frees_the_home(tmp_path: Path) -> None:
    class FailingStore(MemoryStore):
        closed = 0

        async def list_unfinished(self) -> list[str]:
            raise HomeUnusable("no list today")

        async def close(self) -> None:
            self.closed += 1

    failing = FailingStore()
    with pytest.raises(HomeUnusable, match="no list today"):
        await Agent(ScriptedProvider([]), home=tmp_path / "home", store=failing).runtime()
    assert failing.closed == 1
    async with Agent(ScriptedProvider(["Hello."]), home=tmp_path / "home") as agent:
        assert (await agent.run("s", "hi")).text == "Hello."


def test_an_invalid_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a Store: it lacks some of its methods"):
        Agent(ScriptedProvider([]), store={})  # type: ignore[arg-type]


def test_only_a_store_that_keeps_less_is_completed() -> None:
    full: Store = SqliteStore(":memory:")
    assert get_auxiliary_stores(full) is full
    completed = get_auxiliary_stores(MemoryStore())
    assert isinstance(completed, InMemoryAuxiliaryStores)
    assert isinstance(completed, AuxiliaryStores)
    assert completed.plugin_state() is completed.plugin_state()
    assert completed.trigger_log() is completed.trigger_log()
    assert completed.channel_queue() is completed.channel_queue()
