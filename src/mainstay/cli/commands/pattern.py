"""`mainstay pattern list|search|validate|show`: the patterns of a workspace and the problems of their files."""

from __future__ import annotations

import argparse
import os
from difflib import get_close_matches
from typing import Any

from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.skills_and_patterns import build_pattern_library
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.commands.plugin_mcp_helpers import ConfiguredHome, load_tools_home
from mainstay.core.errors import ConfigError
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.patterns.folder import read_single_file
from mainstay.patterns.library import PatternLibrary, PatternSnapshot
from mainstay.patterns.pattern_template import InstructionPattern, PatternFileProblem
from mainstay.patterns.prompt_text import describe_briefly, render_pattern
from mainstay.patterns.tool import RESULTS_MAX, SIMILARITY_MIN

UNLIMITED_BYTES = 10_000_000  # bytes; larger than any pattern file, so nothing is cut
TITLE_CHARS_MAX = 60


def list_patterns(options: argparse.Namespace) -> int:
    snapshot = _open_library(load_tools_home(options)).load()
    patterns = snapshot.patterns.values()
    if options.json:
        print_json(
            {
                "ok": True,
                "patterns": [_build_pattern_document(pattern) for pattern in patterns],
                **_build_problems_document(snapshot),
            }
        )
        return 0
    if patterns:
        rows = [(pattern.name, pattern.category, escape_line(pattern.title, TITLE_CHARS_MAX)) for pattern in patterns]
        print_table(("NAME", "CATEGORY", "TITLE"), rows)
    elif not snapshot.problems:
        print_note("there are no patterns; they are YAML files in the folder patterns of the home or of the workspace")
    _print_problem_hint(snapshot)
    return 0


def search(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    snapshot = _open_library(home).load()
    matches = snapshot.index.match(" ".join(options.words), RESULTS_MAX, SIMILARITY_MIN)
    settings = home.config.patterns
    if options.json:
        hits = [_build_pattern_document(match.pattern) | {"score": round(match.score, 4)} for match in matches]
        print_json(
            {"ok": True, "threshold": settings.threshold, "patterns": hits, **_build_problems_document(snapshot)}
        )
        return 0
    for number, match in enumerate(matches):
        is_offered = number < settings.matches and match.score >= settings.threshold
        name = style_text(match.pattern.name, "bold") if is_offered else match.pattern.name
        print(
            f"{match.score:.2f}{'*' if is_offered else ' '} {name}: {escape_line(describe_briefly(match.pattern, 120))}"
        )
    if matches:
        legend = f"* shown to the model with such a request: the best {settings.matches} with a score of at least"
        print(style_text(f"{legend} {settings.threshold:g}", "dim"))
    else:
        print_note(f"none of {format_count(len(snapshot.patterns), 'pattern')} matches")
    _print_problem_hint(snapshot)
    return 0


def show(options: argparse.Namespace) -> int:
    patterns = _open_library(load_tools_home(options)).load().patterns
    pattern = patterns.get(options.name)
    if pattern is None:
        near = get_close_matches(options.name, patterns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; `mainstay pattern list` lists all patterns"
        raise ConfigError(f"there is no pattern {escape_line(options.name, TITLE_CHARS_MAX)!r}{hint}")
    if options.json:
        print_json({"ok": True, "pattern": pattern})
        return 0
    print(sanitize_text(render_pattern(pattern, UNLIMITED_BYTES)))
    print(style_text(f"\n{escape_line(pattern.path)}:{pattern.line}", "dim"))
    return 0


def validate(options: argparse.Namespace) -> int:
    """Print every problem on a line; exit code 1 if there are any."""
    patterns, problems = (
        _check_paths(options.paths)
        if options.paths
        else _summarise_snapshot(_open_library(load_tools_home(options)).load())
    )
    if options.json:
        print_json(
            {
                "ok": not problems,
                "patterns": patterns,
                "troubles": [_build_problem_document(problem) for problem in problems],
            }
        )
        return int(bool(problems))
    for problem in problems:
        print(escape_line(str(problem)))
    if problems:
        print_note(f"{format_count(len(problems), 'problem')}; {format_count(patterns, 'pattern')} can be used")
    else:
        print(f"{format_count(patterns, 'pattern')}, no problems")
    return int(bool(problems))


def _open_library(home: ConfiguredHome) -> PatternLibrary:
    return build_pattern_library(home.config, AgentFolders(home.location.data, home.workspace_folder))


def _summarise_snapshot(snapshot: PatternSnapshot) -> tuple[int, tuple[PatternFileProblem, ...]]:
    return len(snapshot.patterns), snapshot.problems


def _check_paths(paths: list[str]) -> tuple[int, tuple[PatternFileProblem, ...]]:
    """Read the named files and folders, each by itself. Return the number of valid patterns, and the problems."""
    patterns = 0
    problems: list[PatternFileProblem] = []
    for path in paths:
        if os.path.isdir(path):
            number, of_folder = _summarise_snapshot(PatternLibrary([path]).load())
            patterns += number
            problems += of_folder
            continue
        file = read_single_file(path)
        if file is None:
            problems.append(PatternFileProblem(path, 0, "there is no such file"))
            continue
        patterns += len(file.entries)
        problems += file.problems
    return patterns, tuple(problems)


def _build_pattern_document(pattern: InstructionPattern) -> dict[str, Any]:
    names = ("name", "title", "category", "description", "intents", "use_cases", "path", "line")
    return {name: getattr(pattern, name) for name in names}


def _build_problem_document(problem: PatternFileProblem) -> dict[str, Any]:
    return {"path": problem.path, "line": problem.line, "reason": problem.reason}


def _build_problems_document(snapshot: PatternSnapshot) -> dict[str, Any]:
    return {"troubles": [_build_problem_document(problem) for problem in snapshot.problems]}


def _print_problem_hint(snapshot: PatternSnapshot) -> None:
    if snapshot.problems:
        print_note(f"{format_count(len(snapshot.problems), 'problem')}: `mainstay pattern validate` lists them")
