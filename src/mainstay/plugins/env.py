"""Environment variables of plugins and MCP servers: reserved names, and `${VAR}` and `${secret:NAME}` references."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line

VALUE_BYTES_MAX = 64 * 1024
_REFERENCE = re.compile(
    r"\$\$\{|\$\{(?:secret:(?P<secret>[A-Za-z0-9][A-Za-z0-9_.-]{0,63})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"(?P<default>:-[^}]*)?)\}|\$\{"
)
# These control the loader, the interpreter, the shell, the network or the sandbox before the program's own code runs.
_RESERVED = re.compile(
    r"LD_.*|DYLD_.*|GLIBC_TUNABLES|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|PYTHON.*|NODE_OPTIONS"
    r"|NODE_PATH|NODE_EXTRA_CA_CERTS|PERL5.*|PERLLIB|RUBYOPT|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|BASH_.*|ENV|SHELLOPTS|BASHOPTS|IFS|CDPATH|PS4|PROMPT_COMMAND|PATH|HOME|SHELL|USER|LOGNAME|PWD|OLDPWD|TMPDIR|TMP"
    r"|TEMP|XDG_.*|.*_PROXY|SSL_CERT_.*|SSLKEYLOGFILE|OPENSSL_.*|GRPC_.*|MAINSTAY_.*",
    re.IGNORECASE,
)


def is_reserved_variable(variable: str) -> bool:
    """True for a variable that a manifest must not set."""
    return _RESERVED.fullmatch(variable) is not None


def find_references(texts: Iterable[str]) -> list[str]:
    """Return what these texts refer to: names of variables, and `secret:NAME`; each once, in order."""
    names: dict[str, None] = {}
    for text in texts:
        for match in _REFERENCE.finditer(text):
            if match["secret"]:
                names[f"secret:{match['secret']}"] = None
            elif match["name"]:
                names[match["name"]] = None
    return list(names)


def has_malformed_reference(text: str) -> bool:
    """True if a `${` does not begin a valid reference."""
    return any(match[0] == "${" for match in _REFERENCE.finditer(text))


def expand_references(text: str, env: Mapping[str, str], secrets_folder: Path, subject: str) -> str:
    """Replace `${VAR}`, `${VAR:-default}` and `${secret:NAME}`; `$${` stands for `${`. Values are not expanded again.
    `subject` begins the message of the ConfigError that is raised for a missing or invalid value."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match["secret"]:
            return _read_secret(secrets_folder, match["secret"], subject)
        name, default = match["name"], match["default"]
        if name is None:
            raise ConfigError(f"{subject}: write '${{NAME}}' or '${{secret:NAME}}'")
        variable = env.get(name)
        if default is not None and not variable:
            return str(default[2:])
        if variable is None:
            raise ConfigError(f"{subject} needs the environment variable '{name}', which is not set")
        return variable

    return check_value(_REFERENCE.sub(value, text), subject)


def check_value(value: str, subject: str) -> str:
    """Return the value if a process environment can hold it. Raises ConfigError."""
    if "\0" in value:
        raise ConfigError(f"{subject}: a variable must not contain a NUL character")
    if len(value.encode("utf-8", "surrogateescape")) > VALUE_BYTES_MAX:
        raise ConfigError(f"{subject}: a variable must not have more than {VALUE_BYTES_MAX} bytes")
    return value


def _read_secret(folder: Path, name: str, subject: str) -> str:
    """Return a secret file's content without the line break at its end. The file must be readable by its owner only."""
    path = folder / name
    shown_path = one_line(str(path))
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError(f"{subject} needs the secret '{name}': put it into {shown_path}, mode 600") from None
    except OSError as error:
        raise ConfigError(f"{subject}: {shown_path} cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{subject}: {shown_path} is not a regular file")
        if status.st_mode & 0o077:
            raise ConfigError(f"{subject}: other users can read {shown_path}: run `chmod 600 {shown_path}`")
        data = os.read(file, VALUE_BYTES_MAX + 2)
    except OSError as error:
        raise ConfigError(f"{subject}: {shown_path} cannot be read: {error.strerror}") from None
    finally:
        os.close(file)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"{subject}: {shown_path} is not UTF-8") from None
