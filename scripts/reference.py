"""Writes the reference pages and the drawings from the code: `python scripts/reference.py`.

`--check` writes nothing, names what differs and fails. Everything that is written here is committed, so that it can be
read without building anything; `tests/unit/docs` compares it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DOCS = ROOT / "docs"
sys.path[:0] = [str(HERE), str(ROOT / "src")]

import diagrams  # noqa: E402
import reference_facts  # noqa: E402
import reference_files  # noqa: E402
import reference_library  # noqa: E402

from mainstay.cli.commands import reference as command  # noqa: E402
from mainstay.config import reference  # noqa: E402

PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": command.render,
    "reference/configuration.md": reference.render,
    "reference/library.md": reference_library.render,
    "reference/events.md": reference_facts.events,
    "reference/errors.md": reference_facts.errors,
    "reference/limits.md": reference_facts.limits,
    "reference/examples.md": reference_files.examples,
    "reference/contracts.md": reference_files.contracts,
    "reference/deployment.md": reference_files.deployment,
    "reference/benchmarks.md": reference_files.benchmarks,
    "images/flow.svg": diagrams.flow,
    "images/rooms.svg": diagrams.rooms,
    "images/turn.svg": diagrams.turn,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the reference pages and the drawings from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something differs")
    checking = parser.parse_args().check
    stale = [path for path, render in PAGES.items() if not _same(DOCS / path, render())]
    for path in stale:
        if not checking:
            (DOCS / path).write_text(PAGES[path](), encoding="utf-8")
        print(f"docs/{path} {'is not what the code says' if checking else 'written'}")
    return 1 if checking and stale else 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
