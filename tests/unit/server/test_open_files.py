"""How many connections fit below the limit of open files (F64)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.paths import PYTHONPATH

from mainstay.server.connection_limits import ConnectionLimiter, ConnectionLimits
from mainstay.server.open_files import OpenFileLimit


@pytest.mark.parametrize(
    ("files", "listeners", "connections", "descriptor_max"),
    [(1024, 1, 768, 896), (1024, 2, 384, 896), (192, 1, 96, 144), (100_000, 2, 2000, 99_872), (4, 1, 2, 3)],
)
def test_f64_connections_leave_a_reserve_of_open_files(
    files: int, listeners: int, connections: int, descriptor_max: int
) -> None:
    limit = OpenFileLimit(files)
    assert limit.share_connections(2000, listeners) == connections
    assert limit.descriptor_max == descriptor_max


def test_f64_the_soft_limit_is_raised_to_the_hard_one() -> None:
    source = (
        "import resource; from mainstay.server.open_files import raise_open_file_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))\n"
        "print(raise_open_file_limit().files_max, resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env={"PYTHONPATH": PYTHONPATH}, check=True
    )
    assert done.stdout == "300 (300, 300)\n"


class Evictable:
    evicted = False

    def evict(self) -> None:
        self.evicted = True


def test_f64_a_connection_with_a_descriptor_of_the_reserve_evicts_an_idle_one() -> None:
    limiter = ConnectionLimiter(ConnectionLimits.for_connections(100, 0, descriptor_max=50))
    idle, busy, late, later = Evictable(), Evictable(), Evictable(), Evictable()
    assert limiter.admit(idle, "a", 48)
    limiter.mark_waiting(idle)
    assert limiter.admit(busy, "b", 49)
    assert not idle.evicted
    assert limiter.admit(late, "c", 50)
    assert (idle.evicted, busy.evicted) == (True, False)
    assert not limiter.admit(later, "d", 50), "no connection is idle"
