"""The file in which a Matrix account stores its sync position."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mainstay.channels.matrix.channel import MatrixChannel
from mainstay.channels.matrix.client import MatrixCredentials, MatrixLoggedOut, to_channel_error
from mainstay.channels.matrix.saved_state import MatrixSavedState, MatrixStateFile
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown
from mainstay.core.errors import ConfigError


async def test_saved_state_is_loaded_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = MatrixStateFile(str(tmp_path / "deep" / "mx.json"))
    assert file.load() == MatrixSavedState()
    kept = MatrixSavedState(
        homeserver="https://x",
        user="a",
        device="D",
        token="t",
        since="s1",
        encryption_notices=["!r"],
        invitations={"!i": "@b"},
    )
    await file.save(kept)
    await file.save(kept)
    assert file.load() == kept
    assert (tmp_path / "deep" / "mx.json").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["mx.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"since": 5}', b"\xff"], ids=repr)
def test_an_unreadable_file_is_reported_and_not_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mx.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"mx\.json cannot be read"):
        MatrixStateFile(str(tmp_path / "mx.json")).load()


@pytest.mark.parametrize(
    "account",
    [
        MatrixCredentials(homeserver="matrix.example", token="t"),
        MatrixCredentials(homeserver="file:///x", token="t"),
        MatrixCredentials(homeserver="https://matrix.example"),
        MatrixCredentials(homeserver="https://matrix.example", user="agent"),
    ],
    ids=str,
)
def test_an_account_that_cannot_be_used_is_refused_at_once(tmp_path: Path, account: MatrixCredentials) -> None:
    with pytest.raises(ConfigError, match=r"^mx: "):
        MatrixChannel("mx", account, state_path=str(tmp_path / "mx.json"), is_inviter_allowed=lambda user: False)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "M_LIMIT_EXCEEDED", DeliveryDeferred),
        (401, "M_UNKNOWN_TOKEN", MatrixLoggedOut),
        (403, "M_FORBIDDEN", DeliveryRejected),
        (404, "M_NOT_FOUND", DeliveryRejected),
        (413, "M_TOO_LARGE", DeliveryRejected),
        (400, "M_UNKNOWN", DeliveryRejected),
        (408, "", DeliveryUnknown),
        (500, "M_UNKNOWN", DeliveryUnknown),
        (502, "", DeliveryUnknown),
        (504, "", DeliveryUnknown),
    ],
)
def test_a_refusal_means_what_the_outbox_has_to_know(status: int, code: str, kind: type[ChannelError]) -> None:
    assert type(to_channel_error(status, code, "words", None)) is kind


@pytest.mark.parametrize(
    ("asked_ms", "wait_s"),
    [(1500, 1.5), (None, 5.0), (10**12, 3600.0), (-5, 0.05), (10**400, 5.0), (float("nan"), 5.0), ("7", 5.0)],
    ids=["usual", "none", "long", "negative", "huge", "NaN", "text"],
)
def test_how_long_to_wait_is_bounded(asked_ms: Any, wait_s: float) -> None:
    error = to_channel_error(429, "M_LIMIT_EXCEEDED", "", asked_ms)
    assert isinstance(error, DeliveryDeferred)
    assert error.retry_after_s == wait_s


async def test_a_save_that_was_cancelled_never_replaces_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a channel is closed while it writes its position, and started again at once."""
    begun, go_on = threading.Event(), threading.Event()
    sync = os.fsync

    def wait_first(file: int) -> None:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(60)
        sync(file)

    monkeypatch.setattr(os, "fsync", wait_first)
    file = MatrixStateFile(str(tmp_path / "mx.json"))
    early = asyncio.ensure_future(file.save(MatrixSavedState(since="s1")))
    assert await asyncio.to_thread(begun.wait, 60)
    early.cancel()
    late = asyncio.ensure_future(file.save(MatrixSavedState(since="s2")))
    done, _ = await asyncio.wait((late,), timeout=0.2)  # with the defect it is stored first, and replaced then
    go_on.set()
    await late
    for _ in range(20 if done else 0):
        await asyncio.sleep(0.01)
    assert file.load().since == "s2"
