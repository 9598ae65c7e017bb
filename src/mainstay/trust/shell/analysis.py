"""Static analysis of shell scripts: the commands they run, what these remove and write, and which hosts they contact.

Pipes, substitutions, wrappers such as `env` and `xargs`, and nested shells are followed to the commands that really
run. What cannot be followed is reported in a sentence (`opaque_reasons`), never ignored.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache

import msgspec

from mainstay.trust.command_patterns import is_system_program
from mainstay.trust.shell.command_wrappers import TRANSPARENT_WRAPPERS, ChildCommands, find_child_commands
from mainstay.trust.shell.effects import UNKNOWN_TARGET, CommandEffects, add_redirect_effects, analyse_effects
from mainstay.trust.shell.inline_code import affects_execution, explain_opaque
from mainstay.trust.shell.parser import ShellParser
from mainstay.trust.shell.programs import LOCAL_PROGRAMS, NETWORK_PROGRAMS
from mainstay.trust.shell.syntax import (
    NESTING_MAX,
    SCRIPT_CHARS_MAX,
    WORK_CHARS_MIN,
    AcceptedBy,
    OpaqueReason,
    ParseState,
    ScriptUnparsable,
    ShellCommand,
)

COMMANDS_MAX = 2000
_REASON_CHARS_MAX = 500
_SPLIT_OPERATOR = re.compile(r"[$<>({]\\\n")
_ARITHMETIC_SUBSTITUTION = re.compile(r"\[[^\]\[]*(?:\$\(|`)")


class AnalysedCommand(msgspec.Struct, frozen=True):
    """One simple command of a script."""

    argv: tuple[str | None, ...]  # None: a word that is not known before the command runs
    text: str
    is_wrapper: bool = False  # it only starts the command after it in the list
    unexpanded: tuple[str | None, ...] = ()  # the words with globs and `~` not expanded; None: more is unknown
    accepted_by: AcceptedBy = ""  # which rules accept that it is opaque; empty: it is not

    @property
    def program(self) -> str:
        """The program's name without its folder; empty if unknown."""
        return (self.argv[0] or "").rsplit("/", 1)[-1]


class ScriptAnalysis(msgspec.Struct, frozen=True):
    """The result of analysing a script. Targets are as the script writes them; "?" means unknown."""

    commands: tuple[AnalysedCommand, ...] = ()
    opaque_reasons: tuple[str, ...] = ()  # sentences that say why the script is not understood completely
    is_ambiguous: bool = False  # one of the reasons is none that a rule for a single command can accept
    removals: tuple[str, ...] = ()  # files, branches and the like
    written_paths: tuple[str, ...] = ()  # files, including the targets of redirections
    destinations: tuple[str, ...] = ()  # hosts, URLs, mail addresses
    redirect_targets: tuple[str, ...] = ()  # files that redirections write
    unknown_programs: tuple[str, ...] = ()  # programs that are not in the lists of known ones
    input_paths: tuple[str, ...] = ()  # files that redirections read
    folders: tuple[str | None, ...] = ()  # what it changes its working folder to, in order; None: not known


@lru_cache(maxsize=256)
def analyse_script(script: str) -> ScriptAnalysis:
    """Analyse a script. Never raises: what cannot be parsed is reported in `opaque_reasons`."""
    analysis = _ScriptAnalyser(len(script))
    if len(script) > SCRIPT_CHARS_MAX:
        return ScriptAnalysis(opaque_reasons=("The script is too long to be analysed.",), is_ambiguous=True)
    if odd_character := _find_invisible_character(script):
        analysis.add_opaque_reason(f"the script contains an invisible character ({odd_character})")
    analysis.analyse_text(script, 0)
    return analysis.build_result()


def _find_invisible_character(script: str) -> str:
    """Return the first control, invisible or non-ASCII space character: with one, the text shown is not what runs."""
    if script.isascii() and script.isprintable():
        return ""
    for char in script:
        if char in "\n\t" or " " <= char <= "~":
            continue
        kind = unicodedata.category(char)
        if kind in ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp") or char in "\u115f\u1160\u3164\uffa0":
            return f"U+{ord(char):04X}"
    return ""


class _ScriptAnalyser:
    def __init__(self, script_chars: int) -> None:
        self.commands: list[AnalysedCommand] = []
        self.opaque_reasons: list[str] = []
        self.is_ambiguous = False
        self.effects = CommandEffects()
        self.redirect_targets: list[str] = []
        self.unknown_programs: list[str] = []
        self.input_paths: list[str] = []
        self.work = 0
        self.work_max = WORK_CHARS_MIN + 3 * script_chars
        # every cd: its target (None: unknown) and the operator after it
        self.cd_targets: list[tuple[str | None, str]] = []

    def add_opaque_reason(self, sentence: str, *, is_acceptable: bool = False) -> None:
        self.is_ambiguous = self.is_ambiguous or not is_acceptable
        sentence = sentence[:1].upper() + sentence[1:_REASON_CHARS_MAX] + "."
        if sentence not in self.opaque_reasons:
            self.opaque_reasons.append(sentence)

    def analyse_text(self, text: str, depth: int) -> None:
        if _SPLIT_OPERATOR.search(text):
            self.add_opaque_reason("a shell operator is split over two lines")
        parsed = ParseState(work_chars=self.work, work_chars_max=self.work_max)
        try:
            ShellParser(text, parsed, depth).parse_commands("")
        except ScriptUnparsable as error:
            self.add_opaque_reason(f"the script cannot be parsed: {error}")
        except RecursionError:
            self.add_opaque_reason("the script cannot be parsed: it is nested too deeply")
        self.work = parsed.work_chars
        for sentence in parsed.ambiguities:
            self.add_opaque_reason(sentence)
        for index, command in enumerate(parsed.commands):
            following = parsed.commands[index + 1].operator_before if index + 1 < len(parsed.commands) else ""
            self.record_command(command, depth, following)

    def record_command(self, command: ShellCommand, depth: int, next_operator: str = "") -> None:
        """Record one command and, recursively, every command that it starts."""
        if len(self.commands) >= COMMANDS_MAX or depth > NESTING_MAX:
            self.add_opaque_reason("the script runs more commands than can be analysed")
            return
        self._check_assignments(command)
        self._record_redirects(command)
        if not command.words:
            return
        name = (command.words[0].value or "").rsplit("/", 1)[-1]
        runs = find_child_commands(name, command) if name else None
        reason = explain_opaque(name, command.words[1:]) if name else None
        if runs is not None and runs.runs_file:
            reason = OpaqueReason(runs.runs_file, "name")
        self.commands.append(
            AnalysedCommand(
                tuple(word.value for word in command.words),
                " ".join(word.raw for word in command.words),
                runs is not None and name in TRANSPARENT_WRAPPERS and bool(runs.commands or runs.scripts),
                tuple(word.value if word.value is not None else word.unexpanded for word in command.words),
                reason.accepted_by if reason is not None else "",
            )
        )
        if command.words[0].value is None:
            self.add_opaque_reason(f"the program that {command.words[0].raw} names is not known before it runs")
            return
        self._record_effects(name, command, next_operator)
        if reason is not None:
            self.add_opaque_reason(reason.sentence, is_acceptable=bool(reason.accepted_by))
        if runs is not None:
            self._follow_children(runs, depth)

    def _record_redirects(self, command: ShellCommand) -> None:
        effects = CommandEffects()
        for target in add_redirect_effects(command.redirects, effects):
            self.redirect_targets += self._resolve_target(target)
        self.effects.written_paths += [
            path for target in effects.written_paths for path in self._resolve_target(target)
        ]
        self.effects.destinations += effects.destinations
        self.input_paths += [
            redirect.word.value or UNKNOWN_TARGET for redirect in command.redirects if redirect.operator in ("<", "<>")
        ]

    def _record_effects(self, name: str, command: ShellCommand, next_operator: str) -> None:
        effects = analyse_effects(name, command.words[1:])
        if name in ("cd", "pushd", "popd", "chdir"):
            operands = [word.value for word in command.words[1:] if not (word.value or "").startswith("-")]
            plain = len(operands) == 1 and command.depth == 0 and name == "cd" and len(self.commands) == 1
            self.cd_targets.append((operands[0] if plain else None, next_operator))
        self.effects.removals += [path for target in effects.removals for path in self._resolve_target(target)]
        self.effects.written_paths += [
            path for target in effects.written_paths for path in self._resolve_target(target)
        ]
        self.effects.destinations += effects.destinations
        for sentence in effects.opaque_reasons:
            self.add_opaque_reason(sentence)
        program = command.words[0].value or ""
        understood = name in LOCAL_PROGRAMS or (name in NETWORK_PROGRAMS and effects.destinations)
        if not understood or ("/" in program and not is_system_program(program)):
            self.unknown_programs.append(program)

    def _resolve_target(self, target: str) -> list[str]:
        """Resolve a relative target after `cd`; "?" if the script changes folders in ways that are not tracked."""
        if not self.cd_targets or target.startswith("/") or target == "?":
            return [target]
        folder, following = self.cd_targets[0]
        if len(self.cd_targets) > 1 or folder is None or target.startswith("~"):
            return ["?"]
        moved = posixpath.join(folder, target)
        # without &&, the script continues in the old folder if cd fails
        return [moved] if following == "&&" else [moved, target]

    def _check_assignments(self, command: ShellCommand) -> None:
        for name, word in command.assignments:
            if affects_execution(name):
                self.add_opaque_reason(f"setting {name} may change what runs")
            if word.value is not None and ("$(" in word.value or "`" in word.value):
                self.add_opaque_reason(f"{name} contains a text that looks like a command")
        # bash executes the substitution in `a[$(…)]` wherever it evaluates a text as arithmetic or as a variable name
        texts = [*command.words, *(redirect.word for redirect in command.redirects)]
        if any("[" in (word.value or "") and _ARITHMETIC_SUBSTITUTION.search(word.value or "") for word in texts):
            self.add_opaque_reason("an argument may be evaluated as arithmetic, which runs commands in it")

    def _follow_children(self, children: ChildCommands, depth: int) -> None:
        for name, _ in children.assignments:
            if affects_execution(name):
                self.add_opaque_reason(f"setting {name} may change what runs")
        for sentence in children.opaque_reasons:
            self.add_opaque_reason(sentence)
        for words in children.commands:
            self.record_command(ShellCommand(words, [], [], "", 1), depth + 1)
        for text in children.scripts:
            self.analyse_text(text, depth + 1)

    def build_result(self) -> ScriptAnalysis:
        return ScriptAnalysis(
            commands=tuple(self.commands),
            opaque_reasons=tuple(self.opaque_reasons),
            is_ambiguous=self.is_ambiguous,
            removals=tuple(dict.fromkeys(self.effects.removals)),
            written_paths=tuple(dict.fromkeys(self.effects.written_paths)),
            destinations=tuple(dict.fromkeys(self.effects.destinations)),
            redirect_targets=tuple(dict.fromkeys(self.redirect_targets)),
            unknown_programs=tuple(dict.fromkeys(self.unknown_programs)),
            input_paths=tuple(dict.fromkeys(self.input_paths)),
            folders=tuple(target for target, _ in self.cd_targets),
        )
