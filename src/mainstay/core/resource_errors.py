"""Sentences for errors that mean that the machine has run out of something, and its folder for temporary files."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from mainstay.core.errors import HomeUnusable

TEMPORARY_PREFIX = "mainstay-"
NO_MEMORY = "this machine has too little free memory"
NO_FILES = "too many files are open on this machine (`ulimit -n`)"
NO_THREADS = (
    "no more threads can be started: too little memory is free, or too many threads run (`ulimit -u`, `ulimit -v`)"
)


def describe_shortage(error: BaseException) -> str:
    """Return what the machine has run out of, as a clause; "" if the error means something else."""
    match error:
        case MemoryError():
            return NO_MEMORY
        case OSError(errno=errno.ENOMEM):
            return NO_MEMORY
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            return NO_FILES
        case RuntimeError() if "can't start new thread" in str(error):
            return NO_THREADS
    return ""


# --- temporary files ----------------------------------------------------------------------------


def get_temporary_folder() -> str:
    """Return the folder for temporary files. Raises HomeUnusable."""
    try:
        return tempfile.gettempdir()  # writes a file there, the first time
    except OSError:
        raise HomeUnusable(
            f"no temporary file can be written in any of {', '.join(_list_candidates())}: each is missing, full or "
            "read-only; free some space, or set TMPDIR to a folder that has some"
        ) from None


def create_temporary_folder(prefix: str = TEMPORARY_PREFIX, parent: str = "") -> str:
    """Create a folder that no other user can read. Raises HomeUnusable."""
    parent = parent or get_temporary_folder()
    try:
        return tempfile.mkdtemp(prefix=prefix, dir=parent)
    except OSError as error:
        raise HomeUnusable(
            f"no folder can be created in {parent}, which is for temporary files: {error.strerror or error}; TMPDIR "
            "names another one"
        ) from error


@contextmanager
def temporary_folder(prefix: str = TEMPORARY_PREFIX) -> Iterator[str]:
    """Create a temporary folder for the block. Raises HomeUnusable."""
    folder = create_temporary_folder(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _list_candidates() -> list[str]:
    """Return the folders that `tempfile` tries, without the current one."""
    named = [folder for name in ("TMPDIR", "TEMP", "TMP") if (folder := os.environ.get(name))]
    return list(dict.fromkeys([*map(os.path.abspath, named), "/tmp", "/var/tmp"]))
