"""What happens inside, for those who asked to see it."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from mainstay.app.chat.safe import safe, visible
from mainstay.app.schema import secrets_in
from mainstay.core.errors import ConfigError


class Lines(logging.Formatter):
    """One line a record, whatever is in it; a traceback is indented below."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name}: {visible(record.getMessage())}"
        if record.exc_info:
            trace = safe(self.formatException(record.exc_info))
            line += "".join(f"\n    {one}" for one in trace.splitlines())
        return line


class Stderr(logging.Handler):
    """Whatever stderr is at the moment: a chat puts its own in front of the terminal's."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except OSError:
            pass  # nobody reads it any more


def set_up(level: str | None, home: Path) -> None:
    """Without a level nothing is written: trouble reaches the person as a sentence, not as a log."""
    root = logging.getLogger()
    if level is None:
        root.addHandler(logging.NullHandler())
        return
    from mainstay.guards.redact import Redactor  # only for those who want to see the log
    from mainstay.guards.terminal import LogFilter

    handler = Stderr()
    handler.setFormatter(Lines())
    handler.addFilter(LogFilter(Redactor(_secrets(home))))  # every record, whoever wrote it
    root.addHandler(handler)
    root.setLevel(level.upper())


def _secrets(home: Path) -> list[str]:
    """Those of the configuration too, if it can be read; what is wrong with it is told elsewhere."""
    from mainstay.app.config import load_config
    from mainstay.app.trust import known_secrets

    try:
        return known_secrets(load_config(home, env=os.environ).config, os.environ)
    except ConfigError:
        return secrets_in(os.environ)
