"""The plugin lock file (`lock.json`): installed plugins with their content hashes and capability grants."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.io.package_folder import LOCK_FILE, read_lock_file, write_lock_file
from mainstay.plugins.manifest import CallContextField, PluginName
from mainstay.trust.guards.line_escaping import one_line

BYTES_MAX = 1024 * 1024


class InstalledPlugin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin that the owner has added: pinned to the files and grants that the owner was shown."""

    name: PluginName
    version: str
    digest: str  # "sha256:…" over all files
    needs: ProcessPermissions = ProcessPermissions()
    env: tuple[str, ...] = ()  # the owner's variables and secrets that it may read
    context: tuple[CallContextField, ...] = ()  # facts about the conversation that it may be sent with a call
    added: str = ""  # time of installation, ISO 8601 in UTC


class _PluginLockFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: tuple[InstalledPlugin, ...] = ()
    format: int = 1


def read_lock(plugins_folder: Path) -> dict[str, InstalledPlugin]:
    """Return the installed plugins by name. Raises ConfigError if the file cannot be read."""
    data = read_lock_file(plugins_folder, BYTES_MAX)
    if data is None:
        return {}
    try:
        lock = msgspec.json.decode(data, type=_PluginLockFile)
    except (msgspec.DecodeError, RecursionError):
        lock = None
    if lock is None or lock.format != 1 or len(data) > BYTES_MAX:
        path = one_line(str(plugins_folder / LOCK_FILE))
        raise ConfigError(f"{path} is damaged or was written by a newer release; delete it and add the plugins again")
    return {plugin.name: plugin for plugin in lock.plugins}


def write_lock(plugins_folder: Path, plugins: dict[str, InstalledPlugin]) -> None:
    """Replace the file atomically: a reader sees the old content or the new one."""
    lock = _PluginLockFile(tuple(plugins[name] for name in sorted(plugins)))
    write_lock_file(plugins_folder, msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n")
