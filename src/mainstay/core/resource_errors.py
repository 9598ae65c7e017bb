"""Sentences for errors that mean that the machine has run out of something."""

from __future__ import annotations

import errno

NO_MEMORY = "this machine has too little free memory"
NO_FILES = "too many files are open on this machine (`ulimit -n`)"
NO_THREADS = "no more threads or processes can be started on this machine (`ulimit -u`)"


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
