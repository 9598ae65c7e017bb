"""Finds and reads the pattern files of one folder; only changed files are read again."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from mainstay.io.paths import read_confined
from mainstay.patterns.index import weigh_terms
from mainstay.patterns.pattern_template import FILE_BYTES_MAX, InstructionPattern, PatternFileProblem

if TYPE_CHECKING:
    from mainstay.patterns.yaml_parser import ParsedPatternFile

FILES_MAX = 20_000
_LISTED_MAX = 5 * FILES_MAX  # listed before sorting
DEPTH_MAX = 16
SUFFIXES = (".yaml", ".yml")
_SETTLED_NS = 2_000_000_000  # a file written this recently may be written again without its times showing it

FileFingerprint = tuple[int, ...]


class PatternFile(msgspec.Struct, frozen=True):
    """A pattern file as last read. An empty `fingerprint` means that it must be read again: it was just written."""

    fingerprint: FileFingerprint
    digest: bytes
    entries: tuple[tuple[InstructionPattern, Mapping[str, float]], ...] = ()  # each with its weighted terms
    problems: tuple[PatternFileProblem, ...] = ()


class PatternFolder(msgspec.Struct, frozen=True):
    """Contents of a folder: files by path, sorted by path."""

    files: Mapping[str, PatternFile]
    problems: tuple[PatternFileProblem, ...] = ()

    def is_same(self, other: PatternFolder) -> bool:
        """Return whether the patterns and problems are the same, regardless of fingerprints."""
        if self.problems != other.problems or self.files.keys() != other.files.keys():
            return False
        return all(
            file is (seen := other.files[path]) or (file.entries is seen.entries and file.problems == seen.problems)
            for path, file in self.files.items()
        )


def read_folder(folder: str, before: PatternFolder | None) -> PatternFolder:
    """Return the folder's current contents. An unchanged file is the same object as in `before`."""
    previous = before.files if before is not None else {}
    try:
        paths = sorted(islice(_walk_files(folder, DEPTH_MAX), _LISTED_MAX))
    except (FileNotFoundError, NotADirectoryError):
        paths = []
    except OSError as error:  # it exists but cannot be listed: keep its last contents
        return PatternFolder(previous, (PatternFileProblem(folder, 0, f"it cannot be read: {_error_reason(error)}"),))
    problems: tuple[PatternFileProblem, ...] = ()
    if len(paths) > FILES_MAX:
        problems = (PatternFileProblem(folder, 0, f"there are more than {FILES_MAX} files; the rest is left out"),)
    files = {
        path: file
        for path in paths[:FILES_MAX]
        if (file := _read_if_changed(folder, path, previous.get(path))) is not None
    }
    return PatternFolder(files, problems)


def read_single_file(path: str) -> PatternFile | None:
    """Read a single file by path; None if it does not exist."""
    return _read_if_changed(os.path.dirname(os.path.realpath(path)) or "/", path, None)


def _walk_files(folder: str, depth: int) -> Iterator[str]:
    """Yield the YAML files. Raises OSError if the folder itself is unreadable; unreadable subfolders are skipped."""
    subfolders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                subfolders.append(entry.path)
            elif entry.name.lower().endswith(SUFFIXES):
                yield entry.path
    for path in subfolders if depth else ():
        try:
            yield from _walk_files(path, depth - 1)
        except OSError:
            continue


def _read_if_changed(folder: str, path: str, old: PatternFile | None) -> PatternFile | None:
    try:
        info = os.stat(path)
        mark: FileFingerprint = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        if old is not None and mark == old.fingerprint:
            return old
        data, size = read_confined(folder, path, FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        if os.path.islink(path):
            return _keep_old_patterns(old, (), b"", PatternFileProblem(path, 0, "it is a broken link"))
        return None
    except OSError as error:
        return _keep_old_patterns(
            old, (), b"", PatternFileProblem(path, 0, f"it cannot be read: {_error_reason(error)}")
        )
    settled = abs(time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns)) > _SETTLED_NS
    mark = mark if settled else ()
    if size > FILE_BYTES_MAX:
        return _keep_old_patterns(
            old, mark, b"large", PatternFileProblem(path, 0, f"it is larger than {FILE_BYTES_MAX} bytes")
        )
    digest = hashlib.blake2b(data, digest_size=16).digest()
    if old is not None and digest == old.digest:
        return old if mark == old.fingerprint else msgspec.structs.replace(old, fingerprint=mark)
    if not data and not settled and old is not None:
        return old  # probably truncated to be rewritten; if not, the next reload reads it again
    from mainstay.patterns.yaml_parser import parse_file  # only needed if there is a pattern

    return _build_file(old, mark, digest, parse_file(path, data))


def _build_file(
    old: PatternFile | None, fingerprint: FileFingerprint, digest: bytes, parsed: ParsedPatternFile
) -> PatternFile:
    """Build the file's new state. If some patterns became unreadable, their last valid versions are kept."""
    entries: dict[str, tuple[InstructionPattern, Mapping[str, float]]] = {}
    if old is not None and any(problem.lost for problem in parsed.problems):
        entries |= {pattern.name: (pattern, terms) for pattern, terms in old.entries}
    entries |= {pattern.name: (pattern, weigh_terms(pattern)) for pattern in parsed.patterns}
    return PatternFile(fingerprint, digest, tuple(entries.values()), parsed.problems)


def _keep_old_patterns(
    old: PatternFile | None, fingerprint: FileFingerprint, digest: bytes, problem: PatternFileProblem
) -> PatternFile:
    if old is not None and old.problems == (problem,) and old.fingerprint == fingerprint:
        return old
    return PatternFile(fingerprint, digest, old.entries if old is not None else (), (problem,))


def _error_reason(error: OSError) -> str:
    text = error.strerror or type(error).__name__
    return text[:1].lower() + text[1:]
