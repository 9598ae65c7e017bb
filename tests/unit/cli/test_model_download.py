"""Progress of a download: one redrawn line on a terminal, a line for every tenth in a pipe."""

from __future__ import annotations

import io
import os

import msgspec
import pytest

from mainstay.agent.model_discovery import find_model
from mainstay.cli.commands.model_download import (
    ACCEPT_VARIABLE,
    DownloadProgressBar,
    describe_weights,
    draw_bar,
    format_size,
    is_download_accepted,
)
from mainstay.config.loader import Config
from mainstay.providers.local.catalogue import CATALOGUE, DEFAULT_WEIGHTS, FOLDER_VARIABLE

SMALL = msgspec.structs.replace(DEFAULT_WEIGHTS, name="tiny", size_bytes=100_000_000)
NOBODY = {"OLLAMA_HOST": "127.0.0.1:9"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_in_a_pipe_there_is_a_line_for_every_tenth_and_no_more() -> None:
    out, clock = io.StringIO(), Clock()
    bar = DownloadProgressBar(SMALL, out, clock)
    for have in range(0, SMALL.size_bytes + 1, 1_000_000):
        bar.report_progress(have)
        clock.now += 0.1
    bar.close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == "tiny: 0 %, 0 of 100 MB"
    assert lines[5] == "tiny: 50 %, 50 of 100 MB, 10.0 MB/s, 0:05 left"
    assert "\r" not in out.getvalue()


def test_on_a_terminal_one_line_is_drawn_again_and_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    out, clock = Terminal(), Clock()
    bar = DownloadProgressBar(SMALL, out, clock)
    for have in range(0, SMALL.size_bytes + 1, 100_000):  # far more often than it is drawn
        bar.report_progress(have)
        clock.now += 0.01
    bar.print_note("something happened")
    bar.close()
    shown = out.getvalue()
    drawings = shown.split("\r")
    assert 90 < len(drawings) < 115
    assert all(len(one) < 60 for one in drawings)
    assert "\n" not in shown.partition("mainstay: something happened")[0]
    assert shown.endswith("\rmainstay: something happened\n")


def test_bytes_that_were_there_already_do_not_count_for_the_speed() -> None:
    out, clock = io.StringIO(), Clock()
    bar = DownloadProgressBar(SMALL, out, clock)
    bar.report_progress(50_000_000)
    clock.now += 10
    bar.report_progress(60_000_000)
    assert out.getvalue().splitlines()[-1] == "tiny: 60 %, 60 of 100 MB, 1.0 MB/s, 0:40 left"


def test_a_bar_is_empty_half_and_full() -> None:
    assert draw_bar(0, 100) == f"[{'.' * 24}]   0 %"
    assert draw_bar(50, 100) == f"[{'#' * 12}{'.' * 12}]  50 %"
    assert draw_bar(100, 100) == f"[{'#' * 24}] 100 %"


def test_the_consent_question_names_everything() -> None:
    said = describe_weights(DEFAULT_WEIGHTS)
    for part in (DEFAULT_WEIGHTS.title, "1.1 GB", DEFAULT_WEIGHTS.licence, DEFAULT_WEIGHTS.page_url, "a package index"):
        assert part in said
    assert (format_size(491_400_032), format_size(2_497_280_736)) == ("491 MB", "2.5 GB")


@pytest.mark.parametrize(("value", "means"), [("1", True), ("true", True), ("0", False), ("", False), ("no", False)])
def test_the_variable_means_consent_only_with_a_true_value(value: str, means: bool) -> None:
    assert is_download_accepted({ACCEPT_VARIABLE: value}) is means


def test_a_pulled_model_is_found_after_what_has_a_key_and_the_last_one_first(tmp_path: os.PathLike[str]) -> None:
    env = NOBODY | {FOLDER_VARIABLE: str(tmp_path)}
    assert find_model(Config(), env) is None
    for age, one in enumerate(CATALOGUE):
        path = os.path.join(tmp_path, one.file_name)
        with open(path, "wb") as file:
            file.truncate(one.size_bytes)
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    found = find_model(Config(), env)
    assert found is not None
    assert (found.spec, found.base_url) == (f"local/{CATALOGUE[-1].name}", None)
    with_key = find_model(Config(), env | {"OPENAI_API_KEY": "k"})
    assert with_key is not None
    assert with_key.spec.startswith("openai/")
    assert find_model(Config(), env, probe=False) is None
