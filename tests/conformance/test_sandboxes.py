"""Every sandbox through one suite. Docker's own logic is shown with a stand-in that runs `docker exec` locally."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.container_engine import NO_ENGINE, run_container
from support.example_distributions import import_example
from support.fake_docker import fake_docker

from mainstay.core.tool_ports import Sandbox
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem, can_overlay
from mainstay.sandbox.docker.sandbox import DockerSandbox
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.sandbox.limits import SandboxLimits
from mainstay.testing.sandbox_escape_suite import SandboxEscapeSuite
from mainstay.testing.sandbox_file_deletion_suite import SandboxDeletionSuite
from mainstay.testing.sandbox_suite import SandboxLimitsSuite, SandboxSuite

SMALL = SandboxLimits(processes=64, memory_mb=256, file_mb=8)


class TestHost(SandboxSuite, SandboxLimitsSuite):
    def make(self, folder: Path) -> Sandbox:
        return HostSandbox()

    def make_limited(self, folder: Path) -> Sandbox:
        return HostSandbox(SMALL)


class TestExampleSandbox(SandboxSuite):
    """The sandbox of `examples/components/sandbox`."""

    def make(self, folder: Path) -> Sandbox:
        sandbox: Sandbox = import_example("sandbox").NiceSandbox(1)
        return sandbox


@pytest.mark.skipif(bubblewrap_problem() is not None, reason=bubblewrap_problem() or "")
class TestBubblewrap(SandboxSuite, SandboxLimitsSuite, SandboxEscapeSuite):
    def make(self, folder: Path) -> Sandbox:
        return BubblewrapSandbox()

    def make_limited(self, folder: Path) -> Sandbox:
        return BubblewrapSandbox(SMALL)


@pytest.mark.skipif(not can_overlay("/var/tmp"), reason="the kernel has no overlay for us")
class TestBubblewrapGuarding(SandboxDeletionSuite):
    def make(self, folder: Path) -> Sandbox:
        sandbox = BubblewrapSandbox()
        assert sandbox.can_protect_deletions
        return sandbox


class TestDockerStandIn(SandboxSuite):
    def make(self, folder: Path) -> Sandbox:
        return DockerSandbox("box", docker=fake_docker(folder))


@pytest.mark.skipif(bool(NO_ENGINE), reason=NO_ENGINE)
class TestDocker(SandboxSuite):
    @pytest.fixture(autouse=True)
    def container(self, tmp_path: Path) -> Iterator[None]:
        with run_container(tmp_path) as self.name:
            yield

    def make(self, folder: Path) -> Sandbox:
        return DockerSandbox(self.name)
