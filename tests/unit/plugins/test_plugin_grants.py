"""Folders that were granted stay what they were: a link that a program lays leads neither itself nor another astray."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import plugin_lab as lab

from mainstay.agent.elsewhere import Elsewhere, open_elsewhere
from mainstay.agent.grants import Grants
from mainstay.agent.remembering import Place
from mainstay.agent.trust import make_policy
from mainstay.config.loading import load_config
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.core.plugin_state import MemoryPluginState
from mainstay.plugins.grants import given_beside, given_now, too_much, unlinked
from mainstay.plugins.lock import read_lock
from mainstay.plugins.manifest import asks, read_manifest
from mainstay.plugins.package import install, plan

MANIFEST = "name: {name}\nversion: '1'\ndescription: d\nrun: python main.py\nactions: [{{name: do, description: d}}]\n"


def plugin_at(folder: Path, name: str, needs: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(MANIFEST.format(name=name) + f"needs: {needs}\n")
    (folder / "main.py").write_text("")
    return folder


def test_what_is_kept_of_a_grant_is_where_it_led_and_that_is_shown(tmp_path: Path) -> None:
    for name in ("real", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("real")
    home = tmp_path / "plugins"
    source = plugin_at(tmp_path / "source", "reads", f"{{read: [{tmp_path}/link]}}")
    assert plan(source, home).asks[0] == f"read what is in {tmp_path}/link, which is {tmp_path}/real"
    install(source, home)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("elsewhere")
    assert read_lock(home)["reads"].needs == Needs(read=(f"{tmp_path}/real",))


@pytest.mark.parametrize("whole", ["~", "~/", "~/.", "~//./", "/", "/.", "//", "/proc/self/root", "/proc", "/dev/fd"])
def test_all_of_it_is_too_much_however_it_is_spelt(tmp_path: Path, whole: str) -> None:
    assert too_much(whole)
    source = plugin_at(tmp_path / "source", "greedy", f'{{read: ["{whole}"]}}')
    with pytest.raises(ConfigError, match=r"line 6: 'needs\.read\.0' is no folder"):
        read_manifest(source)


def test_the_owners_home_and_what_holds_it_are_too_much_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "people" / "ada"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for whole in (home, home.parent, f"{home}/../ada", f"/{home}"):
        assert too_much(str(whole)), whole
    assert not too_much("~/proj")
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(ConfigError, match="which is too much to be granted"):
        given_now(Needs(read=(f"{tmp_path}/link",)))
    source = plugin_at(tmp_path / "source", "greedy", f"{{write: [{tmp_path}/link]}}")
    for use in (plan, install):
        with pytest.raises(ConfigError, match="which is too much to be granted"):
            use(source, tmp_path / "plugins")
    assert asks(read_manifest(source))


def test_links_of_the_owners_are_followed_and_those_where_programs_write_are_not(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "owners").symlink_to("real/../real")
    assert unlinked(f"{tmp_path}/owners/in/new", [f"{tmp_path}/work"]) == f"{tmp_path}/real/in/new"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "laid").symlink_to(tmp_path / "real")
    (tmp_path / "by").symlink_to("work/laid/in")
    for path in ("work/laid", "work/laid/in", "by", "work/../work/laid"):
        with pytest.raises(ConfigError, match="is a link, and lies in a folder that programs may change"):
            given_beside(Needs(read=(f"{tmp_path}/{path}",)), [f"{tmp_path}/work"])
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ConfigError, match="leads through more than 40 links"):
        unlinked(f"{tmp_path}/round", [])


async def opened(home: Path) -> Elsewhere:
    config = load_config(home, env={}).config
    place = Place(home, home / "workspaces" / "default")
    place.workspace.mkdir(parents=True, exist_ok=True)
    return await open_elsewhere(config, place, MemoryPluginState(), make_policy(config, Grants(None), None), lab.GUARDS)


async def test_who_was_granted_a_folder_that_has_become_a_link_is_left_out_and_told(tmp_path: Path) -> None:
    home, proj = tmp_path / "home", tmp_path / "proj"
    (proj / "docs").mkdir(parents=True)
    (proj / "notes").mkdir()
    install(plugin_at(tmp_path / "a", "pinned", f"{{read: [{proj}/docs]}}"), home / "plugins")
    install(plugin_at(tmp_path / "b", "writer", f"{{write: [{proj}]}}"), home / "plugins")
    plugin_at(tmp_path / "c", "loose", f"{{read: [{proj}/notes]}}")
    (home / "mainstay.yaml").write_text(
        f"plugins: {{loose: {{path: {tmp_path}/c}}}}\n"
        f"mcpServers: {{files: {{command: 'true', read: [{proj}/notes]}}, plain: {{command: 'true'}}}}\n"
    )
    first = await opened(home)
    assert first.troubles == []
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
    assert [said.partition(" is left out")[0] for said in again.troubles] == [
        "the plugin loose",
        "the plugin pinned",
        "the MCP server files",
    ]
    assert all("link" in said or "leads to" in said for said in again.troubles)
