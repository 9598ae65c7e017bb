"""Cost of running a command that does nothing: plain `sh -c`, and each sandbox.

Wall time is from the call to the result; CPU is that of this process and its children, divided by the number of
commands. Results go to benchmarks/results/sandbox.json.
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

from report import Row, Target, describe_machine, format_table

from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.host.sandbox import HostSandbox

COMMANDS = 100
WALL_MS_MAX, CPU_MS_MAX = 100, 30


def read_cpu_ms() -> float:
    """CPU time of this process and of the children that have ended."""
    usages = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) * 1000


async def measure_command(
    name: str, run: Callable[[], Awaitable[None]], count: int, *, has_target: bool = False
) -> list[Row]:
    await run()
    wall_ms: list[float] = []
    before_ms = read_cpu_ms()
    for _ in range(count):
        started = time.perf_counter()
        await run()
        wall_ms.append((time.perf_counter() - started) * 1000)
    cpu_ms = (read_cpu_ms() - before_ms) / count
    return [
        Row(
            "sandbox",
            f"{name}, median",
            "ms",
            statistics.median(wall_ms),
            target=Target(WALL_MS_MAX, of="ours") if has_target else None,
            raw={"ms": wall_ms},
        ),
        Row("sandbox", f"{name}, p95", "ms", sorted(wall_ms)[int(count * 0.95)]),
        Row("sandbox", name, "ms of CPU", cpu_ms, target=Target(CPU_MS_MAX, of="ours") if has_target else None),
    ]


async def measure(folder: str, count: int) -> list[Row]:
    folders = SessionFolders(cwd=f"{folder}/work", writable=(f"{folder}/work",), scratch=f"{folder}/scratch")
    command = SandboxCommand(script="true", folders=folders)

    async def run_shell() -> None:
        assert await (await asyncio.create_subprocess_exec("/bin/sh", "-c", "true")).wait() == 0

    rows = await measure_command("sh -c", run_shell, count)
    host = HostSandbox()

    async def run_on_host() -> None:
        assert (await host.exec(command)).exit_code == 0

    rows += await measure_command("host", run_on_host, count)
    if (reason := bubblewrap_problem()) is not None:
        print(reason, file=sys.stderr)
        return rows
    bubblewrap = BubblewrapSandbox()

    async def run_in_bubblewrap() -> None:
        assert (await bubblewrap.exec(command)).exit_code == 0

    rows += await measure_command("bubblewrap", run_in_bubblewrap, count, has_target=True)
    if bubblewrap.can_protect_deletions:
        protected = SandboxCommand(script="true", folders=folders, protect_deletions=True)

        async def run_protected() -> None:
            assert (await bubblewrap.exec(protected)).exit_code == 0

        rows += await measure_command("bubblewrap, guarded", run_protected, count, has_target=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=COMMANDS, help=f"number of commands (default {COMMANDS})")
    parser.add_argument("--out", type=Path, help="file for the results (default benchmarks/results/sandbox.json)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = str(Path(folder).resolve())
        for name in ("work", "scratch"):
            Path(root, name).mkdir()
        rows = asyncio.run(measure(root, arguments.commands))
    print(format_table(rows))
    if out := arguments.out or (
        Path(__file__).parent / "results" / "sandbox.json" if arguments.commands == COMMANDS else None
    ):
        results: dict[str, Any] = {
            "machine": describe_machine(),
            "commands": arguments.commands,
            "rows": [row.to_dict() for row in rows],
        }
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(row.meets_target is False for row in rows))


if __name__ == "__main__":
    main()
