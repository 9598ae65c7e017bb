"""Mistakes in the configuration of a channel: each error says what to write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_distribution import ROOK, installed_distribution

from mainstay.cli.main import main
from mainstay.config.health import check_configuration
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError


@pytest.fixture(autouse=True)
def rook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ROOK_KEY", raising=False)
    with installed_distribution(tmp_path / "site", "channel", "rook", ROOK, monkeypatch):
        yield


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("rook: {url: rook.example}", "'channels.rook.url': expected text that matches '^https?://', got other text"),
        ("rook: {user: ''}", "'channels.rook.user': expected text of at least 1 character, got empty text"),
        ("rook: {letter: ab}", "'channels.rook.letter': expected text of 1 character, got other text"),
        ("rok: {url: 'https://r'}", "the channel 'rok' needs a kind: "),
        ("rok: {url: 'https://r'}", "; did you mean 'rook'?"),
        (
            "rook: {url: 'https://r'}",
            "the channel 'rook' needs key: write `key: ${ROOK_KEY}` and set the environment variable ROOK_KEY",
        ),
        (
            "my-rook: {kind: rook, url: 'https://r'}",
            "write `key: ${MY_ROOK_KEY}` and set the environment variable MY_ROOK_KEY",
        ),
        ("rook: {key: '${ROOK_KEY}'}", "the channel 'rook' needs url: for example `url: https://rook.example`"),
    ],
)
def test_an_error_says_what_to_write(tmp_path: Path, entry: str, sentence: str) -> None:
    (tmp_path / "mainstay.yaml").write_text(f"channels:\n  {entry}\n")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path, env=os.environ)
    assert str(raised.value).startswith("mainstay.yaml line 2: ")
    assert sentence in str(raised.value)


def test_config_check_warns_of_a_variable_that_a_channel_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mainstay.yaml").write_text(
        "channels:\n  rook:\n    url: https://r.example\n    key: ${ROOK_KEY}\n"
        "  off: {kind: rook, url: 'https://r', key: '${OFF_KEY}', enabled: false}\n"
    )
    assert main(["config", "check", "--home", str(tmp_path)]) == 0
    warning, ok = capsys.readouterr().out.splitlines()
    assert warning == (
        "warn: the channel rook is left out: mainstay.yaml line 4: 'channels.rook.key' needs the environment variable "
        "'ROOK_KEY', which is not set"
    )
    assert ok.startswith("ok: ")


def test_doctor_says_which_command_makes_a_file_with_a_key_private(tmp_path: Path) -> None:
    file = tmp_path / "mainstay.yaml"
    file.write_text("channels:\n  rook: {url: 'https://r', key: sesame}\n")
    file.chmod(0o644)
    _, finding = check_configuration(tmp_path)
    assert (finding.verdict, finding.fix) == ("FAIL", f"chmod 600 {file}")
    assert finding.message == f"{file} contains a secret and other users may read it"


@pytest.mark.parametrize("secrets", ['{"key": "the key"}', '("key",)', '"key"'])
def test_a_manifest_with_secrets_in_another_form_says_which_form_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secrets: str
) -> None:
    source = ROOK.replace('secrets=(("key",),)', f"secrets={secrets}")
    (tmp_path / "mainstay.yaml").write_text("channels:\n  rook: {url: 'https://r'}\n")
    with (
        installed_distribution(tmp_path / "other", "channel", "rook", source, monkeypatch),
        pytest.raises(ConfigError) as raised,
    ):
        load_config(tmp_path, env=os.environ)
    assert str(raised.value).endswith(
        "the manifest of the channel 'rook' of mainstay-rook-channel has 'secrets' in the wrong form: write "
        'secrets=(("key",),), groups of settings, of each of which one must be given'
    )
