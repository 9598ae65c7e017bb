"""`mainstay audit show|verify|export`: the audit log of a home and all its workspaces.

Read-only except for `verify --accept`; works while another process owns the home.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from mainstay.agent.home_audit import accept_resumed_entry, export_audit, find_lost_journals, verify_audit
from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.cli.commands.home_locator import load_storage, locate_data_folder, resolve_home, run_async
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.parser.root import UsageError
from mainstay.config.schema import check_workspace
from mainstay.core.audit import AuditEntry, AuditQuery
from mainstay.core.errors import InputRefused
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.memory.time_expressions import parse_time
from mainstay.observe.audit_export import AuditExportReader
from mainstay.observe.audit_verifier import AuditFinding, ExportComparison
from mainstay.observe.audit_verifier import verify_chain as verified

FINDINGS_MAX = 100  # printed; the others are only counted
ENTRIES_MAX = 100_000
CELL_CHARS_MAX = 60


def show(options: argparse.Namespace) -> int:
    entries = _load_entries(options)
    if options.json:
        print_json({"ok": True, "entries": [_to_document(entry) for entry in entries]})
    elif not entries:
        filtered = any((options.session, options.person, options.workspace, options.kind, options.since, options.until))
        print("No entry matches." if filtered else "The audit log is empty.")
    else:
        rows = [_format_row(entry) for entry in entries]
        print_table(["ENTRY", "AT (UTC)", "KIND", "WHAT", "PERSON", "WORKSPACE", "SESSION", "DETAILS"], rows, "a")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Verify the audit log or an export of it; exit code 1 if anything is wrong."""
    if options.file is not None:
        if options.against is not None or options.accept is not None:
            raise UsageError("--against and --accept apply to the home's own audit log; omit FILE")
        with _open_file(options.file) as file:
            log = AuditExportReader(file)
            return _print_findings(options, verified(log.rows(), log.anchor))
    home = resolve_home(options)
    data = locate_data_folder(home)
    if not (data / GATEWAY_DATABASE).exists():
        raise InputRefused(f"there is no audit log in {data}")
    lost = find_lost_journals(data, load_storage(home))
    if options.accept is not None:
        run_async(accept_resumed_entry(data, options.accept))
    if options.against is None:
        return _print_findings(options, chain(verify_audit(data), lost))
    with _open_file(options.against) as file:
        compared = _compare_with_export(data, file, Path(options.against).name)
        return _print_findings(options, chain(compared, lost))


def _compare_with_export(data: Path, file: BinaryIO, name: str) -> Iterator[AuditFinding]:
    """Compare the audit log with an earlier export, after verifying the export itself."""
    log = AuditExportReader(file)
    for finding in verified(log.rows(), log.anchor, is_prefix=True):
        if not finding.is_note:
            yield AuditFinding(f"{name}, {finding.location}", finding.message)
    file.seek(0)
    yield from verify_audit(data, ExportComparison(name, AuditExportReader(file).rows()))


def export(options: argparse.Namespace) -> int:
    data = locate_data_folder(resolve_home(options))
    if not (data / GATEWAY_DATABASE).exists():
        raise InputRefused(f"there is no audit log in {data}")
    lines = export_audit(data, options.format)
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
        raise InputRefused(f"{out} already exists; choose another name") from None
    except OSError as error:
        raise InputRefused(f"{out} cannot be written: {error.strerror or error}") from None
    path = escape_line(str(out))
    print(f"Written to {path}; verify it with `mainstay audit verify {path}`.", file=sys.stderr)
    return 0


# --- reading -------------------------------------------------------------------------------------


def _load_entries(options: argparse.Namespace) -> list[AuditEntry]:
    if options.limit > ENTRIES_MAX:
        raise InputRefused(f"--limit is at most {ENTRIES_MAX}; `mainstay audit export` writes all entries")
    now = time.time_ns() // 1_000_000
    wanted = AuditQuery(
        session=options.session,
        person=options.person,
        workspace=check_workspace(options.workspace) if options.workspace is not None else None,
        kind=options.kind,
        since=parse_time(options.since, now),
        until=parse_time(options.until, now, end=True),
        limit=options.limit,
    )
    path = locate_data_folder(resolve_home(options)) / GATEWAY_DATABASE
    if not path.exists():
        return []
    from mainstay.store.sqlite.audit_log_reader import AuditSnapshot  # SQLite is imported only if there is a database

    with AuditSnapshot(path) as file:
        return file.find_entries(wanted)


@contextmanager
def _open_file(name: str) -> Iterator[BinaryIO]:
    try:
        with open(name, "rb") as file:
            yield file
    except OSError as error:
        raise InputRefused(f"{name} cannot be read: {error.strerror or error}") from None


# --- output --------------------------------------------------------------------------------------


def _print_findings(options: argparse.Namespace, findings: Iterable[AuditFinding]) -> int:
    wrong: list[AuditFinding] = []
    fine: list[AuditFinding] = []
    more = 0
    for finding in findings:
        listed = fine if finding.is_note else wrong
        if len(listed) < FINDINGS_MAX:
            listed.append(finding)
        else:
            more += not finding.is_note
    if options.json:
        print_json({"ok": not wrong, "findings": wrong, "notes": fine, "more": more})
        return 1 if wrong else 0
    for finding in fine:
        print(f"note: {escape_line(str(finding))}")
    for finding in wrong:
        print(style_text(escape_line(str(finding)), "red"))
    if more:
        print(f"and {more} more")
    if not wrong:
        print("Every entry is unchanged.")
    else:
        print(f"{format_count(len(wrong) + more, 'problem')} found.")
    return 1 if wrong else 0


def _format_row(entry: AuditEntry) -> list[str]:
    who = [entry.person, entry.workspace, _shorten_cell(entry.session)]
    return [
        str(entry.seq),
        _format_time(entry.at),
        entry.kind,
        _shorten_cell(entry.what),
        *who,
        _shorten_cell(entry.details),
    ]


def _to_document(entry: AuditEntry) -> dict[str, object]:
    fields: dict[str, object] = msgspec.structs.asdict(entry)
    try:
        return fields | {"details": msgspec.json.decode(entry.details)}
    except msgspec.DecodeError:  # the entry was tampered with; show it unchanged
        return fields


def _format_time(at_ms: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):  # the entry was tampered with
        return str(at_ms)


def _shorten_cell(text: str) -> str:
    return text if len(text) <= CELL_CHARS_MAX or not sys.stdout.isatty() else text[: CELL_CHARS_MAX - 1] + "…"
