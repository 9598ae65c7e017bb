"""The skills of a session: found in its scopes, cheap to read, and never different from the approved ones."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest
from support.skill_world import World, names, pin, write_skill

from mainstay.skills import tree_hash_cache
from mainstay.skills.frontmatter import SkillRefused
from mainstay.skills.lock_file import SkillLockEntry, compute_digest, read_lock, write_lock
from mainstay.skills.registry import SkillRegistry, SkillScope
from mainstay.skills.scope_folder import LISTED_FILES_MAX, SKILLS_MAX, TREES_PER_REFRESH


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --- scopes --------------------------------------------------------------------------------------


def test_the_narrowest_skill_of_a_name_is_the_one(world: World) -> None:
    """GUPPY-079, GUPPY-080"""
    write_skill(world.home / "skills" / "deploy", description="home's")
    write_skill(world.home / "skills" / "other", description="home's")
    write_skill(world.workspace / "skills" / "deploy", description="workspace's")
    write_skill(world.workspace / "ops" / "skills" / "deploy", description="room's")
    shelf = world.shelf()
    assert [(one.skill.name, one.skill.description) for one in shelf.skills("s")] == [
        ("deploy", "workspace's"),
        ("other", "home's"),
    ]
    assert shelf.get("chat:ops:1", "deploy").skill.description == "room's"
    assert shelf.get("chat:dev:1", "deploy").skill.description == "workspace's"
    assert [one.scope_rank for one in shelf.skills("chat:ops:1")] == [2, 0]


def test_a_skill_of_another_workspace_is_not_found(world: World) -> None:
    """SIGIL-068"""
    write_skill(world.skills / "here", header="metadata:\n  gateway:workspace: main\n")
    write_skill(world.skills / "there", header="metadata:\n  gateway:workspace: homelab\n")
    shelf = world.shelf()
    assert names(shelf) == ["here"]
    assert shelf.problems("s") == []


def test_missing_folders_are_no_error(world: World) -> None:
    shelf = world.shelf()
    assert shelf.skills("s") == ()
    assert shelf.problems("s") == []
    assert shelf.folders("s") == ()


def test_files_hidden_folders_and_folders_without_a_skill_are_skipped(world: World) -> None:
    write_skill(world.skills / "real")
    write_skill(world.skills / ".hidden")
    (world.skills / "README.md").write_text("hello")
    (world.skills / "empty").mkdir()
    write_skill(world.skills / "group" / "nested")
    shelf = world.shelf()
    assert names(shelf) == ["real"]
    assert shelf.problems("s") == []


def test_a_folder_that_leads_out_of_where_it_belongs_is_not_used(world: World, tmp_path: Path) -> None:
    """F32"""
    write_skill(tmp_path / "elsewhere" / "evil")
    (world.workspace / "skills").symlink_to(tmp_path / "elsewhere")
    shelf = world.shelf()
    assert names(shelf) == []
    assert "a link out of the folder that it belongs to" in shelf.problems("s")[0]


def test_validation_problems_do_not_prevent_the_use_of_a_skill(world: World) -> None:
    """F35: a name that is not that of its folder."""
    write_skill(world.skills / "folder", name="other", header="version: 1\n")
    shelf = world.shelf()
    assert names(shelf) == ["other"]
    assert shelf.problems("s") == []
    assert any("other: " in one and "differs from the name of its folder" in one for one in shelf.warnings("s"))


def test_a_name_is_found_in_any_spelling_and_near_ones_are_suggested(world: World) -> None:
    write_skill(world.skills / "pdf-forms")
    shelf = world.shelf()
    assert shelf.get("s", " PDF-Forms ").skill.name == "pdf-forms"
    with pytest.raises(SkillRefused, match=r"There is no skill 'pdf-form'\. There is pdf-forms\."):
        shelf.get("s", "pdf-form")
    with pytest.raises(SkillRefused, match="no skill"):
        shelf.get("s", "x" * 100_000)


def test_two_skills_of_one_name_in_a_scope_are_reported_and_the_one_in_its_own_folder_is_used(world: World) -> None:
    """F35"""
    write_skill(world.skills / "aaa", name="pdf", description="impostor")
    write_skill(world.skills / "pdf", description="real")
    write_skill(world.skills / "zzz", name="pdf", description="impostor")
    shelf = world.shelf()
    assert shelf.get("s", "pdf").skill.description == "real"
    assert sum("Two skills" in one for one in shelf.problems("s")) == 2


def test_an_unreadable_skill_is_left_out_with_the_reason_and_the_rest_is_there(world: World) -> None:
    write_skill(world.skills / "good")
    write_skill(world.skills / "silent", description="''")
    (world.skills / "binary").mkdir()
    (world.skills / "binary" / "SKILL.md").write_bytes(b"\xff\x00")
    shelf = world.shelf()
    assert names(shelf) == ["good"]
    troubles = shelf.problems("s")
    assert any("silent" in one and "description" in one for one in troubles)
    assert any("binary" in one and "UTF-8" in one for one in troubles)
    with pytest.raises(SkillRefused, match="description"):
        shelf.get("s", "silent")


def test_pipes_devices_and_huge_files_never_hold_it_up(world: World) -> None:
    """F32"""
    write_skill(world.skills / "good")
    (world.skills / "pipe").mkdir()
    os.mkfifo(world.skills / "pipe" / "SKILL.md")
    (world.skills / "null").mkdir()
    (world.skills / "null" / "SKILL.md").symlink_to("/dev/zero")
    (world.skills / "huge").mkdir()
    with open(world.skills / "huge" / "SKILL.md", "wb") as file:
        file.truncate(10 * 1024**3)
    os.mkfifo(world.skills / "fifo")
    shelf, found = world.shelf(), []
    reader = threading.Thread(target=lambda: found.extend(names(shelf)), daemon=True)
    reader.start()
    reader.join(120)
    assert found == ["good"]
    assert len(shelf.problems("s")) == 3


def test_there_is_a_bound_on_the_skills_of_a_scope(world: World) -> None:
    for number in range(SKILLS_MAX + 3):
        write_skill(world.skills / f"s{number:04}")
    shelf = world.shelf()
    assert len(shelf.skills("s")) == SKILLS_MAX
    assert any("more than 1000" in one for one in shelf.problems("s"))


# --- looking again -------------------------------------------------------------------------------


def test_the_same_object_is_returned_while_nothing_changes(world: World) -> None:
    folder = write_skill(world.skills / "a")
    shelf = world.shelf()
    first = shelf.skills("s")
    assert shelf.skills("other") is first
    os.utime(folder / "SKILL.md", ns=(10**18, 10**18))
    second = shelf.skills("s")
    assert second is first  # its times changed, and nothing of what it says
    write_skill(folder, description="Does more.")
    assert shelf.skills("s") is not first
    assert shelf.get("s", "a").skill.description == "Does more."


def test_an_edited_body_is_news_too(world: World) -> None:
    folder = write_skill(world.skills / "a", body="one")
    shelf = world.shelf()
    first = shelf.skills("s")
    write_skill(folder, body="two")
    assert shelf.skills("s") is not first
    assert shelf.load_skill(shelf.get("s", "a"))[1] == "two"


def test_added_and_removed_skills_are_noticed(world: World) -> None:
    shelf = world.shelf()
    assert names(shelf) == []
    folder = write_skill(world.skills / "a")
    assert names(shelf) == ["a"]
    (folder / "SKILL.md").unlink()
    assert names(shelf) == []


def test_a_file_that_is_written_twice_within_a_tick_is_read_twice(world: World) -> None:
    folder = write_skill(world.skills / "a", description="one")
    shelf = world.shelf()
    assert shelf.get("s", "a").skill.description == "one"
    before = os.stat(folder / "SKILL.md")
    write_skill(folder, description="two")
    os.utime(folder / "SKILL.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert shelf.get("s", "a").skill.description == "two"


def test_the_disk_is_not_read_between_two_refreshes(world: World) -> None:
    write_skill(world.skills / "a")
    shelf = world.shelf(again_s=3600.0)
    assert names(shelf) == ["a"]
    write_skill(world.skills / "b")
    assert names(shelf) == ["a"]


def test_three_hundred_skills_cost_little(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is a few milliseconds, and between two looks it is microseconds."""
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)  # as if they had been written long ago
    for number in range(300):
        write_skill(world.skills / f"s{number:03}", body="text\n" * 200)
    shelf = world.shelf()
    shelf.skills("s")
    looks = _cpu(lambda: shelf.skills("s"), 10)
    assert looks < 0.05
    calm = world.shelf(again_s=3600.0)
    calm.skills("s")
    assert _cpu(lambda: calm.skills("s"), 1000) < 0.000_2


def _cpu(work: object, times: int) -> float:
    assert callable(work)
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


# --- what was installed --------------------------------------------------------------------------


def test_a_skill_that_the_owner_wrote_is_trusted(world: World) -> None:
    write_skill(world.skills / "mine")
    (found,) = world.shelf().skills("s")
    assert not found.untrusted


def test_an_installed_skill_is_untrusted_until_the_owner_trusts_it(world: World) -> None:
    """U22"""
    for name in ("plain", "named", "approved"):
        pin(write_skill(world.skills / name), trusted=name == "approved")
    found = {one.skill.name: one for one in world.shelf("named").skills("s")}
    assert {name: one.untrusted for name, one in found.items()} == {"plain": True, "named": False, "approved": False}
    assert "installed from https://example.com/s.zip" in found["plain"].untrusted_reason


@pytest.mark.parametrize("file", ["SKILL.md", "scripts/run.sh", "new.txt", ".hidden"])
def test_an_installed_skill_that_has_changed_is_left_out_until_it_is_approved_again(world: World, file: str) -> None:
    """F35, U22: with any changed file."""
    folder = write_skill(world.skills / "pdf")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("true\n")
    pin(folder)
    shelf = world.shelf()
    found = shelf.get("s", "pdf")
    assert shelf.load_skill(found)[1]
    (folder / file).write_text(write_skill(world.home / "x" / "pdf", body="evil").joinpath("SKILL.md").read_text())
    assert names(shelf) == []
    (trouble,) = shelf.problems("s")
    assert "`mainstay skill approve pdf`" in trouble
    with pytest.raises(SkillRefused, match="skill approve pdf"):
        shelf.get("s", "pdf")
    with pytest.raises(SkillRefused, match="skill approve pdf"):
        shelf.load_skill(found)
    pin(folder)
    assert names(shelf) == ["pdf"]


def test_a_body_is_compared_with_what_was_approved_before_it_is_handed_out(world: World) -> None:
    """F35: between two looks, too."""
    folder = write_skill(world.skills / "pdf")
    pin(folder)
    shelf = world.shelf(again_s=3600.0)
    found = shelf.get("s", "pdf")
    (folder / "extra.md").write_text("more")
    assert names(shelf) == ["pdf"]
    with pytest.raises(SkillRefused, match="not those that were approved"):
        shelf.load_skill(found)


def test_of_many_installed_skills_every_one_is_compared_in_a_few_looks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)  # as if they had been written long ago
    for number in range(TREES_PER_REFRESH * 2 + 10):
        pin(write_skill(world.skills / f"s{number:03}"))
    shelf = world.shelf()
    before = len(shelf.skills("s"))
    (world.skills / "s042" / "extra.md").write_text("more")
    for _ in range(3):
        shelf.skills("s")
    assert len(shelf.skills("s")) == before - 1
    assert "s042" not in names(shelf)


def test_an_installed_skill_cannot_pass_for_another(world: World) -> None:
    """F35: neither for one that the owner trusts, nor under a name of its own."""
    pin(write_skill(world.skills / "helper", name="deploy", description="impostor"))
    write_skill(world.home / "skills" / "deploy", description="real")
    shelf = world.shelf("deploy")
    assert [(one.skill.name, one.skill.description, one.untrusted) for one in shelf.skills("s")] == [
        ("deploy", "real", False)
    ]
    assert any("its own name is 'deploy'" in one for one in shelf.problems("s"))


def test_a_removed_installed_skill_is_named(world: World) -> None:
    folder = write_skill(world.skills / "pdf")
    pin(folder)
    (folder / "SKILL.md").unlink()
    shelf = world.shelf()
    assert shelf.skills("s") == ()
    assert "its folder is missing" in shelf.problems("s")[0]


def test_with_a_damaged_lock_file_no_skill_of_unknown_origin_is_used(world: World) -> None:
    folder = write_skill(world.skills / "mine")
    pin(write_skill(world.skills / "pdf"))
    shelf = world.shelf()
    found = shelf.get("s", "pdf")
    (folder.parent / "lock.json").write_text("{")
    assert shelf.skills("s") == ()
    assert "damaged" in shelf.problems("s")[0]
    with pytest.raises(SkillRefused, match="damaged"):
        shelf.load_skill(found)


def test_a_link_is_followed_only_if_the_lock_knows_it_and_it_leads_there(world: World, tmp_path: Path) -> None:
    """F32, SIGIL-076: an edit shows in both places."""
    there = write_skill(world.workspace / "skills" / "shared", body="one")
    evil = write_skill(tmp_path / "evil" / "shared", body="evil")
    world.skills.mkdir()
    (world.skills / "shared").symlink_to(there)
    (world.skills / "other").symlink_to(evil)
    shelf = SkillRegistry(lambda session: world.scopes(session)[:1], workspace="main", refresh_s=0.0)
    assert names(shelf) == []
    assert all("is a link that the lock file does not list" in one for one in shelf.problems("s"))
    (world.skills / "other").unlink()
    write_lock(world.skills, {"shared": SkillLockEntry(name="shared", digest="", link=str(there.resolve()))})
    (found,) = shelf.skills("s")
    assert not found.untrusted
    assert shelf.load_skill(found)[1] == "one"
    assert shelf.folders("s") == (str(there.resolve()),)
    write_skill(there, body="two")
    assert shelf.load_skill(found)[1] == "two"
    (world.skills / "shared").unlink()
    (world.skills / "shared").symlink_to(evil)
    assert names(shelf) == []
    with pytest.raises(SkillRefused, match="the lock file does not list"):
        shelf.load_skill(found)


def test_a_linked_skill_is_as_trusted_as_where_it_leads(world: World) -> None:
    there = write_skill(world.workspace / "skills" / "shared")
    pin(there)
    world.skills.mkdir()
    (world.skills / "shared").symlink_to(there)
    write_lock(world.skills, {"shared": SkillLockEntry(name="shared", digest="", link=str(there.resolve()))})
    shelf = SkillRegistry(lambda session: world.scopes(session)[:1], workspace="main", refresh_s=0.0)
    assert shelf.skills("s")[0].untrusted
    known = read_lock(there.parent)
    write_lock(there.parent, {"shared": msgspec.structs.replace(known["shared"], trusted=True)})
    assert not shelf.skills("s")[0].untrusted
    (there / "new.md").write_text("x")
    assert names(shelf) == []


def test_a_skill_that_was_written_after_reading_untrusted_content_is_not_trusted(world: World) -> None:
    """F51"""
    folder = write_skill(world.skills / "mine")
    shelf = world.shelf("mine")
    assert not shelf.get("s", "mine").untrusted
    world.labels[str((folder / "SKILL.md").resolve())] = "untrusted:conversation"
    assert shelf.get("s", "mine").untrusted
    assert "untrusted content" in shelf.get("s", "mine").untrusted_reason


# --- installed skills that are large -------------------------------------------------------------


def large(folder: Path, *, files: int = 0, megabytes: int = 0, header: str = "") -> Path:
    write_skill(folder, header=header, body="approved")
    for number in range(files):
        (folder / f"f{number}").write_text("x")
    with open(folder / "data", "wb") as file:
        file.truncate(megabytes * 1024 * 1024)
    pin(folder)
    return folder


def there(shelf: SkillRegistry, name: str, *, is_there: bool = True) -> None:
    """Soon: a thread sees to it."""
    deadline = time.monotonic() + 120
    while (name in names(shelf)) is not is_there:
        assert time.monotonic() < deadline, shelf.problems("s")
        time.sleep(0.01)


LARGE = {"many files": {"files": tree_hash_cache.TURN_FILES_MAX + 1}, "large files": {"megabytes": 9}}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_skill_is_left_out_until_a_thread_has_compared_it(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """F35: and once more when it has changed."""
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)  # as if they had been written long ago
    monkeypatch.setattr(tree_hash_cache, "RECHECK_S", 0.0)
    folder = large(world.skills / "big", **LARGE[kind])
    shelf = world.shelf()
    assert names(shelf) == []
    assert "is left out for the moment" in shelf.problems("s")[0]
    there(shelf, "big")
    found = shelf.get("s", "big")
    assert shelf.load_skill(found)[1] == "approved"
    (folder / "new").write_text("x")
    with pytest.raises(SkillRefused, match="not those that were approved"):
        shelf.load_skill(found)
    there(shelf, "big", is_there=False)
    pin(folder)
    there(shelf, "big")


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_skill_is_there_at_once_if_it_was_prepared(world: World, kind: str) -> None:
    large(world.skills / "big", **LARGE[kind])
    shelf = world.shelf()
    shelf.prepare()
    assert names(shelf) == ["big"]
    patient = SkillRegistry(world.scopes, workspace="main", unlimited=True)
    assert names(patient) == ["big"]


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_skill_with_a_changed_skill_md_is_gone_at_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """F35: its words are never shown before they are approved."""
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)
    folder = large(world.skills / "big", **LARGE[kind])
    shelf = world.shelf()
    shelf.prepare()
    (found,) = shelf.skills("s")
    write_skill(folder, description="evil", body="evil")
    assert names(shelf) == []
    for left in (None, tree_hash_cache.HashBudget()):
        with pytest.raises(SkillRefused):
            shelf.load_skill(found, left)


@pytest.mark.parametrize("file", ["SKILL.md", "data", "deep"])
def test_a_hash_is_discarded_when_a_file_is_rewritten_with_its_old_size_and_time(
    world: World, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """F35: however deep it lies."""
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)
    folder = write_skill(world.skills / "pdf", body="approved")
    path = folder.joinpath(*"abcdefghijklmnopqrst", "deep") if file == "deep" else folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.read_text() if path.exists() else "approved")
    pin(folder)
    shelf = world.shelf()
    found = shelf.get("s", "pdf")
    assert shelf.load_skill(found)[1] == "approved"
    before = os.stat(path)
    while os.stat(path).st_ctime_ns == before.st_ctime_ns:  # a clock has steps
        path.write_text(path.read_text().replace("approved", "a trojan"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_size == before.st_size
    with pytest.raises(SkillRefused, match="not those that were approved"):
        shelf.load_skill(found)
    assert names(shelf) == []


def test_unchanged_files_are_not_hashed_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)
    folder = large(world.skills / "big", megabytes=7)
    shelf = world.shelf()
    found = shelf.get("s", "big")
    hashing = _cpu(lambda: compute_digest(folder), 5)
    assert _cpu(lambda: shelf.load_skill(found), 20) < hashing / 2


def test_installed_skills_with_many_files_are_all_verified_in_a_few_looks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F35: none waits for ever for its turn."""
    monkeypatch.setattr(tree_hash_cache, "SETTLED_NS", -1)
    for number in range(4):
        large(world.skills / f"s{number}", files=300)
    shelf = world.shelf()
    shelf.prepare()
    assert len(names(shelf)) == 4
    for number in range(4):
        (world.skills / f"s{number}" / "extra.md").write_text("more")
    for _ in range(8):
        shelf.skills("s")
    assert names(shelf) == []


# --- files ---------------------------------------------------------------------------------------


def test_the_files_of_a_skill_are_listed_without_links_hidden_ones_and_end(world: World) -> None:
    """SIGIL-065"""
    folder = write_skill(world.skills / "pdf")
    for path in ("references/a.md", "scripts/run.py", "assets/logo.svg", ".git/config", "scripts/__pycache__/x.pyc"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    (folder / "references" / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    shelf = world.shelf()
    assert shelf.list_files(shelf.get("s", "pdf")) == ["assets/logo.svg", "references/a.md", "scripts/run.py"]
    for number in range(LISTED_FILES_MAX + 10):
        (folder / f"f{number}").write_text("")
    assert len(shelf.list_files(shelf.get("s", "pdf"))) == LISTED_FILES_MAX


def test_a_removed_skill_is_reported_when_it_is_opened(world: World) -> None:
    folder = write_skill(world.skills / "pdf")
    shelf = world.shelf()
    found = shelf.get("s", "pdf")
    (folder / "SKILL.md").unlink()
    with pytest.raises(SkillRefused, match=r"no SKILL\.md"):
        shelf.load_skill(found)


def test_scopes_may_be_given_that_are_no_folders(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    shelf = SkillRegistry(lambda session: (SkillScope("odd", str(file), str(tmp_path)),), workspace="main")
    assert shelf.skills("s") == ()
