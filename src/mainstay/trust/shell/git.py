"""Side effects of git commands: programs they run, work they discard, and remotes they contact."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import msgspec

from mainstay.trust.shell.option_parser import ParsedCommandArguments, parse_options
from mainstay.trust.shell.syntax import ShellWord, word_set

_KNOWN_VERBS = word_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout cherry"
    " cherry-pick clean clone commit config count-objects describe diff diff-files diff-index diff-tree difftool fetch"
    " filter-branch for-each-ref format-patch fsck gc grep hash-object help init log ls-files ls-remote ls-tree"
    " maintenance merge merge-base merge-file mergetool mv name-rev notes pack-refs prune pull push range-diff"
    " read-tree rebase reflog remote replace rerere reset restore rev-list rev-parse revert rm send-email shortlog show"
    " show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index update-ref var"
    " verify-commit verify-tag version whatchanged worktree write-tree"
)
_OPTIONS_THAT_RUN = {
    "clone": "upload-pack config template u c",
    "fetch": "upload-pack",
    "pull": "upload-pack",
    "ls-remote": "upload-pack exec",
    "push": "receive-pack exec",
    "archive": "exec remote",
    "grep": "open-files-in-pager O",
    "rebase": "exec x",
    "difftool": "extcmd x tool t",
    "diff": "ext-diff textconv",
    "log": "ext-diff textconv",
    "show": "ext-diff textconv",
    "init": "template",
    "commit": "",
}
_VERBS_THAT_RUN = word_set("filter-branch mergetool send-email difftool")
_OPTIONS_WITH_VALUE = {
    "commit": "mFCct",
    "clone": "objbcu",
    "log": "nLSG",
    "grep": "efABC",
    "push": "o",
    "tag": "mFu",
    "branch": "u",
}
_NETWORK_VERBS = word_set("clone fetch pull push ls-remote")


class GitEffects(msgspec.Struct):
    """The side effects of one git command; targets are "?" where unknown."""

    opaque_reasons: list[str] = []
    removals: list[ShellWord | str] = []
    destinations: list[ShellWord | str] = []


def analyse_git(args: Sequence[ShellWord]) -> GitEffects:
    effects = GitEffects()
    # -c and --exec-path change what git runs; another git-dir has its own configuration
    head = parse_options(
        args, "Cc", ("git-dir", "work-tree", "namespace", "config-env", "super-prefix"), stop_at_operand=True
    )
    if head.has("c", "config-env", "exec-path", "git-dir", "work-tree", "p", "paginate"):
        effects.opaque_reasons.append("an option of git changes what it runs")
    if not head.operands:
        return effects
    verb, rest = head.operands[0].value, head.operands[1:]
    if verb is None or verb not in _KNOWN_VERBS:
        effects.opaque_reasons.append(f"what git {verb or '…'} does is not known: it may be an alias")
        return effects
    options = parse_options(
        rest, _OPTIONS_WITH_VALUE.get(verb, ""), ("message", "file", "origin", "branch", "depth", "author")
    )
    _check_programs(verb, options, effects)
    effects.removals += [_resolve_target(head.values("C"), target) for target in _find_removals(verb, options)]
    if verb in _NETWORK_VERBS:
        effects.destinations += _find_remotes(verb, options)
    elif verb in ("remote", "submodule") and _first_operand(options) in ("add", "set-url", "update"):
        effects.destinations += options.operands[2 if verb == "remote" else 1 :] or ["?"]
    elif verb in ("send-email", "archive") and (verb == "send-email" or options.has("remote")):
        effects.destinations.append("?")
    return effects


def _resolve_target(folders: Sequence[ShellWord], target: ShellWord | str) -> ShellWord | str:
    """Resolve a target against the folders of `git -C`; "?" if one is unknown."""
    text = target if isinstance(target, str) else target.unexpanded or "?"
    if not folders or text == "?":
        return target
    texts = [folder.value for folder in folders]
    return "?" if None in texts else posixpath.join(*(folder_text or "" for folder_text in texts), text)


def _sets_config(options: ParsedCommandArguments) -> bool:
    if options.has("get", "get-all", "list", "l", "get-regexp", "get-urlmatch"):
        return False
    return len(options.operands) > 1 and _first_operand(options) not in ("get", "list")


def _first_operand(options: ParsedCommandArguments) -> str | None:
    return options.operands[0].value if options.operands else None


def _check_programs(verb: str, options: ParsedCommandArguments, effects: GitEffects) -> None:
    options_that_run = tuple(_OPTIONS_THAT_RUN.get(verb, "").split())
    if verb in _VERBS_THAT_RUN or (options_that_run and options.has(*options_that_run)):
        effects.opaque_reasons.append(f"`git {verb}` has an option that runs a program")
    elif options_that_run and options.may_have_more:
        effects.opaque_reasons.append(f"an argument of git {verb} that is not known yet may make it run something")
    elif (verb, _first_operand(options)) in (("bisect", "run"), ("submodule", "foreach"), ("maintenance", "register")):
        effects.opaque_reasons.append(f"`git {verb} {_first_operand(options)}` runs a program")
    elif verb == "config" and _sets_config(options):
        effects.opaque_reasons.append("`git config` changes what git runs")
    for word in options.operands:
        if re.match(r"ext::|fd::|-", word.value or "") or re.search(r"://-", word.value or ""):
            effects.opaque_reasons.append("an address makes git run a program")


def _find_removals(verb: str, options: ParsedCommandArguments) -> list[ShellWord | str]:
    """Return what would be lost for good, from the work tree or from the repository."""
    operands: list[ShellWord | str] = list(options.operands)
    match verb:
        case "clean" if not options.has("n", "dry-run"):
            return operands or ["."]
        case "reset" if options.has("hard", "merge", "keep"):
            return ["."]
        case "checkout" if options.has("f", "force"):
            return operands or ["."]
        case "checkout" if options.has_separator or any(
            word.unexpanded in (".", "./", ":/") for word in options.operands
        ):
            return operands
        case "restore" if not options.has("S", "staged") or options.has("W", "worktree"):
            return operands or ["."]
        case "switch" if options.has("f", "force", "discard-changes"):
            return ["."]
        case "rm" if not options.has("cached", "n", "dry-run"):
            return operands
        case "mv":
            return operands[:-1]
        case "branch" | "tag" if options.has("D", "d", "delete", "M", "f", "force"):
            return operands
        case "push" if options.has("delete", "d", "f", "force", "mirror", "prune", "force-with-lease"):
            return operands[1:] or ["?"]
        case "push" if any((word.value or "")[:1] in (":", "+") for word in options.operands):
            return operands[1:]
        case "stash" if _first_operand(options) in ("drop", "clear"):
            return operands[1:] or ["?"]
        case "worktree" | "remote" | "notes" if _first_operand(options) in ("remove", "rm", "prune"):
            return operands[1:] or ["?"]
        case "reflog" if _first_operand(options) in ("delete", "expire"):
            return operands[1:] or ["?"]
        case "update-ref" if options.has("d", "stdin"):
            return operands or ["?"]
        case "prune" | "filter-branch" | "replace":
            return ["?"]
        case "gc" if options.has("prune", "aggressive"):
            return ["?"]
        case "submodule" if _first_operand(options) == "deinit":
            return operands[1:] or ["?"]
        case "read-tree" if options.has("reset", "u"):
            return ["."]
    return []


def _find_remotes(verb: str, options: ParsedCommandArguments) -> list[ShellWord | str]:
    if options.has("all", "multiple") or not options.operands:
        return ["?"]
    return [options.operands[0]]
