"""Draws modules and classes at random, to test whether their names can be understood without their code.

python scripts/draw_names.py SEED             50 modules and 50 classes: path and name only
python scripts/draw_names.py SEED --answers   the same with the first sentence of their docstrings
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "mainstay"
COUNT = 50


def main(arguments: list[str]) -> None:
    if not arguments or not arguments[0].isdecimal() or set(arguments[1:]) - {"--answers"}:
        sys.exit(__doc__)
    seed, with_answers = int(arguments[0]), "--answers" in arguments
    modules: dict[str, str] = {}
    classes: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.stem not in ("__init__", "__main__"):
            modules[name] = _first_sentence(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and ast.get_docstring(node):
                classes[f"{name}: {node.name}"] = _first_sentence(node)
    draw = random.Random(seed)
    for title, found in (("modules", modules), ("classes", classes)):
        print(f"# {COUNT} of {len(found)} {title}, seed {seed}")
        for number, name in enumerate(draw.sample(sorted(found), COUNT), start=1):
            print(f"{number:2}. {name}" + (f"\n      {found[name]}" if with_answers else ""))


def _first_sentence(node: ast.Module | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    main(sys.argv[1:])
