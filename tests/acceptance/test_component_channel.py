"""The channel of `examples/components/channel`, installed as a distribution of its own and used as the page says."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command
from support.docs_pages import DOCS, blocks
from support.example_distributions import ROOT, install_example
from support.example_model import ExampleModel

import mainstay
from mainstay.cli.commands.doctor_gateway_checks import check_gateway
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.core import components
from mainstay.core.channel_settings import find_channel_component
from mainstay.core.third_party_component_health import check_components

PAGE = DOCS / "how-to" / "components.md"
SOURCE = ROOT / "examples" / "components" / "channel"
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("channel", tmp_path_factory.mktemp("channel"))


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution is on the path of this process."""
    monkeypatch.syspath_prepend(str(site))
    yield
    components._find_in_distributions.cache_clear()
    for name in ("mainstay_folder_channel", "mainstay_folder_channel.channel"):
        sys.modules.pop(name, None)


def until(probe: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := probe()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


@pytest.mark.usefixtures("installed")
def test_it_is_added_with_a_command_listed_and_seen_by_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER_KEY", "open sesame")
    home, folder = tmp_path / "home", tmp_path / "shared"

    def typed(*words: str) -> Any:
        assert main(["channel", *words, "--json", "--home", str(home)]) == 0
        return json.loads(capsys.readouterr().out)

    added = typed("add", "folder", f"folder={folder}", "poll_s=0.5")
    assert added["variables"] == [{"name": "FOLDER_KEY", "for": "key", "set": True}]
    assert added["steps"] == [
        f"create a folder {folder}/outbox/ROOM for each room, and {folder}/outbox/USER for each user"
    ]
    (row,) = typed("list")["channels"]
    assert (row["name"], row["kind"], row["state"]) == ("folder", "folder", "not connected: no server is running")
    config = load_config(home, env=os.environ).config
    found = [*check_components(), *asyncio.run(check_gateway(config, home, fix=False))]
    assert [(one.check, one.verdict, one.message) for one in found if one.check != "Server"] == [
        (
            "Components",
            "ok",
            "the channel 'folder' comes with mainstay-folder-channel: Files in a folder, for programs that can do "
            "nothing but read and write files.",
        ),
        ("Channel", "ok", "folder: folder in default; test it with `mainstay channel test folder`"),
        ("Channel", "warn", f"folder: {folder} does not exist yet"),
    ]


def test_a_message_in_its_inbox_is_answered_in_its_outbox(site: Path, tmp_path: Path) -> None:
    model = ExampleModel(lambda messages: f"I read {sum('are you there?' in str(one) for one in messages)} of them")
    command = Command(tmp_path, model.url)
    command.env["PYTHONPATH"] += os.pathsep + str(site)
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "channels:" in one.text)
    folder = tmp_path / "agent"
    own = block.text.replace("/srv/agent", str(folder)).replace("poll_s: 0.5", "poll_s: 0.05")
    command.configure((command.home / "mainstay.yaml").read_text() + own)
    command.env["FOLDER_KEY"] = "open sesame"
    for room in ("ann", "lobby"):
        (folder / "outbox" / room).mkdir(parents=True)
    (folder / "inbox.jsonl").write_bytes(
        b'{"user": "ann", "text": "\xff"}\n{"user": "ann", "text": "are you there?"}\n'
        b'{"user": "ann", "room": "lobby", "text": "to nobody"}\n'
        b'{"user": "ann", "room": "lobby", "text": "@agent are you there?"}\n'
    )
    server = command.start("serve", "--port", "0")
    try:
        for room in ("ann", "lobby"):
            (answer,) = until(lambda room=room: list((folder / "outbox" / room).glob("*.md")), "it is answered")
            signature, _, text = answer.read_text().partition("\n\n")
            assert text == "I read 1 of them\n"
            assert signature == f"Signature: {hmac.digest(b'open sesame', text[:-1].encode(), 'sha256').hex()}"
        state = json.loads((command.home / "channels" / "folder.json").read_text())
        assert state == {"offset": (folder / "inbox.jsonl").stat().st_size}
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE_S)
        model.close()
    assert server.returncode == 0


def test_it_passes_the_conformance_suite_from_its_own_folder(site: Path) -> None:
    path = os.pathsep.join((str(site), str(Path(mainstay.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_folder_channel.py"],
        cwd=site.parent / "source",
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.usefixtures("installed")
def test_importing_the_manifest_does_not_import_the_implementation() -> None:
    assert find_channel_component("folder").name == "folder"
    assert "mainstay_folder_channel" in sys.modules
    assert "mainstay_folder_channel.channel" not in sys.modules


def test_without_the_distribution_the_name_is_an_error_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mainstay.yaml").write_text("channels:\n  team: {kind: folder, folder: x}\n")
    assert main(["config", "check", "--home", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "mainstay.yaml line 2: 'channels.team.kind': there is no channel 'folder'; there are: slack, " in err
    assert "entry point in the group mainstay.channels" in err


def test_the_page_shows_the_example() -> None:
    section = PAGE.read_text().partition("\n## A channel\n")[2].partition("\n## ")[0]
    source = "".join(path.read_text() for path in (*SOURCE.rglob("*.py"), SOURCE / "pyproject.toml"))
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 8
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ")), f"{block.where}: {line}"
