"""`mainstay approval list|approve|deny|rules|revoke`: pending approvals, and calls that are always allowed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import msgspec

from mainstay.agent.allow_rule_store import AllowRuleStore
from mainstay.cli.commands.agent_setup import AgentSetup, find_owner, load_agent_setup, open_home_client, print_note
from mainstay.cli.commands.home_locator import WorkspaceLocation, open_store_read_only, resolve_workspace, run_async
from mainstay.cli.commands.output import format_time, print_json
from mainstay.cli.commands.run import exit_code
from mainstay.core.events import ApprovalAsked
from mainstay.core.outcome import Answered, Paused, Reply
from mainstay.core.outcome_text import describe_outcome
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.lane.approvals import PendingApproval, PendingApprovals
from mainstay.terminal.approval_formatter import format_approval, format_shell_hints


def list_approvals(options: argparse.Namespace) -> int:
    pending = run_async(_list_pending(resolve_workspace(options)))
    if options.json:
        print_json({"ok": True, "approvals": [msgspec.to_builtins(approval) for approval in pending]})
        return 0
    if not pending:
        print_note("no approvals are pending")
    for approval in pending:
        print(f"{approval.asked.id}  {escape_line(approval.session)}  until {format_time(approval.asked.expires)}")
        for line in format_approval(approval.asked):
            print(f"  {line}")
    return 0


def approve(options: argparse.Namespace) -> int:
    return _answer_and_print(options, is_approved=True)


def deny(options: argparse.Namespace) -> int:
    return _answer_and_print(options, is_approved=False)


def rules(options: argparse.Namespace) -> int:
    allowed = run_async(_list_rules(resolve_workspace(options)))
    if options.json:
        print_json({"ok": True, "rules": allowed})
    for rule in allowed if not options.json else ():
        print(escape_line(rule))
    if not allowed and not options.json:
        print_note("no calls are always allowed")
    return 0


def revoke(options: argparse.Namespace) -> int:
    run_async(_revoke(resolve_workspace(options), options.rule))
    if options.json:
        print_json({"ok": True})
    else:
        print_note(f"calls like this need approval again: {escape_line(options.rule)}")
    return 0


async def _list_rules(location: WorkspaceLocation) -> Sequence[str]:
    """Return the rules of the process that owns the home if there is one, else those of its files."""
    if (owner := find_owner(location)) is not None:
        return await owner.approvals.rules()
    return AllowRuleStore(location.folder).rules


async def _revoke(location: WorkspaceLocation, rule: str) -> None:
    async with open_home_client(location) as client:  # also writes the audit entry
        await client.approvals.revoke(rule)


async def _list_pending(location: WorkspaceLocation) -> list[PendingApproval]:
    """Return pending approvals, from the process that owns the home if there is one, else from its files."""
    if (owner := find_owner(location)) is not None:
        return await owner.approvals.list()
    pending = []
    async with open_store_read_only(location) as store:
        for key in await store.list_unfinished():
            standing = await store.get_session(key)
            if standing is not None and standing.approval is not None:
                pending.append(PendingApproval(key, standing.approval))
    return pending


def _answer_and_print(options: argparse.Namespace, *, is_approved: bool) -> int:
    """Answer an approval and print the turn's answer; the turn resumes here, or in the process that owns the home."""
    waiting = PendingApprovals()
    for approval in run_async(_list_pending(resolve_workspace(options))):
        waiting.set_pending(approval.session, approval.asked)
    waiting.find(options.id)  # an unknown id is an error before a model is looked for
    options.model = None
    reply, next_request = run_async(_answer_approval(load_agent_setup(options), options, is_approved=is_approved))
    if options.json:
        ok = isinstance(reply.outcome, Answered)
        document = {"ok": ok, "session": reply.session, "outcome": type(reply.outcome).__name__, "text": reply.text}
        print_json(document | ({"approval": reply.outcome.approval} if isinstance(reply.outcome, Paused) else {}))
    else:
        if next_request is not None:  # there is no answer yet; the reply's text is a short form of this request
            for line in (*format_approval(next_request), *format_shell_hints(next_request)):
                print_note(line)
            return exit_code(reply.outcome)
        if reply.text:
            print(sanitize_text(reply.text))
        if not isinstance(reply.outcome, Answered):
            print_note(escape_line(describe_outcome(reply.outcome)))
    return exit_code(reply.outcome)


async def _answer_approval(
    setup: AgentSetup, options: argparse.Namespace, *, is_approved: bool
) -> tuple[Reply, ApprovalAsked | None]:
    """Answer the approval; return the turn's reply, and the next approval request if the turn stopped at one."""
    by = os.environ.get("USER", "")
    async with setup.open_agent() as agent:
        if is_approved:
            reply = await agent.approvals.approve(options.id, input=options.input, always=options.always, by=by)
        else:
            reply = await agent.approvals.deny(options.id, " ".join(options.reason), by=by)
        assert reply is not None, "approve and deny wait for the turn"
        if not isinstance(reply.outcome, Paused):
            return reply, None
        id = reply.outcome.approval
        pending = await agent.approvals.list()
        return reply, next((approval.asked for approval in pending if approval.asked.id == id), None)
