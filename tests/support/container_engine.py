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


def _find_problem() -> str:
    """Why no container can be had here; empty if one can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    done = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return "no docker engine runs: " + (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
    have = subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, timeout=120, check=False)
    return f"docker has no image {IMAGE}" if have.returncode else ""


NO_ENGINE = _find_problem()


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
