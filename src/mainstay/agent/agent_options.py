"""Options of an agent: the arguments of `Agent`, and the services that a gateway shares with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.ports import ContextContributor, Provider, Store, Tool
from mainstay.core.tool_ports import ChannelSearch, Outbox

if TYPE_CHECKING:
    from mainstay.agent.home_budgets import HomeBudgets
    from mainstay.agent.telemetry import Telemetry
    from mainstay.core.judges import AnswerJudge
    from mainstay.judges.judge_declaration import Judge, Scorer
    from mainstay.metering.rate_limiter import RateLimiterRegistry
    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

    AgentJudge = AnswerJudge | Judge | Scorer  # what the argument `judges` takes

ApiKey = str | Callable[[], str | Awaitable[str]]


class ChannelThreadOpener(Protocol):
    """Opens threads in the rooms of chat platforms, for triggers that post there."""

    async def open_thread(self, workspace: str, address: ChatAddress, text: str, key: str) -> ChatAddress:
        """Post a text that starts a thread. Idempotent: the same key returns the same thread and posts nothing."""
        ...

    async def find_thread(self, workspace: str, key: str) -> ChatAddress | None:
        """Return the thread that was opened with this key; None if there is none."""
        ...


class GatewayServices(msgspec.Struct, frozen=True):
    """What a gateway shares with the agents of its workspaces."""

    outbox: Outbox | None = None  # messages to people on channels
    find_channel: Callable[[str], ChannelSearch | None] = lambda session: None  # the channel of a session
    contributors: tuple[ContextContributor, ...] = ()
    is_guest: Callable[[str], bool] = lambda person: False  # True: tools may only read for this person
    # True: the person, in this session, may read what comes from sessions of other people
    can_read_all: Callable[[str, str], bool] = lambda person, session: True
    channel_threads: ChannelThreadOpener | None = None
    telemetry: Telemetry | None = None
    budgets: HomeBudgets | None = None
    database: HomeProjectionDatabase | None = None
    rate_limiters: RateLimiterRegistry | None = None  # of the process
    is_main: bool = False  # the gateway's own workspace: its admins administer the whole home


class AgentOptions(msgspec.Struct, frozen=True):
    """The arguments of `Agent`."""

    model: str | Provider | None
    tools: tuple[Tool, ...]
    instructions: str | Callable[[str], str]
    base_url: str | None
    api_key: ApiKey | None
    gateway: GatewayServices | None = None  # set in a gateway, which owns the home itself
    judges: tuple[AgentJudge, ...] = ()  # in addition to the configured ones
    store: Store | None = None  # None: the configured one
