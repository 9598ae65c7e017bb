"""Measures the size and the language of the code: packages, class names, docstrings, `Any`, module names.

python scripts/code_metrics.py [CHECKOUT]     a table; the limits are enforced by tests/test_architecture.py
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# Phrases that hide the subject of a sentence.
INDIRECT = re.compile(r"\b(whoever|whatever is|somebody|nobody|anybody|whose word|what is another's)\b", re.IGNORECASE)
# Gerunds that are terms of the field, as the whole name of a module.
FIELD_GERUNDS = frozenset(
    (
        "logging",
        "metering",
        "pairing",
        "polling",
        "routing",
        "scheduling",
        "stemming",
        "streaming",
        "testing",
        "tracing",
    )
)


class Metrics(NamedTuple):
    """Figures of one checkout."""

    lines: int
    files: int
    packages: dict[str, int]  # lines by top-level package
    classes: int
    shared_names: dict[str, int]  # class names that more than one class has, with how many do
    docstring_words: int
    indirect_docstrings: int  # matches of INDIRECT in docstrings
    page_words: int
    indirect_pages: int
    any_uses: int
    gerund_modules: list[str]
    long_functions: int  # above 70 lines

    @property
    def largest_package(self) -> tuple[str, int]:
        return max(self.packages.items(), key=lambda item: item[1])

    @property
    def shared_percent(self) -> float:
        return 100 * sum(self.shared_names.values()) / max(self.classes, 1)

    @property
    def indirect_per_10k_docstring_words(self) -> float:
        return 10_000 * self.indirect_docstrings / max(self.docstring_words, 1)

    @property
    def indirect_per_10k_page_words(self) -> float:
        return 10_000 * self.indirect_pages / max(self.page_words, 1)

    @property
    def any_per_1k_lines(self) -> float:
        return 1_000 * self.any_uses / max(self.lines, 1)


def parse(text: str) -> ast.Module:
    """Parse with the garbage collector off: on Python 3.11 a collection that formats a traceback in the middle of a
    parse makes the parser fail with a SystemError."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collecting:
            gc.enable()


def measure(root: Path = ROOT) -> Metrics:
    source = root / "src" / "mainstay"
    names: Counter[str] = Counter()
    packages: Counter[str] = Counter()
    gerunds: list[str] = []
    lines = files = words = indirect = any_uses = long_functions = 0
    for path in sorted(source.rglob("*.py")):
        text = path.read_text()
        relative = path.relative_to(source)
        lines += text.count("\n")
        files += 1
        if len(relative.parts) > 1:
            packages[relative.parts[0]] += text.count("\n")
        if is_gerund(path.stem):
            gerunds.append(relative.as_posix())
        for node in ast.walk(parse(text)):
            match node:
                case ast.ClassDef(name=name):
                    names[name] += 1
                case ast.Name(id="Any"):
                    any_uses += 1
                case ast.FunctionDef() | ast.AsyncFunctionDef() if (node.end_lineno or 0) - node.lineno >= 70:
                    long_functions += 1
            if docstring := docstring_of(node):
                words += len(docstring.split())
                indirect += len(INDIRECT.findall(docstring))
    pages = " ".join(path.read_text() for path in page_paths(root))
    return Metrics(
        lines=lines,
        files=files,
        packages=dict(packages),
        classes=sum(names.values()),
        shared_names={name: count for name, count in names.items() if count > 1},
        docstring_words=words,
        indirect_docstrings=indirect,
        page_words=len(pages.split()),
        indirect_pages=len(INDIRECT.findall(pages)),
        any_uses=any_uses,
        gerund_modules=gerunds,
        long_functions=long_functions,
    )


def docstring_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ast.get_docstring(node)
    return None


def is_gerund(name: str) -> bool:
    """True if the whole name of a module is a gerund that is not a term of the field."""
    return name.endswith("ing") and "_" not in name and len(name) > 4 and name not in FIELD_GERUNDS


def page_paths(root: Path) -> Iterator[Path]:
    yield root / "README.md"
    yield from sorted((root / "docs").rglob("*.md"))


def main(arguments: list[str]) -> None:
    metrics = measure(Path(arguments[0]) if arguments else ROOT)
    package, size = metrics.largest_package
    rows = [
        ("lines in src", f"{metrics.lines:,}"),
        ("files in src", f"{metrics.files:,}"),
        ("largest package", f"{package}, {size:,} lines"),
        ("classes whose name is not unique", f"{metrics.shared_percent:.1f} % of {metrics.classes:,}"),
        ("indirect phrases per 10,000 words of docstrings", f"{metrics.indirect_per_10k_docstring_words:.1f}"),
        ("indirect phrases per 10,000 words of pages", f"{metrics.indirect_per_10k_page_words:.1f}"),
        ("`Any` per 1,000 lines", f"{metrics.any_per_1k_lines:.1f}"),
        ("modules named with a gerund", f"{len(metrics.gerund_modules)}"),
        ("functions above 70 lines", f"{metrics.long_functions}"),
    ]
    for name, value in rows:
        print(f"{name:50} {value}")


if __name__ == "__main__":
    main(sys.argv[1:])
