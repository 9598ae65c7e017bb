"""Test doubles (scripted provider, in-memory store, fake clock) and conformance suites for implementations of ports.

from mainstay.testing import MemoryStore, ProviderSuite, ScriptedProvider, StoreSuite, VirtualClock, virtual_run
"""

from mainstay.providers.scripted import Call as Call
from mainstay.providers.scripted import Pieces as Pieces
from mainstay.providers.scripted import Raise as Raise
from mainstay.providers.scripted import Say as Say
from mainstay.providers.scripted import ScriptedProvider as ScriptedProvider
from mainstay.providers.scripted import Stall as Stall
from mainstay.store.memory.store import MemoryStore as MemoryStore
from mainstay.testing.conversation_tier_suites import MessageSuite as MessageSuite
from mainstay.testing.conversation_tier_suites import SummarySuite as SummarySuite
from mainstay.testing.knowledge_tier_suites import FactSuite as FactSuite
from mainstay.testing.knowledge_tier_suites import MemorySuite as MemorySuite
from mainstay.testing.knowledge_tier_suites import VectorSuite as VectorSuite
from mainstay.testing.provider_suite import ProviderSuite as ProviderSuite
from mainstay.testing.store_suite import StoreSuite as StoreSuite
from mainstay.testing.virtual_time import CountingIds as CountingIds
from mainstay.testing.virtual_time import VirtualClock as VirtualClock
from mainstay.testing.virtual_time import virtual_run as virtual_run
