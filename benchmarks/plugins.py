"""What a call to a plugin costs the core, what it takes to start one, and what a thousand calls leave behind.

CPU is that of our own process, all its threads, divided by the number of calls; the plugin's own is not in it. The
limit is the same call as a Python function in the process. Each call goes through the tool, as a turn makes it.
Results go to benchmarks/results/plugins.json.
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
from report import Row, Target, machine, table

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


@tool(effect="pure")
async def echo(text: str) -> str:
    """Say it again."""
    return text


def spent() -> float:
    """Milliseconds of CPU of this very process."""
    use = resource.getrusage(resource.RUSAGE_SELF)
    return (use.ru_utime + use.ru_stime) * 1000


def held() -> tuple[int, int, float]:
    """Open files, children, and the resident set in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), len(children), pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


async def per_call(asked: Tool, text: str, count: int) -> tuple[float, list[float]]:
    """CPU of one, and the wall time of each, in milliseconds."""
    given = json.dumps({"text": text})
    walls = []
    before = spent()
    for number in range(count):
        began = time.perf_counter()
        context = ToolContext("bench", 1, 1, f"call-{number}", lambda event: None)
        assert await asked.run(asked.parse(given), context) == text
        walls.append((time.perf_counter() - began) * 1000)
    return (spent() - before) / count, walls


async def measure(place: str, count: int, starts: int) -> list[Row]:
    manifest = PluginManifest(
        name="bench", version="1.0", description="For measuring.", run=("python", "main.py"), actions=(ECHO,)
    )
    plugin = Plugin(manifest=manifest, folder=place, data_folder=f"{place}/data")
    sandbox, state = BubblewrapSandbox(), InMemoryPluginState()

    def make() -> PluginHost:
        return PluginHost(plugin, sandbox, state)

    made = [await started(make, starts)]
    host = make()
    (asked,) = build_plugin_tools(host)
    await per_call(asked, "warm", 100)
    await per_call(echo, "warm", 100)
    before = held()
    for name, text in (("a call", "hello"), ("a call with 64 KB", "x" * 65_536)):
        ours, walls = await per_call(asked, text, count)
        limit, _ = await per_call(echo, text, count)
        bound = Target(CPU_MS_MAX, of="ours") if name == "a call" else None
        made.append(Row("plugins", name, "ms of CPU", ours, limit, ours / limit, bound))
        made.append(Row("plugins", f"{name}, median", "ms", statistics.median(walls), raw={"ms": walls}))
    made += leaks(before, held(), 2 * count)
    await host.close()
    await sandbox.close()
    return made


async def started(make: Callable[[], PluginHost], count: int) -> Row:
    """From the first call to its answer."""

    async def run() -> float:
        host = make()
        began = time.perf_counter()
        await per_call(build_plugin_tools(host)[0], "x", 1)
        took = (time.perf_counter() - began) * 1000
        await host.close()
        return took

    await run()  # what is loaded once is not part of it
    walls = [await run() for _ in range(count)]
    return Row("plugins", "start, first call and answer, median", "ms", statistics.median(walls), raw={"ms": walls})


def leaks(before: tuple[int, int, float], after: tuple[int, int, float], count: int) -> list[Row]:
    made = []
    bounds = (("open files", "more", 0.0), ("processes", "more", 0.0), ("memory", "MB more", 4.0))
    for (what, unit, most), old, new in zip(bounds, before, after, strict=True):
        made.append(
            Row("plugins", f"{what} after {count:,} calls", unit, max(new - old, 0.0), target=Target(most, of="ours"))
        )
    return made


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=CALLS, help=f"how many (default {CALLS})")
    options.add_argument("--out", type=Path, help="where the results go (default benchmarks/results/plugins.json)")
    given = options.parse_args()
    if (reason := bubblewrap_problem()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as place:
        Path(place, "main.py").write_text(PROGRAM)
        made = uvloop.run(measure(str(Path(place).resolve()), given.calls, STARTS))
    print(table(made))
    if out := given.out or (Path(__file__).parent / "results" / "plugins.json" if given.calls == CALLS else None):
        results = {"machine": machine(), "calls": given.calls, "rows": [row.data() for row in made]}
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(row.met is False for row in made))


if __name__ == "__main__":
    main()
