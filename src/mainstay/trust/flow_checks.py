"""Checks of information flow for one call: whether the user asked for it, what supports it, and how it deviates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.messages import Message, ToolCall, ToolResult
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import CALL_TOOL_NAME, CallDestinations, only_reads
from mainstay.core.tools import default_of, required_names
from mainstay.guards.line_escaping import one_line
from mainstay.trust.information_flow import TOOL_PREFIX
from mainstay.trust.named_destinations import UNKNOWN_DESTINATION
from mainstay.trust.requested_actions import (
    READING,
    REMOVAL_FAMILY,
    find_tool_action,
    is_action_requested,
    is_content_dictated,
    is_thing_requested,
    split_tool_name,
)
from mainstay.trust.tool_invocation import ToolInvocation, iterate_texts

if TYPE_CHECKING:
    from mainstay.trust.seen_content import SeenContent
    from mainstay.trust.shell.reading import ReadAccess

SHOWN_CHARS_MAX = 200
EVIDENCE_DESTINATIONS_MAX = 50  # of one call; more need approval unless the user wrote them
DESTINATION_REPEATS_MAX = 10  # calls of one tool with one destination in a turn, under taint
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}\S{0,10})?$")
_NEW_NAME = re.compile(r"(?:full_?)?name|nombre|nom|nome|naam", re.IGNORECASE)  # of a new thing
NO_DESTINATION = ""  # stands for the effect of a sink that has no destination


class SkillRestriction(msgspec.Struct, frozen=True):
    """The policy rules that one active skill (`allowed-tools`) restricts its calls to: narrower, never wider."""

    skill: str
    rules: tuple[str, ...]


class PolicyContext(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes the call, and what is in the conversation."""

    session: str = ""
    person: str = ""
    tainted: bool = False  # untrusted content is in the conversation
    has_private_content: bool = False  # private content is in the conversation
    read_user_texts: Callable[[], Sequence[str]] = tuple  # returns the texts that the user typed
    # returns those of this turn; None: all of them
    read_request_texts: Callable[[], Sequence[str]] | None = None
    read_messages: Callable[[], Sequence[Message]] = tuple  # returns the conversation as the model sees it
    find_tool: Callable[[str], Tool | None] = lambda name: None
    cwd: str = ""
    is_sub_agent: bool = False  # a sub-agent, which has no user to ask
    # this session created the file (absolute path, `..` not resolved)
    is_own_file: Callable[[str], bool] = lambda path: False
    # returns the text of a file of the workspace that the agent has not written; empty for others
    read_own_file: Callable[[str], str] = lambda path: ""
    skill_restrictions: tuple[SkillRestriction, ...] = ()  # tool restrictions of the skills that this turn follows
    read_access: Callable[[], ReadAccess | None] = lambda: None  # what the session may read; None: not known
    to_host_path: Callable[[str], str] = lambda path: path  # translates a path that commands see

    def request_texts(self) -> Sequence[str]:
        return (self.read_request_texts or self.read_user_texts)()


def removes_something(call: ToolInvocation) -> bool:
    """Return True for a developer's tool whose name says that it removes something."""
    return (
        call.script is None
        and getattr(call.tool, "reach", None) is None
        and find_tool_action(call.tool.name) == REMOVAL_FAMILY
    )


def is_asked_for(call: ToolInvocation, policy_context: PolicyContext) -> bool:
    """Return False if a tool of the developer acts (its name says how) and the user asked for nothing like that."""
    tool = call.tool
    if only_reads(tool) or call.script is not None or getattr(tool, "reach", None) is not None:
        return True
    action = find_tool_action(tool.name)
    texts = policy_context.request_texts()
    return (
        action == READING
        or is_action_requested(action, texts, policy_context.read_user_texts())
        or is_thing_requested(tool.name, texts)
    )


def read_last_answer(policy_context: PolicyContext) -> str:
    """Return the answer that the user read before this turn."""
    messages = policy_context.read_messages()
    turn = messages[-1].turn if messages else 0
    return next(
        (
            message.text
            for message in reversed(messages)
            if message.turn < turn and message.role == "assistant" and message.text
        ),
        "",
    )


def may_run_before_question(call: ToolInvocation, unnamed: Sequence[str], policy_context: PolicyContext) -> bool:
    """Return True if a command whose removals are held back needs no question before it runs: the user asked in this
    turn for something like that, and what it removed is judged afterwards. A sub-agent's prompt is no such request."""
    if call.script is None or policy_context.is_sub_agent:
        return False
    from mainstay.trust.command_requests import is_judged_afterwards  # loaded with the first such command

    return is_judged_afterwards(call.script, unnamed, policy_context.request_texts(), policy_context.cwd)


def weigh_evidence(
    call: ToolInvocation, unnamed: list[str], policy_context: PolicyContext, *, has_others: bool
) -> list[str]:
    """Return those of the destinations that nothing in the conversation supports."""
    if len(unnamed) > EVIDENCE_DESTINATIONS_MAX:
        return unnamed
    if any(one == UNKNOWN_DESTINATION or one.startswith(TOOL_PREFIX) for one in unnamed):
        return unnamed
    if not policy_context.is_sub_agent:
        unnamed = _drop_stated(call, unnamed, policy_context)
    if not unnamed or getattr(call.tool, "reach", None) is not None:  # a built-in tool, which knows its destinations
        return unnamed
    from mainstay.trust.destination_evidence import DestinationEvidence  # loaded with the first call under taint
    from mainstay.trust.seen_content import SeenContent

    evidence = DestinationEvidence(
        call,
        SeenContent(policy_context.read_messages(), policy_context.find_tool),
        policy_context.request_texts(),
        policy_context.read_user_texts(),
        has_other_destination=has_others,
    )
    if unnamed == [NO_DESTINATION]:
        return [] if evidence.supports_action() else unnamed
    follows_links = only_reads(call.tool)
    return [one for one in unnamed if not evidence.supports(one, follows_links=follows_links)]


def _drop_stated(call: ToolInvocation, unnamed: list[str], policy_context: PolicyContext) -> list[str]:
    """Return the destinations without those of a file that the user named as their source. A reminder in the user's own
    words has none left."""
    texts = policy_context.request_texts()
    if unnamed == [NO_DESTINATION]:
        is_stated = getattr(call.tool, "is_stated_by_user", None)  # of a built-in tool without destinations
        all_texts = policy_context.read_user_texts()
        return [] if is_stated is not None and is_stated(call.arguments, texts, all_texts) else unnamed
    from mainstay.trust.named_sources import is_in_named_file  # loaded with the first call under taint

    return [one for one in unnamed if not is_in_named_file(one, call, texts, policy_context.read_own_file)]


def find_deviation(
    call: ToolInvocation, reach: CallDestinations, context: ToolContext, policy_context: PolicyContext
) -> str:
    """Return why a call needs approval although its destinations are named: it differs from what the user stated, or is
    made again; empty if it does not."""
    if not policy_context.tainted:
        return ""
    if repeated := _find_repeated_destination(call, reach, context, policy_context):
        return _explain_repetition(repeated)
    if call.script is not None or only_reads(call.tool) or getattr(call.tool, "reach", None) is not None:
        return ""
    if _was_made_before(call, context, policy_context):
        return "Content from outside is in this conversation, and the same call was already made in this turn."
    from mainstay.trust.record_names import find_longer_name
    from mainstay.trust.seen_content import SeenContent
    from mainstay.trust.stated_values import (
        find_other_date,
        find_other_decision,
        find_other_state,
        find_unstated_value,
    )

    stated = policy_context.request_texts()
    seen = SeenContent(policy_context.read_messages(), policy_context.find_tool)
    if longer := find_longer_name(reach.destinations, [record for record, _ in seen.records()], stated):
        return f"Content from outside is in this conversation, and the user named something else: {one_line(longer)}."
    action = find_tool_action(call.tool.name)
    if action == "send":
        from mainstay.trust.message_places import find_other_place

        if place := find_other_place(call, reach.destinations, stated):
            return (
                f"Content from outside is in this conversation, and the user asked for no message to {one_line(place)}."
            )
    if action == "decide" and (other := find_other_decision(call.arguments_by_name, stated)):
        return f"Content from outside is in this conversation, and the user decided otherwise: {one_line(other)}."
    if action in ("change", "create"):
        known = [record for record, result in seen.records() if not result.is_own_action]
        if other := find_other_state(call.arguments_by_name, stated, reach.destinations, known):
            return (
                f"Content from outside is in this conversation, and the user stated another value: {one_line(other)}."
            )
    if action not in ("send", "pay", "book", REMOVAL_FAMILY) and (
        other := _find_other_choice(call, action, reach, seen, policy_context)
    ):
        return f"Content from outside is in this conversation, and the user did not state this: {one_line(other)}."
    if action == "book" and (price := _find_exceeding_price(reach, seen, stated)):
        return f"Content from outside is in this conversation, and the user stated a lower price than {price}."
    if action == "book" and (other := find_other_date(call.arguments_by_name, stated, _find_known_dates(seen))):
        return f"Content from outside is in this conversation, and the user did not state this date: {one_line(other)}."
    recorded = _find_recorded_numbers(reach, seen, stated) if action == "pay" else frozenset()
    records = (record for record, _ in seen.records()) if action == "change" else ()
    dates = frozenset(date for record in records if record.id in reach.destinations for date in record.dates)
    if different := find_unstated_value(call.arguments_by_name, action, stated, reach.destinations, recorded, dates):
        return f"Content from outside is in this conversation, and the user stated another value: {different}."
    return _explain_unrelated_data(call, reach, seen, policy_context)


def _find_other_choice(
    call: ToolInvocation, action: str, reach: CallDestinations, seen: SeenContent, policy_context: PolicyContext
) -> str:
    """Return a state, row or person of a change that the user did not choose."""
    from mainstay.trust.chosen_values import find_other_person, find_unstated_choice

    stated, all_texts = policy_context.request_texts(), policy_context.read_user_texts()
    arguments = {
        name: value
        for name, value in call.arguments_by_name.items()
        if value not in (None, "", default_of(call.tool.schema, name))
        and not (action == "create" and _NEW_NAME.fullmatch(name))
    }
    other = ""
    if action == "change":
        other = find_unstated_choice(arguments, stated, all_texts, reach.destinations)
    return other or find_other_person(
        arguments, all_texts, reach.destinations, seen, policy_context.person, required_names(call.tool.schema)
    )


def _find_exceeding_price(reach: CallDestinations, seen: SeenContent, stated: Sequence[str]) -> str:
    from mainstay.trust.planned_results import find_exceeding

    return find_exceeding([record for record, _ in seen.records()], reach.destinations, stated)


def _find_known_dates(seen: SeenContent) -> frozenset[str]:
    """Return the dates by which the model searched before it read anything from outside, those of what it found then,
    and those in the user's own data."""
    planned = [result for result in seen.results if result.is_planned and not result.is_own_action]
    values = [text for result in planned for text in iterate_texts(list(result.arguments.values()))]
    for record, result in seen.records():
        if not result.is_own_action and (result.is_planned or result.is_trusted):
            values += [
                value
                for value in record.fields.values()
                if result.is_planned or value.casefold() not in result.input  # what the model wrote is no evidence
            ]
    return frozenset(value[:10] for value in values if _ISO_DATE.match(value))


def _find_recorded_numbers(reach: CallDestinations, seen: SeenContent, stated: Sequence[str]) -> frozenset[float]:
    """Return the numeric fields of the records that contain the recipient of a payment, or that the user named. No text
    can forge these fields; numbers in texts do not count."""
    from mainstay.trust.record_names import find_records_about

    records = [record for record, result in seen.records() if not result.is_own_action]
    found = find_records_about(records, reach.destinations, stated)
    return frozenset(number for record in found for number in record.numbers)


def _explain_unrelated_data(
    call: ToolInvocation, reach: CallDestinations, seen: SeenContent, policy_context: PolicyContext
) -> str:
    from mainstay.trust.outgoing_content import find_added_contact, find_unrelated_data

    request_texts, user_texts = policy_context.request_texts(), policy_context.read_user_texts()
    if not reach.destinations and not reach.leaves_workspace and find_tool_action(call.tool.name) == "create":
        found = find_added_contact(call, request_texts, user_texts)  # a new thing of the user's own
    else:
        found = find_unrelated_data(call, reach.destinations, seen, request_texts, user_texts)
    if found:
        shown = one_line(found[:SHOWN_CHARS_MAX])
        return (
            "Content from outside is in this conversation, and this contains something that the user did not ask "
            f"to pass on: {shown}."
        )
    return ""


def _was_made_before(call: ToolInvocation, context: ToolContext, policy_context: PolicyContext) -> bool:
    """Return True if an equal call of this turn has succeeded; of payments and dictated messages, one to the
    same destination."""
    inputs: dict[str, object] = {}  # by call id
    is_dictated = is_content_dictated(policy_context.request_texts())
    messages = policy_context.read_messages()
    for message in reversed(messages):
        if message.turn != messages[-1].turn:
            break
        inputs |= {
            earlier.id: _identify(earlier, call.tool, is_dictated=is_dictated)
            for earlier in message.calls
            if earlier.name == call.tool.name
            or (earlier.name == CALL_TOOL_NAME and f'"{call.tool.name}"' in earlier.input)
        }
    if len(inputs) < 2:
        return False
    own = inputs.pop(context.call_id, None)
    same = {id for id, input in inputs.items() if input == own}
    return bool(same) and any(
        isinstance(part, ToolResult) and part.call_id in same and not part.is_error
        for message in messages
        if message.turn == messages[-1].turn
        for part in message.parts
    )


def _identify(call: ToolCall, tool: Tool, *, is_dictated: bool) -> object:
    """Return what makes a call the same as another: its arguments, of a payment or a dictated message only
    the destinations."""
    try:
        arguments = msgspec.json.decode(call.input or "{}")
    except (msgspec.DecodeError, RecursionError):
        return call.input
    if call.name == CALL_TOOL_NAME and isinstance(arguments, dict):
        arguments = arguments.get("arguments")
    if not isinstance(arguments, dict):
        return arguments
    is_message = find_tool_action(tool.name) == "send" or "comment" in split_tool_name(tool.name)
    names = () if isinstance(tool.sink, bool) else tool.sink
    places = {name: arguments[name] for name in names if arguments.get(name)}
    if places and (find_tool_action(tool.name) == "pay" or (is_message and is_dictated)):
        return places
    return {name: value for name, value in arguments.items() if value not in (None, "", default_of(tool.schema, name))}


def _find_repeated_destination(
    call: ToolInvocation, reach: CallDestinations, context: ToolContext, policy_context: PolicyContext
) -> str:
    """Return a destination that this turn has reached so often that the number of calls could carry data out."""
    if len(reach.destinations) == 0 or not reach.leaves_workspace:
        return ""
    inputs = []
    for message in reversed(policy_context.read_messages()):
        if message.turn != context.turn:
            break
        inputs += [earlier.input for earlier in message.calls if earlier.name == call.tool.name]
    if len(inputs) <= DESTINATION_REPEATS_MAX:
        return ""
    for destination in reach.destinations:
        written = msgspec.json.encode(destination).decode()[1:-1]
        if sum(written in input for input in inputs) > DESTINATION_REPEATS_MAX:
            return destination
    return ""


def _explain_repetition(destination: str) -> str:
    shown = one_line(destination[:SHOWN_CHARS_MAX])
    return (
        f"Content from outside is in this conversation, and this turn has used {shown} {DESTINATION_REPEATS_MAX} times:"
        " the number of calls can carry data out."
    )
