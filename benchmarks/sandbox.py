"""What it costs to run a command that does nothing: plain `sh -c`, then each sandbox around it.

Wall time is from the call to the result; CPU is that of our process and of everything it started, divided by the number
of commands. Results go to benchmarks/results/sandbox.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from report import Row, Target, machine, table

from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.host.sandbox import HostSandbox

COMMANDS = 100
WALL_MS_MAX, CPU_MS_MAX = 100, 30


def spent() -> float:
    """Milliseconds of CPU: ours, and of what has ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses) * 1000


async def rows(name: str, run: Callable[[], Awaitable[None]], count: int, *, bound: bool = False) -> list[Row]:
    await run()
    walls: list[float] = []
    before = spent()
    for _ in range(count):
        began = time.perf_counter()
        await run()
        walls.append((time.perf_counter() - began) * 1000)
    cpu = (spent() - before) / count
    return [
        Row(
            "sandbox",
            f"{name}, median",
            "ms",
            statistics.median(walls),
            target=Target(WALL_MS_MAX, of="ours") if bound else None,
            raw={"ms": walls},
        ),
        Row("sandbox", f"{name}, p95", "ms", sorted(walls)[int(count * 0.95)]),
        Row("sandbox", name, "ms of CPU", cpu, target=Target(CPU_MS_MAX, of="ours") if bound else None),
    ]


async def measure(place: str, count: int) -> list[Row]:
    grounds = SessionFolders(cwd=f"{place}/work", writable=(f"{place}/work",), scratch=f"{place}/scratch")
    command = SandboxCommand(script="true", folders=grounds)

    async def plain() -> None:
        assert await (await asyncio.create_subprocess_exec("/bin/sh", "-c", "true")).wait() == 0

    made = await rows("sh -c", plain, count)
    host = HostSandbox()

    async def on_host() -> None:
        assert (await host.exec(command)).exit_code == 0

    made += await rows("host", on_host, count)
    if (reason := bubblewrap_problem()) is not None:
        print(reason, file=sys.stderr)
        return made
    walls = BubblewrapSandbox()

    async def behind_walls() -> None:
        assert (await walls.exec(command)).exit_code == 0

    made += await rows("bubblewrap", behind_walls, count, bound=True)
    if walls.can_protect_deletions:
        guarded = SandboxCommand(script="true", folders=grounds, protect_deletions=True)

        async def under_guard() -> None:
            assert (await walls.exec(guarded)).exit_code == 0

        made += await rows("bubblewrap, guarded", under_guard, count, bound=True)
    return made


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commands", type=int, default=COMMANDS, help=f"how many (default {COMMANDS})")
    options.add_argument("--out", type=Path, help="where the results go (default benchmarks/results/sandbox.json)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        real = str(Path(place).resolve())
        for name in ("work", "scratch"):
            Path(real, name).mkdir()
        made = asyncio.run(measure(real, given.commands))
    print(table(made))
    if out := given.out or (Path(__file__).parent / "results" / "sandbox.json" if given.commands == COMMANDS else None):
        results: dict[str, Any] = {
            "machine": machine(),
            "commands": given.commands,
            "rows": [row.data() for row in made],
        }
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(row.met is False for row in made))


if __name__ == "__main__":
    main()
