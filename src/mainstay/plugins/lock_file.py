"""The plugin lock file (`lock.json`): installed plugins with their content hashes and capability grants."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from mainstay.core.tool_ports import ProcessPermissions
from mainstay.io.package_installer import PackageKind, read_lock_file, write_lock_file
from mainstay.plugins.manifest import CallContextField, PluginName


class InstalledPlugin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin that the owner has added: pinned to the files and grants that the owner was shown."""

    name: PluginName
    version: str
    digest: str  # "sha256:…" over all files
    needs: ProcessPermissions = ProcessPermissions()
    env: tuple[str, ...] = ()  # the owner's variables and secrets that it may read
    context: tuple[CallContextField, ...] = ()  # facts about the conversation that it may be sent with a call
    added: str = ""  # time of installation, ISO 8601 in UTC


class PluginLockFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: tuple[InstalledPlugin, ...] = ()
    format: Literal[1] = 1


PLUGIN_PACKAGES = PackageKind(
    noun="plugin",
    lock_type=PluginLockFile,
    lock_bytes_max=1024 * 1024,
    damage_remedy="delete it and add the plugins again",
    list_pins=lambda lock: {plugin.name: plugin.digest for plugin in lock.plugins},
)


def read_lock(plugins_folder: Path) -> dict[str, InstalledPlugin]:
    """Return the installed plugins by name. Raises ConfigError if the file cannot be read."""
    return {plugin.name: plugin for plugin in read_lock_file(plugins_folder, PLUGIN_PACKAGES).plugins}


def write_lock(plugins_folder: Path, plugins: dict[str, InstalledPlugin]) -> None:
    """Replace the file atomically. Raises ConfigError if it could not be read back."""
    lock = PluginLockFile(tuple(plugins[name] for name in sorted(plugins)))
    write_lock_file(plugins_folder, PLUGIN_PACKAGES, lock)
