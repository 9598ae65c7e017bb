"""The conformance suite of Mainstay, with the store that a `mainstay.yaml` names.

Run it where the distribution is installed, with pytest and pytest-asyncio in auto mode.
"""

from __future__ import annotations

from pathlib import Path

from mainstay.agent.workspace_stores import build_store
from mainstay.config.loader import load_config
from mainstay.core.ports import Store
from mainstay.testing import StoreSuite


class TestFilesStore(StoreSuite):
    async def make(self, folder: Path) -> Store:
        (folder / "mainstay.yaml").write_text("storage:\n  backend: files\n  options: {folder: talks}\n")
        workspace = folder / "workspaces" / "default"
        workspace.mkdir(parents=True, exist_ok=True)
        store = build_store(load_config(folder, env={}).config.storage, workspace)
        assert type(store).__name__ == "FilesStore"
        await store.open()
        return store
