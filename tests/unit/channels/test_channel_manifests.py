"""Manifests of channels: what a channel's folder says of itself is what the configuration and the commands use."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from mainstay import channels
from mainstay.channels.styled_text import _create_parser
from mainstay.cli.commands import init_channel
from mainstay.cli.commands.doctor_gateway_checks import check_gateway
from mainstay.cli.main import main
from mainstay.cli.parser.base import UsageError
from mainstay.cli.parser.root import build_parser
from mainstay.config.loader import list_values, load_config
from mainstay.config.reference import render_page
from mainstay.core import components
from mainstay.core.channel_settings import ChannelComponent, ChannelSettings, find_channel_component
from mainstay.core.components import ConditionalSetupStep
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.settings import Secret, list_secret_settings

KINDS = tuple(channels.COMPONENTS)


class PigeonSettings(ChannelSettings, frozen=True, kw_only=True):
    loft: Annotated[str, Meta(description="Where the pigeons live.")] = ""
    whistle: Annotated[Secret, Meta(description="The tune that calls them.")] = ""
    corn: Annotated[int, Meta(description="Grains for each message.")] = 3


def check_pigeon(name: str, settings: PigeonSettings, context: CheckContext) -> Iterator[CheckFinding]:
    yield CheckFinding("Channel", "warn", f"{name}: {settings.loft} has no roof; offline: {context.is_offline}")


PIGEON = ChannelComponent(
    name="pigeon",
    summary="Carrier pigeons.",
    settings=PigeonSettings,
    factory="fake_pigeon:build",
    required={"loft": "/srv/loft"},
    secrets=(("whistle",),),
    setup=("build {loft}", ConditionalSetupStep("buy {corn} grains", given="corn")),
    check="fake_pigeon:check_pigeon",
)


@pytest.fixture
def pigeon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more built-in channel: a folder, and a line in the index."""
    module = ModuleType("fake_pigeon")
    module.__dict__.update(COMPONENT=PIGEON, check_pigeon=check_pigeon)
    monkeypatch.setitem(sys.modules, "fake_pigeon", module)
    monkeypatch.setitem(channels.COMPONENTS, "pigeon", "fake_pigeon")
    monkeypatch.delenv("PIGEON_WHISTLE", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def configure(home: Path, text: str, mode: int = 0o600) -> None:
    (home / "mainstay.yaml").write_text(text)
    (home / "mainstay.yaml").chmod(mode)


# --- every place that lists channels derives from the index --------------------------------------


@pytest.mark.usefixtures("pigeon")
def test_a_new_channel_can_be_configured_and_its_secret_is_masked(home: Path) -> None:
    configure(home, "channels:\n  post: {kind: pigeon, loft: /roof, whistle: tralala, corn: 5}\n")
    loaded = load_config(home, env={})
    assert loaded.config.channels == {"post": PigeonSettings(kind="pigeon", loft="/roof", whistle="tralala", corn=5)}
    assert "tralala" not in repr(loaded.config)
    shown = {key: value for key, value, _ in list_values(loaded) if key.startswith("channels.post.")}
    assert (shown["channels.post.whistle"], shown["channels.post.corn"]) == ("set (hidden)", "5")
    configure(home, "channels:\n  pigeon: {loft: /roof, whistle: tralala}\n", mode=0o644)
    with pytest.raises(ConfigError, match="contains a secret and other users may read it"):
        load_config(home, env={})


@pytest.mark.usefixtures("pigeon")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{loft: x, corm: 1}", "line 2: unknown key 'channels.pigeon.corm'; did you mean 'channels.pigeon.corn'?"),
        ("{loft: x, corn: many}", "line 2: 'channels.pigeon.corn': expected a whole number, got 'many'"),
        ("{loft: x}", "line 2: the channel 'pigeon' needs whistle"),
        ("{whistle: x}", "line 2: the channel 'pigeon' needs loft"),
        ("{loft: x, app_token: y}", "line 2: 'channels.pigeon': 'app_token' is not a key of 'kind: pigeon'; remove it"),
        ("{kind: pidgeon}", "line 2: 'channels.pigeon.kind': there is no channel 'pidgeon'; did you mean 'pigeon'?"),
    ],
)  # fmt: skip
def test_mistakes_in_its_settings_have_a_line_and_a_near_match(home: Path, text: str, sentence: str) -> None:
    configure(home, f"channels:\n  pigeon: {text}\n")
    with pytest.raises(ConfigError) as failed:
        load_config(home, env={})
    assert str(failed.value).startswith(f"mainstay.yaml {sentence}")


@pytest.mark.usefixtures("pigeon")
def test_environment_variables_can_name_its_kind_and_its_settings_in_any_order(home: Path) -> None:
    prefix = "MAINSTAY__CHANNELS__POST__"
    env = {f"{prefix}CORN": "7", f"{prefix}KIND": "pigeon", f"{prefix}LOFT": "/roof", f"{prefix}WHISTLE": "x"}
    configure(home, "")
    config = load_config(home, env=env).config
    assert config.channels["post"] == PigeonSettings(kind="pigeon", loft="/roof", whistle="x", corn=7)
    configure(home, "channels:\n  post: {kind: '${K}', loft: x, whistle: '${UNSET}'}\n")
    assert load_config(home, env={"K": "pigeon"}).config.channels["post"].kind == "pigeon"
    with pytest.raises(ConfigError, match=r"'channels\.post\.kind' needs the environment variable 'K'"):
        load_config(home, env={})


@pytest.mark.usefixtures("pigeon")
def test_it_is_in_the_reference(home: Path) -> None:
    page = render_page()
    assert "### `channels.<name>`, kind `pigeon`\n\nCarrier pigeons.\n" in page
    assert "| `corn` | a whole number | `3` | Grains for each message. |" in page


@pytest.mark.usefixtures("pigeon")
def test_channel_add_and_init_offer_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["channel", "add", "--help"])
    assert "pigeon" in capsys.readouterr().out
    assert init_channel.list_offered_kinds() == [*(kind for kind in KINDS if kind != "terminal"), "pigeon"]
    assert init_channel.channel_from_options("pigeon", ["loft=/roof"]).settings == {
        "loft": "/roof",
        "whistle": "${PIGEON_WHISTLE}",
    }
    configure(home, "model: openai/fake\n")
    assert main(["channel", "add", "pigeon", "loft=/roof", "corn=9", "--home", str(home)]) == 0
    out = capsys.readouterr().out
    assert "PIGEON_WHISTLE is its whistle: set it where the server runs" in out
    assert "- build /roof\n  - buy 9 grains\n" in out
    assert main(["channel", "list", "--home", str(home)]) == 0
    assert "needs its whistle: the variable PIGEON_WHISTLE is not set" in capsys.readouterr().out
    with pytest.raises(UsageError, match="pigeon needs loft: add --set loft=/srv/loft"):
        init_channel.channel_from_options("pigeon", [])


@pytest.mark.usefixtures("pigeon")
def test_doctor_runs_the_check_of_its_manifest(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(home, "channels:\n  pigeon: {loft: /roof, whistle: '${PIGEON_WHISTLE}'}\n")
    monkeypatch.setenv("PIGEON_WHISTLE", "tralala")
    config = load_config(home, env=os.environ).config
    found = asyncio.run(check_gateway(config, home, fix=False, is_offline=True))
    assert [(one.verdict, one.message) for one in found if one.check == "Channel"] == [
        ("ok", "pigeon: pigeon in default; test it with `mainstay channel test pigeon`"),
        ("warn", "pigeon: /roof has no roof; offline: True"),
    ]


# --- the built-in manifests ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_is_complete(kind: str) -> None:
    component = find_channel_component(kind)
    assert component.name == kind
    assert component.summary.endswith(".")
    assert component.setup
    assert components._find_manifest_problem(component) == ""
    assert bool(component.libraries) == bool(component.install)
    secrets = {key for group in component.secrets for key in group}
    assert secrets <= set(component.secret_hints) == set(list_secret_settings(component.settings))
    assert callable(component.load_factory())
    fields = msgspec.structs.fields(component.settings)
    assert all(any(isinstance(part, Meta) and part.description for part in field.type.__metadata__) for field in fields)


def test_setup_steps_depend_on_the_settings_that_are_given() -> None:
    slack = find_channel_component("slack")
    socket_mode = slack.setup_steps("team", {"token": "${T}", "app_token": "${A}"})
    events = slack.setup_steps("team", {"token": "${T}", "signing_secret": "${S}"})
    (step,) = set(socket_mode) - set(events)
    assert step.startswith("enable Socket Mode")
    (step,) = set(events) - set(socket_mode)
    assert step.startswith("have its events posted to https://HOST/channels/team")


def test_the_suggested_variables_are_named_after_the_channel() -> None:
    assert find_channel_component("slack").secret_variable("team-chat", "token") == "TEAM_CHAT_BOT_TOKEN"
    assert find_channel_component("slack").secret_variable("slack", "app_token") == "SLACK_APP_TOKEN"
    assert find_channel_component("matrix").secret_variable("matrix", "token") == "MATRIX_ACCESS_TOKEN"


def test_manifests_import_no_library_and_no_channel_and_configuring_one_imports_only_its_manifest() -> None:
    program = """
import sys
from mainstay.core.channel_settings import list_channel_components
before = set(sys.modules)
from mainstay.core.components import find_component
find_component("channel", "slack")
assert {name for name in sys.modules if name.endswith(".manifest")} == {"mainstay.channels.slack.manifest"}
assert "importlib.metadata" not in set(sys.modules) - before
list(list_channel_components())
known = sys.stdlib_module_names | {"mainstay", "msgspec"}
print(sorted({name for name in set(sys.modules) - before if name.partition(".")[0] not in known}))
print(sorted(name for name in sys.modules if name.startswith("mainstay.channels.") and name.count(".") > 2))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(channels.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    others, modules = done.stdout.splitlines()
    assert others == "[]"
    assert modules == str(sorted(channels.COMPONENTS.values()))


# --- manifests of other distributions ------------------------------------------------------------


def offer(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, source: str) -> None:
    """Put a distribution on the path that has one module and one channel."""
    (folder / f"{name}_channel.py").write_text(source)
    metadata = folder / f"{name}_channel-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-channel\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[mainstay.channels]\n{name} = {name}_channel:COMPONENT\n")
    monkeypatch.syspath_prepend(str(folder))


CHANNEL = """
from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
class Settings(ChannelSettings, frozen=True, kw_only=True):
    pin: str = ""
COMPONENT = ChannelComponent(name={name!r}, summary="x", settings=Settings, factory="x:y", {more})
"""


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("1 / 0", "the channel 'duck' of duck-channel cannot be loaded: ZeroDivisionError: division by zero"),
        ("COMPONENT = 5", "the channel 'duck' of duck-channel has no valid manifest: duck_channel:COMPONENT must be a"),
        (CHANNEL.format(name="goose", more=""), "the channel 'duck' of duck-channel has no valid manifest"),
        (CHANNEL.format(name="duck", more="required={'pond': 'x'}"), "names the setting 'pond', which Settings"),
        (CHANNEL.format(name="duck", more="secrets=(('pin',),)"), "names the secret 'pin', whose type is not mainstay"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_used_is_reported_with_its_distribution_and_breaks_no_other(
    source: str, sentence: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, tmp_path, "duck", source)
    monkeypatch.delitem(sys.modules, "duck_channel", raising=False)
    problems: list[str] = []
    names = [component.name for component in components.list_components("channel", problems.append)]
    assert names == list(KINDS)
    assert [sentence in problem for problem in problems] == [True]
    configure(home, "channels:\n  duck: {}\n")
    with pytest.raises(ConfigError) as failed:
        load_config(home, env={})
    assert str(failed.value).startswith("the "), "the line of the configuration is not to blame"
    assert sentence in str(failed.value)


def test_a_distribution_cannot_take_the_name_of_a_built_in_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, tmp_path, "slack", "1 / 0")
    assert components.component_names("channel") == list(KINDS)
    assert find_channel_component("slack").distribution == ""


def test_choices_are_read_only_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "component_names", lambda kind: pytest.fail("not needed"))
    assert isinstance(build_parser().parse_args(["channel", "list"]), argparse.Namespace)


def test_a_missing_parser_is_installed_with_a_channel_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(ConfigError) as failed:
        _create_parser.__wrapped__()
    needing = [one for one in components.list_components("channel") if "markdown_it" in one.libraries]
    assert len(needing) == 3
    assert str(failed.value).endswith(": " + ", or ".join(one.install for one in needing))
