"""Wrapper programs, such as `env`, `xargs` and `sh -c`: finds the commands that they start."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from mainstay.trust.shell.option_parser import parse_options
from mainstay.trust.shell.syntax import UNKNOWN_WORD, ShellCommand, ShellWord, word_set

SHELLS = word_set("sh bash dash ash ksh mksh zsh rbash")
_OTHER_SHELLS = word_set("fish csh tcsh nu pwsh powershell elvish xonsh")

# Wrappers that only change how a command runs: a rule that allows the command allows it through these.
TRANSPARENT_WRAPPERS = word_set(
    "env nice nohup timeout gtimeout time xargs command builtin exec eval stdbuf setsid ionice busybox toybox watch"
    " flock unbuffer noglob nocorrect chronic"
) | frozenset(SHELLS)


class ChildCommands(msgspec.Struct):
    """The commands that a wrapper starts."""

    commands: list[list[ShellWord]] = []
    scripts: list[str] = []  # texts for a shell
    assignments: list[tuple[str, ShellWord]] = []  # environment variables
    opaque_reasons: list[str] = []  # sentences that say why it may start more than this
    runs_file: str = ""  # a sentence that says which file of commands it runs


class _WrapperSyntax(msgspec.Struct, frozen=True):
    """The argument syntax of a wrapper program."""

    valued: str = ""  # short options that take a value
    long: tuple[str, ...] = ()  # long options that take a value
    leading_operands: int = 0  # before the command
    attached: str = ""  # short options with a value in the same word only
    takes_assignments: bool = False  # `NAME=value` may precede the command


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WRAPPERS: dict[str, _WrapperSyntax] = {
    "env": _WrapperSyntax("uCPa", _split_names("unset chdir argv0"), takes_assignments=True),
    "nice": _WrapperSyntax("n", ("adjustment",), attached="0123456789"),
    "nohup": _WrapperSyntax(),
    "timeout": _WrapperSyntax("ks", _split_names("kill-after signal"), leading_operands=1),
    "gtimeout": _WrapperSyntax("ks", _split_names("kill-after signal"), leading_operands=1),
    "time": _WrapperSyntax("fo", _split_names("format output")),
    "sudo": _WrapperSyntax(
        "ugpCDhRTUrta", _split_names("user group prompt close-from chdir host chroot role type"), takes_assignments=True
    ),
    "doas": _WrapperSyntax("uCa"),
    "pkexec": _WrapperSyntax("", ("user",)),
    "command": _WrapperSyntax(),
    "builtin": _WrapperSyntax(),
    "noglob": _WrapperSyntax(),
    "nocorrect": _WrapperSyntax(),
    "exec": _WrapperSyntax("a"),
    "stdbuf": _WrapperSyntax("ioe", _split_names("input output error")),
    "setsid": _WrapperSyntax(),
    "ionice": _WrapperSyntax("cnpPu", _split_names("class classdata pid")),
    "chrt": _WrapperSyntax("pTPD", leading_operands=1),
    "taskset": _WrapperSyntax("", leading_operands=1),
    "chroot": _WrapperSyntax("", _split_names("groups userspec"), leading_operands=1),
    "unshare": _WrapperSyntax(
        "SGRwl", _split_names("setuid setgid root wd setgroups propagation"), attached="umnpCiUT"
    ),
    "nsenter": _WrapperSyntax("tSGrw", _split_names("target setuid setgid")),
    "setarch": _WrapperSyntax("", leading_operands=1),
    "prlimit": _WrapperSyntax("p", ("pid",)),
    "strace": _WrapperSyntax("eopsuEaIObPSX", _split_names("output trace")),
    "ltrace": _WrapperSyntax("eopsuaFlnwx", ("output",)),
    "fakeroot": _WrapperSyntax("lsib"),
    "unbuffer": _WrapperSyntax(),
    "chronic": _WrapperSyntax(),
    "torsocks": _WrapperSyntax(),
    "proxychains": _WrapperSyntax("f"),
    "proxychains4": _WrapperSyntax("f"),
    "dbus-run-session": _WrapperSyntax("", ("config-file",)),
    "xvfb-run": _WrapperSyntax("efnpsw"),
    "firejail": _WrapperSyntax(),
    "caffeinate": _WrapperSyntax("tw"),
    "arch": _WrapperSyntax(),
    "entr": _WrapperSyntax(),
    "ts": _WrapperSyntax(),
}


_CHDIR_OPTIONS = {
    "env": "C",
    "sudo": ("D", "R", "chroot"),
    "unshare": ("w", "R", "wd", "root"),
    "nsenter": ("w", "r", "wd", "root"),
}


def find_child_commands(name: str, command: ShellCommand) -> ChildCommands | None:
    """Return the commands that this one starts; None if its arguments start none."""
    args = command.words[1:]
    if name in SHELLS:
        return _shell(args, command)
    if name in _OTHER_SHELLS:
        return ChildCommands(opaque_reasons=[f"`{name}` has a language of its own"])
    if name in _WRAPPERS:
        return _wrapper_children(name, _WRAPPERS[name], args)
    special = _HANDLERS.get(name)
    return None if special is None else special(args)


def _wrapper_children(name: str, wrapper: _WrapperSyntax, args: Sequence[ShellWord]) -> ChildCommands:
    options = parse_options(args, wrapper.valued, wrapper.long, stop_at_operand=True, attached=wrapper.attached)
    children = ChildCommands()
    if name == "env" and options.has("S", "split-string"):
        children.opaque_reasons.append("`env -S` splits a text into a command of its own")
        return children
    if name == "command" and options.has("v", "V"):
        return children  # it only looks a name up
    if name in ("ionice", "chrt", "taskset", "prlimit") and options.has("p", "pid"):
        return children
    if name in ("strace", "ltrace") and any("|" in (value.value or "|") for value in options.values("o", "output")):
        children.opaque_reasons.append(f"`{name} -o` may start a program")
    if name == "chroot" or options.has("chdir", *_CHDIR_OPTIONS.get(name, ())):
        children.opaque_reasons.append(f"`{name}` runs it in another folder")
    rest = options.operands
    while wrapper.takes_assignments and rest:
        if rest[0].value == "-":  # the old spelling of env -i
            rest = rest[1:]
            continue
        text = rest[0].value if rest[0].value is not None else rest[0].prefix
        if not (match := re.match(r"([^=]*)=", text)):
            break
        children.assignments.append((match[1], rest[0]))
        rest = rest[1:]
    if name == "sudo" and options.has("e", "edit"):
        children.opaque_reasons.append("`sudo -e` starts an editor")
    if name in ("sudo", "doas", "unshare", "nsenter") and not rest[wrapper.leading_operands :]:
        children.opaque_reasons.append(f"`{name}` without a command starts a shell")
    if any(word.value is None for word in rest[: wrapper.leading_operands]):
        children.opaque_reasons.append(f"where the options of {name} end cannot be known")
    if inner := rest[wrapper.leading_operands :]:
        children.commands.append(list(inner))
    return children


def _shell(args: Sequence[ShellWord], command: ShellCommand) -> ChildCommands:
    options = parse_options(args, "oO", _split_names("rcfile init-file"), stop_at_operand=True)
    rest = list(options.operands)
    if any(name in ("rcfile", "init-file") for name, _ in options.pairs):
        return ChildCommands(opaque_reasons=["a shell reads a file first"])
    if options.has("c"):
        while rest and (rest[0].value or "").startswith(("-", "+")):  # options may follow -c
            rest.pop(0)
        if not rest or rest[0].value is None:
            return ChildCommands(opaque_reasons=["a shell is given a text that is not known before it runs"])
        return ChildCommands(scripts=[rest[0].value])
    while rest and (rest[0].value or "").startswith("+"):
        rest.pop(0)
    if rest and not options.has("s"):
        sentence = f"a shell runs the file {rest[0].raw}"
        return ChildCommands(opaque_reasons=[sentence]) if rest[0].value is None else ChildCommands(runs_file=sentence)
    texts = [redirect.word.value for redirect in command.redirects if redirect.operator in ("<<", "<<-", "<<<")]
    script = texts[-1] if texts else None  # the shell reads the last one
    others = any(redirect.operator in ("<", "<>", "<&") for redirect in command.redirects)
    if script is None or others:
        return ChildCommands(opaque_reasons=["a shell reads its commands from its input"])
    return ChildCommands(scripts=[script])


def _xargs(args: Sequence[ShellWord]) -> ChildCommands:
    long = _split_names("arg-file delimiter max-args max-procs max-chars max-lines process-slot-var replace eof")
    options = parse_options(args, "InLPsdEaJRS", long, stop_at_operand=True, attached="ile")
    if not options.operands:
        return ChildCommands()
    marks = [value.value or "{}" for value in options.values("I", "J", "replace")]
    if options.has("i", "replace") and not any(marks):
        marks = ["{}"]
    inner = [_fill_placeholders(word, [mark or "{}" for mark in marks]) for word in options.operands]
    return ChildCommands(commands=[[*inner, UNKNOWN_WORD]])


def _fill_placeholders(word: ShellWord, placeholders: Sequence[str]) -> ShellWord:
    """Return the word as unknown if one of the placeholders in it is replaced before the command runs."""
    positions = [word.value.index(mark) for mark in placeholders if word.value is not None and mark in word.value]
    return ShellWord(None, f'"${{1}}"{word.raw}', (word.value or "")[: min(positions)]) if positions else word


def _find_between(args: Sequence[ShellWord], starts: frozenset[str], ends: frozenset[str]) -> ChildCommands:
    children = ChildCommands()
    index = 0
    while index < len(args):
        if args[index].value in starts:
            inner: list[ShellWord] = []
            index += 1
            while index < len(args) and args[index].value not in ends:
                inner.append(_fill_placeholders(args[index], ["{}", "{/}", "{//}", "{.}"]))
                index += 1
            children.commands.append([*inner, UNKNOWN_WORD] if inner else [UNKNOWN_WORD])
        index += 1
    return children


def _find_exec(args: Sequence[ShellWord]) -> ChildCommands:
    children = _find_between(args, frozenset(("-exec", "-execdir", "-ok", "-okdir")), frozenset((";", "+")))
    if any(word.may_be_option for word in args):
        children.opaque_reasons.append("an argument of find that is not known yet may make it run something")
    return children


def _fd(args: Sequence[ShellWord]) -> ChildCommands:
    children = _find_between(args, frozenset(("-x", "-X", "--exec", "--exec-batch")), frozenset((";",)))
    if any(word.may_be_option or re.match(r"-[a-zA-Z]+[xX]|--exec", word.value or "") for word in args):
        children.opaque_reasons.append("`fd` may run something")
    return children


def _eval(args: Sequence[ShellWord]) -> ChildCommands:
    texts = [word.value for word in args]
    if None in texts:
        return ChildCommands(opaque_reasons=["`eval` is given a text that is not known before it runs"])
    return ChildCommands(scripts=[" ".join(text for text in texts if text is not None)])


def _script_from_words(args: Sequence[ShellWord], name: str) -> ChildCommands:
    if not args:
        return ChildCommands()
    if any(word.value is None for word in args):
        return ChildCommands(
            opaque_reasons=[f"`{name}` is given a text that is not known before it runs"], commands=[list(args)]
        )
    return ChildCommands(scripts=[" ".join(word.value or "" for word in args)])


def _watch(args: Sequence[ShellWord]) -> ChildCommands:
    return _script_from_words(
        parse_options(args, "nqs", _split_names("interval equexit"), stop_at_operand=True).operands, "watch"
    )


def _ssh(args: Sequence[ShellWord]) -> ChildCommands:
    return _script_from_words(parse_options(args, SSH_SHORT_VALUED, stop_at_operand=True).operands[1:], "ssh")


SSH_SHORT_VALUED = "BbcDEeFIiJLlmOoPpQRSWw"


def _parallel(args: Sequence[ShellWord]) -> ChildCommands:
    rest = [word for word in args if not (word.value or "").startswith("-")]
    for index, word in enumerate(rest):
        if (word.value or "").startswith(":::"):
            rest = rest[:index]
            break
    children = _script_from_words([*rest, UNKNOWN_WORD], "parallel") if rest else ChildCommands()
    children.opaque_reasons.append("`parallel` makes its commands from what it reads")
    return children


def _flock(args: Sequence[ShellWord]) -> ChildCommands:
    options = parse_options(args, "wE", _split_names("timeout wait conflict-exit-code"), stop_at_operand=True)
    rest = options.operands[1:]
    if rest and rest[0].value in ("-c", "--command"):
        return _script_from_first_word(rest[1:2], "flock")
    return ChildCommands(commands=[rest]) if rest else ChildCommands()


def _script_from_first_word(words: Sequence[ShellWord], name: str) -> ChildCommands:
    if not words or words[0].value is None:
        return ChildCommands(opaque_reasons=[f"`{name}` is given a text that is not known before it runs"])
    return ChildCommands(scripts=[words[0].value])


def _su(args: Sequence[ShellWord]) -> ChildCommands:
    options = parse_options(args, "csgGtTw", _split_names("command session-command shell group"))
    texts = options.values("c", "command", "session-command")
    if not texts:
        return ChildCommands(opaque_reasons=["`su` starts a shell"])
    return _script_from_first_word(texts[-1:], "su")


def _script_program(args: Sequence[ShellWord]) -> ChildCommands:
    texts = parse_options(args, "cEoBIOTm", _split_names("command echo output-limit log-in log-out log-io")).values(
        "c", "command"
    )
    return (
        _script_from_first_word(texts[-1:], "script")
        if texts
        else ChildCommands(opaque_reasons=["`script` starts a shell"])
    )


def _trap(args: Sequence[ShellWord]) -> ChildCommands:
    if not args or args[0].value in ("-", "-l", "-p", ""):
        return ChildCommands()
    return _script_from_first_word(args[:1], "trap")


def _alias(args: Sequence[ShellWord]) -> ChildCommands:
    children = ChildCommands()
    for word in args:
        text = word.value if word.value is not None else word.prefix
        if "=" in text or word.value is None:
            children.opaque_reasons.append("an alias changes what a name means")
            if word.value is not None:
                children.scripts.append(word.value.partition("=")[2])
    return children


def _applet(args: Sequence[ShellWord]) -> ChildCommands:
    rest = [word for word in args if not (word.value or "").startswith("--")]
    return ChildCommands(commands=[rest]) if rest else ChildCommands()


def _run_subcommand(args: Sequence[ShellWord]) -> ChildCommands:
    """Handle `uv run pytest`, `poetry run …`."""
    if not args or args[0].value not in ("run", "exec"):
        return ChildCommands()
    rest = parse_options(
        args[1:], "p", _split_names("with python extra group project directory package env-file"), stop_at_operand=True
    )
    return ChildCommands(commands=[rest.operands]) if rest.operands else ChildCommands()


_HANDLERS: dict[str, Callable[[Sequence[ShellWord]], ChildCommands]] = {
    "xargs": _xargs,
    "find": _find_exec,
    "gfind": _find_exec,
    "fd": _fd,
    "fdfind": _fd,
    "eval": _eval,
    "watch": _watch,
    "ssh": _ssh,
    "parallel": _parallel,
    "flock": _flock,
    "su": _su,
    "runuser": _su,
    "script": _script_program,
    "trap": _trap,
    "alias": _alias,
    "busybox": _applet,
    "toybox": _applet,
    "uv": _run_subcommand,
    "poetry": _run_subcommand,
    "pipenv": _run_subcommand,
    "pdm": _run_subcommand,
    "hatch": _run_subcommand,
}
