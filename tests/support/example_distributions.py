"""Installs a distribution of `examples/components` into a folder, as pip does."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
_OFFLINE = ("-q", "--disable-pip-version-check", "--no-index", "--no-build-isolation", "--no-deps", "--no-compile")


def install_example(kind: str, folder: Path) -> Path:
    """Return the folder to put on the path: the module of the example and its metadata are in it."""
    source, site = folder / "source", folder / "site"
    shutil.copytree(ROOT / "examples" / "components" / kind, source)  # building writes beside the sources
    pip = [sys.executable, "-m", "pip", "install", *_OFFLINE, "--target", str(site), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return site


def import_example(kind: str) -> ModuleType:
    """Import the module of an example from its source folder."""
    (path,) = (ROOT / "examples" / "components" / kind).glob("mainstay_*.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
