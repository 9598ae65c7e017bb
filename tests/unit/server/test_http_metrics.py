"""`/metrics`: who may read it."""

from __future__ import annotations

from typing import Any

from support.http_world import ALL, MAIN, world

from mainstay.providers.scripted import Step
from mainstay.server.http_app import HttpSettings

TEXT = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n"


def echoing(context: Any, options: Any) -> Step:
    return "yes"


async def test_the_owner_on_this_machine_reads_it_as_prometheus_does() -> None:
    async with world(echoing, settings=HttpSettings(workspace=MAIN, render_metrics=lambda: TEXT)) as here:
        got = await here.ask("GET", "/metrics", headers={"Accept": "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
        assert (got.status, got.body) == (200, TEXT.encode())
        assert got.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        head = await here.ask("HEAD", "/metrics")
        assert (head.status, head.body) == (200, b"")
        assert (await here.ask("POST", "/metrics")).error == "wrong_method"


async def test_every_other_caller_needs_a_read_key_of_an_admin_of_the_main_workspace() -> None:
    async with world(
        echoing, settings=HttpSettings(workspace=MAIN, keys="required", render_metrics=lambda: TEXT)
    ) as here:
        assert (await here.ask("GET", "/metrics")).error == "unauthorised"
        assert (await here.ask("GET", "/metrics", key="ms_nobody_at_all")).error == "unauthorised"
        member = await here.key("mia")
        assert (await here.ask("GET", "/metrics", key=member)).error == "forbidden"
        talks = await here.key("ann", role="admin", scopes=("chat",))
        assert (await here.ask("GET", "/metrics", key=talks)).error == "forbidden"
        elsewhere = await here.key("eve", workspace="other", role="admin", scopes=ALL)
        assert (await here.ask("GET", "/metrics", key=elsewhere)).error == "forbidden"
        reads = await here.key("ann", role="admin", scopes=("read",))
        got = await here.ask("GET", "/metrics", key=reads)
        assert (got.status, got.body) == (200, TEXT.encode())


async def test_a_page_of_another_origin_and_a_foreign_host_name_read_nothing() -> None:
    async with world(echoing, settings=HttpSettings(workspace=MAIN, render_metrics=lambda: TEXT)) as here:
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            got = await here.ask("GET", "/metrics", headers=headers)
            assert got.status == 403
            assert b"a_total" not in got.body


async def test_without_metrics_the_route_is_not_found() -> None:
    async with world(echoing) as here:
        assert (await here.ask("GET", "/metrics")).error == "not_found"
