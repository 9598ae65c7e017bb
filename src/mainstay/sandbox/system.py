"""What of the machine a sandboxed command gets to see: the system, and the toolchains on the owner's path.

Never the owner's home: of a folder on the path that lies in it, only what is known to be an installation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from mainstay.sandbox.limits import within

_SYSTEM = ("/usr", "/opt", "/nix/store", "/gnu/store")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    *(
        "alternatives",
        "crypto-policies",
        "fonts",
        "java-11-openjdk",
        "java-17-openjdk",
        "java-21-openjdk",
        "ld.so.cache",
    ),
    *("localtime", "mime.types", "os-release", "pki", "protocols", "services", "ssl/certs", "ssl/cert.pem"),
    *("ssl/openssl.cnf", "terminfo"),
)  # no more than is needed: each is a mount, and some files in /etc hold secrets
_ONLINE = ("resolv.conf", "hosts", "gai.conf")
# Folders in somebody's home that hold an installation and nothing else.
_TOOLCHAINS = (
    *(".pyenv", ".nvm", ".rbenv", ".asdf", ".volta", ".fnm", ".sdkman", ".bun", ".deno", ".dotnet", ".ghcup", ".elan"),
    *(".juliaup", ".opam", ".pixi", ".swiftly", ".linuxbrew", ".rustup", ".local/share/uv", ".local/share/mise"),
    *(".local/share/fnm", ".local/share/pipx", ".local/pipx", ".local/share/pnpm", ".local/lib", ".nodenv", ".goenv"),
    *("miniconda3", "anaconda3", "miniforge3", "mambaforge", ".jenv", ".proto"),
)
_HOMES = {".rustup": "RUSTUP_HOME", ".pyenv": "PYENV_ROOT", ".volta": "VOLTA_HOME", ".nvm": "NVM_DIR"}
_NAMED = ("RUSTUP_HOME", "PYENV_ROOT", "VOLTA_HOME", "NVM_DIR", "GOROOT", "JAVA_HOME", "CONDA_PREFIX", "DOTNET_ROOT")
_NOT_A_PREFIX = (
    "/",
    "/home",
    "/root",
    "/var",
    "/etc",
    "/tmp",
    "/run",
    "/mnt",
    "/media",
    "/srv",
    "/proc",
    "/sys",
    "/dev",
)


def system_mounts(network: bool) -> Iterator[str]:
    """Arguments for bwrap."""
    for path in _SYSTEM:
        if os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in _MERGED:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in (*_ETC, *(_ONLINE if network else ())):
        path = f"/etc/{name}"
        real = os.path.realpath(path)
        if os.path.islink(path) and within(real, "/usr"):
            yield from ("--symlink", real, path)
        elif os.path.exists(real):
            yield from ("--ro-bind", real, path)


def accounts(user: str, uid: int, gid: int, home: str) -> dict[str, bytes]:
    """Files in /etc that name nobody but whom the command runs as."""
    return {
        "/etc/passwd": f"{user}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n".encode(),
        "/etc/group": f"{user}:x:{gid}:\nnogroup:x:65534:\n".encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
    }


def installations() -> list[str]:
    """Folders outside of the system that commands on the path need, and the interpreter we run on."""
    found = [sys.base_prefix, sys.prefix]
    for folder in os.environ.get("PATH", "").split(":"):
        if os.path.isabs(folder):
            found += _installation(os.path.normpath(folder))
            found += _installation(os.path.realpath(folder))
    seen = dict.fromkeys(path for path in found if os.path.isdir(path) and not _is_home(path))
    outside = [path for path in seen if not any(within(path, root) for root in (*_SYSTEM, *_MERGED))]
    return [path for path in outside if not any(within(path, other) for other in outside if other != path)]


def _installation(folder: str) -> list[str]:
    """What belongs to a folder on the path."""
    home = _home_of(folder)
    prefix = os.path.dirname(folder)
    whole = any(os.path.exists(f"{prefix}/{sign}") for sign in ("pyvenv.cfg", "conda-meta"))
    if home is None:
        return [prefix] if whole or prefix not in _NOT_A_PREFIX else [folder]
    known = [f"{home}/{name}" for name in _TOOLCHAINS]
    if around := [path for path in known if within(folder, path)]:
        return around
    found = [prefix] if whole and prefix != home else [folder]
    if within(folder, f"{home}/.cargo"):
        found.append(f"{home}/.rustup")  # what those are only doors to
    if folder == f"{home}/.local/bin":
        found += [path for path in known if within(path, f"{home}/.local")]
    return found


def _home_of(path: str) -> str | None:
    """The home that this lies in, the owner's or anybody's."""
    own = os.path.expanduser("~")
    if own != "/" and within(path, own):
        return own
    if within(path, "/root"):
        return "/root"
    parts = path.split("/")
    return "/".join(parts[:3]) if len(parts) > 2 and parts[1] in ("home", "Users") else None


def _is_home(path: str) -> bool:
    return path in _NOT_A_PREFIX or _home_of(path) == path


def toolchain_env(bound: list[str]) -> dict[str, str]:
    """Where toolchains find themselves, now that HOME is another."""
    found = {os.path.basename(path): path for path in bound}
    own = {_HOMES[name]: path for name, path in found.items() if name in _HOMES}
    named = {name: os.environ[name] for name in _NAMED if name in os.environ}
    seen = (*bound, *_SYSTEM)
    return {**own, **{name: path for name, path in named.items() if any(within(path, root) for root in seen)}}
