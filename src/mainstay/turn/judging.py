"""May this call happen: what policy says of it, and what a person has said."""

from __future__ import annotations

import hashlib
from functools import partial

import msgspec

from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Event, Guarded, ToolProgress
from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.open_turn import OpenTurn
from mainstay.core.ports import Emit, ToolContext
from mainstay.core.recall import RUNTIME
from mainstay.core.session import Session
from mainstay.trust.policy import Circumstances, Verdict
from mainstay.turn.catalogue import called
from mainstay.turn.handed import WHY, Handed
from mainstay.turn.means import Means, is_tainted
from mainstay.turn.toolbox import Prepared, refuse

DENIED = "Not run: denied by the person."
EXPIRED = "Not run: nobody approved it in time."
CHANGED = "Not run: what was approved is not this call."
OTHERWISE = "Not run: it would not do any more what was shown when it was approved."
MOVED = "Not run: it was approved in {where}, and this conversation works in another folder now."


class Ready(msgspec.Struct, frozen=True):
    """A call that was looked at: it may run, or is refused, or somebody has to approve it."""

    call: ToolCall
    prepared: Prepared | ToolResult
    context: ToolContext | None = None
    asks: Verdict | None = None
    answer: ApprovalAnswered | None = None

    @property
    def beside(self) -> bool:
        """It may run beside others."""
        if isinstance(self.prepared, ToolResult) or self.asks is not None:
            return False
        return self.prepared.effect == "pure" or getattr(self.prepared.tool, "parallel", False)


class Setting(msgspec.Struct, frozen=True):
    """Whose call it is, and where it was made."""

    session: Session
    turn: OpenTurn
    means: Means
    emit: Emit


def judge(setting: Setting, call: ToolCall) -> Ready:
    turn, means = setting.turn, setting.means
    prepared = means.tools.prepare(call)
    if isinstance(prepared, ToolResult):
        return Ready(call, prepared)
    context = _context(setting, call)
    if isinstance(prepared.tool, Handed):
        return _handed(setting, call, prepared, context)
    policy = means.trust.policy
    if policy is None or call.id in turn.started:  # what has begun was allowed to
        return Ready(call, prepared, context)
    answer = _answered(turn, call)
    if answer is not None:
        if (refusal := _refused(setting, call, answer)) is not None:
            return Ready(call, refuse(call, refusal), answer=answer)
        if answer.input is not None:
            input = called(prepared.tool.name, answer.input) if prepared.input else answer.input
            prepared = means.tools.prepare(msgspec.structs.replace(call, input=input))
            if isinstance(prepared, ToolResult):
                return Ready(call, prepared, answer=answer)
    verdict = policy.judge(prepared.tool, prepared.arguments, context, _circumstances(setting))
    match verdict.decision:
        case "deny":
            denied = Guarded("policy", "denied", call_id=call.id, note=verdict.why, turn=turn.turn, step=turn.step)
            context.news = (denied,)
            return Ready(call, refuse(call, f"Not allowed: {verdict.why}"), context)
        case "ask" if answer is None:
            return Ready(call, prepared, context, asks=verdict)
        case "ask" if answer is not None and answer.input is None and verdict.why != turn.asked[call.id].why:
            return Ready(call, refuse(call, OTHERWISE), answer=answer)  # a link leads elsewhere by now, say
    context.guarded = verdict.guarded and answer is None
    context.removable = verdict.removable
    return Ready(call, prepared, context, answer=answer)


def _handed(setting: Setting, call: ToolCall, prepared: Prepared, context: ToolContext) -> Ready:
    """Nothing of ours runs, so there is nothing to allow: it waits for its result."""
    answer = _answered(setting.turn, call)
    if answer is None:
        return Ready(call, prepared, context, asks=Verdict("ask", WHY))
    if answer.result is None or answer.verdict != "approved":
        return Ready(call, refuse(call, _refused(setting, call, answer) or DENIED), answer=answer)
    return Ready(call, setting.means.tools.handed(call, prepared, context, answer.result), context, answer=answer)


def _context(setting: Setting, call: ToolCall) -> ToolContext:
    session, turn = setting.session, setting.turn
    context = ToolContext(session.key, turn.turn, turn.step, call.id, partial(_tell, setting))
    context.source = turn.inputs[-1] if turn.inputs else 0
    context.tainted = is_tainted(session, setting.means)
    context.secret = session.private
    context.messages = session.messages
    context.person = session.person
    return context


def _tell(setting: Setting, event: Event) -> None:
    """What a tool says while it runs."""
    guards = setting.means.trust.guards
    if setting.emit.wanted and guards is not None and isinstance(event, ToolProgress):
        event = msgspec.structs.replace(event, note=guards.shown(event.note), data=guards.shown(event.data))
    setting.emit(event)


def _circumstances(setting: Setting) -> Circumstances:
    session, means = setting.session, setting.means
    return Circumstances(
        session=session.key,
        person=session.person,
        tainted=is_tainted(session, means),
        secret=session.private,
        spoken=session.spoken,
        cwd=means.trust.cwd(session.key),
        alone=session.errand is not None,
        made=partial(means.trust.made, session.key),
        narrowing=means.trust.narrowing(setting.turn.followed) if setting.turn.followed else (),
    )


# --- what a person says --------------------------------------------------------------------------


def asked_about(setting: Setting, ready: Ready) -> ApprovalAsked:
    """The question, bound to this very call."""
    call, verdict, turn, means = ready.call, ready.asks, setting.turn, setting.means
    assert verdict is not None
    assert isinstance(ready.prepared, Prepared)
    digest = digest_of(call)
    return ApprovalAsked(
        hashlib.sha256(f"{setting.session.key}\n{call.id}\n{digest}".encode()).hexdigest()[:10],
        call.id,
        ready.prepared.tool.name,
        ready.prepared.input or call.input,
        why=verdict.why,
        digest=digest,
        expires=means.trust.now() + round(means.limits.approval_expires_s * 1000),
        always=verdict.always,
        where=means.trust.cwd(setting.session.key),
        client=isinstance(ready.prepared.tool, Handed),
        turn=turn.turn,
        step=turn.step,
    )


def digest_of(call: ToolCall) -> str:
    return hashlib.sha256(f"{call.name}\n{call.input}".encode(errors="surrogatepass")).hexdigest()


def _answered(turn: OpenTurn, call: ToolCall) -> ApprovalAnswered | None:
    asked = turn.asked.get(call.id)
    return turn.answers.get(asked.id) if asked is not None else None


def _refused(setting: Setting, call: ToolCall, answer: ApprovalAnswered) -> str | None:
    match answer.verdict:
        case "denied":
            return f"{DENIED} They said: {answer.reason}" if answer.reason else DENIED
        case "expired":
            return EXPIRED
    asked = setting.turn.asked[call.id]
    if asked.digest != digest_of(call):
        return CHANGED
    # where nobody says (an older journal, no files), there is nothing to differ
    moved = asked.where and asked.where != setting.means.trust.cwd(setting.session.key)
    return MOVED.format(where=asked.where) if moved else None


def amended(ready: Ready, result: ToolResult) -> ToolResult:
    """The model made one call and another ran: it has to know."""
    if ready.answer is None or ready.answer.input is None:
        return result
    note = f"[The person changed this call before it ran, to {ready.answer.input}]"
    return msgspec.structs.replace(result, content=f"{note}\n{result.content}")


def images_of(context: ToolContext, result: ToolResult) -> list[AnyPart]:
    """What a call attached, as the model is shown it after the results; from where its result is from."""
    said: list[AnyPart] = []
    for image in context.attached:
        said.append(Text(f"[{image.path or result.name}:]", origin=result.origin or RUNTIME))
        said.append(msgspec.structs.replace(image, origin=result.origin or RUNTIME))
    return said
