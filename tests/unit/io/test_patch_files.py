"""Patches: parsed leniently, refused in a sentence, applied only where the place is unambiguous."""

from __future__ import annotations

import difflib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.io.patch_applier import apply_patch_to_text
from mainstay.io.patch_parser import FilePatch, PatchRefused, parse_patch, reverse_patch

WHOLE = os.environ.get("MAINSTAY_TEST_ALL") == "1"
some = settings(max_examples=3_000 if WHOLE else 300, deadline=None, suppress_health_check=list(HealthCheck))


def wrapped(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def one(text: str) -> FilePatch:
    [patch] = parse_patch(text)
    return patch


TEXT = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def test_an_envelope_names_files_to_add_change_move_and_delete() -> None:
    text = wrapped(
        *("*** Add File: new.txt", "+one", "+", "+two"),
        *("*** Update File: a.py", "*** Move to: b.py", "@@ def b():", "-    return 1", "+    return 2"),
        *("*** Delete File: old.txt",),
    )
    add, update, delete = parse_patch(text)
    assert (add.kind, add.path, add.content) == ("add", "new.txt", "one\n\ntwo\n")
    assert (update.path, update.new_path) == ("a.py", "b.py")
    assert apply_patch_to_text(TEXT, update) == "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
    assert (delete.kind, delete.path) == ("delete", "old.txt")


def test_several_places_of_a_file_are_changed_in_order() -> None:
    update = one(wrapped("*** Update File: f", "@@", " a", "-b", "+B", "@@", "-d", "+D", " e"))
    assert apply_patch_to_text("a\nb\nc\nd\ne\n", update) == "a\nB\nc\nD\ne\n"


def test_a_unified_diff_of_git_is_understood() -> None:
    text = (
        "diff --git a/f.txt b/f.txt\nindex 123..456 100644\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@ heading\n"
        " a\n-b\n+B\n c\n"
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n"
        "+echo\n\\ No newline at end of file\ndiff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
        "diff --git a/z b/z\ndeleted file mode 100644\n--- a/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    )
    changed, added, moved, removed = parse_patch(text)
    assert apply_patch_to_text("a\nb\nc\n", changed) == "a\nB\nc\n"
    assert (added.path, added.content, added.is_executable) == ("run.sh", "echo", True)
    assert (moved.path, moved.new_path, moved.hunks) == ("x", "y", ())
    assert (removed.kind, removed.path) == ("delete", "z")


def test_a_removed_line_that_looks_like_a_header_is_a_line() -> None:
    text = "--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n a\n--- a comment\n c\n"
    assert apply_patch_to_text("a\n-- a comment\nc\n", one(text)) == "a\nc\n"


def test_a_diff_with_wrong_counts_and_line_numbers_still_finds_its_place() -> None:
    text = "--- f\n+++ f\n@@ -90,7 +90,1 @@\n b\n-c\n+C\n"
    assert apply_patch_to_text("a\nb\nc\n", one(text)) == "a\nb\nC\n"


def test_the_line_number_decides_between_places_that_fit() -> None:
    text = "x\n" * 3 + "a\nb\n" + "x\n" * 5 + "a\nb\n"
    update = one("--- f\n+++ f\n@@ -11,2 +11,2 @@\n a\n-b\n+B\n")
    assert apply_patch_to_text(text, update) == "x\n" * 3 + "a\nb\n" + "x\n" * 5 + "a\nB\n"


def test_a_place_that_is_not_clear_is_refused_with_the_lines_it_fits() -> None:
    update = one(wrapped("*** Update File: f.py", "@@", "-    return 1", "+    return 2"))
    with pytest.raises(PatchRefused, match=r"f\.py, change 1 matches at lines 2, 6"):
        apply_patch_to_text(TEXT, update)


def test_white_space_is_forgiven_only_where_one_place_fits_and_the_file_keeps_its_own() -> None:
    update = one(wrapped("*** Update File: f", "@@", " def  b():", "-return 1", "+    return 2"))
    assert apply_patch_to_text("def b():\n\treturn 1\n", update) == "def b():\n    return 2\n"
    assert apply_patch_to_text("def  b():  \n    return 1\n", update) == "def  b():  \n    return 2\n"
    with pytest.raises(PatchRefused, match="apart from white space, lines 1, 3 match"):
        apply_patch_to_text("def b():\n  return 1\ndef b():\n return 1\n", update)


def test_line_ends_and_the_lack_of_a_last_one_are_kept() -> None:
    update = one(wrapped("*** Update File: f", "@@", " a", "-b", "+B"))
    assert apply_patch_to_text("a\r\nb\r\n", update) == "a\r\nB\r\n"
    assert apply_patch_to_text("a\nb", update) == "a\nB"
    taken = one("--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n")
    assert apply_patch_to_text("a\nb\n", taken) == "a\nb"
    assert apply_patch_to_text("a\nb", reverse_patch(taken)) == "a\nb\n"


def test_end_of_file_and_insertions_go_where_they_say() -> None:
    at_end = one(wrapped("*** Update File: f", "@@", " a", "+b", "*** End of File"))
    assert apply_patch_to_text("a\na\n", at_end) == "a\na\nb\n"
    behind = one(wrapped("*** Update File: f", "@@ a", "+b"))
    assert apply_patch_to_text("a\nc\n", behind) == "a\nb\nc\n"
    assert apply_patch_to_text("a\nc\n", one("--- f\n+++ f\n@@ -1,0 +2 @@\n+b\n")) == "a\nb\nc\n"
    assert apply_patch_to_text("", one(wrapped("*** Update File: f", "@@", "+b"))) == "b\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no change"),
        ("hello", "no change"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", "cut off"),
        (wrapped("*** Update File: f"), "contains no change"),
        (wrapped("*** Update File: f", "@@", " a"), "no line begins with - or"),
        (wrapped("*** Update File: f", "@@", "a"), "each line begins with"),
        (wrapped("*** Update File: ", "@@", "-a"), "names no file"),
        (wrapped("*** Add File: f", "a"), "each line begins with"),
        (wrapped("*** Delete File: f", "-a"), "Nothing can follow"),
        (wrapped("hello"), "is not"),
        ("@@ -1 +1 @@\n-a\n+b\n", "name the file"),
        ("--- a\n+++ a\n", "no @@"),
        ("diff --git a/f b/f\nGIT binary patch\n", "binary"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "file modes"),
        ("--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", "no old lines"),
        ("diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc\n", "links"),
        ("x" * 2_000_001, "more than"),
        (wrapped(*(line for n in range(201) for line in (f"*** Add File: {n}", "+x"))), "more than"),
    ],
    ids=range(18),
)
def test_an_invalid_patch_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(PatchRefused, match=said) as refused:
        parse_patch(text)
    assert len(str(refused.value)) < 400


lines = st.lists(
    st.sampled_from(["a", "b", "", "  a", "-- x", "++ y", "@@", "*** x", "\\ n", "é", "a\tb"]), max_size=12
)
_PIECES = [
    *(
        "*** Begin Patch",
        "*** End Patch",
        "*** Add File: f",
        "*** Update File: f",
        "*** Delete File: f",
        "*** Move to: g",
    ),
    *("*** End of File", "@@", "@@ a", "@@ -1,2 +1,2 @@", "@@ -0,0 +1 @@", "@@ -999999999 +1 @@", "--- a/f", "+++ b/f"),
    *("--- /dev/null", "+++ /dev/null", "diff --git a/f b/f", "rename from f", "rename to g", "new file mode 100755"),
    *(
        " a",
        "-a",
        "+a",
        "",
        " ",
        "-",
        "+",
        "\\ No newline at end of file",
        "\0",
        "\u2028",
        "\ud800",
        "```",
        "+++ ",
        "--- ",
    ),
]


@some
@given(
    st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=8)), max_size=25), st.text("ab\n\r -+@", max_size=40)
)
def test_any_text_is_a_patch_or_refused_and_so_is_carrying_it_out(pieces: list[str], text: str) -> None:
    try:
        for patch in parse_patch("\n".join(pieces)):
            apply_patch_to_text(text, patch)
    except PatchRefused as refused:
        sentence = str(refused)
        assert sentence


@some
@given(lines, lines, st.booleans(), st.booleans(), st.integers(0, 3))
def test_a_diff_makes_the_new_text_of_the_old_and_reversed_the_old_of_the_new(
    old: list[str], new: list[str], old_ends: bool, new_ends: bool, around: int
) -> None:
    before, after = _joined(old, old_ends), _joined(new, new_ends)
    if before == after or not before or not after:
        return
    diff = _diff(before, after, around)
    patch = one(diff)
    assert apply_patch_to_text(before, patch) == after
    back = one(_diff(after, before, around))
    assert apply_patch_to_text(after, back) == before
    if around == 3:  # with all of its surroundings a reversed patch needs no line numbers of its own
        try:
            assert apply_patch_to_text(after, reverse_patch(patch)) == before
        except PatchRefused as refused:
            assert "fits" in str(refused) or "not in the file" in str(refused)  # noqa: PT017


def _joined(lines: list[str], ends: bool) -> str:
    return "\n".join(lines) + ("\n" if lines and ends else "")


def _diff(before: str, after: str, around: int) -> str:
    """As `diff -u` writes it, the lack of a last line end included."""
    made = difflib.unified_diff(_lines(before), _lines(after), "a/f", "b/f", n=around, lineterm="\n")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)


def _lines(text: str) -> list[str]:
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
