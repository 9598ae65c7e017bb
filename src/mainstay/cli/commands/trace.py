"""`mainstay session trace`: what a turn did, drawn on an axis of time. It only reads the journal, so it needs neither a
collector nor telemetry, and works while another process owns the home."""

from __future__ import annotations

import argparse
import os
import time
from shutil import get_terminal_size

from msgspec.structs import replace

from mainstay import __version__
from mainstay.agent.telemetry import resource, telling_of
from mainstay.agent.trust import known_secrets
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.signs import signs_of_terminal
from mainstay.cli.commands.homes import Place, home_of, place_of, reading, records_of, run_async
from mainstay.cli.commands.out import paint, print_json
from mainstay.config.loading import load_config
from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError, InputRefused
from mainstay.observe.otlp import as_json
from mainstay.observe.spans import Trace, turns_in
from mainstay.observe.traces import trace_of
from mainstay.observe.waterfall import waterfall
from mainstay.trust.guards.redact import Redactor

WIDTH_MIN, WIDTH_MAX, WIDTH_PIPED = 60, 200, 120
TURNS_MAX = 1_000  # of `--all`, the newest


def trace(options: argparse.Namespace) -> int:
    config = _config(options)
    wanted = 0 if options.all else options.turn
    found = run_async(traces_of(place_of(options), config, options.session, wanted, notes=not options.json))
    if options.json:
        print_json({"ok": True, **as_json(resource(config.telemetry.service), __version__, found)})
        return 0
    for number, one in enumerate(found):
        if number:
            print()
        _draw(one)
    return 0


def _config(options: argparse.Namespace) -> Config:
    """A configuration that cannot be read keeps nobody from looking at what was done."""
    try:
        return load_config(home_of(options), env=os.environ).config
    except ConfigError:
        return Config()


async def traces_of(
    place: Place, config: Config, session: str, wanted: int | None, *, notes: bool = True
) -> list[Trace]:
    """Of this turn; of the last one, if that is None, and of all if it is 0. `notes`: with what is said of errors, also
    where no contents are told: they stay on this screen. Raises InputRefused."""
    redactor = Redactor(known_secrets(config, os.environ))
    telling = replace(telling_of(config, lambda text: redactor.whole(text)[0]), notes=notes)
    now = time.time_ns() // 1_000_000
    async with reading(place) as store:
        standing, records = await records_of(store, session)
        turns = {turn: some for turn, some in turns_in(records).items() if turn}
        if not turns:
            raise InputRefused(f"nothing was done in {standing.key!r} yet: there is no turn to trace")
        if wanted and wanted not in turns:
            raise InputRefused(f"there is no turn {wanted}; {standing.key!r} has {min(turns)} to {max(turns)}")
        chosen = list(turns)[-TURNS_MAX:] if wanted == 0 else [wanted or max(turns)]
        made = [await trace_of(store, standing, turns[turn], telling, now) for turn in chosen]
    return [one for one in made if one is not None]


def _draw(trace: Trace) -> None:
    signs = signs_of_terminal()
    width = max(WIDTH_MIN, min(get_terminal_size((WIDTH_PIPED, 24)).columns, WIDTH_MAX))
    for number, line in enumerate(waterfall(trace, width, visible)):
        text = signs.drawn(line.text)
        print(paint(text, "bold") if not number else paint(text, line.style) if line.style else text)
