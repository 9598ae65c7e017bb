"""The `upload` tool: sends a file of the workspace to the people in this conversation."""

from __future__ import annotations

from mainstay.core.memory_tiers import format_origin
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, Outbox, OutgoingMessage, SessionFolders
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathRefused, shorten_for_message
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies

UPLOAD_BYTES_MAX = 20 * 1024 * 1024
COMMENT_CHARS_MAX = 4_000


class _UploadArguments(ToolArguments, frozen=True):
    path: str
    comment: str | None = None


class UploadTool(BuiltInTool):
    """The file stays in the conversation. But its members should get only files that were created there or that the
    user named, not any file of the workspace: other uploads are sinks."""

    name = "upload"
    description = "Give a file to the people in this conversation."
    arguments = _UploadArguments
    effect: Effect = "idempotent"
    capabilities: tuple[str, ...] = ("fs.read", "send.here")

    def __init__(self, file_access: SessionFileAccess, outbox: Outbox) -> None:
        self._file_access = file_access
        self._outbox = outbox

    def reach(self, arguments: _UploadArguments, context: ToolContext) -> CallDestinations:
        try:
            path = ConfinedFiles(self._file_access.folders_of(context.session)).real_path(arguments.path)
        except PathRefused:  # the run will refuse it too
            return CallDestinations()
        label = self._file_access.labels.get(path)
        if label is not None and label.session == context.session:
            return CallDestinations()
        return CallDestinations(
            sink=True,
            leaves_workspace=True,
            destinations=(arguments.path,),
            description=f"sends {shorten_for_message(arguments.path)}",
        )

    async def run(self, arguments: _UploadArguments, context: ToolContext) -> str:
        comment = arguments.comment or ""
        if len(comment) > COMMENT_CHARS_MAX:
            raise ToolRefused(f"A comment has at most {COMMENT_CHARS_MAX} characters. Nothing was sent.")
        folders = self._file_access.folders_of(context.session)
        path, size = await run_in_thread(lambda: _check_file(folders, arguments.path))
        await self._outbox.send(
            OutgoingMessage(
                to="",
                text=comment,
                files=(path,),
                session=context.session,
                key=context.key,
                origin=format_origin("conversation", untrusted=context.tainted, private=context.has_private_content),
            )
        )
        return f"Sent {shorten_for_message(arguments.path)} ({size} bytes)."


def _check_file(folders: SessionFolders, path: str) -> tuple[str, int]:
    with ConfinedFiles(folders).open_read(path) as opened:
        if opened.stat.st_size > UPLOAD_BYTES_MAX:
            raise PathRefused(
                f"{shorten_for_message(path)} is larger than {UPLOAD_BYTES_MAX // (1024 * 1024)} MB. Nothing was sent."
            )
        return opened.path, opened.stat.st_size


def create_upload_tool(file_access: SessionFileAccess, outbox: Outbox) -> Tool:
    return UploadTool(file_access, outbox)


def build(dependencies: ToolDependencies) -> Tool:
    assert dependencies.outbox is not None
    return create_upload_tool(dependencies.file_access, dependencies.outbox)
