"""Health checks of the configuration."""

from __future__ import annotations

from pathlib import Path

from mainstay.config.health import check_configuration, check_judges, check_webhooks
from mainstay.config.loader import Config


def write_config(home: Path, text: str) -> None:
    (home / "mainstay.yaml").write_text(text)
    (home / "mainstay.yaml").chmod(0o600)


def test_the_file_is_loaded_and_a_mistake_is_a_finding(tmp_path: Path) -> None:
    config, finding = check_configuration(tmp_path)
    assert config is not None
    assert finding.message.endswith("mainstay.yaml does not exist; using the defaults")
    write_config(tmp_path, "modle: x/y\n")
    config, finding = check_configuration(tmp_path)
    assert config is None
    assert (finding.verdict, finding.message) == (
        "FAIL",
        "mainstay.yaml line 1: unknown key 'modle'; did you mean 'model'?",
    )


def test_parts_that_are_not_configured_have_no_finding(tmp_path: Path) -> None:
    assert check_judges(Config(), tmp_path) == []
    assert list(check_webhooks(Config(), tmp_path)) == []
