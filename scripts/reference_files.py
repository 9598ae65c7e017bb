"""Generates the reference pages that consist of files of the repository: examples, protobuf files, deployment,
benchmarks."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
KINDS = {".py": "python", ".js": "js", ".mjs": "js", ".yaml": "yaml", ".proto": "protobuf", ".conf": "nginx"}
KINDS |= {".service": "ini", "": "dockerfile"}

EXAMPLES = """\
# Examples

Complete programs, the smallest first, each under fifty lines and each run by the tests. In a checkout:
`.venv/bin/python examples/01_hello.py`. They use the model in `MAINSTAY_MODEL` (default `openai/gpt-4.1-mini`).

<!-- Generated from examples/ by `python scripts/reference.py`; do not edit. -->
"""


def examples() -> str:
    paths = sorted((ROOT / "examples").glob("[0-9]*.py"))
    parts = [EXAMPLES, "| | |\n|---|---|"]
    parts += [f"| [{path.stem}](#{path.stem}) | {_first_sentence(path)} |" for path in paths]
    parts += ["| [Plugins](#plugins) | Two plugins, in Python and in JavaScript. |", ""]
    parts += [f"## {path.stem}\n\n{_block(path)}" for path in paths]
    parts.append("## Plugins\n")
    parts.append("`plugin.yaml` declares the tools of a plugin and the permissions that it needs.\n")
    for folder in sorted(path for path in (ROOT / "examples" / "plugins").iterdir() if path.is_dir()):
        for path in sorted(folder.iterdir()):
            if path.suffix in KINDS and path.suffix:
                parts.append(f"### {folder.name}/{path.name}\n\n{_block(path)}")
    return "\n".join(parts)


CONTRACTS = """\
# Protobuf contracts

The `.proto` files, for developers of clients and plugins in any language: [gRPC clients](../how-to/grpc.md) call
`mainstay.v1`, [plugins](../how-to/plugins.md) serve `mainstay.plugin.v1`. Published fields keep their names and
numbers.

<!-- Generated from proto/ by `python scripts/reference.py`; do not edit. -->
"""


def contracts() -> str:
    paths = sorted((ROOT / "proto").rglob("*.proto"), key=lambda path: (len(path.parts), path.name))
    parts = [f"## {path.relative_to(ROOT / 'proto')}\n\n{_block(path)}" for path in paths]
    return "\n".join([CONTRACTS, *parts])


DEPLOYMENT = """\
# Deployment

For operators of [a server](../how-to/serve.md): the steps, and [the files](#files) of the folder `deploy`.

<!-- Generated from deploy/ by `python scripts/reference.py`; do not edit. -->
"""


def deployment() -> str:
    page, text = "reference/deployment.md", (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    body = relinked(text.partition("\n")[2].strip() + "\n", "deploy", page)
    files = [path for path in sorted((ROOT / "deploy").iterdir()) if path.suffix != ".md" and path.is_file()]
    files = [path for path in files if path.suffix in KINDS]
    parts = [f"### {path.name}\n\n{_block(path)}" for path in files]
    return "\n".join([DEPLOYMENT, body, "## Files\n", *parts])


BENCHMARKS = """\
# Benchmarks

For developers who check or reproduce the figures. [Comparison with other runtimes](../comparison.md#what-it-costs).

<!-- Generated from benchmarks/ by `python scripts/reference.py`; do not edit. -->
"""


def benchmarks() -> str:
    page = "reference/benchmarks.md"
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").partition("\n")[2].strip() + "\n"
    last = (ROOT / "benchmarks" / "results" / "latest.md").read_text(encoding="utf-8").partition("\n")[2].strip() + "\n"
    last = re.sub(r"What each figure means: \[README\]\(\.\./README\.md\)\.\n?", "", last)
    parts = [relinked(text, "benchmarks", page), "## Last results\n", relinked(last, "benchmarks/results", page)]
    return "\n".join([BENCHMARKS, *parts])


# --- helpers -------------------------------------------------------------------------------------


def _first_sentence(path: Path) -> str:
    """The first sentence of the comment at the top of an example."""
    comment = re.match(r"(?:#.*\n)+", path.read_text(encoding="utf-8"))
    text = re.sub(r"\n?# ", " ", comment[0] if comment else "").strip()
    return text.split(". ")[0].split(":")[0].rstrip(".") + "."


def _block(path: Path) -> str:
    return f"```{KINDS[path.suffix]}\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"


def relinked(text: str, folder: str, page: str) -> str:
    """Rewrite the links of a file in `folder` for `page`; a link to a file outside of the site becomes plain text."""

    def rewrite(link: re.Match[str]) -> str:
        text, target, fragment = link.groups()
        target = os.path.normpath(PurePosixPath(folder, target))
        if not target.startswith("docs/"):
            return str(text)
        relative = os.path.relpath(target.removeprefix("docs/"), PurePosixPath(page).parent)
        return f"[{text}]({relative}{fragment or ''})"

    return _LINK.sub(rewrite, text)
