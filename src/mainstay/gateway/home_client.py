"""Asks the process that owns a home for its status or for an operation, or runs the operation in its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

from mainstay.config.schema import Config
from mainstay.core.errors import HomeTaken
from mainstay.gateway.home_socket import OWNER_POLL_S, OWNER_WAIT_S, find_home_owner
from mainstay.operations.home import GetStatus
from mainstay.operations.operation import Operation
from mainstay.operations.runtime_protocols import ServerStatus
from mainstay.store.home import read_lock_owner

R = TypeVar("R")
STATUS_TIMEOUT_S = 5.0  # for the server to report its status


async def load_server_status(data_folder: Path) -> ServerStatus | None:
    """Return the status of the server that owns this home; None if no server does.

    Raises HomeTaken if the process that owns the home does not answer.
    """
    if (remote := find_home_owner(data_folder)) is None:
        return None
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            try:
                return await remote.execute(GetStatus())
            except HomeTaken:
                await remote.model()  # a chat answers this too; raises if no process answers
                return None
    except TimeoutError:
        owner = read_lock_owner(data_folder).get("pid", "?")
        raise HomeTaken(f"process {owner} owns {data_folder} and does not answer; stop it, or wait") from None


async def execute_on_home(config: Config, data_folder: Path, operation: Operation[R]) -> R:
    """Run an operation in the process that owns the home, else in this one, which owns the home meanwhile."""
    for _ in range(int(OWNER_WAIT_S / OWNER_POLL_S)):
        if (remote := find_home_owner(data_folder)) is not None:
            return await remote.execute(operation)
        try:
            from mainstay.gateway.offline_home import run_offline  # only needed while no process owns the home

            return await run_offline(data_folder, config, operation)
        except HomeTaken as error:
            taken = error
            await asyncio.sleep(OWNER_POLL_S)
    raise taken
