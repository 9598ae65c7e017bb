"""Which commands may change files that other programs obey: by what the script proves, and what the user asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from mainstay.core.git_configured_paths import find_git_configured_paths
from mainstay.core.obeyed_files import may_be_obeyed
from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import SessionFolders
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.path_resolver import casefold_path, is_inside
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.tool_call_file_access import find_deletable_paths
from mainstay.trust.obeyed_file_requests import is_change_in_script, is_obeyed_change_requested
from mainstay.trust.shell.analysis import AnalysedCommand, ScriptAnalysis, analyse_script
from mainstay.trust.shell.named_commands import find_git_verb, shows_only

UNKNOWN = "?"
# Programs that the analysis knows, but that write other files than those it names: they copy or unpack whole folders,
# or derive a name.
_INEXACT_WRITERS = frozenset((
    "cp", "mv", "ln", "tar", "zip", "unzip", "install", "split", "csplit", "find", "fd", "xargs", "dd", "gzip",
    "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "uniq", "tree", "xxd", "iconv", "shuf", "time", "less", "flock",
    "mktemp",
))  # fmt: skip
# Git commands that write files of the work tree as they are in the repository.
_GIT_TREE_VERBS = frozenset((
    "clone", "pull", "checkout", "switch", "merge", "rebase", "reset", "restore", "stash", "cherry-pick", "revert",
    "worktree", "submodule", "bisect",
))  # fmt: skip
_GIT_OTHER_VERBS = frozenset((
    "add", "branch", "commit", "diff", "fetch", "log", "ls-files", "push", "remote", "rev-parse", "show", "status",
    "tag",
))  # fmt: skip


def find_movable_folders(
    file_access: SessionFileAccess, context: ToolContext, script: str, cwd: str
) -> tuple[str, ...]:
    """Return the folders that a command must be able to rename: those that the user asked to move, and those that it
    moves with `git mv`, which does not copy as `mv` does."""
    moved = [
        os.path.realpath(os.path.join(cwd, word))
        for command in analyse_script(script).commands
        if command.program == "git" and find_git_verb(command) == "mv"
        for word in command.argv[2:-1]
        if word and not word.startswith("-")
    ]
    return (*find_deletable_paths(file_access, context), *filter(os.path.isdir, moved))


async def may_change_obeyed_files(script: str, folders: SessionFolders, cwd: str) -> bool:
    """Return False if the analysis proves that a script changes no file that other programs obey."""
    analysis = analyse_script(script)
    if analysis.opaque_reasons or analysis.unknown_programs or analysis.removals or UNKNOWN in analysis.written_paths:
        return True
    if any(map(_is_inexact, analysis.commands)) or _has_writable_program_folder(folders):
        return True
    if not analysis.written_paths:
        return False
    obeyed = tuple(casefold_path(path.rstrip("/")) for path in folders.obeyed_paths)
    may_change: bool = await run_in_thread(
        lambda: any(_may_be_obeyed(path, cwd, obeyed) for path in analysis.written_paths)
    )
    return may_change


def _is_inexact(command: AnalysedCommand) -> bool:
    return command.program in _INEXACT_WRITERS or any(may_be_obeyed(word or "") for word in command.argv)


def _may_be_obeyed(path: str, cwd: str, obeyed: tuple[str, ...]) -> bool:
    """Return True unless a path leads to a file, perhaps a new one, of which no program takes notice."""
    if any(char in path for char in "*?[{~$`") or path.startswith("-"):
        return True
    whole = os.path.normpath(os.path.join(cwd, path))
    real = os.path.realpath(whole)
    try:
        is_shared = not os.path.isdir(real) and os.stat(real).st_nlink > 1
    except OSError:  # a new file
        is_shared = False
    configured = tuple(map(casefold_path, _find_configured_paths(whole)))
    is_listed = any(is_inside(casefold_path(whole), listed) for listed in (*obeyed, *configured))
    return is_shared or is_listed or real != whole or may_be_obeyed(whole)


def _find_configured_paths(path: str) -> set[str]:
    """Return what git obeys, by its configuration, in the work trees around a path."""
    paths: set[str] = set()
    while len(path) > 1:
        path = os.path.dirname(path)
        if os.path.lexists(f"{path}/.git"):
            paths |= find_git_configured_paths(path)
    return paths


def _has_writable_program_folder(folders: SessionFolders) -> bool:
    """Return whether a known program may be another one: a session's folder is on the PATH."""
    paths = [path for path in os.environ.get("PATH", "").split(":") if path]
    return any(not os.path.isabs(path) or is_inside(path, root) for path in paths for root in folders.writable)


def build_change_check(context: ToolContext, folders: SessionFolders, script: str) -> Callable[[str, str], bool]:
    """Return a check of path and topic: the user asked for this change in this turn, or approved the script that names
    it, or the script does nothing but bring a repository's own files into its work tree."""

    @cache
    def read_texts() -> tuple[str, ...]:
        return tuple(context.read_turn_texts())

    is_repository_work = _checks_out_only(analyse_script(script)) and not context.protect_deletions

    def may_change(path: str, topic: str) -> bool:
        if is_repository_work and not topic.startswith(("git-", "other")):
            return True
        if context.is_approved and is_change_in_script(path, topic, script, folders.cwd):
            return True
        return is_obeyed_change_requested(path, topic, read_texts(), folders.cwd)

    return may_change


def is_git_work(analysis: ScriptAnalysis) -> bool:
    """Return whether a script only brings another state of a repository into its work tree, and shows things."""
    return _checks_out_only(analysis) and all(
        command.program == "git" or shows_only(command) for command in analysis.commands
    )


def _checks_out_only(analysis: ScriptAnalysis) -> bool:
    if analysis.opaque_reasons or analysis.written_paths:
        return False
    verbs = [find_git_verb(command) for command in analysis.commands if command.program == "git"]
    others = [program for program in analysis.unknown_programs if os.path.basename(program) != "git"]
    return (
        not others
        and any(verb in _GIT_TREE_VERBS for verb in verbs)
        and all(verb in _GIT_TREE_VERBS or verb in _GIT_OTHER_VERBS for verb in verbs)
    )
