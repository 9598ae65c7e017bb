"""HTTP client for the local model server: never uses a proxy, whatever the environment says."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.providers.wire.connector import Connector, HttpRoute
from mainstay.providers.wire.http_client import HttpClient


class DirectConnector(Connector):
    def find_route(self, url: str) -> HttpRoute:
        return HttpRoute(url, None)


class LoopbackClient(HttpClient):
    def __init__(self, label: str, limits: Limits) -> None:
        super().__init__(label, limits, DirectConnector())
