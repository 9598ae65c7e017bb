"""Installs, verifies and removes plugins: a folder or archive is inspected, moved into place atomically and pinned."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.io.archives import ArchiveLimits
from mainstay.io.package_installer import (
    OLD_PREFIX,
    change_packages,
    compute_digest,
    move_in,
    move_out,
    recover_interrupted,
    sync_folder,
    sync_tree,
    unpack_package,
)
from mainstay.plugins.folder_grants import resolve_grants
from mainstay.plugins.lock_file import PLUGIN_PACKAGES, InstalledPlugin, read_lock, write_lock
from mainstay.plugins.manifest import (
    MANIFEST_FILE,
    PluginManifest,
    PluginName,
    describe_changes,
    describe_requests,
    read_manifest,
)

ARCHIVE_LIMITS = ArchiveLimits(files_max=20_000)


class PluginInstallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What installing a plugin would change, to be shown to the owner first."""

    manifest: PluginManifest
    digest: str
    requests: list[str]  # what it requests; each continues a sentence that begins with "it wants to"
    new_requests: list[str]  # the requests that the installed version did not make; all of them if none is installed
    replaced_version: str = ""  # the installed version; empty: none
    changes: list[str] = []  # differences from the installed version; each continues a sentence that begins with "it"


def plan_install(source: Path, plugins_folder: Path) -> PluginInstallPlan:
    """Inspect a folder or archive and return what installing it would change. Writes nothing. Raises ConfigError."""
    with tempfile.TemporaryDirectory(prefix="mainstay-plugin-") as staging:
        return _build_plan(_unpack_source(source, Path(staging)), plugins_folder)


def install_plugin(source: Path, plugins_folder: Path, *, expected_digest: str = "") -> InstalledPlugin:
    """Install a plugin, or replace the installed one of the same name. `expected_digest` is what the owner was shown:
    any other content is refused. Raises ConfigError, and then nothing has changed."""
    with change_packages(plugins_folder, PLUGIN_PACKAGES) as staging:
        root = _unpack_source(source, staging)
        plan = _build_plan(root, plugins_folder)
        if expected_digest and plan.digest != expected_digest:
            raise ConfigError(f"{one_line(str(source))} has changed since it was inspected; inspect it again")
        manifest = plan.manifest
        installed = InstalledPlugin(
            name=manifest.name,
            version=manifest.version,
            digest=plan.digest,
            needs=resolve_grants(manifest.needs),
            env=tuple(manifest.env_references()),
            context=manifest.context,
            added=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        sync_tree(root)
        target = plugins_folder / manifest.name
        try:
            move_in(root, target, staging)
            sync_folder(plugins_folder)
            write_lock(plugins_folder, {**read_lock(plugins_folder), manifest.name: installed})
        except BaseException:
            move_out(root, target, staging)
            raise
        return installed


def remove_plugin(name: str, plugins_folder: Path) -> InstalledPlugin:
    """Uninstall a plugin. Its stored state stays: that is in the databases of the workspaces. Raises ConfigError."""
    check_plugin_name(name)
    with change_packages(plugins_folder, PLUGIN_PACKAGES) as staging:
        plugins = read_lock(plugins_folder)
        removed = plugins.pop(name, None)
        if removed is None:
            raise _unknown_plugin_error(name, plugins)
        write_lock(plugins_folder, plugins)
        if (plugins_folder / name).exists():
            os.rename(plugins_folder / name, staging / f"{OLD_PREFIX}{name}")
        return removed


def verify_plugin(name: str, plugins_folder: Path) -> PluginManifest:
    """Return the manifest of an installed plugin. Called at every load; raises ConfigError unless the content hash of
    its files is the one in the lock file."""
    check_plugin_name(name)
    try:
        return _load_verified(name, plugins_folder)
    except ConfigError:
        if not recover_interrupted(plugins_folder, PLUGIN_PACKAGES):
            raise
        return _load_verified(name, plugins_folder)


def _load_verified(name: str, plugins_folder: Path) -> PluginManifest:
    plugins = read_lock(plugins_folder)
    if name not in plugins:
        raise _unknown_plugin_error(name, plugins)
    folder = plugins_folder / name
    advice = "; review it and run `mainstay plugin add` again"
    try:
        digest = compute_digest(folder)
    except OSError as error:
        raise ConfigError(f"the files of plugin {name} cannot be read: {error.strerror}{advice}") from None
    except ConfigError as error:
        raise ConfigError(f"plugin {name}: {error}{advice}") from None
    if digest != plugins[name].digest:
        raise ConfigError(f"the files of plugin {name} have changed since it was added{advice}")
    manifest = read_manifest(folder)
    assert manifest.name == name, "a plugin's folder has the name of its manifest"
    return manifest


def check_plugin_name(name: str) -> str:
    """Return the name if it is valid, and so safe as part of a path. Raises ConfigError."""
    try:
        return msgspec.convert(name, PluginName)
    except msgspec.ValidationError:
        raise ConfigError(
            f"{one_line(name)[:60]!r} is not a valid plugin name: use lowercase letters and digits, at most 32"
        ) from None


def _unknown_plugin_error(name: str, plugins: dict[str, InstalledPlugin]) -> ConfigError:
    names = ", ".join(sorted(plugins)) or "none"
    return ConfigError(f"no plugin {name} is installed; installed plugins: {names}")


# --- steps ---------------------------------------------------------------------------------------


def _unpack_source(source: Path, staging: Path) -> Path:
    """Unpack the source and return the folder with the manifest: the unpacked one, or the only folder in it."""
    unpacked = staging / "new"
    unpack_package(source, unpacked, ARCHIVE_LIMITS, shown_as=str(source))
    entries = list(unpacked.iterdir())
    if not (unpacked / MANIFEST_FILE).exists() and len(entries) == 1 and entries[0].is_dir():
        return entries[0]
    return unpacked


def _build_plan(root: Path, plugins_folder: Path) -> PluginInstallPlan:
    manifest = read_manifest(root)
    requests = describe_requests(manifest)
    installed = read_lock(plugins_folder).get(manifest.name)
    old = _load_installed_manifest(manifest.name, plugins_folder) if installed else None
    old_requests = describe_requests(old) if old is not None else []
    resolve_grants(manifest.needs)  # raises if something cannot be granted
    return PluginInstallPlan(
        manifest=manifest,
        digest=compute_digest(root),
        requests=requests,
        new_requests=[request for request in requests if request not in old_requests],
        replaced_version=installed.version if installed else "",
        changes=describe_changes(old, manifest) if old is not None else [],
    )


def _load_installed_manifest(name: str, plugins_folder: Path) -> PluginManifest | None:
    try:
        return verify_plugin(name, plugins_folder)
    except ConfigError:  # what the owner was shown then is not known any more
        return None
