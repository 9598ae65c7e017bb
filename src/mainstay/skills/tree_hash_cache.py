"""Content hashes of installed skills, cached by file names, sizes and times.

Context contributors run within every turn, so the files they may check and hash at once are bounded (`HashBudget`).
Larger trees are hashed by a background thread; until then the skill is unverified.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.supervision import TaskHealth, run_supervised
from mainstay.skills.frontmatter import SkillRefused, read_skill_file

TURN_FILES_MAX = 500  # files and folders checked within one turn
TURN_BYTES_MAX = 8 * 1024 * 1024  # hashed within one turn
FILES_MAX = 10_000  # of one installed skill
BYTES_MAX = 256 * 1024 * 1024
RECHECK_S = 10.0  # interval at which the background thread checks trees that are too large for a turn
SETTLED_NS = 2_000_000_000  # a file written this recently may be written again without its times showing it
TOO_LARGE_DIGEST = "too large"  # matches no hash
UNVERIFIED_REASON = "its files are many or large, and are being compared with what was approved"
_CACHE_MAX = 4096

TreeFingerprint = tuple[object, ...]


class SkillUnverified(SkillRefused):
    """The skill's files could not be verified against the approved hash within the budget."""


class HashBudget(msgspec.Struct):
    """Files and bytes that may still be checked and hashed within one turn."""

    files: int = TURN_FILES_MAX
    bytes: int = TURN_BYTES_MAX


class _TreeMetadata(msgspec.Struct, frozen=True):
    """Metadata of a tree's files, without their contents."""

    fingerprint: bytes
    files: int  # and folders
    bytes: int
    settled: bool  # any later change will change the fingerprint


class _TreeHash(msgspec.Struct):
    """Hash of a tree that had the same fingerprint before and after hashing."""

    fingerprint: bytes
    digest: str
    files: int
    skill_file_digest: str  # the hash of its SKILL.md, as in `Skill.digest`
    number: int  # unique per hashing
    at: float  # monotonic time of the last check
    error: str = ""


class TreeHashCache:
    """Cache of tree hashes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: dict[str, _TreeHash] = {}  # by folder, until another fingerprint is seen
        self._requested: dict[str, None] = {}
        self._worker: threading.Thread | None = None
        self._last_number = 0

    def request_hash(self, folder: str) -> None:
        """Queue a folder for hashing by the background thread."""
        with self._lock:
            self._requested[folder] = None
            if self._worker is None or not self._worker.is_alive():
                health = TaskHealth("hashing of skills")
                self._worker = threading.Thread(
                    target=run_supervised,
                    args=(health, self._run_worker, threading.Event()),
                    name="mainstay-skills",
                    daemon=True,
                )
                self._worker.start()

    # --- within a turn ---------------------------------------------------------------------------

    def is_affordable(self, folder: str, budget: HashBudget) -> bool:
        """Return False if `fingerprint` would exceed the rest of this budget, but not a full one."""
        cached = self._hashes.get(folder)
        return cached is None or not budget.files < cached.files <= TURN_FILES_MAX

    def fingerprint(self, folder: str, budget: HashBudget) -> TreeFingerprint:
        """Return a value that changes when the tree does, as far as the budget allows to check it."""
        cached = self._hashes.get(folder)
        if cached is not None and cached.files > budget.files:
            if cached.files > TURN_FILES_MAX and time.monotonic() > cached.at + RECHECK_S:
                self.request_hash(folder)
            return (cached.number,)
        try:
            tree = _read_metadata(folder, budget.files)
        except OSError as error:
            self._evict(folder)
            return (0, error.errno)
        if tree is None:
            budget.files = 0
            self._evict(folder)
            return (0,)
        budget.files -= tree.files
        if cached is not None and cached.fingerprint == tree.fingerprint and tree.settled:
            return (cached.number,)
        self._evict(folder)
        return (0, tree.fingerprint, 0 if tree.settled else time.time_ns())

    def listing_digest(self, folder: str, skill_file_digest: str, budget: HashBudget) -> str:
        """Return the hash for listing a skill: the cached one, if its SKILL.md still has the given hash.

        Raises SkillUnverified, ConfigError and OSError.
        """
        cached = self._hashes.get(folder)
        if cached is not None and (cached.skill_file_digest == skill_file_digest or cached.error):
            return _digest_or_raise(cached)
        return self.current_digest(folder, skill_file_digest, budget)

    def current_digest(self, folder: str, skill_file_digest: str, budget: HashBudget | None = None) -> str:
        """Return the hash of the tree as it is now, with a SKILL.md of the given hash.

        Raises SkillUnverified if that exceeds the budget (None: unlimited), ConfigError and OSError.
        """
        cached = self._hashes.get(folder)
        if cached is not None and budget is not None and cached.files > budget.files:
            raise SkillUnverified(UNVERIFIED_REASON)
        tree = _read_metadata(folder, FILES_MAX if budget is None else budget.files)
        if tree is None and (budget is None or budget.files >= FILES_MAX):
            return TOO_LARGE_DIGEST
        if (
            tree is not None
            and cached is not None
            and cached.fingerprint == tree.fingerprint
            and tree.settled
            and cached.skill_file_digest == skill_file_digest
        ):
            if budget is not None:
                budget.files -= tree.files
            return _digest_or_raise(cached)
        self._evict(folder)
        if tree is None or (budget is not None and tree.bytes > budget.bytes):
            self.request_hash(folder)
            raise SkillUnverified(UNVERIFIED_REASON)
        if budget is not None:
            budget.files -= tree.files
            budget.bytes -= tree.bytes
        digest, hashed = self._hash_tree(folder, tree)
        if hashed != skill_file_digest:
            raise ConfigError("it was changed while it was read")
        return digest

    # --- in the background -----------------------------------------------------------------------

    def hash_now(self, folder: str) -> None:
        """Hash a tree of any allowed size and cache the result, unless it keeps changing. May block for seconds."""
        try:
            tree = _read_metadata(folder, FILES_MAX)
            if tree is not None and not tree.settled and (tree.files > TURN_FILES_MAX or tree.bytes > TURN_BYTES_MAX):
                time.sleep(SETTLED_NS / 1e9 + 0.1)
                tree = _read_metadata(folder, FILES_MAX)
        except OSError:  # the next check reports it
            return self._evict(folder)
        tree = tree or _TreeMetadata(b"", FILES_MAX + 1, 0, True)
        cached = self._hashes.get(folder)
        if cached is not None and cached.fingerprint == tree.fingerprint and tree.settled:
            cached.at = time.monotonic()
            return None
        self._evict(folder)
        if not tree.fingerprint:
            return self._store(folder, tree, TOO_LARGE_DIGEST)
        try:
            self._hash_tree(folder, tree)
        except (ConfigError, OSError, ValueError) as error:
            self._store(folder, tree, "", error=str(error))

    def _hash_tree(self, folder: str, tree: _TreeMetadata) -> tuple[str, str]:
        """Return the hashes of the tree and of its SKILL.md; cache them if the tree did not change meanwhile."""
        from mainstay.io.package_installer import compute_digest  # only needed for installed skills

        digest = compute_digest(Path(folder))
        try:
            head = _hash_skill_file(read_skill_file(folder))
        except SkillRefused:
            head = ""
        if (again := _read_metadata(folder, FILES_MAX)) is not None and again.fingerprint == tree.fingerprint:
            self._store(folder, tree, digest, skill_file_digest=head)
        return digest, head

    def _store(
        self, folder: str, tree: _TreeMetadata, digest: str, *, skill_file_digest: str = "", error: str = ""
    ) -> None:
        if not tree.settled:
            return
        with self._lock:
            if len(self._hashes) >= _CACHE_MAX:  # a cache: all of it can be computed again
                self._hashes.clear()
            self._last_number += 1
            entry = _TreeHash(
                tree.fingerprint, digest, tree.files, skill_file_digest, self._last_number, time.monotonic(), error
            )
            self._hashes[folder] = entry

    def _evict(self, folder: str) -> None:
        with self._lock:
            self._hashes.pop(folder, None)

    def _run_worker(self) -> None:
        """Hash queued folders until none is left."""
        while True:
            with self._lock:
                folder = next(iter(self._requested), None)
                if folder is None:
                    self._worker = None
                    return
            try:
                self.hash_now(folder)
            finally:
                with self._lock:
                    del self._requested[folder]


def _digest_or_raise(tree_hash: _TreeHash) -> str:
    if tree_hash.error:
        raise ConfigError(tree_hash.error)
    return tree_hash.digest


def _hash_skill_file(text: str) -> str:
    """Hash the text of a SKILL.md in the same way as `read_skill`."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _read_metadata(folder: str, files_max: int) -> _TreeMetadata | None:
    """Collect the metadata of all files that the tree's hash depends on; None above `files_max` or BYTES_MAX."""
    now = time.time_ns()
    marks: list[tuple[str, TreeFingerprint]] = []
    size = files = 0
    settled = True
    pending = [""]
    while pending:
        folder_path = pending.pop()
        with os.scandir(os.path.join(folder, folder_path)) as listed:
            for entry in listed:
                files += 1
                if files > files_max:
                    return None
                path, info = folder_path + entry.name, entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    pending.append(f"{path}/")
                    continue
                size += info.st_size
                if size > BYTES_MAX:
                    return None
                settled = settled and is_settled(info, now)
                marks.append((path, stat_fingerprint(info)))
    fingerprint = hashlib.blake2b(repr(sorted(marks)).encode(), digest_size=16)
    return _TreeMetadata(fingerprint.digest(), files, size, settled)


def stat_fingerprint(info: os.stat_result) -> TreeFingerprint:
    return info.st_dev, info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns, info.st_ctime_ns


def is_settled(info: os.stat_result, now_ns: int) -> bool:
    return abs(now_ns - max(info.st_mtime_ns, info.st_ctime_ns)) > SETTLED_NS
