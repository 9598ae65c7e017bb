"""`mainstay session trace`: draws the trace of a turn as a waterfall.

It reads only the journal: it needs no collector and no telemetry, and works while another process owns the home.
"""

from __future__ import annotations

import argparse
import os
import time
from shutil import get_terminal_size

from msgspec.structs import replace

from mainstay import __version__
from mainstay.agent.telemetry import build_resource, build_telemetry_options
from mainstay.agent.trust_setup import list_known_secrets
from mainstay.cli.commands.home_locator import (
    WorkspaceLocation,
    load_session_records,
    open_store_read_only,
    resolve_home,
    resolve_workspace,
    run_async,
)
from mainstay.cli.commands.output import print_json, style_text
from mainstay.config.loader import load_config
from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError
from mainstay.guards.redaction import Redactor
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.observe.otlp_encoder import traces_to_json
from mainstay.observe.span_types import Trace
from mainstay.observe.traces import build_trace, select_turns
from mainstay.observe.waterfall import render_waterfall
from mainstay.terminal.glyphs import detect_glyphs

WIDTH_MIN, WIDTH_MAX, WIDTH_PIPED = 60, 200, 120


def show_trace(options: argparse.Namespace) -> int:
    config = _load_config_or_default(options)
    wanted = 0 if options.all else options.turn
    traces = run_async(
        load_traces(resolve_workspace(options), config, options.session, wanted, with_error_notes=not options.json)
    )
    if options.json:
        print_json({"ok": True, **traces_to_json(build_resource(config.telemetry.service), __version__, traces)})
        return 0
    for number, trace in enumerate(traces):
        if number:
            print()
        _print_trace(trace)
    return 0


def _load_config_or_default(options: argparse.Namespace) -> Config:
    """Return the configuration, or the default one if it cannot be read: traces can be shown without it."""
    try:
        return load_config(resolve_home(options), env=os.environ).config
    except ConfigError:
        return Config()


async def load_traces(
    location: WorkspaceLocation, config: Config, session: str, turn_number: int | None, *, with_error_notes: bool = True
) -> list[Trace]:
    """Return the trace of one turn; None: of the last turn, 0: of all turns. Raises InputRefused if there is none.

    `with_error_notes` adds error messages even if the telemetry settings exclude content, because they stay on this
    terminal.
    """
    redactor = Redactor(list_known_secrets(config, os.environ))
    defaults = build_telemetry_options(config, lambda text: redactor.redact(text)[0])
    telemetry_options = replace(defaults, include_error_messages=with_error_notes)
    now = time.time_ns() // 1_000_000
    async with open_store_read_only(location) as store:
        info, records = await load_session_records(store, session)
        turns = select_turns(records, turn_number, info.key)
        traces = [await build_trace(store, info, turn_records, telemetry_options, now) for turn_records in turns]
    return [trace for trace in traces if trace is not None]


def _print_trace(trace: Trace) -> None:
    signs = detect_glyphs()
    width = max(WIDTH_MIN, min(get_terminal_size((WIDTH_PIPED, 24)).columns, WIDTH_MAX))
    for number, line in enumerate(render_waterfall(trace, width, escape_line)):
        text = signs.replace_missing(line.text)
        print(style_text(text, "bold") if not number else style_text(text, line.style) if line.style else text)
