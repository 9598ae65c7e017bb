"""What a log may say: one event a line, without secrets, whatever its text would make a terminal do."""

from __future__ import annotations

import logging

from mainstay.core.where import PLACE, here
from mainstay.trust.guards.lines import one_line
from mainstay.trust.guards.redact import Redactor

WITHHELD = "[withheld: the log filter failed]"
LOG_CHARS_MAX = 64 * 1024

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_DONE = "_guarded"


class Placing(logging.Filter):
    """Says with every record that is made while a turn runs which session, turn and step it is of, and its trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        if (where := here()) is not None:
            for name in PLACE:
                if name not in vars(record):
                    setattr(record, name, getattr(where, name))
        return True


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
