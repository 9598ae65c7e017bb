"""The `mainstay` command: parse, hand over to the verb's module, say in one sentence what went wrong."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import cast

from mainstay.cli.commands.tree import UsageError, build, parse

FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _mend_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show it is no reason to fail
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # the outermost boundary: whatever it is, a person gets a sentence
        _complain(error, as_json="--json" in arguments)
        return MISUSED if isinstance(error, UsageError) else FAILED


def _mend_streams() -> None:
    """A process started without standard streams gets empty ones; else its first files would take their place."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115


def _run(arguments: list[str]) -> int:
    try:
        options = parse(arguments)
    except SystemExit as asked:  # --help and --version have printed what they had to
        return int(asked.code or 0)
    if options.run is None:
        build().print_help()
        return 0
    module, _, name = str(options.run).partition(":")
    verbs = importlib.import_module(f"mainstay.cli.commands.{module}")
    verb = cast("Callable[[argparse.Namespace], int]", getattr(verbs, name))
    from mainstay.cli.commands.homes import home_of
    from mainstay.cli.commands.logs import set_up  # logging takes a while to load, and `--help` needs none

    set_up(options.log_level, home_of(options))
    return verb(options)


def _complain(error: Exception, *, as_json: bool) -> None:
    import json  # only where something went wrong

    from mainstay.cli.chat.safe import safe_json, visible
    from mainstay.core.errors import MainstayError

    sentence = _sentence(error)
    where = error.where if isinstance(error, MainstayError) else None
    if as_json:
        told: dict[str, object] = {"type": type(error).__name__, "message": sentence}
        if where is not None:
            told["details"] = {name: getattr(where, name) for name in where.__struct_fields__}
        document = {"ok": False, "error": told}
        print(safe_json(json.dumps(document, ensure_ascii=False)), flush=True)
    else:
        sys.stdout.flush()
        print(_wrapped(f"mainstay: {visible(sentence)}"), file=sys.stderr)
        if where is not None and where.trace:
            print(f"(trace {where.trace})", file=sys.stderr)


def _wrapped(line: str) -> str:
    """Not in the middle of words; only a person's terminal is asked how wide it is."""
    if len(line) < 80 or not sys.stderr.isatty():
        return line
    from shutil import get_terminal_size
    from textwrap import fill

    return fill(line, min(get_terminal_size().columns, 100), break_long_words=False, break_on_hyphens=False)


def _sentence(error: Exception) -> str:
    from mainstay.core.errors import MainstayError

    if isinstance(error, MainstayError | UsageError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    import logging

    logging.getLogger("mainstay").debug("a command failed", exc_info=error)
    return f"something went wrong inside: {type(error).__name__}: {error} (add --log-level debug for the details)"
