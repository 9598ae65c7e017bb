"""A container that somebody else keeps: commands run in it through `docker exec`.

Nothing of ours is in there. A few lines of shell run the command with a mark in its environment, and end whatever
carries the mark when the command is done, or when our end of its input closes: because we want it, or are dead.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from functools import cached_property

import msgspec

from mainstay.core.outside import Command
from mainstay.sandbox.limits import MB, SandboxRules, SandboxUnusable, environment, within
from mainstay.sandbox.running import Runner, Start
from mainstay.sandbox.tree import Launch

INSPECT_S = 10
MARK = "MAINSTAY_COMMAND"
_PASSED = ("LANG", "LC_ALL", "TERM", "TZ")  # its path and its user are the container's own

# Twenty rounds: something that forks faster than that is the container's own bound to keep.
_SWEEP = f"""sweep() {{
  round=0
  while [ $round -lt 20 ]; do
    round=$((round + 1)); found=
    for file in $(grep -ls "{MARK}=$mark" /proc/[0-9]*/environ); do
      pid=${{file#/proc/}}; pid=${{pid%/environ}}
      [ "$pid" = "$$" ] || kill "-$1" "$pid" 2>/dev/null && found=1
    done
    [ "$1" = KILL ] && [ -n "$found" ] || return 0
  done
}}
"""
# Says that it can be found, hands the input on, waits until we are gone, and ends everything. `bytes` is -1 for an
# input without end.
_FEED = (
    _SWEEP
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
_RUN = (
    _SWEEP
    + f"""mark=$1 bytes=$2 grace=$3 feed=$4 script=$5
export mark bytes grace
exec 3<&0 4>&2 2>/dev/null
ulimit -c 0; ulimit -n "$6"; ulimit -f "$7"
shell=sh; command -v bash >/dev/null && shell=bash
{MARK}=$mark sh -c "$feed" 4>&- | (
  read -r ready
  {MARK}=$mark $shell -c "$script" 2>&4 3<&- 4>&-
  code=$?
  sweep KILL
  exit $code
)
"""
)


class Mount(msgspec.Struct, frozen=True, rename="pascal"):
    source: str = ""
    destination: str = ""


class _State(msgspec.Struct, frozen=True, rename="pascal"):
    running: bool = False


class _HostConfig(msgspec.Struct, frozen=True, rename="pascal"):
    network_mode: str = ""


class Container(msgspec.Struct, frozen=True, rename="pascal"):
    """As much of `docker inspect` as we need."""

    state: _State = _State()
    host_config: _HostConfig = _HostConfig()
    mounts: tuple[Mount, ...] = ()


class DockerSandbox(Runner):
    """Commands in a running container. Folder by folder it says how they are called inside: `mount` for `folder`, and
    else what the container itself says it has mounted."""

    name = "docker"

    def __init__(
        self,
        container: str,
        folder: str = "",
        mount: str = "/workspace",
        *,
        rules: SandboxRules | None = None,
        docker: str = "docker",
    ) -> None:
        super().__init__(rules)
        self._container = container
        self._folder = os.path.realpath(folder) if folder else ""
        self._mount = mount
        self._docker = docker

    @cached_property
    def _found(self) -> Container:
        try:
            done = subprocess.run(
                [self._docker, "inspect", "--type", "container", "--format", "{{json .}}", self._container],
                capture_output=True,
                timeout=INSPECT_S,
                check=False,
            )
            if done.returncode:
                lines = done.stderr.decode(errors="replace").strip().splitlines() or ["docker says nothing"]
                raise SandboxUnusable(f"the container {self._container!r} cannot be used: {lines[-1][:300]}")
            return msgspec.json.decode(done.stdout, type=Container)
        except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
            raise SandboxUnusable(f"docker cannot be asked about {self._container!r}: {error}") from error

    @cached_property
    def confined(self) -> bool:
        """Only without a network: what a command may reach is the container's to say, not ours."""
        return self._found.host_config.network_mode == "none"

    @cached_property
    def _mounts(self) -> list[tuple[str, str]]:
        """Host and container, the longest first."""
        if self._folder:
            return [(self._folder, self._mount)]
        found = [(os.path.realpath(one.source), one.destination) for one in self._found.mounts if one.source]
        return sorted(found, key=lambda pair: len(pair[0]), reverse=True)

    def inside(self, path: str) -> str:
        for host, container in self._mounts:
            if within(path, host):
                return posixpath.normpath(container + path.removeprefix(host.rstrip("/")))
        return path

    def outside(self, path: str) -> str:
        for host, container in sorted(self._mounts, key=lambda pair: len(pair[1]), reverse=True):
            if within(path, container):
                return os.path.normpath(host + path.removeprefix(container.rstrip("/")))
        return path

    def _check(self, command: Command) -> str:
        cwd = super()._check(command)
        if not self._found.state.running:
            raise SandboxUnusable(f"the container {self._container!r} does not run")
        if not any(within(cwd, host) for host, _ in self._mounts):
            raise SandboxUnusable(f"{cwd} is not mounted in the container {self._container!r}")
        return cwd

    def _launch(self, start: Start, control: int) -> Launch:
        command = start.command
        env = {name: value for name, value in environment(self.rules, command).items() if name in _PASSED}
        env["HOME"] = self.inside(command.grounds.scratch or command.grounds.cwd)
        words = [self._docker, "exec", "-i", "-w", self.inside(start.cwd)]
        for name, value in {**env, **command.env}.items():
            words += ["-e", f"{name}={value}"]
        length = -1 if start.timeout_s is None else len(command.input)
        grace = str(max(1, round(self.rules.grace_s)))
        bounds = [str(self.rules.open_files), str(self.rules.file_mb * MB // 512)]
        words += [self._container, "sh", "-c", _RUN, "sh", os.urandom(16).hex()]
        words += [str(length), grace, _FEED, command.script, *bounds]
        return Launch(words=words, env=dict(os.environ), cwd="/", kept=False)
