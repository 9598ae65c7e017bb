"""Test rig for plugins: hosts around the fixture programs, calls through a real toolbox, and checks for leftovers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.journal_wording import CURRENT
from mainstay.core.limits import Limits
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import PluginState, ProcessPermissions, Sandbox
from mainstay.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.metering.circuit_breaker import CircuitBreakerRegistry
from mainstay.plugins.host import PluginHost
from mainstay.plugins.manifest import PluginAction, PluginLimits, PluginManifest
from mainstay.plugins.plugin import Plugin, PluginHostSettings
from mainstay.plugins.tool import build_plugin_tools
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem
from mainstay.store.memory.plugin_state import InMemoryPluginState
from mainstay.turn.control import TurnControl
from mainstay.turn.toolbox import PreparedCall, Toolbox

PROGRAMS = Path(__file__).parent / "misbehaving_plugin"
NO_WALLS = bubblewrap_problem()
MARK = "LAB_MARK"
PATIENT_S, SOON_S = 600.0, 0.6  # no test waits for the first, and each that has the second does
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
LIMITS = PluginLimits(memory_mb=160, processes=24, start_s=120.0)
SWIFT = PluginHostSettings(restart_backoff_s=(0.01, 0.02, 0.05))
ACTIONS = (
    PluginAction(name="do", description="Do it.", parameters=TEXT, timeout_s=PATIENT_S),
    PluginAction(name="soon", description="Do it soon.", parameters=TEXT, timeout_s=SOON_S),
)
GUARDS = Guardrails(GuardrailOptions(), b"0" * 32, ())


class PluginSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How a plugin of the lab differs from the usual one."""

    name: str = "bad"
    limits: PluginLimits = LIMITS
    needs: ProcessPermissions = ProcessPermissions()
    env: dict[str, str] = {}
    context: tuple[Any, ...] = ()
    pace: PluginHostSettings = SWIFT
    state: PluginState | None = None
    protected: tuple[str, ...] = ()


USUAL = PluginSetup()


def plugin(mode: str, where: Path, given: PluginSetup = USUAL) -> Plugin:
    manifest = PluginManifest(
        name=given.name,
        version="1.0",
        description=mode,
        run=("python", "main.py", mode),
        actions=ACTIONS,
        needs=given.needs,
        context=given.context,
        limits=given.limits,
    )
    return Plugin(
        manifest=manifest,
        folder=str(PROGRAMS),
        data_folder=str(where / given.name),
        env={MARK: f"mark-{uuid.uuid4().hex}", **given.env},
        permissions=given.needs,
        workspace="lab",
        protected=given.protected,
    )


def host(mode: str, where: Path, sandbox: Sandbox, given: PluginSetup = USUAL) -> PluginHost:
    state = given.state if given.state is not None else InMemoryPluginState()
    return PluginHost(plugin(mode, where, given), sandbox, state, settings=given.pace)


async def call(
    host: PluginHost,
    text: str = "",
    action: str = "do",
    session: str = "s",
    breakers: CircuitBreakerRegistry | None = None,
) -> ToolResult:
    """As a turn does it: checked, run, bounded, guarded."""
    breaker_for = breakers.get_breaker if breakers is not None else None
    toolbox = Toolbox(build_plugin_tools(host), Limits(), guards=GUARDS, breaker_for=breaker_for)
    arguments = msgspec.json.encode({"text": text}).decode()
    asked = ToolCall(f"call-{uuid.uuid4().hex[:8]}", f"{host.plugin.name}__{action}", arguments)
    prepared = toolbox.prepare(asked)
    assert isinstance(prepared, PreparedCall), prepared
    context = ToolContext(session, 1, 1, asked.id, lambda event: None)
    return await toolbox.execute(asked, prepared, context, TurnControl(), is_resumed=False, wording=CURRENT)


# --- what is left --------------------------------------------------------------------------------


def alive(host: PluginHost) -> list[int]:
    """The processes that carry the plugin's mark, wherever they went."""
    mark = host.plugin.env[MARK].encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and entry != str(os.getpid()):
            try:
                if mark in Path(f"/proc/{entry}/environ").read_bytes():
                    found.append(int(entry))
            except OSError:
                continue
    return found


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)


class Peak:
    """How much memory this process took at most, looked at every few milliseconds."""

    def __enter__(self) -> Peak:
        self._before = self._most = resident_mb()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.003):
            self._most = max(self._most, resident_mb())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def grown_mb(self) -> float:
        return self._most - self._before


async def until(condition: Callable[[], bool], wait_s: float = 120.0) -> None:
    """Real processes take their time; it is looked at until it holds."""
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


async def until_async(condition: Callable[[], Awaitable[bool]], wait_s: float = 120.0) -> None:
    deadline = time.monotonic() + wait_s
    while not await condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


def log_of(host: PluginHost) -> str:
    path = Path(host.plugin.data_folder, "log")
    older = path.with_name("log.1")
    return "".join(one.read_text() for one in (older, path) if one.exists())
