"""Which sandbox is chosen, and what a container says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.fake_docker import fake_docker

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Command
from mainstay.sandbox.bubblewrap import trouble
from mainstay.sandbox.choose import choose
from mainstay.sandbox.docker import DockerSandbox
from mainstay.sandbox.limits import SandboxRules, SandboxUnusable
from mainstay.testing.sandbox_suite import grounds_at


def test_auto_is_the_best_that_works() -> None:
    assert choose("auto").name == ("bubblewrap" if trouble() is None else "host")
    assert choose("host", SandboxRules(processes=3)).name == "host"


def test_what_does_not_work_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.sandbox.choose.trouble", lambda: "bubblewrap needs Linux")
    assert choose("auto").name == "host"
    with pytest.raises(SandboxUnusable, match="needs Linux"):
        choose("bubblewrap")
    with pytest.raises(ConfigError, match="name of a container"):
        choose("docker")


def test_paths_of_a_container_are_translated_both_ways(tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    sandbox = DockerSandbox("box", folder=real, mount="/workspace")
    assert sandbox.inside(f"{real}/a/b") == "/workspace/a/b"
    assert sandbox.inside(real) == "/workspace"
    assert sandbox.inside(f"{real}-other/a") == f"{real}-other/a"
    assert sandbox.outside("/workspace/a b") == f"{real}/a b"
    assert sandbox.outside("/workspaces/a") == "/workspaces/a"


def test_a_container_is_confined_only_without_a_network(tmp_path: Path) -> None:
    assert DockerSandbox("box", docker=fake_docker(tmp_path)).confined
    assert not DockerSandbox("box", docker=fake_docker(tmp_path, network="bridge", name="bridged")).confined
    assert not DockerSandbox("box", docker=fake_docker(tmp_path)).guards


async def test_a_container_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    command = Command(script="touch ran", grounds=grounds_at(tmp_path))
    running, stopped = fake_docker(tmp_path), fake_docker(tmp_path, running=False, name="stopped")
    for sandbox, reason in (
        (DockerSandbox("other", docker=running), "No such container"),
        (DockerSandbox("box", docker=stopped), "does not run"),
        (DockerSandbox("box", docker=str(tmp_path / "none")), "docker cannot be asked"),
        (DockerSandbox("box", str(tmp_path / "box"), docker=running), "is not mounted"),
    ):
        with pytest.raises(SandboxUnusable, match=reason):
            await sandbox.exec(command)
    assert not (tmp_path / "work/ran").exists()
