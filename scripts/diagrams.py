"""The diagrams of the documentation, as SVG without scripts and without web fonts.

They have a light background of their own, so that they are readable anywhere; in dark mode the site inverts them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "mainstay"
INK, SOFT, LINE, GROUND = "#1f2a37", "#5b6776", "#8a96a6", "#f6f8fa"
STYLES = {
    "plain": ("#ffffff", "#c3ccd6"),
    "runtime": ("#e3effc", "#5b93cf"),
    "durable": ("#e5f4ea", "#58a274"),
    "waiting": ("#fdf1dc", "#cf9a3a"),
}
Point = tuple[float, float]
Rectangle = tuple[float, float, float, float]  # left, top, width, height


class Drawing:
    """An SVG image; shapes are drawn in the order in which they are added."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._shapes: list[str] = []

    def box(self, at: Rectangle, title: str, details: str = "", kind: str = "plain") -> None:
        """A box with a bold title, and under it one small line for each line of `details`."""
        x, y, width, height = at
        fill, edge = STYLES[kind]
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}" stroke="{edge}"/>'
        )
        middle = y + height / 2
        rows = details.split("\n") if details else []
        top = middle + 5 - 8 * len(rows)
        self.text((x + width / 2, top), title, strong=True)
        for number, row in enumerate(rows, start=1):
            self.text((x + width / 2, top + 16 * number), row, small=True)

    def text(self, at: Point, text: str, *, strong: bool = False, small: bool = False, anchor: str = "middle") -> None:
        weight = ' font-weight="600"' if strong else ""
        size, colour = (12, SOFT) if small else (14, INK)
        self._shapes.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )

    def arrow(self, *points: Point, dashed: bool = False) -> None:
        line = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._shapes.append(
            f'<polyline points="{line}" fill="none" stroke="{LINE}" stroke-width="1.6"{dash} marker-end="url(#tip)"/>'
        )

    def frame(self, at: Rectangle, title: str) -> None:
        x, y, width, height = at
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="10" fill="none" stroke="{LINE}" '
            'stroke-dasharray="4 4"/>'
        )
        self.text((x + 12, y + 20), title, small=True, anchor="start")

    def __str__(self) -> str:
        width, height = self._size
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img" '
                f'aria-label="{escape(self._title)}" font-family="system-ui, sans-serif">',
                f"<title>{escape(self._title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>',
                f'<rect width="{width}" height="{height}" rx="10" fill="{GROUND}"/>',
                *self._shapes,
                "</svg>\n",
            )
        )


def flow() -> str:
    """The path of a message: from an interface through an operation and a lane to the model, and back once written."""
    image = Drawing(880, 350, "The path of a message through Mainstay")
    interfaces = ("library, CLI", "HTTP, gRPC", "MCP", "chat platforms", "triggers")
    for number, interface in enumerate(interfaces):
        y = 26 + number * 46
        image.box((22, y, 130, 34), interface)
        image.arrow((152, y + 17), (176, y + 17), (176, 135), (206, 135))
    image.box((208, 95, 132, 80), "operation", "caller, workspace,\npermission", "runtime")
    image.box((392, 95, 132, 80), "lane", "one session's turns,\nin order", "runtime")
    image.box((576, 95, 132, 80), "turn", "call model,\nrun tools, repeat", "runtime")
    image.box((760, 40, 98, 62), "model", "a provider")
    image.box((760, 168, 98, 62), "tools", "policy first")
    image.arrow((340, 135), (390, 135))
    image.arrow((524, 135), (574, 135))
    image.arrow((708, 120), (734, 120), (734, 71), (758, 71))
    image.arrow((708, 150), (734, 150), (734, 199), (758, 199))
    image.box((392, 258, 316, 66), "journal", "append-only; written before it is delivered", "durable")
    image.arrow((436, 175), (436, 256))
    image.text((428, 222), "append", small=True, anchor="end")
    image.arrow((642, 256), (642, 177), dashed=True)
    image.text((650, 222), "progress", small=True, anchor="start")
    image.arrow((392, 291), (274, 291), (274, 177), dashed=True)
    image.text((266, 240), "answers,", small=True, anchor="end")
    image.text((266, 256), "once written", small=True, anchor="end")
    return str(image)


def turn() -> str:
    """One turn, from the prompt to the outcome, with the three points at which it waits for the disk."""
    image = Drawing(880, 380, "A turn, from the prompt to the outcome")
    image.box((22, 40, 100, 56), "prompt")
    image.box((158, 40, 138, 56), "on disk", "then acknowledged", "durable")
    image.arrow((122, 68), (156, 68))
    image.frame((334, 18, 368, 338), "the loop: reads the turn's progress from the journal")
    image.box((356, 50, 142, 60), "context", "compiled, counted", "runtime")
    image.box((538, 50, 142, 60), "model", "one step")
    image.arrow((296, 68), (354, 68))
    image.arrow((498, 80), (536, 80))
    image.box((538, 152, 142, 60), "policy", "each call: allow,\nask or deny", "runtime")
    image.arrow((609, 110), (609, 150))
    image.text((601, 136), "calls", small=True, anchor="end")
    image.box((538, 256, 142, 60), "on disk", "unless it is pure", "durable")
    image.arrow((609, 212), (609, 254))
    image.text((601, 239), "allow", small=True, anchor="end")
    image.box((356, 256, 142, 60), "tool runs", "always one result")
    image.arrow((538, 286), (500, 286))
    image.arrow((427, 256), (427, 112))
    image.text((435, 190), "results", small=True, anchor="start")
    image.box((748, 40, 116, 56), "on disk", "then delivered", "durable")
    image.arrow((680, 68), (746, 68))
    image.text((712, 58), "answer", small=True)
    image.box((748, 152, 116, 60), "paused", "waits on disk", "waiting")
    image.arrow((680, 182), (746, 182))
    image.text((714, 174), "ask", small=True)
    notes = ["After a crash, the same loop", "resumes from what is on disk.", "", "For a call that had started and"]
    notes += ["has no result, its declared", "effect decides: pure,", "idempotent, reconcile, unsafe."]
    for number, note in enumerate(notes):
        image.text((22, 190 + 18 * number), note, small=True, anchor="start")
    return str(image)


# --- packages ------------------------------------------------------------------------------------

FOR_AUTHORS = ("kit", "testing")  # imported by plugins and by tests, not by the other packages
BOXES_PER_ROW = 9


def packages() -> str:
    """The packages in levels, from the imports in the source: each package imports only packages below it."""
    rows = [
        (level, names[start : start + BOXES_PER_ROW])
        for level, names in sorted(package_levels().items(), reverse=True)
        for start in range(0, len(names), BOXES_PER_ROW)
    ]
    image = Drawing(880, 48 * len(rows) + 74, "The packages of Mainstay; each imports only packages below it")
    for number, (level, names) in enumerate(rows):
        left = (880 - 95 * len(names) + 3) / 2
        style = "durable" if level == 0 else "runtime" if len(names) <= 2 else "plain"
        for column, name in enumerate(names):
            image.box((left + 95 * column, 20 + 48 * number, 92, 36), name, kind=style)
    bottom = 48 * len(rows) + 34
    image.text((440, bottom), "Each package imports only packages below it. core imports none.", small=True)
    image.text((440, bottom + 18), f"Not shown: {' and '.join(FOR_AUTHORS)}, for plugin authors and tests.", small=True)
    return str(image)


def package_levels() -> dict[int, list[str]]:
    """The packages by level. A package's level is the length of the longest import path from it down to `core`."""
    imports = package_imports()
    levels: dict[str, int] = {}

    def find_level(package: str, path: tuple[str, ...] = ()) -> int:
        assert package not in path, f"packages import each other: {' -> '.join((*path, package))}"
        if package not in levels:
            below = [find_level(target, (*path, package)) for target in imports[package]]
            levels[package] = max(below, default=-1) + 1
        return levels[package]

    for package in imports:
        find_level(package)
    return {
        level: sorted(name for name in imports if levels[name] == level and name not in FOR_AUTHORS)
        for level in set(levels.values())
    }


def package_imports() -> dict[str, set[str]]:
    """For each package, the packages that it imports, inside functions too."""
    names = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    imports: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for package in imports:
        for path in (SOURCE / package).rglob("*.py"):
            imports[package] |= set(_imported_packages(path)) & names - {package}
    return imports


def _imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        yield from (module.split(".")[1] for module in modules if module.startswith("mainstay."))
