"""Granted folders stay what they were: a symlink made by a program is not followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import plugin_lab as lab

from mainstay.agent.allow_rule_store import AllowRuleStore
from mainstay.agent.external_tools import ExternalTools, open_external_tools
from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.trust_setup import build_policy
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.plugins.folder_grants import is_too_broad, resolve_grants, resolve_trusted_path, resolve_unpinned_grants
from mainstay.plugins.installer import install_plugin, plan_install
from mainstay.plugins.lock_file import read_lock
from mainstay.plugins.manifest import describe_requests, read_manifest
from mainstay.store.memory.plugin_state import InMemoryPluginState

MANIFEST = "name: {name}\nversion: '1'\ndescription: d\nrun: python main.py\nactions: [{{name: do, description: d}}]\n"


def plugin_at(folder: Path, name: str, needs: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(MANIFEST.format(name=name) + f"needs: {needs}\n")
    (folder / "main.py").write_text("")
    return folder


def test_a_grant_stores_and_shows_its_resolved_path(tmp_path: Path) -> None:
    for name in ("real", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("real")
    home = tmp_path / "plugins"
    source = plugin_at(tmp_path / "source", "reads", f"{{read: [{tmp_path}/link]}}")
    assert plan_install(source, home).requests[0] == f"read the files in {tmp_path}/link, which is {tmp_path}/real"
    install_plugin(source, home)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("elsewhere")
    assert read_lock(home)["reads"].needs == ProcessPermissions(read=(f"{tmp_path}/real",))


@pytest.mark.parametrize("whole", ["~", "~/", "~/.", "~//./", "/", "/.", "//", "/proc/self/root", "/proc", "/dev/fd"])
def test_all_of_it_is_too_much_however_it_is_spelt(tmp_path: Path, whole: str) -> None:
    assert is_too_broad(whole)
    source = plugin_at(tmp_path / "source", "greedy", f'{{read: ["{whole}"]}}')
    with pytest.raises(ConfigError, match=r"line 6: 'needs\.read\.0' cannot be granted"):
        read_manifest(source)


def test_the_owners_home_and_what_holds_it_are_too_much_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "people" / "ada"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for whole in (home, home.parent, f"{home}/../ada", f"/{home}"):
        assert is_too_broad(str(whole)), whole
    assert not is_too_broad("~/proj")
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(ConfigError, match="which is too broad to be granted"):
        resolve_grants(ProcessPermissions(read=(f"{tmp_path}/link",)))
    source = plugin_at(tmp_path / "source", "greedy", f"{{write: [{tmp_path}/link]}}")
    for use in (plan_install, install_plugin):
        with pytest.raises(ConfigError, match="which is too broad to be granted"):
            use(source, tmp_path / "plugins")
    assert describe_requests(read_manifest(source))


def test_links_of_the_owners_are_followed_and_those_where_programs_write_are_not(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "owners").symlink_to("real/../real")
    assert resolve_trusted_path(f"{tmp_path}/owners/in/new", [f"{tmp_path}/work"]) == f"{tmp_path}/real/in/new"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "laid").symlink_to(tmp_path / "real")
    (tmp_path / "by").symlink_to("work/laid/in")
    for path in ("work/laid", "work/laid/in", "by", "work/../work/laid"):
        with pytest.raises(ConfigError, match="is a link in a folder that programs may change"):
            resolve_unpinned_grants(ProcessPermissions(read=(f"{tmp_path}/{path}",)), [f"{tmp_path}/work"])
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ConfigError, match="its path has more than 40 links"):
        resolve_trusted_path(f"{tmp_path}/round", [])


async def opened(home: Path) -> ExternalTools:
    config = load_config(home, env={}).config
    place = AgentFolders(home, home / "workspaces" / "default")
    place.workspace.mkdir(parents=True, exist_ok=True)
    return await open_external_tools(
        config, place, InMemoryPluginState(), build_policy(config, AllowRuleStore(None), None), lab.GUARDS
    )


async def test_a_plugin_with_a_granted_folder_that_became_a_link_is_left_out_and_reported(tmp_path: Path) -> None:
    home, proj = tmp_path / "home", tmp_path / "proj"
    (proj / "docs").mkdir(parents=True)
    (proj / "notes").mkdir()
    install_plugin(plugin_at(tmp_path / "a", "pinned", f"{{read: [{proj}/docs]}}"), home / "plugins")
    install_plugin(plugin_at(tmp_path / "b", "writer", f"{{write: [{proj}]}}"), home / "plugins")
    plugin_at(tmp_path / "c", "loose", f"{{read: [{proj}/notes]}}")
    (home / "mainstay.yaml").write_text(
        f"plugins: {{loose: {{path: {tmp_path}/c}}}}\n"
        f"mcpServers: {{files: {{command: 'true', read: [{proj}/notes]}}, plain: {{command: 'true'}}}}\n"
    )
    first = await opened(home)
    assert first.problems == []
    await first.close()
    for name in ("docs", "notes"):
        (proj / name).rmdir()
        (proj / name).symlink_to(tmp_path)
    again = await opened(home)
    assert again.plugins is not None
    assert [one.plugin.name for one in again.plugins.hosts] == ["writer"]
    assert again.mcp is not None
    assert list(again.mcp.names) == ["plain"]
    await again.close()
    assert [said.partition(" is left out")[0] for said in again.problems] == [
        "the plugin loose",
        "the plugin pinned",
        "the MCP server files",
    ]
    assert all("link" in said or "leads to" in said for said in again.problems)
