"""Applies a parsed patch to a text: each hunk where its old lines are, and only where that is unambiguous."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from mainstay.io.patch_parser import FilePatch, Hunk, PatchRefused

MATCHES_MAX = 10
_KEYBOARD_CHARS = {
    **dict.fromkeys((0x2018, 0x2019, 0x201A), "'"),
    **dict.fromkeys((0x201C, 0x201D, 0x201E), '"'),
    **dict.fromkeys((0x2013, 0x2014, 0x2212), "-"),
}

# Normalisers for comparing lines, tried in turn. All but the exact one apply only where a single place matches.
_EXACT_NORMALIZER: Callable[[str], str] = str
_LOOSER_NORMALIZERS: tuple[Callable[[str], str], ...] = (
    str.rstrip,
    lambda line: " ".join(line.split()),
    lambda line: " ".join(_to_keyboard_chars(line).split()),
)


def apply_patch_to_text(text: str, patch: FilePatch) -> str:
    """Return the text with all hunks applied. Keeps CRLF line ends. Raises PatchRefused."""
    has_crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    result = _apply_hunks(text.replace("\r\n", "\n") if has_crlf else text, patch)
    return result.replace("\n", "\r\n") if has_crlf else result


def _apply_hunks(text: str, patch: FilePatch) -> str:
    lines = text.split("\n")
    ends_with_newline = not lines[-1]
    if ends_with_newline:
        lines.pop()
    result: list[str] = []
    done = 0  # old lines consumed
    for number, hunk in enumerate(patch.hunks, start=1):
        where = f"{_display_path(patch)}, change {number}"
        at = _locate_hunk(lines, hunk, done, where)
        result += lines[done:at]
        done = at
        for sign, new in hunk.lines:
            if sign == "+":
                result.append(new)
                continue
            if sign == " ":
                result.append(lines[done])  # as in the file, not as in the patch
            done += 1
        if hunk.final_newlines is not None and done == len(lines):
            ends_with_newline = hunk.final_newlines[1]
    result += lines[done:]
    if not text:
        ends_with_newline = (
            not patch.hunks or patch.hunks[-1].final_newlines is None or patch.hunks[-1].final_newlines[1]
        )
    return "\n".join(result) + ("\n" if ends_with_newline and result else "")


def _locate_hunk(lines: Sequence[str], hunk: Hunk, first: int, location: str) -> int:
    """Return the index of the line where the hunk begins."""
    if hunk.anchor:
        first = _find_anchor(lines, hunk.anchor, first, location)
    old = hunk.old_lines
    if not old:
        return _locate_insertion(lines, hunk, first, location)
    hint = None if hunk.start_line is None else hunk.start_line - 1
    matches = _find_lines(lines, old, first, _EXACT_NORMALIZER, hint)
    if hunk.is_at_end:
        matches = [at for at in matches if at + len(old) == len(lines)]
    if len(matches) == 1 or (matches and hunk.anchor):
        return matches[0]
    if matches:
        nearest = sorted(matches, key=lambda at: abs(at - (hint or 0)))
        if hint is not None and abs(nearest[0] - hint) < abs(nearest[1] - hint):
            return nearest[0]
        places = ", ".join(str(at + 1) for at in matches[:MATCHES_MAX])
        raise PatchRefused(f"{location} matches at lines {places}: give more lines of context. Nothing was changed.")
    return _locate_loosely(lines, hunk, first, location)


def _locate_loosely(lines: Sequence[str], hunk: Hunk, first: int, location: str) -> int:
    for normalize in _LOOSER_NORMALIZERS:
        matches = _find_lines(lines, hunk.old_lines, first, normalize, None)
        if hunk.is_at_end:
            matches = [at for at in matches if at + len(hunk.old_lines) == len(lines)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            places = ", ".join(str(at + 1) for at in matches)
            raise PatchRefused(
                f"{location} has no exact match; apart from white space, lines {places} match. Nothing was changed."
            )
    if _find_lines(lines, hunk.old_lines, 0, _LOOSER_NORMALIZERS[-1], None):
        raise PatchRefused(
            f"{location} matches only before the preceding change: put the changes in order. Nothing was changed."
        )
    first_line = next((line for line in hunk.old_lines if line.strip()), "")
    raise PatchRefused(
        f"{location}: its lines are not in the file, from {_quote_line(first_line)} on. Nothing was changed."
    )


def _locate_insertion(lines: Sequence[str], hunk: Hunk, first: int, location: str) -> int:
    if hunk.start_line is not None:
        if not first <= hunk.start_line <= len(lines):
            raise PatchRefused(f"{location}: there is no line {hunk.start_line} to insert after. Nothing was changed.")
        return hunk.start_line
    return first if hunk.anchor and not hunk.is_at_end else len(lines)


def _find_anchor(lines: Sequence[str], anchor: str, first: int, location: str) -> int:
    """Return the index after the first line equal to the anchor: where the search for the hunk starts."""
    for normalize in (_EXACT_NORMALIZER, *_LOOSER_NORMALIZERS):
        normalized = normalize(anchor)
        for at in range(first, len(lines)):
            if normalize(lines[at]) == normalized:
                return at + 1
    raise PatchRefused(f"{location}: there is no line {_quote_line(anchor)} for its @@. Nothing was changed.")


def _find_lines(
    lines: Sequence[str], old_lines: Sequence[str], first: int, normalize: Callable[[str], str], hint: int | None
) -> list[int]:
    """Return where the lines occur, from `first` on: all places if there is a hint, else at most MATCHES_MAX."""
    is_exact = normalize is _EXACT_NORMALIZER
    file_lines = list(lines) if is_exact else [normalize(line) for line in lines]
    wanted_lines = list(old_lines) if is_exact else [normalize(line) for line in old_lines]
    if hint is not None and hint >= first and file_lines[hint : hint + len(wanted_lines)] == wanted_lines:
        return [hint]
    matches: list[int] = []
    at = first - 1
    last = len(file_lines) - len(wanted_lines)
    while at < last and (hint is not None or len(matches) < MATCHES_MAX):
        try:
            at = file_lines.index(wanted_lines[0], at + 1, last + 1)
        except ValueError:
            break
        if file_lines[at : at + len(wanted_lines)] == wanted_lines:
            matches.append(at)
    return matches


def _to_keyboard_chars(line: str) -> str:
    """Replace typographic quotes, dashes and spaces by those on a keyboard."""
    return unicodedata.normalize("NFKC", line.translate(_KEYBOARD_CHARS))


def _display_path(patch: FilePatch) -> str:
    return patch.path if patch.path.isprintable() else ascii(patch.path)


def _quote_line(line: str) -> str:
    return repr(line.strip()[:100])
