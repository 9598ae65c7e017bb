"""What a plugin cannot reach: files and state of others, the core's own, the network, the registry."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import uvloop
from support import plugin_lab as lab

from mainstay.core.tool_ports import PluginStateQuota, ProcessPermissions, Sandbox
from mainstay.core.tree_removal import remove_tree
from mainstay.plugins import home_size
from mainstay.plugins.host import PluginHost
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox
from mainstay.store.memory.plugin_state import InMemoryPluginState
from mainstay.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(lab.NO_WALLS is not None, reason=lab.NO_WALLS or "")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = BubblewrapSandbox()
    yield sandbox
    await sandbox.close()


async def looked(host: PluginHost) -> dict[str, str]:
    result = await lab.call(host)
    assert not result.is_error, result.content
    await host.close()
    found: dict[str, str] = json.loads(result.content)
    return found


# --- files ---------------------------------------------------------------------------------------


async def test_it_reads_and_writes_nothing_but_what_is_its_own_or_granted(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-041: neither another plugin's files, nor the core's database or home, nor a hidden part of a grant."""
    home = tmp_path / "home"
    places = {
        name: home / name
        for name in (
            "workspace.db",
            "neighbour/home/notes",
            "neighbour/log",
            "bad/log",
            "granted/open",
            "granted/hid/x",
        )
    }
    for path in places.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the owner's")
    asked = [str(path) for path in places.values()] + ["/etc/shadow", f"/proc/{os.getpid()}/environ", "/root/.ssh/id"]
    given = lab.PluginSetup(
        env={"PLACES": json.dumps(asked)},
        needs=ProcessPermissions(read=(str(home / "granted"),)),
        protected=(str(home / "granted/hid"),),
    )
    host = lab.host("reads_what_is_not_its_own", home, sandbox, given)
    found = await looked(host)
    assert found.pop(str(places["granted/open"])) == 'done: b"the owner\'s"'
    assert found.pop("processes") == "True"  # it sees its own alone
    above = found.pop("above")
    assert "mainstay-run-" in above
    assert above.count("mainstay-run-") == 1
    assert {name: said for name, said in found.items() if said.startswith("done")} == {}


async def test_its_home_survives_it_and_its_folder_cannot_be_written(sandbox: Sandbox, tmp_path: Path) -> None:
    host = lab.host("ends_late", tmp_path, sandbox)
    calling = asyncio.create_task(lab.call(host))
    await lab.until(lambda: Path(host.plugin.data_folder, "home", "began").exists())
    await host.close()
    assert (await calling).is_error
    again = lab.host("ends_late", tmp_path, sandbox)
    assert "began" in (await lab.call(again, "log")).content
    await again.close()


async def test_a_link_that_a_plugin_lays_in_place_of_its_own_grant_leads_it_nowhere(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    owner = tmp_path / "owner"
    (owner / "proj").mkdir(parents=True)
    (owner / "key").write_text("secret")
    needs = ProcessPermissions(write=(f"{owner}/proj", f"{owner}/proj/out"))
    given = lab.PluginSetup(needs=needs, env={"LINK": f"{owner}/proj/out", "TO": str(owner)})
    first = lab.host("lays_a_link", tmp_path, sandbox, given)
    assert "No such file" in (await lab.call(first)).content
    await first.close()
    assert (owner / "proj" / "out").is_symlink()
    again = lab.host("lays_a_link", tmp_path, sandbox, given)
    result = await lab.call(again)
    assert result.is_error
    assert (
        f"the plugin bad is not started: {owner}/proj/out was granted, but is now a link to {owner}" in result.content
    )
    await again.close()


async def test_nor_does_it_lead_another_plugin_that_helps_it(sandbox: Sandbox, tmp_path: Path) -> None:
    owner = tmp_path / "owner"
    (owner / "proj").mkdir(parents=True)
    (owner / "key").write_text("secret")
    env = {"LINK": f"{owner}/proj/out", "TO": str(owner)}
    writes = lab.host(
        "lays_a_link", tmp_path, sandbox, lab.PluginSetup(needs=ProcessPermissions(write=(f"{owner}/proj",)), env=env)
    )
    await lab.call(writes)
    reads = lab.PluginSetup(name="other", needs=ProcessPermissions(read=(f"{owner}/proj/out",)), env=env)
    other = lab.host("lays_a_link", tmp_path, sandbox, reads)
    result = await lab.call(other)
    assert result.is_error
    assert "the plugin other is not started" in result.content
    await asyncio.gather(writes.close(), other.close())


# --- network -------------------------------------------------------------------------------------


async def test_without_a_grant_there_is_no_network_at_all(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-043: neither to the world, nor to this machine, nor by a socket without a file."""
    came: list[object] = []
    server = await asyncio.start_server(lambda reader, writer: came.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    name = f"mainstay-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        host = lab.host(
            "tries_the_network", tmp_path, sandbox, lab.PluginSetup(env={"PORT": str(port), "ABSTRACT": name})
        )
        found = await looked(host)
    assert {name: said for name, said in found.items() if said.startswith("done")} == {}
    assert came == []
    server.close()


async def test_with_a_grant_it_reaches_that_and_nothing_else(sandbox: Sandbox, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    port, closed = (one.sockets[0].getsockname()[1] for one in (server, other))
    urls = [
        f"http://127.0.0.1:{port}/x",
        f"127.0.0.1:{port}",
        f"http://127.0.0.1:{closed}/x",
        f"127.0.0.1:{closed}",
        "http://169.254.169.254/latest/meta-data/",
        "169.254.169.254:80",
        "metadata.google.internal:80",
        f"localhost:{port}",
        "0x7f.1:80",
        "[::1]:80",
    ]
    given = lab.PluginSetup(
        env={"URLS": json.dumps(urls)}, needs=ProcessPermissions(network=(f"127.0.0.1:{port}", "*.example.com"))
    )
    host = lab.host("tries_the_proxy", tmp_path, sandbox, given)
    found = await looked(host)
    assert found.pop(f"http://127.0.0.1:{port}/x") == "done: 200 b'hello'"
    assert found.pop(f"127.0.0.1:{port}") == "done: HTTP/1.1 200 Connection established"
    assert all("403" in said for said in found.values()), found
    assert "network refused: 169.254.169.254:80 is not among the hosts that were granted" in lab.log_of(host)
    server.close()
    other.close()


# --- state and the registry ----------------------------------------------------------------------


async def test_there_is_no_method_but_those_of_its_own_state(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-042, OPENTALON-058, OPENTALON-059: no other plugin can be listed, found or called from in there."""
    found = await looked(lab.host("looks_for_the_registry", tmp_path, sandbox))
    assert len(found) == 6
    assert {said.split()[0] for said in found.values()} == {"UNIMPLEMENTED"}


async def test_another_plugins_state_cannot_be_read(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-003, OPENTALON-037, OPENTALON-056: whose state it is was decided by the socket."""
    state = InMemoryPluginState()
    await state.set("neighbour", "secret", "theirs", PluginStateQuota())
    neighbour = lab.host("keeps_state", tmp_path, sandbox, lab.PluginSetup(name="neighbour", state=state))
    assert "theirs" in (await lab.call(neighbour, "Get secret")).content
    folders = [link for link in map(_link, os.listdir("/proc/self/fd")) if "mainstay-run-" in link]
    given = lab.PluginSetup(state=state, env={"OTHER": f"{folders[0]}/o/state"})
    found = await looked(lab.host("tries_anothers_state", tmp_path, sandbox, given))
    assert found["get"] == found["path"] == found["keys"] == "b''"  # not found, nothing
    assert found["named"] == "INVALID_ARGUMENT field 2 is not part of GetRequest"
    assert found["socket"].startswith("UNAVAILABLE")
    assert "theirs" not in json.dumps(found)
    await neighbour.close()


def _link(entry: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{entry}")
    except OSError:
        return ""


async def test_state_has_a_quota_and_keys_are_no_paths(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = msgspec.structs.replace(lab.LIMITS, state_keys=5)
    state = InMemoryPluginState()
    found = await looked(lab.host("state_beyond_quota", tmp_path, sandbox, lab.PluginSetup(limits=limits, state=state)))
    assert found["kept"] == "5"
    assert found["last"] == "INVALID_ARGUMENT at most 5 keys can be stored"
    assert found["huge"].startswith("RESOURCE_EXHAUSTED")
    refused = {"empty", "long", "control", "null", "binary", "fields"}
    assert {name for name, said in found.items() if said.startswith("INVALID_ARGUMENT")} == refused | {"last"}
    assert await state.keys("bad") == ["k0", "k1", "k2", "k3", "k4"]


async def test_state_is_on_disk_and_there_when_the_plugin_starts_again(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-035, OPENTALON-036: set, get, list and delete, in the workspace's database."""
    store = SqliteStore(str(tmp_path / "workspace.db"))
    await store.open()
    given = lab.PluginSetup(state=store.plugin_state())
    host = lab.host("keeps_state", tmp_path, sandbox, given)
    assert (await lab.call(host, "Set city")).content == "b''"
    await host.close()
    host = lab.host("keeps_state", tmp_path, sandbox, given)
    assert "kept" in (await lab.call(host, "Get city")).content
    assert "city" in (await lab.call(host, "Keys c")).content
    assert await store.plugin_state().keys("bad") == ["city"]
    await host.close()
    await store.close()


async def test_a_plugin_that_floods_its_state_with_calls_is_slowed_down(sandbox: Sandbox, tmp_path: Path) -> None:
    """OPENTALON-043: the core has time for others, and no more calls get through than are allowed."""
    kept = CountingState()
    host = lab.host("hammers_its_state", tmp_path, sandbox, lab.PluginSetup(state=kept))
    assert (await lab.call(host, "quick")).content == "quick"
    loop = asyncio.get_running_loop()
    began = loop.time()
    await lab.until(lambda: loop.time() - began > 2)
    await host.close()
    assert kept.count < 400 + 200 * (loop.time() - began + 2)


@pytest.mark.parametrize("loop", LOOPS if os.environ.get("MAINSTAY_TEST_ALL") else ["uvloop"])
def test_a_plugin_that_floods_the_socket_of_its_state_takes_neither_our_time_nor_our_memory(
    tmp_path: Path, loop: str
) -> None:
    async def play() -> None:
        sandbox = BubblewrapSandbox()
        host = lab.host("floods_its_state", tmp_path, sandbox)
        assert (await lab.call(host, "quick")).content == "quick"
        loop = asyncio.get_running_loop()
        began, spent = loop.time(), time.process_time()
        with lab.Peak() as peak:
            await lab.until(lambda: loop.time() - began > 3)
        share = (time.process_time() - spent) / (loop.time() - began)
        await host.close()
        await sandbox.close()
        assert share < 0.35
        assert peak.grown_mb < 24

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(play())


async def test_a_home_that_holds_too_much_is_the_end_of_it_until_there_is_room(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    limits = msgspec.structs.replace(lab.LIMITS, home_mb=2)
    pace = msgspec.structs.replace(lab.SWIFT, home_check_interval_s=0.0)
    host = lab.host("fills_its_home", tmp_path, sandbox, lab.PluginSetup(limits=limits, pace=pace))
    assert (await lab.call(host)).content == "full"
    await lab.until(lambda: not lab.alive(host))
    assert "this process gets no more calls: its home contains more than 2 MB" in lab.log_of(host)
    result = await lab.call(host, "quick")
    assert result.is_error
    assert "The plugin bad is not started: its home contains more than 2 MB." in result.content
    Path(host.plugin.home, "0").unlink()
    Path(host.plugin.home, "1").unlink()
    assert (await lab.call(host, "quick")).content == "quick"
    await host.close()


def test_a_home_has_a_bound_on_files_and_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_size, "FILES_MAX", 10)
    (tmp_path / "link").symlink_to("/usr")
    assert home_size.check_home_size(str(tmp_path), 1) == ""
    for number in range(10):
        (tmp_path / str(number)).touch()
    assert home_size.check_home_size(str(tmp_path), 1) == "contains more than 10 files"
    monkeypatch.setattr(home_size, "FILES_MAX", 10_000)
    deep = str(tmp_path)
    for _ in range(20):
        deep = os.path.join(deep, "d" * 200)
        if len(deep) > 3800:
            break
        os.mkdir(deep)
    folder = os.open(os.path.dirname(deep), os.O_RDONLY)
    os.mkdir("e" * 250, dir_fd=folder)
    inner = os.open("e" * 250, os.O_RDONLY, dir_fd=folder)
    os.mkdir("f" * 250, dir_fd=inner)
    os.close(folder)
    os.close(inner)
    assert "contains a folder that cannot be read" in home_size.check_home_size(str(tmp_path), 1)
    assert remove_tree(tmp_path)


class CountingState(InMemoryPluginState):
    count = 0

    async def set(self, plugin: str, key: str, value: str, quota: PluginStateQuota) -> None:
        self.count += 1
        await super().set(plugin, key, value, quota)


async def test_no_number_of_connections_exhausts_our_open_files(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = msgspec.structs.replace(lab.LIMITS, processes=24)
    given = lab.PluginSetup(limits=limits, needs=ProcessPermissions(network=("example.com",)))
    host = lab.host("opens_many_connections", tmp_path, sandbox, given)
    assert (await lab.call(host, "quick")).content == "quick"
    files = most = lab.open_files()
    calling = asyncio.create_task(lab.call(host))
    while not calling.done():
        await asyncio.wait({calling}, timeout=0.02)
        most = max(most, lab.open_files())
    assert not calling.result().is_error
    assert most - files < 100
    await host.close()
