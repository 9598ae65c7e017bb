"""Health check of the audit log."""

from __future__ import annotations

from mainstay.observe.audit_verifier import AuditFinding
from mainstay.observe.health import AUDIT_FINDINGS_MAX, check_audit_log


def test_notes_are_no_problem_and_a_missing_log_is_no_finding() -> None:
    note = AuditFinding("gateway.db", "resumed", is_note=True)
    assert list(check_audit_log([note], has_log=False)) == []
    (finding,) = check_audit_log([note], has_log=True)
    assert (finding.verdict, finding.message) == ("ok", "every entry is unchanged")


def test_only_the_first_problems_are_read() -> None:
    problems = iter([AuditFinding("gateway.db", f"entry {seq} was changed") for seq in range(9)])
    findings = list(check_audit_log(problems, has_log=True))
    assert [finding.message for finding in findings] == [
        f"gateway.db: entry {seq} was changed" for seq in range(AUDIT_FINDINGS_MAX)
    ]
    assert {finding.verdict for finding in findings} == {"FAIL"}
    assert next(problems).message == "entry 3 was changed"
