"""Read-only mounts of the host system in the sandbox, and the toolchains on the owner's PATH.

Never the owner's home: of PATH folders inside it, only known installations are mounted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from mainstay.sandbox.limits import is_within

_SYSTEM_FOLDERS = ("/usr", "/opt", "/nix/store", "/gnu/store")
_MERGED_USR_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# only what is needed: each is a mount, and some files in /etc contain secrets
_ETC_PATHS = (
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
)
_ETC_NETWORK_PATHS = ("resolv.conf", "hosts", "gai.conf")
# Folders in a home directory that contain an installation and nothing else.
_TOOLCHAINS = (
    *(".pyenv", ".nvm", ".rbenv", ".asdf", ".volta", ".fnm", ".sdkman", ".bun", ".deno", ".dotnet", ".ghcup", ".elan"),
    *(".juliaup", ".opam", ".pixi", ".swiftly", ".linuxbrew", ".rustup", ".local/share/uv", ".local/share/mise"),
    *(".local/share/fnm", ".local/share/pipx", ".local/pipx", ".local/share/pnpm", ".local/lib", ".nodenv", ".goenv"),
    *("miniconda3", "anaconda3", "miniforge3", "mambaforge", ".jenv", ".proto"),
)
_TOOLCHAIN_HOME_VARIABLES = {
    ".rustup": "RUSTUP_HOME",
    ".pyenv": "PYENV_ROOT",
    ".volta": "VOLTA_HOME",
    ".nvm": "NVM_DIR",
}
_PASSED_VARIABLES = (
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "VOLTA_HOME",
    "NVM_DIR",
    "GOROOT",
    "JAVA_HOME",
    "CONDA_PREFIX",
    "DOTNET_ROOT",
)
_NEVER_MOUNTED = (
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


def system_mount_arguments(network: bool) -> Iterator[str]:
    """Yield the arguments for bwrap."""
    for path in _SYSTEM_FOLDERS:
        if os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in _MERGED_USR_FOLDERS:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in (*_ETC_PATHS, *(_ETC_NETWORK_PATHS if network else ())):
        path = f"/etc/{name}"
        real = os.path.realpath(path)
        if os.path.islink(path) and is_within(real, "/usr"):
            yield from ("--symlink", real, path)
        elif os.path.exists(real):
            yield from ("--ro-bind", real, path)


def generate_account_files(user: str, uid: int, gid: int, home: str) -> dict[str, bytes]:
    """Return the contents of account files in /etc that name only the user the command runs as."""
    return {
        "/etc/passwd": f"{user}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n".encode(),
        "/etc/group": f"{user}:x:{gid}:\nnogroup:x:65534:\n".encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
    }


def find_toolchains() -> list[str]:
    """Return the folders outside of the system that programs on the PATH need, and our own Python installation."""
    folders = [sys.base_prefix, sys.prefix]
    for folder in os.environ.get("PATH", "").split(":"):
        if os.path.isabs(folder):
            folders += _find_installation(os.path.normpath(folder))
            folders += _find_installation(os.path.realpath(folder))
    existing = dict.fromkeys(path for path in folders if os.path.isdir(path) and not _is_home(path))
    outside = [
        path for path in existing if not any(is_within(path, root) for root in (*_SYSTEM_FOLDERS, *_MERGED_USR_FOLDERS))
    ]
    return [path for path in outside if not any(is_within(path, other) for other in outside if other != path)]


def _find_installation(folder: str) -> list[str]:
    """Return the folders of the installation that a PATH folder belongs to."""
    home = _find_home(folder)
    prefix = os.path.dirname(folder)
    is_environment = any(os.path.exists(f"{prefix}/{marker}") for marker in ("pyvenv.cfg", "conda-meta"))
    if home is None:
        return [prefix] if is_environment or prefix not in _NEVER_MOUNTED else [folder]
    known = [f"{home}/{name}" for name in _TOOLCHAINS]
    if toolchains := [path for path in known if is_within(folder, path)]:
        return toolchains
    folders = [prefix] if is_environment and prefix != home else [folder]
    if is_within(folder, f"{home}/.cargo"):
        folders.append(f"{home}/.rustup")  # cargo's programs only start those in there
    if folder == f"{home}/.local/bin":
        folders += [path for path in known if is_within(path, f"{home}/.local")]
    return folders


def _find_home(path: str) -> str | None:
    """Return the home directory that contains this path, of any user; None if there is none."""
    own = os.path.expanduser("~")
    if own != "/" and is_within(path, own):
        return own
    if is_within(path, "/root"):
        return "/root"
    parts = path.split("/")
    return "/".join(parts[:3]) if len(parts) > 2 and parts[1] in ("home", "Users") else None


def _is_home(path: str) -> bool:
    return path in _NEVER_MOUNTED or _find_home(path) == path


def build_toolchain_environment(toolchains: list[str]) -> dict[str, str]:
    """Return the variables by which toolchains find their folders, since HOME is a different one in the sandbox."""
    by_name = {os.path.basename(path): path for path in toolchains}
    known = {
        _TOOLCHAIN_HOME_VARIABLES[name]: path for name, path in by_name.items() if name in _TOOLCHAIN_HOME_VARIABLES
    }
    named = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    visible = (*toolchains, *_SYSTEM_FOLDERS)
    return {**known, **{name: path for name, path in named.items() if any(is_within(path, root) for root in visible)}}
