"""What every plugin must do, in whatever language it is written. Subclass it, say how it is started and what to call.

class TestMyPlugin(PluginSuite):
    command = ("node", "main.js")
    folder = Path("…")
    simple = Sample("count", {"text": "eins zwei"}, "2")
    ...

It is started as it is, without a sandbox: this is about the contract, not about walls.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.contract import (
    EXECUTE,
    PLUGIN_SOCKET,
    STATE,
    STATE_SOCKET,
    DeleteRequest,
    DeleteResponse,
    ExecuteRequest,
    ExecuteResponse,
    GetRequest,
    GetResponse,
    KeysRequest,
    KeysResponse,
    SetRequest,
    SetResponse,
    decode,
    encode,
)

LONG_S = 60.0
VALUE_MAX = 64 * 1024
SCRIPTS = "Grüße, 世界, שלום, \U0001f469\u200d\U0001f680 e\u0301 \t\n"


class Sample(msgspec.Struct, frozen=True):
    """A call, and what its answer holds."""

    action: str
    arguments: dict[str, Any]
    answer: str = ""


class StateDouble:
    """The core's side of what a plugin keeps."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def get(self, data: bytes, context: Any) -> bytes:
        key = decode(data, GetRequest).key
        return encode(GetResponse(self.kept.get(key, ""), key in self.kept))

    async def set(self, data: bytes, context: Any) -> bytes:
        request = decode(data, SetRequest)
        if len(request.value.encode()) > VALUE_MAX:
            from grpc import StatusCode  # type: ignore[import-untyped]

            await context.abort(StatusCode.RESOURCE_EXHAUSTED, f"a value has at most {VALUE_MAX} bytes")
        self.kept[request.key] = request.value
        return encode(SetResponse())

    async def delete(self, data: bytes, context: Any) -> bytes:
        return encode(DeleteResponse(self.kept.pop(decode(data, DeleteRequest).key, None) is not None))

    async def keys(self, data: bytes, context: Any) -> bytes:
        prefix = decode(data, KeysRequest).prefix
        return encode(KeysResponse(tuple(sorted(key for key in self.kept if key.startswith(prefix)))))


class Started:
    """A plugin that runs, and what it says on its error output."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Any, socket: str) -> None:
        self.process = process
        self.channel = channel
        self.socket = socket
        self.said = b""
        self._news = asyncio.Event()
        self.listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self.process.stderr is not None, "it was asked for"
        while data := await self.process.stderr.read(65_536):
            self.said += data
            self._news.set()

    async def until_said(self, text: bytes) -> None:
        async with asyncio.timeout(LONG_S):
            while text not in self.said:
                self._news.clear()
                await self._news.wait()

    def send(self, data: bytes, method: str = EXECUTE) -> Any:
        return self.channel.unary_unary(method)(data, timeout=LONG_S)

    async def refusal(self, data: bytes, method: str = EXECUTE) -> str:
        """The code with which these bytes are refused; empty if they are not."""
        import grpc

        try:
            await self.send(data, method)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return ""

    def begin(self, call_id: str, sample: Sample) -> Any:
        arguments = msgspec.json.encode(sample.arguments).decode()
        return self.send(encode(ExecuteRequest(call_id, sample.action, arguments)))

    async def call(self, call_id: str, sample: Sample) -> ExecuteResponse:
        return decode(await self.begin(call_id, sample), ExecuteResponse)


class PluginSuite:
    """Everything that a plugin promises."""

    command: tuple[str, ...] = ()
    folder: Path = Path()
    env: dict[str, str] = {}
    simple: Sample
    unfit: Sample  # arguments that do not fit the action's parameters
    slow: Sample  # takes a minute or more
    called_off: bytes = b"called off"  # what it says on its error output when a slow call is cancelled

    def keep(self, key: str, value: str) -> Sample:
        raise NotImplementedError

    def recall(self, key: str) -> Sample:
        """Its answer is the value; without one it is an error."""
        raise NotImplementedError

    def forget(self, key: str) -> Sample:
        raise NotImplementedError

    def big(self, size: int) -> tuple[Sample, ...]:
        """Calls of which the last is answered with so many bytes or more."""
        raise NotImplementedError

    @asynccontextmanager
    async def started(self, state: StateDouble) -> AsyncIterator[Started]:
        import grpc
        import grpc.aio  # type: ignore[import-untyped]

        where = tempfile.mkdtemp(prefix="plugin-")  # short: a socket's path has about a hundred characters
        sockets = {PLUGIN_SOCKET: f"{where}/plugin", STATE_SOCKET: f"{where}/state"}
        env = {"PATH": os.environ.get("PATH", ""), "HOME": where, **self.env, **sockets}
        keeper = _serve_state(grpc, state, sockets[STATE_SOCKET])
        await keeper.start()
        process = await asyncio.create_subprocess_exec(
            *self.command, cwd=self.folder, env=env, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        options = [("grpc.max_receive_message_length", 16 << 20), ("grpc.enable_http_proxy", 0)]
        channel = grpc.aio.insecure_channel(f"unix:{sockets[PLUGIN_SOCKET]}", options=options)
        running = Started(process, channel, sockets[PLUGIN_SOCKET])
        try:
            await asyncio.wait_for(channel.channel_ready(), LONG_S)
            yield running
        finally:
            await channel.close()
            if process.returncode is None:
                process.kill()
            await process.wait()
            await running.listening
            await keeper.stop(None)
            shutil.rmtree(where)

    async def test_it_answers_with_the_id_of_the_call(self) -> None:
        async with self.started(StateDouble()) as plugin:
            for call_id in ("call-1", "", "\u00fc" * 200):
                answer = await plugin.call(call_id, self.simple)
                assert (answer.call_id, answer.error) == (call_id, "")
                assert self.simple.answer in answer.content

    async def test_what_cannot_be_done_is_an_error_of_its_call_and_the_next_is_answered(self) -> None:
        async with self.started(StateDouble()) as plugin:
            for unfit in (Sample("no_such_action", {}), Sample("", {}), Sample("constructor", {}), self.unfit):
                answer = await plugin.call("x", unfit)
                assert answer.call_id == "x"
                assert answer.error
                assert not answer.content
            for text in ("{", "[1]", "null", '"x"'):
                request = ExecuteRequest("y", self.simple.action, text)
                answer = decode(await plugin.send(encode(request)), ExecuteResponse)
                assert (answer.call_id, answer.content) == ("y", "")
                assert answer.error
            assert not (await plugin.call("z", self.simple)).error

    async def test_it_has_one_method_and_takes_no_other_bytes(self) -> None:
        async with self.started(StateDouble()) as plugin:
            for method in ("List", "Register", "Plugins", "execute"):
                assert await plugin.refusal(b"", f"/mainstay.plugin.v1.Plugin/{method}") == "UNIMPLEMENTED"
            assert await plugin.refusal(b"\x0a\xff\xff\xff") not in ("", "UNAVAILABLE")
            assert not (await plugin.call("z", self.simple)).error

    async def test_text_in_any_script_comes_back_as_it_was(self) -> None:
        state = StateDouble()
        async with self.started(state) as plugin:
            assert not (await plugin.call("1", self.keep("Schlüssel 鍵", SCRIPTS))).error
            assert state.kept == {"Schlüssel 鍵": SCRIPTS}
            assert (await plugin.call("2", self.recall("Schlüssel 鍵"))).content == SCRIPTS

    async def test_calls_at_once_each_get_their_own_answer(self) -> None:
        async with self.started(StateDouble()) as plugin:
            slow = plugin.begin("slow", self.slow)
            await asyncio.gather(*(plugin.call(f"k{n}", self.keep(f"key {n}", f"value {n}")) for n in range(40)))
            answers = await asyncio.gather(*(plugin.call(f"r{n}", self.recall(f"key {n}")) for n in range(40)))
            assert [(one.call_id, one.content) for one in answers] == [(f"r{n}", f"value {n}") for n in range(40)]
            assert not slow.done()
            slow.cancel()

    async def test_a_cancelled_call_is_called_off_and_others_go_on(self) -> None:
        async with self.started(StateDouble()) as plugin:
            slow = plugin.begin("slow", self.slow)
            assert not (await plugin.call("1", self.simple)).error  # it has arrived: calls of a channel stay in order
            slow.cancel()
            await plugin.until_said(self.called_off)
            assert not (await plugin.call("2", self.simple)).error

    async def test_what_it_keeps_is_there_when_it_is_started_again(self) -> None:
        state = StateDouble()
        async with self.started(state) as plugin:
            assert not (await plugin.call("1", self.keep("a", "first"))).error
            assert not (await plugin.call("2", self.keep("a", "second"))).error
        async with self.started(state) as plugin:
            assert (await plugin.call("3", self.recall("a"))).content == "second"
            assert not (await plugin.call("4", self.forget("a"))).error
            assert (await plugin.call("5", self.recall("a"))).error
        assert state.kept == {}

    async def test_what_cannot_be_kept_is_an_error_of_its_call(self) -> None:
        state = StateDouble()
        async with self.started(state) as plugin:
            answer = await plugin.call("1", self.keep("a", "x" * (VALUE_MAX + 1)))
            assert f"{VALUE_MAX} bytes" in answer.error
            assert state.kept == {}

    async def test_a_big_answer_comes_whole(self) -> None:
        size = 2 * 1024 * 1024
        async with self.started(StateDouble()) as plugin:
            for sample in self.big(size):
                answer = await plugin.call("big", sample)
                assert not answer.error
            assert len(answer.content) >= size

    async def test_it_stops_when_asked_even_in_the_midst_of_a_call(self) -> None:
        async with self.started(StateDouble()) as plugin:
            slow = plugin.begin("slow", self.slow)
            assert not (await plugin.call("1", self.simple)).error
            plugin.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(plugin.process.wait(), LONG_S) == 0
            slow.cancel()


def _serve_state(grpc: Any, state: StateDouble, path: str) -> Any:
    methods = {"Get": state.get, "Set": state.set, "Delete": state.delete, "Keys": state.keys}
    handlers = {name: grpc.unary_unary_rpc_method_handler(one) for name, one in methods.items()}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STATE.strip("/"), handlers),))
    server.add_insecure_port(f"unix:{path}")
    return server
