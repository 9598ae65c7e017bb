"""Finds the conversation that a slash command is for, where the platform does not say in which thread it was typed."""

from __future__ import annotations

from mainstay.core.channels import IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.ports import SessionInfo
from mainstay.gateway.channel_message_conversion import find_session_info
from mainstay.gateway.slash_commands import SlashCommand
from mainstay.gateway.workspace import Workspace

SESSIONS_LOOKED_AT = 500  # the last updated ones: a running session is among them
CONVERSATION_COMMANDS = ("stop", "steer", "status", "approve", "deny")


async def find_command_session(workspace: Workspace, session: str, message: IncomingMessage, person: str) -> str | None:
    """Return the session that a command is for: that of its thread, else the one that is running in the room; of
    several, the person's own. None: it cannot be told which of them."""
    info = await find_session_info(workspace, session)
    if info is not None and (info.unfinished or message.address.thread):
        return session
    running = await _list_running(workspace, message.address)
    if len(running) > 1:
        running = [key for key in running if await _is_started_by(workspace, key, person)]
        return running[0] if len(running) == 1 else None
    return running[0] if running else session


def may_name_approval(command: SlashCommand) -> bool:
    """True for `/approve ID` and `/deny ID …`: an id says by itself which conversation is meant."""
    return command.name in ("approve", "deny") and command.arguments.strip().lower() not in ("", "always")


async def _list_running(workspace: Workspace, address: ChatAddress) -> list[str]:
    """Return the sessions of the room's threads whose turn is not finished."""
    room = f"{ChatAddress(address.channel, address.room)}:"
    store = (await workspace.runtime()).services.store
    infos: list[SessionInfo] = await store.list_sessions(limit=SESSIONS_LOOKED_AT)
    return [info.key for info in infos if info.unfinished and info.spawned is None and info.key.startswith(room)]


async def _is_started_by(workspace: Workspace, session: str, person: str) -> bool:
    turn = (await (await workspace.runtime()).lanes.get(session).load_session()).open_turn
    return turn is not None and turn.sender == person
