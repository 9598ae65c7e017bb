"""Logging filters: redaction to one safe line per record, and the session context of each record."""

from __future__ import annotations

import logging

from mainstay.core.turn_location import LOCATION_FIELDS, current_location
from mainstay.guards.line_escaping import one_line
from mainstay.guards.redaction import Redactor

LOG_WITHHELD_NOTICE = "[withheld: the log filter failed]"
LOG_CHARS_MAX = 64 * 1024

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_DONE_ATTRIBUTE = "_guarded"


class SessionLogFilter(logging.Filter):
    """Adds session, turn, step and trace to every log record that is emitted while a turn runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if (where := current_location()) is not None:
            for name in LOCATION_FIELDS:
                if name not in vars(record):
                    setattr(record, name, getattr(where, name))
        return True


class RedactingLogFilter(logging.Filter):
    """Renders a record once, redacts it and escapes it to one line, its exception included.

    Drops no record; one that fails to render is replaced by a notice.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.__dict__.get(_DONE_ATTRIBUTE) is self:
            return True
        try:
            self._clean_record(record)
        except Exception:  # formatting an argument may fail; then no part of the record is shown
            record.msg = LOG_WITHHELD_NOTICE
            record.args = None
            record.exc_info = record.exc_text = record.stack_info = None
            for name in record.__dict__.keys() - _STANDARD_ATTRIBUTES:
                record.__dict__[name] = LOG_WITHHELD_NOTICE
        record.__dict__[_DONE_ATTRIBUTE] = self
        return True

    def _clean_record(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self._formatter.formatException(record.exc_info)
        elif record.exc_text:
            text += "\n" + record.exc_text
        if record.stack_info:
            text += "\n" + record.stack_info
        extras = {
            name: self._clean_line(value if isinstance(value, str) else repr(value))
            for name, value in record.__dict__.items()
            if name not in _STANDARD_ATTRIBUTES and not (value is None or isinstance(value, int | float))
        }
        record.msg = self._clean_line(text)
        record.args = None
        record.exc_info = record.exc_text = record.stack_info = None
        record.__dict__.update(extras)

    def _clean_line(self, text: str) -> str:
        if len(text) > LOG_CHARS_MAX:
            text = self._redactor.redact(text[: LOG_CHARS_MAX * 2])[0][:LOG_CHARS_MAX] + "\u2026"
            return one_line(text)
        return one_line(self._redactor.redact(text)[0])
