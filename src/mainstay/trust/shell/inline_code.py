"""Detects programs that execute their own arguments: inline code (`python -c`), or other programs (`tar -I`).

`explain_opaque` returns a sentence where a command line does so, or may do so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from mainstay.trust.shell.option_parser import parse_options
from mainstay.trust.shell.syntax import AcceptedBy, OpaqueReason, ShellWord, word_set

# Environment variables that change what a harmless command runs.
_EXECUTION_VARIABLES = word_set(
    "PATH IFS ENV BASH_ENV SHELL SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE PAGER MANPAGER EDITOR VISUAL"
    " SUDO_EDITOR SUDO_ASKPASS SSH_ASKPASS BROWSER LESSOPEN LESSCLOSE LESS PYTHONSTARTUP PYTHONPATH PYTHONHOME"
    " PYTHONINSPECT PERL5OPT PERL5LIB PERL5DB PERLLIB NODE_OPTIONS NODE_PATH RUBYOPT RUBYLIB LUA_INIT LUA_PATH"
    " LUA_CPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAKEFLAGS MFLAGS MAKEFILES TAR_OPTIONS"
    " ZIPOPT RSYNC_RSH"
    " RSYNC_CONNECT_PROG CVS_RSH SVN_SSH FPATH ZDOTDIR XDG_CONFIG_HOME HOME TERMINFO TMPDIR INPUTRC HISTFILE"
    " OPENSSL_CONF CC CXX LD AS AR CPP RUSTC RUSTC_WRAPPER RUSTFLAGS CARGO_HOME GOFLAGS GCONV_PATH HOSTALIASES"
    " MALLOC_CHECK_ FZF_DEFAULT_COMMAND RIPGREP_CONFIG_PATH WGETRC CURL_HOME DOCKER_HOST KUBECONFIG"
)
_EXECUTION_VARIABLE_PREFIXES = (
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "NPM_CONFIG_",
    "npm_config_",
    "PIP_",
    "UV_",
    "CARGO_",
)


def affects_execution(name: str) -> bool:
    """Return True if setting this environment variable may change which programs run, or what they do."""
    return name in _EXECUTION_VARIABLES or name.startswith(_EXECUTION_VARIABLE_PREFIXES)


class _CodeOptions(msgspec.Struct, frozen=True):
    """The options with which a program executes code or other programs."""

    short: str = ""
    long: tuple[str, ...] = ()
    valued: str = ""  # every short option that takes a value, including those in `short`
    long_valued: tuple[str, ...] = ()  # other long options that take a value
    stop_at_operand: bool = False  # the first operand ends the options
    reads_stdin: bool = False  # without operands it executes its standard input
    version_options: tuple[str, ...] = ("--version", "--help")  # alone, they print and read nothing


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PYTHON = _CodeOptions(
    "c", (), "cmWX", (), stop_at_operand=True, reads_stdin=True, version_options=("--version", "--help", "-V")
)
_NODE = _CodeOptions(
    "epr", _split_names("eval print require import loader experimental-loader"), "rC", ("title",), True, True
)
_PERL = _CodeOptions("eEMmdx", (), "eEMmdxIDC", (), stop_at_operand=True, reads_stdin=True)
_LUA = _CodeOptions("eil", (), "el", (), stop_at_operand=True, reads_stdin=True)
_AWK = _CodeOptions(
    "fiElD", _split_names("file include exec load source debug"), "fiElvF", _split_names("assign field-separator"), True
)
_COMPILER = _CodeOptions("B", _split_names("wrapper plugin specs"))

_CODE_OPTIONS: dict[str, _CodeOptions] = {
    "perl": _PERL,
    "ruby": _CodeOptions("er", (), "erICE", (), stop_at_operand=True, reads_stdin=True),
    "node": _NODE,
    "nodejs": _NODE,
    "bun": _NODE,
    "php": _CodeOptions(
        "rRBEFda", _split_names("run process-code process-begin process-end define"), "rRBEFdcz", (), True, True
    ),
    "lua": _LUA,
    "luajit": _LUA,
    "Rscript": _CodeOptions("e", ("expr",), "e", (), stop_at_operand=True, reads_stdin=True),
    "R": _CodeOptions("ef", ("file",), "ef", (), reads_stdin=True),
    "julia": _CodeOptions("eELi", _split_names("eval print load"), "eEL", (), stop_at_operand=True, reads_stdin=True),
    "tclsh": _CodeOptions(stop_at_operand=True, reads_stdin=True, version_options=()),
    "expect": _CodeOptions("cfi", (), "cf", (), stop_at_operand=True, reads_stdin=True, version_options=()),
    "guile": _CodeOptions("cles", (), "cle", (), stop_at_operand=True, reads_stdin=True),
    "osascript": _CodeOptions("e", (), "el", (), reads_stdin=True),
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "nawk": _AWK,
    "tar": _CodeOptions(
        "IF",
        _split_names(
            "checkpoint-action to-command use-compress-program info-script new-volume-script rsh-command rmt-command"
            " compress-program"
        ),
        "IFfCbTXgHKLNVA",
        _split_names(
            "file directory exclude files-from transform owner group mode mtime strip-components exclude-from"
        ),
    ),
    "cpio": _CodeOptions("", _split_names("rsh-command to-command"), "CEFHIMOR"),
    "rsync": _CodeOptions(
        "e", _split_names("rsh rsync-path"), "efTBM", _split_names("exclude include filter files-from max-size")
    ),
    "ssh": _CodeOptions("FIO", (), "BbcDEeFIiJLlmOoPpQRSWw", (), stop_at_operand=True),
    "scp": _CodeOptions("SFD", (), "cDFiJloPSX"),
    "sftp": _CodeOptions("SFDb", (), "BbcDFiJloPRSsX"),
    "wget": _CodeOptions("e", _split_names("execute use-askpass config"), "eoaiBtOTwQPUDARIXl"),
    "curl": _CodeOptions("K", ("config",), "KAbcCdDeEFHmoPQrtTuUwxXyYz"),
    "aria2c": _CodeOptions(
        "", _split_names("conf-path on-download-start on-download-complete on-download-error on-download-stop")
    ),
    "sort": _CodeOptions(
        "", ("compress-program",), "koStT", _split_names("key output buffer-size field-separator parallel")
    ),
    "split": _CodeOptions("", ("filter",), "abClntn"),
    "install": _CodeOptions("", ("strip-program",), "gmotS", _split_names("group mode owner suffix target-directory")),
    "rg": _CodeOptions("", _split_names("pre hostname-bin"), "ABCEMTdefgjmrt"),
    "ag": _CodeOptions("", ("pager",)),
    "zip": _CodeOptions("T", _split_names("unzip-command test"), "bnt"),
    "man": _CodeOptions("PHTXC", _split_names("pager html browser troff gxditview config-file"), "PHTXCLMSsep"),
    "less": _CodeOptions("kT", _split_names("lesskey-file lesskey-src lesskey-content tag"), "kToObhjpPtxyz"),
    "more": _CodeOptions(),
    "gcc": _COMPILER,
    "g++": _COMPILER,
    "cc": _COMPILER,
    "c++": _COMPILER,
    "clang": _COMPILER,
    "pandoc": _CodeOptions("FL", _split_names("filter lua-filter pdf-engine extract-media"), "FLftoVMHBAT"),
    "fzf": _CodeOptions("", _split_names("preview bind execute listen")),
    "nc": _CodeOptions("ec", ("exec",), "ecipqswxXTIOPV"),
    "ncat": _CodeOptions("ec", _split_names("exec sh-exec lua-exec"), "ecipqswmdgG"),
    "netcat": _CodeOptions("ec", ("exec",), "ecipqswxX"),
    "tcpdump": _CodeOptions("zw", (), "zwcCFGiMrsTVWyE"),
    "nmap": _CodeOptions("", _split_names("script script-args datadir resume")),
    "ip": _CodeOptions("", _split_names("batch")),
    "ctags": _CodeOptions("", _split_names("options filter")),
    "gpg": _CodeOptions("", _split_names("exec-path agent-program photo-viewer keyserver-program options")),
    "openssl": _CodeOptions(),
    "mysql": _CodeOptions("e", _split_names("execute pager"), "eDhuP", reads_stdin=True),
    "flex": _CodeOptions(),
}

# Programs with a language, shell or scheduler built in, whatever their arguments are.
_ALWAYS_OPAQUE = {
    **dict.fromkeys(("source", "."), "runs the commands of a file"),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "ed", "emacs", "emacsclient", "nano"), "can run anything"),
    **dict.fromkeys(("gdb", "lldb", "tmux", "screen", "expect", "socat", "rlwrap", "dtach"), "can run anything"),
    **dict.fromkeys(("at", "batch", "crontab", "systemd-run", "systemctl", "launchctl"), "runs commands later"),
    **dict.fromkeys(
        ("docker", "podman", "nerdctl", "kubectl", "oc", "lxc", "machinectl", "vagrant"),
        "runs commands in another environment",
    ),
    **dict.fromkeys(("hash", "enable", "bind", "complete", "mapfile", "readarray"), "can change what a name means"),
    **dict.fromkeys(("nix-shell", "nix", "direnv", "bwrap", "proot", "qemu-system-x86_64", "wine"), "can run anything"),
    **dict.fromkeys(
        ("ansible", "ansible-playbook", "terraform", "salt", "pssh", "pdsh"), "runs commands in another environment"
    ),
    **dict.fromkeys(("dbus-send", "busctl", "gdbus", "xdotool", "osacompile", "deno", "jshell"), "can run anything"),
    **dict.fromkeys(
        ("run-parts", "start-stop-daemon", "daemonize", "supervisorctl", "capsh", "sg"), "can run anything"
    ),
}
# Of these, the programs that run shell commands from their input, or change what a name means later in the script: no
# rule accepts them.
_NEVER_ACCEPTED = frozenset(("at", "batch", "hash", "enable", "bind", "complete", "mapfile", "readarray"))
# Of these, the programs that start another program of this machine, which a rule for the first must not allow.
_LOCAL_STARTERS = word_set(
    "systemd-run nix-shell nix direnv bwrap proot wine run-parts start-stop-daemon daemonize capsh sg rlwrap dtach"
    " tmux screen expect socat gdb lldb crontab"
)

_AWK_RUNS = re.compile(r"system|\||getline|@|/inet")
_SED_SAFE = re.compile(
    r"""(?:
        [\s;{}]+
      | \#[^\n]*(?:\n|$)
      | (?:(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*)(?:,(?:[~+]?\d+|\$|/(?:[^/\\\n]|\\.)*/[IM]*))?\s*!?\s*)?
        (?:
            s([/|,\#@:!%_+~])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\]|\\.)*\1[gpiIm0-9]*(?=[\s;}]|$)
          | y([/|,])(?:(?!\2)[^\\]|\\.)*\2(?:(?!\2)[^\\]|\\.)*\2
          | [pdgGhHxDPnNz=](?=[\s;}]|$)
          | [qQl]\s*\d*(?=[\s;}]|$)
          | [btT]\s*\w*(?=[\s;}]|$)
          | :\s*\w+
          | [aic](?:\\\n|\\|\s)[^\n]*(?:\n|$)
          | \{
        )
    )*""",
    re.VERBOSE | re.DOTALL,
)
_SED_CHARS_MAX = 4096
_NAME_CHARS_MAX = 64  # no known program has a longer name


def explain_opaque(name: str, args: Sequence[ShellWord]) -> OpaqueReason | None:
    """Return why the effect of this command cannot be read from its words; None if it can."""
    if name in _ALWAYS_OPAQUE:
        accepted_by: AcceptedBy = "" if name in _NEVER_ACCEPTED else "exact" if name in _LOCAL_STARTERS else "name"
        return OpaqueReason(f"`{name}` {_ALWAYS_OPAQUE[name]}", accepted_by)
    danger = _find_code_options(name)
    if danger is _PYTHON and (sentence := _python(args)) is not None:
        return OpaqueReason(sentence, "name")
    if danger is not None and (reason := _check_options(name, danger, args)) is not None:
        return reason
    check = _CHECKS.get(name)
    sentence = check(args) if check is not None else None
    return None if sentence is None else OpaqueReason(sentence)


@lru_cache(maxsize=512)
def _find_code_options(name: str) -> _CodeOptions | None:
    if len(name) > _NAME_CHARS_MAX:
        return None
    if re.fullmatch(r"(?:python|pypy)[\d.]*[a-z]?", name):
        return _PYTHON
    return _CODE_OPTIONS.get(name) or _CODE_OPTIONS.get(re.sub(r"-?\d+(\.\d+)*$", "", name))  # perl5.36 is perl


def _check_options(name: str, code_options: _CodeOptions, args: Sequence[ShellWord]) -> OpaqueReason | None:
    """Look for options that run code. A program with a language of its own (`reads_stdin`) runs the code that it is
    given in a file, too, and is not asked about then: naming it allows code in its arguments and its input as well."""
    accepted_by: AcceptedBy = "name" if code_options.reads_stdin else "exact"
    options = parse_options(
        args, code_options.valued, code_options.long_valued, stop_at_operand=code_options.stop_at_operand
    )
    for letter in code_options.short:
        if any(option == letter for option, _ in options.pairs):
            return OpaqueReason(f"`{name} -{letter}` runs code from its arguments", accepted_by)
    for long_option in code_options.long:
        if options.has(long_option) or any((word.value or word.prefix).startswith(f"-{long_option}") for word in args):
            return OpaqueReason(f"`{name} --{long_option}` runs code from its arguments", accepted_by)
    if options.may_have_more and (code_options.short or code_options.long):
        return OpaqueReason(f"an argument of {name} that is not known yet may make it run something")
    if not code_options.reads_stdin or (len(args) == 1 and args[0].value in code_options.version_options):
        return None
    if code_options is _PYTHON and options.has("m"):
        return None  # the module is named, and what follows are its arguments
    if not options.operands or options.operands[0].value in (None, "-", "/dev/stdin", "/dev/fd/0"):
        return OpaqueReason(f"`{name}` reads commands from its input or a file", "input")
    return None


_PYTHON_CODE_MODULES = word_set(
    "timeit code pdb bdb trace cProfile profile runpy doctest asyncio sqlite3 idlelib IPython ptpython bpython"
)


def _python(args: Sequence[ShellWord]) -> str | None:
    modules = [value.value for value in parse_options(args, "cmWX", stop_at_operand=True).values("m")]
    if any(module is None or module.partition(".")[0] in _PYTHON_CODE_MODULES for module in modules):
        return "`python -m` runs code from its arguments"
    return None


def _awk(args: Sequence[ShellWord]) -> str | None:
    operands = parse_options(args, "fiElvF", ("assign", "field-separator"), stop_at_operand=True).operands
    if operands and operands[0].value is None:
        return "`awk` is given a program that is not known before it runs"
    if operands and _AWK_RUNS.search(operands[0].value or ""):
        return "this awk program can run others"
    return None


def _sed(args: Sequence[ShellWord]) -> str | None:
    options = parse_options(args, "efl", ("expression", "file", "line-length"), attached="i")
    if options.has("f", "file"):
        return "`sed` reads its program from a file"
    scripts = options.values("e", "expression") or options.operands[:1]
    for script in scripts:
        if script.value is None or len(script.value) > _SED_CHARS_MAX:
            return "`sed` is given a program that is not known before it runs"
        match = _SED_SAFE.match(script.value)
        if match is None or match.end() != len(script.value):
            return "this sed program can run other programs, or write to files"
    if options.may_have_more:
        return "an argument of sed that is not known yet may be its program"
    return None


def _tar(args: Sequence[ShellWord]) -> str | None:
    first = args[0].value if args else None
    if first and not first.startswith("-") and re.search("[IF]", first):
        return "`tar` has an option that runs a program"
    return None


def _make(args: Sequence[ShellWord]) -> str | None:
    options = parse_options(args, "CfIojlWE", ("file", "directory", "makefile", "eval", "include-dir"))
    if options.has("eval", "E") or any(
        (value.value or "-") in ("-", "/dev/stdin") for value in options.values("f", "file")
    ):
        return "`make` is given rules in its arguments"
    if options.may_have_more or any("=" in (word.value or "=") for word in options.operands):
        return "a variable given to make can hold commands"
    return None


def _remote_shell(args: Sequence[ShellWord]) -> str | None:
    options = parse_options(args, "BbcDEeFIiJLlmOoPpQRSWwX", stop_at_operand=True)
    for value in options.values("o"):
        text = (value.value or "").replace(" ", "=").lower()
        if not text or re.match(
            r"proxycommand|localcommand|permitlocal|knownhostscommand|.*provider|include|match", text
        ):
            return "an option of ssh makes it run a program"
    if any((word.value or "").startswith("-") for word in options.operands[:1]):
        return "a host that begins with - is an option"
    return None


def _sqlite(args: Sequence[ShellWord]) -> str | None:
    texts = [word.value for word in args]
    if None in texts or any(text in ("-cmd", "--cmd", "-init", "--init") for text in texts):
        return "`sqlite3` is given commands that are not known before it runs"
    operands = [text for text in texts if text and not text.startswith("-")]
    if len(operands) < 2:
        return "`sqlite3` reads commands from its input or a file"
    if any(re.search(r"(?:^|\n)\s*\.|load_extension|writefile|edit\s*\(", text) for text in operands[1:]):
        return "this is a command of sqlite3 that can run others"
    return None


def _psql(args: Sequence[ShellWord]) -> str | None:
    if any(word.value is None or re.search(r"\\|\bprogram\b|^-[a-zA-Z]*f|^--file", word.value, re.I) for word in args):
        return "`psql` can run other programs"
    return None


def _less(args: Sequence[ShellWord]) -> str | None:
    if any((word.value or "").startswith("+") or word.may_be_option for word in args):
        return "a pager is given commands"
    return None


def _export(args: Sequence[ShellWord]) -> str | None:
    for word in args:
        text = word.value if word.value is not None else word.prefix
        if word.may_be_option or affects_execution(re.split(r"\+?=", text)[0]):
            return f"setting {text.split('=')[0] or 'a variable'} may change what runs"
    return None


def _set(args: Sequence[ShellWord]) -> str | None:
    return (
        "an option of the shell is not known before it runs" if any(word.may_be_option for word in args[:1]) else None
    )


def _printf(args: Sequence[ShellWord]) -> str | None:
    if args and (args[0].value or args[0].prefix).startswith("-v"):
        return _export(args[1:2]) or (None if args[1:2] and args[1].value else "`printf` sets a variable")
    return None


_CHECKS: dict[str, Callable[[Sequence[ShellWord]], str | None]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("make", "gmake", "bmake"), _make),
    **dict.fromkeys(("ssh", "scp", "sftp"), _remote_shell),
    **dict.fromkeys(("less", "more", "most", "pg"), _less),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly", "read", "unset", "getopts"), _export),
    "sqlite3": _sqlite,
    "psql": _psql,
    "printf": _printf,
    "set": _set,
}
