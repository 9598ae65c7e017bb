"""Log output of commands on stderr: text and JSON formatters, the handler, redaction of secrets."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainstay.config.schema import find_secrets
from mainstay.core.errors import ConfigError
from mainstay.core.turn_location import LOCATION_FIELDS
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text

# fields of `extra` that are written
EXTRA_FIELDS = ("workspace", *LOCATION_FIELDS, "person", "channel", "request", "status")


class TextLogFormatter(logging.Formatter):
    """One line per record, with control characters escaped; a traceback is indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name}: {escape_line(record.getMessage())}"
        if place := " ".join(
            f"{name}={escape_line(str(value))}" for name in LOCATION_FIELDS if (value := vars(record).get(name))
        ):
            line += f" [{place}]"
        if record.exc_info:
            traceback = sanitize_text(self.formatException(record.exc_info))
            line += "".join(f"\n    {text}" for text in traceback.splitlines())
        return line


class JsonLogFormatter(logging.Formatter):
    """One JSON document per record: time, level, logger, message, the known fields of `extra`, the exception."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": escape_line(record.getMessage()),
        }
        line |= {name: value for name, value in vars(record).items() if name in EXTRA_FIELDS}
        if record.exc_info:
            line["exception"] = sanitize_text(self.formatException(record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


class StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which a chat replaces while it runs."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except OSError:
            pass  # stderr is closed


def set_up_logging(level: str | None, home: Path, log_format: Literal["text", "json"] = "text") -> None:
    """Log to stderr at this level; without a level nothing is logged, because commands print their errors.

    A second call replaces the settings of the first.
    """
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, StderrHandler | logging.NullHandler)]:
        root.removeHandler(old)
    if level is None:
        root.addHandler(logging.NullHandler())
        return
    handler = StderrHandler()
    handler.setFormatter(TextLogFormatter() if log_format == "text" else JsonLogFormatter())
    root.addHandler(handler)
    root.setLevel(level.upper())
    redact_secrets(_collect_secrets(home))


def redact_secrets(secrets: Sequence[str]) -> None:
    """Redact these secrets, and texts that look like secrets, from all log lines from now on."""
    from mainstay.guards.log_filters import RedactingLogFilter, SessionLogFilter
    from mainstay.guards.redaction import Redactor  # only loaded if something is logged

    guard = RedactingLogFilter(Redactor(secrets))
    for handler in logging.getLogger().handlers:
        if isinstance(handler, StderrHandler):
            handler.filters[:] = [SessionLogFilter(), guard]  # in this order: the location's names are redacted, too


def _collect_secrets(home: Path) -> list[str]:
    """Return the secrets of the environment, and of the configuration if it can be read; its errors are reported
    by the command itself."""
    from mainstay.agent.trust_setup import list_known_secrets
    from mainstay.config.loader import load_config

    try:
        return list_known_secrets(load_config(home, env=os.environ).config, os.environ)
    except ConfigError:
        return find_secrets(os.environ)
