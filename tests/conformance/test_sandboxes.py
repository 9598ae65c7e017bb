"""Every sandbox through one suite."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.outside import Sandbox
from mainstay.sandbox.bubblewrap import BubblewrapSandbox
from mainstay.sandbox.host import HostSandbox
from mainstay.sandbox.limits import SandboxRules
from mainstay.testing.escape_suite import ConfinedSuite
from mainstay.testing.guarding_suite import GuardingSuite
from mainstay.testing.sandbox_suite import BoundedSuite, SandboxSuite

SMALL = SandboxRules(processes=64, memory_mb=128, file_mb=8)


class TestHost(SandboxSuite, BoundedSuite):
    def make(self, where: Path) -> Sandbox:
        return HostSandbox()

    def make_small(self, where: Path) -> Sandbox:
        return HostSandbox(SMALL)


class TestBubblewrap(SandboxSuite, BoundedSuite, ConfinedSuite, GuardingSuite):
    def make(self, where: Path) -> Sandbox:
        return BubblewrapSandbox()

    def make_small(self, where: Path) -> Sandbox:
        return BubblewrapSandbox(SMALL)
