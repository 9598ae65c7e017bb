"""Which sandbox: the one that was named, or the best that works here."""

from __future__ import annotations

from typing import Literal

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Sandbox
from mainstay.sandbox.bubblewrap import BubblewrapSandbox
from mainstay.sandbox.bubblewrap import trouble as trouble
from mainstay.sandbox.docker import DockerSandbox
from mainstay.sandbox.host import HostSandbox
from mainstay.sandbox.limits import SandboxRules, SandboxUnusable

Kind = Literal["auto", "bubblewrap", "host", "docker"]


def choose(kind: Kind = "auto", rules: SandboxRules | None = None, container: str = "") -> Sandbox:
    """`auto` is bubblewrap, or the host where that does not work; `trouble()` says why not."""
    match kind:
        case "docker":
            if not container:
                raise ConfigError("the sandbox docker needs the name of a container")
            return DockerSandbox(container, rules=rules)
        case "bubblewrap" if (reason := trouble()) is not None:
            raise SandboxUnusable(reason)
        case "auto" if trouble() is not None:
            return HostSandbox(rules)
        case "auto" | "bubblewrap":
            return BubblewrapSandbox(rules)
        case "host":
            return HostSandbox(rules)
