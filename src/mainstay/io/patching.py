"""Carrying a patch out on a text: each hunk where its old lines are, and only where that is clear."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from mainstay.io.patch import FilePatch, Hunk, PatchRefused

FOUND_MAX = 10
_TYPED = {
    **dict.fromkeys((0x2018, 0x2019, 0x201A), "'"),
    **dict.fromkeys((0x201C, 0x201D, 0x201E), '"'),
    **dict.fromkeys((0x2013, 0x2014, 0x2212), "-"),
}

# How strictly lines are compared, one after the other. All but the first only where a single place fits.
_EXACT: Callable[[str], str] = str
_LOOSER: tuple[Callable[[str], str], ...] = (
    str.rstrip,
    lambda line: " ".join(line.split()),
    lambda line: " ".join(_plain(line).split()),
)


def patched(text: str, patch: FilePatch) -> str:
    """The text with all hunks carried out, or PatchRefused."""
    returns = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    made = _patched(text.replace("\r\n", "\n") if returns else text, patch)
    return made.replace("\n", "\r\n") if returns else made


def _patched(text: str, patch: FilePatch) -> str:
    lines = text.split("\n")
    ended = not lines[-1]
    if ended:
        lines.pop()
    result: list[str] = []
    done = 0  # of the old lines
    for number, hunk in enumerate(patch.hunks, start=1):
        where = f"{_name(patch)}, change {number}"
        at = _place(lines, hunk, done, where)
        result += lines[done:at]
        done = at
        for sign, new in hunk.lines:
            if sign == "+":
                result.append(new)
                continue
            if sign == " ":
                result.append(lines[done])  # as it stands there, not as the patch has it
            done += 1
        if hunk.ends is not None and done == len(lines):
            ended = hunk.ends[1]
    result += lines[done:]
    if not text:
        ended = not patch.hunks or patch.hunks[-1].ends is None or patch.hunks[-1].ends[1]
    return "\n".join(result) + ("\n" if ended and result else "")


def _place(lines: Sequence[str], hunk: Hunk, first: int, where: str) -> int:
    """The index at which the hunk begins."""
    if hunk.anchor:
        first = _after(lines, hunk.anchor, first, where)
    old = hunk.old
    if not old:
        return _insertion(lines, hunk, first, where)
    hint = None if hunk.start is None else hunk.start - 1
    found = _find(lines, old, first, _EXACT, hint)
    if hunk.at_end:
        found = [at for at in found if at + len(old) == len(lines)]
    if len(found) == 1 or (found and hunk.anchor):
        return found[0]
    if found:
        nearest = sorted(found, key=lambda at: abs(at - (hint or 0)))
        if hint is not None and abs(nearest[0] - hint) < abs(nearest[1] - hint):
            return nearest[0]
        places = ", ".join(str(at + 1) for at in found[:FOUND_MAX])
        raise PatchRefused(f"{where} fits at lines {places}: give more lines around it. Nothing was changed.")
    return _loosely(lines, hunk, first, where)


def _loosely(lines: Sequence[str], hunk: Hunk, first: int, where: str) -> int:
    for settle in _LOOSER:
        found = _find(lines, hunk.old, first, settle, None)
        if hunk.at_end:
            found = [at for at in found if at + len(hunk.old) == len(lines)]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(str(at + 1) for at in found)
            raise PatchRefused(
                f"{where} is nowhere exactly so, and but for white space at lines {places}. Nothing was changed."
            )
    if _find(lines, hunk.old, 0, _LOOSER[-1], None):
        raise PatchRefused(
            f"{where} fits only before the change that comes first: put them in order. Nothing was changed."
        )
    wanted = next((line for line in hunk.old if line.strip()), "")
    raise PatchRefused(f"{where}: its lines are not in the file, from {_quoted(wanted)} on. Nothing was changed.")


def _insertion(lines: Sequence[str], hunk: Hunk, first: int, where: str) -> int:
    if hunk.start is not None:
        if not first <= hunk.start <= len(lines):
            raise PatchRefused(f"{where}: there is no line {hunk.start} to come after. Nothing was changed.")
        return hunk.start
    return first if hunk.anchor and not hunk.at_end else len(lines)


def _after(lines: Sequence[str], anchor: str, first: int, where: str) -> int:
    """Behind the line that an @@ names; the first such line, as it only says where to begin looking."""
    for settle in (_EXACT, *_LOOSER):
        wanted = settle(anchor)
        for at in range(first, len(lines)):
            if settle(lines[at]) == wanted:
                return at + 1
    raise PatchRefused(f"{where}: there is no line {_quoted(anchor)} for its @@. Nothing was changed.")


def _find(
    lines: Sequence[str], old: Sequence[str], first: int, settle: Callable[[str], str], hint: int | None
) -> list[int]:
    """Where these lines are, from the first that may be; with a hint all of them, without only so many."""
    plain = settle is _EXACT
    have = list(lines) if plain else [settle(line) for line in lines]
    want = list(old) if plain else [settle(line) for line in old]
    if hint is not None and hint >= first and have[hint : hint + len(want)] == want:
        return [hint]
    found: list[int] = []
    at = first - 1
    last = len(have) - len(want)
    while at < last and (hint is not None or len(found) < FOUND_MAX):
        try:
            at = have.index(want[0], at + 1, last + 1)
        except ValueError:
            break
        if have[at : at + len(want)] == want:
            found.append(at)
    return found


def _plain(line: str) -> str:
    """With the quotes, dashes and spaces that a keyboard has."""
    return unicodedata.normalize("NFKC", line.translate(_TYPED))


def _name(patch: FilePatch) -> str:
    return patch.path if patch.path.isprintable() else ascii(patch.path)


def _quoted(line: str) -> str:
    return repr(line.strip()[:100])
