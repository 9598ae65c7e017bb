"""Log filters: one event is one line, without control characters and secrets."""

from __future__ import annotations

import io
import logging
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.guard_texts.leaks import SECRETS

from mainstay.guards.line_escaping import one_line
from mainstay.guards.log_filters import LOG_CHARS_MAX, LOG_WITHHELD_NOTICE, RedactingLogFilter
from mainstay.guards.redaction import Redactor

SECRET = {kind: make for kind, make, _ in SECRETS}["github"](random.Random(3))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain text", "plain text"),
        ("a\nb\r\nc\td", "a\\nb\\r\\nc\\td"),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x1b[2K\rrm -rf", "\\x1b[2K\\rrm -rf"),
        ("safe \u202efdp.exe", "safe \\u202efdp.exe"),
        ("ls\u2028rm", "ls\\u2028rm"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("a\u200db", "a\\u200db"),
        ("x\u200fy", "x\\u200fy"),
        ("hi\U000e0041", "hi\\U000e0041"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
    ],
    ids=[f"text{i}" for i in range(12)],
)
def test_terminal_control_sequences_are_escaped_f37_f38(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    "text",
    [
        "\u0633\u0644\u0627\u0645 \u0645\u06cc\u200c\u0622\u06cc\u0645",
        "\u05e9\u05dc\u05d5\u05dd \u200e10:00\u200e \u05d5\u05e2\u05d5\u05d3",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",
        "Gr\u00fc\u00dfe aus K\u00f6ln",
    ],
    ids=["persian", "hebrew", "emoji", "german"],
)
def test_people_read_their_own_scripts_f36(text: str) -> None:
    assert one_line(text) == text


@given(st.text())
def test_a_line_is_always_one_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or "\ud800" <= c <= "\udfff" for c in line)
    assert one_line(line) == line


def logged(write) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s %(extra)s", defaults={"extra": "-"}))
    handler.addFilter(RedactingLogFilter(Redactor(["own-secret-value"])))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    write(logger)
    return out.getvalue()


def test_a_log_line_cannot_be_forged_f37() -> None:
    said = logged(lambda log: log.info("login of %s", "anna\nERROR all is lost\x1b[2J"))
    assert said == "INFO login of anna\\nERROR all is lost\\x1b[2J -\n"


def test_secrets_stay_out_of_the_log_f40() -> None:
    said = logged(
        lambda log: log.warning("sent %s with %r", SECRET, {"key": "own-secret-value"}, extra={"extra": SECRET})
    )
    assert SECRET not in said
    assert "own-secret" not in said
    clean = "sent [redacted: github token] with {'key': '[redacted: configured secret]'}"
    assert said == f"WARNING {clean} [redacted: github token]\n"


def test_an_exception_is_on_the_same_line_and_clean_f40() -> None:
    def write(log: logging.Logger) -> None:
        try:
            raise ValueError(f"refused {SECRET}\nnext")
        except ValueError:
            log.exception("it failed")

    said = logged(write)
    assert said.count("\n") == 1
    assert "Traceback" in said
    assert "ValueError: refused [redacted: github token]\\nnext" in said


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def test_a_record_that_cannot_be_cleaned_is_withheld() -> None:
    assert logged(lambda log: log.error("value %s", Unspeakable())) == f"ERROR {LOG_WITHHELD_NOTICE} -\n"
    assert (
        logged(lambda log: log.error("value %d", "x", extra={"extra": SECRET}))
        == f"ERROR {LOG_WITHHELD_NOTICE} {LOG_WITHHELD_NOTICE}\n"
    )


def test_a_record_is_rendered_once_for_two_handlers() -> None:
    record = logging.makeLogRecord({"msg": "a %s", "args": ("b\n",)})
    guard = RedactingLogFilter(Redactor())
    assert guard.filter(record)
    assert guard.filter(record)
    assert record.getMessage() == "a b\\n"


def test_a_log_line_has_an_end() -> None:
    said = logged(lambda log: log.info("x" * LOG_CHARS_MAX * 3))
    assert len(said) < LOG_CHARS_MAX + 100
