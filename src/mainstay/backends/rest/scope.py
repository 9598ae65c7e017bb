"""Scope of a REST backend: which operations may be called, by glob patterns over paths and operation ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import unquote

from mainstay.backends.rest.openapi import PATH_PARAMETER, ApiOperation
from mainstay.core.errors import ConfigError
from mainstay.io.globs import GlobRefused, compile_path_glob
from mainstay.io.http_client import SAFE_METHODS
from mainstay.trust.rule_patterns import compile_glob as word_glob

CompiledGlob = Callable[[str], bool]
_PARAMETER_IN_PATTERN = re.compile(r"\{[^{},/]*\}")


class RestScopeMatcher:
    """Matches operations against glob patterns; if both kinds are given, both must match.

    `paths`: "/pets/**" is /pets and everything below it. `operations`: ids, "list*".
    """

    def __init__(self, paths: Sequence[str], operations: Sequence[str], *, write: bool) -> None:
        try:
            self._template_globs = [_compile_path_glob(pattern) for pattern in paths]
            self._path_globs = [_compile_path_glob(_PARAMETER_IN_PATTERN.sub("*", pattern)) for pattern in paths]
        except GlobRefused as error:
            raise ConfigError(f"scope.paths: {error}") from None
        self._id_globs = [word_glob(pattern) for pattern in operations]
        self._is_writable = write

    def contains(self, operation: ApiOperation) -> bool:
        if operation.method not in SAFE_METHODS and not self._is_writable:
            return False
        return self._matches_id(operation) and _matches_any(self._template_globs, operation.path)

    def _matches_id(self, operation: ApiOperation) -> bool:
        return _matches_any(self._id_globs, operation.id)

    def build_path_check(self, operation: ApiOperation, operations: Iterable[ApiOperation]) -> CompiledGlob:
        """Return a check for the final path of a call: it must be in scope and not be the path of another operation
        that is out of scope. `/pets/{id}` with the value "export" is `/pets/export`."""
        others = [
            candidate
            for candidate in operations
            if candidate.method == operation.method and not self.contains(candidate)
        ]
        return partial(self._is_path_in_scope, operation, others)

    def _is_path_in_scope(self, operation: ApiOperation, out_of_scope: Sequence[ApiOperation], path: str) -> bool:
        path = unquote(path)  # as a server decodes it; encoded slashes were refused before
        if not _matches_any(self._path_globs, path):
            return False
        segments, parameter_count = path.split("/"), len(PATH_PARAMETER.findall(operation.path))
        return not any(
            len(PATH_PARAMETER.findall(other.path)) < parameter_count
            and _matches_template(other.path.split("/"), segments)
            for other in out_of_scope
        )


def _compile_path_glob(pattern: str) -> CompiledGlob:
    matches = compile_path_glob("/" + pattern.lstrip("/"))
    matches_folder = (
        compile_path_glob("/" + pattern.lstrip("/").removesuffix("/**")) if pattern.endswith("/**") else matches
    )
    return lambda path: matches(path.lstrip("/")) or matches_folder(path.lstrip("/"))


def _matches_any(globs: Sequence[CompiledGlob], text: str) -> bool:
    return not globs or any(matches(text) for matches in globs)


def _matches_template(template: Sequence[str], segments: Sequence[str]) -> bool:
    """Compare segments, ignoring case and empty segments as some servers do."""
    template, segments = [segment for segment in template if segment], [segment for segment in segments if segment]
    return len(template) == len(segments) and all(
        "{" in expected or expected.casefold() == step.casefold()
        for expected, step in zip(template, segments, strict=True)
    )
