"""`mainstay model list|pull|remove`: models that run on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import msgspec

from mainstay.agent.discover import Found, find_model
from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.bringing import NEEDS_RUNTIME, accepted, bring, can_run, size_of, wanted
from mainstay.cli.commands.homes import home_of, overrides_of
from mainstay.cli.commands.out import print_json, print_table
from mainstay.cli.commands.tree import UsageError
from mainstay.config.loading import load_config
from mainstay.core.errors import ConfigError
from mainstay.providers.local import pull as pulling
from mainstay.providers.local.growing import began
from mainstay.providers.local.weights import CATALOGUE, FIRST, Weights, find, folder, is_there

ASK = "weights are brought with your word only; add --yes to give it"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed about one."""

    name: str
    model: str  # as it is asked for
    title: str
    about: str
    licence: str
    source: str
    bytes: int
    memory_mb: int
    here: bool
    kept_bytes: int  # of an attempt that did not end
    path: str


def list_models(options: argparse.Namespace) -> int:
    place = folder()
    rows = [_row(one) for one in CATALOGUE]
    found, trouble = _found(options)
    if options.json:
        why = {"model": found.spec, "how": found.how} if found else None
        print_json({"ok": True, "folder": str(place), "runtime": can_run(), "found": why, "models": rows})
        return 0
    head = ("NAME", "SIZE", "MEMORY", "LICENCE", "HERE", "WHAT")
    print_table(
        head,
        [
            (one.name, size_of(one.bytes), size_of(one.memory_mb * 10**6), one.licence, _here(one), one.about)
            for one in rows
        ],
        right="bc",
    )
    print(f"\nThey are kept in {visible(str(place))}; a GGUF file of your own is asked as local//its/whole/path.")
    print(f"Asked now: {visible(found.spec)} ({visible(found.how)})." if found else visible(trouble))
    if not can_run():
        print(NEEDS_RUNTIME)
    return 0


def _row(one: Weights) -> Row:
    place = folder()
    return Row(
        name=one.name,
        model=f"local/{one.name}",
        title=one.title,
        about=one.about,
        licence=one.licence,
        source=one.source,
        bytes=one.size,
        memory_mb=one.memory_mb,
        here=is_there(one, place),
        kept_bytes=began(one, place),
        path=str(place / one.file),
    )


def _here(one: Row) -> str:
    return "yes" if one.here else f"{one.kept_bytes * 100 // one.bytes} %" if one.kept_bytes else "no"


def _found(options: argparse.Namespace) -> tuple[Found | None, str]:
    """Which model is asked now, else why none. A configuration that cannot be read is not this command's business."""
    try:
        config = load_config(home_of(options), env=os.environ, overrides=overrides_of(options)).config
    except ConfigError as error:
        return None, str(error)
    return find_model(config, os.environ), "No model is found or configured yet."


def pull(options: argparse.Namespace) -> int:
    one = find(options.name) if options.name else FIRST
    place = folder()
    if not is_there(one, place) and not options.yes and not accepted():
        if not sys.stdin.isatty():
            raise UsageError(ASK)
        if not wanted(one):
            print("nothing was brought")
            return 0
    done = bring(one, given=options.start or "", quiet=options.json)
    if options.json:
        print_json({"ok": True, **_document(one, done)})
        return 0
    if done.seconds:
        where = f" from {visible(done.source)}" if done.source else ""
        print(f"{one.name} is here: {size_of(done.brought)}{where} in {done.seconds:.0f} s, and its hash is right")
    else:
        print(f"{one.name} is here already")
    print(f"mainstay chat --model local/{one.name}" if can_run() else NEEDS_RUNTIME)
    return 0


def _document(one: Weights, done: pulling.Pulled) -> dict[str, Any]:
    return {
        "name": one.name,
        "model": f"local/{one.name}",
        "path": str(done.path),
        "sha256": one.sha256,
        "bytes": one.size,
        "brought_bytes": done.brought,
        "source": done.source,
        "seconds": round(done.seconds, 1),
    }


def remove(options: argparse.Namespace) -> int:
    one = find(options.name)
    freed = pulling.remove(one, folder())
    if options.json:
        print_json({"ok": True, "name": one.name, "freed_bytes": freed})
    else:
        print(f"{one.name} was removed: {size_of(freed)}")
    return 0
