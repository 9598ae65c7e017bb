"""`mainstay pattern list|search|validate|show`: what is written down here, and whether it can be read."""

from __future__ import annotations

import argparse
import os
from difflib import get_close_matches
from typing import Any

from mainstay.agent.knowhow import library_of
from mainstay.agent.remembering import Place
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.foreign import Here, here
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.talking import tell
from mainstay.core.errors import ConfigError
from mainstay.patterns.files import read_alone
from mainstay.patterns.library import Library, Snapshot
from mainstay.patterns.pattern import Pattern
from mainstay.patterns.read import Trouble
from mainstay.patterns.render import brief, render
from mainstay.patterns.tool import FLOOR, FOUND_MAX

ALL_OF_IT = 10_000_000  # bytes: more than a file may have
TITLE_CHARS = 60


def list_patterns(options: argparse.Namespace) -> int:
    found = _library(here(options)).load()
    if options.json:
        print_json({"ok": True, "patterns": [_line(one) for one in found.patterns.values()], **_told(found)})
        return 0
    if found.patterns:
        rows = [(one.name, one.category, visible(one.title, TITLE_CHARS)) for one in found.patterns.values()]
        print_table(("NAME", "CATEGORY", "TITLE"), rows)
    elif not found.troubles:
        tell("there are no patterns; they are YAML files in the folder patterns of the home or of the workspace")
    _point(found)
    return 0


def search(options: argparse.Namespace) -> int:
    at = here(options)
    found = _library(at).load()
    matches = found.index.match(" ".join(options.words), FOUND_MAX, FLOOR)
    settings = at.config.patterns
    if options.json:
        hits = [_line(one.pattern) | {"score": round(one.score, 4)} for one in matches]
        print_json({"ok": True, "threshold": settings.threshold, "patterns": hits, **_told(found)})
        return 0
    for number, one in enumerate(matches):
        shown = number < settings.matches and one.score >= settings.threshold
        name = paint(one.pattern.name, "bold") if shown else one.pattern.name
        print(f"{one.score:.2f}{'*' if shown else ' '} {name}: {visible(brief(one.pattern, 120))}")
    if matches:
        said = f"* is shown to the model with a request like this: the best {settings.matches} of at least"
        print(paint(f"{said} {settings.threshold:g}", "dim"))
    else:
        tell(f"none of {count(len(found.patterns), 'pattern')} is about that")
    _point(found)
    return 0


def show(options: argparse.Namespace) -> int:
    found = _library(here(options)).load()
    pattern = found.patterns.get(options.name)
    if pattern is None:
        near = get_close_matches(options.name, found.patterns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; `mainstay pattern list` lists those that there are"
        raise ConfigError(f"there is no pattern {visible(options.name, TITLE_CHARS)!r}{hint}")
    if options.json:
        print_json({"ok": True, "pattern": pattern})
        return 0
    print(safe(render(pattern, ALL_OF_IT)))
    print(paint(f"\n{visible(pattern.path)}:{pattern.line}", "dim"))
    return 0


def validate(options: argparse.Namespace) -> int:
    """Everything that is wrong, one line each. 1 if there is anything."""
    patterns, troubles = _checked(options.paths) if options.paths else _all(_library(here(options)).load())
    if options.json:
        print_json({"ok": not troubles, "patterns": patterns, "troubles": [_trouble(one) for one in troubles]})
        return int(bool(troubles))
    for one in troubles:
        print(visible(str(one)))
    if troubles:
        tell(f"{count(len(troubles), 'problem')}; {count(patterns, 'pattern')} can be used")
    else:
        print(f"{count(patterns, 'pattern')}, nothing wrong")
    return int(bool(troubles))


def _library(at: Here) -> Library:
    return library_of(at.config, Place(at.place.data, at.workspace))


def _all(found: Snapshot) -> tuple[int, tuple[Trouble, ...]]:
    return len(found.patterns), found.troubles


def _checked(paths: list[str]) -> tuple[int, tuple[Trouble, ...]]:
    """Files and folders that somebody names, each by itself."""
    patterns = 0
    troubles: list[Trouble] = []
    for path in paths:
        if os.path.isdir(path):
            number, wrong = _all(Library([path]).load())
            patterns += number
            troubles += wrong
            continue
        file = read_alone(path)
        if file is None:
            troubles.append(Trouble(path, 0, "there is no such file"))
            continue
        patterns += len(file.entries)
        troubles += file.troubles
    return patterns, tuple(troubles)


def _line(pattern: Pattern) -> dict[str, Any]:
    names = ("name", "title", "category", "description", "intents", "use_cases", "path", "line")
    return {name: getattr(pattern, name) for name in names}


def _trouble(one: Trouble) -> dict[str, Any]:
    return {"path": one.path, "line": one.line, "reason": one.reason}


def _told(found: Snapshot) -> dict[str, Any]:
    return {"troubles": [_trouble(one) for one in found.troubles]}


def _point(found: Snapshot) -> None:
    if found.troubles:
        tell(f"{count(len(found.troubles), 'problem')}: `mainstay pattern validate` lists them")
