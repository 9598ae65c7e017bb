"""The configuration says what is wrong and where, keeps secrets to itself, and changes one value at a time."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.config import reference
from mainstay.config.loader import (
    FILE,
    FUTURE_SECTIONS,
    Config,
    LoadedConfig,
    ModelEntry,
    default_home,
    list_values,
    load_config,
    set_value,
)
from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.core.provider_manifest import ProviderSettings

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-canary-7f3a"


def plant(home: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = home / FILE
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def read(home: Path, text: str | bytes, **env: str) -> LoadedConfig:
    plant(home, text)
    return load_config(home, env=env)


def refusal(home: Path, text: str | bytes, **env: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(home, text, **env)
    return str(caught.value)


# --- what is read --------------------------------------------------------------------------------


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    loaded = load_config(tmp_path / "nowhere", env={})
    assert loaded.config == Config()
    assert loaded.path == tmp_path / "nowhere" / "mainstay.yaml"
    assert set(loaded.origins.values()) == {"default"}


@pytest.mark.parametrize(
    "text", ["", "# nothing yet\n", "---\n", "limits:\nproviders:\nmodels:\nsessions:\n  memory:\n"]
)
def test_headings_with_nothing_under_them_change_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).config == Config()


def test_the_example_of_the_reference_page_loads(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", reference.render_page(), re.DOTALL)
    assert example is not None
    config = read(tmp_path, example[1], OPENAI_API_KEY=SECRET).config
    assert config.limits.tool_timeout_s == 30.0
    assert config.providers["openai"].api_key == SECRET


def test_keys_that_other_gateways_use_are_accepted_as_they_are(tmp_path: Path) -> None:
    text = """
sessions:
  memory:
    active_window: 20
    compaction:
      strategy: summarize
      summary_model: "openai/gpt-4.1-mini"
      batch_size: 50
    recent_store:
      max_messages: 1000
    summaries:
      enabled: true
      extract_facts: true
    knowledge:
      enabled: true
      scope: workspace
    embeddings:
      enabled: true
      model: "openai/text-embedding-3-small"
storage:
  backend: sqlite
  memory:
    knowledge:
      backend: sqlite
  vector:
    backend: sqlite_vec
state:
  data_dir: /var/lib/agent
"""
    config = read(tmp_path, text).config
    assert config.sessions.memory.active_window == 20
    assert config.sessions.memory.recent_store.max_messages == 1000
    assert config.storage == Config().storage
    assert config.state.data_dir == "/var/lib/agent"


def test_messages_are_shown_by_tokens_and_all_are_searchable_unless_configured() -> None:
    memory = Config().sessions.memory
    assert memory.active_window is None
    assert memory.recent_store.max_messages is None
    assert memory.compaction.batch_size == 50


def test_models_are_names_or_mappings_in_failover_order(tmp_path: Path) -> None:
    text = "models:\n  - openai/a\n  - {model: openai/b, window: 8192, price_prompt: 1}\n"
    assert read(tmp_path, text).config.models == ("openai/a", ModelEntry(model="openai/b", window=8192, price_prompt=1))


def test_norway_stays_a_string(tmp_path: Path) -> None:
    assert read(tmp_path, "instructions: no\n").config.instructions == "no"


def test_every_value_knows_where_it_came_from(tmp_path: Path) -> None:
    text = "# mine\nmodel: a/a\nlimits:\n  steps_max: 3\n  retries_max: 1\nmodels:\n  - a/a\n  - model: a/b\n"
    loaded = read(tmp_path, text, MAINSTAY__LIMITS__RETRIES_MAX="2", mainstay__lanes__key="user")
    assert loaded.origins["model"] == "mainstay.yaml:2"
    assert loaded.origins["limits.steps_max"] == "mainstay.yaml:4"
    assert loaded.origins["limits.retries_max"] == "environment MAINSTAY__LIMITS__RETRIES_MAX"
    assert loaded.origins["lanes.key"] == "environment mainstay__lanes__key"
    assert loaded.origins["limits.tool_calls_max"] == "default"
    assert loaded.origins["models.0"] == "mainstay.yaml:7"
    assert loaded.origins["models.1.model"] == "mainstay.yaml:8"
    assert loaded.origins["models.1.window"] == "default"


def test_default_home_is_named_by_the_environment(tmp_path: Path) -> None:
    assert default_home({"MAINSTAY_HOME": str(tmp_path / "h")}) == tmp_path / "h"
    assert default_home({"HOME": str(tmp_path)}) == tmp_path / ".mainstay"
    assert default_home({"HOME": str(tmp_path), "MAINSTAY_HOME": ""}) == tmp_path / ".mainstay"
    assert default_home({"MAINSTAY_HOME": "here"}).is_absolute()
    with pytest.raises(ConfigError, match="set MAINSTAY_HOME"):
        default_home({"MAINSTAY_HOME": "~nobody-of-this-name/x"})


def test_importing_the_configuration_does_not_import_yaml() -> None:
    code = (
        "import sys, mainstay.config.loader; sys.exit(any(m in sys.modules for m in ('yaml', 'difflib', 'tempfile')))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "model: openai/a\n\n\n\n\nlimits:\n  step_max: 3\n",
            "mainstay.yaml line 7: unknown key 'limits.step_max'; did you mean 'limits.steps_max'?",
        ),
        ("limit:\n  steps_max: 3\n", "mainstay.yaml line 1: unknown key 'limit'; did you mean 'limits'?"),
        ("steps_max: 3\n", "mainstay.yaml line 1: unknown key 'steps_max'; did you mean 'limits.steps_max'?"),
        (
            "general:\n  x: 1\nactive_windw: 20\n",
            "mainstay.yaml line 1: unknown key 'general'",
        ),
        (
            "active_windw: 20\n",
            "mainstay.yaml line 1: unknown key 'active_windw'; did you mean 'sessions.memory.active_window'?",
        ),
        (
            "providers:\n  openai:\n    apikey: x\n",
            "mainstay.yaml line 3: unknown key 'providers.openai.apikey'; did you mean 'providers.openai.api_key'?",
        ),
        (
            "models:\n  - model: openai/a\n    windw: 3\n",
            "mainstay.yaml line 3: unknown key 'models.0.windw'; did you mean 'models.0.window'?",
        ),
        ("zzz: 1\n", "mainstay.yaml line 1: unknown key 'zzz'"),
        (
            "tools:\n  zzz: 1\n",
            "mainstay.yaml line 2: unknown key 'tools.zzz'; 'tools' has parallel, memory, builtin, sub_agents, only, "
            "roots, readable, protected, fetch_private, declare",
        ),
        (
            "limits:\n  steps_max: many\n",
            "mainstay.yaml line 2: 'limits.steps_max': expected a whole number, got 'many'",
        ),
        (
            "limits:\n  steps_max: 2.5\n",
            "mainstay.yaml line 2: 'limits.steps_max': expected a whole number, got 2.5",
        ),
        (
            "limits:\n  steps_max: true\n",
            "mainstay.yaml line 2: 'limits.steps_max': expected a whole number, got true",
        ),
        ("limits:\n  steps_max:\n", "mainstay.yaml line 2: 'limits.steps_max': expected a whole number, got nothing"),
        ("limits: 5\n", "mainstay.yaml line 1: 'limits': expected a mapping, got a whole number"),
        ("limits: [5]\n", "mainstay.yaml line 1: 'limits': expected a mapping, got a list"),
        ("models: openai/a\n", "mainstay.yaml line 1: 'models': expected a list, got text"),
        ("models: [[x]]\n", "mainstay.yaml line 1: 'models.0': expected text or a mapping, got a list"),
        ("models:\n- {window: 5}\n", "mainstay.yaml line 2: 'models.0' needs 'model'"),
        ("tools:\n  parallel: yes\n", "mainstay.yaml line 2: 'tools.parallel': expected true or false, got 'yes'"),
        (
            "instructions: 12\n",
            "mainstay.yaml line 1: 'instructions': expected text, got a whole number; put it in quotes to make it text",
        ),
        (
            "lanes:\n  key: room\n",
            "mainstay.yaml line 2: 'lanes.key': expected 'thread' or 'user' or 'single', got 'room'",
        ),
        (
            "sessions:\n  memory:\n    active_window: 0\n",
            "mainstay.yaml line 3: 'sessions.memory.active_window': "
            "expected a whole number of at least 1 or null, got 0",
        ),
        ("- a\n", "mainstay.yaml line 1: expected a mapping of sections"),
        ("just words\n", "mainstay.yaml line 1: expected a mapping of sections"),
        ("a: 1\na: 2\n", "mainstay.yaml line 2: the key 'a' is given twice"),
        ("model: !!python/name:os.system\n", "mainstay.yaml line 1: only plain tags are allowed"),
        (
            "providers:\n  'my provider': {}\n",
            "mainstay.yaml line 2: 'providers.my provider': a name may contain only letters, digits, '-' and '_'",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_its_remedy(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(tmp_path, text) == sentence


@pytest.mark.parametrize("name", sorted(FUTURE_SECTIONS))
def test_a_section_of_a_later_release_is_not_called_a_typo(tmp_path: Path, name: str) -> None:
    text = "# what is to come\n" * 11 + f"{name}:\n  x: 1\n"
    assert refusal(tmp_path, text) == f"mainstay.yaml line 12: '{name}' is not available in this release; remove it"
    sentence = refusal(tmp_path, "", **{f"MAINSTAY__{name.upper()}__X": "1"})
    assert sentence == f"environment MAINSTAY__{name.upper()}__X: '{name}' is not available in this release; remove it"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("limits: {steps_max: 0}", "'limits.steps_max' must be at least 1"),
        ("limits: {steps_max: -3}", "'limits.steps_max' must be at least 1"),
        ("limits: {retries_max: -1}", "'limits.retries_max' must not be negative"),
        ("limits: {tool_timeout_s: 0}", "'limits.tool_timeout_s' must be more than 0"),
        ("limits: {tool_timeout_s: .inf}", "'limits.tool_timeout_s' must be a finite number"),
        ("limits: {tool_timeout_s: .nan}", "'limits.tool_timeout_s' must be a finite number"),
        ("limits: {tool_timeout_s: 1e12}", "'limits.tool_timeout_s' must be at most 1000000000 seconds"),
        ("limits: {retry_jitter: 1.5}", "'limits.retry_jitter' must be at most 1"),
        ("limits: {steps_max: 99999999999999999999}", "'limits.steps_max' must be at most"),
        ("limits: {session_turns_max: 0}", "'limits.session_turns_max' must be at least 1"),
        ("model: gpt", "'model' must be '<provider>/<model>'"),
        ("model: ''", "'model' must be '<provider>/<model>'"),
        ("models: [gpt]", "'models.0' must be '<provider>/<model>'"),
        ("models: [{model: gpt}]", "'models.0.model' must be '<provider>/<model>'"),
        ("models: [{model: a/b, price_prompt: -1}]", "expected a number of at least 0 or null"),
        ("budgets: {turn: {money: -5}}", "'budgets.turn.money': expected a number of more than 0 or null, got -5"),
        ("budgets: {turn: {money: 0}}", "'budgets.turn.money': expected a number of more than 0 or null, got 0"),
        ("budgets: {turn: {money: 1e-10}}", "'budgets.turn.money' must be more than 0"),
        ("budgets: {turn: {money: 1e400}}", "'budgets.turn.money' must be a finite number"),
        ("budgets: {warn_at: 7}", "'budgets.warn_at': expected a number between 0 and 1, got 7"),
        ("judges: {threshold: 1.5}", "'judges.threshold': expected a number between 0 and 1, got 1.5"),
        ("judges: {corrections: 11}", "'judges.corrections': expected a whole number between 1 and 10, got 11"),
        ("telemetry: {sample: 3}", "'telemetry.sample': expected a number between 0 and 1, got 3"),
        ("providers: {a: {base_url: 'localhost:80'}}", "'providers.a.base_url' must be an address"),
        ("providers: {a: {base_url: 'file:///etc/passwd'}}", "'providers.a.base_url' must be an address"),
        ('providers: {a: {api_key: "x\\n"}}', "'providers.a.api_key' must be an API key without spaces"),
        ("state: {data_dir: ''}", "'state.data_dir' must not be empty"),
        ('state: {data_dir: "a\\0b"}', "contains a NUL character"),
    ],
)
def test_an_invalid_value_is_refused(tmp_path: Path, text: str, words: str) -> None:
    sentence = refusal(tmp_path, text)
    assert sentence.startswith("mainstay.yaml line 1: ")
    assert words in sentence


def test_every_limit_may_have_its_default_and_none_may_be_negative(tmp_path: Path) -> None:
    for one in msgspec.structs.fields(Limits):
        if one.default is not None:
            assert (
                getattr(read(tmp_path, f"limits: {{{one.name}: {one.default}}}").config.limits, one.name) == one.default
            )
        assert f"'limits.{one.name}' must" in refusal(tmp_path, f"limits: {{{one.name}: -1}}")


# --- the environment -----------------------------------------------------------------------------


def test_variables_are_substituted_in_text(tmp_path: Path) -> None:
    text = "instructions: 'You are ${NAME}, ${MOOD:-calm}${EMPTY:-, kind} and $${literal} $5'\n"
    config = read(tmp_path, text, NAME="Ada", EMPTY="").config
    assert config.instructions == "You are Ada, calm, kind and ${literal} $5"


def test_a_variable_alone_becomes_the_number_that_is_wanted(tmp_path: Path) -> None:
    text = "limits:\n  steps_max: ${STEPS}\n  tool_timeout_s: ${WAIT:-1.5}\ntools: {parallel: '${P}'}\nmodel: ${M}\n"
    config = read(tmp_path, text, STEPS="7", P="false", M="openai/4").config
    assert (config.limits.steps_max, config.limits.tool_timeout_s, config.tools.parallel) == (7, 1.5, False)
    sentence = refusal(tmp_path, text, STEPS="seven", P="false", M="openai/4")
    assert sentence == "mainstay.yaml line 2: 'limits.steps_max': expected a whole number, got text"


def test_text_from_a_variable_stays_text(tmp_path: Path) -> None:
    assert read(tmp_path, "instructions: ${X}\n", X="12").config.instructions == "12"
    assert read(tmp_path, "instructions: ${X}\n", X="").config.instructions == ""


def test_a_key_from_an_empty_variable_is_no_key(tmp_path: Path) -> None:
    assert read(tmp_path, "providers: {openai: {api_key: '${K:-}'}}\n").config.providers["openai"].api_key is None


def test_a_variable_cannot_bring_yaml_with_it(tmp_path: Path) -> None:
    config = read(tmp_path, "instructions: ${X}\n", X="a\nlimits: {steps_max: 1}").config
    assert config.instructions == "a\nlimits: {steps_max: 1}"
    assert config.limits == Limits()
    assert "expected a mapping, got text" in refusal(tmp_path, "limits: '${X}'\n", X="{steps_max: 1}")
    assert read(tmp_path, "instructions: ${X}\n", X="${HOME}", HOME="no").config.instructions == "${HOME}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "providers:\n  a:\n    api_key: ${MY_KEY}\n",
            "mainstay.yaml line 3: 'providers.a.api_key' needs the environment variable 'MY_KEY', which is not set",
        ),
        ("instructions: 'a ${'\n", "mainstay.yaml line 1: 'instructions': '${' must be followed by a variable's name"),
        ("instructions: '${1x}'\n", "mainstay.yaml line 1: 'instructions': '${' must be followed by a variable's name"),
        ("instructions: ${BAD}\n", "mainstay.yaml line 1: 'instructions' contains an incomplete character"),
    ],
)
def test_an_unusable_variable_is_reported_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(tmp_path, text, BAD="\udcff").startswith(sentence)


def test_the_environment_wins_over_the_file_and_arguments_over_both(tmp_path: Path) -> None:
    plant(tmp_path, "model: openai/file\nlimits:\n  steps_max: 1\n  retries_max: 1\n")
    env = {"MAINSTAY__LIMITS__STEPS_MAX": "2", "MAINSTAY__MODEL": "openai/env"}
    loaded = load_config(tmp_path, env=env, overrides={"model": "openai/argument"})
    assert (loaded.config.limits.steps_max, loaded.config.limits.retries_max) == (2, 1)
    assert loaded.config.model == "openai/argument"
    assert loaded.origins["model"] == "argument model"
    assert load_config(tmp_path, env={}, overrides={"limits": Limits(steps_max=9)}).config.limits.steps_max == 9


@pytest.mark.parametrize(
    ("name", "value", "dotted", "expected"),
    [
        ("MAINSTAY__LIMITS__STEPS_MAX", " 4 ", "limits.steps_max", 4),
        ("Mainstay__Limits__Steps_Max", "4", "limits.steps_max", 4),
        ("MAINSTAY__LIMITS__SESSION_TURNS_MAX", "null", "limits.session_turns_max", None),
        ("MAINSTAY__LIMITS__TOOL_TIMEOUT_S", "2", "limits.tool_timeout_s", 2.0),
        ("MAINSTAY__LIMITS", '{"steps_max": 4}', "limits.steps_max", 4),
        ("MAINSTAY__TOOLS__PARALLEL", "false", "tools.parallel", False),
        ("MAINSTAY__INSTRUCTIONS", "12", "instructions", "12"),
        ("MAINSTAY__INSTRUCTIONS", "true: or not # maybe", "instructions", "true: or not # maybe"),
        ("MAINSTAY__INSTRUCTIONS", "{be: terse}", "instructions", "{be: terse}"),
        ("MAINSTAY__INSTRUCTIONS", '"quoted"', "instructions", "quoted"),
        ("MAINSTAY__INSTRUCTIONS", '"a" or "b"', "instructions", '"a" or "b"'),
        ("MAINSTAY__INSTRUCTIONS", "${NOT} touched", "instructions", "${NOT} touched"),
        ("MAINSTAY__INSTRUCTIONS", "", "instructions", ""),
        ("MAINSTAY__MODEL", "", "model", None),
        ("MAINSTAY__MODELS", '["a/b", {"model": "c/d"}]', "models", ("a/b", ModelEntry(model="c/d"))),
        ("MAINSTAY__PROVIDERS__MY_OWN__BASE_URL", "http://a", "providers.my-own.base_url", "http://a"),
        ("MAINSTAY__PROVIDERS__NEW__API_KEY", "123", "providers.new.api_key", "123"),
        ("MAINSTAY__SESSIONS__MEMORY__COMPACTION__BATCH_SIZE", "5", "sessions.memory.compaction.batch_size", 5),
    ],
)
def test_a_variable_overrides_a_value(tmp_path: Path, name: str, value: str, dotted: str, expected: object) -> None:
    config: Any = read(
        tmp_path, "providers:\n  my-own: {}\nmodels: [x/y]\nlimits: {retries_max: 3}\n", **{name: value}
    ).config
    for part in dotted.split("."):
        config = config[part] if isinstance(config, dict) else getattr(config, part)
    assert config == expected
    assert type(config) is type(expected)


def test_a_list_from_the_environment_replaces_the_list_and_its_origins(tmp_path: Path) -> None:
    loaded = read(tmp_path, "models: [a/b, c/d]\n", MAINSTAY__MODELS='["e/f"]')
    assert loaded.config.models == ("e/f",)
    assert loaded.origins["models.0"] == "environment MAINSTAY__MODELS"
    assert "models.1" not in loaded.origins


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "MAINSTAY__LIMITS__STEP_MAX",
            "3",
            "environment MAINSTAY__LIMITS__STEP_MAX: unknown key 'limits.step_max'; did you mean 'limits.steps_max'?",
        ),
        ("MAINSTAY__ZZZ", "3", "environment MAINSTAY__ZZZ: unknown key 'zzz'"),
        ("MAINSTAY__", "3", "environment MAINSTAY__: unknown key ''"),
        ("MAINSTAY__MODEL__X", "3", "environment MAINSTAY__MODEL__X: unknown key 'model.x'"),
        ("MAINSTAY__MODELS__0", "a/b", "environment MAINSTAY__MODELS__0: unknown key 'models.0'"),
        (
            "MAINSTAY__LIMITS__STEPS_MAX",
            "many",
            "environment MAINSTAY__LIMITS__STEPS_MAX: 'limits.steps_max': expected a whole number, got 'many'",
        ),
        (
            "MAINSTAY__LIMITS__STEPS_MAX",
            "0",
            "environment MAINSTAY__LIMITS__STEPS_MAX: 'limits.steps_max' must be at least 1",
        ),
        ("MAINSTAY__MODELS", "[a/b", "environment MAINSTAY__MODELS: 'models': this is not valid JSON"),
        ("MAINSTAY__MODELS", "[" * 100_000, "environment MAINSTAY__MODELS: 'models': this is not valid JSON"),
        ("MAINSTAY__LIMITS", '{"a": 1, "a": 2}', "environment MAINSTAY__LIMITS: 'limits': a key is given twice"),
        (
            "MAINSTAY__INSTRUCTIONS",
            "\udcff",
            "environment MAINSTAY__INSTRUCTIONS: 'instructions' contains an incomplete character",
        ),
    ],
)
def test_a_wrong_override_is_reported_with_its_variable(tmp_path: Path, name: str, value: str, sentence: str) -> None:
    assert refusal(tmp_path, "", **{name: value}).startswith(sentence)


def test_two_variables_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    assert "set the same value" in refusal(tmp_path, "", MAINSTAY__MODEL="a/b", mainstay__model="a/c")


# --- secrets -------------------------------------------------------------------------------------


def test_keys_are_never_shown(tmp_path: Path) -> None:
    text = f"""
providers:
  a: {{api_key: {SECRET}, base_url: "https://me:{SECRET}@host/v1?key={SECRET}"}}
models: [{{model: a/b, api_key: {SECRET}}}]
"""
    loaded = read(tmp_path, text)
    rows = {path: (value, origin) for path, value, origin in list_values(loaded)}
    assert rows["providers.a.api_key"] == ("set (hidden)", "mainstay.yaml:3")
    assert rows["providers.a.base_url"] == ("https://(hidden)@host/v1?(hidden)", "mainstay.yaml:3")
    assert rows["models.0.api_key"] == ("set (hidden)", "mainstay.yaml:4")
    assert loaded.config.providers["a"].api_key == SECRET
    assert SECRET not in repr(loaded)
    assert SECRET not in str(rows)
    assert SECRET not in str(loaded.config.models[0].__rich_repr__())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        f"providers: {{a: {SECRET}}}",
        f"providers: {{a: {{api_key: [{SECRET}]}}}}",
        f"providers: {{a: {{api_key: '{SECRET} {SECRET}'}}}}",
        f"providers: {{a: {{base_url: '{SECRET}'}}}}",
        f"limits: {{steps_max: {SECRET}}}",
        f"providers: {{a: {{api_key: '{SECRET}\n",
    ],
)
def test_an_error_does_not_repeat_what_may_be_a_secret(tmp_path: Path, text: str) -> None:
    assert SECRET not in refusal(tmp_path, text)


def test_show_prints_every_value_on_one_line(tmp_path: Path) -> None:
    loaded = read(tmp_path, 'instructions: "a\\nb\\e[31m"\nlimits: {tool_timeout_s: 5}\n')
    rows = {path: value for path, value, _ in list_values(loaded)}
    assert rows["instructions"] == '"a\\U0000000ab\\U0000001b[31m"'
    assert rows["limits.tool_timeout_s"] == "5.0"
    assert rows["model"] == "null"
    assert rows["tools.parallel"] == "true"
    assert rows["providers"] == "{}"
    assert set(rows) == set(loaded.origins)


def test_a_key_in_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = plant(tmp_path, f"providers: {{a: {{api_key: {SECRET}}}}}\n", 0o644)
    with pytest.raises(ConfigError, match="other users may read it: run `chmod 600"):
        load_config(tmp_path, env={})
    path.chmod(0o600)
    assert load_config(tmp_path, env={}).config.providers == {"a": ProviderSettings(api_key=SECRET)}


def test_the_name_of_a_secret_may_be_in_a_readable_file(tmp_path: Path) -> None:
    plant(tmp_path, "providers: {a: {api_key: '${K}'}}\n", 0o644)
    assert load_config(tmp_path, env={"K": SECRET}).config.providers["a"].api_key == SECRET


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / FILE).mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FILE).symlink_to(tmp_path / "nowhere")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / FILE)
    (tmp_path / "d").write_text("a file")
    for name, words in [("a", "cannot be read|not a regular"), ("b", "link to"), ("c", "regular"), ("d", "directory")]:
        with pytest.raises(ConfigError, match=words):
            load_config(tmp_path / name, env={})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "model: a/b\n", 0)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load_config(tmp_path, env={})


# --- hostile files -------------------------------------------------------------------------------


def test_bombs_are_refused(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    for level in range(1, 9):
        bomb += f"a{level}: &a{level} [" + ",".join([f"*a{level - 1}"] * 9) + "]\n"
    assert "aliases" in refusal(tmp_path, bomb)
    assert "nested deeper" in refusal(tmp_path, "models: " + "[" * 500_000)
    assert "larger than" in refusal(tmp_path, "# " + "x" * 10_000_000)
    assert "not UTF-8" in refusal(tmp_path, b"model: \xff")


KEYS = sorted(
    {"limits", "steps_max", "models", "model", "providers", "sessions", "memory", "state", "data_dir", "x", "tools"}
)
WORDS = st.one_of(
    st.sampled_from(
        [*KEYS, ":", " ", "\n", "\n  ", "- ", "[", "]", "{", "}", "${A}", "${", "&a ", "*a", "!!int ", "'", '"', "#"]
    ),
    st.text(max_size=3),
    st.integers().map(str),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


FUZZ = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@FUZZ
@given(st.one_of(st.lists(WORDS, max_size=25).map("".join), st.text(), st.binary()))
def test_any_file_loads_or_is_refused_with_one_error(folder: Path, text: str | bytes) -> None:
    plant(folder, text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        shown = list_values(load_config(folder, env={"A": "1"}))
    except ConfigError as error:
        shown = [("", str(error), "")]
    assert all(value.isprintable() for _, value, _ in shown)


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("${A}")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)),
    max_leaves=10,
)


@FUZZ
@given(st.dictionaries(st.sampled_from([one.name for one in msgspec.structs.fields(Config)]), TREES))
def test_any_tree_loads_or_is_refused_with_one_error(folder: Path, tree: dict[str, Any]) -> None:
    plant(folder, msgspec.yaml.encode(tree))
    try:
        load_config(folder, env={"A": "1"})
    except ConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017


@FUZZ
@given(st.text(alphabet="ABLIMTSE_", max_size=12), st.text(max_size=10))
def test_any_variable_overrides_or_is_refused_with_one_error(folder: Path, name: str, value: str) -> None:
    (folder / FILE).unlink(missing_ok=True)
    try:
        load_config(folder, env={f"MAINSTAY__{name}": value, "MAINSTAY__LIMITS__STEPS_MAX": value or "1"})
    except ConfigError:
        pass


# --- changing one value --------------------------------------------------------------------------

COMMENTED = """\
# my agent
model: openai/a   # the cheap one

limits:           # tight
  # not too many
  steps_max: 5    # five
  retries_max: 1
# about providers
providers:
  openai: {base_url: "http://a"}  # flow
tools:
# the end
"""


def changed(home: Path, text: str, name: str, value: Any, **env: str) -> str:
    plant(home, text)
    set_value(home, name, value, env=env)
    return (home / FILE).read_text()


@pytest.mark.parametrize(
    ("name", "value", "old", "new"),
    [
        ("model", "openai/b", "model: openai/a   #", "model: openai/b   #"),
        ("limits.steps_max", "7", "steps_max: 5    # five", "steps_max: 7    # five"),
        ("limits.tool_timeout_s", "2.5", "  retries_max: 1\n", "  retries_max: 1\n  tool_timeout_s: 2.5\n"),
        ("providers.openai.base_url", "https://b:1/v1", '"http://a"', "https://b:1/v1"),
        ("providers.openai.api_key", "k", '"http://a"}', '"http://a", api_key: k}'),
        ("providers.own.base_url", "http://b", "# flow\n", "# flow\n  own:\n    base_url: http://b\n"),
        ("tools.parallel", "false", "tools:\n", "tools:\n  parallel: false\n"),
        ("lanes.key", "user", "# the end\n", "# the end\nlanes:\n  key: user\n"),
        ("instructions", "No: 1 # x", "# the end\n", '# the end\ninstructions: "No: 1 # x"\n'),
        ("instructions", "12", "# the end\n", '# the end\ninstructions: "12"\n'),
        ("instructions", "a\nb\u2028😀", "# the end\n", '# the end\ninstructions: "a\\U0000000ab\\U00002028😀"\n'),
        ("models", '["a/b", {"model": "c/d"}]', "# the end\n", '# the end\nmodels: [a/b, {"model": c/d}]\n'),
        ("limits.session_turns_max", None, "  retries_max: 1\n", "  retries_max: 1\n  session_turns_max: null\n"),
        ("model", "null", "model: openai/a ", "model: null "),
    ],
)
def test_one_value_is_changed_and_everything_else_stays(
    tmp_path: Path, name: str, value: Any, old: str, new: str
) -> None:
    assert COMMENTED.count(old) == 1
    assert changed(tmp_path, COMMENTED, name, value) == COMMENTED.replace(old, new)


def test_a_file_is_made_where_there_was_none_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    set_value(home, "sessions.memory.active_window", "20", env={})
    assert (home / FILE).read_text() == "sessions:\n  memory:\n    active_window: 20\n"
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) & 0o077 == 0
    assert load_config(home, env={}).config.sessions.memory.active_window == 20
    assert [one.name for one in home.iterdir()] == [FILE]


def test_setting_a_key_in_a_readable_file_makes_it_private(tmp_path: Path) -> None:
    path = plant(tmp_path, "model: a/b\n", 0o644)
    set_value(tmp_path, "providers.a.api_key", SECRET, env={})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_config(tmp_path, env={}).config.providers["a"].api_key == SECRET


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "dotfiles").write_text("model: a/b\n")
    (tmp_path / "home" / FILE).symlink_to(tmp_path / "dotfiles")
    set_value(tmp_path / "home", "model", "c/d", env={})
    assert (tmp_path / "home" / FILE).is_symlink()
    assert (tmp_path / "dotfiles").read_text() == "model: c/d\n"


@pytest.mark.parametrize(
    ("text", "name", "value", "expected"),
    [
        ("model: a/b", "limits.steps_max", "3", "model: a/b\nlimits:\n  steps_max: 3\n"),
        ("model:\nlimits: {}\n", "model", "a/b", "model: a/b\nlimits: {}\n"),
        ("limits: {}\n", "limits.steps_max", "3", "limits: {steps_max: 3}\n"),
        ("limits: null\n", "limits.steps_max", "3", "limits: {steps_max: 3}\n"),
        ("limits: ~ # x\n", "limits.steps_max", "3", "limits: {steps_max: 3} # x\n"),
        (
            "models:\n  - a/b\n  - model: c/d\n",
            "models.1.window",
            "9",
            "models:\n  - a/b\n  - model: c/d\n    window: 9\n",
        ),
        ("models: [a/b, c/d]\n", "models.1", "e/f", "models: [a/b, e/f]\n"),
        ("{model: a/b}\n", "lanes.key", "user", "{model: a/b, lanes: {key: user}}\n"),
        ("model: a/b\r\nlimits:\r\n", "limits.steps_max", "3", "model: a/b\r\nlimits:\r\n  steps_max: 3\r\n"),
        ("\ufeffmodel: a/b # ä😀\n", "model", "c/d", "model: c/d # ä😀\n"),
        ("instructions: |\n  one\n  two\n", "model", "a/b", "instructions: |\n  one\n  two\nmodel: a/b\n"),
        ("---\n# only a comment", "model", "a/b", "---\n# only a comment\nmodel: a/b\n"),
        ("model: ${M:-a/b}\n", "model", "${N:-c/d}", 'model: "${N:-c/d}"\n'),
        ("limits:\n  steps_max: x\n", "limits.steps_max", "3", "limits:\n  steps_max: 3\n"),
    ],
)
def test_many_layouts_can_be_changed(tmp_path: Path, text: str, name: str, value: str, expected: str) -> None:
    plant(tmp_path, text)
    set_value(tmp_path, name, value, env={})
    assert (tmp_path / FILE).read_bytes().decode() == expected


@pytest.mark.parametrize(
    ("text", "name", "value", "words"),
    [
        (COMMENTED, "limits.steps_max", "many", "left unchanged: mainstay.yaml line 6: 'limits.steps_max': expected"),
        (COMMENTED, "limits.steps_max", "0", "left unchanged: mainstay.yaml line 6: 'limits.steps_max' must be"),
        (
            COMMENTED,
            "limits.step_max",
            "3",
            "config set: unknown key 'limits.step_max'; did you mean 'limits.steps_max'?",
        ),
        (COMMENTED, "engine.x", "3", "config set: 'engine' is not available in this release; remove it"),
        (COMMENTED, "", "3", "unknown key"),
        (COMMENTED, "model", "${UNSET}", "needs the environment variable 'UNSET'"),
        (COMMENTED, "models", "[a", "this is not valid JSON"),
        (COMMENTED, "limits", '{"steps_max": 3}', "spans several lines"),
        ("instructions: |\n  one\n", "instructions", "x", "spans several lines"),
        ("models:\n  - a/b\n", "models.1", "c/d", "unknown key 'models.1'"),
        ("limits: &a {steps_max: 1}\n", "limits", "*a", "left unchanged"),
        ("limits: 5\n", "model", "a/b", "left unchanged"),
        ("- a\n", "limits.steps_max", "3", "left unchanged"),
        ("limits: [1]\n", "limits.steps_max", "3", "left unchanged"),
        ("model: a/b\n...\n", "lanes.key", "user", "left unchanged"),
        ("model: [\n", "model", "a/b", "mainstay.yaml line 2"),
        (
            "providers:\n  a: &p {base_url: 'http://a'}\n  b: *p\n",
            "providers.b.base_url",
            "http://c",
            "cannot be edited automatically",
        ),
    ],
)
def test_a_change_that_cannot_be_made_leaves_the_file_as_it_was(
    tmp_path: Path, text: str, name: str, value: str, words: str
) -> None:
    path = plant(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(words)):
        set_value(tmp_path, name, value, env={})
    assert path.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


def test_a_disk_that_refuses_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plant(tmp_path, "model: a/b\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        set_value(tmp_path, "model", "c/d", env={})
    assert path.read_text() == "model: a/b\n"
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


@FUZZ
@given(st.text(), st.booleans())
def test_any_text_that_is_set_reads_back(folder: Path, text: str, fresh: bool) -> None:
    plant(folder, "" if fresh else COMMENTED)
    before = (folder / FILE).read_text()
    try:
        set_value(folder, "instructions", text, env={})
    except ConfigError:
        assert (folder / FILE).read_text() == before
    else:
        assert before in (folder / FILE).read_text()
        if "${" not in text and text[:1] not in ("'", '"'):
            assert load_config(folder, env={}).config.instructions == text


# --- the reference page --------------------------------------------------------------------------


def fields(struct: type[msgspec.Struct]) -> Iterator[Any]:
    for one in msgspec.structs.fields(struct):
        yield one
        for section in reference.list_structs(one.type):
            yield from fields(section)


def test_every_field_is_described() -> None:
    assert all(reference.describe_field(one).endswith(".") for one in fields(Config))
    assert set(reference.LIMIT_DESCRIPTIONS) == {one.name for one in msgspec.structs.fields(Limits)}


def test_the_committed_page_is_the_one_made_from_the_schema() -> None:
    page = ROOT / "docs" / "reference" / "configuration.md"
    assert page.read_text() == reference.render_page(), "run python -m mainstay.config.reference > the page"
