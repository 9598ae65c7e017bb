"""What happens inside, for those who asked to see it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainstay.cli.chat.safe import safe, visible
from mainstay.config.schema import secrets_in
from mainstay.core.errors import ConfigError
from mainstay.core.where import PLACE

BESIDE = ("workspace", *PLACE, "person", "channel", "request", "status")  # what a record may name


class Lines(logging.Formatter):
    """One line a record, whatever is in it; a traceback is indented below."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.name}: {visible(record.getMessage())}"
        if place := " ".join(f"{name}={visible(str(value))}" for name in PLACE if (value := vars(record).get(name))):
            line += f" [{place}]"
        if record.exc_info:
            trace = safe(self.formatException(record.exc_info))
            line += "".join(f"\n    {one}" for one in trace.splitlines())
        return line


class Json(logging.Formatter):
    """One JSON document a line: when, how bad, who says so, what; and whatever was told beside it (`extra`)."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": visible(record.getMessage()),
        }
        line |= {name: value for name, value in vars(record).items() if name in BESIDE}
        if record.exc_info:
            line["exception"] = safe(self.formatException(record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


class Stderr(logging.Handler):
    """Whatever stderr is at the moment: a chat puts its own in front of the terminal's."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except OSError:
            pass  # nobody reads it any more


def set_up(level: str | None, home: Path, shape: Literal["text", "json"] = "text") -> None:
    """Without a level nothing is written: trouble reaches the person as a sentence, not as a log. A second time, as
    a command knows better how it wants to be heard, takes the place of the first."""
    root = logging.getLogger()
    for one in [one for one in root.handlers if isinstance(one, Stderr | logging.NullHandler)]:
        root.removeHandler(one)
    if level is None:
        root.addHandler(logging.NullHandler())
        return
    handler = Stderr()
    handler.setFormatter(Lines() if shape == "text" else Json())
    root.addHandler(handler)
    root.setLevel(level.upper())
    hide(_secrets(home))


def hide(secrets: Sequence[str]) -> None:
    """From now on these are never written, whoever writes; nor what looks like a secret."""
    from mainstay.trust.guards.redact import Redactor  # only for those who want to see the log
    from mainstay.trust.guards.terminal import LogFilter, Placing

    guard = LogFilter(Redactor(secrets))
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Stderr):
            handler.filters[:] = [Placing(), guard]  # in this order: a name may be a secret, too


def _secrets(home: Path) -> list[str]:
    """Those of the configuration too, if it can be read; what is wrong with it is told elsewhere."""
    from mainstay.agent.trust import known_secrets
    from mainstay.config.loading import load_config

    try:
        return known_secrets(load_config(home, env=os.environ).config, os.environ)
    except ConfigError:
        return secrets_in(os.environ)
