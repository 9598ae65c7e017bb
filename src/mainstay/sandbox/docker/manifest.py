"""Manifest of the docker sandbox."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mainstay.core.component_options import SandboxOptions
from mainstay.core.sandbox_manifest import SandboxComponent


class DockerOptions(SandboxOptions, frozen=True, kw_only=True):
    container: Annotated[str, Meta(description="Name of the container; default: `sandbox.container`.")] = ""
    folder: Annotated[
        str,
        Meta(description="Folder of this machine that is `mount` in the container; default: the container's mounts."),
    ] = ""
    mount: Annotated[str, Meta(description="Path of `folder` in the container.")] = "/workspace"
    docker: Annotated[str, Meta(description="The command to use: `docker`, `podman`.")] = "docker"

    def find_problem(self) -> str:
        if self.container:
            return ""
        return "'sandbox.container' must name the container in which 'sandbox.kind: docker' runs commands"


COMPONENT = SandboxComponent(
    kind="sandbox",
    name="docker",
    summary="A container that you run: commands run in it through `docker exec`.",
    settings=DockerOptions,
    factory="mainstay.sandbox.docker.sandbox:build_sandbox",
    setup=("Start the container with the folders that the agent works in as mounts: `docker run -d --name NAME …`.",),
    check="mainstay.sandbox.docker.health:check_docker",
)
