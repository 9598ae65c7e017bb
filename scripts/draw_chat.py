"""Draws the picture of the chat from a real one: `mainstay chat` on a pseudo-terminal, keys typed, screen recorded.

    python scripts/draw_chat.py                             with a scripted model, the same every time
    python scripts/draw_chat.py --model local/NAME          with a real one; waits are shortened

The film is one SVG that needs nothing else: light or dark as the reader's screen is, still where motion is not wanted,
and its last picture where nothing can move.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from support.chat_tty import CTRL_D, MARK, Drawn  # noqa: E402
from support.cli_support import Command  # noqa: E402
from support.example_model import ExampleModel, Messages, Said  # noqa: E402

from mainstay.terminal.glyphs import SPINNER  # noqa: E402

ROWS, COLUMNS = 30, 92
CELL_W, CELL_H, SIZE, EDGE, BAR = 8.0, 18.0, 13.3, 14.0, 30.0
FRAME_S = 0.12  # pictures closer than this are one
GAP_S = 0.7  # nobody wants to watch a longer wait
LAST_S = 5.0
KEY_S = 0.035
THINKS_S = 0.4  # the scripted model, before it says anything

PASSED = ("MAINSTAY_MODELS", "XDG_CACHE_HOME", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")  # for a real model
ASK = "policy:\n  ask: [edit, write]\n"
SCRIPTED = """\
models:
  - {{model: demo/scripted, base_url: "{url}", window: 24000, price_prompt: 0.4, price_completion: 1.6}}
"""

TIDES = '''"""When the water is high."""


def next_high(hours: list[float], now: float) -> float:
    return min(hour for hour in hours if hour > now)


print(next_high([4.5, 16.9], now=float(input())))
'''
FIX = (
    "    return min(hour for hour in hours if hour > now)",
    "    return min((hour - now) % 24 for hour in hours) + now",
)
FOUND = """\
`next_high` takes the first tide later than `now`. **After the last one of the day there is none**, so `min` gets \
nothing and raises:

```python
next_high([4.5, 16.9], now=22.0)  # ValueError: min() arg is empty
```

Counting around the clock fixes it. Shall I?"""
FIXED = """\
Done, and run:

| now | next high tide |
|-----|----------------|
| 3.0 | 4.5 |
| 22.0 | 28.5, which is 4.5 tomorrow |"""
RUN = "for now in 3.0 22.0; do echo $now | python3 tides.py; done"


STORY = ("what does tides.py do, and what happens at night?", "yes, and run it")
REAL = (
    "write the line 'high water at 4.5 and 16.9' into tides.txt",
    "read tides.py and say what it does",
    "remember that I sail on Fridays",
)


def say(messages: Messages) -> Said:
    turn = max(place for place, one in enumerate(messages) if one["role"] == "user")
    asked = str(messages[turn]["content"])
    done = sum(one["role"] == "tool" for one in messages[turn:])
    time.sleep(THINKS_S)
    if "night" in asked:
        return FOUND if done else [("read", {"path": "tides.py"})]
    if "yes" in asked:
        steps: list[Said] = [
            [("edit", {"path": "tides.py", "old": FIX[0], "new": FIX[1]})],
            [("bash", {"command": RUN})],
            FIXED,
        ]
        return steps[min(done, 2)]
    return "Noted: I write the test first from now on." if done else [("remember", {"text": asked})]


# --- a real run ----------------------------------------------------------------------------------


class Filmed(Drawn):
    """A terminal whose every picture is kept, with its time."""

    patience_s = 600.0  # a real model takes its time

    def __init__(self, command: Command) -> None:
        self.film: list[tuple[float, tuple[Row, ...]]] = []
        self.answered = 0
        super().__init__(command, "--session", "tides", rows=ROWS, columns=COLUMNS)

    def read(self, seconds: float) -> None:
        super().read(min(seconds, 0.02))
        if self._fed != len(self.raw):
            self._feed()
            self.film.append((time.monotonic(), tuple(_row(self._screen, y) for y in range(ROWS))))

    def _feed(self) -> None:
        """The terminal that draws knows no faint writing: it is given a colour of its own."""
        new, self._fed = self.raw[self._fed :], len(self.raw)
        self._stream.feed(re.sub(rb"\x1b\[([0-9;]*)m", _faint, new))

    def type(self, text: str) -> None:
        for sign in text:
            self.send(sign)
            until = time.monotonic() + KEY_S
            while time.monotonic() < until:
                self.read(KEY_S / 2)
        self.pause(0.4)
        self.send("\r")

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.read(0.02)

    def ended(self, turns: int) -> bool:
        return "\n".join(self.scrolled).count("first token after") >= turns

    def asks(self) -> bool:
        """Something that nobody has answered yet."""
        return "\n".join(self.scrolled).count("y approves, n denies") > self.answered


def _faint(found: re.Match[bytes]) -> bytes:
    codes = found[1].split(b";")
    if b"38" in codes or b"2" not in codes:
        return found[0]
    return b"\x1b[" + b";".join(b"38;5;244" if code == b"2" else code for code in codes) + b"m"


def play(model: str) -> list[tuple[float, tuple[Row, ...]]]:
    scripted = None if model else ExampleModel(say, pause_s=0.03)
    with tempfile.TemporaryDirectory() as folder:
        mainstay = Command(Path(folder))
        mainstay.configure(ASK + (SCRIPTED.format(url=scripted.url) if scripted is not None else f"model: {model}\n"))
        mainstay.env |= {name: os.environ[name] for name in PASSED if name in os.environ}
        mainstay.folder = Path(folder) / "harbour"
        mainstay.folder.mkdir()
        (mainstay.folder / "tides.py").write_text(TIDES)
        chat = Filmed(mainstay)
        try:
            _tell(chat, REAL if model else STORY)
        finally:
            chat.close()
            if scripted is not None:
                scripted.close()
    return chat.film


def _tell(chat: Filmed, story: tuple[str, ...]) -> None:
    """Whatever is asked meanwhile is read and then approved."""
    chat.see("Ctrl-D exits", MARK)
    chat.pause(1.0)
    for turn, prompt in enumerate(story, start=1):
        chat.type(prompt)
        while not chat.ended(turn):
            chat.wait(lambda _, turn=turn: chat.ended(turn) or chat.asks(), "the turn ends or asks")
            if chat.asks():
                chat.pause(1.8)
                chat.answered += 1
                chat.type("y")
        chat.pause(1.4)
    chat.type("/context")
    chat.see("free space")
    chat.pause(2.0)
    chat.send(CTRL_D)
    chat.leave()


# --- what it looks like --------------------------------------------------------------------------


class Run(NamedTuple):
    """Signs that look alike, from this column on."""

    x: int
    text: str
    look: str


Row = tuple[Run, ...]
_NAMES = {"default": "", "brown": "yellow", "brightblack": "faint", "808080": "faint", "8a8a8a": "faint"}


def _row(screen: Any, y: int) -> Row:
    runs: list[Run] = []
    for x in range(COLUMNS):
        char = screen.buffer[y][x]
        name = _NAMES.get(char.fg, char.fg.removeprefix("bright"))
        look = " ".join(filter(None, [name, "b" if char.bold else "", "u" if char.underscore else ""]))
        if runs and runs[-1].look == look and runs[-1].x + len(runs[-1].text) == x:
            runs[-1] = Run(runs[-1].x, runs[-1].text + char.data, look)
        else:
            runs.append(Run(x, char.data, look))
    return tuple(kept for run in runs if (kept := _trimmed(run)).text)


def _trimmed(run: Run) -> Run:
    """Without the space around it, which has no look."""
    bare = run.text.lstrip(" ")
    return Run(run.x + len(run.text) - len(bare), bare.rstrip(" "), run.look)


STYLE = """
svg{{--bg:#fff;--fg:#24292f;--faint:#6e7781;--edge:#d0d7de;--red:#cf222e;--green:#116329;--yellow:#7d4e00;--blue:#0550ae;
--magenta:#8250df;--cyan:#1b7c83}}
@media(prefers-color-scheme:dark){{svg{{--bg:#0d1117;--fg:#e6edf3;--faint:#848d97;--edge:#30363d;--red:#ff7b72;
--green:#7ee787;--yellow:#e3b341;--blue:#79c0ff;--magenta:#d2a8ff;--cyan:#56d4dd}}}}
text{{font:{size}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}
text{{fill:var(--fg);white-space:pre}}
.b{{font-weight:bold}}.u{{text-decoration:underline}}
{colours}
.w{{fill:var(--bg);stroke:var(--edge)}}.d{{fill:var(--edge)}}
.f{{transform:translateY({last}px);animation:p {whole}s step-end infinite}}
@media(prefers-reduced-motion:reduce){{.f{{animation:none}}}}
@keyframes p{{{steps}}}
"""


def draw(film: list[tuple[float, tuple[Row, ...]]]) -> str:
    frames = list(_cut(film))
    whole = sum(seconds for seconds, _ in frames)
    height, width = ROWS * CELL_H, COLUMNS * CELL_W
    known: dict[Row, str] = {}
    steps, shown, at = [], [], 0.0
    for number, (seconds, rows) in enumerate(frames):
        steps.append(f"{at / whole:.3%}{{transform:translateY({-number * height:g}px)}}")
        at += seconds
        for y, row in enumerate(rows):
            if row:
                name = known.setdefault(row, f"r{len(known)}")
                shown.append(f'<use href="#{name}" y="{number * height + y * CELL_H:g}"/>')
    colours = "".join(
        f".{name}{{fill:var(--{name})}}" for name in ("faint", "red", "green", "yellow", "blue", "magenta", "cyan")
    )
    last = -(len(frames) - 1) * height
    style = STYLE.format(size=SIZE, colours=colours, last=f"{last:g}", whole=f"{whole:.1f}", steps="".join(steps))
    box_w, box_h = width + 2 * EDGE, height + BAR + EDGE
    dots = "".join(f'<circle class="d" cx="{EDGE + 6 + n * 18:g}" cy="15" r="5"/>' for n in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {box_w:g} {box_h:g}" width="{box_w:g}" role="img">'
        f"<title>A conversation with Mainstay in a terminal</title><style>{style}</style>"
        f"<defs>{''.join(_symbol(row, name) for row, name in known.items())}</defs>"
        f'<rect class="w" x=".5" y=".5" width="{box_w - 1:g}" height="{box_h - 1:g}" rx="8"/>{dots}'
        f'<svg x="{EDGE:g}" y="{BAR:g}" width="{width:g}" height="{height:g}">'
        f'<g class="f">{"".join(shown)}</g></svg></svg>\n'
    )


def _cut(film: list[tuple[float, tuple[Row, ...]]]) -> Iterator[tuple[float, tuple[Row, ...]]]:
    """Pictures that differ and are worth their while, each with how long it stands. While only a clock moves, the film
    is cut short."""
    kept: list[tuple[float, tuple[Row, ...]]] = []
    still: tuple[Row, ...] = ()
    since = 0.0
    for at, rows in film:
        without = tuple(row for row in rows if not (row and row[0].text[0] in SPINNER))
        if without != still:
            still, since = without, at
        if not any(rows) or at - since > GAP_S:
            continue
        if kept and (rows == kept[-1][1] or at - kept[-1][0] < FRAME_S):
            kept[-1] = kept[-1][0], rows
        else:
            kept.append((at, rows))
    for (at, rows), after in zip(kept, [*kept[1:], None], strict=True):
        yield (LAST_S if after is None else min(after[0] - at, GAP_S)), rows


def _symbol(row: Row, name: str) -> str:
    runs = "".join(
        f'<tspan x="{run.x * CELL_W:g}" textLength="{len(run.text) * CELL_W:g}"'
        + (f' class="{run.look}"' if run.look else "")
        + f">{escape(run.text, quote=False)}</tspan>"
        for run in row
    )
    return f'<text id="{name}" y="{CELL_H - 4:g}">{runs}</text>'


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--model", default="", metavar="M", help="a real model, as <provider>/<model>")
    options.add_argument("--out", default=str(ROOT / "docs" / "images" / "chat.svg"), metavar="FILE")
    given = options.parse_args()
    picture = draw(play(given.model))
    Path(given.out).write_text(picture)
    print(f"{given.out}: {len(picture):,} bytes")


if __name__ == "__main__":
    main()
