"""Text that others wrote, on one line: for logs and for what a person is asked to approve.

A line of a log is one event and a prompt shows the whole of a call, whatever the text would make a terminal do.
"""

from __future__ import annotations

import logging
import re

from mainstay.guards.normalise import INVISIBLE_CLASS
from mainstay.guards.redact import Redactor

WITHHELD = "[withheld: the log filter failed]"
LOG_CHARS_MAX = 64 * 1024

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
# A joiner belongs between letters of some scripts and inside of emoji; next to Latin letters it only hides something.
_WRITTEN_OUT = re.compile(
    f"[{_CONTROLS}{INVISIBLE_CLASS}]|(?:(?<=[\x20-\x7e])|(?<=^))[\u200c\u200d]|[\u200c\u200d](?=[\x20-\x7e]|$)"
)
_MARKS = re.compile("[\u200e\u200f\u061c]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_DONE = "_guarded"


def one_line(text: str) -> str:
    """One line that hides nothing: what is no visible character is written out (`\\n`, `\\x1b`, `\\u202e`)."""
    if text.isprintable() and text.isascii():
        return text
    shown = _WRITTEN_OUT.sub(_written, text)
    # Direction marks are part of right-to-left writing; anywhere else they are there to mislead.
    return shown if _RIGHT_TO_LEFT.search(shown) else _MARKS.sub(_written, shown)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 256:
        return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class LogFilter(logging.Filter):
    """Renders a record once, redacts it and puts it on one line, its exception included.

    It lets every record through; one that it cannot clean is replaced by a notice.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.__dict__.get(_DONE) is self:
            return True
        try:
            self._clean(record)
        except Exception:  # an argument may fail at saying what it is; nothing of the record is shown then
            record.msg = WITHHELD
            record.args = None
            record.exc_info = record.exc_text = record.stack_info = None
            for name in record.__dict__.keys() - _STANDARD:
                record.__dict__[name] = WITHHELD
        record.__dict__[_DONE] = self
        return True

    def _clean(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self._formatter.formatException(record.exc_info)
        elif record.exc_text:
            text += "\n" + record.exc_text
        if record.stack_info:
            text += "\n" + record.stack_info
        extras = {
            name: self._line(value if isinstance(value, str) else repr(value))
            for name, value in record.__dict__.items()
            if name not in _STANDARD and not (value is None or isinstance(value, int | float))
        }
        record.msg = self._line(text)
        record.args = None
        record.exc_info = record.exc_text = record.stack_info = None
        record.__dict__.update(extras)

    def _line(self, text: str) -> str:
        if len(text) > LOG_CHARS_MAX:
            text = self._redactor.whole(text[: LOG_CHARS_MAX * 2])[0][:LOG_CHARS_MAX] + "\u2026"
            return one_line(text)
        return one_line(self._redactor.whole(text)[0])
