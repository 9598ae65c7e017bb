"""The container engine of the tests: one that does not work is a reason to skip them, not a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import container_engine
from support.container_engine import find_problem

DOCKER = """#!/bin/sh
case "$*" in
'%s'*) %s ;;
esac
exit 0
"""


@pytest.mark.parametrize(
    ("command", "behaviour", "problem"),
    [
        ("info", "echo 'Cannot connect.' >&2; exit 1", "no docker engine runs: Cannot connect."),
        ("info", "exec sleep 60", "no docker engine runs: "),
        ("image inspect", "exit 1", f"docker has no image {container_engine.IMAGE}"),
        ("run", "printf 'No init.\\nTry --help.\\n' >&2; exit 127", "docker cannot run a container: No init."),
        ("run", "exec sleep 60", "docker cannot run a container: "),
        ("nothing", "true", ""),
    ],
)
def test_an_engine_that_cannot_run_a_container_is_a_reason_to_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, behaviour: str, problem: str
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER % (command, behaviour))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(container_engine, "ANSWER_S_MAX", 0.5)
    found = find_problem()
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_a_machine_without_docker_is_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_problem() == "docker is not installed"
