"""Paths in a container: every tool and every text names a file as commands see it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from support.container_engine import NO_ENGINE, run_container
from support.fake_docker import fake_docker

from mainstay import Agent, Config
from mainstay.config.schema import PolicySettings, SandboxSettings, ToolSettings
from mainstay.core.channels import IncomingFile, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.events import ToolFinished
from mainstay.core.messages import parts_text
from mainstay.gateway.attachments import download_files
from mainstay.sandbox.docker.manifest import DockerOptions
from mainstay.testing import Call, ScriptedProvider


class Box(msgspec.Struct, frozen=True):
    """A container, and where its owner mounted a folder of this machine."""

    folder: Path
    inside: str
    container: str
    docker: str = "docker"


@pytest.fixture(params=["stand-in", "engine"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    folder = tmp_path / "here"
    (folder / "work").mkdir(parents=True)
    (folder / "home").mkdir(mode=0o700)
    if request.param == "stand-in":
        mount = tmp_path / "there"
        yield Box(folder, str(mount), "box", fake_docker(folder, mount=mount))
        return
    if NO_ENGINE:
        pytest.skip(NO_ENGINE)
    with run_container(folder) as name:
        yield Box(folder, "/workspace", name)


def agent_in(box: Box, script: Any, memory: Literal["auto", "on"] = "auto", **policy: Any) -> Agent:
    config = Config(
        tools=ToolSettings(builtin=("all",), memory=memory, roots=(str(box.folder / "work"),)),
        sandbox=SandboxSettings(kind="docker", options=DockerOptions(container=box.container, docker=box.docker)),
        policy=PolicySettings(**policy),
        trust="open",  # what is about flow has tests of its own
    )
    return Agent(ScriptedProvider(script), home=box.folder / "home", config=config)


async def results_of(agent: Agent) -> list[str]:
    records = await agent.sessions.records("s")
    return [record.event.result.content for record in records if isinstance(record.event, ToolFinished)]


async def test_guppy_082_a_path_of_the_container_is_the_same_file_in_every_tool(box: Box) -> None:
    inside = f"{box.inside}/work"
    patch = f"*** Begin Patch\n*** Add File: {inside}/docs/b.txt\n+three\n*** End Patch"
    script = [
        Call("write", {"path": f"{inside}/docs/a.txt", "content": "one\n"}),
        Call("bash", {"command": f"cat {inside}/docs/a.txt; pwd"}),
        Call("edit", {"path": f"{inside}/docs/a.txt", "old": "one", "new": "two"}),
        Call("read", {"path": f"{inside}/docs/a.txt"}),
        Call("apply_patch", {"patch": patch}),
        Call("bash", {"command": "cat a.txt b.txt", "cwd": f"{inside}/docs"}),
        Call("grep", {"pattern": "t.o", "path": f"{inside}/docs"}),
        Call("glob", {"pattern": "**/*.txt", "path": inside}),
        Call("ls", {"path": f"{inside}/docs"}),
        "done",
    ]
    async with agent_in(box, script) as agent:
        await agent.run("s", "work")
        wrote, shown, edited, read, patched, both, found, listed, entries = await results_of(agent)
    assert "docs/a.txt" in wrote
    assert shown == f"one\n{inside}"
    assert "docs/a.txt" in edited
    assert "1\ttwo" in read
    assert "docs/b.txt" in patched
    assert both == "two\nthree"
    assert "docs/a.txt:1:two" in found
    assert sorted(listed.split()) == ["docs/a.txt", "docs/b.txt"]
    assert "a.txt" in entries
    assert (box.folder / "work" / "docs" / "a.txt").read_text() == "two\n"


async def test_guppy_082_skills_notes_and_outputs_are_named_where_commands_find_them(box: Box) -> None:
    skill = box.folder / "home" / "skills" / "brew"
    (skill / "scripts").mkdir(parents=True)
    (skill / "scripts" / "tea.sh").write_text("echo tea is ready\n")
    (skill / "SKILL.md").write_text("---\nname: brew\ndescription: How to brew.\n---\nRun scripts/tea.sh.\n")
    folder = f"{box.inside}/home/skills/brew"
    script = [
        Call("skill", {"name": "brew"}),
        Call("bash", {"command": f"sh {folder}/scripts/tea.sh"}),
        Call("bash", {"command": "seq 1 40000"}),
        "done",
    ]
    async with agent_in(box, script) as agent:
        await agent.run("s", "make tea")
        shown, tea, long = await results_of(agent)
        assert f"Folder: {folder} " in shown
        assert tea == "tea is ready"
        stored = re.search(r"all of it is in (\S+?)[\],;.]*(?:\s|$)", long)
        assert stored is not None, long[-300:]
        path = stored[1].rstrip("]")
        assert path.startswith(f"{box.inside}/home/")
        system = agent._model.asked[0].system  # type: ignore[union-attr]
        assert f"You work in {box.inside}/work; " in system
        assert f"{box.inside}/home/workspaces/" in system, "the folder for skills, and the notes"
        assert str(box.folder) not in system
    async with agent_in(
        box, [Call("bash", {"command": f"tail -n 1 {path}"}), Call("read", {"path": path, "limit": 1}), "done"]
    ) as agent:
        await agent.run("s", "how long is it?")
        counted, page = (await results_of(agent))[-2:]
    assert counted == "40000"
    assert page.startswith("1\t1\n")


async def test_guppy_082_memory_files_are_named_where_commands_find_them(box: Box) -> None:
    named: list[str] = []

    def script(context: Any, options: Any) -> Any:
        last = context.messages[-1]
        if last.text == "note it":
            named.extend(re.findall(r"/\S+/(?:MEMORY|SYSTEM)\.md", context.system))
            return [Call("write", {"path": path, "content": "We like green tea.\n"}) for path in named]
        if last.role == "user" or "green" in str(last.parts):
            return "done"
        return Call("bash", {"command": " && ".join(f"cat {path}" for path in named)})

    async with agent_in(box, script, memory="on") as agent:
        await agent.run("s", "note it")
        *wrote, shown = await results_of(agent)
        await agent.run("t", "hello")
        sections = (await agent.sessions.context("t")).sections
    assert len(named) >= 2
    assert all(path.startswith(f"{box.inside}/home/") for path in named), named
    assert shown.count("We like green tea.") == len(wrote)
    assert "We like green tea." in {section.name: section.text for section in sections}["profile"]


async def test_guppy_082_a_rule_about_a_path_holds_for_the_containers_name_of_it(box: Box) -> None:
    (box.folder / "work" / "secret").mkdir()
    script = [
        Call("write", {"path": f"{box.inside}/work/secret/a.txt", "content": "x"}),
        Call("write", {"path": f"{box.inside}/home/mainstay.yaml", "content": "x"}),
        Call("read", {"path": f"{box.inside}/work/missing.txt"}),
        Call("read", {"path": "/etc/hostname"}),
        "done",
    ]
    async with agent_in(box, script, deny=("write(secret/**)",)) as agent:
        await agent.run("s", "write")
        denied, protected, missing, outside = await results_of(agent)
    assert "A rule forbids it: write(secret/**)." in denied
    assert "protected" in protected or "outside" in protected
    assert f"There is no {box.inside}/work/missing.txt." in missing
    assert "outside of the folders" in outside
    assert not (box.folder / "work" / "secret" / "a.txt").exists()
    assert not (box.folder / "home" / "mainstay.yaml").exists()


class Platform:
    """A chat platform that has a file."""

    name = "chat"

    async def download(self, file: IncomingFile, path: str, bytes_max: int) -> None:
        Path(path).write_text("tea")


async def test_guppy_082_attachments_are_named_where_commands_find_them(box: Box) -> None:
    script = [Call("bash", {"command": "true"}), "done"]
    async with agent_in(box, script) as agent:
        runtime = await agent.runtime()
        address = ChatAddress("chat", "room")
        message = IncomingMessage(id="1", address=address, user="u", files=(IncomingFile(ref="x", name="a.txt"),))
        folder = runtime.attachments_folder("s")
        parts, (kept,) = await download_files(Platform(), message, folder, 1000)  # type: ignore[arg-type]
        path = parts_text(parts).removeprefix("\n[attached: ").partition(" (")[0]
        assert path.startswith(f"{box.inside}/home/workspaces/")
        assert Path(kept.local).read_text() == "tea"
        script[0] = Call("bash", {"command": f"cat {path}"})
        await agent.run("s", "read it")
        assert await results_of(agent) == ["tea"]


async def test_guppy_082_no_text_that_the_model_reads_names_a_path_of_this_machine(box: Box) -> None:
    """Refusals, notes and lists included; a path that is not mounted is the model's own word."""
    inside = f"{box.inside}/work"
    (box.folder / "work" / "deep" / "a").mkdir(parents=True)
    (box.folder / "work" / "deep" / "a" / "x.txt").write_text("x\n" * 3)
    (box.folder / "work" / "link").symlink_to(box.folder / "work" / "deep" / "a")
    (box.folder / "work" / "image.bin").write_bytes(b"\0\1\2")
    calls = [
        Call("bash", {"command": "true", "cwd": f"{inside}/none"}),
        Call("bash", {"command": "true", "cwd": "/etc"}),
        Call("bash", {"command": "true", "cwd": f"{box.inside}/home"}),
        Call("bash", {"command": "cd deep && pwd && env"}),
        Call("process", {"action": "start", "command": "pwd", "cwd": f"{inside}/deep"}),
        Call("process", {"action": "start", "command": "pwd", "cwd": f"{inside}/none"}),
        Call("process", {"action": "list"}),
        Call("read", {"path": inside}),
        Call("read", {"path": f"{inside}/image.bin"}),
        Call("read", {"path": f"{box.inside}/home/mainstay.yaml"}),
        Call("read", {"path": f"{inside}/link/x.txt"}),
        Call("write", {"path": f"{inside}/deep", "content": "x"}),
        Call("write", {"path": f"{inside}/deep/a/x.txt/y", "content": "x"}),
        Call("write", {"path": f"{box.inside}/home/mainstay.yaml", "content": "x"}),
        Call("edit", {"path": f"{inside}/deep/a/x.txt", "old": "x", "new": "y"}),
        Call("edit", {"path": f"{inside}/deep/a/x.txt", "old": "q", "new": "y"}),
        Call("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {inside}/none.txt\n*** End Patch"}),
        Call("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {inside}/deep\n*** End Patch"}),
        Call(
            "apply_patch", {"patch": f"*** Begin Patch\n*** Update File: {inside}/deep/a/x.txt\n-q\n+z\n*** End Patch"}
        ),
        Call("grep", {"pattern": "x", "path": f"{inside}/none"}),
        Call("grep", {"pattern": "x", "path": box.inside}),
        Call("glob", {"pattern": "**/*", "path": f"{inside}/none"}),
        Call("glob", {"pattern": f"{inside}/**/*.txt"}),
        Call("glob", {"pattern": "**/*.txt", "path": f"{inside}/link"}),
        Call("ls", {"path": f"{inside}/none"}),
        Call("ls", {"path": f"{inside}/deep/a/x.txt"}),
        Call("ls", {"path": f"{inside}/link"}),
        Call("skill", {"name": "none"}),
        Call("fetch", {"url": f"file://{inside}/deep/a/x.txt"}),
        Call("spawn", {"prompt": "list"}),
    ]
    async with agent_in(box, [*(calls[at : at + 10] for at in (0, 10, 20)), "A report.", "done"]) as agent:
        await agent.run("s", "work")
        assert len(await results_of(agent)) == len(calls)
        asked = agent._model.asked  # type: ignore[union-attr]
        for text in [str(part) for request in asked for part in (request.system, request.tools, *request.messages)]:
            assert str(box.folder) not in text
            assert os.path.realpath(box.folder) not in text
