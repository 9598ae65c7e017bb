"""Checks that the functions of configured judges exist, by parsing their files: nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError

_FILE_BYTES_MAX = 1024 * 1024


def check_judge_functions(config: Config, home: Path) -> None:
    """Check the judge functions of all workspaces. Raises ConfigError."""
    for key, function in _iter_functions(config):
        if problem := _find_problem(function, home):
            raise ConfigError(f"'{key}': {problem}")


def _iter_functions(config: Config) -> Iterator[tuple[str, str]]:
    by_workspace = {f"workspaces.{name}.": entry.judges for name, entry in config.workspaces.items()}
    for prefix, settings in {"": config.judges, **by_workspace}.items():
        for name, entry in settings.panel.items() if settings is not None else ():
            if entry.function:
                yield f"{prefix}judges.panel.{name}.function", entry.function


def _find_problem(reference: str, home: Path) -> str:
    location, _, name = reference.rpartition(":")
    if not location.strip(". ") or not name.isidentifier():
        return f"a judge's function is `module:name` or `file.py:name`, not {reference[:120]!r}"
    if location.endswith(".py"):
        return _find_file_problem(location, name, home.resolve())
    top = location.partition(".")[0]  # finding a submodule would import its package
    return "" if find_spec(top) is not None else f"there is no module {top!r}"


def _find_file_problem(file_name: str, name: str, home: Path) -> str:
    path = (home / file_name).resolve()
    if not path.is_relative_to(home):
        return f"the judge's file {file_name!r} is not below the home"
    if not path.is_file():
        return f"there is no file {file_name!r} below the home {home}"
    try:
        with path.open("rb") as file:
            tree = ast.parse(file.read(_FILE_BYTES_MAX))
    except OSError as error:
        return f"{file_name} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"{file_name} is not Python: {error}"
    return "" if _may_define(tree, name) else f"there is no function {name!r} in {file_name}"


def _may_define(tree: ast.Module, name: str) -> bool:
    """Return True if a module may define a name: an assignment or import anywhere in it counts."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=defined) | ast.AsyncFunctionDef(name=defined) | ast.ClassDef(name=defined):
                pass
            case ast.Name(id=defined, ctx=ast.Store()):
                pass
            case ast.alias(name=imported, asname=alias):
                defined = alias or imported
            case _:
                continue
        if defined in (name, "*"):
            return True
    return False
