"""Health checks of backends: opens a backend and reports what it offers or why it cannot be used, for its owner.

The `check` in the manifest of a kind is called as `await check(backend, start_programs)` with an open backend, and
returns `BackendContents`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from mainstay.backends.base import Backend, clean_name, explain_error
from mainstay.core.components import find_component
from mainstay.core.errors import MainstayError
from mainstay.core.health import CheckFinding
from mainstay.trust.policy import Policy

OPEN_TIMEOUT_S = 10.0
PATTERNS_SHOWN_MAX = 5  # scope patterns without a match

Redact = Callable[[str], str]


class BackendContents(msgspec.Struct, frozen=True, kw_only=True):
    """What an open backend offers."""

    summary: str  # "3 tables"
    warnings: tuple[str, ...] = ()  # scope patterns that match nothing
    is_open: bool = True  # False: it opens at first use
    is_empty: bool = False


class BackendProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Result of opening a backend."""

    contents: BackendContents = BackendContents(summary="", is_open=False)
    problem: str = ""  # why it cannot be used; "": it can
    seconds: float = 0.0

    @property
    def state(self) -> str:
        return self.problem or "; ".join((self.contents.summary, *self.contents.warnings))


async def probe_backend(backend: Backend, redact: Redact, *, start_programs: bool = False) -> BackendProbe:
    """Open the backend, within OPEN_TIMEOUT_S. Third-party programs (MCP servers) are started only with
    `start_programs`."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await backend.start()
            contents = await _check_contents(backend, start_programs)
    except TimeoutError:
        return BackendProbe(problem=f"it did not answer within {OPEN_TIMEOUT_S:g} s", seconds=time.monotonic() - began)
    except MainstayError as error:
        return BackendProbe(problem=redact(explain_error(backend, error)), seconds=time.monotonic() - began)
    except Exception as error:  # a bug in the backend's code, which may come with another distribution
        problem = str(find_component("backend", backend.settings.kind).describe_bug(error))
        return BackendProbe(problem=redact(problem), seconds=time.monotonic() - began)
    return BackendProbe(contents=contents, seconds=time.monotonic() - began)


async def _check_contents(backend: Backend, start_programs: bool) -> BackendContents:
    check = find_component("backend", backend.settings.kind).load_check()
    if check is None:
        return BackendContents(summary="open")
    contents: BackendContents = await check(backend, start_programs)
    return contents


def format_unmatched(setting: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return warnings about scope patterns that match nothing."""
    return tuple(f"scope.{setting}: {clean_name(pattern)} matches nothing" for pattern in patterns)[:PATTERNS_SHOWN_MAX]


# --- doctor --------------------------------------------------------------------------------------


async def check_backends(
    backends: Sequence[Backend], policy: Policy, redact: Redact, config_path: Path
) -> list[CheckFinding]:
    """Open the backends that a rule names, concurrently; report the others as configured."""
    named = [backend for backend in backends if any(policy.has_rule_for(tool) for tool in backend.tools)]
    probes = dict(zip(named, await asyncio.gather(*(probe_backend(backend, redact) for backend in named)), strict=True))
    return [_build_finding(backend, probes.get(backend), config_path) for backend in backends]


def _build_finding(backend: Backend, probe: BackendProbe | None, config_path: Path) -> CheckFinding:
    name, label = backend.name, f"{backend.name}: {backend.settings.kind}"
    if probe is None:
        fix = f'add "{name}__*" to policy.allow, or to policy.ask'
        message = f"{label}; no rule names its tools, so the model cannot use them"
        return CheckFinding("Backend", "warn", message, fix)
    if probe.problem:
        fix = f"fix it or backends.{name} in {config_path}, then run: mainstay backend test {name}"
        return CheckFinding("Backend", "FAIL", f"{label}: {probe.problem}", fix)
    if probe.contents.warnings or probe.contents.is_empty:
        fix = f"see backends.{name}.scope in {config_path}" if probe.contents.warnings else ""
        return CheckFinding("Backend", "warn", f"{label}, {probe.state}", fix)
    return CheckFinding("Backend", "ok", f"{label}, {probe.contents.summary}")
