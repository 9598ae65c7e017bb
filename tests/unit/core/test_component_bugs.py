"""What a bug in the code of a component is reported as, of any kind; and that built-in components are not wrapped."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec
import pytest

from mainstay.backends import health as backend_health
from mainstay.core.components import Component
from mainstay.core.errors import ComponentBroken, ConfigError, RequestRefused
from mainstay.core.health import CheckFinding
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.core.settings import ConfigSection
from mainstay.providers.registry import build_provider
from mainstay.sandbox import health as sandbox_health
from mainstay.sandbox.host.manifest import COMPONENT as HOST

BUG = "the store 'duck' of duck-store failed: ZeroDivisionError: division by zero"


def build(call: Any, distribution: str = "duck-store") -> Component:
    module = sys.modules["duck_store"] = ModuleType("duck_store")
    module.call = call  # type: ignore[attr-defined]
    return Component(
        kind="store",
        name="duck",
        summary="",
        settings=ConfigSection,
        factory="duck_store:call",
        check="duck_store:call",
        distribution=distribution,
    )


@pytest.fixture(autouse=True)
def _no_module() -> Iterator[None]:
    yield
    sys.modules.pop("duck_store", None)


def fail(*arguments: object) -> None:
    _ = 1 / 0


def test_a_bug_of_a_function_names_the_component_and_its_distribution() -> None:
    with pytest.raises(ComponentBroken) as failed:
        build(fail).load_factory()("x")
    assert str(failed.value) == BUG
    assert failed.value.fix == "correct, upgrade or uninstall the distribution duck-store"
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        build(fail, distribution="").load_factory()("x")


def test_a_bug_in_the_middle_of_findings_keeps_those_before() -> None:
    def check(name: str) -> Iterator[CheckFinding]:
        yield CheckFinding("Database", "ok", name)
        fail()

    run = build(check).load_check()
    assert run is not None
    findings = run("one")
    assert next(findings).message == "one"
    with pytest.raises(ComponentBroken, match="failed: ZeroDivisionError"):
        next(findings)


async def test_a_bug_of_a_coroutine_is_reported_and_a_result_is_returned() -> None:
    async def check(divisor: int) -> float:
        await asyncio.sleep(0)
        return 1 / divisor

    run = build(check).load_check()
    assert run is not None
    assert await run(2) == 0.5
    with pytest.raises(ComponentBroken, match="failed: ZeroDivisionError"):
        await run(0)


def test_errors_of_ours_and_missing_libraries_are_no_bugs() -> None:
    def refuse() -> None:
        raise RequestRefused("no")

    def want_library() -> None:
        import no_such_library  # noqa: F401

    with pytest.raises(RequestRefused):
        build(refuse).load_factory()()
    with pytest.raises(ConfigError, match="needs a library that is not installed") as failed:
        build(want_library).load_factory()()
    assert not isinstance(failed.value, ComponentBroken)


# --- health checks of other kinds ----------------------------------------------------------------


async def test_a_bug_of_a_sandbox_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sandbox:
        async def exec(self, command: object) -> None:
            fail()

        async def close(self) -> None:
            pass

    monkeypatch.setattr(sandbox_health, "create_sandbox", lambda kind, options: Sandbox())
    component = msgspec.structs.replace(HOST, name="duck", distribution="duck-sandbox")
    monkeypatch.setattr(sandbox_health, "select_component", lambda kind: component)
    found = await sandbox_health.run_test_command("duck", None)
    sentence = "the sandbox 'duck' of duck-sandbox failed: ZeroDivisionError: division by zero"
    assert (found.verdict, found.message) == ("FAIL", sentence)


async def test_a_bug_of_a_backend_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backend:
        name = "stock"

        class settings:
            kind = "duck"

        async def start(self) -> None:
            fail()

    component = msgspec.structs.replace(build(fail), kind="backend")
    monkeypatch.setattr(backend_health, "find_component", lambda kind, name: component)
    probe = await backend_health.probe_backend(Backend(), lambda text: text)  # type: ignore[arg-type]
    assert "the backend 'duck' of duck-store failed: ZeroDivisionError" in probe.problem


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openai", "groq", "mine"])
async def test_a_server_of_the_users_own_needs_no_key(name: str) -> None:
    settings = ProviderSettings(base_url="http://127.0.0.1:9/v1")
    provider = build_provider(f"{name}/m", settings, environ={})
    await provider.close()


def test_a_blank_key_is_no_key() -> None:
    with pytest.raises(ConfigError, match="openai needs an API key: set OPENAI_API_KEY or "):
        build_provider("openai/m", ProviderSettings(api_key=" "), environ={})
