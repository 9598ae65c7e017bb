"""Messages that ask for approval in a chat: the whole call, in the message or attached to it.

A call that is attached can be approved in the chat only once the attachment has been posted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from mainstay.core.channels import Delivery
from mainstay.core.events import ApprovalAsked
from mainstay.trust.approval_text import escape_approved, format_call

CALL_CHARS_MAX = 1_500  # of a call that is shown in the message itself
BEGINNING_CHARS_MAX = 600  # of a longer one
WHY_CHARS_MAX = 1_000
MESSAGES_CHARS_MAX = 20_000  # of a call that is posted as several messages, where there are no files
FINISH_WAIT_S = 2.0  # how long an answer waits for an attachment that is being posted
NOT_SHOWN = (
    "The whole call could not be shown here, so it cannot be approved here. Approve it with "
    "`mainstay approval approve {id}` on its machine; it can be denied here."
)


class ApprovalMessage(msgspec.Struct, frozen=True):
    """The message that asks for approval. `attached`: name and text of the file with the whole call."""

    text: str
    attached: tuple[tuple[str, str], ...] = ()
    is_long: bool = False  # it is complete only with its attachment, or with all of several messages
    is_complete: bool = True  # False: the whole call cannot be shown on this platform


def format_approval_request(approval: ApprovalAsked, *, has_files: bool = True) -> ApprovalMessage:
    """Return the message that asks for approval of a tool call: the exact call, and how to answer."""
    why = escape_approved(approval.why)
    call = f"{escape_approved(approval.name)}\n" + "\n".join(format_call(approval))
    answers = f"`/approve {approval.id}` or `/deny {approval.id} reason`. Any other message here denies it."
    is_short = len(call) <= CALL_CHARS_MAX and len(why) <= WHY_CHARS_MAX
    if is_short or (not has_files and len(call) <= MESSAGES_CHARS_MAX):
        text = f"**May this be done?** {why}".strip() + f"\n{_fence(call)}\n{answers}"
        return ApprovalMessage(text, is_long=not is_short)
    beginning = f"{call[:BEGINNING_CHARS_MAX]}…\n({len(call) - BEGINNING_CHARS_MAX:,} more characters)"
    head = f"**May this be done?** {why[:WHY_CHARS_MAX]}\n{_fence(beginning)}\n"
    if not has_files:
        return ApprovalMessage(f"{head}{NOT_SHOWN.format(id=approval.id)}", is_long=True, is_complete=False)
    whole = f"{why}\n\n{call}\n"
    note = "The whole call is in the attached file; without it the call cannot be approved here."
    return ApprovalMessage(f"{head}{note}\n{answers}", ((f"approval-{approval.id}.txt", whole),), is_long=True)


def _fence(call: str) -> str:
    """Return the call as a code block. Backticks that would end the block are escaped: some platforms know only one
    kind of fence."""
    escaped = call.replace("```", "\\x60\\x60\\x60")
    return f"```\n{escaped}\n```"


async def find_hidden_reason(
    approval: ApprovalAsked,
    delivery: Delivery | None,
    deliver: Callable[[Delivery], Awaitable[Delivery] | None],
    *,
    has_files: bool,
) -> str:
    """Return why the request was not shown completely in a chat; "" if it was. `delivery` is the one that posted it."""
    message, hidden = format_approval_request(approval, has_files=has_files), NOT_SHOWN.format(id=approval.id)
    if not message.is_complete or (delivery is None and message.is_long):
        return hidden
    if delivery is None:
        return ""
    if message.is_long and delivery.state in ("pending", "sending") and (posting := deliver(delivery)) is not None:
        done, _ = await asyncio.wait([asyncio.ensure_future(posting)], timeout=FINISH_WAIT_S)
        delivery = next(iter(done)).result() if done else delivery
    is_shown = delivery.state == "sent" and bool(delivery.ids) if message.is_long else delivery.state != "failed"
    return "" if is_shown else hidden
