"""Selects the sandbox: the configured component, or the first that works on this machine."""

from __future__ import annotations

from mainstay.core.component_options import AUTO_SANDBOX, SandboxOptions
from mainstay.core.components import Component, built_in_components, find_component
from mainstay.core.sandbox_manifest import SandboxComponent
from mainstay.core.tool_ports import Sandbox
from mainstay.sandbox.limits import SandboxLimits, SandboxUnusable


def create_sandbox(
    kind: str = AUTO_SANDBOX, limits: SandboxLimits | None = None, options: SandboxOptions | None = None
) -> Sandbox:
    """Build a sandbox by the name of its component; `auto` is bubblewrap if it works here, else the host.

    Raises ConfigError if there is no such sandbox or an option is missing, SandboxUnusable if it does not work here.
    """
    component = select_component(kind)
    if (problem := find_sandbox_problem(component)) is not None:
        raise SandboxUnusable(problem)
    sandbox: Sandbox = component.load_factory()(options or component.settings(), limits or SandboxLimits())
    return sandbox


def select_component(kind: str) -> Component:
    """Return the component that `sandbox.kind` means. Raises ConfigError if there is none."""
    if kind != AUTO_SANDBOX:
        return find_component("sandbox", kind)
    candidates = list_automatic()
    return next((found for found in candidates if found.find_problem() is None), candidates[-1])


def list_automatic() -> list[SandboxComponent]:
    """Return the components that `auto` chooses from, the best first."""
    components = [find_component("sandbox", name) for name in built_in_components("sandbox")]
    return [found for found in components if isinstance(found, SandboxComponent) and found.is_automatic]


def find_sandbox_problem(component: Component) -> str | None:
    """Return why a sandbox does not work on this machine; None if it does, or cannot be known."""
    return component.find_problem() if isinstance(component, SandboxComponent) else None
