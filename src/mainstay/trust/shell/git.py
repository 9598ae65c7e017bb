"""git, which can do a little of everything: run programs, throw work away, and talk to others."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import msgspec

from mainstay.trust.shell.nouns import Word, names
from mainstay.trust.shell.options import Options, read_options

_KNOWN = names(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout cherry"
    " cherry-pick clean clone commit config count-objects describe diff diff-files diff-index diff-tree difftool fetch"
    " filter-branch for-each-ref format-patch fsck gc grep hash-object help init log ls-files ls-remote ls-tree"
    " maintenance merge merge-base merge-file mergetool mv name-rev notes pack-refs prune pull push range-diff"
    " read-tree rebase reflog remote replace rerere reset restore rev-list rev-parse revert rm send-email shortlog show"
    " show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index update-ref var"
    " verify-commit verify-tag version whatchanged worktree write-tree"
)
_RUNS = {
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
_ALWAYS_RUNS = names("filter-branch mergetool send-email difftool")
_VALUED = {
    "commit": "mFCct",
    "clone": "objbcu",
    "log": "nLSG",
    "grep": "efABC",
    "push": "o",
    "tag": "mFu",
    "branch": "u",
}
_REACHING = names("clone fetch pull push ls-remote")


class Git(msgspec.Struct):
    """What one git command line would do."""

    opaque: list[str] = []
    removes: list[Word | str] = []
    reaches: list[Word | str] = []


def read_git(args: Sequence[Word]) -> Git:
    made = Git()
    # -c and --exec-path tell git what to run; another git-dir brings a configuration of its own
    head = read_options(args, "Cc", ("git-dir", "work-tree", "namespace", "config-env", "super-prefix"), stop=True)
    if head.has("c", "config-env", "exec-path", "git-dir", "work-tree", "p", "paginate"):
        made.opaque.append("an option of git changes what it runs")
    if not head.operands:
        return made
    verb, rest = head.operands[0].value, head.operands[1:]
    if verb is None or verb not in _KNOWN:
        made.opaque.append(f"what git {verb or '…'} does is not known: it may be an alias")
        return made
    options = read_options(rest, _VALUED.get(verb, ""), ("message", "file", "origin", "branch", "depth", "author"))
    _programs(verb, options, made)
    made.removes += [_below(head.values("C"), one) for one in _removals(verb, options)]
    if verb in _REACHING:
        made.reaches += _urls(verb, options)
    elif verb in ("remote", "submodule") and _first(options) in ("add", "set-url", "update"):
        made.reaches += options.operands[2 if verb == "remote" else 1 :] or ["?"]
    elif verb in ("send-email", "archive") and (verb == "send-email" or options.has("remote")):
        made.reaches.append("?")
    return made


def _below(folders: Sequence[Word], target: Word | str) -> Word | str:
    """Where a target lies if git was told to work in another folder."""
    text = target if isinstance(target, str) else target.shown or "?"
    if not folders or text == "?":
        return target
    texts = [folder.value for folder in folders]
    return "?" if None in texts else posixpath.join(*(one or "" for one in texts), text)


def _sets(options: Options) -> bool:
    if options.has("get", "get-all", "list", "l", "get-regexp", "get-urlmatch"):
        return False
    return len(options.operands) > 1 and _first(options) not in ("get", "list")


def _first(options: Options) -> str | None:
    return options.operands[0].value if options.operands else None


def _programs(verb: str, options: Options, made: Git) -> None:
    named = tuple(_RUNS.get(verb, "").split())
    if verb in _ALWAYS_RUNS or (named and options.has(*named)):
        made.opaque.append(f"`git {verb}` is told to run a program")
    elif named and options.unsure:
        made.opaque.append(f"an argument of git {verb} that is not known yet may make it run something")
    elif (verb, _first(options)) in (("bisect", "run"), ("submodule", "foreach"), ("maintenance", "register")):
        made.opaque.append(f"`git {verb} {_first(options)}` runs a program")
    elif verb == "config" and _sets(options):
        made.opaque.append("`git config` changes what git runs")
    for word in options.operands:
        if re.match(r"ext::|fd::|-", word.value or "") or re.search(r"://-", word.value or ""):
            made.opaque.append("an address makes git run a program")


def _removals(verb: str, options: Options) -> list[Word | str]:
    """What would be gone for good: from the folder, or from what git remembers."""
    operands: list[Word | str] = list(options.operands)
    match verb:
        case "clean" if not options.has("n", "dry-run"):
            return operands or ["."]
        case "reset" if options.has("hard", "merge", "keep"):
            return ["."]
        case "checkout" if options.has("f", "force"):
            return operands or ["."]
        case "checkout" if options.ended or any(word.shown in (".", "./", ":/") for word in options.operands):
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
        case "stash" if _first(options) in ("drop", "clear"):
            return operands[1:] or ["?"]
        case "worktree" | "remote" | "notes" if _first(options) in ("remove", "rm", "prune"):
            return operands[1:] or ["?"]
        case "reflog" if _first(options) in ("delete", "expire"):
            return operands[1:] or ["?"]
        case "update-ref" if options.has("d", "stdin"):
            return operands or ["?"]
        case "prune" | "filter-branch" | "replace":
            return ["?"]
        case "gc" if options.has("prune", "aggressive"):
            return ["?"]
        case "submodule" if _first(options) == "deinit":
            return operands[1:] or ["?"]
        case "read-tree" if options.has("reset", "u"):
            return ["."]
    return []


def _urls(verb: str, options: Options) -> list[Word | str]:
    if options.has("all", "multiple") or not options.operands:
        return ["?"]
    return [options.operands[0]]
