"""A plugin as the core runs it, and everything that can be the matter with one.

PluginFailed                    it did not do what it was asked; one sentence for the model
├── PluginSays                  it says so itself
├── PluginSilent                no answer within the call's time
├── PluginGone                  it ended in the midst of the call
├── PluginNotUp                 it could not be started
├── HomeFull                    it is not started, as it keeps too much
├── PluginResting               it crashed so often that it is left alone for a while
└── AnswerRefused               it answered with something that is not a result

Those that say `counts` are its own failures: a tool with too many of them is left alone (turn/resting).
"""

from __future__ import annotations

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.outside import Needs, Quota, Share
from mainstay.plugins.manifest import Manifest


class PluginFailed(MainstayError):
    pass


class PluginSays(PluginFailed):
    pass


class PluginSilent(PluginFailed):
    counts = True


class PluginGone(PluginFailed):
    counts = True


class PluginNotUp(PluginFailed):
    counts = True


class HomeFull(PluginFailed):
    pass


class PluginResting(PluginFailed):
    pass


class AnswerRefused(PluginFailed):
    counts = True


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """What is run, and what the owner says of it. All paths are absolute."""

    manifest: Manifest
    folder: str  # its files; it may read them
    data: str  # a folder for it: `home`, which is its own, and `log`, which it cannot reach
    env: dict[str, str] = {}  # the manifest's, filled
    needs: Needs = Needs()  # what was granted of what it asks for
    workspace: str = ""
    timeout_s: float | None = None  # for one call, whatever the manifest says
    trusted: bool = False  # what it answers does not count as from outside
    unconfined: bool = False  # it may run where nothing can hold it: the owner said so
    protected: tuple[str, ...] = ()  # what it never sees, even in a folder that was granted

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def home(self) -> str:
        return f"{self.data}/home"

    @property
    def quota(self) -> Quota:
        limits = self.manifest.limits
        return Quota(keys_max=limits.state_keys, bytes_max=limits.state_bytes)

    @property
    def share(self) -> Share:
        limits = self.manifest.limits
        return Share(memory_mb=limits.memory_mb, processes=limits.processes, cpu_s=limits.cpu_s)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How patient the host is."""

    back_off_s: tuple[float, ...] = (0.2, 1.0, 5.0)  # before it is started again, by how often it failed in a row
    failures_max: int = 3  # within `window_s`: then it rests
    window_s: float = 60.0
    rest_s: float = 60.0
    idle_s: float = 600.0  # without a call: then it is stopped
    waiting_max: int = 256  # calls in all, running and waiting
    look_s: float = 60.0  # between two looks at what it keeps in its home, after calls
