"""Sandbox that runs commands in an existing container through `docker exec`.

Nothing is installed in the container. A short shell script runs the command with a marker in its environment. When the
command ends, or when our end of its input closes (on cancel, or because we died), it kills every process with the
marker.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from functools import cached_property

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import SandboxCommand
from mainstay.sandbox.base import BaseSandbox, PreparedCommand
from mainstay.sandbox.docker.manifest import DockerOptions
from mainstay.sandbox.limits import MB, SandboxLimits, SandboxUnusable, build_environment, is_within
from mainstay.sandbox.process_tree import LaunchSpec

INSPECT_TIMEOUT_S = 10
MARKER_VARIABLE = "MAINSTAY_COMMAND"
_PASSED_VARIABLES = ("LANG", "LC_ALL", "TERM", "TZ")  # PATH and USER are the container's own

# At most twenty rounds: processes that fork faster must be limited by the container itself.
_KILL_SCRIPT = f"""sweep() {{
  round=0
  while [ $round -lt 20 ]; do
    round=$((round + 1)); found=
    for file in $(grep -ls "{MARKER_VARIABLE}=$mark" /proc/[0-9]*/environ); do
      pid=${{file#/proc/}}; pid=${{pid%/environ}}
      [ "$pid" = "$$" ] || kill "-$1" "$pid" 2>/dev/null && found=1
    done
    [ "$1" = KILL ] && [ -n "$found" ] || return 0
  done
}}
"""
# Prints "ready", forwards the input, waits until our end closes, and kills everything. `bytes` is -1 for an endless
# input.
_INPUT_SCRIPT = (
    _KILL_SCRIPT
    + """echo ready
if [ "$bytes" -ge 0 ]; then
  [ "$bytes" -gt 0 ] && head -c "$bytes" <&3
  exec >/dev/null
  while read -r line <&3; do :; done
else
  cat <&3
fi
exec >/dev/null
sweep TERM; sleep "$grace"; sweep KILL
"""
)
_RUN_SCRIPT = (
    _KILL_SCRIPT
    + f"""mark=$1 bytes=$2 grace=$3 feed=$4 script=$5
export mark bytes grace
exec 3<&0 4>&2 2>/dev/null
ulimit -c 0; ulimit -n "$6"; ulimit -f "$7"
shell=sh; command -v bash >/dev/null && shell=bash
{MARKER_VARIABLE}=$mark sh -c "$feed" 4>&- | (
  read -r ready
  {MARKER_VARIABLE}=$mark $shell -c "$script" 2>&4 3<&- 4>&-
  code=$?
  sweep KILL
  exit $code
)
"""
)


class DockerMount(msgspec.Struct, frozen=True, rename="pascal"):
    source: str = ""
    destination: str = ""


class _DockerState(msgspec.Struct, frozen=True, rename="pascal"):
    running: bool = False


class _DockerHostConfig(msgspec.Struct, frozen=True, rename="pascal"):
    network_mode: str = ""


class DockerContainer(msgspec.Struct, frozen=True, rename="pascal"):
    """The part of `docker inspect` that is needed here."""

    state: _DockerState = _DockerState()
    host_config: _DockerHostConfig = _DockerHostConfig()
    mounts: tuple[DockerMount, ...] = ()


class DockerSandbox(BaseSandbox):
    """Runs commands in a running container.

    Paths are translated: `folder` on the host is `mount` in the container. Without `folder`, the container's own mounts
    are used.
    """

    name = "docker"

    def __init__(
        self,
        container: str,
        folder: str = "",
        mount: str = "/workspace",
        *,
        limits: SandboxLimits | None = None,
        docker: str = "docker",
    ) -> None:
        super().__init__(limits)
        self._container = container
        self._folder = os.path.realpath(folder) if folder else ""
        self._mount = mount
        self._docker = docker

    @cached_property
    def _container_info(self) -> DockerContainer:
        try:
            result = subprocess.run(
                [self._docker, "inspect", "--type", "container", "--format", "{{json .}}", self._container],
                capture_output=True,
                timeout=INSPECT_TIMEOUT_S,
                check=False,
            )
            if result.returncode:
                lines = result.stderr.decode(errors="replace").strip().splitlines() or ["docker gave no reason"]
                raise SandboxUnusable(f"the container {self._container!r} cannot be used: {lines[-1][:300]}")
            return msgspec.json.decode(result.stdout, type=DockerContainer)
        except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
            raise SandboxUnusable(f"docker cannot inspect {self._container!r}: {error}") from error

    @cached_property
    def is_confined(self) -> bool:
        """True only for a container without network: what a command may reach is up to the container."""
        return self._container_info.host_config.network_mode == "none"

    @cached_property
    def _mounts(self) -> list[tuple[str, str]]:
        """Pairs of host path and container path, longest host path first."""
        if self._folder:
            return [(self._folder, self._mount)]
        pairs = [
            (os.path.realpath(mount.source), mount.destination) for mount in self._container_info.mounts if mount.source
        ]
        return sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)

    @property
    def has_own_paths(self) -> bool:
        return True

    def to_sandbox_path(self, path: str) -> str:
        for host, container in self._mounts:
            if is_within(path, host):
                return posixpath.normpath(container + path.removeprefix(host.rstrip("/")))
        return path

    def to_host_path(self, path: str) -> str:
        for host, container in sorted(self._mounts, key=lambda pair: len(pair[1]), reverse=True):
            if is_within(path, container):
                return os.path.normpath(host + path.removeprefix(container.rstrip("/")))
        return path

    def _validate(self, command: SandboxCommand) -> str:
        cwd = super()._validate(command)
        if not self._container_info.state.running:
            raise SandboxUnusable(f"the container {self._container!r} does not run")
        if not any(is_within(cwd, host) for host, _ in self._mounts):
            raise SandboxUnusable(f"{cwd} is not mounted in the container {self._container!r}")
        return cwd

    def _build_launch(self, prepared: PreparedCommand, control: int) -> LaunchSpec:
        command = prepared.command
        env = {
            name: value for name, value in build_environment(self.limits, command).items() if name in _PASSED_VARIABLES
        }
        env["HOME"] = self.to_sandbox_path(command.folders.scratch or command.folders.cwd)
        argv = [self._docker, "exec", "-i", "-w", self.to_sandbox_path(prepared.cwd)]
        for name, value in {**env, **command.env}.items():
            argv += ["-e", f"{name}={value}"]
        length = -1 if prepared.timeout_s is None else len(command.input)
        grace = str(max(1, round(self.limits.grace_s)))
        limits = [str(self.limits.open_files), str(self.limits.file_mb * MB // 512)]
        argv += [self._container, "sh", "-c", _RUN_SCRIPT, "sh", os.urandom(16).hex()]
        argv += [str(length), grace, _INPUT_SCRIPT, command.script, *limits]
        return LaunchSpec(argv=argv, env=dict(os.environ), cwd="/", is_supervised=False)


def build_sandbox(options: DockerOptions, limits: SandboxLimits) -> DockerSandbox:
    """Build the sandbox. Raises ConfigError without a container."""
    if not options.container:
        raise ConfigError("the docker sandbox needs the name of a container")
    folder = os.path.expanduser(options.folder)
    return DockerSandbox(options.container, folder, options.mount, limits=limits, docker=options.docker)
