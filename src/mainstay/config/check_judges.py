"""Whether the functions that judges are made of are there. They are looked at, and not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError

_BYTES_MAX = 1024 * 1024


def check_functions(config: Config, home: Path) -> None:
    """Those of all workspaces. Raises ConfigError."""
    for where, named in _functions(config):
        if said := _wrong(named, home):
            raise ConfigError(f"'{where}': {said}")


def _functions(config: Config) -> Iterator[tuple[str, str]]:
    theirs = {f"workspaces.{name}.": one.judges for name, one in config.workspaces.items()}
    for before, settings in {"": config.judges, **theirs}.items():
        for name, entry in settings.panel.items() if settings is not None else ():
            if entry.function:
                yield f"{before}judges.panel.{name}.function", entry.function


def _wrong(named: str, home: Path) -> str:
    where, _, name = named.rpartition(":")
    if not where.strip(". ") or not name.isidentifier():
        return f"a judge's function is `module:name` or `file.py:name`, not {named[:120]!r}"
    if where.endswith(".py"):
        return _wrong_file(where, name, home.resolve())
    top = where.partition(".")[0]  # to look into it is to run it
    return "" if find_spec(top) is not None else f"there is no module {top!r}"


def _wrong_file(where: str, name: str, home: Path) -> str:
    found = (home / where).resolve()
    if not found.is_relative_to(home):
        return f"the judge's file {where!r} is not below the home"
    if not found.is_file():
        return f"there is no file {where!r} below the home {home}"
    try:
        with found.open("rb") as file:
            tree = ast.parse(file.read(_BYTES_MAX))
    except OSError as error:
        return f"{where} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"{where} is not Python: {error}"
    return "" if _makes(tree, name) else f"there is no function {name!r} in {where}"


def _makes(tree: ast.Module, name: str) -> bool:
    """Whether it could have it: only what is certainly not there is missed."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=made) | ast.AsyncFunctionDef(name=made) | ast.ClassDef(name=made):
                found = made
            case ast.Name(id=made, ctx=ast.Store()):
                found = made
            case ast.alias(name=made, asname=known):
                found = known or made
            case _:
                continue
        if found in (name, "*"):
            return True
    return False
