"""All tools of the benchmark for one world."""

from __future__ import annotations

from typing import Any

from toolbox import Style, tools_of
from tools_bank import BankTools
from tools_calendar import CalendarTools
from tools_chat import ChatTools
from tools_files import FileTools
from tools_mail import MailTools
from tools_tracker import TrackerTools
from tools_travel import TravelTools
from tools_web import WebTools
from world import World

SERVICES = (MailTools, CalendarTools, FileTools, ChatTools, TravelTools, BankTools, TrackerTools, WebTools)


def build_tools(world: World, style: Style = "careful") -> list[Any]:
    """Return all tools on this world, declared in this style."""
    return tools_of([service(world) for service in SERVICES], style)
