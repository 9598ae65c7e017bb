"""Authorisation of tool calls: policy decision, human approval, and the answer to an approval request."""

from __future__ import annotations

import hashlib
from functools import partial

import msgspec

from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Event, Guarded, ToolProgress
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.open_turn import OpenTurn
from mainstay.core.ports import EventEmitter, ToolContext
from mainstay.core.session import Session
from mainstay.trust.named_destinations import is_removal_requested
from mainstay.trust.policy import PolicyContext, PolicyVerdict
from mainstay.turn.client_tool import ClientToolAdapter
from mainstay.turn.dependencies import TurnDependencies, is_tainted
from mainstay.turn.secret_display import CleanedInput, leaves, remove_secrets
from mainstay.turn.tool_search import encode_catalogue_call
from mainstay.turn.toolbox import PreparedCall, error_result


class CheckedCall(msgspec.Struct, frozen=True):
    """A tool call after authorisation: it may run, is refused, or needs approval."""

    call: ToolCall
    prepared: PreparedCall | ToolResult  # a result: the call is refused, or the client has returned its result
    context: ToolContext | None = None
    approval_verdict: PolicyVerdict | None = None  # set: the call needs approval first
    answer: ApprovalAnswered | None = None  # the answer to an earlier approval request for this call
    cleaned: CleanedInput | None = None  # set: secrets were removed from the arguments, because the call leaves

    @property
    def can_run_in_parallel(self) -> bool:
        if isinstance(self.prepared, ToolResult) or self.approval_verdict is not None:
            return False
        return self.prepared.effect == "pure" or getattr(self.prepared.tool, "parallel", False)


class TurnScope(msgspec.Struct, frozen=True):
    """The turn that tool calls belong to, with its session and dependencies."""

    session: Session
    turn: OpenTurn
    dependencies: TurnDependencies
    emit: EventEmitter


def authorise_call(scope: TurnScope, call: ToolCall) -> CheckedCall:
    """Decide whether the call may run, by its arguments, the policy and a person's answer. Secrets are removed from the
    arguments of a call that leaves."""
    prepared = scope.dependencies.tools.prepare(call)
    if isinstance(prepared, ToolResult):
        return CheckedCall(call, prepared)
    context = _build_tool_context(scope, call)
    cleaned = _clean_leaving_call(scope, call, prepared, context)
    if cleaned is None:
        return _authorise_prepared(scope, call, prepared, context)
    prepared = scope.dependencies.tools.prepare(msgspec.structs.replace(call, input=cleaned.input))
    if isinstance(prepared, ToolResult):
        return CheckedCall(call, prepared)
    event = Guarded("tool", "redacted", cleaned.kinds, call.id, turn=context.turn, step=context.step)
    context.guard_events = (event,)
    return msgspec.structs.replace(_authorise_prepared(scope, call, prepared, context), cleaned=cleaned)


def _clean_leaving_call(
    scope: TurnScope, call: ToolCall, prepared: PreparedCall, context: ToolContext
) -> CleanedInput | None:
    """Return the arguments without secrets if there are some in them and the call leaves; else None."""
    trust = scope.dependencies.trust
    cleaned = remove_secrets(trust.guards, scope.session, call) if trust.guards is not None else None
    if cleaned is None:
        return None
    cwd = trust.cwd(scope.session.key)
    return cleaned if leaves(trust.policy, prepared.tool, prepared.arguments, context, cwd) else None


def _authorise_prepared(
    scope: TurnScope, call: ToolCall, prepared: PreparedCall | ToolResult, context: ToolContext
) -> CheckedCall:
    turn, dependencies = scope.turn, scope.dependencies
    assert isinstance(prepared, PreparedCall)
    if isinstance(prepared.tool, ClientToolAdapter):
        return _authorise_client_call(scope, call, prepared, context)
    policy = dependencies.trust.policy
    if policy is None or call.id in turn.started_calls:  # a call that was started had been authorised
        return CheckedCall(call, prepared, context)
    answer = _find_answer(turn, call)
    if answer is not None:
        if (refusal := _find_refusal(scope, call, answer)) is not None:
            return CheckedCall(call, error_result(call, refusal), answer=answer)
        if answer.input is not None:
            input = encode_catalogue_call(prepared.tool.name, answer.input) if prepared.inner_input else answer.input
            prepared = dependencies.tools.prepare(msgspec.structs.replace(call, input=input))
            if isinstance(prepared, ToolResult):
                return CheckedCall(call, prepared, answer=answer)
    verdict = policy.decide(prepared.tool, prepared.arguments, context, _build_policy_context(scope))
    match verdict.decision:
        case "deny":
            denied = Guarded("policy", "denied", call_id=call.id, note=verdict.reason, turn=turn.turn, step=turn.step)
            context.guard_events = (*context.guard_events, denied)
            return CheckedCall(call, error_result(call, f"Not allowed: {verdict.reason}"), context)
        case "ask" if answer is None:
            return CheckedCall(call, prepared, context, approval_verdict=verdict)
        case "ask" if answer is not None and answer.input is None and _differs(verdict, turn.approvals_asked[call.id]):
            # e.g. a symbolic link has another target by now
            return CheckedCall(call, error_result(call, turn.wording.effect_changed), answer=answer)
    context.protect_deletions = verdict.protect_deletions and answer is None
    context.deletable_paths = verdict.removable_paths
    context.is_approved = answer is not None
    return CheckedCall(call, prepared, context, answer=answer)


def _differs(verdict: PolicyVerdict, request: ApprovalAsked) -> bool:
    """Return whether the call would do something else by now than what was shown."""
    # a request of an older release names no destinations
    is_elsewhere = bool(request.destinations) and verdict.destinations != request.destinations
    return verdict.reason != request.why or is_elsewhere


def _authorise_client_call(
    scope: TurnScope, call: ToolCall, prepared: PreparedCall, context: ToolContext
) -> CheckedCall:
    """Wait for the client's result; no policy applies, because the client runs the call."""
    answer = _find_answer(scope.turn, call)
    if answer is None:
        return CheckedCall(
            call, prepared, context, approval_verdict=PolicyVerdict("ask", scope.turn.wording.client_runs_call)
        )
    if answer.result is None or answer.verdict != "approved":
        return CheckedCall(
            call,
            error_result(call, _find_refusal(scope, call, answer) or scope.turn.wording.call_denied),
            answer=answer,
        )
    return CheckedCall(
        call,
        scope.dependencies.tools.build_client_result(call, prepared, context, answer.result),
        context,
        answer=answer,
    )


def _build_tool_context(scope: TurnScope, call: ToolCall) -> ToolContext:
    session, turn = scope.session, scope.turn
    context = ToolContext(session.key, turn.turn, turn.step, call.id, partial(_emit_tool_event, scope))
    context.message_seq = turn.inputs[-1] if turn.inputs else 0
    context.tainted = is_tainted(session, scope.dependencies)
    context.has_private_content = session.private
    context.messages = session.messages
    context.person = session.person
    context.read_turn_texts = session.typed_texts_of_turn
    context.read_user_texts = session.typed_texts
    context.is_removal_requested = partial(_is_removal_requested, scope)
    return context


def _is_removal_requested(scope: TurnScope, path: str) -> bool:
    """Return True if the user asked in this turn for the removal of a file, or of a folder above it."""
    texts, cwd = scope.session.typed_texts_of_turn(), scope.dependencies.trust.cwd(scope.session.key)
    while len(path) > len(cwd):
        if is_removal_requested(path, texts, cwd):
            return True
        path = path.rpartition("/")[0]
    return False


def _emit_tool_event(scope: TurnScope, event: Event) -> None:
    """Emit an event of a running tool, with secrets redacted from its progress."""
    guards = scope.dependencies.trust.guards
    if scope.emit.has_watchers and guards is not None and isinstance(event, ToolProgress):
        event = msgspec.structs.replace(
            event, note=guards.redact_known(event.note), data=guards.redact_known(event.data)
        )
    scope.emit(event)


def _build_policy_context(scope: TurnScope) -> PolicyContext:
    session, dependencies = scope.session, scope.dependencies
    return PolicyContext(
        session=session.key,
        person=session.person,
        tainted=is_tainted(session, dependencies),
        has_private_content=session.private,
        read_user_texts=session.typed_texts,
        read_request_texts=session.request_texts,
        read_messages=lambda: session.messages,
        find_tool=dependencies.tools.find_tool,
        cwd=dependencies.trust.cwd(session.key),
        is_sub_agent=session.spawned is not None,
        is_own_file=partial(dependencies.trust.is_own_file, session.key),
        read_access=partial(dependencies.trust.read_access, session.key),
        read_own_file=partial(dependencies.trust.read_own_file, session.key),
        to_host_path=dependencies.trust.to_host_path,
        skill_restrictions=dependencies.trust.skill_restrictions(scope.turn.skill_headers)
        if scope.turn.skill_headers
        else (),
    )


# --- approvals -----------------------------------------------------------------------------------


def build_approval_request(scope: TurnScope, checked: CheckedCall) -> ApprovalAsked:
    """Build the approval request, bound by a digest to this exact call."""
    call, verdict, turn, dependencies = checked.call, checked.approval_verdict, scope.turn, scope.dependencies
    assert verdict is not None
    assert isinstance(checked.prepared, PreparedCall)
    digest = compute_call_digest(call)
    return ApprovalAsked(
        hashlib.sha256(f"{scope.session.key}\n{call.id}\n{digest}".encode()).hexdigest()[:10],
        call.id,
        checked.prepared.tool.name,
        checked.prepared.inner_input or (checked.cleaned.input if checked.cleaned is not None else call.input),
        why=verdict.reason,
        digest=digest,
        expires=dependencies.trust.now_ms() + round(dependencies.limits.approval_expires_s * 1000),
        always=verdict.always_rule,
        where=dependencies.trust.cwd(scope.session.key),
        client=isinstance(checked.prepared.tool, ClientToolAdapter),
        destinations=verdict.destinations,
        turn=turn.turn,
        step=turn.step,
    )


def compute_call_digest(call: ToolCall) -> str:
    return hashlib.sha256(f"{call.name}\n{call.input}".encode(errors="surrogatepass")).hexdigest()


def _find_answer(turn: OpenTurn, call: ToolCall) -> ApprovalAnswered | None:
    request = turn.approvals_asked.get(call.id)
    return turn.approval_answers.get(request.id) if request is not None else None


def _find_refusal(scope: TurnScope, call: ToolCall, answer: ApprovalAnswered) -> str | None:
    wording = scope.turn.wording
    match answer.verdict:
        case "denied":
            return wording.call_denied_because.format(reason=answer.reason) if answer.reason else wording.call_denied
        case "expired":
            return wording.approval_expired
    request = scope.turn.approvals_asked[call.id]
    if request.digest != compute_call_digest(call):
        return wording.call_changed
    # without a recorded folder (older journal, no file tools) there is nothing to compare
    moved = request.where and request.where != scope.dependencies.trust.cwd(scope.session.key)
    return wording.folder_changed.format(where=request.where) if moved else None


def note_changed_input(checked: CheckedCall, result: ToolResult) -> ToolResult:
    """Prefix the result with a note if the arguments were changed, so that the model knows what ran."""
    if checked.answer is None or checked.answer.input is None:
        if checked.cleaned is None:
            return result
        note = f"[Secrets were removed from this call before it ran: {', '.join(checked.cleaned.kinds)}]"
        return msgspec.structs.replace(result, content=f"{note}\n{result.content}")
    note = f"[The person changed this call before it ran, to {checked.answer.input}]"
    return msgspec.structs.replace(result, content=f"{note}\n{result.content}")


def build_image_parts(context: ToolContext, result: ToolResult) -> list[AnyPart]:
    """Build the message parts for images that a call attached, with the origin of its result."""
    parts: list[AnyPart] = []
    for image in context.attachments:
        parts.append(Text(f"[{image.path or result.name}:]", origin=result.origin or RUNTIME))
        parts.append(msgspec.structs.replace(image, origin=result.origin or RUNTIME))
    return parts
