"""Cost of a plugin call, time to start a plugin, and resources that remain in use after many calls.

CPU is that of this process, all threads, divided by the number of calls; the CPU of the plugin process is not included.
The limit is the same call of a Python function in this process. Each call goes through the tool, as in a turn. Results
go to benchmarks/results/plugins.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from report import Row, Target, describe_machine, format_table

from mainstay import tool
from mainstay.core.ports import Tool, ToolContext
from mainstay.plugins.host import PluginHost
from mainstay.plugins.manifest import PluginAction, PluginManifest
from mainstay.plugins.plugin import Plugin
from mainstay.plugins.tool import build_plugin_tools
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.store.memory.plugin_state import InMemoryPluginState

CALLS, STARTS = 1000, 10
CPU_MS_MAX = 1.5

PROGRAM = """
from mainstay.kit import action, serve

@action
def echo(text: str) -> str:
    "Say it again."
    return text

serve()
"""
ECHO = PluginAction(
    name="echo",
    description="Say it again.",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    effect="pure",
)


@tool(effect="pure", untrusted=False, sink=False)
async def echo(text: str) -> str:
    """Say it again."""
    return text


def read_cpu_ms() -> float:
    """CPU time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1000


def read_resources() -> tuple[int, int, float]:
    """Open files, child processes, and the resident set in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), len(children), pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


async def measure_calls(called_tool: Tool, text: str, count: int) -> tuple[float, list[float]]:
    """CPU per call, and the wall time of each call, in milliseconds."""
    arguments = json.dumps({"text": text})
    wall_ms = []
    before_ms = read_cpu_ms()
    for number in range(count):
        started = time.perf_counter()
        context = ToolContext("bench", 1, 1, f"call-{number}", lambda event: None)
        assert await called_tool.run(called_tool.parse(arguments), context) == text
        wall_ms.append((time.perf_counter() - started) * 1000)
    return (read_cpu_ms() - before_ms) / count, wall_ms


async def measure(folder: str, count: int, starts: int) -> list[Row]:
    manifest = PluginManifest(
        name="bench", version="1.0", description="For measuring.", run=("python", "main.py"), actions=(ECHO,)
    )
    plugin = Plugin(manifest=manifest, folder=folder, data_folder=f"{folder}/data")
    sandbox, state = BubblewrapSandbox(), InMemoryPluginState()

    def build_host() -> PluginHost:
        return PluginHost(plugin, sandbox, state)

    rows = [await measure_start(build_host, starts)]
    host = build_host()
    (plugin_tool,) = build_plugin_tools(host)
    await measure_calls(plugin_tool, "warm", 100)
    await measure_calls(echo, "warm", 100)
    before = read_resources()
    for name, text in (("a call", "hello"), ("a call with 64 KB", "x" * 65_536)):
        plugin_ms, wall_ms = await measure_calls(plugin_tool, text, count)
        limit_ms, _ = await measure_calls(echo, text, count)
        target = Target(CPU_MS_MAX, of="ours") if name == "a call" else None
        rows.append(Row("plugins", name, "ms of CPU", plugin_ms, limit_ms, plugin_ms / limit_ms, target))
        rows.append(Row("plugins", f"{name}, median", "ms", statistics.median(wall_ms), raw={"ms": wall_ms}))
    rows += build_leak_rows(before, read_resources(), 2 * count)
    await host.close()
    await sandbox.close()
    return rows


async def measure_start(build_host: Callable[[], PluginHost], count: int) -> Row:
    """Time from the first call, which starts the plugin, to its answer."""

    async def start_and_call() -> float:
        host = build_host()
        started = time.perf_counter()
        await measure_calls(build_plugin_tools(host)[0], "x", 1)
        wall_ms = (time.perf_counter() - started) * 1000
        await host.close()
        return wall_ms

    await start_and_call()  # loads what is loaded once per process
    start_ms = [await start_and_call() for _ in range(count)]
    return Row(
        "plugins", "start, first call and answer, median", "ms", statistics.median(start_ms), raw={"ms": start_ms}
    )


def build_leak_rows(before: tuple[int, int, float], after: tuple[int, int, float], count: int) -> list[Row]:
    rows = []
    bounds = (("open files", "more", 0.0), ("processes", "more", 0.0), ("memory", "MB more", 4.0))
    for (name, unit, maximum), old, new in zip(bounds, before, after, strict=True):
        rows.append(
            Row(
                "plugins", f"{name} after {count:,} calls", unit, max(new - old, 0.0), target=Target(maximum, of="ours")
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help=f"number of calls (default {CALLS})")
    parser.add_argument("--out", type=Path, help="file for the results (default benchmarks/results/plugins.json)")
    arguments = parser.parse_args()
    if (reason := bubblewrap_problem()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.py").write_text(PROGRAM)
        rows = uvloop.run(measure(str(Path(folder).resolve()), arguments.calls, STARTS))
    print(format_table(rows))
    if out := arguments.out or (
        Path(__file__).parent / "results" / "plugins.json" if arguments.calls == CALLS else None
    ):
        results = {"machine": describe_machine(), "calls": arguments.calls, "rows": [row.to_dict() for row in rows]}
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(row.meets_target is False for row in rows))


if __name__ == "__main__":
    main()
