"""The MCP client against servers that others published: in the sandbox, without network, from their own packages."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.published_packages import MCP_NODE, MCP_PYTHON, npm_packages, python_packages

from mainstay.core.events import Event, ToolProgress
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.core.tools import BadArguments
from mainstay.plugins.mcp.errors import CallFailed
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.tool_source import McpToolSource
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem

pytestmark = pytest.mark.skipif(bubblewrap_problem() is not None, reason=bubblewrap_problem() or "")


def of_node(name: str, package: str, *args: str, write: tuple[str, ...] = ()) -> McpServerConfig:
    folder = npm_packages(*MCP_NODE)
    entry = folder / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
    needs = ProcessPermissions(read=(str(folder),), write=write)
    return McpServerConfig(name=name, command="node", args=(str(entry), *args), permissions=needs)


def of_python(name: str, program: str, *args: str, write: tuple[str, ...] = ()) -> McpServerConfig:
    venv = python_packages(*MCP_PYTHON)
    needs = ProcessPermissions(read=(str(venv),), write=write)
    return McpServerConfig(name=name, command=str(venv / "bin" / program), args=args, permissions=needs)


@asynccontextmanager
async def discovered(folder: Path, server: McpServerConfig) -> AsyncIterator[McpToolSource]:
    sandbox = BubblewrapSandbox()
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    servers = McpToolSource([server], workspace, sandbox, limits=McpLimits(start_s=60.0))
    try:
        await servers.discover()
        assert servers.problems == {}
        yield servers
    finally:
        await servers.close()
        await sandbox.close()


class Call:
    def __init__(self, servers: McpToolSource, name: str) -> None:
        self.tool: Tool = next(one for one in servers.tools if one.name == name)
        self.events: list[Event] = []
        self.context = ToolContext("s", 1, 1, "c1", self.events.append)

    async def run(self, **arguments: Any) -> str:
        return await self.tool.run(self.tool.parse(json.dumps(arguments)), self.context)

    @property
    def progress(self) -> list[str]:
        return [event.note for event in self.events if isinstance(event, ToolProgress)]


async def call(servers: McpToolSource, name: str, **arguments: Any) -> str:
    return await Call(servers, name).run(**arguments)


# --- everything ------------------------------------------------------------------------------------


async def test_everything_that_the_reference_server_has_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "1")
    async with discovered(tmp_path, of_node("every", "server-everything")) as servers:
        assert await call(servers, "every__echo", message="hello") == "Echo: hello"
        assert "is 5" in await call(servers, "every__get-sum", a=2, b=3)
        seen = Call(servers, "every__get-tiny-image")
        assert "image/png" in await seen.run()
        [image] = seen.context.attachments
        assert image.data.startswith(b"\x89PNG")
        told = await call(servers, "every__get-structured-content", location="New York")
        assert "temperature" in told
        assert "[resource demo://" in await call(servers, "every__get-resource-links", count=2)
        environment = json.loads(await call(servers, "every__get-env"))
        assert environment["HOME"] == str(tmp_path / "workspace" / "mcp" / "every")
        assert "SECRET_OF_OURS" not in environment


async def test_its_resources_and_prompts_can_be_listed_and_read(tmp_path: Path) -> None:
    async with discovered(tmp_path, of_node("every", "server-everything")) as servers:
        page = await servers.list_resources("every")
        first = next(one for one in page.resources if not one.template)
        assert len((await servers.read_resource("every", first.uri)).text) > 100
        assert any(one.template for one in page.resources)
        assert first.uri in await call(servers, "every__list_resources")
        assert first.uri in await call(servers, "every__read_resource", uri=first.uri)
        prompts = {one.name: one for one in await servers.list_prompts("every")}
        assert prompts["args-prompt"].arguments[0].required
        [(role, said)] = await servers.get_prompt("every", "args-prompt", {"city": "Bern"})
        assert role == "user"
        assert "Bern" in said


async def test_a_long_operation_tells_of_its_progress_and_can_be_cancelled(tmp_path: Path) -> None:
    async with discovered(tmp_path, of_node("every", "server-everything")) as servers:
        name = "every__trigger-long-running-operation"
        short = Call(servers, name)
        assert "completed" in await short.run(duration=1, steps=4)
        assert short.progress[0].startswith("1 of 4")
        long = Call(servers, name)
        running = asyncio.create_task(long.run(duration=600, steps=2000))
        async with asyncio.timeout(120):
            while not long.progress:
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 120)
        assert await call(servers, "every__echo", message="still here") == "Echo: still here"


async def test_a_wrong_argument_never_leaves_and_a_wrong_resource_is_an_error(tmp_path: Path) -> None:
    async with discovered(tmp_path, of_node("every", "server-everything")) as servers:
        with pytest.raises(BadArguments, match="Nothing was run"):
            await call(servers, "every__get-sum", a="two", b=3)
        with pytest.raises(CallFailed, match="The MCP server every refuses"):
            await call(servers, "every__read_resource", uri="demo://nowhere")


# --- filesystem --------------------------------------------------------------------------------------


async def test_the_filesystem_server_reaches_only_its_folder_even_if_it_is_told_otherwise(tmp_path: Path) -> None:
    """Its own walls hold; and where it is told that it may have all of the disk, those of the sandbox do."""
    folder, secret = tmp_path / "files", tmp_path / "secret.txt"
    folder.mkdir()
    (folder / "a.txt").write_text("in the folder")
    secret.write_text("outside of it")
    (folder / "link.txt").symlink_to(secret)
    for allowed in (str(folder), "/"):
        server = of_node("files", "server-filesystem", allowed, write=(str(folder),))
        async with discovered(tmp_path, server) as servers:
            assert "in the folder" in await call(servers, "files__read_text_file", path=str(folder / "a.txt"))
            await call(servers, "files__write_file", path=str(folder / "b.txt"), content="written")
            for path in (
                secret,
                folder / "link.txt",
                folder / ".." / "secret.txt",
                tmp_path / "workspace" / "mcp.json",
            ):
                with pytest.raises(CallFailed, match=r"denied|ENOENT|does not exist"):
                    await call(servers, "files__read_text_file", path=str(path))
            with suppress(CallFailed):  # where it does not refuse, it writes to a /tmp of its own
                await call(servers, "files__write_file", path=str(tmp_path / "new.txt"), content="x")
    assert (folder / "b.txt").read_text() == "written"
    assert not (tmp_path / "new.txt").exists()


# --- two in Python -------------------------------------------------------------------------------------


async def test_the_time_server_tells_the_time_and_says_what_it_cannot(tmp_path: Path) -> None:
    server = of_python("time", "mcp-server-time", "--local-timezone", "UTC")
    async with discovered(tmp_path, server) as servers:
        assert sorted(one.name for one in servers.tools) == ["time__convert_time", "time__get_current_time"]
        told = json.loads(await call(servers, "time__get_current_time", timezone="Asia/Tokyo"))
        assert told["datetime"].endswith("+09:00")
        with pytest.raises(CallFailed, match=r"(?i)timezone"):
            await call(servers, "time__get_current_time", timezone="Middle/Earth")


async def test_the_git_server_works_on_a_repository_that_it_was_granted(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    for key, value in (("user.name", "A"), ("user.email", "a@example.com")):
        subprocess.run(["git", "-C", str(repository), "config", key, value], check=True)
    (repository / "file").write_text("one\n")
    server = of_python("git", "mcp-server-git", "--repository", str(repository), write=(str(repository),))
    async with discovered(tmp_path, server) as servers:
        assert "file" in await call(servers, "git__git_status", repo_path=str(repository))
        await call(servers, "git__git_add", repo_path=str(repository), files=["file"])
        await call(servers, "git__git_commit", repo_path=str(repository), message="first")
        assert "first" in await call(servers, "git__git_log", repo_path=str(repository))
    said = subprocess.run(
        ["git", "-C", str(repository), "log", "--oneline"], capture_output=True, text=True, check=True
    )
    assert "first" in said.stdout
