"""Reads files of evaluation cases and of scripts: errors name the line, unknown keys are refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from mainstay.config.schema_validator import Keys, SchemaChecker, ValueSource, to_dotted_key
from mainstay.core.errors import ConfigError
from mainstay.evals.checks import build_answer_schema
from mainstay.evals.suite_schema import (
    CASES_MAX,
    NAME_CHARS_MAX,
    PATTERN_CHARS_MAX,
    REPEAT_MAX,
    TURNS_MAX,
    CaseChecks,
    CaseJudge,
    CaseTurn,
    EvalCase,
    EvalSuite,
    Script,
    ScriptStep,
    to_texts,
)
from mainstay.io.yaml import YamlDocument, YamlRefused, load_yaml

S = TypeVar("S", bound=msgspec.Struct)

FILE_BYTES_MAX = 1024 * 1024


def read_suite(path: Path, known_judges: Collection[str] = ()) -> EvalSuite:
    """Read a file of cases. `known_judges` are the judges of the configuration. Raises ConfigError."""
    document = _load_yaml(path)
    if not isinstance(document.data, dict) or "cases" not in document.data:
        raise ConfigError(f"{path.name} line 1: expected a mapping with 'cases', a list")
    reader = _SuiteReader(path.name, document)
    suite = reader.convert(EvalSuite, document.data)
    reader.check_suite(suite, path.parent, known_judges)
    return suite


def read_script(path: Path) -> dict[str, Script]:
    """Read scripts by case name; "" is for all other cases. A list is one script for every case. Raises ConfigError."""
    document = _load_yaml(path)
    reader = _SuiteReader(path.name, document)
    if isinstance(document.data, list):
        return {"": reader.convert_script(document.data, ())}
    if not isinstance(document.data, dict) or not document.data:
        raise ConfigError(f"{path.name} line 1: expected a list of answers, or such a list for each case by its name")
    return {name: reader.convert_script(steps, (name,)) for name, steps in document.data.items()}


def _load_yaml(path: Path) -> YamlDocument:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return load_yaml(raw)
    except YamlRefused as error:
        raise ConfigError(f"{path.name} line {error.line}: {error.reason}") from None


class _SuiteReader:
    """Checks one file; errors name the line."""

    def __init__(self, name: str, document: YamlDocument) -> None:
        self._name = name
        self._document = document
        self._source = ValueSource(self._format_location, self._format_location)

    def convert(self, struct: type[S], data: object) -> S:
        checked = SchemaChecker(struct, frozenset(), _find_value_problem).check_value(data, struct, (), self._source)
        return msgspec.convert(checked, struct)

    def convert_script(self, data: object, path: Keys) -> Script:
        checked = SchemaChecker(EvalSuite, frozenset(), _find_value_problem).check_value(
            data, Script, path, self._source
        )
        script = msgspec.convert(checked, Script)
        self._check_script(script, path)
        return script

    def check_suite(self, suite: EvalSuite, folder: Path, known_judges: Collection[str]) -> None:
        if not 0 < len(suite.cases) <= CASES_MAX:
            self._refuse(("cases",), f"has {len(suite.cases)} cases; expected 1 to {CASES_MAX}")
        self._check_folder(suite.folder, folder, ("folder",))
        for name, entry in suite.judges.items():
            if bool(entry.criteria) == bool(entry.function):
                self._refuse(("judges", name), "needs either 'criteria' or 'function'")
        names: dict[str, int] = {}
        for number, case in enumerate(suite.cases):
            path: Keys = ("cases", number)
            if case.name in names:
                line = self._document.find_line(("cases", names[case.name], "name"))
                self._refuse((*path, "name"), f"is a duplicate: {case.name!r} is already the case in line {line}")
            names[case.name] = number
            self._check_case(case, path, {**dict.fromkeys(known_judges), **suite.judges})
            self._check_folder(case.folder, folder, (*path, "folder"))

    def _check_case(self, case: EvalCase, path: Keys, judges: Mapping[str, object]) -> None:
        if not case.name.strip() or len(case.name) > NAME_CHARS_MAX or not case.name.isprintable():
            self._refuse((*path, "name"), f"must have 1 to {NAME_CHARS_MAX} printable characters")
        if [bool(case.prompt), bool(case.turns), bool(case.session)].count(True) != 1:
            self._refuse(path, "needs one of 'prompt', 'turns' and 'session'")
        if len(case.turns) > TURNS_MAX:
            self._refuse((*path, "turns"), f"has more than {TURNS_MAX} turns")
        if case.session:
            for key in ("instructions", "tools", "folder", "script"):
                if getattr(case, key) is not None:
                    self._refuse((*path, key), "cannot be used with a recorded session")
        if case.repeat > REPEAT_MAX:
            self._refuse((*path, "repeat"), f"is more than {REPEAT_MAX}")
        if case.passes is not None and case.passes > case.repeat:
            self._refuse((*path, "passes"), f"is more than 'repeat', which is {case.repeat}")
        self._check_checks(case.checks, (*path, "checks"))
        for number, turn in enumerate(case.turns):
            if isinstance(turn, CaseTurn):
                self._check_checks(turn.checks, (*path, "turns", number, "checks"))
        self._check_judges(case, path, judges)
        if case.script is not None:
            self._check_script(case.script, (*path, "script"))

    def _check_judges(self, case: EvalCase, path: Keys, judges: Mapping[str, object]) -> None:
        for number, judge in enumerate(case.judges or ()):
            keys: Keys = (*path, "judges", number)
            if isinstance(judge, CaseJudge):
                if bool(judge.criteria) == bool(judge.function):
                    self._refuse(keys, "needs either 'criteria' or 'function'")
            elif judge not in judges:
                self._refuse(keys, describe_unknown_judge(judge, judges))

    def _check_checks(self, checks: CaseChecks, path: Keys) -> None:
        for pattern in to_texts(checks.matches):
            if problem := find_pattern_problem(pattern):
                self._refuse((*path, "matches"), problem)
        if isinstance(checks.json, dict):
            from mainstay.io.json_schema import SchemaRefused  # slow to import, and an optional dependency

            try:
                build_answer_schema(checks.json)
            except SchemaRefused as error:
                self._refuse((*path, "json"), f"cannot be used: {error}")

    def _check_script(self, script: Script, path: Keys) -> None:
        for number, step in enumerate(script):
            for entry in step if isinstance(step, tuple) else (step,):
                if isinstance(entry, ScriptStep):
                    if [entry.say is None, entry.call is None, entry.error is None].count(False) != 1:
                        self._refuse((*path, number), "needs one of 'say', 'call' and 'error'")
                    if isinstance(step, tuple) and entry.call is None:
                        self._refuse(
                            (*path, number), "may contain only calls: a list holds the tool calls of one answer"
                        )

    def _check_folder(self, name: str | None, base: Path, path: Keys) -> None:
        if name is None:
            return
        base = base.resolve()
        folder = (base / name).resolve()
        if not folder.is_dir() or not folder.is_relative_to(base):
            self._refuse(path, "is not a folder beside this file")

    def _format_location(self, path: Keys) -> str:
        return f"{self._name} line {self._document.find_line(path)}"

    def _refuse(self, path: Keys, problem: str) -> NoReturn:
        raise ConfigError(f"{self._format_location(path)}: '{to_dotted_key(path)}' {problem}")


def describe_unknown_judge(name: str, judges: Mapping[str, object]) -> str:
    from difflib import get_close_matches  # only needed for the message

    similar = get_close_matches(name, judges, n=1)
    others = (
        f"known judges: {', '.join(judges)}" if judges else "no judges are defined in this file or in the configuration"
    )
    return f"names an unknown judge: {name[:80]!r}; " + (f"did you mean {similar[0]!r}?" if similar else others)


def find_pattern_problem(pattern: str) -> str | None:
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"is longer than {PATTERN_CHARS_MAX} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is not a regular expression: {error}"
    return None


def _find_value_problem(path: Keys, value: object) -> str | None:
    match value:
        case str() if "\0" in value:
            return "contains a NUL character"
        case float() if value != value or value in (float("inf"), float("-inf")):
            return "must be a finite number"
    return None
