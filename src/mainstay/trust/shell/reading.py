"""Proof that a script only reads: every program in it only reads, and every path in it may be read.

The proof is cautious. Each word that could name a file counts as one, in whatever place it stands; what is not known
before the script runs, and each program or option that is not listed here, ends the proof.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Protocol

from mainstay.trust.shell.analysis import AnalysedCommand, ScriptAnalysis
from mainstay.trust.shell.option_parser import parse_options
from mainstay.trust.shell.syntax import literal_word, word_set

# Programs that read what their words name, and nothing else.
_READING_PROGRAMS = word_set(
    "ls dir cat tac head tail wc sort uniq cut tr grep egrep fgrep rg ag cd realpath readlink stat file du df diff cmp"
    " comm paste join nl od xxd hexdump strings find fd which type whereis command rev fold fmt expand unexpand column"
    " jq md5sum sha1sum sha224sum sha256sum sha384sum sha512sum cksum sum b2sum base64 base32 tree sed gsed awk gawk"
    " mawk nawk zcat bzcat xzcat zstdcat bc shuf tsort look numfmt iconv pr"
)
# Programs that open no file, whatever their words are.
_TEXT_PROGRAMS = word_set(
    "echo printf true false : test [ [[ expr seq basename dirname pwd sleep exit return shift break continue wait date"
    " cal whoami id groups uname arch nproc uptime free env printenv locale getconf tty factor pathchk set export unset"
    " local read"
)
_WRAPPERS = word_set("timeout nice time env command builtin xargs stdbuf sh bash dash")
_TREE_PROGRAMS = word_set("find fd rg ag tree du git")
_PATTERN_PROGRAMS = {  # the first operand is no path, and the options that take a value
    **dict.fromkeys(("grep", "egrep", "fgrep"), "ABCmefdD"),
    "rg": "ABCEMTdefgjmrt",
    **dict.fromkeys(("sed", "gsed"), "efl"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), "fiElvF"),
}
# Options that write, follow links, or read files that a file names: short letters, and long names.
_UNPROVEN_OPTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), ("R", "dereference-recursive")),
    **dict.fromkeys(("ls", "dir"), ("LH", "dereference dereference-command-line")),
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"), ("c", "check")),
    **dict.fromkeys(("cksum", "b2sum"), ("c", "check")),
    "rg": ("Lz", "follow search-zip pre hostname-bin"),
    "ag": ("fz", "follow search-zip pager"),
    "fd": ("LxX", "follow exec exec-batch"),
    "tree": ("lo", "fromfile fromtabfile"),
    "du": ("LDH", "dereference dereference-args files0-from"),
    "wc": ("", "files0-from"),
    "sort": ("oT", "output files0-from compress-program temporary-directory"),
    "shuf": ("o", "output"),
    "iconv": ("o", "output"),
    "file": ("Cfm", "compile files-from magic-file"),
    "diff": ("r", "recursive"),
    "date": ("sf", "set file"),
    "time": ("oa", "output append"),
    "xargs": ("a", "arg-file"),
}
_UNPROVEN_FIND = frozenset(("-L", "-H", "-follow", "-files0-from"))
_UNPROVEN_TEXTS = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), re.compile("ARGV|ARGC|ENVIRON")),
    "jq": re.compile("import|include"),
    "strings": re.compile("^@"),
}
_GIT_VERBS = word_set(
    "status log diff show rev-parse ls-files blame describe shortlog ls-tree rev-list merge-base name-rev diff-tree"
    " grep check-ignore count-objects version"
)
_GIT_LISTS = {  # verbs that only list with these words
    "branch": word_set("-a -r -v -vv -l --list --all --remotes --show-current --verbose"),
    "tag": word_set("-l --list -n"),
    "remote": word_set("-v --verbose"),
    "stash": word_set("list"),
    "reflog": word_set("show"),
}
_UNPROVEN_GIT = re.compile(
    r"--?(?:ou\w*(?:-.*)?|ext-diff|textconv|filters|show-sig\w*|open-files\w*|O\w*|no-index)(?:=.*)?|.*%G.*", re.S
)
_UNPROVEN_GLOB = re.compile(r"^-|[~{}()]")  # it may become an option, or is more than a glob
_SUFFIX_CHARS_MAX = 60


class ReadAccess(Protocol):
    """What a session may read."""

    def may_read(self, path: str, *, is_glob: bool, whole_tree: bool) -> bool:
        """Return whether reading a path reads nothing but what the session may read: links are resolved, a glob is
        expanded, and with `whole_tree` nothing below a folder is protected. A path where nothing is may be read."""
        ...

    def is_folder(self, path: str) -> bool: ...
    def is_plain_repository(self, folder: str) -> bool:
        """Return whether git, in this folder, runs no programs that the repository configures."""
        ...


def reads_only(script: ScriptAnalysis) -> bool:
    """Return whether the script provably changes no files and contacts no host."""
    return not (
        script.opaque_reasons
        or script.unknown_programs
        or script.removals
        or script.written_paths
        or script.destinations
        or any(_writes_operand(command) for command in script.commands)
    )


def _writes_operand(command: AnalysedCommand) -> bool:
    """Return whether a program that usually reads may write: `uniq IN OUT`, `tree -o FILE`, `shuf -o FILE`."""
    words = command.unexpanded[1:]
    operands = [word for word in words if word is None or not word.startswith("-")]
    match command.program:
        case "uniq" | "xxd":
            return len(operands) > 1
        case "shuf" | "iconv" | "tree" | "time" | "file" | "less" | "more" | "history" | "flock":
            return command.program in ("history", "flock", "less") or _has_unproven_option(command)
    return False


def reads_only_inside(script: ScriptAnalysis, folder: str, access: ReadAccess) -> bool:
    """Return whether the script, started in `folder`, provably only reads, and only what `access` allows."""
    is_git = [command for command in script.commands if command.program == "git"]
    if any(program != "git" for program in script.unknown_programs) or not reads_only(_without_programs(script)):
        return False
    if len(script.folders) > 1 or None in script.folders:
        return False
    # `cd` may fail, and then the script goes on where it was
    folders = [folder, *(posixpath.join(folder, target or "") for target in script.folders)]

    def may_read(path: str, is_glob: bool, whole_tree: bool) -> bool:
        return all(
            access.may_read(posixpath.join(base, path), is_glob=is_glob, whole_tree=whole_tree) for base in folders
        )

    if not all(may_read(path, False, False) for path in ("", *script.input_paths)) or "?" in script.input_paths:
        return False
    if is_git and not all(access.is_plain_repository(base) for base in folders):
        return False
    for command in script.commands:
        if not _reads(command, may_read):
            return False
        if command.program == "diff" and any(
            access.is_folder(posixpath.join(folder, word or "")) for word in command.argv[1:]
        ):
            return False  # it would follow the links in the folder
    return True


def _without_programs(script: ScriptAnalysis) -> ScriptAnalysis:
    return ScriptAnalysis(
        commands=script.commands,
        opaque_reasons=script.opaque_reasons,
        removals=script.removals,
        written_paths=script.written_paths,
        destinations=script.destinations,
    )


def _reads(command: AnalysedCommand, may_read: Callable[[str, bool, bool], bool]) -> bool:
    program = command.program
    if program == "git":
        known = _is_git_reading(command.argv)
    else:
        known = (
            program in _READING_PROGRAMS or program in _TEXT_PROGRAMS or (command.is_wrapper and program in _WRAPPERS)
        )
    if not known or _has_unproven_option(command):
        return False
    if program in _TEXT_PROGRAMS and not command.is_wrapper:
        return True
    if (unproven := _UNPROVEN_TEXTS.get(program)) and any(unproven.search(word or "") for word in command.argv[1:]):
        return False
    is_tree = _reads_tree(command)
    skipped = _find_pattern(command)
    if is_tree and not _names_folder(command, skipped) and not may_read("", False, True):
        return False
    for index, (word, unexpanded) in enumerate(zip(command.argv, command.unexpanded, strict=True)):
        if index == 0 or index == skipped:
            continue
        if unexpanded is None or (word is None and _UNPROVEN_GLOB.search(unexpanded)):
            return False
        if not all(may_read(path, word is None, is_tree) for path in _path_candidates(unexpanded)):
            return False
    return True


def _reads_tree(command: AnalysedCommand) -> bool:
    """Return whether the program reads what is below a folder, too."""
    letters = {"grep": "rd", "egrep": "rd", "fgrep": "rd", "ls": "R", "dir": "R"}.get(command.program)
    if letters is None:
        return command.program in _TREE_PROGRAMS
    return any(
        word.startswith(("--r", "--d")) or (word[:1] == "-" and not set(word[1:]).isdisjoint(letters))
        for word in filter(None, command.unexpanded[1:])
    )


def _names_folder(command: AnalysedCommand, pattern: int) -> bool:
    """Return whether the program certainly starts at a path in its words, not in the working folder."""
    words = command.unexpanded
    if command.program == "find":
        return len(words) > 1 and not (words[1] or "-").startswith(("-", "(", "!"))
    return bool(pattern) and len(words) > pattern + 1 and not any((word or "-")[:1] == "-" for word in words[pattern:])


def _path_candidates(text: str) -> Iterator[str]:
    """Yield every part of a word that may be a path: the word, the value of an option, what follows a letter."""
    if text == "/dev/null":
        return
    if not text.startswith("-"):
        yield text
        if "=" in text:
            yield text.partition("=")[2]
        return
    yield from (text[start:] for start in range(2, min(len(text), _SUFFIX_CHARS_MAX)))


def _find_pattern(command: AnalysedCommand) -> int:
    """Return the index of the word that is a pattern or a program, not a path; 0 if there is none."""
    valued = _PATTERN_PROGRAMS.get(command.program)
    if valued is None or None in command.argv:
        return 0
    words = [literal_word(word or "") for word in command.argv[1:]]
    options = parse_options(words, valued)
    if not options.operands or options.has("e", "f", "regexp", "file", "expression", "files"):
        return 0
    return next(index for index, word in enumerate(words, 1) if word is options.operands[0])


def _has_unproven_option(command: AnalysedCommand) -> bool:
    words = [word or "" for word in command.unexpanded[1:]]
    if command.program == "find":
        return not _UNPROVEN_FIND.isdisjoint(words)
    short, long = _UNPROVEN_OPTIONS.get(command.program, ("", ""))
    names = long.split()
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name = word[2:].partition("=")[0]
            if any(unproven.startswith(name) for unproven in names):
                return True
        elif word.startswith("-") and not set(word[1:]).isdisjoint(short):
            return True
    return False


def _is_git_reading(argv: tuple[str | None, ...]) -> bool:
    verb, rest = argv[1] if len(argv) > 1 else None, argv[2:]
    if verb is None or any(word is None or _UNPROVEN_GIT.fullmatch(word) for word in rest):
        return False
    if (allowed := _GIT_LISTS.get(verb)) is not None:
        return all(word in allowed for word in rest) and (verb != "stash" or bool(rest))
    return verb in _GIT_VERBS
