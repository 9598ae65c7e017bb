"""Conformance suite of the plugin protocol, for plugins in any language. Subclass it and set the command and the calls:

class TestMyPlugin(PluginSuite):
    command = ("node", "main.js")
    folder = Path("…")
    simple = SampleCall("count", {"text": "eins zwei"}, "2")
    ...

The plugin is started without a sandbox: the suite tests the protocol, not the confinement.
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
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.json_types import JsonObject
from mainstay.core.plugin_protocol import (
    EXECUTE_METHOD,
    PLUGIN_SOCKET,
    STATE_SERVICE,
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

if TYPE_CHECKING:
    from grpc.aio import Channel, Server, ServicerContext, UnaryUnaryCall

TIMEOUT_S = 120.0
VALUE_BYTES_MAX = 64 * 1024
UNICODE_TEXT = "Grüße, 世界, שלום, \U0001f469\u200d\U0001f680 e\u0301 \t\n"


class SampleCall(msgspec.Struct, frozen=True):
    """A call, and a text that its response contains."""

    action: str
    arguments: JsonObject
    answer: str = ""


class FakePluginState:
    """Test double of the state service that Mainstay runs for a plugin."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    async def get(self, data: bytes, context: ServicerContext) -> bytes:
        key = decode(data, GetRequest).key
        return encode(GetResponse(self.entries.get(key, ""), key in self.entries))

    async def set(self, data: bytes, context: ServicerContext) -> bytes:
        request = decode(data, SetRequest)
        if len(request.value.encode()) > VALUE_BYTES_MAX:
            from grpc import StatusCode

            await context.abort(StatusCode.RESOURCE_EXHAUSTED, f"a value has at most {VALUE_BYTES_MAX} bytes")
        self.entries[request.key] = request.value
        return encode(SetResponse())

    async def delete(self, data: bytes, context: ServicerContext) -> bytes:
        return encode(DeleteResponse(self.entries.pop(decode(data, DeleteRequest).key, None) is not None))

    async def keys(self, data: bytes, context: ServicerContext) -> bytes:
        prefix = decode(data, KeysRequest).prefix
        return encode(KeysResponse(tuple(sorted(key for key in self.entries if key.startswith(prefix)))))


def decode_answer(answer: object) -> ExecuteResponse:
    assert isinstance(answer, bytes), "the plugin gave no response"
    return decode(answer, ExecuteResponse)


class RunningPlugin:
    """A running plugin and its stderr."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel, socket: str) -> None:
        self.process = process
        self.channel = channel
        self.socket = socket
        self.stderr = b""
        self._has_output = asyncio.Event()
        self.stderr_task = asyncio.create_task(self._read_stderr())

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None, "the process was started with a pipe"
        while data := await self.process.stderr.read(65_536):
            self.stderr += data
            self._has_output.set()

    async def wait_for_stderr(self, text: bytes) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while text not in self.stderr:
                self._has_output.clear()
                await self._has_output.wait()

    def send(self, data: bytes, method: str = EXECUTE_METHOD) -> UnaryUnaryCall:
        return self.channel.unary_unary(method)(data, timeout=TIMEOUT_S)

    async def rejection_code(self, data: bytes, method: str = EXECUTE_METHOD) -> str:
        """Return the gRPC status with which the request is rejected; empty if it is not."""
        import grpc

        try:
            await self.send(data, method)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return ""

    def start_call(self, call_id: str, sample: SampleCall) -> UnaryUnaryCall:
        arguments = msgspec.json.encode(sample.arguments).decode()
        return self.send(encode(ExecuteRequest(call_id, sample.action, arguments)))

    async def call(self, call_id: str, sample: SampleCall) -> ExecuteResponse:
        return decode_answer(await self.start_call(call_id, sample))


class PluginSuite:
    """All tests of a plugin."""

    command: tuple[str, ...] = ()
    folder: Path = Path()
    env: dict[str, str] = {}
    simple: SampleCall
    invalid: SampleCall  # its arguments do not match the action's parameters
    slow: SampleCall  # takes a minute or more
    cancelled_output: bytes = b"called off"  # what the plugin writes to stderr when the slow call is cancelled

    def store_call(self, key: str, value: str) -> SampleCall:
        """Return a call that stores the value in the plugin's state."""
        raise NotImplementedError

    def load_call(self, key: str) -> SampleCall:
        """Return a call whose response is the stored value, or an error if there is none."""
        raise NotImplementedError

    def delete_call(self, key: str) -> SampleCall:
        """Return a call that deletes the key."""
        raise NotImplementedError

    def large_calls(self, size_bytes: int) -> tuple[SampleCall, ...]:
        """Return calls of which the last has a response of at least so many bytes."""
        raise NotImplementedError

    @asynccontextmanager
    async def start_plugin(self, state: FakePluginState) -> AsyncIterator[RunningPlugin]:
        import grpc

        folder = tempfile.mkdtemp(prefix="plugin-")  # short: the path of a socket is limited to about 100 characters
        sockets = {PLUGIN_SOCKET: f"{folder}/plugin", STATE_SOCKET: f"{folder}/state"}
        env = {"PATH": os.environ.get("PATH", ""), "HOME": folder, **self.env, **sockets}
        state_server = _serve_state(state, sockets[STATE_SOCKET])
        await state_server.start()
        process = await asyncio.create_subprocess_exec(
            *self.command, cwd=self.folder, env=env, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", 16 << 20),
            ("grpc.enable_http_proxy", 0),
        ]
        channel = grpc.aio.insecure_channel(f"unix:{sockets[PLUGIN_SOCKET]}", options=options)
        plugin = RunningPlugin(process, channel, sockets[PLUGIN_SOCKET])
        try:
            await asyncio.wait_for(channel.channel_ready(), TIMEOUT_S)
            yield plugin
        finally:
            await channel.close()
            if process.returncode is None:
                process.kill()
            await process.wait()
            await plugin.stderr_task
            await state_server.stop(None)
            shutil.rmtree(folder)

    async def test_it_answers_with_the_id_of_the_call(self) -> None:
        async with self.start_plugin(FakePluginState()) as plugin:
            for call_id in ("call-1", "", "\u00fc" * 200):
                answer = await plugin.call(call_id, self.simple)
                assert (answer.call_id, answer.error) == (call_id, "")
                assert self.simple.answer in answer.content

    async def test_an_invalid_call_returns_an_error_and_the_next_succeeds(self) -> None:
        async with self.start_plugin(FakePluginState()) as plugin:
            for unfit in (
                SampleCall("no_such_action", {}),
                SampleCall("", {}),
                SampleCall("constructor", {}),
                self.invalid,
            ):
                answer = await plugin.call("x", unfit)
                assert answer.call_id == "x"
                assert answer.error
                assert not answer.content
            for text in ("{", "[1]", "null", '"x"'):
                request = ExecuteRequest("y", self.simple.action, text)
                answer = decode_answer(await plugin.send(encode(request)))
                assert (answer.call_id, answer.content) == ("y", "")
                assert answer.error
            assert not (await plugin.call("z", self.simple)).error

    async def test_other_methods_and_malformed_requests_are_rejected(self) -> None:
        async with self.start_plugin(FakePluginState()) as plugin:
            for method in ("List", "Register", "Plugins", "execute"):
                assert await plugin.rejection_code(b"", f"/mainstay.plugin.v1.Plugin/{method}") == "UNIMPLEMENTED"
            assert await plugin.rejection_code(b"\x0a\xff\xff\xff") not in ("", "UNAVAILABLE")
            assert not (await plugin.call("z", self.simple)).error

    async def test_text_in_any_script_is_preserved(self) -> None:
        state = FakePluginState()
        async with self.start_plugin(state) as plugin:
            assert not (await plugin.call("1", self.store_call("Schlüssel 鍵", UNICODE_TEXT))).error
            assert state.entries == {"Schlüssel 鍵": UNICODE_TEXT}
            assert (await plugin.call("2", self.load_call("Schlüssel 鍵"))).content == UNICODE_TEXT

    async def test_concurrent_calls_get_their_own_responses(self) -> None:
        async with self.start_plugin(FakePluginState()) as plugin:
            slow = plugin.start_call("slow", self.slow)
            await asyncio.gather(*(plugin.call(f"k{n}", self.store_call(f"key {n}", f"value {n}")) for n in range(40)))
            answers = await asyncio.gather(*(plugin.call(f"r{n}", self.load_call(f"key {n}")) for n in range(40)))
            assert [(answer.call_id, answer.content) for answer in answers] == [
                (f"r{n}", f"value {n}") for n in range(40)
            ]
            assert not slow.done()
            slow.cancel()

    async def test_cancelling_a_call_stops_it_and_no_other(self) -> None:
        async with self.start_plugin(FakePluginState()) as plugin:
            slow = plugin.start_call("slow", self.slow)
            # so the slow call arrived: a channel keeps the order
            assert not (await plugin.call("1", self.simple)).error
            slow.cancel()
            await plugin.wait_for_stderr(self.cancelled_output)
            assert not (await plugin.call("2", self.simple)).error

    async def test_state_survives_a_restart(self) -> None:
        state = FakePluginState()
        async with self.start_plugin(state) as plugin:
            assert not (await plugin.call("1", self.store_call("a", "first"))).error
            assert not (await plugin.call("2", self.store_call("a", "second"))).error
        async with self.start_plugin(state) as plugin:
            assert (await plugin.call("3", self.load_call("a"))).content == "second"
            assert not (await plugin.call("4", self.delete_call("a"))).error
            assert (await plugin.call("5", self.load_call("a"))).error
        assert state.entries == {}

    async def test_a_rejected_state_write_is_an_error_of_the_call(self) -> None:
        state = FakePluginState()
        async with self.start_plugin(state) as plugin:
            answer = await plugin.call("1", self.store_call("a", "x" * (VALUE_BYTES_MAX + 1)))
            assert f"{VALUE_BYTES_MAX} bytes" in answer.error
            assert state.entries == {}

    async def test_a_large_response_is_complete(self) -> None:
        size = 2 * 1024 * 1024
        async with self.start_plugin(FakePluginState()) as plugin:
            for sample in self.large_calls(size):
                answer = await plugin.call("big", sample)
                assert not answer.error
            assert len(answer.content) >= size

    async def test_it_stops_on_sigterm_even_during_a_call(self) -> None:
        async with self.start_plugin(FakePluginState()) as plugin:
            slow = plugin.start_call("slow", self.slow)
            assert not (await plugin.call("1", self.simple)).error
            plugin.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(plugin.process.wait(), TIMEOUT_S) == 0
            slow.cancel()


def _serve_state(state: FakePluginState, path: str) -> Server:
    import grpc

    methods = {"Get": state.get, "Set": state.set, "Delete": state.delete, "Keys": state.keys}
    handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STATE_SERVICE.strip("/"), handlers),))
    server.add_insecure_port(f"unix:{path}")
    return server
