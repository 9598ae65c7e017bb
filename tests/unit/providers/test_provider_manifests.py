"""Manifests of providers: what a provider's folder says of itself is what the configuration and the commands use."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
from msgspec import Meta

from mainstay import providers
from mainstay.agent.model_discovery import explain_missing_model, find_model, list_local_servers
from mainstay.agent.model_health import ModelCheckOptions, check_models, check_provider_files
from mainstay.agent.model_providers import ModelProviders
from mainstay.agent.trust_setup import list_known_secrets
from mainstay.cli.main import main
from mainstay.config.loader import Config, list_values, load_config
from mainstay.config.reference import render_page
from mainstay.core import components
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckFinding
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.core.provider_manifest import (
    ProviderCheckContext,
    ProviderComponent,
    ProviderFactoryContext,
    ProviderFilesContext,
    ProviderSettings,
)
from mainstay.core.settings import Secret
from mainstay.providers import registry
from mainstay.terminal.formatters import format_price

NAMES = tuple(providers.COMPONENTS)


class OracleSettings(ProviderSettings, frozen=True, kw_only=True):
    priestess: Annotated[str, Meta(description="Who speaks.")] = "Pythia"
    offering: Annotated[Secret, Meta(description="What it costs.")] = ""


class OracleProvider:
    def __init__(self, info: ModelInfo, answer: str) -> None:
        self._info = info
        self._answer = answer

    def model(self) -> ModelInfo:
        return self._info

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        yield TextPiece(self._answer)
        yield StreamFinished(FinishReason.END)

    async def close(self) -> None:
        pass


def build_oracle(model: str, settings: OracleSettings, context: ProviderFactoryContext) -> OracleProvider:
    context.check_api_key()
    return OracleProvider(context.info, f"{settings.priestess} of {model} at {context.base_url}")


def check_oracle(model: str, settings: OracleSettings, context: ProviderCheckContext) -> Iterator[CheckFinding]:
    yield CheckFinding("Model", "warn", f"{settings.priestess} breathes fumes; deep: {context.is_deep}")


def check_oracle_files(context: ProviderFilesContext) -> Iterator[CheckFinding]:
    yield CheckFinding("Local model", "ok", "the tripod was wiped" if context.fix else "the tripod is dusty")


ORACLE = ProviderComponent(
    name="oracle",
    title="The Oracle",
    summary="Riddles.",
    settings=OracleSettings,
    factory="fake_oracle:build_oracle",
    base_url="http://127.0.0.1:9/v1",
    url_variable="ORACLE_URL",
    key_variables=("ORACLE_KEY",),
    default_model="delphi",
    is_local=True,
    model_info="fake_oracle:find_oracle_model",
    check="fake_oracle:check_oracle",
    files_check="fake_oracle:check_oracle_files",
)


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more built-in provider: a folder, and a line in the index."""
    module = ModuleType("fake_oracle")
    parts = {"build_oracle": build_oracle, "check_oracle": check_oracle, "check_oracle_files": check_oracle_files}
    module.__dict__.update(parts, RIDDLES=ORACLE, find_oracle_model=lambda name: ModelInfo(name=name, window=777))
    monkeypatch.setitem(sys.modules, "fake_oracle", module)
    monkeypatch.setitem(providers.COMPONENTS, "oracle", "fake_oracle:RIDDLES")
    for variable in [one for one in os.environ if one.endswith(("_API_KEY", "_BASE_URL")) or one == "ORACLE_KEY"]:
        monkeypatch.delenv(variable)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def configure(home: Path, text: str) -> Config:
    (home / "mainstay.yaml").write_text(text)
    (home / "mainstay.yaml").chmod(0o600)
    return load_config(home, env={}).config


@pytest.mark.usefixtures("oracle")
def test_doctor_checks_the_files_of_every_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_MODELS", str(tmp_path / "weights"))
    (tmp_path / "weights" / ".wheels-killed").mkdir(parents=True, mode=0o700)
    messages = [finding.message for finding in check_provider_files(fix=False)]
    assert [message[:16] for message in messages] == ["1 folder of a ki", "the tripod is du"]
    assert [finding.message for finding in check_provider_files(fix=True)][-1] == "the tripod was wiped"


# --- secrets and set-up --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_provider_names_its_secret_and_the_steps_that_set_it_up(name: str) -> None:
    provider = registry.find_provider(name)
    assert provider is not None
    assert provider.setup_steps(name, {})
    assert provider.secrets == ((("api_key",),) if provider.key_variable else ())
    if provider.key_variables:
        assert provider.secret_variable(name, "api_key") == provider.key_variables[0]
        assert provider.describe_secret("api_key") == f"the API key of {provider.title}"


def test_one_field_of_a_manifest_says_where_the_key_is() -> None:
    provider = ProviderComponent(
        name="seer",
        title="The Seer",
        summary="Visions.",
        factory="x:y",
        secrets=(("api_key",),),
        secret_variables={"api_key": "{NAME}_EYE"},
        secret_hints={"api_key": "its third eye"},
    )
    assert (provider.key_variables, provider.key_variable) == (("SEER_EYE",), "SEER_EYE")
    assert provider.describe_secret("api_key") == "its third eye"
    assert ORACLE.secrets == (("api_key",),)
    assert ORACLE.secret_variable("oracle", "api_key") == "ORACLE_KEY"


def test_the_steps_are_shown_by_init_and_in_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    step = "create an API key at https://console.groq.com/keys"
    arguments = ["init", "--home", str(tmp_path / "home"), "--model", "groq/m", "--yes"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == [step]
    monkeypatch.setenv("GROQ_API_KEY", "gsk-12345")
    assert main([*arguments, "--json", "--force"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == []
    assert f"| `GROQ_API_KEY` | {step} |" in render_page()


# --- every place that lists providers derives from the index -------------------------------------


@pytest.mark.usefixtures("oracle")
def test_a_new_provider_can_be_configured_and_its_secrets_are_masked_and_redacted(home: Path) -> None:
    config = configure(home, "providers:\n  oracle: {priestess: Themis, offering: goldgold, api_key: sk-12345}\n")
    assert config.providers == {"oracle": OracleSettings(priestess="Themis", offering="goldgold", api_key="sk-12345")}
    assert "goldgold" not in repr(config)
    shown = {key: value for key, value, _ in list_values(load_config(home, env={})) if key.startswith("providers.")}
    assert (shown["providers.oracle.offering"], shown["providers.oracle.priestess"]) == ("set (hidden)", "Themis")
    assert {"goldgold", "sk-12345"} <= set(list_known_secrets(config, {}))
    merged = configure(home, "workspaces:\n  team:\n    providers:\n      oracle: {priestess: Themis}\n").workspaces
    assert merged["team"].providers == {"oracle": OracleSettings(priestess="Themis")}


@pytest.mark.usefixtures("oracle")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("oracle: {pristess: x}", "line 2: unknown key 'providers.oracle.pristess'; did you mean 'providers.oracle.pr"),
        ("oracle: {priestess: 3}", "line 2: 'providers.oracle.priestess': expected text, got a whole number"),
        ("openai: {priestess: x}", "line 2: 'providers.openai': 'priestess' is not a key of the provider 'openai'"),
        ("mine: {base_ulr: x}", "line 2: unknown key 'providers.mine.base_ulr'; did you mean 'providers.mine.base_"),
    ],
)  # fmt: skip
def test_mistakes_in_its_settings_have_a_line_and_a_near_match(home: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as failed:
        configure(home, f"providers:\n  {text}\n")
    assert str(failed.value).startswith(f"mainstay.yaml {sentence}")


@pytest.mark.usefixtures("oracle")
async def test_it_is_built_with_its_settings_the_address_and_the_key(home: Path) -> None:
    config = configure(home, "model: oracle/delphi\nproviders:\n  oracle: {priestess: Themis, api_key: k}\n")
    provider = ModelProviders(None, "http://there/v1", None, config).provider_for("")
    pieces = [piece async for piece in provider.stream(Context("", []), Options())]
    assert pieces[0] == TextPiece("Themis of delphi at http://there/v1")
    assert provider.model().window == 777
    with pytest.raises(ConfigError, match="oracle needs an API key: set ORACLE_KEY"):
        registry.build_provider("oracle/delphi", environ={})
    with pytest.raises(ConfigError, match=r"there is no provider 'scripted': .*`mainstay eval CASES --script FILE"):
        registry.build_provider("scripted/answers.yaml", environ={})
    with pytest.raises(ConfigError, match="there is no provider 'oracel'; did you mean 'oracle'"):
        registry.build_provider("oracel/delphi", environ={})


@pytest.mark.usefixtures("oracle")
def test_it_is_found_by_its_key_or_its_server(home: Path) -> None:
    nowhere = {"OLLAMA_HOST": "127.0.0.1:9", "MAINSTAY_MODELS": str(home)}
    found = find_model(Config(), {**nowhere, "ORACLE_KEY": "k"}, probe=False)
    assert found is not None
    assert (found.spec, found.key_variable) == ("oracle/delphi", "ORACLE_KEY")
    servers = list_local_servers({"ORACLE_URL": "http://box/v1"})
    assert [(one.name, one.base_url) for one in servers if one.provider == "oracle"] == [
        ("The Oracle", "http://box/v1")
    ]
    assert "ORACLE_KEY is set, but empty" in explain_missing_model({"ORACLE_KEY": ""})
    assert "vLLM and The Oracle" in explain_missing_model({})


@pytest.mark.usefixtures("oracle")
def test_doctor_calls_its_model_and_its_check(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(home, "model: oracle/delphi\nproviders:\n  oracle: {priestess: Themis}\n")
    monkeypatch.setenv("ORACLE_KEY", "k")
    found = asyncio.run(check_models(config, ModelCheckOptions()))
    assert [(one.check, one.verdict) for one in found] == [("Model", "warn"), ("Model", "ok")]
    assert found[0].message == "Themis breathes fumes; deep: False"
    assert found[1].message.startswith("oracle/delphi answered in ")
    monkeypatch.delenv("ORACLE_KEY")
    (failed,) = asyncio.run(check_models(config, ModelCheckOptions(is_offline=True)))
    assert failed.fix.startswith("export ORACLE_KEY=…")


@pytest.mark.usefixtures("oracle")
def test_it_is_in_the_reference_and_init_takes_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = render_page()
    assert "| `oracle` | Riddles. | `ORACLE_URL` or `http://127.0.0.1:9/v1` | `ORACLE_KEY` |" in page
    assert "### `providers.<name>`, `oracle`\n\nRiddles.\n" in page
    assert "| `priestess` | text | `Pythia` | Who speaks. |" in page
    assert main(["init", "--model", "oracle/delphi", "--yes", "--json", "--home", str(home)]) == 0
    assert '"name": "ORACLE_KEY"' in capsys.readouterr().out
    assert main(["init", "--model", "oracel/delphi", "--yes", "--force", "--home", str(home)]) == 1
    assert "did you mean 'oracle'?" in capsys.readouterr().err


@pytest.mark.usefixtures("oracle")
def test_a_model_without_an_address_is_free_only_where_it_runs_here() -> None:
    assert format_price("local/small", 0.0) == "free"
    assert format_price("oracle/delphi", 0.0) == "price unknown"
    assert registry.account_fingerprint("oracle/delphi", environ={}) is not None


# --- the built-in manifests ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_is_complete(name: str) -> None:
    provider = registry.find_provider(name)
    assert provider is not None
    assert provider.name == name
    assert provider.summary.endswith(".")
    assert provider.title
    for reference in (provider.factory, provider.url_parser, provider.model_info, provider.model_checker,
                      provider.model_finder, provider.check):  # fmt: skip
        assert not reference or callable(provider._load(reference))
    assert bool(provider.libraries) == bool(provider.install)
    if provider.default_model:
        assert provider.key_variables
        assert not registry.find_model_info(name, provider.default_model).guessed


def test_manifests_import_no_library_and_no_provider_and_a_model_imports_only_its_own() -> None:
    program = """
import sys
from mainstay.providers import registry
before = set(sys.modules)
registry.build_provider("anthropic/m", api_key="k", environ={})
loaded = {name for name in sys.modules if name.startswith("mainstay.providers.")}
assert {name for name in loaded if name.endswith(".manifest")} == {
    "mainstay.providers.anthropic.manifest", "mainstay.providers.openai.manifest"}
assert "mainstay.providers.openai.provider" not in loaded
assert "importlib.metadata" not in set(sys.modules) - before
list(registry.list_providers())
known = sys.stdlib_module_names | {"mainstay", "msgspec"}
print(sorted({name for name in set(sys.modules) - before if name.partition(".")[0] not in known}))
print(sorted(name for name in sys.modules if name.startswith("mainstay.providers.") and name.endswith(".provider")))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(providers.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.splitlines() == ["[]", "['mainstay.providers.anthropic.provider']"]


# --- manifests of other distributions ------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("1 / 0", "the provider 'duck' of duck-provider cannot be loaded: ZeroDivisionError"),
        (
            "from mainstay.core.components import Component\n"
            "from mainstay.core.provider_manifest import ProviderSettings\n"
            "COMPONENT = Component(kind='provider', name='duck', summary='', settings=ProviderSettings, factory='x:y')",
            "the provider 'duck' of duck-provider has no valid manifest: it must be a "
            "mainstay.core.provider_manifest.ProviderComponent, but is of the type Component",
        ),
        (
            "from mainstay.core.provider_manifest import ProviderComponent\n"
            "COMPONENT = ProviderComponent(name='duck', title='Duck', summary='x', factory='no_such_module:y')",
            "the provider 'duck' of duck-provider names the function 'no_such_module:y', but there is no module",
        ),
    ],
    ids=["raises", "another class", "no module"],
)
def test_a_provider_that_cannot_be_used_is_a_sentence_and_breaks_no_other(
    source: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "duck_provider.py").write_text(source)
    metadata = tmp_path / "duck_provider-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: duck-provider\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[mainstay.providers]\nduck = duck_provider:COMPONENT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "duck_provider", raising=False)
    components._find_in_distributions.cache_clear()
    try:
        with pytest.raises(ConfigError) as failed:
            registry.build_provider("duck/x", environ={})
        assert sentence in str(failed.value)
        (found,) = asyncio.run(check_models(Config(model="duck/x"), ModelCheckOptions(is_offline=True)))
        assert (found.verdict, sentence in found.message) == ("FAIL", True)
        assert [one.name for one in registry.list_providers()][: len(NAMES)] == list(NAMES)
    finally:
        components._find_in_distributions.cache_clear()
