"""Health check of the fact store `oxigraph`: its library can be loaded, and its folders can be used.

The databases are not opened: Oxigraph allows no reader beside a process that writes, which may be the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from mainstay.core.component_options import FactStoreOptions
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.outcome_text import format_count
from mainstay.store.oxigraph.manifest import COMPONENT, GRAPH_FOLDER


def check_oxigraph(options: FactStoreOptions, context: CheckContext) -> Iterator[CheckFinding]:
    try:
        import pyoxigraph  # an optional dependency
    except ImportError as error:
        yield CheckFinding("Facts", "FAIL", f"oxigraph: pyoxigraph cannot be loaded: {error}", COMPONENT.install)
        return
    folders = sorted((context.data / "workspaces").glob(f"*/{GRAPH_FOLDER}"))
    unusable = [
        folder for folder in folders if not (folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK))
    ]
    for folder in unusable:
        message = f"oxigraph: {folder} is not a folder that this user can read and write"
        yield CheckFinding("Facts", "FAIL", message, f"correct the owner and the permissions of {folder}")
    if not unusable:
        used = f"databases of {format_count(len(folders), 'workspace')}"
        yield CheckFinding("Facts", "ok", f"oxigraph {pyoxigraph.__version__}: {used}")
