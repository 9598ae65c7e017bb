"""What the builders of built-in tools get."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.ports import Tool
from mainstay.core.tool_ports import ChannelSearch, Outbox, Sandbox, Scheduler, Spawner
from mainstay.tools.base import SessionFileAccess

if TYPE_CHECKING:  # only agents with these tools need the modules
    from mainstay.io.fetch import FetchRules
    from mainstay.tools.process import BackgroundProcesses


class ToolDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What built-in tools use. A builder takes what its tool needs."""

    file_access: SessionFileAccess
    sandbox: Sandbox | None = None  # for commands; None: no tool runs any
    processes: BackgroundProcesses | None = None  # in the background of that sandbox
    has_network: bool = False  # commands have network access
    fetch_rules: FetchRules | None = None
    is_url_denied: Callable[[Tool, str], bool] = lambda tool, url: False  # True: a policy rule denies this URL
    can_schedule: bool = False  # something stores what the `schedule` tool schedules
    scheduler: Scheduler | None = None
    spawner: Spawner | None = None  # of sub-agents
    outbox: Outbox | None = None  # to people on channels and to other agents
    find_channel: Callable[[str], ChannelSearch | None] = lambda session: None  # the channel of a session
    is_guest: Callable[[str], bool] = lambda person: False  # True: tools show this person nothing of other people


ToolBuilder = Callable[[ToolDependencies], Tool | None]  # None: the tool cannot be offered with these dependencies
