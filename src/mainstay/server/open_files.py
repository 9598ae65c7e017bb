"""The limit of open files of this process, and how many connections fit below it.

A connection takes a file descriptor, as a database, a file and a process do. Without a reserve, idle connections would
take all of them, and then no file can be opened and no audit record written.
"""

from __future__ import annotations

import resource

import msgspec

from mainstay.core.machine_health import OPEN_FILES_SPARE

OPEN_FILES_UNLIMITED = 1 << 20  # assumed where the system names no limit


class OpenFileLimit(msgspec.Struct, frozen=True):
    """How many files this process can have open, and what of that connections may take."""

    files_max: int

    @property
    def reserve(self) -> int:
        """Descriptors that are kept for databases, files and processes."""
        return min(OPEN_FILES_SPARE, self.files_max // 2)

    @property
    def descriptor_max(self) -> int:
        """The first descriptor number that a new connection must not have. The system gives the lowest free number, so
        a connection with this one means that files and connections together are about to use up the limit."""
        return self.files_max - self.reserve // 2

    def share_connections(self, configured_max: int, listeners: int) -> int:
        """Return how many connections each of `listeners` may have open, at most as many as configured."""
        return max(min(configured_max, (self.files_max - self.reserve) // listeners), 2)


def raise_open_file_limit() -> OpenFileLimit:
    """Raise the soft limit of open files to the hard one, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        target = OPEN_FILES_UNLIMITED if hard == resource.RLIM_INFINITY else hard
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (OSError, ValueError):
            pass  # macOS names a hard limit that it refuses; the soft one stays
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return OpenFileLimit(OPEN_FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft)
