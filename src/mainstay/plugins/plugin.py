"""A plugin as the host process runs it, the host's timeouts and limits, and the plugin errors.

PluginFailed                    a call did not succeed; carries one sentence for the model
├── PluginReportedError         the plugin returned an error
├── PluginTimedOut              no answer before the call's deadline
├── PluginExited                the plugin process ended during the call
├── PluginNotStarted            the plugin process could not be started
├── PluginHomeFull              not started, because its home folder is over its limit
├── PluginCircuitOpen           not started, because it crashed too often within a short time
└── PluginResultInvalid         the answer is not a valid result

Errors with `counts_as_failure = True` are the plugin's own failures: too many of them open the tool's circuit breaker.
"""

from __future__ import annotations

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.tool_ports import CommandLimits, PluginStateQuota, ProcessPermissions
from mainstay.plugins.manifest import PluginManifest


class PluginFailed(MainstayError):
    pass


class PluginReportedError(PluginFailed):
    pass


class PluginTimedOut(PluginFailed):
    counts_as_failure = True


class PluginExited(PluginFailed):
    counts_as_failure = True


class PluginNotStarted(PluginFailed):
    counts_as_failure = True


class PluginHomeFull(PluginFailed):
    pass


class PluginCircuitOpen(PluginFailed):
    pass


class PluginResultInvalid(PluginFailed):
    counts_as_failure = True


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin with the owner's grants and settings. All paths are absolute."""

    manifest: PluginManifest
    folder: str  # its files, which it may read
    data_folder: str  # holds `home`, which the plugin may write, and `log`, which it cannot reach
    env: dict[str, str] = {}  # the manifest's variables with their values
    # the grants: what the owner allowed of what the manifest asks for
    permissions: ProcessPermissions = ProcessPermissions()
    workspace: str = ""
    timeout_s: float | None = None  # of one call, overrides the manifest; None: as the manifest says
    trusted: bool = False  # its answers do not count as untrusted text
    allow_unconfined: bool = False  # the owner allows it to run where no sandbox can confine it
    protected: tuple[str, ...] = ()  # paths that it never sees, even inside of a granted folder

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def home(self) -> str:
        return f"{self.data_folder}/home"

    @property
    def quota(self) -> PluginStateQuota:
        limits = self.manifest.limits
        return PluginStateQuota(keys_max=limits.state_keys, bytes_max=limits.state_bytes)

    @property
    def resource_limits(self) -> CommandLimits:
        limits = self.manifest.limits
        return CommandLimits(memory_mb=limits.memory_mb, processes=limits.processes, cpu_s=limits.cpu_s)


class PluginHostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts and limits of a plugin host: restarts, circuit breaker, idle stop, queue."""

    # delay before a restart, by the number of consecutive failures
    restart_backoff_s: tuple[float, ...] = (0.2, 1.0, 5.0)
    failures_max: int = 3  # this many within the window open the circuit
    failure_window_s: float = 60.0
    circuit_open_s: float = 60.0  # how long the circuit stays open
    idle_timeout_s: float = 600.0  # a process without calls for so long is stopped
    calls_max: int = 256  # calls, running and queued together
    home_check_interval_s: float = 60.0  # least time between two size checks of the plugin's home, which follow calls
