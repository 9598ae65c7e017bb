"""Puts inputs into lanes: prompts, steering, overheard messages, tool results of clients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import ApprovalAnswered, SessionChanged
from mainstay.core.input_envelope import InputEnvelope
from mainstay.core.messages import AnyPart, Text
from mainstay.core.surrogates import refuse_surrogates
from mainstay.lane.replies import PendingReply
from mainstay.operations.runtime_protocols import Runtime
from mainstay.turn.dependencies import AnswerValidator

CLIENT_TOOLS_MAX = 128
CLIENT_TOOLS_BYTES_MAX = 256 * 1024


def redact_part(runtime: Runtime, part: AnyPart) -> AnyPart:
    """Remove the configuration's secrets from a text part: a key is not part of a conversation, also if pasted."""
    guards = runtime.services.trust.guards
    if guards is None or not isinstance(part, Text):
        return part
    text = guards.redact_known(part.text)
    return part if text == part.text else msgspec.structs.replace(part, text=text)


def build_envelope(
    runtime: Runtime,
    key: str,
    parts: Sequence[AnyPart],
    id: str,
    sender: str,
    platform_message: PlatformMessage | None = None,
) -> InputEnvelope:
    for part in parts:
        if isinstance(part, Text) and not part.text.isascii():
            refuse_surrogates(part.text)
    if not (id.isascii() and sender.isascii()):
        refuse_surrogates(id, "the id")
        refuse_surrogates(sender, "the sender")
    redacted = tuple(map(partial(redact_part, runtime), parts))
    return InputEnvelope(parts=redacted, thread=key, sender=sender, id=id, platform_message=platform_message)


async def accept_prompt(
    runtime: Runtime,
    key: str,
    parts: Sequence[AnyPart],
    *,
    id: str = "",
    sender: str = "",
    platform_message: PlatformMessage | None = None,
) -> PendingReply:
    """Accept a prompt; it is on disk when this returns. The same `id` is accepted once and returns the same reply.
    Raises LaneFull, InputRefused, SessionArchived or a StoreError: then it was not accepted."""
    return await runtime.lanes.get(key).accept(build_envelope(runtime, key, parts, id, sender, platform_message))


async def accept_shared_prompt(
    runtime: Runtime, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = ""
) -> PendingReply:
    """Accept a prompt as `accept_prompt` does; the sender is not the only reader of its answer."""
    envelope = build_envelope(runtime, key, parts, id, sender)
    return await runtime.lanes.get(key).accept(msgspec.structs.replace(envelope, shared=True))


async def accept_validated_prompt(
    runtime: Runtime,
    key: str,
    parts: Sequence[AnyPart],
    validate: AnswerValidator,
    *,
    id: str = "",
    sender: str = "",
) -> PendingReply:
    """Accept a prompt as `accept_prompt` does; the model corrects an answer in which `validate` finds a mistake."""
    return await runtime.lanes.get(key).accept(build_envelope(runtime, key, parts, id, sender), validate)


async def store_unaddressed(
    runtime: Runtime,
    key: str,
    parts: Sequence[AnyPart],
    *,
    id: str,
    sender: str = "",
    platform_message: PlatformMessage | None = None,
) -> bool:
    """Store a message that was not addressed to the agent; the model sees it with the next prompt. Starts no turn.
    Returns False if it was stored before."""
    return await runtime.lanes.get(key).overhear(build_envelope(runtime, key, parts, id, sender, platform_message))


async def is_input_accepted(runtime: Runtime, key: str, id: str) -> bool:
    """True if an input was accepted under this id before."""
    return await runtime.services.store.find_input(key, id) is not None


async def steer_turn(
    runtime: Runtime, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = "", shared: bool = False
) -> PendingReply:
    """Put an input into the running turn at its next boundary; with nothing running it is a prompt. The rules of a
    turn are those of its sender, so the input of another sender waits for the next turn."""
    lane = runtime.lanes.get(key)
    envelope = msgspec.structs.replace(build_envelope(runtime, key, parts, id, sender), shared=shared)
    turn = (await lane.load_session()).open_turn
    return await (lane.steer(envelope) if turn is None or turn.sender == sender else lane.accept(envelope))


async def abort_turn(runtime: Runtime, key: str) -> bool:
    """End the running turn now; returns when that is on disk. False if nothing was running.

    The lane is asked, not the store: the first prompt of a session may not be on disk yet."""
    return await runtime.lanes.get(key).abort()


async def offer_client_tools(runtime: Runtime, key: str, tools: Sequence[ClientTool]) -> None:
    """Offer the model these tools, which the client runs itself, from the next turn on and instead of earlier ones."""
    lane = runtime.lanes.get(key)
    offered = tuple(tools)
    if (await lane.load_session()).client_tools == offered:
        return
    own = {tool.name for tool in runtime.services.tools.callable_tools}
    if taken := next((tool.name for tool in offered if tool.name in own), None):
        raise InputRefused(f"the agent has a tool of its own named {taken!r}; give yours another name")
    if len({tool.name for tool in offered}) != len(offered):
        raise InputRefused("two of the tools have the same name")
    if len(offered) > CLIENT_TOOLS_MAX or len(msgspec.json.encode(offered)) > CLIENT_TOOLS_BYTES_MAX:
        raise InputRefused(
            f"a client can offer at most {CLIENT_TOOLS_MAX} tools of {CLIENT_TOOLS_BYTES_MAX} bytes in all"
        )
    await lane.record_changes(SessionChanged(guests=offered))


async def submit_client_result(runtime: Runtime, key: str, call_id: str, content: str) -> PendingReply:
    """Give the turn the result of a call that the client ran; returns the pending reply of the turn. Raises
    ApprovalUnknown if no turn waits for it."""
    lane = runtime.lanes.get(key)
    pending = (await lane.load_session()).pending_approval
    if pending is None or not pending.client or pending.call_id != call_id:
        raise ApprovalUnknown(f"no turn waits for the result of the call {call_id[:80]!r}")
    guards = runtime.services.trust.guards
    result = guards.redact_known(content) if guards is not None else content
    return await lane.answer_approval(ApprovalAnswered(pending.id, "approved", result=result))
