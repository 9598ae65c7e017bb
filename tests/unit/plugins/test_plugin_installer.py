"""Adding plugins: shown, installed atomically, pinned, and refused when the files differ from the approved ones."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest
from support.skills_lab import interrupted

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.io.package_installer import compute_digest
from mainstay.plugins import installer
from mainstay.plugins.installer import (
    InstalledPlugin,
    install_plugin,
    plan_install,
    remove_plugin,
    verify_plugin,
)
from mainstay.plugins.lock_file import PLUGIN_PACKAGES, read_lock, write_lock
from mainstay.plugins.manifest import describe_requests, read_manifest
from mainstay.plugins.scaffold import scaffold_plugin

ROOT = Path(__file__).parents[3]
MANIFEST = """\
name: weather
version: {version}
description: Tells the weather.
run: python main.py
actions:
  - name: forecast
    description: Tell the weather of a place.
needs: {{network: [{hosts}]}}
env: {{KEY: "${{WEATHER_KEY}}"}}
context: [session]
"""


def plugin_at(folder: Path, *, version: str = "'1.0'", hosts: str = "api.weather.com") -> Path:
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(MANIFEST.format(version=version, hosts=hosts))
    (folder / "main.py").write_text("print('hello')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def packed(folder: Path, into: Path, *, top: str = "") -> Path:
    if into.suffix == ".zip":
        with zipfile.ZipFile(into, "w") as archive:
            for path in folder.rglob("*"):
                archive.write(path, f"{top}{path.relative_to(folder)}")
    else:
        with tarfile.open(into, "w:gz" if into.suffix in (".gz", ".tgz") else "w") as archive:
            archive.add(folder, arcname=top or ".")
    return into


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / "plugins"


def test_a_plan_shows_what_is_asked_and_changes_nothing(tmp_path: Path, home: Path) -> None:
    found = plan_install(plugin_at(tmp_path / "source"), home)
    assert found.manifest.name == "weather"
    assert found.requests == found.new_requests == describe_requests(found.manifest)
    assert "reach api.weather.com over the network" in found.requests
    assert (found.replaced_version, found.digest[:7]) == ("", "sha256:")
    assert not home.exists()


def test_a_plugin_is_installed_listed_verified_and_removed(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "source")
    seen = plan_install(source, home)
    added = install_plugin(source, home, expected_digest=seen.digest)
    assert added == InstalledPlugin(
        name="weather",
        version="1.0",
        digest=seen.digest,
        needs=ProcessPermissions(network=("api.weather.com",)),
        env=("WEATHER_KEY",),
        context=("session",),
        added=added.added,
    )
    assert read_lock(home) == {"weather": added}
    assert tree(home / "weather") == tree(source)
    assert os.access(home / "weather" / "run.sh", os.X_OK)
    assert verify_plugin("weather", home) == seen.manifest
    assert remove_plugin("weather", home) == added
    assert read_lock(home) == {}
    assert sorted(os.listdir(home)) == [".changing", "lock.json"]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "misnamed.txt"])
@pytest.mark.parametrize("top", ["", "weather-1.0/"], ids=["flat", "in a folder"])
def test_an_archive_gives_the_same_as_the_folder_it_was_made_of(
    tmp_path: Path, home: Path, name: str, top: str
) -> None:
    source = plugin_at(tmp_path / "source")
    archive = packed(source, tmp_path / name, top=top)
    added = install_plugin(archive, home)
    assert tree(home / "weather") == tree(source)
    assert added.digest == plan_install(source, home).digest


def test_generated_files_beside_the_sources_are_not_part_of_a_plugin(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "source")
    before = plan_install(source, home).digest
    for name in (".git/HEAD", "__pycache__/main.pyc", "node_modules/.bin/x", ".DS_Store"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    (source / "node_modules" / ".bin" / "link").symlink_to("/bin/sh")
    assert plan_install(source, home).digest == before


# --- pinned -------------------------------------------------------------------------------------

CHANGES = {
    "a changed file": lambda folder: (folder / "main.py").write_text("print('evil')\n"),
    "a new file": lambda folder: (folder / "more.py").write_text(""),
    "a missing file": lambda folder: (folder / "main.py").unlink(),
    "a renamed file": lambda folder: (folder / "main.py").rename(folder / "Main.py"),
    "a file that can be run now": lambda folder: (folder / "main.py").chmod(0o755),
    "a link": lambda folder: (folder / "link").symlink_to("/etc/passwd"),
    "a file that became a link": lambda folder: (
        (folder / "main.py").rename(folder.parent / "elsewhere"),
        (folder / "main.py").symlink_to(folder.parent / "elsewhere"),
    ),
    "no folder": lambda folder: shutil.rmtree(folder),
    "a compiled file": lambda folder: (folder / "__pycache__").mkdir() or (folder / "__pycache__/m").touch(),
    "a manifest that asks for more": lambda folder: (folder / "plugin.yaml").write_text(
        MANIFEST.format(version="'1.0'", hosts='"*"')
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_differ_from_the_added_ones_are_not_run(tmp_path: Path, home: Path, name: str) -> None:
    source = plugin_at(tmp_path / "source")
    install_plugin(source, home)
    CHANGES[name](home / "weather")
    with pytest.raises(ConfigError, match="`mainstay plugin add` again"):
        verify_plugin("weather", home)
    install_plugin(source, home)
    assert verify_plugin("weather", home).name == "weather"


def test_files_that_trade_contents_or_names_have_another_hash(tmp_path: Path) -> None:
    seen = set()
    for files in ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}, {"ab": "x"}, {"a": "xb"}, {"a/b": "x"}, {"a": "x"}):
        folder = tmp_path / f"{len(seen)}"
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        seen.add(compute_digest(folder))
    assert len(seen) == 6


def test_a_source_changed_since_it_was_shown_is_not_installed(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "source")
    seen = plan_install(source, home)
    (source / "main.py").write_text("print('evil')\n")
    with pytest.raises(ConfigError, match="has changed since it was inspected"):
        install_plugin(source, home, expected_digest=seen.digest)
    assert read_lock(home) == {}


def test_an_upgrade_shows_what_is_newly_asked(tmp_path: Path, home: Path) -> None:
    install_plugin(plugin_at(tmp_path / "old"), home)
    newer = plugin_at(tmp_path / "new", version="'1.1'", hosts="api.weather.com, tracker.example.com")
    found = plan_install(newer, home)
    assert found.replaced_version == "1.0"
    assert found.new_requests == ["reach tracker.example.com over the network"]
    install_plugin(newer, home)
    assert (verify_plugin("weather", home).version, read_lock(home)["weather"].version) == ("1.1", "1.1")
    assert not [name for name in os.listdir(home) if name.startswith(".aside")]


def test_an_upgrade_shows_what_it_does_otherwise(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "old")
    text = (source / "plugin.yaml").read_text()
    more = (
        "  - {name: send, description: d, parameters: {type: object, properties: {to: {}}}, sink: true}\n"
        "  - {name: gone, description: d}\n"
    )
    (source / "plugin.yaml").write_text(text.replace("needs:", f"{more}needs:"))
    install_plugin(source, home)
    assert plan_install(source, home).changes == []
    more = (
        "  - {name: send, description: e, parameters: {type: object, properties: {to: {}, x: {}}}, sink: [to],"
        " effect: pure, untrusted: false}\n"
        "  - {name: anything, description: d}\n"
    )
    text = text.replace("python main.py", "sh evil.sh").replace("needs:", f"{more}needs:")
    (source / "plugin.yaml").write_text(text)
    found = plan_install(source, home)
    assert found.changes == [
        "runs sh evil.sh, no longer python main.py",
        "no longer has the action gone",
        "declares pure, no longer unsafe, as the effect of send",
        "declares to, no longer every call, as the sink of send",
        "asks you to trust the answers of send",
        "changes the description of send",
        "changes the parameters of send",
        "has a new action: anything (unsafe)",
    ]


def test_an_upgrade_of_what_was_tampered_with_shows_everything_again(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "source")
    install_plugin(source, home)
    (home / "weather" / "plugin.yaml").write_text(MANIFEST.format(version="'1.0'", hosts='"*"'))
    assert plan_install(source, home).new_requests == plan_install(source, home).requests


# --- trouble ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../other", "/etc", "", "a/b", "Weather", "weather\n", "weather\0", "w" * 40, ".", "lock.json"]
)
def test_no_path_can_be_made_of_a_name(home: Path, name: str) -> None:
    """OPENTALON-057"""
    for use in (verify_plugin, remove_plugin):
        with pytest.raises(ConfigError, match="is not a valid plugin name") as refused:
            use(name, home)
        assert str(refused.value).isprintable()


def test_a_plugin_that_is_refused_leaves_the_old_one_and_nothing_else(tmp_path: Path, home: Path) -> None:
    install_plugin(plugin_at(tmp_path / "source"), home)
    before = tree(home)
    broken = plugin_at(tmp_path / "broken")
    (broken / "plugin.yaml").write_text("name: weather\nversion: x\n")
    linked = plugin_at(tmp_path / "linked")
    (linked / "link").symlink_to("/etc/passwd")
    empty = tmp_path / "empty"
    empty.mkdir()
    hostile = tmp_path / "hostile.tar"
    with tarfile.open(hostile, "w") as archive:
        entry = tarfile.TarInfo("../../weather/main.py")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    for source, why in (
        (broken, r"plugin\.yaml line 1: the manifest needs"),
        (linked, "link is a link, not a regular file"),
        (empty, r"there is no plugin\.yaml"),
        (hostile, "leads out of the archive"),
        (tmp_path / "nothing", "there is no"),
    ):
        for use in (install_plugin, plan_install):
            with pytest.raises(ConfigError, match=why):
                use(source, home)
    assert tree(home) == before
    assert verify_plugin("weather", home).version == "1.0"


def test_an_unreadable_lock_file_is_reported_and_not_touched(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "source")
    install_plugin(source, home)
    large = b" " * PLUGIN_PACKAGES.lock_bytes_max + b"{}"
    odd = (b"", b"{", b"[]", b'{"plugins": [{"name": "../x"}]}', b'{"format": 2}', b'{"other": 1}')
    for text in (*odd, b'{"plugins": [{"name": "caf\xe9"}]}', b"\xff\xfe{\x00}\x00", b"[" * 100_000, large):
        (home / "lock.json").write_bytes(text)
        for use in (
            lambda: read_lock(home),
            lambda: verify_plugin("weather", home),
            lambda: install_plugin(source, home),
        ):
            with pytest.raises(ConfigError, match="is damaged or was written by a newer release"):
                use()
        assert (home / "lock.json").read_bytes() == text
    assert tree(home / "weather") == tree(source)


def test_a_lock_that_could_not_be_read_again_is_not_written(tmp_path: Path, home: Path) -> None:
    installed = install_plugin(plugin_at(tmp_path / "source"), home)
    lock = (home / "lock.json").read_bytes()
    many = {
        f"p{number}": msgspec.structs.replace(installed, name=f"p{number}", env=("X" * 5000,)) for number in range(220)
    }
    for plugins, why in (
        (many, "too many plugins are installed"),
        ({"odd": msgspec.structs.replace(installed, version="caf\udce9")}, r"caf\\udce9 is not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=why):
            write_lock(home, plugins)
        assert (home / "lock.json").read_bytes() == lock


def test_every_file_is_on_disk_before_the_plugin_is_in_its_place(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plugin_at(tmp_path / "source")
    (source / "deeper").mkdir()
    (source / "deeper" / "data").write_text("x")
    fsync, rename = os.fsync, os.rename
    synced: set[int] = set()
    places: list[Path] = []

    def record_sync(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        fsync(handle)

    def check_move(old: Path, new: Path) -> None:
        if new == home / "weather":
            places.append(new)
            assert {path.stat().st_ino for path in (old, *old.rglob("*"))} <= synced
        rename(old, new)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "rename", check_move)
    install_plugin(source, home)
    assert len(places) == 1


def test_whatever_the_disk_refuses_the_installed_plugin_is_as_it_was(tmp_path: Path, home: Path) -> None:
    install_plugin(plugin_at(tmp_path / "old"), home)
    before = tree(home)
    newer = plugin_at(tmp_path / "new", version="'1.1'")

    def refuse() -> None:
        raise OSError(28, "No space left on device")

    refused = 0
    for at in range(1, 100):
        here = tmp_path / f"{at}"
        shutil.copytree(home, here)
        said = ""
        with interrupted(at, refuse) as steps:
            try:
                install_plugin(newer, here)
            except ConfigError as error:
                said = str(error)
        if said:
            refused += 1
            assert "No space left" in said
            assert {path: it for path, it in tree(here).items() if path != ".lock.json.new"} == before, at
            assert verify_plugin("weather", here).version == "1.0"
        if steps[0] < at:  # it has no step of this number
            break
    assert refused > 5


def test_the_lock_is_json_for_people(tmp_path: Path, home: Path) -> None:
    install_plugin(plugin_at(tmp_path / "source"), home)
    said = json.loads((home / "lock.json").read_text())
    assert said["plugins"][0]["needs"]["network"] == ["api.weather.com"]
    assert (home / "lock.json").stat().st_mode & 0o077 == 0


def test_two_concurrent_commands_do_not_conflict(tmp_path: Path, home: Path) -> None:
    source = plugin_at(tmp_path / "source")
    install_plugin(source, home)
    with open(home / ".changing") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for use in (lambda: install_plugin(source, home), lambda: remove_plugin("weather", home)):
            with pytest.raises(ConfigError, match="another command is adding or removing"):
                use()
    assert verify_plugin("weather", home).name == "weather"


def test_leftovers_of_a_killed_command_are_removed(tmp_path: Path, home: Path) -> None:
    (home / ".aside-x" / "new").mkdir(parents=True)
    install_plugin(plugin_at(tmp_path / "source"), home)
    assert sorted(os.listdir(home)) == [".changing", "lock.json", "weather"]


@pytest.mark.parametrize("step", ["moved_away", "moved_in"])
@pytest.mark.parametrize("use", ["verify", "install"])
def test_killed_between_two_moves_the_version_before_is_found_again(
    tmp_path: Path, home: Path, step: str, use: str
) -> None:
    install_plugin(plugin_at(tmp_path / "old"), home)
    before = tree(home / "weather")
    newer = plugin_at(tmp_path / "new", version="'1.1'")
    killed = (
        "import os, sys\nfrom pathlib import Path\nfrom mainstay.plugins import installer\n"
        "rename, steps = os.rename, [int(sys.argv[3])]\n"
        "def move(*names):\n    if not steps[0]:\n        os.kill(os.getpid(), 9)\n"
        "    steps[0] -= 1\n    rename(*names)\n"
        "def lock(*given):\n    os.kill(os.getpid(), 9)\n"
        "os.rename, installer.write_lock = move, lock\n"
        "installer.install_plugin(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(installer.__file__).parents[2])}
    words = [sys.executable, "-c", killed, str(newer), str(home), "1" if step == "moved_away" else "2"]
    assert subprocess.run(words, env=env, check=False).returncode == -9
    if use == "install":
        with pytest.raises(ConfigError, match="there is no"):
            install_plugin(tmp_path / "nothing", home)
    assert verify_plugin("weather", home).version == "1.0"
    assert tree(home / "weather") == before
    assert install_plugin(newer, home).version == "1.1"
    assert sorted(os.listdir(home)) == [".changing", "lock.json", "weather"]


def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be changed: Not a directory"):
        install_plugin(plugin_at(tmp_path / "source"), tmp_path / "file" / "plugins")


# --- beginning one ------------------------------------------------------------------------------


def test_a_new_plugin_works_as_it_is(tmp_path: Path, home: Path) -> None:
    made = scaffold_plugin(tmp_path / "greeter", "greeter")
    assert [path.name for path in made] == ["plugin.yaml", "main.py", "test_greeter.py", "README.md"]
    manifest = read_manifest(tmp_path / "greeter")
    install_plugin(tmp_path / "greeter", home)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        words, cwd=tmp_path / "greeter", env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert printed_actions(tmp_path / "greeter", tmp_path) == manifest.actions


def test_a_plugin_is_not_created_in_an_existing_folder_or_with_an_invalid_name(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "main.py").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        scaffold_plugin(tmp_path / "there", "there")
    with pytest.raises(ConfigError, match="is not a valid plugin name"):
        scaffold_plugin(tmp_path / "My Plugin", "My Plugin")
    assert tree(tmp_path) == {"there/main.py": b"mine"}


def test_the_examples_manifest_says_what_its_functions_say(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "plugins" / "notes"
    assert printed_actions(folder, tmp_path) == read_manifest(folder).actions
    assert read_manifest(ROOT / "examples" / "plugins" / "words-node").name == "words"


def test_the_example_in_javascript_has_the_published_contract() -> None:
    for path in (ROOT / "proto" / "mainstay" / "plugin").rglob("*.proto"):
        assert (ROOT / "examples" / "plugins" / "words-node" / path.name).read_text() == path.read_text()


def printed_actions(folder: Path, where: Path) -> object:
    """What `--manifest` prints, read as a manifest."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "main.py", "--manifest"]
    ran = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=True)
    (where / "printed").mkdir()
    head = "name: printed\nversion: '1'\ndescription: x\nrun: x\n"
    (where / "printed" / "plugin.yaml").write_text(head + ran.stdout)
    return read_manifest(where / "printed").actions
