"""Operations on approvals (human in the loop): list the open ones, approve, deny, and the rules that "always" added."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import ApprovalAnswered, ApprovalAsked
from mainstay.core.outcome import Reply
from mainstay.lane.approvals import PendingApproval
from mainstay.operations.caller import Caller, NotAllowed
from mainstay.operations.operation import NETWORK, Line, Name, Operation
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.runtime_protocols import ApprovalRole, Runtime
from mainstay.operations.secret_visibility import SecretVisibility
from mainstay.operations.turns import ReplyView, reply_view
from mainstay.trust.tool_invocation import can_run_commands

OWNER_ONLY = "commands run without a sandbox here, so only the owner may approve this (`mainstay approval`)"
Rule = Annotated[str, Meta(max_length=10_000)]


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that waits for approval."""

    session: str
    asked: ApprovalAsked


class ApprovalList(msgspec.Struct, frozen=True, kw_only=True):
    approvals: list[ApprovalView]


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answered approval; `reply` is the turn's, where the caller waited for it."""

    id: str
    verdict: str
    reply: Reply | None = None


class AnsweredApproval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answered approval, as network clients see it."""

    id: str
    verdict: str
    reply: ReplyView | None = None


class RuleList(msgspec.Struct, frozen=True, kw_only=True):
    rules: list[str]


class ListApprovals(Operation[list[PendingApproval]], frozen=True, kw_only=True):
    """List the tool calls that wait for approval, the oldest first."""


class Approve(Operation[ApprovalDecision], frozen=True, kw_only=True):
    """Approve a tool call: exactly this call runs."""

    id: str
    input: Annotated[str, Meta(max_length=1_000_000)] | None = None  # other arguments (JSON) to run it with
    always: bool = False  # allow calls of this kind from now on
    by: Name = "owner"  # recorded as the answerer if the owner answers; a person answers under the person's name
    wait: bool = False  # return when the turn has ended


class Deny(Operation[ApprovalDecision], frozen=True, kw_only=True):
    """Deny a tool call: it does not run, and the model gets the reason."""

    id: str
    reason: Line = ""
    by: Name = "owner"
    wait: bool = False


class ListRules(Operation[RuleList], frozen=True, kw_only=True):
    """List the rules that were added by approving with "always"."""


class RevokeRule(Operation[None], frozen=True, kw_only=True):
    """Remove a rule that was added by approving with "always": such calls need approval again."""

    rule: Rule


async def list_approvals(caller: Caller, request: ListApprovals) -> list[PendingApproval]:
    pending, visibility = (await caller.runtime()).services.approvals, SecretVisibility(caller)
    return [
        PendingApproval(name, await visibility.redact_others(approval.asked, approval.session))
        for approval in pending
        if (name := caller.session_name(approval.session)) is not None
    ]


def show_approvals(caller: Caller, request: ListApprovals, result: list[PendingApproval]) -> ApprovalList:
    views = [
        ApprovalView(session=approval.session, asked=msgspec.structs.replace(approval.asked, session=""))
        for approval in result
    ]
    return ApprovalList(approvals=views)


def show_decision(caller: Caller, request: Approve | Deny, result: ApprovalDecision) -> AnsweredApproval:
    reply = reply_view(caller, caller.session_name(result.reply.session) or "", result.reply) if result.reply else None
    return AnsweredApproval(id=result.id, verdict=result.verdict, reply=reply)


def find_approval(caller: Caller, runtime: Runtime, id: str) -> PendingApproval:
    """Return the open approval of this id, which a caller that sees all may abbreviate. Raises ApprovalUnknown."""
    if caller.can_see_all:
        return runtime.services.approvals.find(id)
    for pending in runtime.services.approvals:
        if pending.asked.id == id and caller.session_name(pending.session) is not None:
            return pending
    raise ApprovalUnknown(f"no approval {id[:40]!r} is pending; it was answered, or it expired")


def required_role(runtime: Runtime, tool: str) -> ApprovalRole:
    """Return the role that may approve a call of this tool. A command that runs outside of a sandbox can read the whole
    home, including other workspaces."""
    services = runtime.services
    policy = services.trust.policy
    match = next((offered for offered in services.tools.callable_tools if offered.name == tool), None)
    if match is None or policy is None or policy.confinement.confined or not can_run_commands(match):
        return "member"
    return "admin" if runtime.is_main else "owner"


async def approve(caller: Caller, request: Approve) -> ApprovalDecision:
    runtime = await caller.runtime()
    pending = find_approval(caller, runtime, request.id)
    required = required_role(runtime, pending.asked.name)
    if caller.person:
        if required == "owner":
            raise NotAllowed(f"{OWNER_ONLY}; it can be denied here")
        if request.always or required == "admin":
            caller.require_access("admin")
    answer = build_approval(pending, by=caller.person or request.by, input=request.input, always=request.always)
    return await _answer_for(caller, runtime, pending, answer, wait=request.wait)


def build_approval(
    pending: PendingApproval, *, by: str, input: str | None = None, always: bool = False
) -> ApprovalAnswered:
    """Return the event that approves a call. Raises InputRefused if the call cannot be approved like this."""
    if pending.asked.client:
        raise InputRefused("the client runs this call itself; it cannot be approved, only denied")
    if always and input is not None:
        raise InputRefused("a call with changed arguments is approved once; `always` is for the call as it is")
    if always and not pending.asked.always:
        raise InputRefused("no rule can allow calls of this kind; approve it once")
    rule = pending.asked.always if always else ""
    return ApprovalAnswered(pending.asked.id, "approved", by, input=input, always=rule)


async def deny(caller: Caller, request: Deny) -> ApprovalDecision:
    runtime = await caller.runtime()
    pending = find_approval(caller, runtime, request.id)
    answer = ApprovalAnswered(pending.asked.id, "denied", caller.person or request.by, request.reason)
    return await _answer_for(caller, runtime, pending, answer, wait=request.wait)


async def _answer_for(
    caller: Caller, runtime: Runtime, pending: PendingApproval, answer: ApprovalAnswered, *, wait: bool
) -> ApprovalDecision:
    """Answer an approval; the reply is returned as the caller may read it."""
    decision = await answer_approval(runtime, pending, answer, wait=wait)
    if decision.reply is None:
        return decision
    reply = await SecretVisibility(caller).redact_others(decision.reply, pending.session)
    return msgspec.structs.replace(decision, reply=reply)


async def answer_approval(
    runtime: Runtime, pending: PendingApproval, answer: ApprovalAnswered, *, wait: bool = False
) -> ApprovalDecision:
    """Journal the answer; the turn goes on. With `wait`, return when the turn has ended."""
    pending_reply = await runtime.lanes.get(pending.session).answer_approval(answer)
    if answer.always:
        await runtime.allow_rules.add(answer.always)
    reply = await pending_reply.reply if wait else None
    return ApprovalDecision(id=pending.asked.id, verdict=answer.verdict, reply=reply)


async def list_rules(caller: Caller, request: ListRules) -> RuleList:
    return RuleList(rules=list((await caller.runtime()).allow_rules.rules))


async def revoke_rule(caller: Caller, request: RevokeRule) -> None:
    runtime = await caller.runtime()
    await runtime.allow_rules.remove(request.rule)
    await runtime.record_audit("grant.revoked", request.rule)


ENTRIES = (
    OperationEntry(
        request=ListApprovals,
        run=list_approvals,
        http=Route("GET", "/api/approvals"),
        to_view=show_approvals,
        view_type=ApprovalList,
    ),
    OperationEntry(
        request=Approve,
        run=approve,
        access="approve",
        http=Route("POST", "/api/approvals/{id}/approve"),
        to_view=show_decision,
        view_type=AnsweredApproval,
    ),
    OperationEntry(
        request=Deny,
        run=deny,
        access="approve",
        http=Route("POST", "/api/approvals/{id}/deny"),
        to_view=show_decision,
        view_type=AnsweredApproval,
    ),
    OperationEntry(
        request=ListRules, run=list_rules, access="admin", interfaces=NETWORK, http=Route("GET", "/api/approvals/rules")
    ),
    OperationEntry(
        request=RevokeRule,
        run=revoke_rule,
        access="admin",
        interfaces=NETWORK,
        http=Route("POST", "/api/approvals/rules/revoke", status=204),
    ),
)
