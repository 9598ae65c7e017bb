"""The validator of skills against the reference implementation of the format: the same verdict on every case.

The cases are written out below, made from each other, and made up by hypothesis. A few cases are decided otherwise on
purpose; each stands in OTHERWISE with its reason.
"""

# ruff: noqa: RUF001 - letters that look like others are what some of the cases are about

from __future__ import annotations

import os
import string
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.skills.frontmatter import FILE_BYTES_MAX, HEADER_BYTES_MAX
from mainstay.skills.skill import read_skill
from mainstay.skills.validator import validate_skill

skills_ref = pytest.importorskip("skills_ref", reason="this needs skills-ref")

EXAMPLES = 3_000 if os.environ.get("MAINSTAY_TEST_ALL") else 150
EXACTLY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def reference_refuses(folder: Path) -> bool:
    """An error that it does not expect is a refusal, too."""
    try:
        return bool(skills_ref.validate(folder))
    except Exception:  # everything that its YAML library accepts
        return True


def written(root: Path, folder: str, data: str | bytes, file: str = "SKILL.md") -> Path:
    place = root / folder
    place.mkdir(exist_ok=True)
    (place / file).write_bytes(data if isinstance(data, bytes) else data.encode())
    return place


def skill(header: str, body: str = "# How\n\nDo it.\n") -> str:
    return f"---\n{header}---\n\n{body}"


PLAIN = "name: pdf\ndescription: Reads PDF files.\n"

# --- names ---------------------------------------------------------------------------------------

# fmt: off
NAMES = (
    "pdf", "a", "1", "pdf-tools", "pdf-2-text", "2pdf", "x" * 64, "x" * 65, "a-" * 31 + "ab", "a-" * 32 + "b",
    "PDF", "Pdf", "pDf", "-pdf", "pdf-", "-", "--", "pdf--tools", "pdf---tools", "pdf_tools", "pdf.tools",
    "pdf tools", "pdf/tools", "pdf\\tools", "pdf:tools", "pdf+tools", "pdf@1", "pdf!", "données", "DONNÉES",
    "日本語", "日本-語", "данные", "Данные", "δεδομένα", "ΔΕΔΟΜΕΝΑ", "ß", "ẞ", "ﬁx", "ｐｄｆ", "ＰＤＦ", "²", "½", "①",
    "Ⅷ", "ⅷ", "ǆ", "ǅ", "İx", "ıx", "हिन्दी", "हद", "ไทย", "한국어", "عربي", "עברית", "e\u0301", "\u00e9", "pdf\u200b",
    "pdf\u00ad", "\u202epdf", "😀", "a\u0307", "ªº", "𝒫df", "𐐨", "𐐀", "٣", "x\u00a0y", "\u00a0pdf", "true", "null",
    "123", "1.0", "0x1f", "2026-11-15", "~", "yes", "=", "<<", "ʻokina", "ʼn", "ñ" * 64, "ñ" * 65, "ﬀ" * 33, "ﬀ" * 32,
)
# fmt: on
QUOTES = ("{}", "'{}'", '"{}"', " {} ")


def named() -> Iterator[tuple[str, str, str]]:
    for number, name in enumerate(NAMES):
        for style, quote in enumerate(QUOTES):
            if "\\" not in name or style < 2:
                yield f"name-{number}-{style}", name, skill(f"name: {quote.format(name)}\ndescription: Does it.\n")
        yield f"name-{number}-elsewhere", "elsewhere", skill(f"name: {name}\ndescription: Does it.\n")


# --- fields --------------------------------------------------------------------------------------

LONG = "x" * 1022
FIELDS = {
    "description-1024": f"name: pdf\ndescription: x{LONG}y\n",
    "description-1025": f"name: pdf\ndescription: x{LONG}yz\n",
    "description-1024-wide": f"name: pdf\ndescription: {'語' * 1024}\n",
    "description-1025-wide": f"name: pdf\ndescription: {'語' * 1025}\n",
    "description-1024-far": f"name: pdf\ndescription: {'😀' * 1024}\n",
    "description-block-1023": f"name: pdf\ndescription: |\n  x{LONG}\n",
    "description-block-1024": f"name: pdf\ndescription: |\n  xy{LONG}\n",
    "description-stripped-block": f"name: pdf\ndescription: |-\n  xy{LONG}\n",
    "description-folded": "name: pdf\ndescription: >\n  one\n  two\n\n  three\n",
    "description-several-lines": "name: pdf\ndescription: one\n  two\n  three\n",
    "description-empty": "name: pdf\ndescription:\n",
    "description-blank": "name: pdf\ndescription: '   '\n",
    "description-blank-block": "name: pdf\ndescription: |\n\n\n",
    "description-null": "name: pdf\ndescription: null\n",
    "description-number": "name: pdf\ndescription: 1.0\n",
    "description-list": "name: pdf\ndescription:\n  - one\n",
    "description-map": "name: pdf\ndescription:\n  one: two\n",
    "description-flow-list": "name: pdf\ndescription: [one]\n",
    "description-flow-map": "name: pdf\ndescription: {one: two}\n",
    "description-colon": "name: pdf\ndescription: Use when: asked\n",
    "description-colon-quoted": "name: pdf\ndescription: 'Use when: asked'\n",
    "description-colon-last": "name: pdf\ndescription: Use when:\n",
    "description-hash": "name: pdf\ndescription: Uses # hash\n",
    "description-only-comment": "name: pdf\ndescription: # hash\n",
    "description-hyphens": "name: pdf\ndescription: one --- two\n",
    "description-hyphens-colon": "name: pdf\ndescription: one --- two: three\n",
    "description-hyphens-then-unknown": "name: pdf\ndescription: one --- two\nversion: 1\n",
    "description-at": "name: pdf\ndescription: @one\n",
    "description-backtick": "name: pdf\ndescription: `one`\n",
    "description-percent": "name: pdf\ndescription: %one\n",
    "description-star": "name: pdf\ndescription: *one\n",
    "description-ampersand": "name: pdf\ndescription: &one two\n",
    "description-bang": "name: pdf\ndescription: !one two\n",
    "description-tagged": "name: pdf\ndescription: !!str two\n",
    "description-python": "name: pdf\ndescription: !!python/object/apply:os.system ['true']\n",
    "description-question": "name: pdf\ndescription: ?one\n",
    "description-question-space": "name: pdf\ndescription: ? one\n",
    "description-hyphen": "name: pdf\ndescription: -one\n",
    "description-hyphen-space": "name: pdf\ndescription: - one\n",
    "description-tab": "name: pdf\ndescription: one\ttwo\n",
    "description-after-tab": "name: pdf\ndescription:\tone\n",
    "description-escapes": 'name: pdf\ndescription: "one\\ttwo\\u00e9\\x41"\n',
    "description-bad-escape": 'name: pdf\ndescription: "one\\q"\n',
    "description-open-quote": "name: pdf\ndescription: 'one\n",
    "description-text-after-quote": "name: pdf\ndescription: 'one' two\n",
    "description-nul": "name: pdf\ndescription: one\x00two\n",
    "description-bell": "name: pdf\ndescription: one\x07two\n",
    "description-delete": "name: pdf\ndescription: one\x7ftwo\n",
    "description-nel": "name: pdf\ndescription: one\x85two\n",
    "description-line-separator": "name: pdf\ndescription: one\u2028two\n",
    "description-bom-inside": "name: pdf\ndescription: one\ufefftwo\n",
    "description-bidi": "name: pdf\ndescription: one\u202etwo\n",
    "description-tags": "name: pdf\ndescription: one\U000e0041two\n",
    "description-noncharacter": "name: pdf\ndescription: one\ufffetwo\n",
    "description-private": "name: pdf\ndescription: one\ue000two\n",
    "description-twice": "name: pdf\ndescription: one\ndescription: two\n",
    "name-twice": "name: pdf\nname: pdf\ndescription: one\n",
    "name-missing": "description: one\n",
    "name-empty": "name:\ndescription: one\n",
    "name-list": "name:\n  - pdf\ndescription: one\n",
    "name-map": "name:\n  a: pdf\ndescription: one\n",
    "name-block": "name: |\n  pdf\ndescription: one\n",
    "name-folded": "name: >-\n  pdf\ndescription: one\n",
    "description-missing": "name: pdf\n",
    "nothing": "",
    "only-comment": "# nothing\n",
    "only-text": "nothing\n",
    "only-list": "- name: pdf\n",
    "keys-capital": "Name: pdf\nDescription: one\n",
    "keys-quoted": "'name': pdf\n\"description\": one\n",
    "keys-spaced": "name : pdf\ndescription : one\n",
    "keys-indented": "  name: pdf\n  description: one\n",
    "keys-crooked": "name: pdf\n description: one\n",
    "keys-crooked-back": "  name: pdf\ndescription: one\n",
    "keys-explicit": "? name\n: pdf\ndescription: one\n",
    "keys-glued": "name:pdf\ndescription: one\n",
    "license-mit": PLAIN + "license: MIT\n",
    "license-empty": PLAIN + "license:\n",
    "license-list": PLAIN + "license:\n  - MIT\n",
    "license-map": PLAIN + "license:\n  spdx: MIT\n",
    "license-long": PLAIN + f"license: {'x' * 5000}\n",
    "license-equals": PLAIN + "license: =\n",
    "compatibility-500": PLAIN + f"compatibility: {'x' * 500}\n",
    "compatibility-501": PLAIN + f"compatibility: {'x' * 501}\n",
    "compatibility-500-wide": PLAIN + f"compatibility: {'語' * 500}\n",
    "compatibility-block-500": PLAIN + f"compatibility: |\n  {'x' * 500}\n",
    "compatibility-empty": PLAIN + "compatibility:\n",
    "compatibility-number": PLAIN + "compatibility: 1\n",
    "compatibility-list": PLAIN + "compatibility:\n  - git\n",
    "compatibility-map": PLAIN + "compatibility:\n  git: yes\n",
    "metadata-texts": PLAIN + "metadata:\n  author: me\n  version: '1.0'\n",
    "metadata-numbers": PLAIN + "metadata:\n  version: 1.0\n  year: 2026\n",
    "metadata-gateway": PLAIN + "metadata:\n  gateway:trigger: keyword\n  gateway:keywords: a b\n",
    "metadata-text": PLAIN + "metadata: none\n",
    "metadata-list": PLAIN + "metadata:\n  - one\n",
    "metadata-empty": PLAIN + "metadata:\n",
    "metadata-nested": PLAIN + "metadata:\n  a:\n    b: c\n",
    "metadata-nested-same": PLAIN + "metadata:\n  a:\n    b: c\n  d:\n    e: f\n",
    "metadata-nested-crooked": PLAIN + "metadata:\n  a:\n    b: c\n  d:\n      e: f\n",
    "metadata-nested-list": PLAIN + "metadata:\n  a:\n    - b\n    - c\n",
    "metadata-list-unindented": PLAIN + "metadata:\n  a:\n  - b\n  - c\n",
    "metadata-twice": PLAIN + "metadata:\n  a: b\n  a: c\n",
    "metadata-flow": PLAIN + "metadata: {a: b}\n",
    "metadata-flow-inside": PLAIN + "metadata:\n  a: [b]\n",
    "metadata-flow-empty": PLAIN + "metadata: {}\n",
    "metadata-json-text": PLAIN + "metadata:\n  a: '{\"b\": 1}'\n",
    "metadata-crooked": PLAIN + "metadata:\n  a: b\n   c: d\n",
    "metadata-tabs": PLAIN + "metadata:\n\ta: b\n",
    "metadata-no-key": PLAIN + "metadata:\n  : b\n",
    "metadata-no-key-map": PLAIN + "metadata:\n  : b: c\n",
    "metadata-no-key-explicit": PLAIN + "metadata:\n  ?\n  : b\n",
    "metadata-anchor": PLAIN + "metadata:\n  a: &x b\n  c: *x\n",
    "metadata-merge": PLAIN + "metadata:\n  <<: b\n",
    "metadata-comment": PLAIN + "metadata: # about\n  # more\n  a: b # c\n",
    "metadata-blank-lines": PLAIN + "metadata:\n\n  a: b\n\n\n  c: d\n",
    "maps-of-other-indents": PLAIN + "license:\n  a: b\nmetadata:\n    c: d\n",
    "tools-spaces": PLAIN + "allowed-tools: Bash(git:*) Bash(jq:*) Read\n",
    "tools-commas": PLAIN + "allowed-tools: Read, Write, Edit\n",
    "tools-list": PLAIN + "allowed-tools:\n  - Read\n  - Write\n",
    "tools-flow": PLAIN + "allowed-tools: [Read, Write]\n",
    "tools-empty": PLAIN + "allowed-tools:\n",
    "tools-underscore": PLAIN + "allowed_tools: Read\n",
    "unknown-version": PLAIN + "version: 1.0\n",
    "unknown-several": PLAIN + "author: me\ntags: a b\n",
    "unknown-nested": PLAIN + "extra:\n  a: b\n",
    "unknown-empty-key": PLAIN + ": b\n",
    "unknown-only-in-body": PLAIN,
    "document-end": PLAIN + "...\n",
    "document-end-and-more": PLAIN + "...\nname: other\n",
    "directive": "%YAML 1.2\n" + PLAIN,
    "blank-lines": "\n\n" + PLAIN + "\n\n",
    "comments": "# one\nname: pdf # two\n# three\ndescription: one\n",
    "order": "description: one\nname: pdf\n",
    "deep": PLAIN + "metadata:\n" + "".join(f"{'  ' * (depth + 1)}a:\n" for depth in range(12)),
    "bomb": "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n" + PLAIN,
}

# --- files ---------------------------------------------------------------------------------------

WHOLE = skill(PLAIN)
FILES: dict[str, str | bytes] = {
    "plain": WHOLE,
    "crlf": WHOLE.replace("\n", "\r\n"),
    "cr": WHOLE.replace("\n", "\r"),
    "mixed-line-ends": WHOLE.replace("\n", "\r\n", 3),
    "no-last-newline": WHOLE.rstrip("\n"),
    "no-body": f"---\n{PLAIN}---\n",
    "no-body-no-newline": f"---\n{PLAIN}---",
    "bom": "\ufeff" + WHOLE,
    "utf-16": WHOLE.encode("utf-16"),
    "latin-1": skill("name: pdf\ndescription: Données\n").encode("latin-1"),
    "not-text": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "empty": b"",
    "blank": "\n\n",
    "only-body": "# How\n",
    "blank-line-first": "\n" + WHOLE,
    "space-first": " " + WHOLE,
    "header-not-closed": f"---\n{PLAIN}",
    "header-not-closed-body": f"---\n{PLAIN}\n# How\n",
    "header-twice": f"---\n---\n{PLAIN}---\n",
    "header-empty": "---\n---\n# How\n",
    "header-glued": f"---{PLAIN}---\n",
    "four-hyphens": f"----\n{PLAIN}----\n",
    "closing-dots": f"---\n{PLAIN}...\n# How\n",
    "closing-indented": f"---\n{PLAIN} ---\n# How\n",
    "closing-spaces": f"---\n{PLAIN}---   \n# How\n",
    "closing-text": f"---\n{PLAIN}--- # How\n",
    "opening-spaces": f"---   \n{PLAIN}---\n",
    "opening-tab": f"---\t\n{PLAIN}---\n",
    "opening-comment": f"--- # one\n{PLAIN}---\n",
    "rule-in-body": WHOLE + "\n---\n\nmore\n",
    "header-in-body": WHOLE + "\n---\nname: other\n---\n",
    "hyphens-in-table": WHOLE + "\n| a | b |\n|---|---|\n",
    "code-fence": "```yaml\n" + WHOLE + "```\n",
    "megabyte": (WHOLE + "x" * FILE_BYTES_MAX)[:FILE_BYTES_MAX],
}


def cases() -> Iterator[tuple[str, str, str | bytes]]:
    yield from ((f"field-{id}", "pdf", skill(header)) for id, header in FIELDS.items())
    yield from ((f"file-{id}", "pdf", data) for id, data in FILES.items())
    for id, folder, text in named():
        if "/" not in folder and len(folder.encode()) < 256:
            yield id, folder, text


CASES = list(cases())

# Decided otherwise: the case, whether we take it, and why.
OTHERWISE: dict[str, tuple[str, bool, str]] = {
    "half-character": (
        skill('name: pdf\ndescription: "one\\ud800"\n'),
        False,
        "half a character cannot be written to a file or sent to a model",
    ),
    "merge": (
        skill(PLAIN + "<<:\n  a: b\n"),
        False,
        "a merge is no field, and whoever reads it otherwise would see others",
    ),
    "equals": (
        skill("name: pdf\ndescription: =\n"),
        True,
        "`=` alone is a text; only YAML 1.1 had a type for it",
    ),
    "old-line-end": (
        skill(PLAIN + "metadata:\n  a: b\n # c\x85: \n"),
        True,
        "only YAML 1.1 ends a line here; the reference does in comments, and nowhere else",
    ),
    "header-too-large": (
        skill(PLAIN + f"license: {'x' * HEADER_BYTES_MAX}\n"),
        False,
        "there is a bound on everything that is parsed",
    ),
    "file-too-large": (WHOLE + "x" * FILE_BYTES_MAX, False, "there is a bound on everything that is read"),
    "nested-too-deep": (
        skill(PLAIN + "metadata:\n" + "".join(f"{' ' * (depth + 1)}a:\n" for depth in range(30))),
        False,
        "the same",
    ),
}


@pytest.mark.parametrize(("folder", "data"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_verdict_is_that_of_the_reference(tmp_path: Path, folder: str, data: str | bytes) -> None:
    place = written(tmp_path, folder, data)
    assert bool(validate_skill(place)) == reference_refuses(place), validate_skill(place)


def test_a_valid_skill_is_loaded_with_the_same_meaning(tmp_path: Path) -> None:
    for id, folder, data in CASES:
        place = written(tmp_path, folder, data)
        if validate_skill(place):
            continue
        loaded, _ = read_skill(str(place))
        known = skills_ref.read_properties(place)
        assert loaded.name == unicodedata.normalize("NFKC", known.name), id
        assert loaded.compatibility == (known.compatibility or "").strip(), id
        if isinstance(known.license, str):
            assert loaded.license == known.license.strip(), id
        if "---" not in loaded.description:  # at which the reference takes the header to end
            assert loaded.description.split() == known.description.split(), id


@pytest.mark.parametrize("id", OTHERWISE)
def test_every_difference_from_the_reference_has_a_reason(tmp_path: Path, id: str) -> None:
    data, taken, reason = OTHERWISE[id]
    place = written(tmp_path, "pdf", data)
    assert (not validate_skill(place), not reference_refuses(place)) == (taken, not taken), reason


def test_the_cases_are_hundreds_and_of_both_kinds(tmp_path: Path) -> None:
    valid = sum(not validate_skill(written(tmp_path, folder, data)) for _, folder, data in CASES)
    assert len(CASES) > 500
    assert valid > 100
    assert len(CASES) - valid > 100


def test_a_file_in_small_letters_counts_where_the_other_is_missing(tmp_path: Path) -> None:
    place = written(tmp_path, "pdf", WHOLE, "skill.md")
    assert validate_skill(place) == []
    assert not reference_refuses(place)
    if not (place / "SKILL.md").exists():  # where the disk tells letters apart
        written(tmp_path, "pdf", "nothing", "SKILL.md")
        assert validate_skill(place)
        assert reference_refuses(place)


def test_an_invalid_skill_folder_is_refused_by_both(tmp_path: Path) -> None:
    empty, file = tmp_path / "empty", tmp_path / "file"
    empty.mkdir()
    file.write_text(WHOLE)
    odd = tmp_path / "odd"
    (odd / "SKILL.md").mkdir(parents=True)
    for place in (empty, file, odd, tmp_path / "missing"):
        assert validate_skill(place)
        assert reference_refuses(place)


def test_a_folder_is_known_by_its_last_name_however_it_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "pdf", WHOLE)
    monkeypatch.chdir(tmp_path / "pdf")
    for place in (tmp_path / "pdf" / ".", tmp_path / "pdf" / ".." / "pdf", Path("."), Path("..") / "pdf"):
        assert bool(validate_skill(place)) == reference_refuses(place), place


# --- made up -------------------------------------------------------------------------------------

# fmt: off
WORDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools", "version", "a", "pdf")
PIECES = (
    ": ", ":", " ", "\n", "\n  ", "\n    ", "- ", "\n- ", "\n  - ", "#", " # c", "'", '"', "''", '\\"', "|", "|-\n  x",
    ">", "?", "? ", "~", "{", "}", "[", "]", ",", "&a", "*a", "!", "!!str", "%", "@", "`", "\t", "...", "\n...\n",
    "--", "-", "---", "\n---\n", "\r\n", "\r", "\u00a0", "é", "日本", "😀", "\\", "\\n", "\\x41", "1", "0x1", "true",
    "x: |\n  t\n", "x: 'q'\n", "\x7f", "\x00", "\ufeff", "\x0b", "x" * 400, "É", "ﬁ", "_", ".",
)
# fmt: on
FULL = skill(
    "name: pdf\ndescription: Some text here\nlicense: MIT\nmetadata:\n  author: me\n  version: '1.0'\n"
    "compatibility: Needs git\nallowed-tools: Bash(git:*) Read\n"
)


@EXACTLY
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(FULL)), st.sampled_from(PIECES + WORDS), st.integers(0, 5)), max_size=3
    )
)
def test_a_skill_with_something_put_in_or_taken_out_has_the_same_verdict(
    tmp_path: Path, changes: list[tuple[int, str, int]]
) -> None:
    text = FULL
    for at, piece, gone in changes:
        text = text[:at] + (piece if gone < 4 else "") + text[at + gone :]
    place = written(tmp_path, "pdf", text)
    assert bool(validate_skill(place)) == reference_refuses(place), text
    if not validate_skill(place):
        read_skill(str(place))


@EXACTLY
@given(header=st.lists(st.sampled_from(PIECES + WORDS), max_size=14).map("".join))
def test_a_header_of_anything_has_the_same_verdict(tmp_path: Path, header: str) -> None:
    place = written(tmp_path, "pdf", skill(f"name: pdf\ndescription: one\nmetadata:\n  a: b\n{header}\n"))
    assert bool(validate_skill(place)) == reference_refuses(place), header


@EXACTLY
@given(name=st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=70))
def test_a_name_of_any_letters_has_the_same_verdict(tmp_path: Path, name: str) -> None:
    if name in (".", "..") or len(name.encode()) > 200:
        return
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    place = written(tmp_path, name, skill(f"name: {quoted}\ndescription: one\n"))
    assert bool(validate_skill(place)) == reference_refuses(place), name


@EXACTLY
@given(name=st.text(st.sampled_from(string.ascii_lowercase[:3] + "12-A_é語ﬁ"), min_size=1, max_size=12))
def test_a_name_of_likely_letters_has_the_same_verdict(tmp_path: Path, name: str) -> None:
    place = written(tmp_path, name, skill(f"name: '{name}'\ndescription: one\n"))
    assert bool(validate_skill(place)) == reference_refuses(place), name
