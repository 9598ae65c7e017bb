"""Sentences for errors that mean that the machine has run out of something."""

from __future__ import annotations

import errno

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
