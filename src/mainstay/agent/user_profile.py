"""`agent.profile(session)`: facts about the person of a session, their goals and preferences."""

from __future__ import annotations

from mainstay.operations import sessions as operations
from mainstay.operations.client_protocol import OperationClient


class Profile:
    """The profile of one session. Field names are free."""

    def __init__(self, session: str, client: OperationClient) -> None:
        self._session = session
        self._execute = client.execute

    async def get(self) -> dict[str, str]:
        return (await self._execute(operations.GetProfile(session=self._session))).fields

    async def set(self, **fields: str) -> None:
        """Add or change fields; an empty text removes one."""
        await self._execute(operations.SetProfile(session=self._session, fields=fields))

    async def clear(self) -> None:
        await self._execute(operations.ClearProfile(session=self._session))
