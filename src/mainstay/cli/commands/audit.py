"""`mainstay audit show|verify|export`: who did what, in a home and all its workspaces. They only read, but for
`verify --accept`, and work while another process owns the home."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainstay.agent.auditing import accept, checked, exported
from mainstay.agent.places import GATEWAY
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.homes import home_of, kept_in, run_async
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.tree import UsageError
from mainstay.config.schema import check_workspace
from mainstay.core.audit import Entry, Wanted
from mainstay.core.errors import InputRefused
from mainstay.memory.times import moment
from mainstay.observe.chain import Against, Finding
from mainstay.observe.chain import verify as verified
from mainstay.observe.exported import Exported

FINDINGS_MAX = 100  # that are printed; the others are counted
SHOWN_MAX = 100_000
CELL_CHARS = 60


def show(options: argparse.Namespace) -> int:
    found = _entries(options)
    if options.json:
        print_json({"ok": True, "entries": [_document(one) for one in found]})
    elif not found:
        narrowed = any((options.session, options.person, options.workspace, options.kind, options.since, options.until))
        print("No entry on record is like that." if narrowed else "Nothing is on record.")
    else:
        rows = [_row(one) for one in found]
        print_table(["ENTRY", "AT (UTC)", "KIND", "WHAT", "PERSON", "WORKSPACE", "SESSION", "DETAILS"], rows, "a")
    return 0


def verify(options: argparse.Namespace) -> int:
    """1 if anything is wrong."""
    if options.file is not None:
        if options.against is not None or options.accept is not None:
            raise UsageError("--against and --accept are about the home's own audit; leave FILE out")
        with _opened(options.file) as file:
            kept = Exported(file)
            return _told(options, verified(kept.rows(), kept.end))
    data = kept_in(home_of(options))
    if not (data / GATEWAY).exists():
        raise InputRefused(f"nothing was ever kept in {data}")
    if options.accept is not None:
        run_async(accept(data, options.accept))
    if options.against is None:
        return _told(options, checked(data))
    with _opened(options.against) as file:
        return _told(options, _compared(data, file, Path(options.against).name))


def _compared(data: Path, file: BinaryIO, name: str) -> Iterator[Finding]:
    """With an earlier export, which is looked at by itself first."""
    kept = Exported(file)
    for one in verified(kept.rows(), kept.end, past=True):
        if not one.fine:
            yield Finding(f"{name}, {one.where}", one.what)
    file.seek(0)
    yield from checked(data, Against(name, Exported(file).rows()))


def export(options: argparse.Namespace) -> int:
    data = kept_in(home_of(options))
    if not (data / GATEWAY).exists():
        raise InputRefused(f"nothing was ever kept in {data}")
    lines = exported(data, options.format)
    if options.out is None:
        for line in lines:
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return 0
    out = Path(options.out)
    try:
        with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
    except FileExistsError:
        raise InputRefused(f"{out} is there already; choose another name") from None
    except OSError as error:
        raise InputRefused(f"{out} cannot be written: {error.strerror or error}") from None
    print(f"Written to {visible(str(out))}; `mainstay audit verify {visible(str(out))}` checks it.", file=sys.stderr)
    return 0


# --- reading -------------------------------------------------------------------------------------


def _entries(options: argparse.Namespace) -> list[Entry]:
    if options.limit > SHOWN_MAX:
        raise InputRefused(f"at most {SHOWN_MAX} entries are shown; `mainstay audit export` writes all of them")
    now = time.time_ns() // 1_000_000
    wanted = Wanted(
        session=options.session,
        person=options.person,
        workspace=check_workspace(options.workspace) if options.workspace is not None else None,
        kind=options.kind,
        since=moment(options.since, now),
        until=moment(options.until, now, end=True),
        limit=options.limit,
    )
    path = kept_in(home_of(options)) / GATEWAY
    if not path.exists():
        return []
    from mainstay.store.sqlite.audit_file import AuditFile  # its engine is loaded only where there is something

    with AuditFile(path) as file:
        return file.entries(wanted)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    try:
        with open(name, "rb") as file:
            yield file
    except OSError as error:
        raise InputRefused(f"{name} cannot be read: {error.strerror or error}") from None


# --- in words ------------------------------------------------------------------------------------


def _told(options: argparse.Namespace, findings: Iterable[Finding]) -> int:
    wrong: list[Finding] = []
    fine: list[Finding] = []
    more = 0
    for one in findings:
        kept = fine if one.fine else wrong
        if len(kept) < FINDINGS_MAX:
            kept.append(one)
        else:
            more += not one.fine
    if options.json:
        print_json({"ok": not wrong, "findings": wrong, "notes": fine, "more": more})
        return 1 if wrong else 0
    for one in fine:
        print(f"note: {visible(str(one))}")
    for one in wrong:
        print(paint(visible(str(one)), "red"))
    if more:
        print(f"and {more} more")
    if not wrong:
        print("Every entry is as it was written.")
    else:
        print(f"{count(len(wrong) + more, 'thing')} wrong.")
    return 1 if wrong else 0


def _row(one: Entry) -> list[str]:
    who = [one.person, one.workspace, _cell(one.session)]
    return [str(one.seq), _time(one.at), one.kind, _cell(one.what), *who, _cell(one.details)]


def _document(one: Entry) -> dict[str, object]:
    fields: dict[str, object] = msgspec.structs.asdict(one)
    try:
        return fields | {"details": msgspec.json.decode(one.details)}
    except msgspec.DecodeError:  # somebody changed it; as it is
        return fields


def _time(at_ms: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):  # somebody changed it
        return str(at_ms)


def _cell(text: str) -> str:
    return text if len(text) <= CELL_CHARS or not sys.stdout.isatty() else text[: CELL_CHARS - 1] + "…"
