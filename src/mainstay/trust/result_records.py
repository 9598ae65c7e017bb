"""Records of tool results: objects, rows of tables, and lines of lists, each with its own id and its short texts.

A list or a search returns things in many forms: `| DL-4 | Bakery |` below a header, `D108 | receipt.pdf`, lines with
tabs, `- Da Piero (R-52), Italian`, `#15 Translate the shop`, paths. The id of a line is the one token of it that looks
like one: in the first cell, in brackets after the name, or the only one of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from mainstay.trust.request_vocabulary import can_name
from mainstay.trust.requested_actions import find_dates, words_of

_CELLS = re.compile(r"\s\|\s|\t")
_CELLS_MIN = 2
_ROW_ID = re.compile(r"#?[\w.-]{1,40}|(?:~|\.{0,2})/[^\s|]{1,200}|[\w.-]+(?:/[\w.-]+)+")
_RULE = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|?)+\s*")
_BULLET = re.compile(r"^\s*(?:[-*\u2022]|\d{1,3}[.)])\s+")
# an id has a digit and a letter or a sign before it
_ID = r"(?:[A-Za-z]{1,6}[-_]?\d[\w-]{0,30}|#\d{1,12})"
_BRACKETED_ID = re.compile(
    rf"^(?P<name>[^()\[\]]{{2,80}}?)\s*[(\[](?:id:? ?)?(?P<id>{_ID}|\d{{1,12}})[)\]](?P<rest>.*)$"
)
_FIRST_ID = re.compile(rf"^\**(?P<id>{_ID}|(?:~|\.{{0,2}})/[^\s|,;]+)\**[\s:,\u2013-]+(?P<rest>\S.*)$")
_SEPARATOR = re.compile(r"\s[-\u2013\u2014]\s|[;,]\s|:\s")
_NAME_WORDS_MAX = 8  # a text of more words is content, not a name
_TITLE_WORDS_MAX = 16  # of a field that is a title
_TITLE_KEY = re.compile(r"title|subject|name|summary|headline|betreff", re.IGNORECASE)
_DATE_CHARS_MAX = 40  # a longer text is no date
FIELD_CHARS_MAX = 200  # longer texts of a record are content, not names


class ResultRecord(msgspec.Struct, frozen=True, eq=False):
    """One object of a structured result (or one line or item of a trusted one): its own id and its short texts."""

    id: str  # empty: it has none
    texts: tuple[str, ...]
    values: frozenset[str]  # id and texts, as destinations are compared
    words: frozenset[str]  # the words of its texts that can name something
    names: tuple[str, ...]  # its texts as words, without the suffix of file names
    dates: frozenset[tuple[int, int]]  # months and days
    keys: frozenset[str] = frozenset()  # the names of its fields
    numbers: frozenset[float] = frozenset()  # the values of its numeric fields, which no text can forge
    fields: Mapping[str, str] = {}  # its short values by name
    is_group: bool = False  # it has a list of texts: participants, members
    is_row: bool = False  # it is a line or row of a text, which the text of a cell may have forged


def normalise_reader(text: str) -> str:
    """Return the form in which readers and destinations are compared: the address of `Ann <ann@example.org>`."""
    address = re.search(r"<([^<>@\s]+@[^<>@\s]+)>\s*$", text)
    return (address[1] if address else text).strip().removeprefix("mailto:").lstrip("#@").casefold()


def build_record(
    id: str,
    texts: tuple[str, ...],
    keys: frozenset[str] = frozenset(),
    numbers: frozenset[float] = frozenset(),
    fields: Mapping[str, str] | None = None,
    *,
    is_group: bool = False,
) -> ResultRecord:
    titles = {text for name, text in (fields or {}).items() if _TITLE_KEY.fullmatch(name)}
    words = [words_of(re.sub(r"\.\w{1,5}$", "", text)) for text in texts]
    return ResultRecord(
        id,
        texts,
        frozenset(normalise_reader(text) for text in (*texts, id) if text),
        frozenset(
            word
            for text in texts
            if len(text.split()) <= (_TITLE_WORDS_MAX if text in titles else _NAME_WORDS_MAX)
            for word in words_of(text)
            if can_name(word)
        ),
        tuple(" ".join(name) for name in (*words, *_name_paths(texts)) if any(can_name(word) for word in name)),
        frozenset(date for text in texts if len(text) <= _DATE_CHARS_MAX for date in find_dates(text)),
        keys,
        numbers,
        fields or {},
        is_group,
    )


def _name_paths(texts: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the words of a file's name and of its folder and name: `halden plan` for /work/halden/plan.md."""
    for text in texts:
        parts = re.sub(r"\.\w{1,5}$", "", text).strip("/").split("/") if " " not in text else []
        if len(parts) > 1:
            yield words_of(parts[-1])
            yield words_of(" ".join(parts[-2:]))


def iterate_lines(content: str) -> Iterator[ResultRecord]:
    """Yield the records of a text: rows of tables, and lines with an id."""
    header: list[str] = []
    lines = content.splitlines()
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in _CELLS.split(line.strip().removeprefix("|").removesuffix("|"))]
        if _RULE.fullmatch(line):
            continue
        if number + 1 < len(lines) and "|" in line and _RULE.fullmatch(lines[number + 1]):
            header = cells
        elif len(cells) >= _CELLS_MIN and _ROW_ID.fullmatch(cells[0]):
            if not header or line.lstrip()[:1] != "|":
                yield build_record(cells[0], _name_cells(cells[0], cells[1:]))
            elif len(header) == len(cells):  # otherwise the text of a cell has added one
                yield _build_row(header, cells)
        elif record := _build_line(_BULLET.sub("", line, count=1)):
            yield record


def _build_row(header: list[str], cells: list[str]) -> ResultRecord:
    fields = {key.casefold(): cell for key, cell in zip(header, cells, strict=True) if len(cell) <= FIELD_CHARS_MAX}
    record = build_record(cells[0], _name_cells(cells[0], cells[1:]), frozenset(fields), fields=fields)
    return msgspec.structs.replace(record, is_row=True)


def _name_cells(id: str, cells: list[str]) -> tuple[str, ...]:
    """Return the short texts of a row; a path is a name, too."""
    own = (id,) if "/" in id else ()
    return (*own, *(cell for cell in cells if 0 < len(cell) <= FIELD_CHARS_MAX))


def _build_line(line: str) -> ResultRecord | None:
    found = _BRACKETED_ID.match(line) or _FIRST_ID.match(line)
    if found is None:
        return None
    parts = [found["rest"]] if "name" not in found.groupdict() else [found["name"], found["rest"]]
    texts = [text.strip() for part in parts for text in _SEPARATOR.split(part) if text.strip()]
    return build_record(found["id"].removeprefix("#"), _name_cells(found["id"], texts))
