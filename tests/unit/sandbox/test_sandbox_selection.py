"""Which sandbox is selected, and the description of a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.fake_docker import fake_docker

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import SandboxCommand
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem
from mainstay.sandbox.docker.sandbox import DockerSandbox
from mainstay.sandbox.limits import SandboxLimits, SandboxUnusable
from mainstay.sandbox.selection import create_sandbox
from mainstay.testing.sandbox_suite import create_folders


def test_auto_is_the_best_that_works() -> None:
    assert create_sandbox("auto").name == ("bubblewrap" if bubblewrap_problem() is None else "host")
    assert create_sandbox("host", SandboxLimits(processes=3)).name == "host"


def test_an_unusable_sandbox_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.sandbox.bubblewrap.sandbox.bubblewrap_problem", lambda: "bubblewrap needs Linux")
    assert create_sandbox("auto").name == "host"
    with pytest.raises(SandboxUnusable, match="needs Linux"):
        create_sandbox("bubblewrap")
    with pytest.raises(ConfigError, match="name of a container"):
        create_sandbox("docker")


def test_paths_of_a_container_are_translated_both_ways(tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    sandbox = DockerSandbox("box", folder=real, mount="/workspace")
    assert sandbox.to_sandbox_path(f"{real}/a/b") == "/workspace/a/b"
    assert sandbox.to_sandbox_path(real) == "/workspace"
    assert sandbox.to_sandbox_path(f"{real}-other/a") == f"{real}-other/a"
    assert sandbox.to_host_path("/workspace/a b") == f"{real}/a b"
    assert sandbox.to_host_path("/workspaces/a") == "/workspaces/a"


def test_a_container_is_confined_only_without_a_network(tmp_path: Path) -> None:
    assert DockerSandbox("box", docker=fake_docker(tmp_path)).is_confined
    assert not DockerSandbox("box", docker=fake_docker(tmp_path, network="bridge", name="bridged")).is_confined
    assert not DockerSandbox("box", docker=fake_docker(tmp_path)).can_protect_deletions


async def test_a_container_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    command = SandboxCommand(script="touch ran", folders=create_folders(tmp_path))
    running, stopped = fake_docker(tmp_path), fake_docker(tmp_path, running=False, name="stopped")
    for sandbox, reason in (
        (DockerSandbox("other", docker=running), "No such container"),
        (DockerSandbox("box", docker=stopped), "does not run"),
        (DockerSandbox("box", docker=str(tmp_path / "none")), "docker cannot inspect"),
        (DockerSandbox("box", str(tmp_path / "box"), docker=running), "is not mounted"),
    ):
        with pytest.raises(SandboxUnusable, match=reason):
            await sandbox.exec(command)
    assert not (tmp_path / "work/ran").exists()
