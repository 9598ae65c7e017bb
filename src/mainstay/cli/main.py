"""Entry point of the `mainstay` command: parses arguments, runs a command's module, reports errors in one sentence."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from mainstay.cli.parser.root import UsageError, build_parser, parse_arguments

FAILED, USAGE_ERROR, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # characters the terminal cannot show must not end the command
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run_command(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # the outermost boundary: the user gets one sentence, never a traceback
        _print_error(error, as_json="--json" in arguments)
        return USAGE_ERROR if isinstance(error, UsageError) else FAILED


def _open_missing_streams() -> None:
    """Open the null device for missing standard streams; otherwise the first opened files would take their numbers."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115


def _run_command(arguments: list[str]) -> int:
    try:
        options = parse_arguments(arguments)
    except SystemExit as stop:  # --help and --version have printed their text
        return int(stop.code or 0)
    if options.run is None:
        build_parser().print_help()
        return 0
    module, _, name = str(options.run).partition(":")
    commands = importlib.import_module(f"mainstay.cli.commands.{module}")
    command: Callable[[argparse.Namespace], int] = getattr(commands, name)
    from mainstay.cli.commands.home_locator import resolve_home
    from mainstay.cli.log_setup import set_up_logging  # logging is slow to import, and `--help` does not need it

    set_up_logging(options.log_level, resolve_home(options))
    return command(options)


def _print_error(error: Exception, *, as_json: bool) -> None:
    import json  # only needed for errors

    from mainstay.core.errors import MainstayError
    from mainstay.guards.terminal_sanitizer import escape_json, escape_line

    sentence = _describe_error(error)
    where = error.location if isinstance(error, MainstayError) else None
    if as_json:
        fields: dict[str, object] = {"type": type(error).__name__, "message": sentence}
        if where is not None:
            fields["details"] = {name: getattr(where, name) for name in where.__struct_fields__}
        document = {"ok": False, "error": fields}
        print(escape_json(json.dumps(document, ensure_ascii=False)), flush=True)
    else:
        sys.stdout.flush()
        print(_wrap_line(f"mainstay: {escape_line(sentence)}"), file=sys.stderr)
        if where is not None and where.trace:
            print(f"(trace {where.trace})", file=sys.stderr)


def _wrap_line(line: str) -> str:
    """Wrap a long line at word boundaries to the terminal's width; unchanged if stderr is not a terminal."""
    if len(line) < 80 or not sys.stderr.isatty():
        return line
    from shutil import get_terminal_size
    from textwrap import fill

    return fill(line, min(get_terminal_size().columns, 100), break_long_words=False, break_on_hyphens=False)


def _describe_error(error: Exception) -> str:
    from mainstay.core.errors import MainstayError

    if isinstance(error, MainstayError | UsageError):
        return str(error)
    from mainstay.core.resource_errors import describe_shortage

    if shortage := describe_shortage(error):
        return f"the command could not continue: {shortage}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    if isinstance(error, MemoryError):
        return "out of memory; free some, or raise the memory limit of this process"
    import logging

    logging.getLogger("mainstay").debug("a command failed", exc_info=error)
    return f"internal error: {type(error).__name__}: {error} (add --log-level debug for details)"
