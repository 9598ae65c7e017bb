"""A sandbox for Mainstay: commands run on this machine with a low priority. It confines nothing, so each needs approval
or a rule."""

from __future__ import annotations

import shutil
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.component_options import SandboxOptions
from mainstay.core.health import CheckFinding
from mainstay.core.sandbox_manifest import SandboxCheckContext, SandboxComponent
from mainstay.sandbox.base import PreparedCommand
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.sandbox.limits import SandboxLimits
from mainstay.sandbox.process_tree import LaunchSpec


class NiceOptions(SandboxOptions, frozen=True, kw_only=True):
    niceness: Annotated[int, Meta(ge=1, le=19, description="1 is a little, 19 is as nice as can be.")] = 10


COMPONENT = SandboxComponent(
    kind="sandbox",
    name="nice",
    summary="No isolation: commands run with your permissions, with a low priority.",
    settings=NiceOptions,
    factory="mainstay_nice_sandbox:build_nice_sandbox",
    check="mainstay_nice_sandbox:check_nice",
    problem="mainstay_nice_sandbox:find_nice_problem",
)


def build_nice_sandbox(options: NiceOptions, limits: SandboxLimits) -> NiceSandbox:
    return NiceSandbox(options.niceness, limits)


class NiceSandbox(HostSandbox):
    name = "nice"

    def __init__(self, niceness: int, limits: SandboxLimits | None = None) -> None:
        super().__init__(limits)
        self._niceness = niceness

    def _build_launch(self, prepared: PreparedCommand, control: int) -> LaunchSpec:
        launch = super()._build_launch(prepared, control)
        return msgspec.structs.replace(launch, argv=["nice", "-n", str(self._niceness), *launch.argv])


def find_nice_problem() -> str | None:
    return None if shutil.which("nice") else "there is no command `nice` on this machine"


def check_nice(options: NiceOptions, context: SandboxCheckContext) -> CheckFinding:
    if (problem := find_nice_problem()) is not None:
        return CheckFinding("Sandbox", "FAIL", f"no command can run: {problem}", "install coreutils")
    return CheckFinding("Sandbox", "ok", f"nice: commands run on this machine, {options.niceness} steps down")
