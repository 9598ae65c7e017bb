"""Security scan of a skill before installation: its text, its scripts and its other files.

A scan proves nothing. It finds known attack patterns and leaves the decision to the user: `danger` is what no honest
skill needs to do, `warning` is what is worth a review.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.skills.scan_rule_matcher import RawFinding, ScanText, match_rules
from mainstay.skills.scan_rules import Severity, get_expression
from mainstay.skills.text_scan import scan_any_text, scan_page

FILE_BYTES_MAX = 1024 * 1024  # of a longer file, the beginning and the end are scanned
TOTAL_BYTES_MAX = 16 * 1024 * 1024
FINDINGS_MAX = 100
HEAD_BYTES = 8 * 1024

PAGE_SUFFIXES = frozenset({".md", ".mdx", ".markdown", ".txt", ".rst", ".html", ".htm"})
PAGE_NAMES = frozenset({"LICENSE", "README", "NOTICE", "Dockerfile"})  # a Dockerfile's commands run in a container
STANDALONE_SCRIPT_SUFFIXES = frozenset(
    {
        *(".py", ".pyw", ".sh", ".bash", ".zsh", ".fish", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"),
        *(".ps1", ".psm1", ".bat", ".cmd", ".vbs", ".applescript", ".scpt"),
    }
)
SCRIPT_SUFFIXES = STANDALONE_SCRIPT_SUFFIXES | {
    *(".tsx", ".jsx", ".r", ".jl", ".go", ".rs", ".java", ".kt", ".swift", ".c", ".cpp", ".cs"),
}
SETTINGS_SUFFIXES = frozenset({".json", ".jsonc", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".env", ".conf"})
_EXECUTABLE_MAGIC = (
    (b"\x7fELF", "a program for Linux"),
    (b"MZ", "a program for Windows"),
    (b"\xcf\xfa\xed\xfe", "a program for macOS"),
    (b"\xce\xfa\xed\xfe", "a program for macOS"),
    (b"\xca\xfe\xba\xbe", "a program for macOS or Java"),
    (b"dex\n", "a program for Android"),
)
_ARCHIVE_MAGIC = (
    (b"\x1f\x8b", "an archive"),
    (b"7z\xbc\xaf", "an archive"),
    (b"Rar!", "an archive"),
    (b"\xfd7zXZ", "an archive"),
    (b"BZh", "an archive"),
    (b"\0asm", "WebAssembly"),
)
_ZIP_DOCUMENT_SUFFIXES = frozenset(
    {
        *(".docx", ".xlsx", ".pptx", ".dotx", ".xltx", ".potx", ".odt", ".ods", ".odp", ".epub"),
        *(".pages", ".key", ".numbers", ".vsdx", ".sketch"),
    }
)
_AUTOLOADED_FILES = re.compile(  # files that other programs load automatically
    r"(?:^|/)(?:\.claude/(?:settings[\w.]{0,12}\.json|hooks/.{1,80})|\.mcp\.json|hooks\.json|\.cursorrules|\.envrc"
    r"|\.vscode/(?:tasks|settings)\.json|\.git(?:config|modules)|\.npmrc|\.pth|sitecustomize\.py|conftest\.py)$|\.pth$"
)
_WORD = re.compile(r"[^\W_](?:[\w-]{0,98}[^\W_])?")
_INSTALL_HOOK = re.compile(r'"(?:pre|post)?install"\s{0,4}:\s{0,4}"|"prepare"\s{0,4}:\s{0,4}"')


class SkillFinding(msgspec.Struct, frozen=True, order=True):
    """One finding of the scan. `what` is a phrase that continues the file's name."""

    level: Severity
    file: str
    line: int  # from 1; 0 for the file as a whole
    what: str

    def __str__(self) -> str:
        where = f"{one_line(self.file)}:{self.line}" if self.line else one_line(self.file)
        return f"{where} {self.what}"


class _ScannedFile(msgspec.Struct, frozen=True):
    path: str
    executable: bool
    size: int
    data: bytes

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.path)[1].lower()


def scan_skill(folder: Path) -> list[SkillFinding]:
    """Return the findings, worst first. Raises ConfigError for anything but regular files, such as pipes."""
    findings: set[SkillFinding] = set()
    scripts: list[ScanText] = []
    texts: list[ScanText] = []
    files = list(_read_files(folder))
    for file in files:
        findings.update(_file_type_findings(file))
        text = _decode_text(file)
        if text is None:
            continue
        texts.append(text)
        is_script_file = _is_script(file, text)
        findings.update(_to_findings(text, scan_any_text(text, is_script=is_script_file)))
        if is_script_file:
            scripts.append(text)
            findings.update(_to_findings(text, match_rules(text, is_script=True)))
        elif _is_page(file):
            findings.update(_to_findings(text, scan_page(text)))
    findings.update(_split_theft_findings(scripts))
    findings.update(_unmentioned_script_findings(files, texts))
    return sorted(findings, key=_severity_key)[:FINDINGS_MAX]


def is_script(folder: Path, path: str) -> bool:
    """Return whether a file is meant to be run."""
    ending = os.path.splitext(path)[1].lower()
    full = folder / path
    if ending in SCRIPT_SUFFIXES or (path.startswith("scripts/") and not ending):
        return True
    with open(full, "rb") as file:
        return file.read(2) == b"#!" or bool(full.stat().st_mode & stat.S_IXUSR)


def _severity_key(finding: SkillFinding) -> tuple[int, str, int, str]:
    return (finding.level != "danger", finding.file, finding.line, finding.what)


def _to_findings(text: ScanText, matches: Iterator[RawFinding]) -> Iterator[SkillFinding]:
    return (SkillFinding(level, text.path, line, what) for level, line, what in matches)


# --- reading -------------------------------------------------------------------------------------


def _read_files(folder: Path) -> Iterator[_ScannedFile]:
    left = TOTAL_BYTES_MAX
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(parent, name)
            path = os.path.relpath(full, folder)
            descriptor = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                info = os.fstat(descriptor)
                if not stat.S_ISREG(info.st_mode):
                    raise ConfigError(f"{one_line(path)} is not a regular file")
                data = file.read(min(FILE_BYTES_MAX, max(left, HEAD_BYTES)))
                if info.st_size > FILE_BYTES_MAX and left > 0:  # attacks may be hidden at the end
                    file.seek(max(FILE_BYTES_MAX, info.st_size - FILE_BYTES_MAX // 4))
                    data += b"\n" + file.read(FILE_BYTES_MAX // 4)
            left -= len(data)
            yield _ScannedFile(path, bool(info.st_mode & stat.S_IXUSR), info.st_size, data)


def _decode_text(file: _ScannedFile) -> ScanText | None:
    if b"\0" in file.data[:HEAD_BYTES]:
        return None
    text = file.data.decode("utf-8", "replace")
    if text.count("\ufffd") * 20 > len(text):
        return None
    return ScanText(file.path, text.replace("\r\n", "\n"))


def _is_page(file: _ScannedFile) -> bool:
    return file.suffix in PAGE_SUFFIXES or os.path.basename(file.path) in PAGE_NAMES


def _is_script(file: _ScannedFile, text: ScanText) -> bool:
    """Return whether the file is a script, or configuration that other programs read."""
    return not _is_page(file) and (
        file.suffix in SCRIPT_SUFFIXES | SETTINGS_SUFFIXES
        or file.executable
        or text.text.startswith("#!")
        or (file.path.startswith("scripts/") and not file.suffix)
        or os.path.basename(file.path) == "Makefile"
    )


# --- file types ----------------------------------------------------------------------------------


def _file_type_findings(file: _ScannedFile) -> Iterator[SkillFinding]:
    for head, what in _EXECUTABLE_MAGIC:
        if file.data.startswith(head) and b"\0" in file.data[:HEAD_BYTES]:
            yield SkillFinding("danger", file.path, 0, f"is {what}: what it does cannot be reviewed")
            return
    packed = next((what for head, what in _ARCHIVE_MAGIC if file.data.startswith(head)), "")
    if not packed and file.data.startswith(b"PK\x03\x04") and file.suffix not in _ZIP_DOCUMENT_SUFFIXES:
        packed = "an archive"
    if packed or file.suffix in (".pyc", ".pyo", ".class"):
        what = packed or "compiled code"
        yield SkillFinding("warning", file.path, 0, f"is {what}: its contents were not scanned")
    if _AUTOLOADED_FILES.search(file.path):
        yield SkillFinding("warning", file.path, 0, "is a file that other programs load automatically")
    if os.path.basename(file.path) == "package.json" and _INSTALL_HOOK.search(file.data.decode("utf-8", "replace")):
        yield SkillFinding("warning", file.path, 0, "runs a hook when the package is installed")
    if file.size > FILE_BYTES_MAX and b"\0" not in file.data[:HEAD_BYTES]:
        yield SkillFinding("warning", file.path, 0, "is so long that only its beginning and end were scanned")


def _split_theft_findings(scripts: Sequence[ScanText]) -> Iterator[SkillFinding]:
    """Yield data theft split over two scripts: one collects, another sends, and each looks harmless."""
    sending = next((text for text in scripts if get_expression("sends").search(text.joined)), None)
    if sending is None:
        return
    for text in scripts:
        if match := get_expression("harvests").search(text.joined):
            where = "" if text is sending else f" and {one_line(sending.path)} sends something away"
            what = f"collects private data{where}" if where else "collects private data, and sends something away"
            yield SkillFinding("danger", text.path, text.line_of(match.start()), what)


def _unmentioned_script_findings(files: Sequence[_ScannedFile], texts: Sequence[ScanText]) -> Iterator[SkillFinding]:
    """Yield scripts that no other file mentions, so that their purpose is unknown."""
    stems = {file.path: stem for file in files if (stem := _script_stem(file))}
    mentions = _find_mentions({word for stem in stems.values() for word in _word_set(stem)}, texts)
    for path, stem in stems.items():
        if not all(mentions[word] - {path} for word in _word_set(stem)):
            yield SkillFinding("warning", path, 0, "is a script that nothing else in the skill mentions")


def _script_stem(file: _ScannedFile) -> str:
    """Return the name by which other files mention a script; empty for others, and for conventional names."""
    if file.suffix not in STANDALONE_SCRIPT_SUFFIXES and not (file.executable and file.suffix not in PAGE_SUFFIXES):
        return ""
    stem = os.path.splitext(os.path.basename(file.path))[0]
    usual = stem in ("__init__", "__main__", "conftest", "index") or stem.startswith("test_") or stem.endswith("_test")
    return "" if usual else stem


def _find_mentions(words: set[str], texts: Sequence[ScanText]) -> dict[str, set[str]]:
    """Return for each word up to two files that contain it. Reads each text once."""
    paths: dict[str, set[str]] = {word: set() for word in words}
    for text in texts:
        for word in words.intersection(_word_set(text.text)) if words else ():
            if len(paths[word]) < 2:
                paths[word].add(text.path)
    return paths


def _word_set(text: str) -> set[str]:
    return set(_WORD.findall(text))
