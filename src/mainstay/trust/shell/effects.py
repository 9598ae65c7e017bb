"""Side effects of known programs: what a command removes, which files it writes, and which hosts it contacts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from mainstay.trust.shell.command_wrappers import SSH_SHORT_VALUED
from mainstay.trust.shell.git import analyse_git
from mainstay.trust.shell.option_parser import parse_options
from mainstay.trust.shell.programs import (
    CLOUD_CLIENTS,
    CURL_LONG_VALUED,
    CURL_SHORT_VALUED,
    DELETING_PROGRAMS,
    HOST_PROGRAMS,
    PACKAGE_MANAGERS,
    WGET_LONG_VALUED,
)
from mainstay.trust.shell.syntax import Redirection, ShellWord

_REMOTE_TARGET = re.compile(r"(?:[^/:@\s]+@)?\[?[^/:\s]+\]?:(?!\\)|[a-z]+://", re.I)
UNKNOWN_TARGET = "?"


class CommandEffects(msgspec.Struct):
    """The side effects of one command. Targets are as the command writes them where literal, else "?"."""

    removals: list[str] = []
    written_paths: list[str] = []  # files
    destinations: list[str] = []  # hosts, URLs, mail addresses
    opaque_reasons: list[str] = []  # sentences that say why the command is not understood completely


def word_text(word: ShellWord | str) -> str:
    if isinstance(word, str):
        return word
    return word.unexpanded if word.unexpanded else UNKNOWN_TARGET


def analyse_effects(name: str, args: Sequence[ShellWord]) -> CommandEffects:
    effects = CommandEffects()
    if name in DELETING_PROGRAMS:
        effects.removals += [word_text(word) for word in parse_options(args, "ns").operands]
    elif name == "git":
        git = analyse_git(args)
        effects.removals += [word_text(word) for word in git.removals]
        effects.destinations += [word_text(word) for word in git.destinations]
        effects.opaque_reasons += git.opaque_reasons
    elif name in PACKAGE_MANAGERS:
        _package_manager(name, args, effects)
    elif name in HOST_PROGRAMS:
        effects.destinations += [word_text(word) for word in parse_options(args, HOST_PROGRAMS[name]).operands] or [
            UNKNOWN_TARGET
        ]
    elif handler := _HANDLERS.get(name):
        handler(args, effects)
    elif name.startswith(("mkfs", "fdisk", "parted")):
        effects.removals += [word_text(word) for word in parse_options(args, "tLUbi").operands] or [UNKNOWN_TARGET]
    if name in CLOUD_CLIENTS:
        if not effects.destinations:
            effects.destinations.append(UNKNOWN_TARGET)
        if any(word.value in ("rm", "rmi", "delete", "destroy", "remove", "prune", "rb", "purge") for word in args):
            effects.removals.append(UNKNOWN_TARGET)
    return effects


def add_redirect_effects(redirects: Sequence[Redirection], effects: CommandEffects) -> list[str]:
    """Add the effects of redirections to `effects`; return the files they write. Truncating counts as a write."""
    files = []
    for redirect in redirects:
        if redirect.operator in ("<<", "<<-", "<<<"):
            continue
        target = word_text(redirect.word)
        if match := re.match(r"/dev/(?:tcp|udp)/([^/]*)/?(.*)", target):
            effects.destinations.append(f"{match[1]}:{match[2]}" if match[2] else match[1])
        elif redirect.word.unexpanded is None and _may_be_network_device(redirect.word.prefix):
            effects.destinations.append(UNKNOWN_TARGET)
            files += [] if redirect.operator in ("<", "<&") else [target]
        elif redirect.operator in ("<", "<&") or (redirect.operator == ">&" and re.fullmatch(r"\d+|-|\d+-", target)):
            pass
        elif target not in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            files.append(target)
    effects.written_paths += files
    return files


def _may_be_network_device(prefix: str) -> bool:
    """Return True if a path with this prefix may be /dev/tcp or /dev/udp, which bash connects instead of opening."""
    return any(device.startswith(prefix) or prefix.startswith(device) for device in ("/dev/tcp/", "/dev/udp/"))


def _package_manager(name: str, args: Sequence[ShellWord], effects: CommandEffects) -> None:
    operands = parse_options(
        args, "rciteC", ("requirement", "index-url", "extra-index-url", "target", "prefix", "git")
    ).operands
    words = [word for word in operands if word.value != "pip"]  # uv pip install
    verb = words[0].value if words else ("install" if name == "yarn" else None)
    if name == "pacman" and any((word.value or "").startswith("-S") for word in args):
        verb, words = "install", [*words[:0], *words]
        effects.destinations += [word_text(word) for word in words] or [UNKNOWN_TARGET]
    elif verb in PACKAGE_MANAGERS[name].split():
        effects.destinations += [word_text(word) for word in words[1:]] or [UNKNOWN_TARGET]
    elif verb in ("uninstall", "remove", "purge", "autoremove", "rm", "un", "clean"):
        effects.removals += [word_text(word) for word in words[1:]] or [UNKNOWN_TARGET]
    elif verb is None and words:
        effects.destinations.append(UNKNOWN_TARGET)


def _curl(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, CURL_SHORT_VALUED, CURL_LONG_VALUED)
    # these send the request to another host than the URL names
    rerouting = (
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
    if options.has(*rerouting, "socks4", "socks4a", "socks5", "socks5-hostname", "mail-rcpt", "abstract-unix-socket"):
        effects.destinations.append(UNKNOWN_TARGET)
    effects.destinations += [word_text(word) for word in [*options.operands, *options.values("url")]] or [
        UNKNOWN_TARGET
    ]
    effects.written_paths += [
        word_text(word) for word in options.values("o", "output", "D", "dump-header", "c", "cookie-jar", "trace")
    ]
    if options.has("O", "remote-name", "remote-name-all", "J"):
        effects.written_paths.append(UNKNOWN_TARGET)


def _wget(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "eoaiBtOTwQPUDARIXl", WGET_LONG_VALUED)
    if options.has("i", "input-file", "e", "execute", "config"):
        effects.destinations.append(UNKNOWN_TARGET)
    effects.destinations += [word_text(word) for word in options.operands] or [UNKNOWN_TARGET]
    targets = [word_text(word) for word in options.values("O", "output-document")]
    effects.written_paths += [target for target in targets or [UNKNOWN_TARGET] if target != "-"]


def _ssh(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, SSH_SHORT_VALUED, stop_at_operand=True)
    effects.destinations += [word_text(word) for word in options.operands[:1]] or [UNKNOWN_TARGET]
    effects.destinations += [word_text(word) for word in options.values("J", "W", "L", "R", "D")]
    if options.has("o", "F"):
        # HostName, ProxyJump: it may connect to another host than it names
        effects.destinations.append(UNKNOWN_TARGET)


def _copy_remote(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(
        args, "cDFiJloPSXefTBM", ("rsh", "rsync-path", "exclude", "include", "files-from", "filter")
    )
    for word in options.operands:
        if word.unexpanded is None or _REMOTE_TARGET.match(word.unexpanded):
            effects.destinations.append(word_text(word))
    if any(name == "del" or name.startswith("delete") for name, _ in options.pairs):
        effects.removals += [word_text(word) for word in options.operands[-1:]] or [UNKNOWN_TARGET]
    if options.has("remove-source-files", "remove-sent-files"):
        effects.removals += [word_text(word) for word in options.operands[:-1]] or [UNKNOWN_TARGET]
    effects.written_paths += [
        word_text(word) for word in options.operands[-1:] if not _REMOTE_TARGET.match(word.unexpanded or "")
    ]


def _sftp(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    effects.destinations += [word_text(word) for word in parse_options(args, "BbcDFiJloPRSsX").operands[:1]] or [
        UNKNOWN_TARGET
    ]


def _mail(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "abcsrAFhiHqSTu", ("to", "cc", "bcc"))
    recipients = [*options.operands, *options.values("b", "c", "to", "cc", "bcc")]
    effects.destinations += [word_text(word) for word in recipients] or [UNKNOWN_TARGET]


def _move(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "tS", ("target-directory", "suffix"))
    folders = options.values("t", "target-directory")
    effects.removals += [word_text(word) for word in (options.operands if folders else options.operands[:-1])]
    effects.written_paths += [word_text(word) for word in folders or options.operands[-1:]]


def _copy(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "tSmog", ("target-directory", "suffix", "mode", "owner", "group"))
    effects.written_paths += [
        word_text(word) for word in options.values("t", "target-directory") or options.operands[-1:]
    ]


def _create_files(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    effects.written_paths += [
        word_text(word) for word in parse_options(args, "tdrmp", ("mode", "date", "reference")).operands
    ]


def _change_attributes(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    effects.written_paths += [word_text(word) for word in parse_options(args).operands[1:]]


def _truncate(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    effects.removals += [word_text(word) for word in parse_options(args, "srn", ("size", "reference")).operands]


def _find(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    values = [word.value for word in args]
    starts = []
    for word in args:
        if (word.value or "").startswith(("-", "(", "!")) and word.value not in ("-L", "-H", "-P"):
            break
        starts += [] if word.value in ("-L", "-H", "-P") else [word_text(word)]
    if "-delete" in values:
        effects.removals += starts or ["."]
    for index, value in enumerate(values[:-1]):
        if value in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            effects.written_paths.append(word_text(args[index + 1]))


def _dd(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    for word in args:
        text = word.unexpanded if word.unexpanded is not None else word.prefix
        if text.startswith("of=") or not text:
            effects.removals.append(text[3:] if word.unexpanded else UNKNOWN_TARGET)


def _sed(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "efl", ("expression", "file", "line-length"), attached="i")
    if options.has("i", "in-place"):
        files = options.operands if options.has("e", "expression", "f", "file") else options.operands[1:]
        effects.written_paths += [word_text(word) for word in files] or [UNKNOWN_TARGET]


def _awk(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    if any(re.search(r"print[^;}]*>|-i\b|inplace", word.value or "") for word in args):
        effects.written_paths.append(UNKNOWN_TARGET)


def _tar(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    first = (args[0].value or "") if args else ""
    flags = first if first and not first.startswith("--") else ""
    options = parse_options(args, "fCTXI", ("file", "directory"))
    files = [word_text(word) for word in options.values("f", "file")]
    if flags and not flags.startswith("-") and "f" in flags:
        files += [word_text(word) for word in args[1:2]]
    effects.destinations += [file for file in files if ":" in file and not options.has("force-local")]
    if options.has("x", "extract", "get") or "x" in flags:
        effects.written_paths += [word_text(word) for word in options.values("C", "directory")] or ["."]
    else:
        effects.written_paths += [] if options.has("t", "list") or "t" in flags else files
    if options.has("remove-files", "unlink-first", "recursive-unlink"):
        effects.removals.append(UNKNOWN_TARGET)


def _unzip(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "dxP")
    if not options.has("l", "t", "p", "c", "Z", "v"):
        effects.written_paths += [word_text(word) for word in options.values("d")] or ["."]


def _compress(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "S")
    if not options.has("c", "stdout", "t", "test", "l", "list"):
        effects.written_paths += [word_text(word) for word in options.operands]


def _zip(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    options = parse_options(args, "bntxi")
    effects.written_paths += [word_text(word) for word in options.operands[:1]]
    if options.has("m", "move", "d", "delete"):
        effects.removals += [word_text(word) for word in options.operands[1:]] or [UNKNOWN_TARGET]


def _sort(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    effects.written_paths += [
        word_text(word) for word in parse_options(args, "koStT", ("output", "key")).values("o", "output")
    ]


def _openssl(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    values = [word.value for word in args]
    for index, value in enumerate(values[:-1]):
        if value in ("-connect", "-host", "-url", "-proxy"):
            effects.destinations.append(word_text(args[index + 1]))
    if values and values[0] in ("s_client", "ocsp", "s_time") and not effects.destinations:
        effects.destinations.append(UNKNOWN_TARGET)


def _unknown_destination(args: Sequence[ShellWord], effects: CommandEffects) -> None:
    effects.destinations.append(UNKNOWN_TARGET)


_EffectsHandler = Callable[[Sequence[ShellWord], CommandEffects], None]
_HANDLERS: dict[str, _EffectsHandler] = {
    **dict.fromkeys(("mail", "mailx", "sendmail", "mutt", "msmtp", "swaks"), _mail),
    **dict.fromkeys(("scp", "rsync", "rcp"), _copy_remote),
    **dict.fromkeys(("cp", "ln", "install"), _copy),
    **dict.fromkeys(("touch", "mkdir", "tee", "mkfifo", "mknod", "patch", "split", "csplit", "mktemp"), _create_files),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl", "chattr"), _change_attributes),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "dos2unix", "unix2dos"), _compress),
    **dict.fromkeys(
        ("socat", "aria2c", "nmap", "curlie", "httpie", "http", "https", "xh", "lynx", "w3m", "links"),
        _unknown_destination,
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
    "unzip": _unzip,
    "zip": _zip,
    "sort": _sort,
    "openssl": _openssl,
}
