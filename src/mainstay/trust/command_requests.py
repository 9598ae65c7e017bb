"""Whether a command that removes something needs a question before it runs, by what the user asked for in this turn.

If the user asked for files to be removed or arranged, the command runs in the sandbox, which holds back what it
removes; then each file is judged by itself (`tools/requested_removals.py`). What the sandbox does not see as a removal,
such as uncommitted changes that git gives up, is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mainstay.trust.named_destinations import UNKNOWN_DESTINATION, is_named_by_user
from mainstay.trust.shell.analysis import AnalysedCommand, ScriptAnalysis
from mainstay.trust.shell.named_commands import find_git_verb, is_script_named, shows_only
from mainstay.trust.tidying_requests import (
    TidyingRequest,
    is_discard_requested,
    parse_tidying_request,
    word_describes,
)

# they remove or change something that is no file, or overwrite it first
_UNSEEN_PROGRAMS = frozenset(("truncate", "dd", "shred", "wipe", "docker", "podman", "kubectl", "crontab", "systemctl"))
_GIT_DISCARDS = frozenset(("checkout", "restore", "reset", "switch"))
_GIT_SEEN_VERBS = frozenset(("rm", "mv", "clean", "add", "commit", "init", "stash"))
_PATTERN = re.compile(r"[*?\[{~$]")
_REVISION = re.compile(r"(?:HEAD|@)(?:[~^]\d*)*|[0-9a-f]{7,40}")
_REFERENCES = {
    "branch": re.compile(r"\b(?:branch(?:es)?|zweige?|branches?|ramas?|ram[oi]|takken|tak)\b", re.IGNORECASE),
    "stash": re.compile(r"\bstash(?:es)?\b", re.IGNORECASE),
}


def is_judged_afterwards(script: ScriptAnalysis, unnamed: Sequence[str], texts: Sequence[str], cwd: str) -> bool:
    """Return True if the command may run now, with its removals held back. `unnamed` is what it would remove and the
    user did not name; `texts` are those of this turn."""
    if any(map(_is_outside(cwd), unnamed)):
        return False
    request = parse_tidying_request(tuple(texts))
    acting = [command for command in script.commands if not shows_only(command)]
    if is_script_named(script, texts, cwd):
        return True
    discarding = [command for command in acting if _is_discard(command)]
    if discarding:
        return len(discarding) == len(acting) and all(_may_discard(one, texts, cwd) for one in unnamed)
    references = [command for command in acting if _reference_kind(command)]
    if references:
        kinds = {_reference_kind(command) for command in references}
        clauses = [removal.clause for removal in request.removals]
        return len(references) == len(acting) and all(
            any(_REFERENCES[kind].search(clause) for clause in clauses) for kind in kinds
        )
    return request.removes_files and all(map(_is_seen, acting)) and not _is_hopeless(request, unnamed, cwd)


def _is_hopeless(request: TidyingRequest, unnamed: Sequence[str], cwd: str) -> bool:
    """Return True if the request can be about none of these paths: then it is better to ask before the command runs."""
    is_literal = all(path != UNKNOWN_DESTINATION and not _PATTERN.search(path) for path in unnamed)
    if not is_literal or request.arranges or any(removal.refers_back for removal in request.removals):
        return False
    paths = [path.removeprefix(f"{cwd.rstrip('/')}/") for path in unnamed]
    return not any(
        word_describes(word, path) or path.rpartition("/")[2] in request.files or path in (".", "./")
        for path in paths
        for word in request.words or ("",)
    )


def _is_outside(cwd: str) -> Callable[[str], bool]:
    root = cwd.rstrip("/")
    return lambda path: (
        path.startswith("~") or ".." in path.split("/") or (path.startswith("/") and not path.startswith(f"{root}/"))
    )


def _is_discard(command: AnalysedCommand) -> bool:
    return command.program == "git" and find_git_verb(command) in _GIT_DISCARDS


def _reference_kind(command: AnalysedCommand) -> str:
    """Return what a git command removes of the repository without losing commits that are merged: a branch, a stash."""
    words = [word or "?" for word in command.argv]
    verb = find_git_verb(command) if command.program == "git" else ""
    if verb == "branch" and "-d" in words:
        return "branch"
    return "stash" if verb == "stash" and not {"drop", "clear"}.isdisjoint(words) else ""


def _may_discard(path: str, texts: Sequence[str], cwd: str) -> bool:
    if path == UNKNOWN_DESTINATION:
        return False
    if _REVISION.fullmatch(path):
        return True  # nothing of a commit is given up
    names = {path, path.rstrip("/").rpartition("/")[2]}
    names_path = any(is_named_by_user(name, texts, cwd) for name in names)
    return is_discard_requested(path, names_path=names_path, texts=texts)


def _is_seen(command: AnalysedCommand) -> bool:
    if command.program == "git":
        return find_git_verb(command) in _GIT_SEEN_VERBS
    return bool(command.program) and command.program not in _UNSEEN_PROGRAMS
