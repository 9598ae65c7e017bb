"""The channel of `examples/components/channel`, installed as a distribution of its own and used as the page says."""

from __future__ import annotations

import asyncio
import json
import os
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

from mainstay.cli.commands.doctor_gateway_checks import check_gateway
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.core import components
from mainstay.core.third_party_component_health import check_components

PAGE = DOCS / "how-to" / "components.md"
SOURCE = ROOT / "examples" / "components" / "channel" / "mainstay_folder_channel.py"
PATIENCE_S = 40.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("channel", tmp_path_factory.mktemp("channel"))


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution is on the path of this process."""
    monkeypatch.syspath_prepend(str(site))
    yield
    components._find_in_distributions.cache_clear()
    sys.modules.pop("mainstay_folder_channel", None)


def until(probe: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := probe()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


@pytest.mark.usefixtures("installed")
def test_it_is_added_with_a_command_listed_and_seen_by_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, folder = tmp_path / "home", tmp_path / "shared"

    def typed(*words: str) -> Any:
        assert main(["channel", *words, "--json", "--home", str(home)]) == 0
        return json.loads(capsys.readouterr().out)

    added = typed("add", "folder", f"folder={folder}", "poll_s=0.5")
    assert added["steps"] == [f"give each user write access to {folder}/inbox, and read access to {folder}/outbox"]
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
    mainstay = Command(tmp_path, model.url)
    mainstay.env["PYTHONPATH"] += os.pathsep + str(site)
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "channels:" in one.text)
    folder = tmp_path / "agent"
    own = block.text.replace("/srv/agent", str(folder)).replace("poll_s: 0.5", "poll_s: 0.05")
    mainstay.configure((mainstay.home / "mainstay.yaml").read_text() + own)
    server = mainstay.start("serve", "--port", "0")
    try:
        until((folder / "inbox").is_dir, "the channel is started")
        (folder / "ann.txt").write_text("are you there?")
        (folder / "ann.txt").rename(folder / "inbox" / "ann.txt")
        (answer,) = until(lambda: list((folder / "outbox").glob("*.md")), "it is answered")
        assert answer.read_text() == "To ann:\n\nI read 1 of them\n"
        assert list((folder / "inbox").iterdir()) == []
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE_S)
        model.close()
    assert server.returncode == 0


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
    source = SOURCE.read_text() + (SOURCE.parent / "pyproject.toml").read_text()
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 4
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ")), f"{block.where}: {line}"
