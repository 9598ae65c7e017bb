"""`apply_patch`: several files, all of them or none."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest
from support.files_world import World

from mainstay.io.patch_parser import PatchRefused
from mainstay.io.path_resolver import PathRefused
from mainstay.tools.apply_patch import ApplyPatchTool
from mainstay.tools.base import ToolRefused
from mainstay.trust.policy import Policy, PolicyContext, PolicyRules, SandboxGuarantees


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def wrapped(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


MANY = wrapped(
    *("*** Add File: new/n.txt", "+n"),
    *("*** Update File: a.txt", "@@", "-a", "+A"),
    *("*** Update File: b.txt", "*** Move to: moved/b.txt", "@@", "-b", "+B"),
    *("*** Delete File: c.bin",),
)


def lay(world: World) -> None:
    world.put("a.txt", "a\r\n")
    world.put("b.txt", b"\xef\xbb\xbfb\n").chmod(0o700)
    world.put("c.bin", b"\0\1")


def tree(world: World) -> dict[str, bytes]:
    return {str(path.relative_to(world.root)): path.read_bytes() for path in world.root.rglob("*") if path.is_file()}


async def test_files_are_added_changed_moved_and_removed(world: World) -> None:
    lay(world)
    told = await world.run("apply_patch", patch=MANY)
    assert told == "Made new/n.txt.\nChanged a.txt: 1 place.\nMoved b.txt to moved/b.txt.\nRemoved c.bin."
    assert tree(world) == {"new/n.txt": b"n\n", "a.txt": b"A\r\n", "moved/b.txt": b"\xef\xbb\xbfB\n"}
    assert stat.S_IMODE((world.root / "moved" / "b.txt").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (("*** Update File: a.txt", "@@", "-zzz", "+x"), "a.txt, change 1"),
        (("*** Delete File: gone.txt",), r"There is no gone\.txt"),
        (("*** Add File: a.txt", "+x"), "exists already"),
        (("*** Add File: ../out.txt", "+x"), "outside of the folders"),
        (("*** Add File: kept", "+x"), "protected"),
        (("*** Delete File: link",), "is a link"),
        (("*** Delete File: c.bin", "*** Delete File: c.bin"), "removed by the patch before|There is no"),
        (("*** Update File: a.txt", "*** Move to: c.bin"), "exists already"),
        (("*** Add File: x\\y", "+x"), "not a valid name for a new file"),
        (("*** Add File: a.txt/below", "+x"), "is not a folder"),
    ],
    ids=range(10),
)
async def test_any_problem_with_one_file_changes_none(world: World, last: tuple[str, ...], said: str) -> None:
    lay(world)
    world.put("kept", "x")
    (world.root / "link").symlink_to("a.txt")
    world.lay(protected=(f"{world.root}/kept",))
    before = tree(world)
    with pytest.raises((ToolRefused, PathRefused, PatchRefused), match=said):
        await world.run("apply_patch", patch=wrapped("*** Add File: first.txt", "+x", *last), tainted=True)
    assert tree(world) == before
    assert world.label("first.txt") is None


async def test_a_file_changed_by_another_process_meanwhile_undoes_the_rest(world: World) -> None:
    """A change that comes when the first file is written already: by then the second is another than was read."""
    from mainstay.core.ports import ToolContext
    from mainstay.tools.base import SessionFileAccess
    from mainstay.tools.tool_call_file_access import FileChange, ToolCallFiles

    first, second = world.put("a.txt", "a"), world.put("b.txt", "b")
    files = SessionFileAccess(lambda session: world.grounds, world.labels)
    work = ToolCallFiles(files, ToolContext("s", 1, 1, "c", lambda event: None))
    changes = [
        FileChange(path="new/er/n.txt", data=b"n"),
        FileChange(path="a.txt", data=b"A"),
        FileChange(path="b.txt", data=b"B", expected_fingerprint="1:2:3"),
    ]
    with pytest.raises(PathRefused, match="another process"):
        await work.apply_changes(changes)
    assert (first.read_text(), second.read_text()) == ("a", "b")
    assert not (world.root / "new" / "er" / "n.txt").exists()


async def test_two_changes_of_one_file_under_two_names_are_both_made(world: World) -> None:
    world.put("a.txt", "1\n2\n")
    (world.root / "link").symlink_to("a.txt")
    patch = wrapped("*** Update File: a.txt", "@@", "-1", "+one", "*** Update File: link", "@@", "-2", "+two")
    await world.run("apply_patch", patch=patch)
    assert (world.root / "a.txt").read_text() == "one\ntwo\n"


async def test_removing_what_the_session_made_is_no_sink_and_everything_else_is(world: World) -> None:
    world.put("theirs.txt", "x\n")
    await world.run("write", path="ours.txt", content="x\n", session="s")
    ours, theirs = wrapped("*** Delete File: ours.txt"), wrapped("*** Delete File: theirs.txt")
    assert not world.reach("apply_patch", patch=ours).sink
    assert world.reach("apply_patch", patch=ours, session="another").sink
    reach = world.reach("apply_patch", patch=theirs)
    assert reach.description == "removes theirs.txt, which this session did not create"
    moved = wrapped("*** Update File: theirs.txt", "*** Move to: elsewhere.txt")
    assert world.reach("apply_patch", patch=moved).sink
    assert not world.reach("apply_patch", patch=wrapped("*** Add File: n", "+x")).sink
    assert not world.reach("apply_patch", patch="nonsense").sink


async def test_a_moved_file_keeps_its_origin_and_its_creator(world: World) -> None:
    world.put("theirs.txt", "x\n")
    world.lay(trusted_globs=("good/**",))
    await world.run("apply_patch", patch=wrapped("*** Update File: theirs.txt", "*** Move to: good/theirs.txt"))
    label = world.label("good/theirs.txt")
    assert label is not None
    assert (label.origin, label.session) == ("untrusted:file", "")
    await world.run("read", path="good/theirs.txt")
    assert world.context.untrusted


async def test_a_patch_is_found_done_not_done_or_half_done(world: World) -> None:
    lay(world)
    assert await world.reconcile("apply_patch", patch=MANY) is None
    await world.run("apply_patch", patch=MANY)
    assert await world.reconcile("apply_patch", patch=MANY) == "The patch was applied."
    world.put("c.bin", b"\0\1")
    half = await world.reconcile("apply_patch", patch=MANY)
    assert half is not None
    assert half.startswith("Outcome unknown")


@pytest.mark.parametrize(
    ("patch", "decision"),
    [
        ("*** Begin Patch\n*** Add File: docs/a.md\n+x\n*** End Patch", "allow"),
        ("*** Begin Patch\n*** Add File: src/a.py\n+x\n*** End Patch", "deny"),
        ("*** Begin Patch\n*** Add File: docs/a.md\n+x\n*** Add File: src/a.py\n+x\n*** End Patch", "deny"),
        ("*** Begin Patch\n*** Update File: docs/a.md\n*** Move to: src/a.py\n@@\n-x\n+y\n*** End Patch", "deny"),
    ],
)
def test_rules_that_name_paths_see_every_file_of_a_patch(patch: str, decision: str) -> None:
    tool = ApplyPatchTool(None)  # type: ignore[arg-type]
    policy = Policy(
        PolicyRules(deny=("apply_patch(path=src/**)",)),
        confinement=SandboxGuarantees(confined=True, network=False, protects_deletions=True),
    )
    arguments = tool.parse(msgspec.json.encode({"patch": patch}).decode())
    assert policy.decide(tool, arguments, None, PolicyContext(cwd="/work")).decision == decision  # type: ignore[arg-type]
