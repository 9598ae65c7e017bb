"""The `bash` tool: runs a command in the sandbox, streams its output, and saves long output to a file."""

from __future__ import annotations

import time

from mainstay.core.memory_tiers import format_origin
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import (
    CommandResult,
    FileLabelStore,
    FileOriginLabel,
    Sandbox,
    SandboxCommand,
    SessionFolders,
)
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathRefused, shorten_for_message
from mainstay.io.paths import encode_folder_name
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.command_output import CommandOutput, looks_binary, shorten_output
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.tool_call_file_access import (
    ToolCallFiles,
    build_on_written,
    build_removal_check,
    distrust_changed_files,
    format_unkept_note,
    open_command_recorder,
)

TIMEOUT_S = 120.0
TIMEOUT_MAX_S = 600.0
GRACE_S = 15.0  # for killing, and for moving files into place after a command with deletion protection
SCRIPT_CHARS_MAX = 100_000
UNDONE_SHOWN_MAX = 20
COMMAND_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0"}  # `git status` must not count as a change of the index


class _BashArguments(ToolArguments, frozen=True):
    command: str
    timeout: float | None = None
    cwd: str | None = None


class BashTool(BuiltInTool):
    name = "bash"
    description = (
        "Run a shell command; shows its output. A new shell each time: cd and variables do not last. "
        "timeout: seconds, default 120, at most 600."
    )
    arguments = _BashArguments
    effect: Effect = "unsafe"
    timeout_s: float | None = TIMEOUT_MAX_S + GRACE_S
    untrusted = True
    capabilities: tuple[str, ...] = ("exec",)
    runs_in_sandbox = True

    def __init__(self, file_access: SessionFileAccess, sandbox: Sandbox, labels: FileLabelStore, network: bool) -> None:
        self._file_access = file_access
        self._sandbox = sandbox
        self._labels = labels
        self._network = network

    async def run(self, arguments: _BashArguments, context: ToolContext) -> str:
        from mainstay.tools import command_protection, held_change_applier  # loaded with the first command

        timeout_s = TIMEOUT_S if arguments.timeout is None else arguments.timeout
        if not 0 < timeout_s <= TIMEOUT_MAX_S:
            raise ToolRefused(
                f"A command has at most {TIMEOUT_MAX_S:g} s: start longer ones with process. Nothing was run."
            )
        folders = self._file_access.folders_of(context.session)
        script, cwd = check_script(arguments.command), await resolve_working_folder(folders, arguments.cwd)
        recorder = await open_command_recorder(self._file_access, context, self._sandbox, script)
        command = SandboxCommand(
            script=script,
            folders=folders,
            cwd=cwd,
            timeout_s=timeout_s,
            network=self._network,
            protect_deletions=context.protect_deletions and self._sandbox.can_protect_deletions,
            is_own_file=build_removal_check(self._file_access, context),
            movable_folders=command_protection.find_movable_folders(self._file_access, context, script, cwd),
            on_written=build_on_written(self._file_access, context, recorder),
            protect_obeyed=await command_protection.may_change_obeyed_files(script, folders, cwd),
            may_change=command_protection.build_change_check(context, folders, script),
            change_recorder=recorder,
            env=COMMAND_ENVIRONMENT,
        )
        output = CommandOutput(context)
        context.partial_output = lambda: shorten_output(output.text().rstrip(), "")
        started_ns = time.time_ns()
        try:
            result = await self._sandbox.exec(command, output.add)
        finally:
            output.close()
            if not command.needs_overlay:
                await distrust_changed_files(self._file_access, context, started_ns)
        if result.changed:
            await self._labels.save(_build_labels(ToolCallFiles(self._file_access, context), result, context))
        applied, context.held_changes = await held_change_applier.apply_requested_removals(
            self._file_access, context, result.held_changes, script
        )
        text = await self._format_result(result, output, folders, command, context)
        return "\n".join(filter(None, (text, applied, format_unkept_note(recorder))))

    async def apply_held_changes(self, document: str, context: ToolContext, *, folder: str, is_repeated: bool) -> str:
        from mainstay.tools.held_change_applier import apply_approved_changes

        return await apply_approved_changes(
            self._file_access, context, document, folder=folder, is_repeated=is_repeated
        )

    async def _format_result(
        self,
        result: CommandResult,
        output: CommandOutput,
        folders: SessionFolders,
        command: SandboxCommand,
        context: ToolContext,
    ) -> str:
        raw = output.raw
        if looks_binary(raw):
            where = await _save_output(folders, context, raw, "bin")
            content = f"[binary output, {len(raw)} bytes, not shown{where}]"
        else:
            text = output.text().rstrip()
            content = shorten_output(text, "")
            if content != text:
                where = await _save_output(folders, context, text.encode(errors="replace"), "txt")
                content = shorten_output(text, where)
        notes = [content or ("(no output)" if result.exit_code == 0 and not result.timed_out else "")]
        if result.truncated or output.is_truncated:
            notes.append("[the output is longer than the limit; the rest was dropped]")
        if result.timed_out:
            notes.append(
                f"[timed out after {command.timeout_s:g} s; it was stopped, with all processes that it had started]"
            )
        elif result.exit_code:
            notes.append(f"[exit code {result.exit_code}]")
        if result.undone_deletions and not result.held_changes:
            notes.append(format_undone_note(result.undone_deletions))
        return "\n".join(filter(None, notes))


def create_bash_tool(
    file_access: SessionFileAccess, sandbox: Sandbox, labels: FileLabelStore, network: bool = False
) -> Tool:
    return BashTool(file_access, sandbox, labels, network)


def build(dependencies: ToolDependencies) -> Tool:
    assert dependencies.sandbox is not None
    file_access = dependencies.file_access
    return create_bash_tool(file_access, dependencies.sandbox, file_access.labels, dependencies.has_network)


# --- shared with the process tool ----------------------------------------------------------------


def check_script(script: str) -> str:
    if not script.strip():
        raise ToolRefused("There is no command. Nothing was run.")
    if "\x00" in script:
        raise ToolRefused("A command must not contain a NUL character. Nothing was run.")
    if len(script) > SCRIPT_CHARS_MAX:
        raise ToolRefused(
            f"A command has at most {SCRIPT_CHARS_MAX} characters: write it to a file and run that. Nothing was run."
        )
    return script


async def resolve_working_folder(folders: SessionFolders, path: str | None) -> str:
    """Return the real path of a folder inside the session's folders; the default one if `path` is empty."""
    if not path:
        return folders.cwd
    folder: str = await run_in_thread(lambda: _resolve_folder(ConfinedFiles(folders), path))
    return folder


def _resolve_folder(confined: ConfinedFiles, path: str) -> str:
    with confined.resolve(path) as resolved:
        if not resolved.is_folder:
            raise PathRefused(f"{shorten_for_message(path)} is not a folder. Nothing was run.")
        return resolved.path


def format_undone_note(undone_paths: tuple[str, ...]) -> str:
    named = ", ".join(shorten_for_message(path) for path in undone_paths[:UNDONE_SHOWN_MAX])
    more = f" and {len(undone_paths) - UNDONE_SHOWN_MAX} more" if len(undone_paths) > UNDONE_SHOWN_MAX else ""
    return (
        "[held back, because content from outside is in this conversation: "
        f"changes to or deletion of {named}{more}; ask the user]"
    )


def _build_labels(call_files: ToolCallFiles, result: CommandResult, context: ToolContext) -> list[FileOriginLabel]:
    """Return labels for the files that the command wrote: untrusted, as it may have copied anything it read. In a clean
    session only new files get one, which says that the session created them, and not where the owner trusts files."""
    labels = call_files.file_access.labels
    origin, created = (
        format_origin("conversation", untrusted=True, private=context.has_private_content),
        frozenset(result.created),
    )
    is_careful = context.tainted or context.protect_deletions
    return [
        FileOriginLabel(
            path, origin, context.session if path in created else known.session if known is not None else ""
        )
        for path, known in ((path, labels.get(path)) for path in result.changed)
        if is_careful or (path in created and not call_files.is_trusted(path))
    ]


async def _save_output(folders: SessionFolders, context: ToolContext, data: bytes, extension: str) -> str:
    """Save the whole output to the scratch folder; return a note for the model that says where, or "" without one."""
    if not folders.scratch:
        return ""
    path = f"{folders.scratch}/output-{encode_folder_name(context.call_id)}.{extension}"
    confined = ConfinedFiles(folders)
    try:
        # the file name is predictable: `expected_path` refuses a symlink that a command planted there
        written = await run_in_thread(
            lambda: confined.write_file(path, data, expected_path=path, is_cancelled=lambda: context.cancelled)
        )
    except PathRefused as error:  # the command has run: report that, even if its output cannot be saved
        return f"; it could not be stored: {error}"
    return f"; all of it is in {confined.display_path(written.path)}"
