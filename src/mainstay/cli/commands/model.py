"""`mainstay model list|pull|remove`: models that run on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import msgspec

from mainstay.agent.model_discovery import DiscoveredModel, find_model
from mainstay.cli.commands.home_locator import build_overrides, resolve_home
from mainstay.cli.commands.model_download import (
    NEEDS_RUNTIME,
    confirm_download,
    download_weights,
    format_size,
    is_download_accepted,
    is_runtime_installed,
)
from mainstay.cli.commands.output import print_json, print_table
from mainstay.cli.parser.root import UsageError
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.providers.local import pull as pulling
from mainstay.providers.local.catalogue import (
    CATALOGUE,
    DEFAULT_WEIGHTS,
    Weights,
    find_weights,
    is_pulled,
    weights_folder,
)
from mainstay.providers.local.partial_file import partial_size_bytes

CONFIRMATION_NEEDED = "downloading a model needs confirmation; add --yes to confirm"


class LocalModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model in the output of `model list --json`."""

    name: str
    model: str  # for --model and the configuration: "local/NAME"
    title: str
    about: str
    licence: str
    source: str
    bytes: int
    memory_mb: int
    here: bool  # downloaded
    kept_bytes: int  # of an unfinished download
    path: str


def list_models(options: argparse.Namespace) -> int:
    models_folder = weights_folder()
    rows = [_build_row(weights) for weights in CATALOGUE]
    discovered, problem = _find_active_model(options)
    if options.json:
        active = {"model": discovered.spec, "how": discovered.reason} if discovered else None
        print_json(
            {
                "ok": True,
                "folder": str(models_folder),
                "runtime": is_runtime_installed(),
                "found": active,
                "models": rows,
            }
        )
        return 0
    head = ("NAME", "SIZE", "MEMORY", "LICENCE", "DOWNLOADED", "DESCRIPTION")
    print_table(
        head,
        [
            (
                row.name,
                format_size(row.bytes),
                format_size(row.memory_mb * 10**6),
                row.licence,
                _format_download_state(row),
                row.about,
            )
            for row in rows
        ],
        right_aligned="bc",
    )
    folder = escape_line(str(models_folder))
    print(f"\nModels are stored in {folder}; use a GGUF file of your own as local//its/whole/path.")
    print(
        f"Model in use: {escape_line(discovered.spec)} ({escape_line(discovered.reason)})."
        if discovered
        else escape_line(problem)
    )
    if not is_runtime_installed():
        print(NEEDS_RUNTIME)
    return 0


def _build_row(weights: Weights) -> LocalModelRow:
    models_folder = weights_folder()
    return LocalModelRow(
        name=weights.name,
        model=f"local/{weights.name}",
        title=weights.title,
        about=weights.description,
        licence=weights.licence,
        source=weights.page_url,
        bytes=weights.size_bytes,
        memory_mb=weights.memory_mb,
        here=is_pulled(weights, models_folder),
        kept_bytes=partial_size_bytes(weights, models_folder),
        path=str(models_folder / weights.file_name),
    )


def _format_download_state(row: LocalModelRow) -> str:
    return "yes" if row.here else f"{row.kept_bytes * 100 // row.bytes} %" if row.kept_bytes else "no"


def _find_active_model(options: argparse.Namespace) -> tuple[DiscoveredModel | None, str]:
    """Return the model that would be used, or why there is none. An invalid configuration is not an error here."""
    try:
        config = load_config(resolve_home(options), env=os.environ, overrides=build_overrides(options)).config
    except ConfigError as error:
        return None, str(error)
    return find_model(config, os.environ), "No model is configured, and none was found."


def pull(options: argparse.Namespace) -> int:
    weights = find_weights(options.name) if options.name else DEFAULT_WEIGHTS
    if not is_pulled(weights, weights_folder()) and not options.yes and not is_download_accepted():
        if not sys.stdin.isatty():
            raise UsageError(CONFIRMATION_NEEDED)
        if not confirm_download(weights):
            print("nothing was downloaded")
            return 0
    done = download_weights(weights, source=options.source or "", is_quiet=options.json)
    if options.json:
        print_json({"ok": True, **_build_pull_document(weights, done)})
        return 0
    if done.duration_s:
        source = f" from {escape_line(done.source)}" if done.source else ""
        size = format_size(done.downloaded_bytes)
        print(f"{weights.name} was downloaded: {size}{source} in {done.duration_s:.0f} s, hash verified")
    else:
        print(f"{weights.name} is downloaded already")
    print(f"mainstay chat --model local/{weights.name}" if is_runtime_installed() else NEEDS_RUNTIME)
    return 0


def _build_pull_document(weights: Weights, pulled: pulling.PullResult) -> dict[str, Any]:
    return {
        "name": weights.name,
        "model": f"local/{weights.name}",
        "path": str(pulled.path),
        "sha256": weights.sha256,
        "bytes": weights.size_bytes,
        "brought_bytes": pulled.downloaded_bytes,
        "source": pulled.source,
        "seconds": round(pulled.duration_s, 1),
    }


def remove(options: argparse.Namespace) -> int:
    weights = find_weights(options.name)
    freed = pulling.remove_weights(weights, weights_folder())
    if options.json:
        print_json({"ok": True, "name": weights.name, "freed_bytes": freed})
    else:
        print(f"{weights.name} was removed: {format_size(freed)} freed")
    return 0
