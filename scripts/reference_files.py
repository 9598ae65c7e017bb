"""Files of the repository as pages of the site: examples, contracts, what deploys it, what measures it."""

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

Whole programs, the smallest first, each under fifty lines and each run by the tests. In a checkout:
`.venv/bin/python examples/01_hello.py`. They take their model from `MAINSTAY_MODEL` (default `openai/gpt-4.1-mini`).

<!-- Made from examples/ by `python scripts/reference.py`; do not edit. -->
"""


def examples() -> str:
    paths = sorted((ROOT / "examples").glob("[0-9]*.py"))
    parts = [EXAMPLES, "| | |\n|---|---|"]
    parts += [f"| [{path.stem}](#{path.stem}) | {_first_sentence(path)} |" for path in paths]
    parts += ["| [Plugins](#plugins) | Two plugins, in Python and in JavaScript. |", ""]
    parts += [f"## {path.stem}\n\n{_block(path)}" for path in paths]
    parts.append("## Plugins\n")
    parts.append("`plugin.yaml` says what a plugin offers and asks for; the rest is up to its author.\n")
    for folder in sorted(path for path in (ROOT / "examples" / "plugins").iterdir() if path.is_dir()):
        for path in sorted(folder.iterdir()):
            if path.suffix in KINDS and path.suffix:
                parts.append(f"### {folder.name}/{path.name}\n\n{_block(path)}")
    return "\n".join(parts)


CONTRACTS = """\
# Contracts

The protocol buffers, for whoever writes a client or a plugin in another language: [clients](../how-to/grpc.md) speak
`mainstay.v1`, [plugins](../how-to/plugins.md) serve `mainstay.plugin.v1`. A field that is there stays, with its number.

<!-- Made from proto/ by `python scripts/reference.py`; do not edit. -->
"""


def contracts() -> str:
    paths = sorted((ROOT / "proto").rglob("*.proto"), key=lambda path: (len(path.parts), path.name))
    parts = [f"## {path.relative_to(ROOT / 'proto')}\n\n{_block(path)}" for path in paths]
    return "\n".join([CONTRACTS, *parts])


DEPLOYMENT = """\
# Deployment

How to keep [a server](../how-to/serve.md) up: as a service of systemd, in a container, behind a proxy. The files
are below.

<!-- Made from deploy/ by `python scripts/reference.py`; do not edit. -->
"""


def deployment() -> str:
    page, text = "reference/deployment.md", (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    body = relinked(text.partition("\n")[2].strip() + "\n", "deploy", page)
    files = [path for path in sorted((ROOT / "deploy").iterdir()) if path.suffix != ".md" and path.is_file()]
    files = [path for path in files if path.suffix in KINDS]
    parts = [f"### {path.name}\n\n{_block(path)}" for path in files]
    return "\n".join([DEPLOYMENT, body, "## The files\n", *parts])


BENCHMARKS = """\
# Benchmarks

What is measured, how, and what came out. Measure it yourself: `make bench`.
[Beside other runtimes](../comparison.md#what-it-costs).

<!-- Made from benchmarks/ by `python scripts/reference.py`; do not edit. -->
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
    """Of the comment that an example begins with."""
    comment = re.match(r"(?:#.*\n)+", path.read_text(encoding="utf-8"))
    said = re.sub(r"\n?# ", " ", comment[0] if comment else "").strip()
    return said.split(". ")[0].split(":")[0].rstrip(".") + "."


def _block(path: Path) -> str:
    return f"```{KINDS[path.suffix]}\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"


def relinked(text: str, folder: str, page: str) -> str:
    """Links of a file in `folder` as they must be on `page`; what is not on the site is only named."""

    def lead(found: re.Match[str]) -> str:
        words, target, fragment = found.groups()
        target = os.path.normpath(PurePosixPath(folder, target))
        if not target.startswith("docs/"):
            return str(words)
        relative = os.path.relpath(target.removeprefix("docs/"), PurePosixPath(page).parent)
        return f"[{words}]({relative}{fragment or ''})"

    return _LINK.sub(lead, text)
