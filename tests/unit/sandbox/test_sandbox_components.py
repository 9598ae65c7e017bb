"""Manifests of sandboxes: what is listed in the index can be configured, is checked by `doctor`, runs commands and is
in the reference."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
from msgspec import Meta

from mainstay import Agent, sandbox
from mainstay.cli.main import main
from mainstay.config.component_options import resolve_sandbox_options
from mainstay.config.loader import load_config, set_value
from mainstay.config.reference import render_page
from mainstay.config.schema import SandboxSettings
from mainstay.core.component_options import SandboxOptions
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckFinding
from mainstay.core.outcome import Reply
from mainstay.core.sandbox_manifest import SandboxCheckContext, SandboxComponent
from mainstay.sandbox.docker.manifest import DockerOptions
from mainstay.sandbox.health import check_sandbox, run_test_command
from mainstay.sandbox.host.sandbox import HostSandbox
from mainstay.sandbox.limits import SandboxLimits, SandboxUnusable
from mainstay.sandbox.selection import create_sandbox
from mainstay.testing import Call, ScriptedProvider

NOWHERE = SandboxCheckContext(home=Path("/nowhere"), data=Path("/nowhere"), workspace="default")
BROKEN: list[str] = []  # why the pit does not work


class PitOptions(SandboxOptions, frozen=True, kw_only=True):
    depth: Annotated[int, Meta(ge=1, description="How deep it is.")] = 1
    container: Annotated[str, Meta(description="What it is in.")] = ""


class PitSandbox(HostSandbox):
    name = "pit"
    built: list[tuple[PitOptions, SandboxLimits]] = []


def build_pit(options: PitOptions, limits: SandboxLimits) -> PitSandbox:
    PitSandbox.built.append((options, limits))
    return PitSandbox(limits)


def check_pit(options: PitOptions, context: SandboxCheckContext) -> CheckFinding:
    if BROKEN:
        return CheckFinding("Sandbox", "FAIL", f"no command can run: {BROKEN[0]}", "bail it out")
    return CheckFinding("Sandbox", "ok", f"pit: {options.depth} deep")


def find_pit_problem() -> str | None:
    return BROKEN[0] if BROKEN else None


PIT = SandboxComponent(
    kind="sandbox",
    name="pit",
    summary="A pit.",
    settings=PitOptions,
    factory=f"{__name__}:build_pit",
    check=f"{__name__}:check_pit",
    problem=f"{__name__}:find_pit_problem",
)


@pytest.fixture
def pit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in sandbox as its folder would bring it: a manifest, and one line of the index."""
    BROKEN.clear()
    PitSandbox.built.clear()
    manifest = ModuleType("mainstay_pit_manifest")
    manifest.COMPONENT = PIT  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, manifest.__name__, manifest)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.setitem(sandbox.COMPONENTS, "pit", manifest.__name__)


def write_config(home: Path, text: str) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "mainstay.yaml").write_text(text)
    return home


def test_manifests_import_no_sandbox() -> None:
    code = """
import sys
from mainstay.core.components import find_component
for name in ("bubblewrap", "host", "docker"):
    find_component("sandbox", name)
print([name for name in sys.modules if name.startswith("mainstay.sandbox.") and "." in name[17:]])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("mainstay.sandbox.") == done.stdout.count(".manifest'") == 3


@pytest.mark.usefixtures("pit")
def test_listed_sandboxes_are_configured_checked_used_and_documented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "sandbox: {kind: pit, options: {depth: 3}, memory_mb: 512}\ntools: {builtin: [bash]}\npolicy: {allow: [bash]}\n"
    )
    home = write_config(tmp_path / "home", text)
    assert load_config(home, env={}).config.sandbox.options == PitOptions(depth=3)
    model = ScriptedProvider([[Call("bash", {"command": "echo deep down"})], "Done."])

    async def talk() -> Reply:
        async with Agent(model, home=home) as agent:
            return await agent.run("s", "hi")

    assert [result.content.strip() for result in asyncio.run(talk()).results] == ["deep down"]
    assert [(options, limits.memory_mb) for options, limits in PitSandbox.built] == [(PitOptions(depth=3), 512)]
    main(["doctor", "--offline", "--json", "--home", str(home)])
    found = [one for one in json.loads(capsys.readouterr().out)["checks"] if one["check"] == "Sandbox"]
    assert [one["verdict"] for one in found] == ["ok", "ok"]
    assert found[0]["says"] == "pit: 3 deep"
    assert "the test command took" in found[1]["says"]
    page = render_page()
    assert "### `sandbox.options`, kind `pit`\n\nA pit.\n" in page
    assert "| `depth` | a whole number of at least 1 | `1` | How deep it is. |" in page


@pytest.mark.usefixtures("pit")
async def test_an_unusable_sandbox_is_refused_when_selected() -> None:
    BROKEN.append("it is full of water")
    with pytest.raises(SandboxUnusable, match="it is full of water"):
        create_sandbox("pit")
    found = check_sandbox("pit", None, NOWHERE)
    assert (found.verdict, found.message, found.fix) == (
        "FAIL",
        "no command can run: it is full of water",
        "bail it out",
    )
    tried = await run_test_command("pit", None)
    assert (tried.verdict, tried.message) == ("FAIL", "no command can run: it is full of water")


@pytest.mark.usefixtures("pit")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{kind: pitt}", "line 1: 'sandbox.kind' is not valid: there is no sandbox 'pitt'; did you mean 'pit'?"),
        ("{kind: pit, options: {depth: 0}}", "line 1: 'sandbox.options.depth': expected a whole number of at least 1"),
        ("{kind: pit, options: {dept: 1}}", "line 1: unknown key 'sandbox.options.dept'; did you mean"),
        ("{kind: pit, options: {mount: /x}}", "line 1: 'sandbox.options': 'mount' is not a key of the sandbox 'pit'"),
        ("{options: {depth: 2}}", "line 1: 'sandbox.options': 'depth' is not a key of the sandbox 'auto'; remove it"),
        ("{kind: docker}", "'sandbox.container' must name the container in which 'sandbox.kind: docker' runs commands"),
    ],
)
def test_mistakes_are_found_before_a_command_runs(tmp_path: Path, text: str, sentence: str) -> None:
    write_config(tmp_path, f"sandbox: {text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, env={})
    assert sentence in str(caught.value)


@pytest.mark.usefixtures("pit")
def test_keys_of_the_section_are_options_where_the_sandbox_has_them() -> None:
    assert resolve_sandbox_options(SandboxSettings(kind="docker", container="box")) == DockerOptions(container="box")
    assert resolve_sandbox_options(SandboxSettings(kind="pit", container="box")) == PitOptions(container="box")
    given = SandboxSettings(kind="docker", container="box", options=DockerOptions(container="other", mount="/m"))
    assert resolve_sandbox_options(given) == DockerOptions(container="other", mount="/m")
    assert resolve_sandbox_options(SandboxSettings(container="box")) == SandboxOptions()


def test_a_workspace_has_options_of_its_own_for_the_shared_sandbox(tmp_path: Path) -> None:
    write_config(
        tmp_path,
        "sandbox: {kind: docker, container: box}\nworkspaces:\n  team:\n    sandbox: {options: {mount: /work}}\n",
    )
    loaded = load_config(tmp_path, env={})
    assert resolve_sandbox_options(loaded.config.sandbox) == DockerOptions(container="box")
    assert resolve_sandbox_options(loaded.for_workspace("team").sandbox) == DockerOptions(
        container="box", mount="/work"
    )


def test_options_are_set_by_a_command(tmp_path: Path) -> None:
    for key, value in (("container", "box"), ("kind", "docker"), ("options.docker", "podman")):
        set_value(tmp_path, f"sandbox.{key}", value)
    settings = load_config(tmp_path, env={}).config.sandbox
    assert resolve_sandbox_options(settings) == DockerOptions(container="box", docker="podman")
    with pytest.raises(
        ConfigError, match=r"unknown key 'sandbox\.options\.mont'; did you mean 'sandbox\.options\.mount'"
    ):
        set_value(tmp_path, "sandbox.options.mont", "/x")
