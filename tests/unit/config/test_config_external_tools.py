"""Plugins, MCP servers and backends in the configuration: accepted formats, and refusals."""

from pathlib import Path

import pytest

from mainstay.agent.allow_rule_store import AllowRuleStore, remove_rules_about
from mainstay.agent.backend_factory import build_backends
from mainstay.agent.config_warnings import find_unusable_tools
from mainstay.agent.external_tools import build_environment, build_server_config, open_external_tools, open_mcp_servers
from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.trust_setup import build_policy, list_known_secrets
from mainstay.config.loader import list_values, load_config
from mainstay.config.schema_external_tools import McpEntry, find_unusable_reason
from mainstay.core.errors import ConfigError
from mainstay.core.ports import ToolContext
from mainstay.core.tools import tool
from mainstay.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.plugins.lock_file import InstalledPlugin, write_lock
from mainstay.plugins.mcp.data_types import ListedTool
from mainstay.plugins.mcp.server_config import server_fingerprint, server_slug
from mainstay.plugins.mcp.tool_names import build_tool_name
from mainstay.plugins.mcp.tool_pins import PinnedServer, ToolPinStore
from mainstay.store.memory.plugin_state import InMemoryPluginState
from mainstay.trust.policy import PolicyContext


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


def test_values_of_env_headers_and_addresses_are_never_shown(tmp_path: Path) -> None:
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
    printed = repr(list_values(found)) + repr(found.config)
    assert "hush-hush" not in printed
    secrets = list_known_secrets(found.config, {"OTHER_API_KEY": "hush-hush-8"})
    for number in (1, 4, 5, 6, 7, 8):
        assert f"hush-hush-{number}" in secrets
    assert "Bearer" not in secrets, "that is what keys are called"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugins: {Weather: {}}", "'plugins.Weather': a plugin's name must be 1 to 32 characters of a-z and 0-9"),
        ('mcpServers: {"a\\tb": {command: x}}', "a name may contain only letters, digits, spaces between them"),
        ("mcpServers: {'a*': {command: x}}", "a name may contain only letters, digits, spaces between them"),
        ("mcpServers: {'a://b': {command: x}}", "a name may contain only letters, digits, spaces between them"),
        ("mcpServers:\n  b: {command: x}\n  a: {}", "mainstay.yaml line 3: 'mcpServers.a': write either 'command'"),
        ("backends:\n\n  b: {kind: sql}", "mainstay.yaml line 3: 'backends.b': 'kind: sql' needs 'url'"),
        (
            "mcpServers: {a: {command: x}}\nbackends:\n  A: {kind: documents, path: x}",
            "mainstay.yaml line 3: 'backends.A': another plugin",
        ),
        ("mcpServers: {a: {command: x, timeout: soon}}", "'mcpServers.a.timeout_s': expected a number"),
        ("mcpServers: {a: {command: x, timeout_s: '${T}'}}", "needs the environment variable 'T'"),
        ("mcpServers: {a: {command: x, server: y}}", "unknown key 'mcpServers.a.server'"),
        ("mcpServers: {a: {}}", "'mcpServers.a': write either 'command' (to start a server) or 'url'"),
        ("mcpServers: {a: {command: x, url: 'http://x'}}", "write either 'command' (to start a server) or 'url'"),
        ("mcpServers: {a: {url: 'ftp://x'}}", "must begin with http://"),
        ("mcpServers: {a: {url: 'http://x', network: [y]}}", "'network' is only for a server with a 'command'"),
        ("mcpServers: {a: {command: x, headers: {A: b}}}", "'headers' are only for a server with a 'url'"),
        ("mcpServers: {a: {command: x, type: http}}", "'type: http' does not fit a command"),
        ("mcpServers: {a: {command: x, type: sse}}", "mainstay.yaml line 1"),
        ("mcpServers: {a: {comand: x}}", "did you mean 'mcpServers.a.command'?"),
        ("mcpServers: {a: {command: x, timeout_s: 0}}", "timeout_s"),
        ("backends: {a: {kind: sql}}", "'backends.a': 'kind: sql' needs 'url'"),
        ("backends: {a: {url: x}}", "kind"),
        ("backends: {a: {kind: sql, url: 'oracle://x'}}", "must begin with sqlite:///, postgresql:// or mysql://"),
        ("backends: {a: {kind: sql, url: 'sqlite:///x', path: y}}", "'path' is not a key of 'kind: sql'"),
        ("backends: {a: {kind: rest, description: x, scope: {tables: [y]}}}", "'scope.tables' is not a key of"),
        ("backends: {a: {kind: mcp, server: nobody}}", "there is no server 'nobody' in 'mcpServers'"),
        ("backends: {a: {kind: documents, path: x, write: true}}", "'write' is not a key of 'kind: documents'"),
        ("plugins: {a: {}}\nbackends: {a: {kind: documents, path: x}}", "is named 'a'; rename one"),
        ("mcpServers: {A: {command: x}}\nplugins: {a: {}}", "is named 'a'; rename one"),
    ],
)
def test_an_invalid_setting_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


# --- as other hosts write it ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("{command: x, timeout: 60}", McpEntry(command="x", timeout_s=60)),
        ("{command: x, timeout: 60000}", McpEntry(command="x", timeout_s=60)),
        ("{command: x, timeout: 60000, timeout_s: 5}", McpEntry(command="x", timeout_s=5)),
        ("{url: 'http://x', transport: streamable_http}", McpEntry(url="http://x", type="streamable-http")),
        ("{url: 'http://x', transportType: streamableHttp}", McpEntry(url="http://x", type="streamable-http")),
        ("{url: 'http://x', type: http, transport: stdio}", McpEntry(url="http://x", type="http")),
        ("{command: x, transportType: STDIO}", McpEntry(command="x", type="stdio")),
        ("{httpUrl: 'http://x', url: 'http://x/sse'}", McpEntry(url="http://x")),
        ("{serverUrl: 'http://x'}", McpEntry(url="http://x")),
        ("{command: x, description: A, trust: true, envFile: .env}", McpEntry(command="x")),
        ("{command: x, enabled: false}", McpEntry(command="x", disabled=True)),
        ("{command: x, isActive: true}", McpEntry(command="x")),
        ("{command: x, disabledTools: [rm]}", McpEntry(command="x", excludeTools=("rm",))),
        ("{command: x, includeTools: [a]}", McpEntry(command="x", includeTools=("a",))),
        ("{command: x, env: {PORT: 8080, R: 0.5}}", McpEntry(command="x", env={"PORT": "8080", "R": "0.5"})),
        ("{command: x, env: {DEBUG: true}}", McpEntry(command="x", env={"DEBUG": "true"})),
        ("{command: x, env: {model: gpt}}", McpEntry(command="x", env={"model": "gpt"})),
        ("{command: x, env: {K: '${env:KEY}'}}", McpEntry(command="x", env={"K": "its value"})),
        ("{disabled: true, type: sse}", McpEntry(disabled=True, type="sse")),
    ],
)
def test_other_words_for_the_same_are_taken(tmp_path: Path, text: str, same: McpEntry) -> None:
    assert loaded(tmp_path, f"mcpServers: {{a: {text}}}", KEY="its value").config.mcpServers["a"] == same


def test_they_are_taken_from_the_environment_too(tmp_path: Path) -> None:
    found = loaded(tmp_path, "", MAINSTAY__MCPSERVERS__A='{"serverUrl": "http://x", "timeout": 2000}')
    assert found.config.mcpServers["a"] == McpEntry(url="http://x", timeout_s=2)


def test_numbers_among_a_plugins_variables_are_text(tmp_path: Path) -> None:
    assert loaded(tmp_path, "plugins: {p: {env: {N: 3}}}").config.plugins["p"].env == {"N": "3"}


@pytest.mark.parametrize("name", ["My Server", "github.com/a/b", "@scope/server", "Büro (alt)", "a.b"])
def test_a_server_may_keep_the_name_that_other_hosts_use(tmp_path: Path, name: str) -> None:
    found = loaded(tmp_path, f"mcpServers: {{'{name}': {{command: x}}}}")
    assert list(found.config.mcpServers) == [name]
    assert all(value.isprintable() for row in list_values(found) for value in row)


async def test_tools_that_an_entry_leaves_out_are_denied(tmp_path: Path) -> None:
    text = "mcpServers: {my files: {command: x, autoApprove: ['*'], disabledTools: [remove]}}"
    policy = build_policy(loaded(tmp_path, text).config, AllowRuleStore(None), None)
    for name, decision in (("remove", "deny"), ("read", "allow")):

        @tool(name=build_tool_name(server_slug("my files"), name), effect="pure")
        def made() -> str:
            return ""

        context = ToolContext("", 0, 0, "", lambda event: None)
        assert policy.decide(made, {}, context, PolicyContext()).decision == decision


# --- what lacks something is left out, and nothing else ------------------------------------------

LACKING = """\
mcpServers:
  github:
    command: npx
    env: {A: fine, GITHUB_TOKEN: "${GITHUB_TOKEN}", LATER: "${LATER}"}
  off: {url: "${OFF_URL}", disabled: true}
  old: {type: sse, url: "http://127.0.0.1:1/sse"}
  good: {command: "node", env: {X: "$${GITHUB_TOKEN}"}}
plugins:
  books: {path: "${BOOKS}"}
  off2: {enabled: false, env: {K: "${K}"}}
backends:
  shop: {kind: sql, url: "${SHOP_URL}"}
  api: {kind: rest, description: api.yaml, headers: {Authorization: "Bearer ${input:token}"}}
  notes: {kind: documents, path: notes}
"""
TOLD = [
    "the plugin books is left out: mainstay.yaml line 9: 'plugins.books.path' needs the environment variable 'BOOKS', "
    "which is not set",
    "the MCP server github is left out: mainstay.yaml line 4: 'mcpServers.github.env.GITHUB_TOKEN' needs the "
    "environment variable 'GITHUB_TOKEN', which is not set",
    "the MCP server old is left out: the older SSE transport is not supported; "
    "use the server's streamable HTTP address, if it has one",
    "the backend shop is left out: mainstay.yaml line 12: 'backends.shop.url' needs the environment variable "
    "'SHOP_URL', which is not set",
    "the backend api is left out: mainstay.yaml line 13: 'backends.api.headers.Authorization': '${' must be "
    "followed by a variable's name and '}'; write '$${' for a literal '${'",
]


def test_an_entry_with_an_unset_variable_is_left_out_and_reported(tmp_path: Path) -> None:
    found = loaded(tmp_path, LACKING)
    assert find_unusable_tools(found.config, tmp_path) == TOLD
    rows = {name: (value, origin) for name, value, origin in list_values(found)}
    assert rows["mcpServers.github.lacks"][0] in TOLD[1]
    assert rows["mcpServers.github.lacks"][1] == "mainstay.yaml:4"
    assert found.config.mcpServers["good"].env == {"X": "${GITHUB_TOKEN}"}
    assert list_known_secrets(found.config, {}) == []


async def test_entries_without_problems_are_opened(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    config = loaded(tmp_path, LACKING).config
    place = AgentFolders(tmp_path, tmp_path / "workspace")
    policy = build_policy(config, AllowRuleStore(None), None)
    opened = await open_external_tools(
        config, place, InMemoryPluginState(), policy, Guardrails(GuardrailOptions(), b"", ())
    )
    try:
        assert opened.problems == TOLD
        assert opened.mcp is not None
        assert opened.mcp.names == ("good",)
        assert [one.name for one in opened.backends] == ["notes"]
    finally:
        await opened.close()


def test_a_variable_that_is_set_in_another_source_is_not_missing(tmp_path: Path) -> None:
    text = 'mcpServers: {a: {command: x, env: {T: "${T}", U: "${U}"}}}'
    one = loaded(tmp_path, text, MAINSTAY__MCPSERVERS__A__ENV__T="t", U="u").config.mcpServers["a"]
    assert one == McpEntry(command="x", env={"T": "t", "U": "u"})
    assert find_unusable_reason(one) == ""
    both = loaded(tmp_path, text, MAINSTAY__MCPSERVERS__A='{"env": {"T": "t", "U": "u"}}').config.mcpServers["a"]
    assert both == one


# --- names that are taken ------------------------------------------------------------------------


def test_a_server_or_backend_with_an_installed_plugins_name_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    names = ("books", "shop", "off")
    write_lock(
        tmp_path / "plugins", {name: InstalledPlugin(name=name, version="1", digest="sha256:0") for name in names}
    )
    text = """
mcpServers: {Books: {command: x}, a-b: {command: x}, a_b: {command: x}, off: {command: x, disabled: true}}
backends: {SHOP: {kind: documents, path: .}, own: {kind: documents, path: .}}
"""
    config = loaded(tmp_path, text).config
    told = [
        "the MCP server Books is left out: its tools would have the same names as those of the plugin books; "
        "rename one",
        "the MCP server a_b is left out: its tools would have the same names as those of the MCP server a-b; "
        "rename one",
        "the backend SHOP is left out: its tools would have the same names as those of the plugin shop; rename one",
    ]
    assert find_unusable_tools(config, tmp_path) == told
    grounds = build_environment(config, tmp_path, tmp_path / "workspace", Guardrails(GuardrailOptions(), b"", ()))
    troubles: list[str] = []
    mcp = open_mcp_servers(config, grounds, troubles.append)
    assert mcp.names == ("a-b",)
    assert [one.name for one in build_backends(config, grounds, mcp, troubles.append)] == ["own"]
    assert troubles == told
    with pytest.raises(ConfigError, match=r"the MCP server Books cannot be used: .* as those of the plugin books"):
        open_mcp_servers(config, grounds)


async def test_only_the_tools_that_an_entry_names_are_offered(tmp_path: Path) -> None:
    text = "mcpServers: {files: {command: x, includeTools: [read, list, rm], excludeTools: [rm]}, all: {command: x}}"
    config = loaded(tmp_path, f"{text}\npolicy: {{allow: ['*__*']}}").config
    workspace, guards = tmp_path / "workspace", Guardrails(GuardrailOptions(), b"", ())
    workspace.mkdir()
    for name, entry in config.mcpServers.items():
        server = build_server_config(name, entry, build_environment(config, tmp_path, workspace, guards))
        tools = tuple(
            ListedTool(name=one, description="", schema={"type": "object"}) for one in ("read", "list", "write", "rm")
        )
        ToolPinStore(workspace).save(
            name, PinnedServer(fingerprint=server_fingerprint(server), tools=tools, resources=True)
        )
    policy = build_policy(config, AllowRuleStore(None), None)
    opened = await open_external_tools(config, AgentFolders(tmp_path, workspace), InMemoryPluginState(), policy, guards)
    try:
        names = [tool.name for tool in opened.select_tools(policy, ())]
        assert [one for one in names if one.startswith("files__")] == ["files__read", "files__list"]
        assert {"all__write", "all__rm", "all__read_resource"} <= set(names)
    finally:
        await opened.close()


# --- what was allowed for good -------------------------------------------------------------------


async def test_always_allow_rules_are_removed_with_their_server(tmp_path: Path) -> None:
    others = ["bash(git *)", "books2__find", "destination:plugin:books2", "destination:mcp:books", "mybooks__find"]
    own = ["books__find", "books__find(topic=*)", "Books__*", "destination:plugin:books"]
    grants = AllowRuleStore(tmp_path)
    for rule in (*others[:2], *own, *others[2:]):
        await grants.add(rule)
    assert remove_rules_about(tmp_path, "books", "plugin:books") == own
    assert AllowRuleStore(tmp_path).rules == others
    assert remove_rules_about(tmp_path, "books__", "plugin:books") == []
    assert remove_rules_about(tmp_path / "nowhere", "books", "plugin:books") == []
