"""What `doctor` looks at of models that run on this machine by themselves: their weights, and what runs them."""

from __future__ import annotations

import hashlib
import importlib.util
import stat
from collections.abc import Iterator
from pathlib import Path

from mainstay.cli.chat.words import count
from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.checks_address import Target
from mainstay.cli.commands.checks_machine import available_mb
from mainstay.core.errors import ConfigError
from mainstay.providers.local import weights
from mainstay.providers.local.growing import PART, NotPulled, began
from mainstay.providers.local.pull import alone
from mainstay.providers.local.weights import CATALOGUE, OWN, Weights
from mainstay.providers.local.wheels import ASIDE, clear

_BLOCK = 4 * 1024 * 1024
GGUF = b"GGUF"


def weights_of(target: Target, *, deep: bool) -> list[Finding]:
    """Of one that is configured, or was found."""
    place = weights.folder()
    runtime = list(_runtime())
    try:
        path = weights.path_of(target.name, place)
    except ConfigError as error:
        fix = "" if "mainstay model pull" in str(error) else "mainstay model list"
        return [*runtime, Finding("Local model", "FAIL", str(error), fix)]
    if target.name.endswith(OWN):
        return [*runtime, _own(path)]
    one = weights.find(target.name)
    if deep and (said := _wrong(one, path)):
        return [
            *runtime,
            Finding("Local model", "FAIL", said, f"mainstay model remove {one.name}, and then: {_again(one)}"),
        ]
    says = f"{one.name}: {one.size / 1e9:.2f} GB at {path}" + (", whole" if deep else "; --deep reads and loads it")
    return [*runtime, *_room(one), Finding("Local model", "ok", says)]


def kept(*, fix: bool) -> Iterator[Finding]:
    """The folder of all weights, whoever uses them: files of the right name and another size, and what was left."""
    place = weights.folder()
    if not place.is_dir():
        return
    yield from _folder(place, fix=fix)
    yield from _aside(place, fix=fix)
    for one in CATALOGUE:
        path = place / one.file
        if weights.is_there(one, place):
            yield from _useless(place / (one.file + PART), one, fix=fix)
            continue
        if path.is_file():
            yield _cut_short(path, one, fix=fix)
        if have := began(one, place):
            says = f"{one.name} was brought in part, {have / 1e6:,.0f} of {one.size / 1e6:,.0f} MB"
            fix_it = f"mainstay model pull {one.name} goes on from there; mainstay model remove {one.name} frees it"
            yield Finding("Local model", "warn", says, fix_it)


def _folder(place: Path, *, fix: bool) -> Iterator[Finding]:
    mode = place.stat().st_mode
    if not mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    if fix:
        place.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        yield Finding("Local model", "ok", f"only its owner may write to {place} (mended)", mended=True)
    else:
        says = f"others may write to {place}, and could replace what was checked"
        yield Finding("Local model", "FAIL", says, f"doctor --fix, or: chmod go-w {place}")


def _aside(place: Path, *, fix: bool) -> Iterator[Finding]:
    """Packages that an attempt which was killed had not taken apart yet; not those of one that goes on."""
    left = sum(one.is_dir() for one in place.glob(f"{ASIDE}*"))
    if not left:
        return
    try:
        with alone(place):
            if fix:
                clear(place)
    except NotPulled:
        return
    says = f"{count(left, 'folder')} of a download that was killed in {place}"
    if fix:
        yield Finding("Local model", "ok", f"{says}: removed (mended)", mended=True)
    else:
        yield Finding("Local model", "warn", says, "doctor --fix takes them away, and so does the next pull")


def _cut_short(path: Path, one: Weights, *, fix: bool) -> Finding:
    says = f"{path} has {path.stat().st_size:,} of {one.size:,} bytes: it is of no use"
    if not fix:
        return Finding("Local model", "FAIL", says, f"doctor --fix takes it away; {_again(one)}")
    path.unlink()
    return Finding("Local model", "warn", f"{says}, and was removed (mended)", _again(one), mended=True)


def _useless(part: Path, one: Weights, *, fix: bool) -> Iterator[Finding]:
    """Of an attempt whose end came another way."""
    if not part.is_file():
        return
    says = f"{part} is left of bringing {one.name}, which is here whole"
    if fix:
        part.unlink()
        yield Finding("Local model", "ok", f"{says}; it was removed (mended)", mended=True)
    else:
        yield Finding("Local model", "warn", says, "doctor --fix takes it away")


def _again(one: Weights) -> str:
    return f"mainstay model pull {one.name} brings it anew"


def _runtime() -> Iterator[Finding]:
    if importlib.util.find_spec("xllamacpp") is None:
        yield Finding("Local model", "FAIL", "xllamacpp is not installed, which runs it", "pip install -e '.[local]'")


def _own(path: Path) -> Finding:
    with path.open("rb") as file:
        if file.read(len(GGUF)) != GGUF:
            fix = "name a GGUF file: mainstay config set model local//path/to/it.gguf"
            return Finding("Local model", "FAIL", f"{path} holds no weights that llama.cpp reads", fix)
    return Finding("Local model", "ok", f"{path.stat().st_size / 1e9:.2f} GB at {path}, of your own")


def _wrong(one: Weights, path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return "" if digest.hexdigest() == one.sha256 else f"{path} does not hold what {one.name} is: its hash is another"


def _room(one: Weights) -> Iterator[Finding]:
    left = available_mb()
    if left is not None and left < one.memory_mb:
        says = f"{one.name} wants {one.memory_mb} MB of memory, and {left} MB are free"
        yield Finding("Local model", "warn", says, "end something else, or pull a smaller one: mainstay model list")
