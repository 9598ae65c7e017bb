"""Doubles that behave, and the suites that any implementation of a port must pass.

    from mainstay.testing import MemoryStore, ScriptedProvider, StoreSuite, VirtualClock, virtual_run
"""

from mainstay.testing.memory_store import MemoryStore as MemoryStore
from mainstay.testing.store_suite import StoreSuite as StoreSuite
from mainstay.testing.virtual import CountingIds as CountingIds
from mainstay.testing.virtual import VirtualClock as VirtualClock
from mainstay.testing.virtual import virtual_run as virtual_run
