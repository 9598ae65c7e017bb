"""All services, and their tools in one style of declaration."""

from __future__ import annotations

from typing import Any

from api_bank import BankService
from api_calendar import CalendarService
from api_chat import ChatService
from api_crm import CrmService
from api_files import FilesService
from api_home import HomeService, ShopService
from api_hr import HrService, WebService
from api_mail import MailService
from api_repos import RepoService
from api_travel import TravelService
from records import OfficeService, OfficeWorld
from state import Style, World, declare_tools

SERVICES: tuple[type[OfficeService], ...] = (
    MailService,
    CalendarService,
    FilesService,
    ChatService,
    TravelService,
    BankService,
    RepoService,
    CrmService,
    HomeService,
    ShopService,
    HrService,
    WebService,
)


class Toolset:
    """The tools of one style; their world can be exchanged, because making tools is slow."""

    def __init__(self, style: Style) -> None:
        self.services = [service(OfficeWorld()) for service in SERVICES]
        self.tools: list[Any] = declare_tools(self.services, style)

    def use(self, world: World) -> None:
        for service in self.services:
            service.world = world  # type: ignore[assignment]
