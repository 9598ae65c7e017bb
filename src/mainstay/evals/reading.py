"""Reads files of cases and of scripts: every mistake has its line, and unknown keys are refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from mainstay.config.validation import Checker, Keys, Source, dotted
from mainstay.core.errors import ConfigError
from mainstay.evals.checking import schema_of
from mainstay.evals.schema import (
    CASES_MAX,
    NAME_CHARS_MAX,
    PATTERN_CHARS_MAX,
    REPEAT_MAX,
    TURNS_MAX,
    Case,
    Checks,
    OwnJudge,
    Script,
    StepEntry,
    Suite,
    TurnEntry,
    texts,
)
from mainstay.io.yaml import Document, YamlRefused, load

FILE_BYTES_MAX = 1024 * 1024


def read_suite(path: Path, known: Collection[str] = ()) -> Suite:
    """`known` are the judges of the configuration. Raises ConfigError."""
    document = _document(path)
    if not isinstance(document.data, dict) or "cases" not in document.data:
        raise ConfigError(f"{path.name} line 1: expected a mapping with 'cases', a list")
    reading = _Reading(path.name, document)
    suite: Suite = reading.read(Suite, document.data)
    reading.check_suite(suite, path.parent, known)
    return suite


def read_script(path: Path) -> dict[str, Script]:
    """By the names of cases; "" for all others. A list is for every case."""
    document = _document(path)
    reading = _Reading(path.name, document)
    if isinstance(document.data, list):
        return {"": reading.read_steps(document.data, ())}
    if not isinstance(document.data, dict) or not document.data:
        raise ConfigError(f"{path.name} line 1: expected a list of answers, or such a list for each case by its name")
    return {name: reading.read_steps(steps, (name,)) for name, steps in document.data.items()}


def _document(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return load(raw)
    except YamlRefused as error:
        raise ConfigError(f"{path.name} line {error.line}: {error.sentence}") from None


class _Reading:
    """One file, with the lines of everything in it."""

    def __init__(self, name: str, document: Document) -> None:
        self._name = name
        self._document = document
        self._source = Source(self._where, self._where)

    def read(self, kind: type[msgspec.Struct], data: Any) -> Any:
        checked = Checker(kind, frozenset(), _wrong).check(data, kind, (), self._source)
        return msgspec.convert(checked, kind)

    def read_steps(self, data: Any, path: Keys) -> Script:
        checked = Checker(Suite, frozenset(), _wrong).check(data, Script, path, self._source)
        script = msgspec.convert(checked, Script)
        self._check_script(script, path)
        return script

    def check_suite(self, suite: Suite, folder: Path, known: Collection[str]) -> None:
        if not 0 < len(suite.cases) <= CASES_MAX:
            self._refuse(("cases",), f"has {len(suite.cases)} cases; 1 to {CASES_MAX} are taken")
        self._check_folder(suite.folder, folder, ("folder",))
        for name, entry in suite.judges.items():
            if bool(entry.criteria) == bool(entry.function):
                self._refuse(("judges", name), "needs either 'criteria' or 'function'")
        names: dict[str, int] = {}
        for number, case in enumerate(suite.cases):
            path: Keys = ("cases", number)
            if case.name in names:
                line = self._document.line(("cases", names[case.name], "name"))
                self._refuse((*path, "name"), f"is taken: {case.name!r} is a case in line {line} too")
            names[case.name] = number
            self._check_case(case, path, {**dict.fromkeys(known), **suite.judges})
            self._check_folder(case.folder, folder, (*path, "folder"))

    def _check_case(self, case: Case, path: Keys, judges: Mapping[str, object]) -> None:
        if not case.name.strip() or len(case.name) > NAME_CHARS_MAX or not case.name.isprintable():
            self._refuse((*path, "name"), f"must have 1 to {NAME_CHARS_MAX} characters that can be printed")
        if [bool(case.prompt), bool(case.turns), bool(case.session)].count(True) != 1:
            self._refuse(path, "needs one of 'prompt', 'turns' and 'session'")
        if len(case.turns) > TURNS_MAX:
            self._refuse((*path, "turns"), f"has more than {TURNS_MAX} turns")
        if case.session:
            for key in ("instructions", "tools", "folder", "script"):
                if getattr(case, key) is not None:
                    self._refuse((*path, key), "means nothing to a session that was recorded")
        if case.repeat > REPEAT_MAX:
            self._refuse((*path, "repeat"), f"is more than {REPEAT_MAX}")
        if case.passes is not None and case.passes > case.repeat:
            self._refuse((*path, "passes"), f"is more than 'repeat', which is {case.repeat}")
        self._check_checks(case.checks, (*path, "checks"))
        for number, turn in enumerate(case.turns):
            if isinstance(turn, TurnEntry):
                self._check_checks(turn.checks, (*path, "turns", number, "checks"))
        self._check_judges(case, path, judges)
        if case.script is not None:
            self._check_script(case.script, (*path, "script"))

    def _check_judges(self, case: Case, path: Keys, judges: Mapping[str, object]) -> None:
        for number, one in enumerate(case.judges or ()):
            here: Keys = (*path, "judges", number)
            if isinstance(one, OwnJudge):
                if bool(one.criteria) == bool(one.function):
                    self._refuse(here, "needs either 'criteria' or 'function'")
            elif one not in judges:
                self._refuse(here, unknown_judge(one, judges))

    def _check_checks(self, checks: Checks, path: Keys) -> None:
        for pattern in texts(checks.matches):
            if wrong := wrong_pattern(pattern):
                self._refuse((*path, "matches"), wrong)
        if isinstance(checks.json, dict):
            from mainstay.io.json_schema import SchemaRefused  # heavy, and an extra

            try:
                schema_of(checks.json)
            except SchemaRefused as error:
                self._refuse((*path, "json"), f"cannot be used: {error}")

    def _check_script(self, script: Script, path: Keys) -> None:
        for number, step in enumerate(script):
            for one in step if isinstance(step, tuple) else (step,):
                if isinstance(one, StepEntry):
                    if [one.say is None, one.call is None, one.error is None].count(False) != 1:
                        self._refuse((*path, number), "needs one of 'say', 'call' and 'error'")
                    if isinstance(step, tuple) and one.call is None:
                        self._refuse((*path, number), "may hold only calls: a list is calls of one answer")

    def _check_folder(self, given: str | None, base: Path, path: Keys) -> None:
        if given is None:
            return
        base = base.resolve()
        found = (base / given).resolve()
        if not found.is_dir() or not found.is_relative_to(base):
            self._refuse(path, "is no folder beside this file")

    def _where(self, path: Keys) -> str:
        return f"{self._name} line {self._document.line(path)}"

    def _refuse(self, path: Keys, wrong: str) -> NoReturn:
        raise ConfigError(f"{self._where(path)}: '{dotted(path)}' {wrong}")


def unknown_judge(name: str, judges: Mapping[str, object]) -> str:
    from difflib import get_close_matches  # only for those who made a mistake

    near = get_close_matches(name, judges, n=1)
    known = f"there are {', '.join(judges)}" if judges else "there are none, in this file or in the configuration"
    return f"names no judge: {name[:80]!r}; " + (f"did you mean {near[0]!r}?" if near else known)


def wrong_pattern(pattern: str) -> str | None:
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"is longer than {PATTERN_CHARS_MAX} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    return None


def _wrong(path: Keys, value: Any) -> str | None:
    match value:
        case str() if "\0" in value:
            return "holds a NUL character"
        case float() if value != value or value in (float("inf"), float("-inf")):
            return "must be a finite number"
    return None
