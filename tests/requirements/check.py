"""Counts the promises that have a test, and reports mistakes in the manifests.

Run as `python tests/requirements/check.py`, or with `--left ISSUE` to list the promises of one issue that have no test.
An entry has its tests (`test`), or `status: not yet`, or says by which other behaviour it is superseded (`superseded`).
A fault that is not tested yet says why (`reason`).
"""

import argparse
import ast
import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
ISSUES = (
    "kernel",
    "context-memory",
    "tools-trust",
    "plugins",
    "know-how",
    "gateway",
    "first-minutes",
    "judgement",
    "many-machines",
    "console",
)
STATES = ("test", "status", "superseded")
TEXTS = {"requirements": ("promise", "where"), "faults": ("fault", "outcome")}


class BadManifest(Exception):
    """A file that is not a manifest; the message is the sentence to print."""


class _Loader(yaml.SafeLoader):
    """Refuses a key given twice, for which YAML would silently use the last value."""


def _mapping_without_repeats(loader: _Loader, node: yaml.MappingNode) -> dict[object, object]:
    pairs = [(loader.construct_object(key, deep=True), value) for key, value in node.value]
    seen: set[object] = set()
    for key, value in pairs:
        if key in seen:
            problem = f"the key {key!r} is given twice"
            raise yaml.constructor.ConstructorError(None, None, problem, value.start_mark)
        seen.add(key)
    return {key: loader.construct_object(value, deep=True) for key, value in pairs}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_repeats)


@dataclass(frozen=True)
class Entry:
    """One promise or fault; `states` are the keys it gave, of which it may have only one."""

    id: str
    text: str
    states: tuple[str, ...]
    tests: tuple[str, ...]
    status: str
    issue: str
    superseded: str
    reason: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    name: str
    entries: tuple[Entry, ...]

    def count(self, state: str) -> int:
        return sum(state in entry.states for entry in self.entries)


def load(folder: Path) -> list[Manifest]:
    """Read every manifest of a folder, in the order of their names."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise BadManifest(f"There is no manifest in {folder.name}.")
    return [load_manifest(path) for path in paths]


def load_manifest(path: Path) -> Manifest:
    try:
        content: object = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadManifest(f"{path.name} cannot be read: {' '.join(str(error).split())}.") from error
    keys = [key for key in TEXTS if isinstance(content, dict) and key in content]
    if not isinstance(content, dict) or len(keys) != 1 or not isinstance(content[keys[0]], list):
        raise BadManifest(f"{path.name} must have one list, under 'requirements' or under 'faults'.")
    entries = tuple(_entry(path.name, keys[0], raw) for raw in content[keys[0]])
    if not entries:
        raise BadManifest(f"{path.name} lists nothing.")
    return Manifest(path.name, entries)


def _entry(name: str, kind: str, raw: object) -> Entry:
    if not isinstance(raw, dict):
        raise BadManifest(f"{name} has an entry that is not a mapping: {raw!r}.")
    tests = raw.get("test")
    return Entry(
        id=_text(raw.get("id")),
        text=_text(raw.get(TEXTS[kind][0])),
        states=tuple(state for state in STATES if state in raw),
        tests=tuple(_text(test) for test in tests) if isinstance(tests, list) else (),
        status=_text(raw.get("status")),
        issue=_text(raw.get("issue")),
        superseded=_text(raw.get("superseded")),
        reason=_text(raw.get("reason")),
        missing=tuple(key for key in ("id", *TEXTS[kind]) if not _text(raw.get(key))),
    )


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def check(manifests: Sequence[Manifest], root: Path) -> list[str]:
    """Return one sentence for every mistake in the manifests."""
    problems: list[str] = []
    homes: dict[str, str] = {}
    for manifest in manifests:
        for entry in manifest.entries:
            name = entry.id or f"an entry of {manifest.name}"
            if entry.id and entry.id in homes:
                problems.append(f"{entry.id} is listed twice, in {homes[entry.id]} and in {manifest.name}.")
            homes.setdefault(entry.id, manifest.name)
            problems += [f"{name} has no '{key}', or it is not text." for key in entry.missing]
            problems += [f"{name} {fault}." for fault in _faults_of_state(entry, root)]
    return problems


def _faults_of_state(entry: Entry, root: Path) -> Iterator[str]:
    match entry.states:
        case ("test",) if not entry.tests:
            yield "must name its tests as a list"
        case ("test",):
            for node in entry.tests:
                if fault := fault_of_node(node, root):
                    yield f"names {node or 'an empty test'}, but {fault}"
        case ("status",):
            if entry.status != "not yet":
                yield "may only have the status 'not yet'"
            if entry.issue not in ISSUES:
                yield f"has the issue '{entry.issue}', which is none of {', '.join(ISSUES)}"
        case ("superseded",):
            if not entry.superseded:
                yield "is superseded without a reason"
        case ():
            yield "has no state: it needs one of test, status or superseded"
        case states:
            yield f"has {len(states)} states ({', '.join(states)}) and may have only one"


def fault_of_node(node: str, root: Path) -> str | None:
    """Return why a pytest node id names no test, or None; the part in brackets is ignored."""
    file, *names = node.partition("[")[0].split("::")
    path = (root / file).resolve()
    if not names or not file.endswith(".py"):
        return "it is not of the form tests/file.py::test_name"
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        return f"there is no file {file}"
    collecting = gc.isenabled()
    gc.disable()  # on Python 3.11 a collection during a parse can make it fail
    try:
        body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    except (SyntaxError, ValueError) as error:
        return f"{file} cannot be parsed ({error})"
    finally:
        if collecting:
            gc.enable()
    *classes, function = names
    for name in classes:
        found = [stmt for stmt in body if isinstance(stmt, ast.ClassDef) and stmt.name == name]
        if not found:
            return f"{file} has no class {name} in that place"
        body = found[-1].body
    functions = {stmt.name for stmt in body if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef)}
    if not function.startswith("test"):
        return f"pytest would not collect {function}, whose name does not begin with 'test'"
    return None if function in functions else f"{file} has no function {function} in that place"


def table(manifests: Sequence[Manifest]) -> str:
    lines = [f"{'manifest':<16}{'tested':>12}{'superseded':>12}{'not yet':>12}{'total':>12}"]
    for manifest in manifests:
        counts = [manifest.count(state) for state in ("test", "superseded", "status")]
        cells = "".join(f"{count:>12}" for count in (*counts, len(manifest.entries)))
        lines.append(f"{manifest.name:<16}{cells}")
    return "\n".join([*lines, "", total(manifests)])


def total(manifests: Sequence[Manifest]) -> str:
    tested, superseded, left = (
        sum(manifest.count(state) for manifest in manifests) for state in ("test", "superseded", "status")
    )
    promises = sum(len(manifest.entries) for manifest in manifests)
    return f"{promises} promises: {tested} with tests, {superseded} superseded, {left} without tests"


def left(manifests: Sequence[Manifest], issue: str) -> list[Entry]:
    """Return the promises of one issue that have no test, in the order of the manifests."""
    entries = (entry for manifest in manifests for entry in manifest.entries)
    return [entry for entry in entries if entry.states == ("status",) and entry.issue == issue]


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Count the promises that have tests.")
    parser.add_argument("--left", metavar="ISSUE", choices=ISSUES, help="list the promises of one issue without tests")
    issue: str | None = parser.parse_args(argv).left
    try:
        manifests = load(folder)
    except BadManifest as error:
        print(error, file=sys.stderr)
        return 1
    if issue is None:
        print(table(manifests))
    else:
        entries = left(manifests, issue)
        print("\n".join([*(f"{entry.id:<14}{entry.text}" for entry in entries), f"{len(entries)} without tests"]))
    problems = check(manifests, root)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
