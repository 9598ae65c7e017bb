"""Whether a user named the commands of a script literally: `run make clean`, `run scripts/cleanup.sh`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstay.trust.named_destinations import is_named_by_user
from mainstay.trust.shell.analysis import AnalysedCommand, ScriptAnalysis
from mainstay.trust.user_statements import is_negated

_READERS = frozenset(("ls", "cat", "echo", "pwd", "head", "tail", "wc", "cd", "true", "du", "tree", "stat", "printf"))
_GIT_READERS = frozenset(("log", "status", "diff", "show", "rev-parse", "ls-files"))
_INTERPRETERS = frozenset(("sh", "bash", "dash", "zsh", "python", "python3", "node", "ruby", "perl"))
_RUN = (
    r"\b(?:run|execute|start|call|use|führ\w*|starte?|lance[rz]?|exécut\w*|ejecuta\w*|corre|esegui\w*|executa\w*|voer"
    r"|draai)"
)


def is_script_named(script: ScriptAnalysis, texts: Sequence[str], cwd: str) -> bool:
    """Return True if the user named every command of the script that does more than show something."""
    acting = [command for command in script.commands if not shows_only(command)]
    return bool(acting) and all(_is_command_named(command, texts, cwd) for command in acting)


def shows_only(command: AnalysedCommand) -> bool:
    """Return True for a command that shows something and changes nothing, redirections apart."""
    if command.program == "git":
        return find_git_verb(command) in _GIT_READERS
    return command.program in _READERS


def find_git_verb(command: AnalysedCommand) -> str:
    words = [word or "?" for word in command.argv[1:]]
    while words[:1] == ["-C"]:
        words = words[2:]
    return words[0] if words else ""


def _is_command_named(command: AnalysedCommand, texts: Sequence[str], cwd: str) -> bool:
    words = [word for word in command.argv if word is not None]
    if len(words) < len(command.argv) or not words:
        return False
    if len(words) > 1 and _stands_in(words, texts):
        return True
    program = words[1] if command.program in _INTERPRETERS and len(words) == 2 else words[0]
    names = (program, program.rpartition("/")[2]) if "/" in program or "." in program else ()
    if not names or len(words) > 2:
        return False
    return any(is_named_by_user(name, texts, cwd) for name in names) or _is_described_script(names[1], texts)


def _is_described_script(name: str, texts: Sequence[str]) -> bool:
    """Return True if the user asked for a script by its name without the ending: `run the cleanup script`."""
    stem = re.escape(name.rpartition(".")[0] or name).replace("_", "[ _-]").replace(r"\-", "[ _-]")
    pattern = re.compile(
        rf"{_RUN}\b[^.!?\n]{{0,40}}\b{stem}\b[^.!?\n]{{0,10}}\b(?:script|skript|programm?|programa)", re.IGNORECASE
    )
    return any(not is_negated(text, *found.span()) for text in texts for found in pattern.finditer(text))


def _stands_in(words: Sequence[str], texts: Sequence[str]) -> bool:
    pattern = re.compile(r"(?<![\w./-])" + r"\s+".join(map(re.escape, words)) + r"(?![\w/-]|\.\w)")
    return any(not is_negated(text, *found.span()) for text in texts for found in pattern.finditer(text))
