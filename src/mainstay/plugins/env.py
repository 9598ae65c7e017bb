"""The environment of a program from elsewhere: what it may be given, and where the values come from."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from mainstay.core.errors import ConfigError
from mainstay.trust.guards.lines import one_line

VALUE_BYTES_MAX = 64 * 1024
_REFERENCE = re.compile(
    r"\$\$\{|\$\{(?:secret:(?P<secret>[A-Za-z0-9][A-Za-z0-9_.-]{0,63})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"(?P<default>:-[^}]*)?)\}|\$\{"
)
# These steer the loader, the interpreter, the shell, the network or the sandbox before the program has a say.
_STEERING = re.compile(
    r"LD_.*|DYLD_.*|GLIBC_TUNABLES|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|PYTHON.*|NODE_OPTIONS"
    r"|NODE_PATH|NODE_EXTRA_CA_CERTS|PERL5.*|PERLLIB|RUBYOPT|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|BASH_.*|ENV|SHELLOPTS|BASHOPTS|IFS|CDPATH|PS4|PROMPT_COMMAND|PATH|HOME|SHELL|USER|LOGNAME|PWD|OLDPWD|TMPDIR|TMP"
    r"|TEMP|XDG_.*|.*_PROXY|SSL_CERT_.*|SSLKEYLOGFILE|OPENSSL_.*|GRPC_.*|MAINSTAY_.*",
    re.IGNORECASE,
)


def steers(variable: str) -> bool:
    """True for a variable that no program from elsewhere is given by its own wish."""
    return _STEERING.fullmatch(variable) is not None


def references(texts: Iterable[str]) -> list[str]:
    """What these texts would read of the owner's: names of variables, and `secret:NAME`; each once, in order."""
    found: dict[str, None] = {}
    for text in texts:
        for one in _REFERENCE.finditer(text):
            if one["secret"]:
                found[f"secret:{one['secret']}"] = None
            elif one["name"]:
                found[one["name"]] = None
    return list(found)


def malformed(text: str) -> bool:
    """True if `${` begins something that is no reference."""
    return any(one[0] == "${" for one in _REFERENCE.finditer(text))


def expand(text: str, env: Mapping[str, str], secrets_folder: Path, where: str) -> str:
    """`${VAR}`, `${VAR:-default}` and `${secret:NAME}` replaced, once: what a value holds is not looked at again."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match["secret"]:
            return _secret(secrets_folder, match["secret"], where)
        name, default = match["name"], match["default"]
        if name is None:
            raise ConfigError(f"{where}: after '${{' comes a variable's name or 'secret:NAME', and '}}'")
        found = env.get(name)
        if default is not None and not found:
            return str(default[2:])
        if found is None:
            raise ConfigError(f"{where} needs the environment variable '{name}', which is not set")
        return found

    return checked_value(_REFERENCE.sub(value, text), where)


def checked_value(value: str, where: str) -> str:
    """A value that a process can be given."""
    if "\0" in value:
        raise ConfigError(f"{where}: a variable cannot hold a NUL character")
    if len(value.encode("utf-8", "surrogateescape")) > VALUE_BYTES_MAX:
        raise ConfigError(f"{where}: a variable cannot hold more than {VALUE_BYTES_MAX} bytes")
    return value


def _secret(folder: Path, name: str, where: str) -> str:
    """The content of a file that nobody but the owner can read, without the line break at its end."""
    path = folder / name
    shown = one_line(str(path))
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError(f"{where} needs the secret '{name}': put it into {shown}, mode 600") from None
    except OSError as error:
        raise ConfigError(f"{where}: {shown} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{where}: {shown} is not a regular file")
        if found.st_mode & 0o077:
            raise ConfigError(f"{where}: other users may read {shown}: run `chmod 600 {shown}`")
        data = os.read(file, VALUE_BYTES_MAX + 2)
    except OSError as error:
        raise ConfigError(f"{where}: {shown} cannot be read: {error.strerror}") from None
    finally:
        os.close(file)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: {shown} is not UTF-8") from None
