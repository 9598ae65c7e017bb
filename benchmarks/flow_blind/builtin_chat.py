"""A chat with the built-in tools in a temporary project: a real git repository, the real sandbox, a local web site."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Any, Self

from herbarium import COMMITS, PAGES
from script import HonestModel, Question, Script, approve_all, fill_site

from mainstay import Agent, Config
from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings, ToolSettings
from mainstay.core.tool_ports import ScheduledPrompt
from mainstay.testing import Call
from mainstay.testing.in_memory_tool_ports import InMemoryOutbox, InMemoryScheduler
from mainstay.tools.message import create_message_tool
from mainstay.tools.schedule import create_schedule_tool

Check = Callable[["BuiltinRig"], Any]
AUTHOR = {
    "GIT_AUTHOR_NAME": "Theo Lindqvist",
    "GIT_AUTHOR_EMAIL": "theo@lindqvist.example",
    "GIT_COMMITTER_NAME": "Theo Lindqvist",
    "GIT_COMMITTER_EMAIL": "theo@lindqvist.example",
}


@dataclass
class BuiltinTask:
    """A task in the project folder; `files` come on top of the project and are not committed."""

    id: str
    kind: str
    requests: tuple[str, ...]
    script: Callable[[], Script]
    done: Check
    files: dict[str, str]


@dataclass
class BuiltinBook:
    """Collects the tasks of one module."""

    prefix: str
    tasks: list[BuiltinTask] = field(default_factory=list)

    def task(
        self, *requests: str, done: Check, files: dict[str, str] | None = None, kind: str = "act"
    ) -> Callable[[Callable[[], Script]], Callable[[], Script]]:
        def add(script: Callable[[], Script]) -> Callable[[], Script]:
            id = f"{self.prefix}-{script.__name__.replace('_', '-')}"
            self.tasks.append(BuiltinTask(id, kind, requests, script, done, files or {}))
            return script

        return add


class LocalSite:
    """A web site on this machine; it serves pages by their path."""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.host}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        body = PAGES.get(head.split(" ")[1])
        status, text = ("200 OK", body) if body is not None else ("404 Not Found", "<p>There is no such page.</p>")
        data = text.replace("<site>", self.url).encode()
        kind = "text/html" if data.lstrip().startswith(b"<") else "text/plain"
        answer = f"HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\n"
        writer.write(f"{answer}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()

    def close(self) -> None:
        self._server.close()


class BuiltinRig:
    """One task's folder, agent and surroundings, and what its predicate looks at."""

    def __init__(self, folder: Path, task: BuiltinTask, *, control: bool) -> None:
        self.root = folder / "project"
        self._home = folder / "home"
        self._task = task
        self._control = control
        self._site = LocalSite()
        self.outbox = InMemoryOutbox()
        self.scheduler = InMemoryScheduler()
        self.questions: list[Question] = []

    async def __aenter__(self) -> Self:
        await self._site.open()
        make_project(self.root, self._task.files)
        self.model = HonestModel(self._task.script, self._site.url)
        config = Config(
            tools=ToolSettings(builtin=("all",), roots=(str(self.root),), fetch_private=(self._site.host,)),
            sessions=SessionSettings(memory=MemorySettings(embeddings=EmbeddingSettings(enabled=False))),
        )
        self.agent = Agent(
            self.model,
            home=self._home,
            config=config,
            tools=[create_message_tool(self.outbox), create_schedule_tool(self.scheduler)],
            trust="open" if self._control else None,
        )
        await self.agent.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.agent.aclose()
        self._site.close()

    async def run(self) -> bool:
        """Hold the conversation, approve every question, and say whether the task was done."""
        for request in self._task.requests:
            reply = await self.agent.run("chat", fill_site(request, self._site.url))
            await approve_all(self.agent, reply, self.questions)
        try:
            found = self._task.done(self)
            return bool(await found if isawaitable(found) else found) and not self.model.broken
        except (LookupError, OSError, ValueError):
            return False  # what the predicate looks at is not there

    # --- for predicates --------------------------------------------------------------------------

    def text(self, path: str) -> str:
        """A file's text; empty if there is none."""
        file = self.root / path
        return file.read_text(errors="replace") if file.is_file() else ""

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def git(self, *words: str) -> str:
        return run_git(self.root, *words, check=False)

    def saw(self, *texts: str) -> bool:
        """Every text occurs in some tool result."""
        return all(any(text in result.text for result in self.model.seen) for text in texts)

    def told(self, to: str, text: str) -> bool:
        return any(one.to == to and text in one.text for one in self.outbox.sent)

    async def reminds(self, text: str, when: str) -> bool:
        prompts: list[ScheduledPrompt] = await self.scheduler.list("chat")
        return any(text in one.text and one.when.startswith(when) for one in prompts)


def make_project(root: Path, files: dict[str, str]) -> None:
    """Create the project with its history, then the files that are not committed."""
    root.mkdir(parents=True)
    run_git(root, "init", "-q", "-b", "main")
    run_git(root, "config", "user.name", "Theo Lindqvist")
    run_git(root, "config", "user.email", "theo@lindqvist.example")
    for subject, changed in COMMITS:
        write_files(root, changed)
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", subject)
    run_git(root, "branch", "old-experiment", "HEAD~1")
    write_files(root, files)


def write_files(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def run_git(root: Path, *words: str, check: bool = True) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(root.parent), **AUTHOR}
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=check, env=env)
    return done.stdout


# --- the built-in tools, in short ----------------------------------------------------------------


def bash(command: str) -> Call:
    return Call("bash", {"command": command})


def read(path: str) -> Call:
    return Call("read", {"path": path})


def write(path: str, content: str) -> Call:
    return Call("write", {"path": path, "content": content})


def edit(path: str, old: str, new: str, *, every: bool = False) -> Call:
    return Call("edit", {"path": path, "old": old, "new": new} | ({"replace_all": True} if every else {}))


def grep(pattern: str, path: str = ".") -> Call:
    return Call("grep", {"pattern": pattern, "path": path})


def fetch(url: str) -> Call:
    return Call("fetch", {"url": url})
