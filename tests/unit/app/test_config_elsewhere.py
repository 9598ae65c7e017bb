"""Plugins, MCP servers and backends in the configuration: what is taken as it is, and what is refused."""

from pathlib import Path

import pytest

from mainstay.app.config import load_config, show
from mainstay.app.trust import known_secrets
from mainstay.core.errors import ConfigError


def loaded(tmp_path: Path, text: str, **env: str):
    (tmp_path / "mainstay.yaml").write_text(text)
    (tmp_path / "mainstay.yaml").chmod(0o600)
    return load_config(tmp_path, env=env)


def test_the_shape_that_other_hosts_have_is_taken_as_it_is(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
mcpServers: {
  "files": {"command": "npx", "args": ["-y", "server-filesystem", "/data"], "env": {"TOKEN": "${TOKEN}"}},
  "search": {"type": "http", "url": "https://search.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
             "autoApprove": ["find"], "disabled": false}
}
""",
        TOKEN="very-secret-token",
    ).config
    assert config.mcpServers["files"].args == ("-y", "server-filesystem", "/data")
    assert config.mcpServers["files"].env == {"TOKEN": "very-secret-token"}
    assert config.mcpServers["search"].headers == {"Authorization": "Bearer very-secret-token"}
    assert config.mcpServers["files"].confined
    assert config.mcpServers["files"].network == ()


def test_what_is_in_env_headers_and_addresses_is_never_shown(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
mcpServers:
  a: {command: a, env: {MY_TOKEN: hush-hush-1}}
  b: {url: "https://me:hush-hush-2@b.example/mcp?key=hush-hush-3", headers: {X-Key: hush-hush-4}}
plugins:
  p: {env: {SOME_API_KEY: hush-hush-5}}
backends:
  d: {kind: sql, url: "postgresql://me:hush-hush-6@db/shop"}
  r: {kind: rest, description: api.yaml, headers: {Authorization: Bearer hush-hush-7}}
""",
    )
    printed = repr(show(found)) + repr(found.config)
    assert "hush-hush" not in printed
    secrets = known_secrets(found.config, {"OTHER_API_KEY": "hush-hush-8"})
    for number in (1, 4, 5, 6, 7, 8):
        assert f"hush-hush-{number}" in secrets


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugins: {Weather: {}}", "'plugins.Weather': a plugin's name is 1 to 32 of a-z and 0-9"),
        ('mcpServers: {"a\\tb": {command: x}}', "a name may hold only letters, digits, '-' and '_'"),
        ("mcpServers: {a: {}}", "'mcpServers.a': it needs a 'command' to start or a 'url'"),
        ("mcpServers: {a: {command: x, url: 'http://x'}}", "and not both"),
        ("mcpServers: {a: {url: 'ftp://x'}}", "must begin with http://"),
        ("mcpServers: {a: {url: 'http://x', network: [y]}}", "'network' is for a server that is started here"),
        ("mcpServers: {a: {command: x, headers: {A: b}}}", "'headers' are for a server that is reached"),
        ("mcpServers: {a: {command: x, type: http}}", "'type: http' does not go with a command"),
        ("mcpServers: {a: {command: x, type: sse}}", "mainstay.yaml line 1"),
        ("mcpServers: {a: {comand: x}}", "did you mean 'mcpServers.a.command'?"),
        ("mcpServers: {a: {command: x, timeout_s: 0}}", "timeout_s"),
        ("backends: {a: {kind: sql}}", "'backends.a': 'kind: sql' needs 'url'"),
        ("backends: {a: {url: x}}", "kind"),
        ("backends: {a: {kind: sql, url: 'oracle://x'}}", "must begin with sqlite:///, postgresql:// or mysql://"),
        ("backends: {a: {kind: sql, url: 'sqlite:///x', path: y}}", "'path' does not go with 'kind: sql'"),
        ("backends: {a: {kind: rest, description: x, scope: {tables: [y]}}}", "'scope.tables' does not go with"),
        ("backends: {a: {kind: mcp, server: nobody}}", "there is no server 'nobody' in 'mcpServers'"),
        ("backends: {a: {kind: documents, path: x, write: true}}", "'write' does not go with 'kind: documents'"),
        ("plugins: {a: {}}\nbackends: {a: {kind: documents, path: x}}", "has the name 'a' of another"),
        ("mcpServers: {A: {command: x}}\nplugins: {a: {}}", "has the name 'a' of another"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
