"""plugin.yaml: what is read, what is refused with its line, what the owner is shown, and what a process is given."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.guards.line_escaping import one_line
from mainstay.plugins.manifest import PluginLimits, PluginManifest, describe_requests, fill_env, read_manifest

LEAST = """\
name: weather
version: 1.2.0
description: Tells the weather.
run: python main.py
actions:
  - name: forecast
    description: Tell the weather of a place.
"""
WHOLE = """\
name: weather
version: "2"
description: Tells the weather.
run: [python, main.py, --place, "a b"]
actions:
  - name: forecast
    description: Tell the weather of a place.
    parameters:
      type: object
      properties:
        place: {type: string}
        to: {type: string}
    effect: pure
    timeout_s: 5
    untrusted: false
    sink: [to]
  - name: alarm
    description: Wake somebody.
    sink: true
needs:
  network: [api.weather.com, "*.weather.com:8443"]
  read: [~/maps]
  write: [/srv/weather]
env:
  KEY: ${WEATHER_KEY}
  BOTH: ${secret:weather}/${WEATHER_KEY}
  MODE: fast
context: [session, prompt]
limits: {memory_mb: 512, processes: 8}
"""


def read(folder: Path, text: str) -> PluginManifest:
    (folder / "plugin.yaml").write_text(text)
    return read_manifest(folder)


def test_the_least_manifest_has_careful_defaults(tmp_path: Path) -> None:
    """OPENTALON-011, OPENTALON-012, OPENTALON-049"""
    manifest = read(tmp_path, LEAST)
    assert manifest.run == ("python", "main.py")
    action = manifest.actions[0]
    assert (action.effect, action.timeout_s, action.untrusted, action.sink) == ("unsafe", 30.0, True, False)
    assert action.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert manifest.tool_name(action) == "weather__forecast"
    assert (manifest.needs, manifest.env, manifest.context) == (ProcessPermissions(), {}, ())
    assert manifest.limits == PluginLimits()


def test_everything_that_can_be_said_is_read(tmp_path: Path) -> None:
    """OPENTALON-011, OPENTALON-012"""
    manifest = read(tmp_path, WHOLE)
    assert (manifest.name, manifest.description) == ("weather", "Tells the weather.")
    assert [(action.name, action.description) for action in manifest.actions] == [
        ("forecast", "Tell the weather of a place."),
        ("alarm", "Wake somebody."),
    ]
    assert manifest.actions[0].parameters["properties"] == {"place": {"type": "string"}, "to": {"type": "string"}}
    assert manifest.version == "2"
    assert manifest.run == ("python", "main.py", "--place", "a b")
    assert manifest.actions[0].sink == ("to",)
    assert manifest.actions[0].timeout_s == 5
    assert manifest.needs == ProcessPermissions(
        network=("api.weather.com", "*.weather.com:8443"), read=("~/maps",), write=("/srv/weather",)
    )
    assert manifest.context == ("session", "prompt")
    assert manifest.limits == PluginLimits(memory_mb=512, processes=8)
    assert manifest.env_references() == ["WEATHER_KEY", "secret:weather"]


def test_a_command_is_split_as_a_shell_would(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST.replace("python main.py", """node "my main.js" -x 'a b'""")).run == (
        "node",
        "my main.js",
        "-x",
        "a b",
    )


def test_the_owner_is_shown_everything_in_plain_words(tmp_path: Path) -> None:
    assert describe_requests(read(tmp_path, WHOLE)) == [
        "reach api.weather.com over the network",
        "reach *.weather.com:8443 over the network",
        "read the files in ~/maps",
        "read and change the files in /srv/weather",
        "read the variable WEATHER_KEY of your environment",
        "read your secret weather",
        "know which conversation it is called from",
        "see what you wrote last",
        "send data out with forecast (destination: to)",
        "send data out with alarm",
        "run up to 8 processes in 512 MB, 600 s of CPU each",
        "store up to 1000 values of its own, 4096 KB in all, and 512 MB of files",
    ]
    assert len(describe_requests(read(tmp_path, LEAST))) == 2


WRONG = {
    "a name with a path": (("weather", "../weather"), 1, "'name': expected text of small letters and digits"),
    "a name with a capital": (("weather", "Weather"), 1, "'name': expected text of small letters and digits"),
    "a name with an underscore": (("weather", "wea_ther"), 1, "'name': expected text of small letters and digits"),
    "a name with a line break": (
        ("name: weather", 'name: "weather\\n"'),
        1,
        "'name': expected text of small letters and digits",
    ),
    "a long name": (("weather", "w" * 33), 1, "'name': expected text of length <= 32"),
    "a version that is a number": (("1.2.0", "1.2"), 2, "'version': expected text, got a number; put it in quotes"),
    "a long description": (("Tells the weather.", "x" * 600), 3, "'description': expected text of length <= 512"),
    "no command": (("python main.py", "''"), 4, "'run'"),
    "an open quotation": (("python main.py", 'python "main.py'), 4, "'run'"),
    "a command that is a mapping": (("python main.py", "{a: b}"), 4, "'run': expected a list, got a mapping"),
    "an unknown key": (("description:", "descripton:"), 3, "unknown key 'descripton'; did you mean 'description'?"),
    "an unknown key of an action": (
        ("    description:", "    desription:"),
        7,
        "unknown key 'actions.0.desription'; did you mean 'description'?",
    ),
    "a key that is missing": (("run: python main.py\n", ""), 1, "the manifest needs 'run'"),
    "an action without a name": (("- name: forecast\n    desc", "- desc"), 6, "'actions.0' needs 'name'"),
    "an action with a capital": (
        ("forecast", "foreCast"),
        6,
        "'actions.0.name': expected text of small letters, digits and _",
    ),
    "an action that is text": (
        ("\n  - name: forecast\n    description: Tell the weather of a place.", " forecast"),
        5,
        "'actions': expected a list, got text",
    ),
    "no actions": (
        ("\n  - name: forecast\n    description: Tell the weather of a place.", " []"),
        5,
        "'actions': expected a list of length >= 1",
    ),
    "a long name of a tool": (("forecast", "f" * 58), 6, "has more than 64 characters"),
    "broken YAML": (("version: 1.2.0", "\tversion: 1"), 2, "a tab cannot be used"),
    "no mapping": ((LEAST, "- a\n- b\n"), 1, "expected name, version"),
    "nothing at all": ((LEAST, ""), 1, "expected name, version"),
}
MORE = {
    "an effect that is none": (
        "    effect: harmless",
        8,
        "'actions.0.effect': expected one of pure, idempotent, unsafe",
    ),
    "no time": ("    timeout_s: 0", 8, "'actions.0.timeout_s': expected a number > 0"),
    "a day": ("    timeout_s: 86400", 8, "'actions.0.timeout_s': expected a number <= 3600"),
    "a sink that is no parameter": ("    sink: [to]", 8, "'actions.0.sink' names 'to', which is not a parameter"),
    "a sink that is text": ("    sink: to", 8, "'actions.0.sink': expected true, false or a list, got text"),
    "the same action twice": (
        "  - name: forecast\n    description: Again.",
        8,
        "'actions.1.name' is given twice: forecast",
    ),
    "parameters that are none": ("    parameters: {type: strin}", 8, "cannot be used: the schema must be of type"),
    "parameters from elsewhere": (
        "    parameters: {type: object, properties: {a: {$ref: 'http://example.com'}}}",
        8,
        "cannot be used: '$ref' points outside",
    ),
    "a host with a path": ("needs: {network: [example.com/x]}", 8, "'needs.network.0' is not a host"),
    "a host with a blank": ("needs: {network: ['a b']}", 8, "'needs.network.0' is not a host"),
    "forty hosts": (f"needs: {{network: [{', '.join(f'a{n}.com' for n in range(40))}]}}", 8, "names more than 32"),
    "a folder from here": ("needs: {read: [maps]}", 8, "'needs.read.0' cannot be granted"),
    "a folder above": ("needs: {read: [~/../other]}", 8, "'needs.read.0' cannot be granted"),
    "all folders": ("needs: {write: [/]}", 8, "'needs.write.0' cannot be granted"),
    "the home folder": ("needs: {write: [~/]}", 8, "'needs.write.0' cannot be granted"),
    "another need": ("needs: {netwrk: [a.com]}", 8, "unknown key 'needs.netwrk'; did you mean 'network'?"),
    "a context that is none": ("context: [secrets]", 8, "'context.0': expected one of session, workspace"),
    "a context twice": ("context: [prompt, prompt]", 8, "'context' names something twice"),
    "no memory": ("limits: {memory_mb: 1}", 8, "'limits.memory_mb': expected a whole number >= 16"),
    "another limit": ("limits: {memory: 1}", 8, "unknown key 'limits.memory'; did you mean 'memory_mb'?"),
    "a variable with a blank": ("env: {'A B': x}", 8, "'env' has a key that is not a valid variable name"),
    "an open reference": ("env: {A: '${B'}", 8, "'env.A' contains '${'"),
    "a secret with a path": ("env: {A: '${secret:../../x}'}", 8, "'env.A' contains '${'"),
    "a variable that is a list": ("env: {A: [1]}", 8, "'env'"),
}


@pytest.mark.parametrize(("change", "line", "why"), [pytest.param(*case, id=name) for name, case in WRONG.items()])
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, change: tuple[str, str], line: int, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, LEAST.replace(*change, 1))
    assert str(refused.value).startswith(f"plugin.yaml line {line}: ")
    assert why in str(refused.value)


@pytest.mark.parametrize(("more", "line", "why"), [pytest.param(*case, id=name) for name, case in MORE.items()])
def test_an_invalid_field_is_reported_with_its_line(tmp_path: Path, more: str, line: int, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, f"{LEAST}{more}\n")
    assert str(refused.value).startswith(f"plugin.yaml line {line}: ")
    assert why in str(refused.value)


STEERING = ["LD_PRELOAD", "ld_library_path", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "HOME"]
STEERING += ["HTTPS_PROXY", "no_proxy", "NODE_OPTIONS", "BASH_ENV", "ENV", "IFS", "TMPDIR", "XDG_CONFIG_HOME"]
STEERING += ["SSL_CERT_FILE", "GRPC_VERBOSITY", "MAINSTAY_STATE_SOCKET", "MAINSTAY_MODEL", "GLIBC_TUNABLES"]


@pytest.mark.parametrize("name", STEERING)
def test_variables_that_steer_programs_are_not_a_plugins_to_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is reserved: it controls how programs are run"):
        read(tmp_path, f"{LEAST}env: {{{name}: x}}\n")


def test_nothing_that_a_manifest_says_breaks_the_terminal(tmp_path: Path) -> None:
    hostile = "\\e]0;owned\\a\\u202e\\u200b\\r\\n"
    for more in (
        f'needs: {{network: ["{hostile}"]}}',
        f'"{hostile}": 1',
        f'context: ["{hostile}"]',
        f'env: {{"{hostile}": x}}',
    ):
        with pytest.raises(ConfigError) as refused:
            read(tmp_path, f"{LEAST}{more}\n")
        assert str(refused.value).isprintable()
    manifest = read(tmp_path, LEAST.replace("Tells the weather.", f'"{hostile}"'))
    assert all(one.isprintable() for one in describe_requests(manifest))


def test_a_manifest_that_is_no_file_of_its_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no plugin\.yaml in"):
        read_manifest(tmp_path)
    (tmp_path / "other").write_text(LEAST)
    (tmp_path / "plugin.yaml").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_manifest(tmp_path)
    (tmp_path / "plugin.yaml").unlink()
    os.mkfifo(tmp_path / "plugin.yaml")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_manifest(tmp_path)
    (tmp_path / "plugin.yaml").unlink()
    with pytest.raises(ConfigError, match="larger than 262144 bytes"):
        read(tmp_path, LEAST + "#" * 300_000)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(key=st.sampled_from(PluginManifest.__struct_fields__), value=VALUES)
@settings(
    max_examples=1500 if os.environ.get("MAINSTAY_TEST_ALL") else 150,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_any_value_anywhere_is_taken_or_refused_in_one_sentence_on_one_line(
    key: str, value: Any, tmp_path: Path
) -> None:
    whole = {
        "name": "weather",
        "version": "1",
        "description": "x",
        "run": ["x"],
        "actions": [{"name": "a", "description": "b"}],
        key: value,
    }
    try:
        read(tmp_path, json.dumps(whole))
    except ConfigError as error:
        said = str(error)
    else:
        said = ""
    assert said == one_line(said)
    assert len(said) < 700


# --- the environment ----------------------------------------------------------------------------


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "weather").write_text("s3cret\n")
    (folder / "weather").chmod(0o600)
    return folder


def test_variables_are_filled_from_the_owners_environment_and_secrets(tmp_path: Path, secrets: Path) -> None:
    manifest = read(tmp_path, WHOLE)
    owners = {"WEATHER_KEY": "k", "OTHER": "not asked for"}
    assert fill_env(manifest, {}, owners, secrets) == {"KEY": "k", "BOTH": "s3cret/k", "MODE": "fast"}
    given_ones = {"KEY": "${OTHER}", "BOTH": "x"}
    assert fill_env(manifest, given_ones, {}, secrets) == {"KEY": "${OTHER}", "BOTH": "x", "MODE": "fast"}


def test_values_of_variables_are_not_expanded_again(tmp_path: Path, secrets: Path) -> None:
    manifest = read(tmp_path, f"{LEAST}env: {{A: '${{X}} $${{Y}} ${{Z:-none}}'}}\n")
    assert manifest.env_references() == ["X", "Z"]
    assert fill_env(manifest, {}, {"X": "${secret:weather}"}, secrets) == {"A": "${secret:weather} ${Y} none"}


def test_missing_values_are_named(tmp_path: Path, secrets: Path) -> None:
    manifest = read(tmp_path, WHOLE)
    with pytest.raises(ConfigError, match="'KEY' needs the environment variable 'WEATHER_KEY', which is not set"):
        fill_env(manifest, {}, {}, secrets)
    (secrets / "weather").unlink()
    with pytest.raises(ConfigError, match="'BOTH' needs the secret 'weather': put it into"):
        fill_env(manifest, {}, {"WEATHER_KEY": "k"}, secrets)
    with pytest.raises(ConfigError, match="its manifest does not name the variable 'TOKEN'; it names: KEY, BOTH, MODE"):
        fill_env(manifest, {"TOKEN": "x"}, {}, secrets)


def test_a_secret_that_others_could_read_or_that_is_a_link_is_not_used(tmp_path: Path, secrets: Path) -> None:
    manifest = read(tmp_path, WHOLE)
    (secrets / "weather").chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read"):
        fill_env(manifest, {}, {"WEATHER_KEY": "k"}, secrets)
    (secrets / "weather").unlink()
    (secrets / "weather").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="cannot be read"):
        fill_env(manifest, {}, {"WEATHER_KEY": "k"}, secrets)
    (secrets / "weather").unlink()
    (secrets / "weather").write_bytes(b"a\0b")
    (secrets / "weather").chmod(0o600)
    with pytest.raises(ConfigError, match="NUL"):
        fill_env(manifest, {}, {"WEATHER_KEY": "k"}, secrets)
