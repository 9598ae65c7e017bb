"""The file that `init` writes: every setting in it works, those that are commented out too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstay.config.loader import load_config
from mainstay.config.template import ChannelChoice, InitChoices, render_config

ENV = {"MY_KEY": "k", "TELEGRAM_BOT_TOKEN": "t"}
BARE = InitChoices(name="Ada")
FULL = InitChoices(
    name='A "quoted" name: with #',
    model="vllm/some-model",
    base_url="http://127.0.0.1:8000/v1",
    workspace="team",
    channel=ChannelChoice("telegram", {"token": "${TELEGRAM_BOT_TOKEN}"}),
)


def written(home: Path, text: str) -> Path:
    (home / "mainstay.yaml").write_text(text)
    (home / "mainstay.yaml").chmod(0o600)
    return home


def blocks(text: str) -> list[str]:
    """The settings that are commented out, each as it is without its #."""
    found = re.findall(r"(?:^#[^ \n].*\n(?:#(?: {2,}).*\n)*)", text, re.MULTILINE)
    return [re.sub(r"^#", "", one, flags=re.MULTILINE) for one in found]


def test_the_file_says_what_was_chosen(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, render_config(FULL)), env=ENV).config
    assert (config.model, config.workspace) == ("vllm/some-model", "team")
    assert config.providers["vllm"].base_url == "http://127.0.0.1:8000/v1"
    assert config.instructions == 'Your name is A "quoted" name: with #. Be helpful, brief and honest.'
    assert config.channels["telegram"].token == "t"


def test_unchosen_settings_keep_their_defaults(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, render_config(BARE)), env={})
    said = {key for key, origin in loaded.origins.items() if origin.startswith("mainstay.yaml")}
    assert said == {"instructions"}


def test_it_teaches_what_people_change_next() -> None:
    keys = {one.partition(":")[0] for one in blocks(render_config(BARE))}
    assert keys == {
        *("model", "models", "providers", "workspace", "tools", "policy", "sandbox", "limits", "channels", "server"),
    }


@pytest.mark.parametrize("block", blocks(render_config(BARE)), ids=lambda block: block.partition(":")[0])
def test_a_setting_that_is_commented_out_works_when_its_mark_is_taken_away(tmp_path: Path, block: str) -> None:
    bare = load_config(written(tmp_path, render_config(BARE)), env=ENV)
    loaded = load_config(written(tmp_path, render_config(BARE) + block), env=ENV)
    key = block.partition(":")[0]
    origins = {name for name, origin in loaded.origins.items() if origin.startswith("mainstay.yaml")}
    assert any(name.split(".")[0] == key for name in origins)
    assert bare.path == loaded.path


def test_all_of_them_work_together(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, render_config(BARE) + "".join(blocks(render_config(BARE)))), env=ENV).config
    assert config.sandbox.network
    assert config.policy.deny == ("bash(git push *)",)
    assert config.channels["telegram"].token == "t"
