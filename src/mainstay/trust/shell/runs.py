"""Programs that run other programs: what `env`, `xargs`, `sh -c` and their like really start."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from mainstay.trust.shell.nouns import UNKNOWN, Command, Word, names
from mainstay.trust.shell.options import read_options

SHELLS = names("sh bash dash ash ksh mksh zsh rbash")
_FOREIGN_SHELLS = names("fish csh tcsh nu pwsh powershell elvish xonsh")

# Wrappers that only change how something runs: whoever may run that may run it through these.
TRANSPARENT = names(
    "env nice nohup timeout gtimeout time xargs command builtin exec eval stdbuf setsid ionice busybox toybox watch"
    " flock unbuffer noglob nocorrect chronic"
) | frozenset(SHELLS)


class Runs(msgspec.Struct):
    """What a command starts: word lists, and texts that a shell reads. `unclear` says why that is not all."""

    commands: list[list[Word]] = []
    scripts: list[str] = []
    assigned: list[tuple[str, Word]] = []
    unclear: list[str] = []


class _Wrapper(msgspec.Struct, frozen=True):
    """A wrapper's options, and how many operands stand before the command."""

    valued: str = ""
    long: tuple[str, ...] = ()
    operands: int = 0
    attached: str = ""
    assigns: bool = False


def _long(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WRAPPERS: dict[str, _Wrapper] = {
    "env": _Wrapper("uCPa", _long("unset chdir argv0"), assigns=True),
    "nice": _Wrapper("n", ("adjustment",), attached="0123456789"),
    "nohup": _Wrapper(),
    "timeout": _Wrapper("ks", _long("kill-after signal"), operands=1),
    "gtimeout": _Wrapper("ks", _long("kill-after signal"), operands=1),
    "time": _Wrapper("fo", _long("format output")),
    "sudo": _Wrapper("ugpCDhRTUrta", _long("user group prompt close-from chdir host chroot role type"), assigns=True),
    "doas": _Wrapper("uCa"),
    "pkexec": _Wrapper("", ("user",)),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "noglob": _Wrapper(),
    "nocorrect": _Wrapper(),
    "exec": _Wrapper("a"),
    "stdbuf": _Wrapper("ioe", _long("input output error")),
    "setsid": _Wrapper(),
    "ionice": _Wrapper("cnpPu", _long("class classdata pid")),
    "chrt": _Wrapper("pTPD", operands=1),
    "taskset": _Wrapper("", operands=1),
    "chroot": _Wrapper("", _long("groups userspec"), operands=1),
    "unshare": _Wrapper("SGRwl", _long("setuid setgid root wd setgroups propagation"), attached="umnpCiUT"),
    "nsenter": _Wrapper("tSGrw", _long("target setuid setgid")),
    "setarch": _Wrapper("", operands=1),
    "prlimit": _Wrapper("p", ("pid",)),
    "strace": _Wrapper("eopsuEaIObPSX", _long("output trace")),
    "ltrace": _Wrapper("eopsuaFlnwx", ("output",)),
    "fakeroot": _Wrapper("lsib"),
    "unbuffer": _Wrapper(),
    "chronic": _Wrapper(),
    "torsocks": _Wrapper(),
    "proxychains": _Wrapper("f"),
    "proxychains4": _Wrapper("f"),
    "dbus-run-session": _Wrapper("", ("config-file",)),
    "xvfb-run": _Wrapper("efnpsw"),
    "firejail": _Wrapper(),
    "caffeinate": _Wrapper("tw"),
    "arch": _Wrapper(),
    "entr": _Wrapper(),
    "ts": _Wrapper(),
}


_MOVES = {
    "env": "C",
    "sudo": ("D", "R", "chroot"),
    "unshare": ("w", "R", "wd", "root"),
    "nsenter": ("w", "r", "wd", "root"),
}


def what_runs(name: str, command: Command) -> Runs | None:
    """None: it runs nothing but itself, as far as its arguments say."""
    args = command.words[1:]
    if name in SHELLS:
        return _shell(args, command)
    if name in _FOREIGN_SHELLS:
        return Runs(unclear=[f"`{name}` has a language of its own"])
    if name in _WRAPPERS:
        return _wrapped(name, _WRAPPERS[name], args)
    special = _SPECIAL.get(name)
    return None if special is None else special(args)


def _wrapped(name: str, wrapper: _Wrapper, args: Sequence[Word]) -> Runs:
    options = read_options(args, wrapper.valued, wrapper.long, stop=True, attached=wrapper.attached)
    made = Runs()
    if name == "env" and options.has("S", "split-string"):
        made.unclear.append("`env -S` splits a text into a command of its own")
        return made
    if name == "command" and options.has("v", "V"):
        return made  # it only looks
    if name in ("ionice", "chrt", "taskset", "prlimit") and options.has("p", "pid"):
        return made
    if name in ("strace", "ltrace") and any("|" in (value.value or "|") for value in options.values("o", "output")):
        made.unclear.append(f"`{name} -o` may start a program")
    if name == "chroot" or options.has("chdir", *_MOVES.get(name, ())):
        made.unclear.append(f"`{name}` runs it in another folder")
    rest = options.operands
    while wrapper.assigns and rest:
        if rest[0].value == "-":  # env's old way to say -i
            rest = rest[1:]
            continue
        text = rest[0].value if rest[0].value is not None else rest[0].prefix
        if not (found := re.match(r"([^=]*)=", text)):
            break
        made.assigned.append((found[1], rest[0]))
        rest = rest[1:]
    if name == "sudo" and options.has("e", "edit"):
        made.unclear.append("`sudo -e` starts an editor")
    if name in ("sudo", "doas", "unshare", "nsenter") and not rest[wrapper.operands :]:
        made.unclear.append(f"`{name}` without a command starts a shell")
    if any(word.value is None for word in rest[: wrapper.operands]):
        made.unclear.append(f"where the options of {name} end cannot be known")
    if inner := rest[wrapper.operands :]:
        made.commands.append(list(inner))
    return made


def _shell(args: Sequence[Word], command: Command) -> Runs:
    options = read_options(args, "oO", _long("rcfile init-file"), stop=True)
    rest = list(options.operands)
    if any(name in ("rcfile", "init-file") for name, _ in options.given):
        return Runs(unclear=["a shell is told to read a file first"])
    if options.has("c"):
        while rest and (rest[0].value or "").startswith(("-", "+")):  # options may follow -c
            rest.pop(0)
        if not rest or rest[0].value is None:
            return Runs(unclear=["a shell is given a text that is not known before it runs"])
        return Runs(scripts=[rest[0].value])
    while rest and (rest[0].value or "").startswith("+"):
        rest.pop(0)
    if rest and not options.has("s"):
        return Runs(unclear=[f"a shell runs the file {rest[0].raw}"])
    texts = [redirect.word.value for redirect in command.redirects if redirect.operator in ("<<", "<<-", "<<<")]
    given = texts[-1] if texts else None  # the last one is what it reads
    others = any(redirect.operator in ("<", "<>", "<&") for redirect in command.redirects)
    if given is None or others:
        return Runs(unclear=["a shell reads its commands from elsewhere"])
    return Runs(scripts=[given])


def _xargs(args: Sequence[Word]) -> Runs:
    long = _long("arg-file delimiter max-args max-procs max-chars max-lines process-slot-var replace eof")
    options = read_options(args, "InLPsdEaJRS", long, stop=True, attached="ile")
    if not options.operands:
        return Runs()
    marks = [value.value or "{}" for value in options.values("I", "J", "replace")]
    if options.has("i", "replace") and not any(marks):
        marks = ["{}"]
    inner = [_filled(word, [mark or "{}" for mark in marks]) for word in options.operands]
    return Runs(commands=[[*inner, UNKNOWN]])


def _filled(word: Word, marks: Sequence[str]) -> Word:
    """A word that something else is put into before it runs."""
    places = [word.value.index(mark) for mark in marks if word.value is not None and mark in word.value]
    return Word(None, f'"${{1}}"{word.raw}', (word.value or "")[: min(places)]) if places else word


def _find(args: Sequence[Word], starts: frozenset[str], ends: frozenset[str]) -> Runs:
    made = Runs()
    at = 0
    while at < len(args):
        if args[at].value in starts:
            inner: list[Word] = []
            at += 1
            while at < len(args) and args[at].value not in ends:
                inner.append(_filled(args[at], ["{}", "{/}", "{//}", "{.}"]))
                at += 1
            made.commands.append([*inner, UNKNOWN] if inner else [UNKNOWN])
        at += 1
    return made


def _find_exec(args: Sequence[Word]) -> Runs:
    made = _find(args, frozenset(("-exec", "-execdir", "-ok", "-okdir")), frozenset((";", "+")))
    if any(word.may_be_option for word in args):
        made.unclear.append("an argument of find that is not known yet may make it run something")
    return made


def _fd(args: Sequence[Word]) -> Runs:
    made = _find(args, frozenset(("-x", "-X", "--exec", "--exec-batch")), frozenset((";",)))
    if any(word.may_be_option or re.match(r"-[a-zA-Z]+[xX]|--exec", word.value or "") for word in args):
        made.unclear.append("`fd` may run something")
    return made


def _eval(args: Sequence[Word]) -> Runs:
    texts = [word.value for word in args]
    if None in texts:
        return Runs(unclear=["`eval` is given a text that is not known before it runs"])
    return Runs(scripts=[" ".join(text for text in texts if text is not None)])


def _joined(args: Sequence[Word], name: str) -> Runs:
    if not args:
        return Runs()
    if any(word.value is None for word in args):
        return Runs(unclear=[f"`{name}` is given a text that is not known before it runs"], commands=[list(args)])
    return Runs(scripts=[" ".join(word.value or "" for word in args)])


def _watch(args: Sequence[Word]) -> Runs:
    return _joined(read_options(args, "nqs", _long("interval equexit"), stop=True).operands, "watch")


def _ssh(args: Sequence[Word]) -> Runs:
    return _joined(read_options(args, SSH_VALUED, stop=True).operands[1:], "ssh")


SSH_VALUED = "BbcDEeFIiJLlmOoPpQRSWw"


def _parallel(args: Sequence[Word]) -> Runs:
    rest = [word for word in args if not (word.value or "").startswith("-")]
    for at, word in enumerate(rest):
        if (word.value or "").startswith(":::"):
            rest = rest[:at]
            break
    made = _joined([*rest, UNKNOWN], "parallel") if rest else Runs()
    made.unclear.append("`parallel` makes its commands from what it reads")
    return made


def _flock(args: Sequence[Word]) -> Runs:
    options = read_options(args, "wE", _long("timeout wait conflict-exit-code"), stop=True)
    rest = options.operands[1:]
    if rest and rest[0].value in ("-c", "--command"):
        return _script_of(rest[1:2], "flock")
    return Runs(commands=[rest]) if rest else Runs()


def _script_of(words: Sequence[Word], name: str) -> Runs:
    if not words or words[0].value is None:
        return Runs(unclear=[f"`{name}` is given a text that is not known before it runs"])
    return Runs(scripts=[words[0].value])


def _su(args: Sequence[Word]) -> Runs:
    options = read_options(args, "csgGtTw", _long("command session-command shell group"))
    texts = options.values("c", "command", "session-command")
    if not texts:
        return Runs(unclear=["`su` starts a shell"])
    return _script_of(texts[-1:], "su")


def _script(args: Sequence[Word]) -> Runs:
    texts = read_options(args, "cEoBIOTm", _long("command echo output-limit log-in log-out log-io")).values(
        "c", "command"
    )
    return _script_of(texts[-1:], "script") if texts else Runs(unclear=["`script` starts a shell"])


def _trap(args: Sequence[Word]) -> Runs:
    if not args or args[0].value in ("-", "-l", "-p", ""):
        return Runs()
    return _script_of(args[:1], "trap")


def _alias(args: Sequence[Word]) -> Runs:
    made = Runs()
    for word in args:
        text = word.value if word.value is not None else word.prefix
        if "=" in text or word.value is None:
            made.unclear.append("an alias changes what a name means")
            if word.value is not None:
                made.scripts.append(word.value.partition("=")[2])
    return made


def _applet(args: Sequence[Word]) -> Runs:
    rest = [word for word in args if not (word.value or "").startswith("--")]
    return Runs(commands=[rest]) if rest else Runs()


def _run_subcommand(args: Sequence[Word]) -> Runs:
    """`uv run pytest`, `poetry run …`."""
    if not args or args[0].value not in ("run", "exec"):
        return Runs()
    rest = read_options(args[1:], "p", _long("with python extra group project directory package env-file"), stop=True)
    return Runs(commands=[rest.operands]) if rest.operands else Runs()


_SPECIAL: dict[str, Callable[[Sequence[Word]], Runs]] = {
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
    "script": _script,
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
