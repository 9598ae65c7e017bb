"""The drawings of the documentation, as SVG without scripts or fonts from elsewhere.

They are light, on a ground of their own, so that they can be read anywhere; the site turns them round in the dark.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "mainstay"
INK, SOFT, LINE, GROUND = "#1f2a37", "#5b6776", "#8a96a6", "#f6f8fa"
KINDS = {
    "plain": ("#ffffff", "#c3ccd6"),
    "ours": ("#e3effc", "#5b93cf"),
    "kept": ("#e5f4ea", "#58a274"),
    "asked": ("#fdf1dc", "#cf9a3a"),
}
Point = tuple[float, float]


class Drawing:
    """What is on it, in the order in which it is drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._parts: list[str] = []

    def box(self, place: tuple[float, float, float, float], words: str, below: str = "", kind: str = "plain") -> None:
        x, y, width, height = place
        fill, edge = KINDS[kind]
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}" stroke="{edge}"/>'
        )
        middle = y + height / 2
        rows = below.split("\n") if below else []
        top = middle + 5 - 8 * len(rows)
        self.text((x + width / 2, top), words, strong=True)
        for number, row in enumerate(rows, start=1):
            self.text((x + width / 2, top + 16 * number), row, small=True)

    def text(self, at: Point, words: str, *, strong: bool = False, small: bool = False, anchor: str = "middle") -> None:
        weight = ' font-weight="600"' if strong else ""
        size, colour = (12, SOFT) if small else (14, INK)
        self._parts.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
            f"{escape(words)}</text>"
        )

    def arrow(self, *points: Point, dashed: bool = False) -> None:
        line = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{line}" fill="none" stroke="{LINE}" stroke-width="1.6"{dash} marker-end="url(#tip)"/>'
        )

    def frame(self, place: tuple[float, float, float, float], words: str) -> None:
        x, y, width, height = place
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="10" fill="none" stroke="{LINE}" '
            'stroke-dasharray="4 4"/>'
        )
        self.text((x + 12, y + 20), words, small=True, anchor="start")

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
                *self._parts,
                "</svg>\n",
            )
        )


def flow() -> str:
    """The way of a message: in at a door, through its lane to the model and the tools, and back once it is on disk."""
    made = Drawing(880, 350, "The way of a message through Mainstay")
    doors = ("your program", "the command", "HTTP, gRPC", "chat platforms", "triggers")
    for number, door in enumerate(doors):
        y = 26 + number * 46
        made.box((22, y, 130, 34), door)
        made.arrow((152, y + 17), (176, y + 17), (176, 135), (206, 135))
    made.box((208, 95, 132, 80), "gateway", "who is it, where,\nmay they", "ours")
    made.box((392, 95, 132, 80), "lane", "one conversation,\nin order", "ours")
    made.box((576, 95, 132, 80), "turn", "ask, act, repeat", "ours")
    made.box((760, 40, 98, 62), "model", "a provider")
    made.box((760, 168, 98, 62), "tools", "policy first")
    made.arrow((340, 135), (390, 135))
    made.arrow((524, 135), (574, 135))
    made.arrow((708, 120), (734, 120), (734, 71), (758, 71))
    made.arrow((708, 150), (734, 150), (734, 199), (758, 199))
    made.box((392, 258, 316, 66), "journal", "append only; synced before anybody is told", "kept")
    made.arrow((436, 175), (436, 256))
    made.text((428, 222), "append", small=True, anchor="end")
    made.arrow((642, 256), (642, 177), dashed=True)
    made.text((650, 222), "where it stands", small=True, anchor="start")
    made.arrow((392, 291), (274, 291), (274, 177), dashed=True)
    made.text((266, 240), "answers,", small=True, anchor="end")
    made.text((266, 256), "once written", small=True, anchor="end")
    return str(made)


def turn() -> str:
    """From a prompt to its outcome, and the three waits for the disk."""
    made = Drawing(880, 380, "A turn, from the prompt to the outcome")
    made.box((22, 40, 100, 56), "prompt")
    made.box((158, 40, 138, 56), "on disk", "then acknowledged", "kept")
    made.arrow((122, 68), (156, 68))
    made.frame((334, 18, 368, 338), "the loop: it keeps no state, it reads where the turn stands")
    made.box((356, 50, 142, 60), "context", "compiled, counted", "ours")
    made.box((538, 50, 142, 60), "model", "one step")
    made.arrow((296, 68), (354, 68))
    made.arrow((498, 80), (536, 80))
    made.box((538, 152, 142, 60), "policy", "each call: allow,\nask or deny", "ours")
    made.arrow((609, 110), (609, 150))
    made.text((601, 136), "calls", small=True, anchor="end")
    made.box((538, 256, 142, 60), "on disk", "unless it is pure", "kept")
    made.arrow((609, 212), (609, 254))
    made.text((601, 239), "allow", small=True, anchor="end")
    made.box((356, 256, 142, 60), "tool runs", "one result, always")
    made.arrow((538, 286), (500, 286))
    made.arrow((427, 256), (427, 112))
    made.text((435, 190), "results", small=True, anchor="start")
    made.box((748, 40, 116, 56), "on disk", "then delivered", "kept")
    made.arrow((680, 68), (746, 68))
    made.text((712, 58), "answer", small=True)
    made.box((748, 152, 116, 60), "paused", "waits on disk", "asked")
    made.arrow((680, 182), (746, 182))
    made.text((714, 174), "ask", small=True)
    made.text((22, 190), "Stopped at any point,", small=True, anchor="start")
    made.text((22, 208), "it goes on from what is on disk.", small=True, anchor="start")
    made.text((22, 240), "A call that had begun and has", small=True, anchor="start")
    made.text((22, 258), "no result is decided by what", small=True, anchor="start")
    made.text((22, 276), "its tool declared: pure,", small=True, anchor="start")
    made.text((22, 294), "idempotent, reconcile, unsafe.", small=True, anchor="start")
    return str(made)


LEVELS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("app",), "config in, objects out; the only room that knows everyone"),
    (("server",), "HTTP, gRPC, OpenAI's API"),
    (("gateway",), "who, which workspace, which lane"),
    (("lane",), "one conversation's turns"),
    (("turn",), "judge, act, ask, repeat"),
    (
        (
            *("providers", "tools", "sandbox", "store", "memory", "skills", "patterns", "meter", "backends"),
            *("channels", "triggers", "plugins", "observe", "judge"),
        ),
        "side by side; none of them imports another",
    ),
    (("context", "policy", "edges", "guards"), "pure decisions, and the borders to the outside"),
    (("core",), "the nouns and the ports: the standard library and msgspec, nothing of ours"),
)
BESIDE = ("kit", "testing")
ACROSS = 7  # boxes in a row


def rooms() -> str:
    """Who is above whom: a room may import what is below it, as ARCHITECTURE.md says in detail."""
    missing = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} - set(drawn())
    assert not missing, f"rooms that are on no level of the drawing: {', '.join(sorted(missing))}"
    parts: list[tuple[float, tuple[str, ...], str]] = []
    y = 24.0
    for names, words in LEVELS:
        parts.append((y, names, words))
        y += 62 if len(names) <= ACROSS else 62 + 44
    made = Drawing(880, int(y + 54), "The rooms of the code, each above what it may import")
    for top, names, words in parts:
        for number, name in enumerate(names):
            row, column = divmod(number, ACROSS)
            kind = "kept" if name == "core" else "ours" if len(names) == 1 else "plain"
            width = 180 if len(names) == 1 else 83
            made.box((22 + column * 89, top + row * 44, width, 36), name, kind=kind)
        made.text(
            (214 if len(names) == 1 else 652, top + 23), words if len(names) == 1 else "", small=True, anchor="start"
        )
        if len(names) > 1:
            for number, part in enumerate(words.split("; ") if "; " in words else words.split(", ")):
                made.text((656, top + 23 + 17 * number), part, small=True, anchor="start")
    made.text(
        (22, y + 24),
        f"Beside them: {' and '.join(BESIDE)}, which authors of plugins and tests import.",
        small=True,
        anchor="start",
    )
    return str(made)


def drawn() -> list[str]:
    return [*(name for names, _ in LEVELS for name in names), *BESIDE]
