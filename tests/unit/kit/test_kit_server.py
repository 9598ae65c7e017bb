"""`serve()` in a process of its own: output of a plugin, errors, and shutdown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.core.plugin_protocol import ExecuteRequest, ExecuteResponse, decode, encode
from mainstay.testing.plugin_suite import FakePluginState, PluginSuite, SampleCall

ROOT = Path(__file__).parents[3]
PLUGIN = '''
import asyncio, sys, time
from mainstay.kit import ActionFailed, Call, action, serve, state

@action
def fail(how: str) -> str:
    """Fail in some way."""
    if how == "told":
        raise ActionFailed("The sea is too rough.")
    if how == "silent":
        raise ActionFailed("")
    if how == "exit":
        sys.exit(3)
    raise KeyError("sk-proj-secret")

@action
async def fail_async() -> str:
    """Fail while others wait."""
    raise ValueError("sk-proj-secret")

@action
def whoami(call: Call) -> dict[str, str]:
    """Tell the context."""
    return dict(call.context)

@action
def twice(key: str) -> str:
    """Count, from a thread."""
    state.set(key, str(int(state.get(key) or 0) + 1))
    return f"{state.get(key)} {state.keys(key)} {state.delete(key)} {state.delete(key)} {state.get(key)}"

@action
async def twice_async(key: str) -> str:
    """Count, on the loop."""
    await state.aset(key, "1")
    return f"{await state.aget(key)} {await state.akeys(key)} {await state.adelete(key)} {await state.aget(key)}"

@action
def wrong_door() -> int:
    """Return a number."""
    return 7

@action
def stuck() -> str:
    """Never look up."""
    print("stuck", file=sys.stderr, flush=True)
    time.sleep(1000)
    return ""

serve()
'''


@pytest.fixture
def plugin(tmp_path: Path) -> PluginSuite:
    (tmp_path / "main.py").write_text(PLUGIN)
    made = PluginSuite()
    made.command, made.folder = (sys.executable, "main.py"), tmp_path
    made.env = {"PYTHONPATH": str(ROOT / "src")}
    return made


async def test_an_exception_of_a_function_is_an_error_of_its_call_and_the_traceback_is_logged(
    plugin: PluginSuite,
) -> None:
    async with plugin.start_plugin(FakePluginState()) as running:
        told = {
            how: (await running.call("1", SampleCall("fail", {"how": how}))).error for how in ("told", "silent", "x")
        }
        assert told == {
            "told": "The sea is too rough.",
            "silent": "It failed.",
            "x": "The action failed: KeyError.",
        }
        assert (await running.call("2", SampleCall("fail_async", {}))).error == "The action failed: ValueError."
        await running.wait_for_stderr(b"KeyError: 'sk-proj-secret'")
        assert (
            await running.call("3", SampleCall("fail", {"how": "exit"}))
        ).error == "The action failed: RuntimeError."
        assert (await running.call("4", SampleCall("wrong_door", {}))).content == "7"


async def test_state_is_the_same_from_threads_and_from_the_loop(plugin: PluginSuite) -> None:
    """OPENTALON-036"""
    async with plugin.start_plugin(FakePluginState()) as running:
        assert (await running.call("1", SampleCall("twice", {"key": "ä"}))).content == "1 ['ä'] True False None"
        assert (await running.call("2", SampleCall("twice_async", {"key": "ö"}))).content == "1 ['ö'] True None"


async def test_an_action_sees_the_context_it_was_sent_and_no_more(plugin: PluginSuite) -> None:
    async with plugin.start_plugin(FakePluginState()) as running:
        request = ExecuteRequest("1", "whoami", "{}", {"session": "s", "prompt": "hi"})
        answer = decode(await running.send(encode(request)), ExecuteResponse)
        assert answer.content == '{"prompt":"hi","session":"s"}'
        assert (await running.call("2", SampleCall("whoami", {}))).content == "{}"


async def test_it_ends_when_asked_though_a_thread_never_looks_up(plugin: PluginSuite) -> None:
    async with plugin.start_plugin(FakePluginState()) as running:
        stuck = running.start_call("1", SampleCall("stuck", {}))
        await running.wait_for_stderr(b"stuck")
        running.process.send_signal(signal.SIGTERM)
        assert await running.process.wait() == 0
        stuck.cancel()


async def test_its_socket_is_private(plugin: PluginSuite) -> None:
    async with plugin.start_plugin(FakePluginState()) as running:
        assert os.stat(running.socket).st_mode & 0o077 == 0


def test_outside_of_mainstay_it_says_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(PLUGIN)
    (tmp_path / "empty.py").write_text("from mainstay.kit import serve\nserve()\n")
    env = {"PYTHONPATH": str(ROOT / "src")}
    ran = _run("main.py", tmp_path, env)
    assert ran.returncode == 1
    assert ran.stderr.startswith("This is a plugin of Mainstay")
    assert ran.stderr.count("\n") == 1
    ran = _run("empty.py", tmp_path, {**env, "MAINSTAY_PLUGIN_SOCKET": str(tmp_path / "s")})
    assert ran.stderr == "There is nothing to serve: no function is decorated with @action.\n"


def test_importing_the_kit_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import mainstay.kit, sys\nprint('grpc' in sys.modules, 'yaml' in sys.modules)\n")
    assert _run("main.py", tmp_path, {"PYTHONPATH": str(ROOT / "src")}).stdout == "False False\n"


def _run(file: str, where: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, file]
    return subprocess.run(words, cwd=where, env=env, capture_output=True, text=True, timeout=120, check=False)
