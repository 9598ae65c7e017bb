"""The process of a local model, for real: llama.cpp, a socket, and a model of a hundred kilobytes that babbles."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from support.paths import PYTHONPATH
from support.tiny_gguf import write_tiny_gguf

from mainstay.cli.chat.model_preloader import preload_model
from mainstay.config.loader import Config
from mainstay.core.errors import ConfigError, ContextTooLong, RequestRefused, StreamBroken, Unreachable
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Message, Text
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, ToolCallPiece
from mainstay.core.tools import FunctionTool
from mainstay.providers import registry
from mainstay.providers.local import process as processes
from mainstay.providers.local.provider import LocalProvider

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: pip install -e '.[local]'")
SOON_S = 120.0  # on a machine that has much else to do


def read(path: str) -> str:
    """Read a file."""
    return path


TOOLS = (FunctionTool(read),)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("weights") / "tiny.gguf")


@asynccontextmanager
async def provided(path: Path, *, window: int = 4096, idle_s: float = 600.0) -> AsyncIterator[LocalProvider]:
    info = ModelInfo(name="tiny", window=window, output=window // 4, images=False, terse=True)
    provider = LocalProvider(path, path.parent / "states", limits=Limits(local_idle_s=idle_s), info=info)
    try:
        yield provider
    finally:
        await provider.close()


def asked(text: str) -> Context:
    return Context("", [Message(1, "user", (Text(text),))], ())


async def answer(provider: LocalProvider, context: Context, options: Options | None = None) -> list[Piece]:
    return [piece async for piece in provider.stream(context, options or Options(output_tokens_max=20))]


def pid_of(provider: LocalProvider) -> int:
    assert provider._process is not None
    assert provider._process._server is not None
    return provider._process._server.process.pid


async def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SOON_S
    while not true():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def seconds_of(pid: int) -> float:
    """Of a processor, spent so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_it_starts_with_the_first_question_streams_and_goes_when_it_is_closed(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # no server is there: a connection through it would fail
    monkeypatch.delenv("no_proxy", raising=False)
    notices: list[str] = []
    async with provided(weights) as provider:
        assert provider._process is None
        pieces = await answer(
            provider, asked("hello"), Options(output_tokens_max=20, on_wait=lambda text, s: notices.append(text))
        )
        assert isinstance(pieces[-1], StreamFinished)
        assert pieces[-1].reason in (FinishReason.END, FinishReason.LENGTH)
        assert pieces[-1].usage.prompt > 5
        assert notices[0] == "tiny is being loaded"
        pid = pid_of(provider)
        if Path("/proc/self/environ").exists():
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            assert b"sk-of-somebody" not in environ
            assert b"OMP_WAIT_POLICY=passive" in environ
            assert b"tiny" not in Path(f"/proc/{pid}/cmdline").read_bytes(), "nor the key, which is told likewise"
        again = await answer(provider, asked("hello"))
        assert isinstance(again[-1], StreamFinished)
        assert again[-1].usage.cached > 0, "what was read before is known"
        assert pid_of(provider) == pid
    await until(lambda: is_gone(pid), "it stays when nobody has it any more")


async def test_two_callers_of_the_same_weights_share_a_process_and_take_turns(weights: Path) -> None:
    notices: list[str] = []
    async with provided(weights) as one, provided(weights) as other:
        options = Options(output_tokens_max=200, on_wait=lambda text, s: notices.append(text))
        done = await asyncio.gather(*(answer(each, asked("hello"), options) for each in (one, other, one)))
        assert all(isinstance(pieces[-1], StreamFinished) for pieces in done)
        assert pid_of(one) == pid_of(other)
        assert "tiny is answering another request first" in notices
        pid = pid_of(one)
        await one.close()
        assert not is_gone(pid), "the other one still has it"


async def test_a_client_that_disconnects_stops_the_generation(weights: Path) -> None:
    async with provided(weights, window=32768) as provider:
        context = asked("tell me a long story")
        async with aclosing(provider.stream(context, Options())) as stream:
            async for _ in stream:
                break
        pid = pid_of(provider)
        if Path("/proc/self/stat").exists():
            spent = [seconds_of(pid)]

            def rests() -> bool:
                spent.append(seconds_of(pid))
                return len(spent) > 20 and spent[-1] - spent[-20] <= 0.02

            await until(rests, "it goes on writing for nobody")
        assert isinstance((await answer(provider, asked("hello")))[-1], StreamFinished)


async def test_a_process_that_is_killed_says_so_and_the_next_question_starts_another(weights: Path) -> None:
    async with provided(weights, window=32768) as provider:
        broken = ""
        while not broken:  # until it is killed before its answer is complete: on a busy machine it may be faster
            async with aclosing(provider.stream(asked("tell me a long story"), Options())) as stream:
                await anext(stream)
                pid = pid_of(provider)
                os.kill(pid, signal.SIGKILL)
                try:
                    [piece async for piece in stream]
                except StreamBroken as error:
                    broken = str(error)
            assert provider._process is not None
            await until(lambda process=provider._process: not process.is_running, "its end is not noticed")  # type: ignore[misc]
        assert "process of tiny ended in the middle of its answer: it was killed" in broken
        pieces = await answer(provider, asked("hello"))
        assert isinstance(pieces[-1], StreamFinished)


async def test_an_idle_process_ends_and_is_started_again(weights: Path) -> None:
    async with provided(weights, idle_s=0.2) as provider:
        await answer(provider, asked("hello"))
        pid = pid_of(provider)
        await until(lambda: is_gone(pid), "it stays though nobody asks")
        assert isinstance((await answer(provider, asked("hello")))[-1], StreamFinished)
        assert pid_of(provider) != pid


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import test_local_process as ours
async def main():
    async with ours.provided(Path({weights!r})) as provider:
        await ours.answer(provider, ours.asked("hello"))
        print(ours.pid_of(provider), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_it_ends_with_its_parent_process_even_if_that_was_killed(weights: Path) -> None:
    script = KILLED.format(weights=str(weights))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((PYTHONPATH, str(Path(__file__).parent)))}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SOON_S, check=False, env=env
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    await until(lambda: is_gone(int(run.stdout)), "it outlives whoever started it")


async def test_the_prompt_cache_is_stored_on_disk_and_the_next_process_need_not_compute_it(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    states = tmp_path / "states"
    for text in ("hello", "something else", "a disk that was full"):
        notices: list[str] = []
        options = Options(output_tokens_max=20, on_wait=lambda sentence, s, told=notices: told.append(sentence))  # type: ignore[misc]
        async with provided(path) as provider:
            pieces = await answer(provider, Context("Be kind.", [Message(1, "user", (Text(text),))], TOOLS), options)
        assert isinstance(pieces[-1], StreamFinished)
        usage = pieces[-1].usage
        assert usage.prompt - usage.cached < 100 < usage.cached, f"of {usage.prompt} tokens {usage.cached} were known"
        (state,) = states.iterdir()
        assert ("tiny reads its instructions, once" in notices) == (text != "something else")
        if text == "something else":
            state.write_bytes(state.read_bytes()[:1000])
    assert state.stat().st_mode & 0o777 == 0o600
    assert states.stat().st_mode & 0o777 == 0o700
    assert state.stat().st_size > 1000, "what cannot be read back is written anew"


async def test_a_conversation_that_is_too_long_is_refused_as_such(weights: Path) -> None:
    async with provided(weights, window=2048) as provider:
        with pytest.raises(ContextTooLong) as refused:
            await answer(provider, asked("word " * 4000))
        assert refused.value.window == 2048


async def test_a_file_that_is_no_model_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "letter.gguf"
    path.write_bytes(b"GGUF dear friend")
    async with provided(path) as provider:
        with pytest.raises(
            RequestRefused, match=r"letter\.gguf could not be loaded: it is damaged, or not a GGUF file"
        ):
            await answer(provider, asked("hello"))


def test_it_works_on_another_loop_after_the_first_has_ended(weights: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    info = ModelInfo(name="tiny", window=4096, output=100, terse=True)
    provider = LocalProvider(weights, weights.parent / "states", info=info)
    for factory in (None, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            assert isinstance(runner.run(answer(provider, asked("hello")))[-1], StreamFinished)
            if factory is not None:
                runner.run(provider.close())
    gc.collect()
    assert not processes._processes


async def test_a_call_comes_whole_and_is_the_end_of_the_answer(weights: Path) -> None:
    async with provided(weights) as provider:
        context = Context("", [Message(1, "user", (Text("hello"),))], TOOLS)
        pieces = await answer(provider, context, Options(output_tokens_max=1000, tool_choice="none"))
        assert not any(isinstance(piece, ToolCallPiece) for piece in pieces), "it was told not to"


def test_one_names_it_like_any_other_model(weights: Path, tmp_path: Path) -> None:
    env = {"MAINSTAY_MODELS": str(tmp_path)}
    made = registry.build_provider(f"local/{weights}", environ=env)
    assert made.model() == registry.find_model_info("local", str(weights))
    assert made.model().name == "tiny"
    assert made.model().terse
    with pytest.raises(ConfigError, match="are not downloaded yet: mainstay model pull"):
        registry.build_provider("local/qwen2.5-coder-1.5b", environ=env)
    with pytest.raises(ConfigError, match="there is no file"):
        registry.build_provider("local//nowhere/my.gguf", environ=env)


async def test_a_server_closed_while_it_loads_leaves_no_process_behind(weights: Path) -> None:
    async with provided(weights) as provider:

        async def listen() -> list[Piece]:
            async with aclosing(provider.stream(asked("hello"), Options())) as pieces:
                return [piece async for piece in pieces]

        asking = asyncio.create_task(listen())
        await asyncio.sleep(0)  # it has begun to load
        await provider.close()
        with pytest.raises((Unreachable, StreamBroken)):
            await asking
        with pytest.raises(Unreachable, match="closed"):
            await listen()
    assert processes._processes == {}


async def test_it_works_with_more_than_a_thousand_open_files(weights: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1300:
        pytest.skip(f"no more than {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1300), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        async with provided(weights) as provider, aclosing(provider.stream(asked("hello"), Options())) as pieces:
            assert [piece async for piece in pieces]
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_it_is_loaded_while_the_user_types_and_released_when_they_leave(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTAY_MODELS", str(tmp_path))
    async with preload_model(f"local/{weights}", Config()):
        async with asyncio.timeout(SOON_S):
            while not any(one.is_running for one in processes._processes.values()):
                await asyncio.sleep(0.01)
    assert processes._processes == {}
    async with preload_model("local/qwen2.5-coder-1.5b", Config()):  # its weights are not there: heard when it is asked
        assert processes._processes == {}
