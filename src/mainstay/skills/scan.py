"""What a skill may be up to, looked at before it is installed: its words, its scripts, and what it brings beside them.

A scan proves nothing. It finds what is known of attacks, says where, and leaves the decision to a person: `danger` is
what no honest skill has to do, `warning` is what is worth a look.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.skills.scan_pages import page_findings, word_findings
from mainstay.skills.scan_rules import Level, named
from mainstay.skills.scan_text import Found, Text, by_rules
from mainstay.trust.guards.lines import one_line

FILE_BYTES_MAX = 1024 * 1024  # of a longer one the beginning and the end are looked at
BYTES_MAX = 16 * 1024 * 1024
FINDINGS_MAX = 100
HEAD_BYTES = 8 * 1024

PAGES = frozenset({".md", ".mdx", ".markdown", ".txt", ".rst", ".html", ".htm"})
PAGE_NAMES = frozenset({"LICENSE", "README", "NOTICE", "Dockerfile"})  # what builds a container runs in it
RUN_BY_HAND = frozenset(
    {
        *(".py", ".pyw", ".sh", ".bash", ".zsh", ".fish", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"),
        *(".ps1", ".psm1", ".bat", ".cmd", ".vbs", ".applescript", ".scpt"),
    }
)
SCRIPT_ENDINGS = RUN_BY_HAND | {
    *(".tsx", ".jsx", ".r", ".jl", ".go", ".rs", ".java", ".kt", ".swift", ".c", ".cpp", ".cs"),
}
SETTINGS_ENDINGS = frozenset({".json", ".jsonc", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".env", ".conf"})
_MACHINE_CODE = (
    (b"\x7fELF", "a program for Linux"),
    (b"MZ", "a program for Windows"),
    (b"\xcf\xfa\xed\xfe", "a program for macOS"),
    (b"\xce\xfa\xed\xfe", "a program for macOS"),
    (b"\xca\xfe\xba\xbe", "a program for macOS or Java"),
    (b"dex\n", "a program for Android"),
)
_PACKED = (
    (b"\x1f\x8b", "an archive"),
    (b"7z\xbc\xaf", "an archive"),
    (b"Rar!", "an archive"),
    (b"\xfd7zXZ", "an archive"),
    (b"BZh", "an archive"),
    (b"\0asm", "WebAssembly"),
)
_DOCUMENTS = frozenset(
    {
        *(".docx", ".xlsx", ".pptx", ".dotx", ".xltx", ".potx", ".odt", ".ods", ".odp", ".epub"),
        *(".pages", ".key", ".numbers", ".vsdx", ".sketch"),
    }
)
_HABITS = re.compile(  # what other programs obey when they find it
    r"(?:^|/)(?:\.claude/(?:settings[\w.]{0,12}\.json|hooks/.{1,80})|\.mcp\.json|hooks\.json|\.cursorrules|\.envrc"
    r"|\.vscode/(?:tasks|settings)\.json|\.git(?:config|modules)|\.npmrc|\.pth|sitecustomize\.py|conftest\.py)$|\.pth$"
)
_WORD = re.compile(r"[^\W_](?:[\w-]{0,98}[^\W_])?")
_INSTALL_HOOK = re.compile(r'"(?:pre|post)?install"\s{0,4}:\s{0,4}"|"prepare"\s{0,4}:\s{0,4}"')


class Finding(msgspec.Struct, frozen=True, order=True):
    """One thing that was found: where, and what it is, as a phrase that goes on from the file's name."""

    level: Level
    file: str
    line: int  # from 1; 0 for the file as a whole
    what: str

    def __str__(self) -> str:
        where = f"{one_line(self.file)}:{self.line}" if self.line else one_line(self.file)
        return f"{where} {self.what}"


class _File(msgspec.Struct, frozen=True):
    path: str
    executable: bool
    size: int
    data: bytes

    @property
    def ending(self) -> str:
        return os.path.splitext(self.path)[1].lower()


def scan(folder: Path) -> list[Finding]:
    """What was found, the worst first. Raises ConfigError for links and whatever else is no file."""
    found: set[Finding] = set()
    scripts: list[Text] = []
    texts: list[Text] = []
    files = list(_read(folder))
    for file in files:
        found.update(_of_its_kind(file))
        text = _text_of(file)
        if text is None:
            continue
        texts.append(text)
        runs = _is_script(file, text)
        found.update(_as_findings(text, word_findings(text, script=runs)))
        if runs:
            scripts.append(text)
            found.update(_as_findings(text, by_rules(text, script=True)))
        elif _is_page(file):
            found.update(_as_findings(text, page_findings(text)))
    found.update(_together(scripts))
    found.update(_unmentioned(files, texts))
    return sorted(found, key=_worst_first)[:FINDINGS_MAX]


def is_script(folder: Path, path: str) -> bool:
    """A file that is meant to be run."""
    ending = os.path.splitext(path)[1].lower()
    full = folder / path
    if ending in SCRIPT_ENDINGS or (path.startswith("scripts/") and not ending):
        return True
    with open(full, "rb") as file:
        return file.read(2) == b"#!" or bool(full.stat().st_mode & stat.S_IXUSR)


def _worst_first(one: Finding) -> tuple[int, str, int, str]:
    return (one.level != "danger", one.file, one.line, one.what)


def _as_findings(text: Text, found: Iterator[Found]) -> Iterator[Finding]:
    return (Finding(level, text.path, line, what) for level, line, what in found)


# --- reading -------------------------------------------------------------------------------------


def _read(folder: Path) -> Iterator[_File]:
    left = BYTES_MAX
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(above, name)
            path = os.path.relpath(full, folder)
            opened = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(opened, "rb") as file:
                found = os.fstat(opened)
                if not stat.S_ISREG(found.st_mode):
                    raise ConfigError(f"{one_line(path)} is something else than a file")
                data = file.read(min(FILE_BYTES_MAX, max(left, HEAD_BYTES)))
                if found.st_size > FILE_BYTES_MAX and left > 0:  # what is hidden stands at the end
                    file.seek(max(FILE_BYTES_MAX, found.st_size - FILE_BYTES_MAX // 4))
                    data += b"\n" + file.read(FILE_BYTES_MAX // 4)
            left -= len(data)
            yield _File(path, bool(found.st_mode & stat.S_IXUSR), found.st_size, data)


def _text_of(file: _File) -> Text | None:
    if b"\0" in file.data[:HEAD_BYTES]:
        return None
    text = file.data.decode("utf-8", "replace")
    if text.count("\ufffd") * 20 > len(text):
        return None
    return Text(file.path, text.replace("\r\n", "\n"))


def _is_page(file: _File) -> bool:
    return file.ending in PAGES or os.path.basename(file.path) in PAGE_NAMES


def _is_script(file: _File, text: Text) -> bool:
    """What is run, and what programs are told by."""
    return not _is_page(file) and (
        file.ending in SCRIPT_ENDINGS | SETTINGS_ENDINGS
        or file.executable
        or text.text.startswith("#!")
        or (file.path.startswith("scripts/") and not file.ending)
        or os.path.basename(file.path) == "Makefile"
    )


# --- what a file is ------------------------------------------------------------------------------


def _of_its_kind(file: _File) -> Iterator[Finding]:
    for head, what in _MACHINE_CODE:
        if file.data.startswith(head) and b"\0" in file.data[:HEAD_BYTES]:
            yield Finding("danger", file.path, 0, f"is {what}: nobody can read what it does")
            return
    packed = next((what for head, what in _PACKED if file.data.startswith(head)), "")
    if not packed and file.data.startswith(b"PK\x03\x04") and file.ending not in _DOCUMENTS:
        packed = "an archive"
    if packed or file.ending in (".pyc", ".pyo", ".class"):
        what = packed or "compiled code"
        yield Finding("warning", file.path, 0, f"is {what}: what is in it was not looked at")
    if _HABITS.search(file.path):
        yield Finding("warning", file.path, 0, "is a file that other programs obey when they find it")
    if os.path.basename(file.path) == "package.json" and _INSTALL_HOOK.search(file.data.decode("utf-8", "replace")):
        yield Finding("warning", file.path, 0, "runs something of its own when it is installed")
    if file.size > FILE_BYTES_MAX and b"\0" not in file.data[:HEAD_BYTES]:
        yield Finding("warning", file.path, 0, "is so long that only its beginning and end were looked at")


def _together(scripts: Sequence[Text]) -> Iterator[Finding]:
    """One file collects and another sends: each looks harmless."""
    sending = next((text for text in scripts if named("sends").search(text.joined)), None)
    if sending is None:
        return
    for text in scripts:
        if found := named("harvests").search(text.joined):
            where = "" if text is sending else f" and {one_line(sending.path)} sends something away"
            what = f"collects what is private{where}" if where else "collects what is private, and sends something away"
            yield Finding("danger", text.path, text.line_of(found.start()), what)


def _unmentioned(files: Sequence[_File], texts: Sequence[Text]) -> Iterator[Finding]:
    """Scripts that no other file names: nobody is told what they are for."""
    stems = {file.path: stem for file in files if (stem := _stem(file))}
    mentions = _mentions({word for stem in stems.values() for word in _words(stem)}, texts)
    for path, stem in stems.items():
        if not all(mentions[word] - {path} for word in _words(stem)):
            yield Finding("warning", path, 0, "is a script that nothing else in the skill mentions")


def _stem(file: _File) -> str:
    """What others call a script by; empty for what is no script, or needs no mention."""
    if file.ending not in RUN_BY_HAND and not (file.executable and file.ending not in PAGES):
        return ""
    stem = os.path.splitext(os.path.basename(file.path))[0]
    usual = stem in ("__init__", "__main__", "conftest", "index") or stem.startswith("test_") or stem.endswith("_test")
    return "" if usual else stem


def _mentions(words: set[str], texts: Sequence[Text]) -> dict[str, set[str]]:
    """For each of these words two of the files that have it: each text is gone through once, whatever is asked."""
    found: dict[str, set[str]] = {word: set() for word in words}
    for text in texts:
        for word in words.intersection(_words(text.text)) if words else ():
            if len(found[word]) < 2:
                found[word].add(text.path)
    return found


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
