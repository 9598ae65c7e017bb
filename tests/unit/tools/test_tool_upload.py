"""`upload`: files of the workspace, and no others, to this conversation, once."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from support.tool_world import Workspace, call, calling

from mainstay.core.memory_tiers import CONVERSATION_ORIGIN
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import OutgoingMessage, SandboxPaths
from mainstay.io.path_resolver import PathRefused
from mainstay.testing.in_memory_tool_ports import InMemoryOutbox
from mainstay.tools.base import SessionFileAccess, ToolRefused
from mainstay.tools.upload import UPLOAD_BYTES_MAX, create_upload_tool


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    (made.work / "report.txt").write_text("hello")
    return made


@pytest.fixture
def outbox() -> InMemoryOutbox:
    return InMemoryOutbox()


@pytest.fixture
def upload(space: Workspace, outbox: InMemoryOutbox) -> Tool:
    return create_upload_tool(space.files, outbox)


def test_it_is_no_sink_and_may_run_again(upload: Tool) -> None:
    assert (upload.effect, upload.sink, upload.untrusted) == ("idempotent", False, False)


async def test_a_file_goes_to_this_conversation_with_its_comment(
    upload: Tool, outbox: InMemoryOutbox, space: Workspace
) -> None:
    assert await call(upload, path="report.txt", comment="as asked") == "Sent report.txt (5 bytes)."
    path = str(space.work / "report.txt")
    assert outbox.sent == [OutgoingMessage(to="", text="as asked", files=(path,), session="s", key="s/c1")]


async def test_the_same_call_sends_once(upload: Tool, outbox: InMemoryOutbox) -> None:
    for _ in range(2):
        await call(upload, path="report.txt")
    await call(upload, calling(call="c2"), path="report.txt")
    assert [one.key for one in outbox.sent] == ["s/c1", "s/c2"]


async def test_a_file_of_a_tainted_conversation_is_labelled(upload: Tool, outbox: InMemoryOutbox) -> None:
    context = calling()
    context.tainted = True
    await call(upload, context, path="report.txt")
    assert outbox.sent[0].origin == CONVERSATION_ORIGIN


async def test_guppy_082_a_file_in_a_container_is_named_by_its_path_there(
    outbox: InMemoryOutbox, space: Workspace
) -> None:
    here, there = str(space.work), "/workspace/work"
    paths = SandboxPaths(lambda path: path.replace(there, here), lambda path: path.replace(here, there))
    folders = msgspec.structs.replace(space.grounds("s"), paths=paths)
    tool = create_upload_tool(SessionFileAccess(lambda session: folders, space.labels), outbox)
    assert await call(tool, path=f"{there}/report.txt") == f"Sent {there}/report.txt (5 bytes)."
    assert outbox.sent[0].files == (f"{here}/report.txt",), "the gateway reads it here"
    with pytest.raises((ToolRefused, PathRefused)) as refused:
        await call(tool, path=f"{there}/none.txt")
    assert here not in str(refused.value)


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "link", "missing", ".", "", "pipe", "\x00", "big", "~/.ssh/id_rsa"]
)
async def test_f32_files_outside_the_workspace_are_not_sent(
    path: str, upload: Tool, outbox: InMemoryOutbox, space: Workspace
) -> None:
    (space.root / "secret").write_text("x")
    (space.work / "link").symlink_to("/etc/passwd")
    os.mkfifo(space.work / "pipe")
    with (space.work / "big").open("wb") as file:
        file.truncate(UPLOAD_BYTES_MAX + 1)
    with pytest.raises(PathRefused):
        await call(upload, path=path)
    assert outbox.sent == []


async def test_a_comment_has_a_bound(upload: Tool, outbox: InMemoryOutbox) -> None:
    with pytest.raises(ToolRefused):
        await call(upload, path="report.txt", comment="x" * 4_001)
    assert outbox.sent == []
