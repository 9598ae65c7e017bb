"""Generates the reference pages, the diagrams and `operations.proto` from the code: `python scripts/reference.py`.

`--check` writes nothing, lists the files that differ, and fails if there are any. The generated files are committed, so
that they can be read without building the site; `tests/unit/docs` compares them with the code.
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
import reference_cli as command  # noqa: E402
import reference_facts  # noqa: E402
import reference_files  # noqa: E402
import reference_http  # noqa: E402
import reference_library  # noqa: E402
import reference_tools  # noqa: E402

from mainstay.config import reference  # noqa: E402
from mainstay.server.grpc import operations_schema  # noqa: E402

Renderer = Callable[[], str]

PAGES: dict[str, Renderer] = {  # below docs/
    "reference/cli.md": command.render_page,
    "reference/configuration.md": reference.render_page,
    "reference/library.md": reference_library.render,
    "reference/http.md": reference_http.render,
    "reference/events.md": reference_facts.events,
    "reference/errors.md": reference_facts.errors,
    "reference/limits.md": reference_facts.limits,
    "reference/examples.md": reference_files.examples,
    "reference/contracts.md": reference_files.contracts,
    "reference/deployment.md": reference_files.deployment,
    "reference/benchmarks.md": reference_files.benchmarks,
    "how-to/built-in-tools.md": reference_tools.render,  # only its tables
    "images/flow.svg": diagrams.flow,
    "images/packages.svg": diagrams.packages,
    "images/turn.svg": diagrams.turn,
}
# `contracts.md` includes the .proto files, so these come first
FILES: dict[str, Renderer] = {
    f"proto/{operations_schema.FILE}": operations_schema.render_proto,
    **{f"docs/{path}": render for path, render in PAGES.items()},
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate the reference pages, the diagrams and operations.proto.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    check_only = parser.parse_args().check
    outdated = 0
    for path, render in FILES.items():
        text, file = render(), ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        outdated += 1
        if not check_only:
            file.write_text(text, encoding="utf-8")
        print(f"{path} {'differs from the code' if check_only else 'written'}")
    return 1 if check_only and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
