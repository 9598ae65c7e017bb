"""Health checks of local models."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from mainstay.core.health import CheckFinding
from mainstay.core.provider_manifest import ProviderCheckContext, ProviderFilesContext, ProviderSettings
from mainstay.providers.local import catalogue
from mainstay.providers.local.weights_health import _describe_hash_mismatch, check_local_model, check_weights_folder


def check_weights(*, fix: bool = False) -> list[CheckFinding]:
    return list(check_weights_folder(ProviderFilesContext(environ=os.environ, fix=fix)))


def test_leftovers_of_a_model_pull_are_reported_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "weights"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("MAINSTAY_MODELS", str(place))
    assert check_weights() == []
    first = catalogue.DEFAULT_WEIGHTS
    part = place / f"{first.file_name}.part"
    part.write_bytes(bytes(5_000_000))
    (place / ".wheels-killed").mkdir()
    place.chmod(0o777)
    said = [(one.verdict, one.message) for one in check_weights()]
    assert said == [
        ("FAIL", f"other users can write to {place}, and could replace verified weights"),
        ("warn", f"1 folder of a killed download in {place}"),
        ("warn", f"{first.name} is partly downloaded, 5 of {first.size_bytes / 1e6:,.0f} MB"),
    ]
    assert [one.is_fixed for one in check_weights(fix=True)] == [True, True, False]
    assert part.exists()  # the next pull goes on from there
    with (place / first.file_name).open("wb") as whole:
        whole.truncate(first.size_bytes)  # as far as its size tells
    assert [one.is_fixed for one in check_weights(fix=True)] == [True]
    assert not part.exists()


def test_a_local_model_is_read_whole_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_MODELS", str(tmp_path))
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF" + bytes(100))
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<html>")

    def verdict(name: str) -> str:
        return check_local_model(name, ProviderSettings(), ProviderCheckContext(environ=os.environ))[-1].verdict

    assert verdict(str(own)) == "ok"
    assert verdict(str(page)) == "FAIL"
    assert verdict(str(tmp_path / "none.gguf")) == "FAIL"
    assert verdict(catalogue.DEFAULT_WEIGHTS.name) == "FAIL"
    small = msgspec.structs.replace(catalogue.DEFAULT_WEIGHTS, sha256=sha256(b"GGUF").hexdigest())
    (tmp_path / "small").write_bytes(b"GGUF")
    assert _describe_hash_mismatch(small, tmp_path / "small") == ""
    assert "its SHA-256 hash differs" in _describe_hash_mismatch(catalogue.DEFAULT_WEIGHTS, tmp_path / "small")
