"""Health checks of local models: their weights, and the runtime."""

from __future__ import annotations

import hashlib
import importlib.util
import stat
from collections.abc import Iterator
from pathlib import Path

from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckFinding
from mainstay.core.machine_health import available_memory_mb
from mainstay.core.outcome_text import format_count
from mainstay.core.provider_manifest import ProviderCheckContext, ProviderFilesContext, ProviderSettings
from mainstay.providers.local import catalogue
from mainstay.providers.local.catalogue import CATALOGUE, GGUF_SUFFIX, Weights
from mainstay.providers.local.partial_file import PART_SUFFIX, DownloadFailed, partial_size_bytes
from mainstay.providers.local.pull import lock_folder
from mainstay.providers.local.weights_in_wheels import TEMPORARY_PREFIX, remove_leftovers

_BLOCK_BYTES = 4 * 1024 * 1024
GGUF_MAGIC = b"GGUF"


def check_local_model(name: str, settings: ProviderSettings, context: ProviderCheckContext) -> list[CheckFinding]:
    """Check the weights of one model; with `is_deep`, also their hash."""
    folder = catalogue.weights_folder(context.environ)
    runtime = list(_check_runtime())
    try:
        path = catalogue.resolve_weights_path(name, folder)
    except ConfigError as error:
        fix = "" if "mainstay model pull" in str(error) else "mainstay model list"
        return [*runtime, CheckFinding("Local model", "FAIL", str(error), fix)]
    if name.endswith(GGUF_SUFFIX):
        return [*runtime, _check_own_file(path)]
    model = catalogue.find_weights(name)
    if context.is_deep and (problem := _describe_hash_mismatch(model, path)):
        fix = f"mainstay model remove {model.name}, then: {_pull_advice(model)}"
        return [*runtime, CheckFinding("Local model", "FAIL", problem, fix)]
    checked = ", intact" if context.is_deep else "; --deep verifies and loads it"
    message = f"{model.name}: {model.size_bytes / 1e9:.2f} GB at {path}{checked}"
    return [*runtime, *_check_free_memory(model), CheckFinding("Local model", "ok", message)]


def check_weights_folder(context: ProviderFilesContext) -> Iterator[CheckFinding]:
    """Check the folder of downloaded weights: its permissions, files of the wrong size, unfinished downloads."""
    folder, fix = catalogue.weights_folder(context.environ), context.fix
    if not folder.is_dir():
        return
    yield from _check_folder_mode(folder, fix=fix)
    yield from _check_leftover_folders(folder, fix=fix)
    for model in CATALOGUE:
        path = folder / model.file_name
        if catalogue.is_pulled(model, folder):
            yield from _check_obsolete_part(folder / (model.file_name + PART_SUFFIX), model, fix=fix)
            continue
        if path.is_file():
            yield _check_truncated_file(path, model, fix=fix)
        if have := partial_size_bytes(model, folder):
            message = f"{model.name} is partly downloaded, {have / 1e6:,.0f} of {model.size_bytes / 1e6:,.0f} MB"
            fix_it = f"mainstay model pull {model.name} continues; mainstay model remove {model.name} frees the space"
            yield CheckFinding("Local model", "warn", message, fix_it)


def _check_folder_mode(folder: Path, *, fix: bool) -> Iterator[CheckFinding]:
    mode = folder.stat().st_mode
    if not mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    if fix:
        folder.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        yield CheckFinding("Local model", "ok", f"only its owner can write to {folder} (fixed)", is_fixed=True)
    else:
        message = f"other users can write to {folder}, and could replace verified weights"
        yield CheckFinding("Local model", "FAIL", message, f"doctor --fix, or: chmod go-w {folder}")


def _check_leftover_folders(folder: Path, *, fix: bool) -> Iterator[CheckFinding]:
    """Find package folders that a killed download left unextracted; a running download keeps its own."""
    left = sum(path.is_dir() for path in folder.glob(f"{TEMPORARY_PREFIX}*"))
    if not left:
        return
    try:
        with lock_folder(folder):
            if fix:
                remove_leftovers(folder)
    except DownloadFailed:
        return
    message = f"{format_count(left, 'folder')} of a killed download in {folder}"
    if fix:
        yield CheckFinding("Local model", "ok", f"{message}: removed (fixed)", is_fixed=True)
    else:
        yield CheckFinding("Local model", "warn", message, "doctor --fix removes them, and so does the next pull")


def _check_truncated_file(path: Path, model: Weights, *, fix: bool) -> CheckFinding:
    message = f"{path} has {path.stat().st_size:,} of {model.size_bytes:,} bytes and cannot be used"
    if not fix:
        return CheckFinding("Local model", "FAIL", message, f"doctor --fix removes it; {_pull_advice(model)}")
    path.unlink()
    return CheckFinding("Local model", "warn", f"{message}; it was removed (fixed)", _pull_advice(model), is_fixed=True)


def _check_obsolete_part(part: Path, model: Weights, *, fix: bool) -> Iterator[CheckFinding]:
    """Find a partial download of weights that are already complete."""
    if not part.is_file():
        return
    message = f"{part} is left over from downloading {model.name}, which is complete"
    if fix:
        part.unlink()
        yield CheckFinding("Local model", "ok", f"{message}; it was removed (fixed)", is_fixed=True)
    else:
        yield CheckFinding("Local model", "warn", message, "doctor --fix removes it")


def _pull_advice(model: Weights) -> str:
    return f"mainstay model pull {model.name} downloads it again"


def _check_runtime() -> Iterator[CheckFinding]:
    if importlib.util.find_spec("xllamacpp") is None:
        message = "xllamacpp, which runs local models, is not installed"
        yield CheckFinding("Local model", "FAIL", message, "pip install -e '.[local]'")


def _check_own_file(path: Path) -> CheckFinding:
    with path.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            fix = "name a GGUF file: mainstay config set model local//path/to/it.gguf"
            return CheckFinding("Local model", "FAIL", f"{path} is not a GGUF file, which llama.cpp needs", fix)
    return CheckFinding("Local model", "ok", f"{path.stat().st_size / 1e9:.2f} GB at {path}, your own file")


def _describe_hash_mismatch(model: Weights, path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return "" if digest.hexdigest() == model.sha256 else f"{path} is not {model.name}: its SHA-256 hash differs"


def _check_free_memory(model: Weights) -> Iterator[CheckFinding]:
    left = available_memory_mb()
    if left is not None and left < model.memory_mb:
        message = f"{model.name} needs {model.memory_mb} MB of memory, but only {left} MB are free"
        yield CheckFinding(
            "Local model", "warn", message, "close other programs, or pull a smaller model: mainstay model list"
        )
