"""The log of a plugin's output."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from mainstay.guards.redaction import Redactor
from mainstay.plugins.output_log import PluginLog, format_size


def log(where: Path, bytes_max: int = 64 * 1024) -> PluginLog:
    return PluginLog("weather", where / "log", bytes_max)


def lines(where: Path) -> list[str]:
    """Without their times."""
    path = where / "log"
    older = path.with_name("log.1")
    text = "".join(one.read_text() for one in (older, path) if one.exists())
    return [line.split(" ", 1)[1] for line in text.splitlines()]


def test_lines_come_whole_however_they_are_cut(tmp_path: Path) -> None:
    made = log(tmp_path)
    for piece in (b"one\ntw", b"o\n\n", b"gr\xc3", b"\xbc\xc3\x9fe\n"):
        made.append_output("stdout", piece)
    made.append_output("stderr", b"no end")
    made.flush()
    assert lines(tmp_path) == ["stdout one", "stdout two", "stdout grüße", "stderr no end"]
    assert made.last_output == "one | two | grüße | no end"


def test_nothing_in_it_moves_a_screen(tmp_path: Path) -> None:
    made = log(tmp_path)
    made.append_output("stderr", b"\x1b[2J\rhidden\x00\xff\xe2\x80\xae\n")
    made.append_note("refused \x1b[31m")
    assert lines(tmp_path) == ["stderr \\x1b[2J\\rhidden\\x00\ufffd\\u202e", "host refused \\x1b[31m"]


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    made = PluginLog("weather", tmp_path / "log", 64 * 1024, lambda text: Redactor(["s3cret-of-mine"]).redact(text)[0])
    made.append_output("stderr", b"the key is s3cret-")
    made.append_output("stderr", b"of-mine, see\n" + b"x" * 4090 + b"s3cret-of-mine" + b"y" * 20_000)
    made.flush()
    said = "".join(lines(tmp_path)) + made.last_output
    assert "the key is" in said
    assert "s3cret" not in said


def test_a_flood_is_dropped_counted_and_slowed_down(tmp_path: Path) -> None:
    """F22: any bytes are capped with a notice."""
    made = log(tmp_path, 8 * 1024)
    wanted = [made.append_output("stdout", b"z" * 65536) for _ in range(1600)]
    assert not any(wanted)
    made.flush()
    kept = lines(tmp_path)
    assert [line[:9] for line in kept] == ["stdout zz", "host … 10"]
    assert "100.0 MB dropped" in kept[-1]
    assert len(kept[0]) < 3000


@pytest.mark.parametrize("line", [b"\n", b"a\n", b"\x00\x00\x00\n"], ids=["empty", "short", "controls"])
def test_a_flood_of_lines_costs_little_and_fills_no_more_than_its_share(line: bytes, tmp_path: Path) -> None:
    made = log(tmp_path, 64 * 1024)
    began = time.process_time()
    data = line * (65536 // len(line))
    for _ in range(200):
        made.append_output("stderr", data)
    made.flush()
    assert time.process_time() - began < 3
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 * 64 * 1024
    assert not made.append_output("stderr", data)
    made.append_output("stderr", b"...\n[ended: more than 24 processes ran at once]\n")
    assert made.last_output == "[ended: more than 24 processes ran at once]"


def test_a_full_file_makes_room_by_moving_aside(tmp_path: Path) -> None:
    made = log(tmp_path, 4096)
    for number in range(40):
        made.append_note(f"line {number} " + "x" * 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * 4096


def test_repeated_violations_are_logged_a_limited_number_of_times(tmp_path: Path) -> None:
    made = log(tmp_path, 4096)
    for number in range(10_000):
        made.append_note(f"network refused: host{number}.example.com:80")
    made.flush()
    assert len(lines(tmp_path)) < 100
    assert "dropped" in lines(tmp_path)[-1]


def test_a_link_in_its_place_is_not_written_through(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = tmp_path / "target"
    target.write_text("the owner's")
    (tmp_path / "log").symlink_to(target)
    log(tmp_path).append_note("hello")
    assert target.read_text() == "the owner's"
    assert "cannot be written" in caplog.text


def test_the_reason_why_the_sandbox_ended_it_is_its_last_line(tmp_path: Path) -> None:
    made = log(tmp_path)
    made.append_output("stderr", b"[ended: it used more than 160 MB of memory]\nnoise\nnoise\n")
    assert made.last_output == "[ended: it used more than 160 MB of memory]"
    made.begin_process()
    assert made.last_output == ""


def test_output_is_logged_at_debug_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mainstay.plugins"):
        log(tmp_path).append_output("stdout", b"hello\n")
    assert caplog.messages == ["weather stdout: hello"]


def test_amounts_are_formatted_for_people() -> None:
    assert [format_size(count) for count in (12, 3 << 10, 5 << 20, 32 << 26)] == [
        "12 bytes",
        "3.0 KB",
        "5.0 MB",
        "2.0 GB",
    ]
