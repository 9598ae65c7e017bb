"""What tests of skills as packages share: skills on disk, folders compared, and commands that are killed half-way.

As a program, `python skills_lab.py WORK SCENE FOLDER` does a piece of WORK in copies of the folder SCENE, and is killed
at its first, second, third … step on disk, until it comes through.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.paths import PYTHONPATH

HEADER = "---\nname: {name}\ndescription: {description}\n{more}---\n"
STEPS = ("rename", "replace", "symlink", "fsync", "mkdir")


def skill_at(
    folder: Path, name: str = "deploy", *, more: str = "", body: str = "# How\n\nDo it.\n", **files: str
) -> Path:
    """A skill in `folder`, with these files beside SKILL.md: `scripts__run_sh` is scripts/run.sh."""
    folder.mkdir(parents=True, exist_ok=True)
    head = HEADER.format(name=name, description=f"Helps to {name}.", more=more)
    (folder / "SKILL.md").write_text(head + body)
    for path, text in files.items():
        place = folder / path.replace("__", "/").replace("_", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def tree(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Everything in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = stat.S_IFMT(path.lstat().st_mode)
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (oct(kind), data)
    return found


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred(*entries: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            archive.addfile(info, io.BytesIO(entry[1]))
    return made.getvalue()


def packed(folder: Path, into: Path, *, top: str = "") -> Path:
    """An archive of a folder, by the archive's name."""
    files = {f"{top}{path.relative_to(folder)}": path for path in sorted(folder.rglob("*")) if path.is_file()}
    if into.suffix == ".zip":
        into.write_bytes(zipped({name: path.read_bytes() for name, path in files.items()}))
    else:
        entries = [(name, path.read_bytes()) for name, path in files.items()]
        into.write_bytes(tarred(*entries, mode="w:gz" if into.suffix in (".gz", ".tgz") else "w"))
    return into


# --- killed half-way -----------------------------------------------------------------------------


def scenes(work: str, scene: Path, into: Path) -> list[Path]:
    """Copies of a scene in which the work was cut short, one more step each; in the last it was not."""
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    words = [sys.executable, __file__, work, str(scene), str(into)]
    subprocess.run(words, env=env, check=True, timeout=120)
    return sorted(into.iterdir())


@contextmanager
def interrupted(at: int, how: Callable[[], None]) -> Iterator[list[int]]:
    """`how` is called before the step of this number; the list has how many there were."""
    real = {name: getattr(os, name) for name in STEPS}
    count = [0]

    def stepping(name: str) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                how()
            return real[name](*given, **named)

        return step

    for name in STEPS:
        setattr(os, name, stepping(name))
    try:
        yield count
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def do(work: str, scene: Path) -> None:
    """On a scene: `source/NAME` are skills to install, `home/skills` is a skills folder, `other` another one."""
    from mainstay.skills import installer

    skills, other = scene / "home" / "skills", scene / "other" / "skills"
    match work.split():
        case ["install", *names]:
            plans = [installer.plan_install(scene / "source" / name, skills, source="elsewhere") for name in names]
            installer.install_skills(plans, skills, force=True)
        case ["remove", name]:
            installer.remove_skill(name, skills)
        case ["copy", name]:
            installer.copy_skill(name, skills, other, force=True)
        case ["link", name]:
            installer.link_skill(name, skills, other, force=True)
        case ["approve", name]:
            installer.approve_changes(installer.plan_approval(name, skills), skills)


def main(work: str, scene: Path, into: Path) -> None:
    shutil.copytree(scene, warm := into.parent / "warm", symlinks=True)
    do(work, warm)  # what is loaded on first use is loaded for all
    into.mkdir()
    for at in range(1, 200):
        here = into / f"{at:03}"
        shutil.copytree(scene, here, symlinks=True)
        child = os.fork()
        if not child:
            with interrupted(at, lambda: os._exit(9)):
                do(work, here)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return
    raise SystemExit("it never came through")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
