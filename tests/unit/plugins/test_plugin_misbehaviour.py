"""Every way in which a plugin may misbehave (seed 003 and more): each is contained, the model reads one clear sentence,
another plugin answers meanwhile, and nothing is left of it.

This runs on uvloop, as in production; test_plugin_host.py on the loop of the standard library.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import uvloop
from support import plugin_lab as lab

from mainstay.core.messages import ToolResult
from mainstay.core.tool_ports import Sandbox
from mainstay.plugins.host import PluginHost
from mainstay.plugins.manifest import PluginLimits
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox

pytestmark = pytest.mark.skipif(lab.NO_WALLS is not None, reason=lab.NO_WALLS or "")


class Case(msgspec.Struct, frozen=True):
    """A misbehaviour, what the model reads of it, and the fault it is a case of. `up`: it is known to be up before."""

    mode: str
    reads: str
    fault: str = ""
    is_error: bool = True
    action: str = "do"
    up: bool = True
    limits: PluginLimits = lab.LIMITS


def bad(mode: str, reads: str, fault: str = "") -> Case:
    return Case(mode, reads, fault)


def late(mode: str, reads: str, fault: str = "") -> Case:
    """Called with little time."""
    return Case(mode, reads, fault, action="soon")


def down(mode: str, reads: str, fault: str = "", start_s: float = 120.0) -> Case:
    """Never comes up."""
    return Case(mode, reads, fault, up=False, limits=msgspec.structs.replace(lab.LIMITS, start_s=start_s))


def fine(mode: str, reads: str, fault: str = "") -> Case:
    """Answers nevertheless."""
    return Case(mode, reads, fault, is_error=False)


NO_RESULT = "PluginResultInvalid: The plugin bad answered with something that is not a result"
TOO_LATE = r"PluginTimedOut: The plugin bad did not answer within 0.6 s, and the call was cancelled\."
TOO_LARGE = r"PluginResultInvalid: The plugin bad answered with more than 1.0 MB\."
ROOMY = msgspec.structs.replace(lab.LIMITS, memory_mb=800)
NOT_READY = r"PluginNotStarted: The plugin bad was not ready within 1.5 s\."

CASES = (
    down("hangs_at_start", NOT_READY, "F21", 1.5),
    down("listens_and_says_nothing", NOT_READY, "F21", 1.5),
    down("not_grpc", NOT_READY, "F25", 1.5),
    late("hangs_in_a_call", TOO_LATE, "F21"),
    late("stops_itself", TOO_LATE, "F21"),
    late("spins", TOO_LATE, "F23"),
    late("answers_late", TOO_LATE, "F25"),
    late("answers_twice", TOO_LATE, "F25"),
    fine("hangs_at_stop", "do", "F21"),
    fine("ignores_sigterm", "do", "F21"),
    bad("wrong_call_id", NO_RESULT, "F25"),
    bad("empty_call_id", NO_RESULT, "F25"),
    bad("never_answers", NO_RESULT, "F25"),
    bad("binary", NO_RESULT, "F25"),
    bad("invalid_utf8", NO_RESULT, "F25"),
    bad("extra_fields", NO_RESULT, "F25"),
    bad("embedded_object", NO_RESULT, "F25"),
    bad("content_twice", NO_RESULT, "F25"),
    bad("escape_sequences", NO_RESULT, "F25"),
    Case("a_hundred_megabytes", TOO_LARGE, "F25", limits=ROOMY),
    Case("a_hundred_megabytes_packed", TOO_LARGE, "F25", limits=ROOMY),
    bad("a_long_status", r"PluginReportedError: The plugin bad failed: INTERNAL \\x1b\[31mredx{100}"),
    bad("raises", r"PluginReportedError: The plugin bad failed: UNKNOWN .*no such city: \\x1b\]0;owned\\x07"),
    bad("error_look_alikes", r"^PluginReportedError: (?!.*<tool_call>)"),
    fine("tool_call_look_alikes", r"^(?!.*(<tool_call>|\[tool_call\]))"),
    fine("floods_stdout", r"^\d+$", "F22"),
    fine("floods_stderr", r"^\d+$", "F22"),
    fine("floods_with_lines", r"^\d+$", "F22"),
    down("floods_while_it_starts", "PluginNotStarted: The plugin bad was not ready within 1.5 s", "F22", 1.5),
    fine("prints_protocol", "^from the socket$", "F27"),
    fine("forks_and_leaves", "do", "F24"),
    bad("fork_bomb", "ended with code 137 during the call|did not answer within", "F24"),
    bad(  # or it is refused more (a MemoryError, which has no words) before the check
        "leaks_memory",
        r"ended with code 137 .*The end of its output: \[ended: it used more than 160 MB of memory\]"
        r"|UNKNOWN Exception calling application: \.$",
        "F23",
    ),
    Case(
        "spins",
        r"PluginExited: The plugin bad ended with code \d+ during the call\.",
        "F23",
        limits=msgspec.structs.replace(lab.LIMITS, cpu_s=1.0),
    ),
    bad("exits_in_a_call", r"ended with code 3 during the call\.$"),
    bad("leaves_a_child_on_the_socket", "PluginExited: The plugin bad ended with code 4 during the call", "F24"),
    down("crashes_at_start", r"ended with code 1 before it was ready\. The end of its output: no such module", "F26"),
    down("a_file_for_a_socket", "PluginNotStarted: The plugin bad replaced its socket with something else"),
    fine("removes_its_socket", "^gone$"),
    fine("hammers_its_state", "do"),
    fine("floods_its_state", "do"),
    fine("leaves_a_deep_folder", "^deep$"),
    fine("opens_many_connections", r"^\{\"connected\""),
)
NAMES = [f"{number:02d}-{case.mode}" for number, case in enumerate(CASES)]


class Scene:
    """A loop, a sandbox, and a plugin that behaves, up before anything happens. One for all tests here."""

    def __init__(self, where: Path) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.run = self._runner.run
        self.run(self._begin(where))

    async def _begin(self, where: Path) -> None:
        self.sandbox = BubblewrapSandbox()
        self.neighbour = lab.host("behaves", where, self.sandbox, lab.PluginSetup(name="neighbour"))
        await works(self.neighbour)

    async def _end(self) -> None:
        await self.neighbour.close()
        await self.sandbox.close()

    def close(self) -> None:
        self.run(self._end())
        self._runner.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("neighbour"))
    yield scene
    scene.close()


async def works(host: PluginHost) -> None:
    result = await asyncio.wait_for(lab.call(host, "hello"), 120)
    assert (result.is_error, result.content) == (False, "do hello {}")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_f21_f23_f25_it_is_contained_and_reported_and_others_are_not_affected(
    case: Case, scene: Scene, tmp_path: Path
) -> None:
    """F21 F22 F23 F24 F25 F26 F27, by the table."""
    scene.run(contained(case, scene.sandbox, scene.neighbour, tmp_path))


async def contained(case: Case, sandbox: Sandbox, neighbour: PluginHost, tmp_path: Path) -> None:
    files, folders = lab.open_files(), run_folders()
    host = lab.host(case.mode, tmp_path, sandbox, lab.PluginSetup(limits=case.limits))
    if case.up:
        assert (await lab.call(host, "quick")).content == "quick"
    with lab.Peak() as peak:
        calling = asyncio.create_task(lab.call(host, "", case.action))
        while not calling.done():
            await works(neighbour)
            await asyncio.wait({calling}, timeout=0.2)
        result = calling.result()
    assert peak.grown_mb < 32  # its output is not held
    assert result.is_error is case.is_error, result.content
    assert re.search(case.reads, result.content, re.DOTALL), result.content
    assert len(result.content) < 70_000
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", result.content)
    assert_labelled(result)
    await asyncio.wait_for(host.close(), 120)
    await lab.until(lambda: not lab.alive(host))
    await lab.until(lambda: lab.open_files() <= files)
    assert run_folders() <= folders
    assert log_size(host) <= 2 * case.limits.log_bytes


def assert_labelled(result: ToolResult) -> None:
    """Every output of a plugin is untrusted data, between delimiters that it cannot know."""
    assert result.origin.startswith("untrusted")
    assert result.mark
    assert result.mark not in result.content


def run_folders() -> set[str]:
    """Of this process: those that hold an open file of ours."""
    links = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            continue
    return {link for link in links if "mainstay-run-" in link}


def log_size(host: PluginHost) -> int:
    return sum(path.stat().st_size for path in Path(host.plugin.data_folder).glob("log*"))


def test_an_answer_with_another_calls_id_affects_neither_call(scene: Scene, tmp_path: Path) -> None:
    """F25: an answer is never attributed to another call."""

    async def play() -> None:
        host = lab.host("anothers_call_id", tmp_path, scene.sandbox)
        both = await asyncio.gather(lab.call(host, "a"), lab.call(host, "b"))
        assert [result.is_error for result in both] == [True, True]
        assert all("not a result" in result.content for result in both)
        assert lab.log_of(host).count("has the call id") == 2
        await host.close()

    scene.run(play())


def test_f22_gigabytes_of_output_take_no_memory(scene: Scene, tmp_path: Path) -> None:
    """F22: floods its output without so much as a line break; our memory stays flat, and the log says what was lost."""

    async def play() -> None:
        wanted = (2 << 30) if os.environ.get("MAINSTAY_TEST_ALL") else (100 << 20)
        host = lab.host("floods_stdout", tmp_path, scene.sandbox)
        assert (await lab.call(host, "quick")).content == "quick"
        before = lab.resident_mb()

        async def enough() -> bool:
            return int((await lab.call(host)).content) > wanted

        await lab.until_async(enough, 120)
        assert lab.resident_mb() - before < 16
        await host.close()
        assert re.search(r"host … [\d.]+ [MG]B dropped", lab.log_of(host))

    scene.run(play())


def test_f27_protocol_text_on_its_output_is_a_line_of_its_log(scene: Scene, tmp_path: Path) -> None:
    """F27: the protocol has a socket of its own; output is only ever a log, with what it would do to a screen shown."""

    async def play() -> None:
        host = lab.host("prints_protocol", tmp_path, scene.sandbox)
        assert (await lab.call(host)).content == "from the socket"
        await host.close()
        said = lab.log_of(host)
        assert '{"jsonrpc": "2.0", "id": 1' in said
        assert r"stdout \x1b[2J\x1b]0;title\x07" in said
        assert "\x1b" not in said

    scene.run(play())


def test_a_link_in_place_of_its_socket_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    """Neither at the start nor later do we connect to another socket in its place."""

    async def play() -> None:
        other = tmp_path / "other"
        listener = await asyncio.start_unix_server(lambda reader, writer: came.append(writer), str(other))
        came: list[asyncio.StreamWriter] = []
        given = lab.PluginSetup(env={"OTHER": str(other)})
        host = lab.host("a_link_for_a_socket", tmp_path, scene.sandbox, given)
        assert "replaced its socket with something else" in (await lab.call(host)).content
        await host.close()
        host = lab.host("swaps_its_socket", tmp_path, scene.sandbox, given)
        loop = asyncio.get_running_loop()
        for _ in range(3):
            assert (await lab.call(host)).content == "swapped"
            said = loop.time()
            await lab.until(lambda said=said: loop.time() - said > 0.3)  # it has closed the connection meanwhile
        await host.close()
        assert came == []
        listener.close()
        await works(scene.neighbour)

    scene.run(play())


def test_f24_a_fork_that_leaves_its_session_dies_with_the_plugin(scene: Scene, tmp_path: Path) -> None:
    """F24, U20: children in other sessions, whose parents are gone and who ignore signals, all end."""

    async def play() -> None:
        host = lab.host("forks_and_leaves", tmp_path, scene.sandbox)
        await lab.call(host)
        assert len(lab.alive(host)) >= 5
        await host.close()
        await lab.until(lambda: not lab.alive(host))

    scene.run(play())
