"""What a call on files needs: its folders, where their content comes from, and changing them all or not at all."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from mainstay.core.outside import FileLabel, Labels, Reach
from mainstay.core.ports import ToolContext
from mainstay.core.recall import UNTRUSTED, is_private, is_untrusted, origin_of, worst
from mainstay.core.workers import in_thread
from mainstay.io.beneath import PathMissing, PathRefused, folded, is_inside
from mainstay.io.files import Confined, Written, mark_of
from mainstay.io.globs import glob
from mainstay.tools.common import Files, ToolRefused

T = TypeVar("T")

FILE = f"{UNTRUSTED}:file"  # of a file that was there before: anybody may have written it
FOLDER = "folder"  # the mark of one: a file in its place is something else
FILE_BYTES_MAX = 10 * 1024 * 1024  # that is changed in memory
JUDGED_MAX = 1_000
MADE_MAX = 10_000  # files of a folder that are looked at
SEEN_MAX = 200_000  # of all folders
CLOCK_NS = 50_000_000  # a disk's clock is a little behind
REFUSED = (PathRefused, ToolRefused)

_SECRET = (
    *(".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg"),
    *(
        "id_rsa*",
        "id_dsa*",
        "id_ecdsa*",
        "id_ed25519*",
        "credentials",
        "credentials.*",
        "*credentials*.json",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
    ),
    *(".htpasswd", ".git-credentials", "secrets.*", "*.secret", "*.secrets", ".dockercfg", "kubeconfig", "*.tfvars"),
    *("*.tfstate", ".vault-token", "shadow", "*.asc", ".my.cnf", "service-account*.json", "token.json", ".boto"),
)
_HARMLESS = ("*.pub", "*.example", "*.sample", "*.template", "*.dist", "*.md", "*.py", "*.ts", "*.js", "*.go", "*.rs")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be written, or removed if there is no `data`. `base` is where what stays of its content is from, and
    `session` who made it, where that is not who writes it now."""

    path: str
    data: bytes | None
    expected: str | None = None
    mode: int | None = None
    base: str = ""
    session: str | None = None


class Work:
    """One call's way to the files."""

    def __init__(self, files: Files, context: ToolContext) -> None:
        self.files = files
        self.context = context
        self.confined = Confined(files.grounds(context.session))

    # --- where content comes from ----------------------------------------------------------------

    def origin(self, path: str, mark: str) -> str:
        """Of what is in a file now; `path` is real."""
        label = self.files.labels.get(path)
        said = label.origin if label is not None else ""
        if any(is_inside(path, folder) for folder in self.confined.grounds.outside):
            return worst((said, FILE))
        if said or (label is not None and label.mark in ("", mark)):
            return said
        return "" if self.is_vouched_for(path) else FILE

    def bring(self, path: str, mark: str) -> str:
        """The content of a file enters the context; where it is from."""
        origin = self.origin(path, mark)
        if is_untrusted(origin):
            self.context.untrusted = True
        if is_private(origin) or looks_secret(path):
            self.context.private = True
        return origin

    def bring_names(self, paths: Iterable[str]) -> None:
        """Names of files do so: whoever made the file chose its name."""
        for path in paths:
            label = self.files.labels.get(path)
            if label is None or is_untrusted(label.origin):
                if label is None and self.is_vouched_for(path):
                    continue
                self.context.untrusted = True
                return

    def is_vouched_for(self, path: str) -> bool:
        grounds = self.confined.grounds
        if any(is_inside(path, folder) for folder in grounds.vouched):
            return True
        roots = [root for root in (*grounds.writable, *grounds.readable) if is_inside(path, root)]
        if not roots or not grounds.trusted:
            return False
        below = path[len(max(roots, key=len).rstrip("/")) + 1 :]
        return any(glob(f"/{pattern.lstrip('/')}")(below) for pattern in grounds.trusted)

    def changed_since(self, since_ns: int) -> Iterator[str]:
        """Files that the owner vouches for, and that were changed since then."""
        seen = 0
        for folder, _, names in (one for root in self.confined.grounds.writable for one in os.walk(root)):
            for path in (f"{folder}/{name}" for name in names):
                seen += 1
                if seen > SEEN_MAX:
                    return
                try:
                    if self.is_vouched_for(path) and os.lstat(path).st_ctime_ns >= since_ns - CLOCK_NS:
                        yield path
                except OSError:  # gone meanwhile
                    continue

    # --- how far a call reaches -------------------------------------------------------------------

    def reach(self, changes: Sequence[Change]) -> Reach:
        whats: list[str] = []
        for change in changes:
            try:
                with self.confined.find(change.path, follow=change.data is not None) as spot:
                    path, exists = spot.path, spot.stat is not None
            except PathRefused:  # as it will be when it runs
                continue
            shown = self.confined.shown(path)
            if change.data is not None and (why := self._outlives(path)):
                whats.append(f"writes {shown}, {why}")
            if change.data is None and exists and not was_made(self.files.labels, self.context.session, path):
                whats.append(f"removes {shown}, which this conversation did not make")
        return Reach(sink=bool(whats), what="; ".join(dict.fromkeys(whats)))

    def judge(self, changes: Sequence[Change]) -> Reach:
        """As `reach`, for whoever decides about the call; what was said then must still be so when it runs."""
        reach = self.reach(changes)
        judged = self.files.judged
        judged[self.context.key] = reach.sink
        while len(judged) > JUDGED_MAX:
            del judged[next(iter(judged))]
        return reach

    def _outlives(self, path: str) -> str:
        """Why writing there changes more than this conversation, if it does."""
        grounds, text = self.confined.grounds, folded(path)
        if any(is_inside(text, folded(note.rstrip("/"))) for note in grounds.notes):
            return "which later contexts are made of"
        steps = text.split("/")
        if ".git" in steps:
            return "which git acts by"
        roots = (grounds.cwd, *grounds.writable)
        if any(is_inside(text, f"{folded(root.rstrip('/'))}/skills") for root in roots):
            return "which later contexts are made of"
        return ""

    # --- changing --------------------------------------------------------------------------------

    async def change(self, changes: Sequence[Change]) -> list[Written | None]:
        """All of them or none. Labelled before where that makes it stricter: a crash in between must not leave a file
        that passes for trusted."""
        reals = await self.aside(lambda: [self._resolve(change) for change in changes])
        if not self.files.judged.pop(self.context.key, True) and self.reach(changes).sink:
            raise ToolRefused("A path leads elsewhere than when this call was allowed. Nothing was changed.")
        ours = origin_of("conversation", untrusted=self.context.tainted, private=self.context.secret)
        labels, before = self.files.labels, {real: self.files.labels.get(real) for real in reals}
        origins = [worst((ours, change.base)) for change in changes]
        if strict := [
            FileLabel(real, origin, old.session if (old := before[real]) else "")
            for real, origin, change in zip(reals, origins, changes, strict=True)
            if change.data is not None and origin
        ]:
            await labels.put(strict)
        try:
            written = await self.aside(lambda: self._apply(changes, reals))
        except REFUSED:
            if strict:  # nothing was changed: nothing new is known
                await labels.remove([one.path for one in strict if before[one.path] is None])
                await labels.put([old for one in strict if (old := before[one.path]) is not None])
            raise
        await self._label(changes, origins, written, before)
        return written

    def _resolve(self, change: Change) -> str:
        with self.confined.find(change.path, follow=change.data is not None, write=True) as spot:
            return spot.path

    async def _label(
        self,
        changes: Sequence[Change],
        origins: Sequence[str],
        written: Sequence[Written | None],
        before: dict[str, FileLabel | None],
    ) -> None:
        session = self.context.session
        made: list[FileLabel] = []
        for change, origin, one in zip(changes, origins, written, strict=True):
            if one is None:
                continue
            old = before[one.path]
            maker = session if one.created else old.session if old is not None else ""
            made.append(FileLabel(one.path, origin, maker if change.session is None else change.session, one.mark))
            made += [FileLabel(folder, origin, session, FOLDER) for folder in one.folders]
        if made:
            await self.files.labels.put(made)
        kept = {one.path for one in written if one is not None}
        if gone := [path for path, old in before.items() if path not in kept and old is not None]:
            await self.files.labels.remove(gone)

    def _apply(self, changes: Sequence[Change], reals: Sequence[str]) -> list[Written | None]:
        done: list[Written | None] = []
        undo: list[Change] = []
        try:
            for change, real in zip(changes, reals, strict=True):
                if len(changes) > 1:
                    undo.append(self._backup(change))
                done.append(self._apply_one(change, real))
        except REFUSED as error:
            left = [self.confined.shown(reals[at]) for at in reversed(range(len(done))) if not self._undo(undo[at])]
            if left:
                raise ToolRefused(f"{error} These could not be put back: {', '.join(left)}.") from None
            raise
        return done

    def _apply_one(self, change: Change, real: str) -> Written | None:
        confined, context = self.confined, self.context
        if change.data is None:
            if context.cancelled:
                raise PathRefused("Cancelled: nothing was changed.")
            confined.remove(change.path, expected=change.expected, real=real)
            return None
        return confined.write(
            change.path,
            change.data,
            expected=change.expected,
            mode=change.mode,
            real=real,
            cancelled=lambda: context.cancelled,
        )

    def _backup(self, change: Change) -> Change:
        try:
            data, opened = self.confined.read_bytes(change.path, FILE_BYTES_MAX)
        except PathMissing:
            return Change(path=change.path, data=None)
        return Change(path=change.path, data=data, mode=opened.stat.st_mode & 0o777)

    def _undo(self, change: Change) -> bool:
        try:
            if change.data is None:
                self.confined.remove(change.path)
            else:
                self.confined.write(change.path, change.data, mode=change.mode)
        except PathRefused:
            return False
        return True

    # --- beside the loop -------------------------------------------------------------------------

    async def aside(self, work: Callable[[], T]) -> T:
        """In a thread. Whoever cancels this gets it back when nothing is changed any more: a thread looks at
        `cancelled` before it gives a file its name."""
        running: asyncio.Future[T] = in_thread(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.context.cancel()
            await asyncio.wait((running,))
            if not running.cancelled():
                running.exception()
            raise


def announcing(files: Files, context: ToolContext) -> Callable[[Sequence[str]], None]:
    """For a guarded command: what it wrote may be anything that it had read, and whatever becomes of the call, no such
    file passes for trusted. Files that nothing speaks for need no label for that."""
    work, loop = Work(files, context), asyncio.get_running_loop()
    origin = origin_of("conversation", untrusted=True, private=context.secret)

    def announce(paths: Sequence[str]) -> None:
        known = [(path, files.labels.get(path)) for path in paths]
        doubtful = [
            FileLabel(path, origin, old.session if old is not None else "")
            for path, old in known
            if (not is_untrusted(old.origin) if old is not None else work.is_vouched_for(path))
        ]
        if doubtful:
            asyncio.run_coroutine_threadsafe(_put(files.labels, doubtful), loop).result()

    return announce


async def doubt(files: Files, context: ToolContext, since_ns: int) -> None:
    """After a command under taint that was not guarded: of what the owner vouches for, whatever it may have written."""
    work = Work(files, context)
    grounds = work.confined.grounds
    if context.tainted and (grounds.trusted or grounds.vouched):
        origin = origin_of("conversation", untrusted=True, private=context.secret)
        found = await work.aside(lambda: list(work.changed_since(since_ns)))
        await files.labels.put([FileLabel(path, origin) for path in found])


async def _put(labels: Labels, made: Sequence[FileLabel]) -> None:
    await labels.put(made)


def was_made(labels: Labels, session: str, path: str) -> bool:
    """This session made what is there now: a file that nobody has replaced since, or a folder with only such in it."""
    label = labels.get(path)
    ours = label is not None and label.session == session
    try:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            return label is not None and ours and label.mark in ("", mark_of(found))
        files = 0
        for folder, folders, names in os.walk(path):
            links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
            for name in (*names, *links):
                files += 1
                if files > MADE_MAX or not was_made(labels, session, f"{folder}/{name}"):
                    return False
    except OSError:  # it is gone, or not ours to look at
        return ours
    return ours or files > 0


def may_remove(files: Files, context: ToolContext) -> Callable[[str], bool]:
    """What a guarded command may: what its session made, and what the person wants gone; by its real path."""
    cwd, labels, session = files.grounds(context.session).cwd, files.labels, context.session
    wanted = [resting(os.path.join(cwd, one)) for one in context.removable]
    return lambda path: any(is_inside(path, one) for one in wanted) or was_made(labels, session, path)


def resting(path: str) -> str:
    """The real place of a name. A link is not followed: it is itself what would go."""
    path = path.rstrip("/") or "/"
    folder, name = os.path.split(path)
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)


def looks_secret(path: str) -> bool:
    """By its name: a file that people keep from others."""
    name = path.rsplit("/", 1)[-1].lower()
    return any(glob(one)(name) for one in _SECRET) and not any(glob(one)(name) for one in _HARMLESS)
