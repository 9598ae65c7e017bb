"""Fills the tables of docs/how-to/built-in-tools.md from the code: the arguments of each tool and what it does.

The page decides which table has the row of a tool. To document a new tool, add a row with its name: "| `name` | | |".
"""

from __future__ import annotations

import re
from pathlib import Path

from mainstay.agent.config_warnings import build_inspection_tools
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS
from mainstay.core.tools import parameter_names

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "built-in-tools.md"
_TABLE = re.compile(r"(?<=\| tool \| arguments \| what it does \|\n\|---\|---\|---\|\n)(?:\|.*\n)+")
_ROW_NAME = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def render() -> str:
    return _TABLE.sub(lambda table: _render_rows(_ROW_NAME.findall(table[0])), PAGE.read_text(encoding="utf-8"))


def list_documented_tools() -> list[str]:
    """Return the names of the tools that have a row."""
    return [name for table in _TABLE.findall(PAGE.read_text(encoding="utf-8")) for name in _ROW_NAME.findall(table)]


def _render_rows(names: list[str]) -> str:
    tools = {tool.name: tool for tool in build_inspection_tools()}
    rows = []
    for name in names:
        if name not in BUILT_IN_TOOLS:
            raise SystemExit(f"{PAGE}: there is no built-in tool {name!r}")
        arguments = ", ".join(parameter_names(tools[name].schema))
        rows.append(f"| `{name}` | {arguments} | {BUILT_IN_TOOLS[name].summary} |\n")
    return "".join(rows)
