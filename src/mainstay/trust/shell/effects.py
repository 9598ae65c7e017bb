"""What a command does beyond answering: what it removes, what it writes, and whom it talks to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from mainstay.trust.shell.git import read_git
from mainstay.trust.shell.nouns import Redirect, Word
from mainstay.trust.shell.options import read_options
from mainstay.trust.shell.programs import (
    CLOUDS,
    CURL_LONG,
    CURL_VALUED,
    DELETING,
    HOSTS,
    PACKAGES,
    WGET_LONG,
)
from mainstay.trust.shell.runs import SSH_VALUED

_REMOTE = re.compile(r"(?:[^/:@\s]+@)?\[?[^/:\s]+\]?:(?!\\)|[a-z]+://", re.I)
_WORDLESS = "?"


class Effects(msgspec.Struct):
    """In the words of the command where these are literal, else "?"."""

    removes: list[str] = []
    writes: list[str] = []
    reaches: list[str] = []
    opaque: list[str] = []


def shown(word: Word | str) -> str:
    if isinstance(word, str):
        return word
    return word.shown if word.shown else _WORDLESS


def effects_of(name: str, args: Sequence[Word]) -> Effects:
    made = Effects()
    if name in DELETING:
        made.removes += [shown(word) for word in read_options(args, "ns").operands]
    elif name == "git":
        git = read_git(args)
        made.removes += [shown(word) for word in git.removes]
        made.reaches += [shown(word) for word in git.reaches]
        made.opaque += git.opaque
    elif name in PACKAGES:
        _packages(name, args, made)
    elif name in HOSTS:
        made.reaches += [shown(word) for word in read_options(args, HOSTS[name]).operands] or [_WORDLESS]
    elif handler := _HANDLERS.get(name):
        handler(args, made)
    elif name.startswith(("mkfs", "fdisk", "parted")):
        made.removes += [shown(word) for word in read_options(args, "tLUbi").operands] or [_WORDLESS]
    if name in CLOUDS:
        if not made.reaches:
            made.reaches.append(_WORDLESS)
        if any(word.value in ("rm", "rmi", "delete", "destroy", "remove", "prune", "rb", "purge") for word in args):
            made.removes.append(_WORDLESS)
    return made


def redirected(redirects: Sequence[Redirect], made: Effects) -> list[str]:
    """The files that redirections write. A file emptied so is edited, not removed."""
    files = []
    for redirect in redirects:
        if redirect.operator in ("<<", "<<-", "<<<"):
            continue
        target = shown(redirect.word)
        if found := re.match(r"/dev/(?:tcp|udp)/([^/]*)/?(.*)", target):
            made.reaches.append(f"{found[1]}:{found[2]}" if found[2] else found[1])
        elif redirect.word.shown is None and _may_be_address(redirect.word.prefix):
            made.reaches.append(_WORDLESS)
            files += [] if redirect.operator in ("<", "<&") else [target]
        elif redirect.operator in ("<", "<&") or (redirect.operator == ">&" and re.fullmatch(r"\d+|-|\d+-", target)):
            pass
        elif target not in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            files.append(target)
    made.writes += files
    return files


def _may_be_address(prefix: str) -> bool:
    """For bash, /dev/tcp and /dev/udp are no files. What follows this prefix may be either."""
    return any(place.startswith(prefix) or prefix.startswith(place) for place in ("/dev/tcp/", "/dev/udp/"))


def _packages(name: str, args: Sequence[Word], made: Effects) -> None:
    operands = read_options(
        args, "rciteC", ("requirement", "index-url", "extra-index-url", "target", "prefix", "git")
    ).operands
    words = [word for word in operands if word.value != "pip"]  # uv pip install
    verb = words[0].value if words else ("install" if name == "yarn" else None)
    if name == "pacman" and any((word.value or "").startswith("-S") for word in args):
        verb, words = "install", [*words[:0], *words]
        made.reaches += [shown(word) for word in words] or [_WORDLESS]
    elif verb in PACKAGES[name].split():
        made.reaches += [shown(word) for word in words[1:]] or [_WORDLESS]
    elif verb in ("uninstall", "remove", "purge", "autoremove", "rm", "un", "clean"):
        made.removes += [shown(word) for word in words[1:]] or [_WORDLESS]
    elif verb is None and words:
        made.reaches.append(_WORDLESS)


def _curl(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, CURL_VALUED, CURL_LONG)
    # these send the request elsewhere, whatever its address says
    elsewhere = (
        "x",
        "K",
        "config",
        "proxy",
        "preproxy",
        "resolve",
        "connect-to",
        "doh-url",
        "dns-servers",
        "unix-socket",
    )
    if options.has(*elsewhere, "socks4", "socks4a", "socks5", "socks5-hostname", "mail-rcpt", "abstract-unix-socket"):
        made.reaches.append(_WORDLESS)
    made.reaches += [shown(word) for word in [*options.operands, *options.values("url")]] or [_WORDLESS]
    made.writes += [
        shown(word) for word in options.values("o", "output", "D", "dump-header", "c", "cookie-jar", "trace")
    ]
    if options.has("O", "remote-name", "remote-name-all", "J"):
        made.writes.append(_WORDLESS)


def _wget(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "eoaiBtOTwQPUDARIXl", WGET_LONG)
    if options.has("i", "input-file", "e", "execute", "config"):
        made.reaches.append(_WORDLESS)
    made.reaches += [shown(word) for word in options.operands] or [_WORDLESS]
    targets = [shown(word) for word in options.values("O", "output-document")]
    made.writes += [target for target in targets or [_WORDLESS] if target != "-"]


def _ssh(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, SSH_VALUED, stop=True)
    made.reaches += [shown(word) for word in options.operands[:1]] or [_WORDLESS]
    made.reaches += [shown(word) for word in options.values("J", "W", "L", "R", "D")]
    if options.has("o", "F"):
        made.reaches.append(_WORDLESS)  # HostName, ProxyJump: elsewhere than it says


def _copy_remote(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "cDFiJloPSXefTBM", ("rsh", "rsync-path", "exclude", "include", "files-from", "filter"))
    for word in options.operands:
        if word.shown is None or _REMOTE.match(word.shown):
            made.reaches.append(shown(word))
    if any(name == "del" or name.startswith("delete") for name, _ in options.given):
        made.removes += [shown(word) for word in options.operands[-1:]] or [_WORDLESS]
    if options.has("remove-source-files", "remove-sent-files"):
        made.removes += [shown(word) for word in options.operands[:-1]] or [_WORDLESS]
    made.writes += [shown(word) for word in options.operands[-1:] if not _REMOTE.match(word.shown or "")]


def _sftp(args: Sequence[Word], made: Effects) -> None:
    made.reaches += [shown(word) for word in read_options(args, "BbcDFiJloPRSsX").operands[:1]] or [_WORDLESS]


def _mail(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "abcsrAFhiHqSTu", ("to", "cc", "bcc"))
    named = [*options.operands, *options.values("b", "c", "to", "cc", "bcc")]
    made.reaches += [shown(word) for word in named] or [_WORDLESS]


def _move(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "tS", ("target-directory", "suffix"))
    into = options.values("t", "target-directory")
    made.removes += [shown(word) for word in (options.operands if into else options.operands[:-1])]
    made.writes += [shown(word) for word in into or options.operands[-1:]]


def _copy(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "tSmog", ("target-directory", "suffix", "mode", "owner", "group"))
    made.writes += [shown(word) for word in options.values("t", "target-directory") or options.operands[-1:]]


def _written(args: Sequence[Word], made: Effects) -> None:
    made.writes += [shown(word) for word in read_options(args, "tdrmp", ("mode", "date", "reference")).operands]


def _changed(args: Sequence[Word], made: Effects) -> None:
    made.writes += [shown(word) for word in read_options(args).operands[1:]]


def _truncate(args: Sequence[Word], made: Effects) -> None:
    made.removes += [shown(word) for word in read_options(args, "srn", ("size", "reference")).operands]


def _find(args: Sequence[Word], made: Effects) -> None:
    values = [word.value for word in args]
    starts = []
    for word in args:
        if (word.value or "").startswith(("-", "(", "!")) and word.value not in ("-L", "-H", "-P"):
            break
        starts += [] if word.value in ("-L", "-H", "-P") else [shown(word)]
    if "-delete" in values:
        made.removes += starts or ["."]
    for at, value in enumerate(values[:-1]):
        if value in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            made.writes.append(shown(args[at + 1]))


def _dd(args: Sequence[Word], made: Effects) -> None:
    for word in args:
        text = word.shown if word.shown is not None else word.prefix
        if text.startswith("of=") or not text:
            made.removes.append(text[3:] if word.shown else _WORDLESS)


def _sed(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "efl", ("expression", "file", "line-length"), attached="i")
    if options.has("i", "in-place"):
        files = options.operands if options.has("e", "expression", "f", "file") else options.operands[1:]
        made.writes += [shown(word) for word in files] or [_WORDLESS]


def _awk(args: Sequence[Word], made: Effects) -> None:
    if any(re.search(r"print[^;}]*>|-i\b|inplace", word.value or "") for word in args):
        made.writes.append(_WORDLESS)


def _tar(args: Sequence[Word], made: Effects) -> None:
    first = (args[0].value or "") if args else ""
    flags = first if first and not first.startswith("--") else ""
    options = read_options(args, "fCTXI", ("file", "directory"))
    files = [shown(word) for word in options.values("f", "file")]
    if flags and not flags.startswith("-") and "f" in flags:
        files += [shown(word) for word in args[1:2]]
    made.reaches += [file for file in files if ":" in file and not options.has("force-local")]
    if options.has("x", "extract", "get") or "x" in flags:
        made.writes += [shown(word) for word in options.values("C", "directory")] or ["."]
    else:
        made.writes += [] if options.has("t", "list") or "t" in flags else files
    if options.has("remove-files", "unlink-first", "recursive-unlink"):
        made.removes.append(_WORDLESS)


def _unpack(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "dxP")
    if not options.has("l", "t", "p", "c", "Z", "v"):
        made.writes += [shown(word) for word in options.values("d")] or ["."]


def _squeeze(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "S")
    if not options.has("c", "stdout", "t", "test", "l", "list"):
        made.writes += [shown(word) for word in options.operands]


def _zip(args: Sequence[Word], made: Effects) -> None:
    options = read_options(args, "bntxi")
    made.writes += [shown(word) for word in options.operands[:1]]
    if options.has("m", "move", "d", "delete"):
        made.removes += [shown(word) for word in options.operands[1:]] or [_WORDLESS]


def _sorted(args: Sequence[Word], made: Effects) -> None:
    made.writes += [shown(word) for word in read_options(args, "koStT", ("output", "key")).values("o", "output")]


def _openssl(args: Sequence[Word], made: Effects) -> None:
    values = [word.value for word in args]
    for at, value in enumerate(values[:-1]):
        if value in ("-connect", "-host", "-url", "-proxy"):
            made.reaches.append(shown(args[at + 1]))
    if values and values[0] in ("s_client", "ocsp", "s_time") and not made.reaches:
        made.reaches.append(_WORDLESS)


def _somewhere(args: Sequence[Word], made: Effects) -> None:
    made.reaches.append(_WORDLESS)


_Handler = Callable[[Sequence[Word], Effects], None]
_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(("mail", "mailx", "sendmail", "mutt", "msmtp", "swaks"), _mail),
    **dict.fromkeys(("scp", "rsync", "rcp"), _copy_remote),
    **dict.fromkeys(("cp", "ln", "install"), _copy),
    **dict.fromkeys(("touch", "mkdir", "tee", "mkfifo", "mknod", "patch", "split", "csplit", "mktemp"), _written),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl", "chattr"), _changed),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "dos2unix", "unix2dos"), _squeeze),
    **dict.fromkeys(
        ("socat", "aria2c", "nmap", "curlie", "httpie", "http", "https", "xh", "lynx", "w3m", "links"), _somewhere
    ),
    "curl": _curl,
    "wget": _wget,
    "wget2": _wget,
    "ssh": _ssh,
    "sftp": _sftp,
    "mv": _move,
    "truncate": _truncate,
    "find": _find,
    "dd": _dd,
    "unzip": _unpack,
    "zip": _zip,
    "sort": _sorted,
    "openssl": _openssl,
}
