"""`upload`: a file of the workspace for whoever is in this conversation."""

from __future__ import annotations

from mainstay.core.outside import Grounds, Outbox, Outgoing, Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import origin_of
from mainstay.core.workers import in_thread
from mainstay.io.beneath import PathRefused, brief
from mainstay.io.files import Confined
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused

BYTES_MAX = 20 * 1024 * 1024
COMMENT_CHARS_MAX = 4_000


class _Upload(Arguments, frozen=True):
    path: str
    comment: str | None = None


class Upload(BuiltIn):
    """It does not leave the conversation it was asked for in; but whoever is in that should get what was made there, or
    what the person named, and not whatever lies in the workspace."""

    name = "upload"
    description = "Give a file to the people in this conversation."
    arguments = _Upload
    effect: Effect = "idempotent"
    capabilities: tuple[str, ...] = ("fs.read", "send.here")

    def __init__(self, files: Files, outbox: Outbox) -> None:
        self._files = files
        self._outbox = outbox

    def reach(self, arguments: _Upload, context: ToolContext) -> Reach:
        try:
            path = Confined(self._files.grounds(context.session)).real(arguments.path)
        except PathRefused:  # as it will be when it runs
            return Reach()
        label = self._files.labels.get(path)
        if label is not None and label.session == context.session:
            return Reach()
        return Reach(sink=True, outward=True, destinations=(arguments.path,), what=f"sends {brief(arguments.path)}")

    async def run(self, arguments: _Upload, context: ToolContext) -> str:
        comment = arguments.comment or ""
        if len(comment) > COMMENT_CHARS_MAX:
            raise ToolRefused(f"A comment has at most {COMMENT_CHARS_MAX} characters. Nothing was sent.")
        grounds = self._files.grounds(context.session)
        path, size = await in_thread(lambda: _checked(grounds, arguments.path))
        await self._outbox.send(
            Outgoing(
                to="",
                text=comment,
                files=(path,),
                session=context.session,
                key=context.key,
                origin=origin_of("conversation", untrusted=context.tainted, private=context.secret),
            )
        )
        return f"Sent {brief(arguments.path)} ({size} bytes)."


def _checked(grounds: Grounds, path: str) -> tuple[str, int]:
    with Confined(grounds).open_read(path) as opened:
        if opened.stat.st_size > BYTES_MAX:
            raise PathRefused(f"{brief(path)} is larger than {BYTES_MAX // (1024 * 1024)} MB. Nothing was sent.")
        return opened.path, opened.stat.st_size


def upload_tool(files: Files, outbox: Outbox) -> Tool:
    return Upload(files, outbox)
