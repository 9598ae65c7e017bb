"""A real container engine for tests: docker, or podman's socket that docker's client talks to."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IMAGE = os.environ.get("MAINSTAY_TEST_IMAGE", "debian:stable-slim")
ANSWER_S_MAX = 20


def find_problem() -> str:
    """Why no container can be had here; empty if one can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if problem := _find_failure("info"):
        return f"no docker engine runs: {problem}"
    if _find_failure("image", "inspect", IMAGE):
        return f"docker has no image {IMAGE}"
    problem = _find_failure("run", "--rm", "--init", "--network", "none", IMAGE, "true")
    return f"docker cannot run a container: {problem}" if problem else ""


def _find_failure(*words: str) -> str:
    """Why this command of docker fails: the first line that it prints; empty if it works."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=ANSWER_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip().splitlines() or ["it says nothing"])[0] if done.returncode else ""


NO_ENGINE = find_problem()


@contextmanager
def run_container(folder: Path) -> Iterator[str]:
    """Run a container without network that has the folder as /workspace; the value is its name."""
    name = f"mainstay-test-{uuid.uuid4().hex[:12]}"
    words = ["docker", "run", "-d", "--rm", "--init", "--network", "none", "--user", f"{os.getuid()}:{os.getgid()}"]
    words += ["--name", name, "-v", f"{os.path.realpath(folder)}:/workspace", IMAGE, "sleep", "600"]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    try:
        yield name
    finally:
        subprocess.run(["docker", "kill", name], check=False, capture_output=True, timeout=120)
