"""`mainstay approvals`: what turns wait for, and answers to it."""

from __future__ import annotations

import argparse
import os

import msgspec

from mainstay.agent.grants import Grants
from mainstay.cli.chat.asking import asked_lines, elsewhere
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import ending
from mainstay.cli.commands.homes import Place, place_of, reading, run_async
from mainstay.cli.commands.out import print_json, when
from mainstay.cli.commands.run import exit_code
from mainstay.cli.commands.talking import Setting, owner_of, setting, tell
from mainstay.core.events import ApprovalAsked
from mainstay.core.outcome import Answered, Paused, Reply
from mainstay.lane.pausing import Approvals, Pending


def list_approvals(options: argparse.Namespace) -> int:
    found = run_async(_pending(place_of(options)))
    if options.json:
        print_json({"ok": True, "approvals": [msgspec.to_builtins(one) for one in found]})
        return 0
    if not found:
        tell("nothing waits for an approval")
    for one in found:
        print(f"{one.asked.id}  {visible(one.session)}  until {when(one.asked.expires)}")
        for line in asked_lines(one.asked):
            print(f"  {line}")
    return 0


def approve(options: argparse.Namespace) -> int:
    return _answered(options, yes=True)


def deny(options: argparse.Namespace) -> int:
    return _answered(options, yes=False)


def rules(options: argparse.Namespace) -> int:
    place = place_of(options)
    found = Grants(place.database.parent).rules
    if options.json:
        print_json({"ok": True, "rules": found})
    for rule in found if not options.json else ():
        print(visible(rule))
    if not found and not options.json:
        tell("nothing was always allowed")
    return 0


def revoke(options: argparse.Namespace) -> int:
    place = place_of(options)
    if (owner := owner_of(place)) is not None:
        run_async(owner.approvals.revoke(options.rule))
    else:
        run_async(Grants(place.database.parent).remove(options.rule))
    if options.json:
        print_json({"ok": True})
    else:
        tell(f"it will be asked about again: {visible(options.rule)}")
    return 0


async def _pending(place: Place) -> list[Pending]:
    """From whoever owns the home, else from its files."""
    if (owner := owner_of(place)) is not None:
        return await owner.approvals.list()
    found = []
    async with reading(place) as store:
        for key in await store.unfinished():
            standing = await store.get(key)
            if standing is not None and standing.approval is not None:
                found.append(Pending(key, standing.approval))
    return found


def _answered(options: argparse.Namespace, *, yes: bool) -> int:
    """The turn goes on here, or in the process that owns the home; either way its answer is printed."""
    waiting = Approvals()
    for one in run_async(_pending(place_of(options))):
        waiting.note(one.session, one.asked)
    waiting.find(options.id)  # what does not wait needs no model to be told so
    options.model = None
    reply, next_one = run_async(_answer(setting(options), options, yes=yes))
    if options.json:
        ok = isinstance(reply.outcome, Answered)
        made = {"ok": ok, "session": reply.session, "outcome": type(reply.outcome).__name__, "text": reply.text}
        print_json(made | ({"approval": reply.outcome.approval} if isinstance(reply.outcome, Paused) else {}))
    else:
        if next_one is not None:  # nothing was answered yet; the reply's text says the same in short
            for line in (*asked_lines(next_one), *elsewhere(next_one)):
                tell(line)
            return exit_code(reply.outcome)
        if reply.text:
            print(safe(reply.text))
        if not isinstance(reply.outcome, Answered):
            tell(visible(ending(reply.outcome)))
    return exit_code(reply.outcome)


async def _answer(where: Setting, options: argparse.Namespace, *, yes: bool) -> tuple[Reply, ApprovalAsked | None]:
    """What became of the turn, and the next question if it met one."""
    by = os.environ.get("USER", "")
    async with where.agent() as agent:
        if yes:
            reply = await agent.approvals.approve(options.id, input=options.input, always=options.always, by=by)
        else:
            reply = await agent.approvals.deny(options.id, " ".join(options.reason), by=by)
        assert reply is not None, "it was waited for"
        if not isinstance(reply.outcome, Paused):
            return reply, None
        id = reply.outcome.approval
        return reply, next((one.asked for one in await agent.approvals.list() if one.asked.id == id), None)
