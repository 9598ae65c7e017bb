"""HTTP to a process of our own on this machine: never through a proxy, whatever the environment says."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.providers.dial import Dialler, Route
from mainstay.providers.http_client import Client


class _Straight(Dialler):
    def route(self, url: str) -> Route:
        return Route(url, None)


class NearClient(Client):
    def __init__(self, who: str, limits: Limits) -> None:
        super().__init__(who, limits)
        self._dialler = _Straight()
