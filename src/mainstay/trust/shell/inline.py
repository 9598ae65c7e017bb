"""Programs that carry out what stands in their own arguments: code, or the names of other programs.

`how_opaque` answers with a sentence where that happens, or may happen, in a command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from mainstay.trust.shell.nouns import Word, names
from mainstay.trust.shell.options import read_options

# A name set to something else changes what an innocent command runs.
_TELLING = names(
    "PATH IFS ENV BASH_ENV SHELL SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE PAGER MANPAGER EDITOR VISUAL"
    " SUDO_EDITOR SUDO_ASKPASS SSH_ASKPASS BROWSER LESSOPEN LESSCLOSE LESS PYTHONSTARTUP PYTHONPATH PYTHONHOME"
    " PYTHONINSPECT PERL5OPT PERL5LIB PERL5DB PERLLIB NODE_OPTIONS NODE_PATH RUBYOPT RUBYLIB LUA_INIT LUA_PATH"
    " LUA_CPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAKEFLAGS MFLAGS MAKEFILES TAR_OPTIONS"
    " ZIPOPT RSYNC_RSH"
    " RSYNC_CONNECT_PROG CVS_RSH SVN_SSH FPATH ZDOTDIR XDG_CONFIG_HOME HOME TERMINFO TMPDIR INPUTRC HISTFILE"
    " OPENSSL_CONF CC CXX LD AS AR CPP RUSTC RUSTC_WRAPPER RUSTFLAGS CARGO_HOME GOFLAGS GCONV_PATH HOSTALIASES"
    " MALLOC_CHECK_ FZF_DEFAULT_COMMAND RIPGREP_CONFIG_PATH WGETRC CURL_HOME DOCKER_HOST KUBECONFIG"
)
_TELLING_BEGINNINGS = ("LD_", "DYLD_", "GIT_", "BASH_FUNC_", "NPM_CONFIG_", "npm_config_", "PIP_", "UV_", "CARGO_")


def telling_name(name: str) -> bool:
    """True if setting this variable may change which programs run, or what they do."""
    return name in _TELLING or name.startswith(_TELLING_BEGINNINGS)


class _Danger(msgspec.Struct, frozen=True):
    """Options with which a program runs code or others. `bare`: so it does with no operand at all, from its input."""

    short: str = ""
    long: tuple[str, ...] = ()
    valued: str = ""  # short options with a value, these included
    takes: tuple[str, ...] = ()  # long ones with a value
    stop: bool = False
    bare: bool = False


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PYTHON = _Danger("c", (), "cmWX", (), stop=True, bare=True)
_NODE = _Danger("epr", _names("eval print require import loader experimental-loader"), "rC", ("title",), True, True)
_PERL = _Danger("eEMmdx", (), "eEMmdxIDC", (), stop=True, bare=True)
_LUA = _Danger("eil", (), "el", (), stop=True, bare=True)
_AWK = _Danger("fiElD", _names("file include exec load source debug"), "fiElvF", _names("assign field-separator"), True)
_COMPILER = _Danger("B", _names("wrapper plugin specs"))

_DANGERS: dict[str, _Danger] = {
    "perl": _PERL,
    "ruby": _Danger("er", (), "erICE", (), stop=True, bare=True),
    "node": _NODE,
    "nodejs": _NODE,
    "bun": _NODE,
    "php": _Danger("rRBEFda", _names("run process-code process-begin process-end define"), "rRBEFdcz", (), True, True),
    "lua": _LUA,
    "luajit": _LUA,
    "Rscript": _Danger("e", ("expr",), "e", (), stop=True, bare=True),
    "R": _Danger("ef", ("file",), "ef", (), bare=True),
    "julia": _Danger("eELi", _names("eval print load"), "eEL", (), stop=True, bare=True),
    "tclsh": _Danger(stop=True, bare=True),
    "expect": _Danger("cfi", (), "cf", (), stop=True, bare=True),
    "guile": _Danger("cles", (), "cle", (), stop=True, bare=True),
    "osascript": _Danger("e", (), "el", (), bare=True),
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "nawk": _AWK,
    "tar": _Danger(
        "IF",
        _names(
            "checkpoint-action to-command use-compress-program info-script new-volume-script rsh-command rmt-command"
            " compress-program"
        ),
        "IFfCbTXgHKLNVA",
        _names("file directory exclude files-from transform owner group mode mtime strip-components exclude-from"),
    ),
    "cpio": _Danger("", _names("rsh-command to-command"), "CEFHIMOR"),
    "rsync": _Danger("e", _names("rsh rsync-path"), "efTBM", _names("exclude include filter files-from max-size")),
    "ssh": _Danger("FIO", (), "BbcDEeFIiJLlmOoPpQRSWw", (), stop=True),
    "scp": _Danger("SFD", (), "cDFiJloPSX"),
    "sftp": _Danger("SFDb", (), "BbcDFiJloPRSsX"),
    "wget": _Danger("e", _names("execute use-askpass config"), "eoaiBtOTwQPUDARIXl"),
    "curl": _Danger("K", ("config",), "KAbcCdDeEFHmoPQrtTuUwxXyYz"),
    "aria2c": _Danger(
        "", _names("conf-path on-download-start on-download-complete on-download-error on-download-stop")
    ),
    "sort": _Danger("", ("compress-program",), "koStT", _names("key output buffer-size field-separator parallel")),
    "split": _Danger("", ("filter",), "abClntn"),
    "install": _Danger("", ("strip-program",), "gmotS", _names("group mode owner suffix target-directory")),
    "rg": _Danger("", _names("pre hostname-bin"), "ABCEMTdefgjmrt"),
    "ag": _Danger("", ("pager",)),
    "zip": _Danger("T", _names("unzip-command test"), "bnt"),
    "man": _Danger("PHTXC", _names("pager html browser troff gxditview config-file"), "PHTXCLMSsep"),
    "less": _Danger("kT", _names("lesskey-file lesskey-src lesskey-content tag"), "kToObhjpPtxyz"),
    "more": _Danger(),
    "gcc": _COMPILER,
    "g++": _COMPILER,
    "cc": _COMPILER,
    "c++": _COMPILER,
    "clang": _COMPILER,
    "pandoc": _Danger("FL", _names("filter lua-filter pdf-engine extract-media"), "FLftoVMHBAT"),
    "fzf": _Danger("", _names("preview bind execute listen")),
    "nc": _Danger("ec", ("exec",), "ecipqswxXTIOPV"),
    "ncat": _Danger("ec", _names("exec sh-exec lua-exec"), "ecipqswmdgG"),
    "netcat": _Danger("ec", ("exec",), "ecipqswxX"),
    "tcpdump": _Danger("zw", (), "zwcCFGiMrsTVWyE"),
    "nmap": _Danger("", _names("script script-args datadir resume")),
    "ip": _Danger("", _names("batch")),
    "ctags": _Danger("", _names("options filter")),
    "gpg": _Danger("", _names("exec-path agent-program photo-viewer keyserver-program options")),
    "openssl": _Danger(),
    "mysql": _Danger("e", _names("execute pager"), "eDhuP", bare=True),
    "flex": _Danger(),
}

# These have a language, a shell or a schedule inside, whatever their arguments say.
_ALWAYS = {
    **dict.fromkeys(("source", "."), "runs the commands of a file"),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "ed", "emacs", "emacsclient", "nano"), "can run anything"),
    **dict.fromkeys(("gdb", "lldb", "tmux", "screen", "expect", "socat", "rlwrap", "dtach"), "can run anything"),
    **dict.fromkeys(("at", "batch", "crontab", "systemd-run", "systemctl", "launchctl"), "runs things later"),
    **dict.fromkeys(
        ("docker", "podman", "nerdctl", "kubectl", "oc", "lxc", "machinectl", "vagrant"), "runs things elsewhere"
    ),
    **dict.fromkeys(("hash", "enable", "bind", "complete", "mapfile", "readarray"), "can change what a name means"),
    **dict.fromkeys(("nix-shell", "nix", "direnv", "bwrap", "proot", "qemu-system-x86_64", "wine"), "can run anything"),
    **dict.fromkeys(("ansible", "ansible-playbook", "terraform", "salt", "pssh", "pdsh"), "runs things elsewhere"),
    **dict.fromkeys(("dbus-send", "busctl", "gdbus", "xdotool", "osacompile", "deno", "jshell"), "can run anything"),
    **dict.fromkeys(
        ("run-parts", "start-stop-daemon", "daemonize", "supervisorctl", "capsh", "sg"), "can run anything"
    ),
}

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
_NAME_CHARS_MAX = 64  # no program that is known has a longer one


def how_opaque(name: str, args: Sequence[Word]) -> str | None:
    """Why nobody can tell what this command does from its words; None if its words say it."""
    if name in _ALWAYS:
        return f"`{name}` {_ALWAYS[name]}"
    danger = _danger_of(name)
    said = _options(name, danger, args) if danger is not None else None
    own = _python if danger is _PYTHON else _OWN.get(name)
    return said or (own(args) if own is not None else None)


@lru_cache(maxsize=512)
def _danger_of(name: str) -> _Danger | None:
    if len(name) > _NAME_CHARS_MAX:
        return None
    if re.fullmatch(r"(?:python|pypy)[\d.]*[a-z]?", name):
        return _PYTHON
    return _DANGERS.get(name) or _DANGERS.get(re.sub(r"-?\d+(\.\d+)*$", "", name))  # perl5.36 is perl


def _options(name: str, danger: _Danger, args: Sequence[Word]) -> str | None:
    options = read_options(args, danger.valued, danger.takes, stop=danger.stop)
    for letter in danger.short:
        if any(given == letter for given, _ in options.given):
            return f"`{name} -{letter}` runs what its arguments say"
    for one in danger.long:
        if options.has(one) or any((word.value or word.prefix).startswith(f"-{one}") for word in args):
            return f"`{name} --{one}` runs what its arguments say"
    if options.unsure and (danger.short or danger.long):
        return f"an argument of {name} that is not known yet may make it run something"
    if danger.bare and (not options.operands or options.operands[0].value in (None, "-", "/dev/stdin", "/dev/fd/0")):
        return f"`{name}` reads what it runs from elsewhere"
    return None


def _python(args: Sequence[Word]) -> str | None:
    modules = [value.value for value in read_options(args, "cmWX", stop=True).values("m")]
    if any(
        one in (None, "timeit", "code", "pdb", "trace", "cProfile", "profile", "runpy", "doctest") for one in modules
    ):
        return "`python -m` runs what its arguments say"
    return None


def _awk(args: Sequence[Word]) -> str | None:
    operands = read_options(args, "fiElvF", ("assign", "field-separator"), stop=True).operands
    if operands and operands[0].value is None:
        return "`awk` is given a program that is not known before it runs"
    if operands and _AWK_RUNS.search(operands[0].value or ""):
        return "this awk program can run others"
    return None


def _sed(args: Sequence[Word]) -> str | None:
    options = read_options(args, "efl", ("expression", "file", "line-length"), attached="i")
    if options.has("f", "file"):
        return "`sed` reads its program from a file"
    scripts = options.values("e", "expression") or options.operands[:1]
    for script in scripts:
        if script.value is None or len(script.value) > _SED_CHARS_MAX:
            return "`sed` is given a program that is not known before it runs"
        found = _SED_SAFE.match(script.value)
        if found is None or found.end() != len(script.value):
            return "this sed program can run others, or write where nobody looks"
    if options.unsure:
        return "an argument of sed that is not known yet may be its program"
    return None


def _tar(args: Sequence[Word]) -> str | None:
    first = args[0].value if args else None
    if first and not first.startswith("-") and re.search("[IF]", first):
        return "`tar` is told to run a program"
    return None


def _make(args: Sequence[Word]) -> str | None:
    options = read_options(args, "CfIojlWE", ("file", "directory", "makefile", "eval", "include-dir"))
    if options.has("eval", "E") or any(
        (value.value or "-") in ("-", "/dev/stdin") for value in options.values("f", "file")
    ):
        return "`make` is given rules in its arguments"
    if options.unsure or any("=" in (word.value or "=") for word in options.operands):
        return "a variable given to make can hold commands"
    return None


def _remote_shell(args: Sequence[Word]) -> str | None:
    options = read_options(args, "BbcDEeFIiJLlmOoPpQRSWwX", stop=True)
    for value in options.values("o"):
        text = (value.value or "").replace(" ", "=").lower()
        if not text or re.match(
            r"proxycommand|localcommand|permitlocal|knownhostscommand|.*provider|include|match", text
        ):
            return "an option of ssh makes it run a program"
    if any((word.value or "").startswith("-") for word in options.operands[:1]):
        return "a host that begins with - is an option"
    return None


def _sqlite(args: Sequence[Word]) -> str | None:
    texts = [word.value for word in args]
    if None in texts or any(text in ("-cmd", "--cmd", "-init", "--init") for text in texts):
        return "`sqlite3` is given commands that are not known before it runs"
    operands = [text for text in texts if text and not text.startswith("-")]
    if len(operands) < 2:
        return "`sqlite3` reads what it runs from elsewhere"
    if any(re.search(r"(?:^|\n)\s*\.|load_extension|writefile|edit\s*\(", text) for text in operands[1:]):
        return "this is a command of sqlite3 that can run others"
    return None


def _psql(args: Sequence[Word]) -> str | None:
    if any(word.value is None or re.search(r"\\|\bprogram\b|^-[a-zA-Z]*f|^--file", word.value, re.I) for word in args):
        return "`psql` can run other programs"
    return None


def _less(args: Sequence[Word]) -> str | None:
    if any((word.value or "").startswith("+") or word.may_be_option for word in args):
        return "a pager is given commands"
    return None


def _export(args: Sequence[Word]) -> str | None:
    for word in args:
        text = word.value if word.value is not None else word.prefix
        if word.may_be_option or telling_name(re.split(r"\+?=", text)[0]):
            return f"setting {text.split('=')[0] or 'a variable'} may change what runs"
    return None


def _set(args: Sequence[Word]) -> str | None:
    return (
        "an option of the shell is not known before it runs" if any(word.may_be_option for word in args[:1]) else None
    )


def _printf(args: Sequence[Word]) -> str | None:
    if args and (args[0].value or args[0].prefix).startswith("-v"):
        return _export(args[1:2]) or (None if args[1:2] and args[1].value else "`printf` sets a variable")
    return None


_OWN: dict[str, Callable[[Sequence[Word]], str | None]] = {
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
