"""`write` and `edit`: whole or not at all, and only what was meant."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.files_world import World

from mainstay.core.memory_tiers import CONVERSATION_ORIGIN
from mainstay.core.tools import BadArguments
from mainstay.io.path_resolver import PathRefused
from mainstay.tools.base import ToolRefused

WHOLE = os.environ.get("MAINSTAY_TEST_ALL") == "1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_write_makes_and_replaces_and_says_which(world: World) -> None:
    assert await world.run("write", path="a/b.txt", content="x\ny") == "Made a/b.txt: 2 lines, 3 bytes."
    assert await world.run("write", path="a/b.txt", content="") == "Replaced a/b.txt: 0 lines, 0 bytes."
    assert (world.root / "a" / "b.txt").read_bytes() == b""


async def test_half_characters_and_wrong_arguments_change_nothing(world: World) -> None:
    tool = world.tools["write"]
    for input in (
        '{"path":"f","content":"\\ud800"}',
        '{"path":"f"}',
        '{"path":1,"content":[]}',
        '{"path":"f","content":"x","mode":7}',
        "[]",
        "{",
        "nul",
    ):
        with pytest.raises(BadArguments, match="path, content"):
            tool.parse(input)
    assert os.listdir(world.root) == []


async def test_edit_replaces_the_one_place_and_keeps_the_rest_byte_for_byte(world: World) -> None:
    file = world.put("f.py", b"\xef\xbb\xbfa = 1\r\nb = 2\r\nc = 3")
    file.chmod(0o755)
    assert await world.run("edit", path="f.py", old="a = 1\nb = 2\n", new="a = 1\nb = 20\n") == "Edited f.py: line 1."
    assert file.read_bytes() == b"\xef\xbb\xbfa = 1\r\nb = 20\r\nc = 3"
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
async def test_edit_keeps_the_encoding(world: World, encoding: str) -> None:
    file = world.put("f.txt", "grün\nblau\n".encode(encoding))
    await world.run("edit", path="f.txt", old="blau", new="weiß")
    assert file.read_bytes().decode(encoding) == "grün\nweiß\n"


async def test_a_character_that_the_encoding_lacks_is_refused(world: World) -> None:
    file = world.put("f.txt", b"gr\xfcn\n")
    with pytest.raises(ToolRefused, match=r"latin-1, which cannot represent '\\u20ac'"):
        await world.run("edit", path="f.txt", old="n", new="€")
    assert file.read_bytes() == b"gr\xfcn\n"


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("a\nb\na\nc\na\n", "a", "3 times, at lines 1, 3, 5"),
        ("def f():\n    return 1\n", "def f():\n\treturn 1", "At line 1 it differs only in white space"),
        ("alpha\nbeta gamma\n", "beta gama", "Nearest is line 2: 'beta gamma'"),
        ("a\nb\n", "1\ta\n2\tb", "leave them out"),
        ("cafe\u0301", "caf\u00e9", "differently composed"),
        ("a\n", "zzz", "not in the file"),
        ("a\n", "", "old is empty"),
        ("a\n", "new", "the same"),
    ],
    ids=range(8),
)
async def test_an_ambiguous_edit_is_refused_with_a_hint(world: World, text: str, old: str, said: str) -> None:
    file = world.put("f.txt", text)
    with pytest.raises(ToolRefused, match=said):
        await world.run("edit", path="f.txt", old=old, new="new")
    assert file.read_bytes() == text.encode()


async def test_a_refusal_that_quotes_the_file_brings_it_in(world: World) -> None:
    world.put("f.txt", "alpha beta\n")
    with pytest.raises(ToolRefused, match="Nearest"):
        await world.run("edit", path="f.txt", old="alpha bet a", new="x")
    assert world.context.untrusted


async def test_replace_all_replaces_all(world: World) -> None:
    file = world.put("f.txt", "aXbXc")
    assert await world.run("edit", path="f.txt", old="X", new="--", replace_all=True) == "Edited f.txt: 2 places."
    assert file.read_text() == "a--b--c"


def test_edit_equals_replace_where_the_text_is_there_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    text = st.text(st.sampled_from("ab\n\r é€\t\u2028"), max_size=30)

    @settings(max_examples=1_000 if WHOLE else 150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(text, text, text, st.booleans())
    def check(content: str, old: str, new: str, every: bool) -> None:
        file = world.put("f.txt", content)

        async def go() -> None:
            try:
                await world.run("edit", path="f.txt", old=old, new=new, replace_all=every)
            except ToolRefused:
                assert file.read_bytes() == content.encode()
                assert not old or old == new or content.count(old) != 1
                return
            if old in content:
                assert file.read_bytes() == content.replace(old, new).encode()
                assert every or content.count(old) == 1
            else:  # with the line ends of the file
                assert "\r\n" in content
                assert "\n" in old

        asyncio.run(go())

    check()


async def test_a_file_changed_between_reading_and_writing_is_left_as_it_is(world: World) -> None:
    """Two edits side by side: one of them is told, and nothing is lost."""
    file = world.put("f.txt", "a b")
    answers = await asyncio.gather(
        *(world.run("edit", path="f.txt", old=old, new=old.upper()) for old in ("a", "b")), return_exceptions=True
    )
    done = [answer for answer in answers if isinstance(answer, str)]
    refused = [answer for answer in answers if not isinstance(answer, str)]
    assert all(isinstance(error, PathRefused) and "another process" in str(error) for error in refused)
    assert done
    assert file.read_text() == ("A B" if len(done) == 2 else file.read_text())
    assert sum(letter.isupper() for letter in file.read_text()) == len(done)


# --- abort -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["write", "edit", "apply_patch"])
async def test_an_abort_at_any_stage_leaves_the_old_file_or_the_new_and_nothing_moves_after_it(
    world: World, name: str
) -> None:
    calls = {
        "write": '{"path":"deep/f.txt","content":"new"}',
        "edit": '{"path":"deep/f.txt","old":"old","new":"new"}',
        "apply_patch": '{"patch":"*** Begin Patch\\n*** Update File: deep/f.txt\\n@@\\n-old\\n+new\\n*** End Patch"}',
    }
    tool = world.tools[name]
    outcomes = set()
    for steps in range(14):
        file = world.put("deep/f.txt", "old\n")
        context = world.new_context()
        task = asyncio.ensure_future(tool.run(tool.parse(calls[name]), context))
        for _ in range(steps):
            await asyncio.sleep(0)
        if steps > 8:
            await asyncio.wait((task,), timeout=0.001 * (steps - 8))
        task.cancel()
        await asyncio.wait((task,))
        then = file.read_text()
        outcomes.add((task.cancelled(), then.strip()))
        assert then.strip() in ("old", "new")
        assert os.listdir(world.root / "deep") == ["f.txt"]
    assert (True, "old") in outcomes


async def test_a_writer_that_is_cancelled_while_it_waits_changes_nothing(world: World) -> None:
    """The thread is held just before it gives the file its name; when the abort returns, nothing can happen."""
    from mainstay.io import confined_files as edge

    file = world.put("f.txt", "old")
    tool = world.tools["write"]
    context = world.new_context()
    edge._replace_lock.acquire()
    task = asyncio.ensure_future(tool.run(tool.parse('{"path":"f.txt","content":"new"}'), context))
    while not [name for name in os.listdir(world.root) if name.endswith(".mainstay")]:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0)
    releaser = threading.Timer(0.01, edge._replace_lock.release)
    releaser.start()
    with pytest.raises(asyncio.CancelledError):
        await task
    releaser.join()
    assert file.read_text() == "old"
    assert os.listdir(world.root) == ["f.txt"]


# --- after a crash -----------------------------------------------------------------------------------


async def test_an_edit_is_found_done_not_done_or_unclear(world: World) -> None:
    edit = {"path": "f.txt", "old": "a", "new": "ab"}
    world.put("f.txt", "x a y")
    assert await world.reconcile("edit", **edit) is None
    await world.run("edit", **edit)
    assert await world.reconcile("edit", **edit) == "Edited f.txt."
    world.put("f.txt", "a ab")
    unclear = await world.reconcile("edit", **edit)
    assert unclear is not None
    assert unclear.startswith("Outcome unknown")
    world.put("f.txt", "xyz")
    assert await world.reconcile("edit", path="f.txt", old="gone", new="") == "Edited f.txt."


# --- labels and reach --------------------------------------------------------------------------------


async def test_written_files_are_labelled_with_their_origin_and_creator(world: World) -> None:
    await world.run("write", path="new/f.txt", content="x", session="one")
    label = world.label("new/f.txt")
    assert label is not None
    assert (label.origin, label.session) == ("", "one")
    await world.run("write", path="new/f.txt", content="y", session="two", tainted=True)
    label = world.label("new/f.txt")
    assert label is not None
    assert (label.origin, label.session) == (CONVERSATION_ORIGIN, "one")
    world.put("theirs.txt", "a")
    await world.run("edit", path="theirs.txt", old="a", new="b")
    label = world.label("theirs.txt")
    assert label is not None
    assert (label.origin, label.session) == ("untrusted:file", "")


async def test_a_write_that_fails_leaves_no_label(world: World) -> None:
    world.put("folder/x", "")
    with pytest.raises(PathRefused):
        await world.run("write", path="folder", content="x", tainted=True)
    assert world.label("folder") is None


async def test_writing_what_later_contexts_are_made_of_is_a_sink_under_any_name(world: World) -> None:
    world.lay(obeyed_paths=(f"{world.root}/MEMORY.md",))
    world.put("MEMORY.md", "x")
    world.put("plain.txt", "x")
    (world.root / "link").symlink_to("MEMORY.md")
    for path in ("MEMORY.md", "memory.md", "./MEMORY.md", "link", "skills/x/SKILL.md", ".git/hooks/pre-commit"):
        reach = world.reach("write", path=path, content="y")
        assert reach.sink, path
        assert reach.description.startswith("writes ")
    assert not world.reach("write", path="plain.txt", content="y").sink
    assert not world.reach("edit", path="plain.txt", old="x", new="y").sink
    assert world.reach("edit", path="link", old="x", new="y").sink


async def test_a_path_that_leads_to_notes_only_after_it_was_allowed_is_refused_f32(world: World) -> None:
    world.lay(obeyed_paths=(f"{world.root}/MEMORY.md",))
    world.put("MEMORY.md", "x")
    world.put("other", "x")
    link = world.root / "link"
    link.symlink_to("other")
    tool = world.tools["write"]
    arguments = tool.parse('{"path":"link","content":"evil"}')
    context = world.new_context(tainted=True)
    assert not tool.reach(arguments, context).sink  # type: ignore[attr-defined]
    link.unlink()
    link.symlink_to("MEMORY.md")
    with pytest.raises(ToolRefused, match="no longer resolves to"):
        await tool.run(arguments, context)
    assert (world.root / "MEMORY.md").read_text() == "x"
