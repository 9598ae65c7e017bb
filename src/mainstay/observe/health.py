"""Health check of the audit log: what its verification found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from mainstay.core.health import CheckFinding
from mainstay.observe.audit_verifier import AuditFinding

AUDIT_FINDINGS_MAX = 3  # `audit verify` prints all of them


def check_audit_log(verified: Iterable[AuditFinding], *, has_log: bool) -> Iterator[CheckFinding]:
    """Report the first problems of a verification. No finding if there is no log."""
    problems = list(islice((finding for finding in verified if not finding.is_note), AUDIT_FINDINGS_MAX))
    if not problems and has_log:
        yield CheckFinding("Audit", "ok", "every entry is unchanged")
    for problem in problems:
        yield CheckFinding("Audit", "FAIL", str(problem), "mainstay audit verify; see docs/how-to/audit.md")
