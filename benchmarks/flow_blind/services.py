"""All services and their tools."""

from __future__ import annotations

from typing import Any

from state import Service, Style, World, declare_tools
from svc_calendar import CalendarService
from svc_code import CodeService
from svc_drive import DriveService
from svc_home import CustomerService, HealthService, HouseService, ListService, ShopService, WebService
from svc_mail import MailService
from svc_money import MoneyService
from svc_team import TeamService
from svc_trip import TripService

SERVICES: tuple[type[Service], ...] = (
    MailService,
    CalendarService,
    DriveService,
    TeamService,
    MoneyService,
    CodeService,
    TripService,
    ListService,
    HouseService,
    ShopService,
    HealthService,
    CustomerService,
    WebService,
)


class Kit:
    """The tools of one style, which are built once and then work on one world after the other."""

    def __init__(self, style: Style) -> None:
        self.services = [service(World()) for service in SERVICES]
        self.tools: list[Any] = declare_tools(self.services, style)

    def use(self, world: World) -> None:
        for service in self.services:
            service.world = world
