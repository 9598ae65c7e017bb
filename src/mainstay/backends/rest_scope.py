"""Which operations of an API can be reached, by the owner's globs over paths and ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import unquote

from mainstay.backends.openapi import SLOT, Operation
from mainstay.core.errors import ConfigError
from mainstay.io.globs import BadPattern, glob
from mainstay.io.http import READING
from mainstay.trust.globs import glob as word_glob

Matches = Callable[[str], bool]
_SLOT_IN_PATTERN = re.compile(r"\{[^{},/]*\}")


class Scope:
    """`paths`: "/pets/**" is /pets and all below it. `operations`: by id, "list*". If both are given, both must fit."""

    def __init__(self, paths: Sequence[str], operations: Sequence[str], *, write: bool) -> None:
        try:
            self._templates = [_path(one) for one in paths]
            self._paths = [_path(_SLOT_IN_PATTERN.sub("*", one)) for one in paths]
        except BadPattern as error:
            raise ConfigError(f"scope.paths: {error}") from None
        self._operations = [word_glob(one) for one in operations]
        self._write = write

    def holds(self, operation: Operation) -> bool:
        if operation.method not in READING and not self._write:
            return False
        return self._names(operation) and _any(self._templates, operation.path)

    def _names(self, operation: Operation) -> bool:
        return _any(self._operations, operation.id)

    def admits(self, operation: Operation, operations: Iterable[Operation]) -> Matches:
        """Whether a path that values were put into is still in scope, and not that of another operation that is not:
        `/pets/{id}` with "export" is `/pets/export`, whatever was meant."""
        others = [one for one in operations if one.method == operation.method and not self.holds(one)]
        return partial(self._admits, operation, others)

    def _admits(self, operation: Operation, others: Sequence[Operation], path: str) -> bool:
        path = unquote(path)  # as a server reads it; there are no slashes in disguise
        if not _any(self._paths, path):
            return False
        steps, slots = path.split("/"), len(SLOT.findall(operation.path))
        return not any(len(SLOT.findall(one.path)) < slots and _fits(one.path.split("/"), steps) for one in others)


def _path(pattern: str) -> Matches:
    whole = glob("/" + pattern.lstrip("/"))
    folder = glob("/" + pattern.lstrip("/").removesuffix("/**")) if pattern.endswith("/**") else whole
    return lambda path: whole(path.lstrip("/")) or folder(path.lstrip("/"))


def _any(globs: Sequence[Matches], text: str) -> bool:
    return not globs or any(one(text) for one in globs)


def _fits(template: Sequence[str], steps: Sequence[str]) -> bool:
    """Letters' case is no difference to some servers, nor is a slash at the end."""
    template, steps = [one for one in template if one], [one for one in steps if one]
    return len(template) == len(steps) and all(
        "{" in wanted or wanted.casefold() == step.casefold() for wanted, step in zip(template, steps, strict=True)
    )
