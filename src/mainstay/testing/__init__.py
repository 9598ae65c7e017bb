"""Doubles that behave, and the suites that any implementation of a port must pass.

from mainstay.testing import MemoryStore, ScriptedProvider, StoreSuite, VirtualClock, virtual_run
"""

from mainstay.providers.scripted import Call as Call
from mainstay.providers.scripted import Pieces as Pieces
from mainstay.providers.scripted import Raise as Raise
from mainstay.providers.scripted import Say as Say
from mainstay.providers.scripted import ScriptedProvider as ScriptedProvider
from mainstay.providers.scripted import Stall as Stall
from mainstay.testing.knowledge_suite import FactSuite as FactSuite
from mainstay.testing.knowledge_suite import MemorySuite as MemorySuite
from mainstay.testing.knowledge_suite import VectorSuite as VectorSuite
from mainstay.testing.memory_store import MemoryStore as MemoryStore
from mainstay.testing.store_suite import StoreSuite as StoreSuite
from mainstay.testing.tier_suite import MessageSuite as MessageSuite
from mainstay.testing.tier_suite import SummarySuite as SummarySuite
from mainstay.testing.virtual import CountingIds as CountingIds
from mainstay.testing.virtual import VirtualClock as VirtualClock
from mainstay.testing.virtual import virtual_run as virtual_run
