"""`bash`: a command in the sandbox, told while it runs, shown in short, kept whole."""

from __future__ import annotations

import time

from mainstay.core.outside import Command, FileLabel, Grounds, Labels, Ran, Sandbox
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import origin_of
from mainstay.core.workers import in_thread
from mainstay.io.beneath import PathRefused, brief
from mainstay.io.files import Confined
from mainstay.io.paths import folder_name
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.output import Heard, looks_binary, shortened
from mainstay.tools.work import announcing, doubt, may_remove

TIMEOUT_S = 120.0
TIMEOUT_MAX_S = 600.0
GRACE_S = 15.0  # for killing, and for what a guarded command wrote to be put in place
SCRIPT_CHARS_MAX = 100_000
HELD_SHOWN = 20


class _Bash(Arguments, frozen=True):
    command: str
    timeout: float | None = None
    cwd: str | None = None


class Bash(BuiltIn):
    name = "bash"
    description = (
        "Run a shell command; shows its output. A new shell each time: cd and variables do not last. "
        "timeout: seconds, default 120, at most 600."
    )
    arguments = _Bash
    effect: Effect = "unsafe"
    timeout_s: float | None = TIMEOUT_MAX_S + GRACE_S
    untrusted = True
    capabilities: tuple[str, ...] = ("exec",)

    def __init__(self, files: Files, sandbox: Sandbox, labels: Labels, network: bool) -> None:
        self._files = files
        self._sandbox = sandbox
        self._labels = labels
        self._network = network

    async def run(self, arguments: _Bash, context: ToolContext) -> str:
        timeout_s = TIMEOUT_S if arguments.timeout is None else arguments.timeout
        if not 0 < timeout_s <= TIMEOUT_MAX_S:
            raise ToolRefused(
                f"A command has at most {TIMEOUT_MAX_S:g} s: start longer ones with process. Nothing was run."
            )
        grounds = self._files.grounds(context.session)
        command = Command(
            script=checked_script(arguments.command),
            grounds=grounds,
            cwd=await working_folder(grounds, arguments.cwd),
            timeout_s=timeout_s,
            network=self._network,
            guarded=context.guarded and self._sandbox.guards,
            made=may_remove(self._files, context),
            announce=announcing(self._files, context),
        )
        heard = Heard(context)
        begun = time.time_ns()
        try:
            ran = await self._sandbox.exec(command, heard.take)
        finally:
            heard.close()
            if not command.guarded:
                await doubt(self._files, context, begun)
        if ran.changed:
            await self._labels.put(_labelled(self._labels, ran, context))
        return await self._told(ran, heard, grounds, command, context)

    async def _told(self, ran: Ran, heard: Heard, grounds: Grounds, command: Command, context: ToolContext) -> str:
        raw = heard.raw
        if looks_binary(raw):
            where = await _kept(grounds, context, raw, "bin")
            said = f"[binary output, {len(raw)} bytes, not shown{where}]"
        else:
            text = heard.text().rstrip()
            said = shortened(text, "")
            if said != text:
                where = await _kept(grounds, context, text.encode(errors="replace"), "txt")
                said = shortened(text, where)
        notes = [said or ("(no output)" if ran.code == 0 and not ran.timed_out else "")]
        if ran.cut or heard.cut:
            notes.append("[it said more than is kept; the rest is lost]")
        if ran.timed_out:
            notes.append(f"[timed out after {command.timeout_s:g} s; it was ended, with everything it had started]")
        elif ran.code:
            notes.append(f"[exit code {ran.code}]")
        if ran.held:
            notes.append(held_note(ran.held))
        return "\n".join(filter(None, notes))


def bash_tool(files: Files, sandbox: Sandbox, labels: Labels, network: bool = False) -> Tool:
    return Bash(files, sandbox, labels, network)


# --- shared with process -------------------------------------------------------------------------


def checked_script(script: str) -> str:
    if not script.strip():
        raise ToolRefused("There is no command. Nothing was run.")
    if "\x00" in script:
        raise ToolRefused("A command cannot hold a NUL character. Nothing was run.")
    if len(script) > SCRIPT_CHARS_MAX:
        raise ToolRefused(
            f"A command has at most {SCRIPT_CHARS_MAX} characters: write it to a file and run that. Nothing was run."
        )
    return script


async def working_folder(grounds: Grounds, path: str | None) -> str:
    """A folder inside the session's own, by its real path."""
    if not path:
        return grounds.cwd
    found: str = await in_thread(lambda: _folder(Confined(grounds), path))
    return found


def _folder(confined: Confined, path: str) -> str:
    with confined.find(path) as spot:
        if not spot.is_folder:
            raise PathRefused(f"{brief(path)} is not a folder. Nothing was run.")
        return spot.path


def held_note(held: tuple[str, ...]) -> str:
    named = ", ".join(brief(path) for path in held[:HELD_SHOWN])
    more = f" and {len(held) - HELD_SHOWN} more" if len(held) > HELD_SHOWN else ""
    return (
        "[held back, because content from outside is in this conversation: "
        f"changes to or removal of {named}{more}; ask the person]"
    )


def _labelled(labels: Labels, ran: Ran, context: ToolContext) -> list[FileLabel]:
    """What a guarded command wrote may be anything that it had read."""
    origin, created = origin_of("conversation", untrusted=True, private=context.secret), frozenset(ran.created)
    return [
        FileLabel(path, origin, context.session if path in created else known.session if known is not None else "")
        for path, known in ((path, labels.get(path)) for path in ran.changed)
    ]


async def _kept(grounds: Grounds, context: ToolContext, data: bytes, ending: str) -> str:
    """All of it in a file, and where that is, in words; nothing if there is no place for it."""
    if not grounds.scratch:
        return ""
    path = f"{grounds.scratch}/output-{folder_name(context.call_id)}.{ending}"
    confined = Confined(grounds)
    try:
        # its name can be foreseen: a link that a command left there must not lead us elsewhere
        written = await in_thread(lambda: confined.write(path, data, real=path, cancelled=lambda: context.cancelled))
    except PathRefused as error:  # it has run, and that counts more than all it said
        return f"; it could not be kept: {error}"
    return f"; all of it is in {confined.shown(written.path)}"
