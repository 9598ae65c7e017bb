"""The manifests of promises are valid, and the script that checks them can fail."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "requirements"
Capture = pytest.CaptureFixture[str]
DOCUMENTS = {"sigil": "000", "loom": "001", "guppy": "002", "opentalon": "003", "miclaw": "004"}


def load_check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("requirements_check", FOLDER / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


check = load_check()


def ids(name: str) -> list[str]:
    return [entry.id for entry in check.load_manifest(FOLDER / f"{name}.yaml").entries]


def plant(tmp_path: Path, *entries: str, name: str = "planted") -> Path:
    """A repository with one test file and one manifest; returns the folder of the manifest."""
    tests = tmp_path / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "test_a.py").write_text(
        "def test_one():\n    def test_inner():\n        pass\n"
        "class TestTwo:\n    async def test_three(self):\n        pass\n"
        "def helper():\n    pass\n"
    )
    folder = tests / "requirements"
    folder.mkdir(exist_ok=True)
    lines = "".join(f"  - {{{entry}}}\n" for entry in entries)
    (folder / f"{name}.yaml").write_text(f"requirements:\n{lines}")
    return folder


def entry(name: str, state: str) -> str:
    return f'id: {name}, promise: It works., where: "2", {state}'


def test_the_manifests_are_sound() -> None:
    assert check.check(check.load(FOLDER), ROOT) == []


def test_every_fault_is_listed_exactly_once_and_in_order() -> None:
    assert ids("faults") == [f"F{number}" for number in range(1, 79)]


def test_every_fault_has_a_test_that_names_it_or_a_reason() -> None:
    for found in check.load_manifest(FOLDER / "faults.yaml").entries:
        if found.states == ("test",):
            names = [node.rpartition("::")[2] for node in found.tests]
            assert any(found.id.lower() in name.split("_") for name in names), f"no test names {found.id}"
        else:
            assert (found.states, bool(found.reason)) == (("status",), True), found.id


def test_every_complaint_of_users_is_listed_exactly_once_and_in_order() -> None:
    assert ids("users") == [f"U{number}" for number in range(1, 26)]


@pytest.mark.parametrize(("name", "source"), DOCUMENTS.items())
def test_each_document_has_a_manifest_numbered_in_order(name: str, source: str) -> None:
    listed = ids(name)
    assert listed == [f"{name.upper()}-{number:03}" for number in range(1, len(listed) + 1)]
    assert f"source: '{source}'" in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def test_every_place_in_the_design_is_one_of_its_sections() -> None:
    for name in (*DOCUMENTS, "users"):
        text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        places = re.findall(r"^ +where: (.+)$", text, re.MULTILINE)
        assert len(places) == len(ids(name))
        sections = [section.strip(" '\"") for place in places for section in place.split(",")]
        assert {section for section in sections if section not in map(str, range(1, 23))} == set()


def test_a_sound_manifest_passes_with_classes_and_parameters(tmp_path: Path) -> None:
    node = '["tests/test_a.py::test_one[a::b]", "tests/test_a.py::TestTwo::test_three"]'
    folder = plant(
        tmp_path,
        entry("A-001", f"test: {node}"),
        entry("A-002", "status: not yet, issue: kernel"),
        entry("A-003", "superseded: Otherwise."),
    )
    assert check.check(check.load(folder), tmp_path) == []


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("test: [tests/test_a.py::test_gone]", "has no function test_gone"),
        ("test: [tests/test_a.py::test_inner]", "has no function test_inner"),
        ("test: [tests/test_a.py::test_three]", "has no function test_three"),
        ("test: [tests/test_a.py::TestGone::test_one]", "has no class TestGone"),
        ("test: [tests/test_a.py::helper]", "would not collect helper"),
        ("test: [tests/test_gone.py::test_one]", "there is no file"),
        ("test: [../outside.py::test_one]", "there is no file"),
        ("test: [tests/test_a.py]", "not of the form"),
        ("test: []", "as a list"),
        ("test: tests/test_a.py::test_one", "as a list"),
        ("test: [tests/test_a.py::test_one], status: not yet, issue: kernel", "has 2 states"),
        ("status: not yet, issue: kernel, superseded: Otherwise.", "has 2 states"),
        ("issue: kernel", "has no state"),
        ("status: done, issue: kernel", "may only have the status"),
        ("status: not yet", "none of kernel"),
        ("status: not yet, issue: nowhere", "none of kernel"),
        ('superseded: ""', "without a reason"),
    ],
)
def test_a_broken_state_is_found(tmp_path: Path, state: str, sentence: str) -> None:
    (tmp_path / "outside.py").write_text("def test_one(): pass\n")
    root = tmp_path / "repository"
    root.mkdir()
    problems = check.check(check.load(plant(root, entry("A-001", state))), root)
    assert len(problems) == 1
    assert problems[0].startswith("A-001 ")
    assert sentence in problems[0]


def test_an_id_given_twice_is_found_within_and_across_manifests(tmp_path: Path) -> None:
    state = "status: not yet, issue: kernel"
    plant(tmp_path, entry("A-001", state), entry("A-001", state), name="first")
    folder = plant(tmp_path, entry("A-001", state), name="second")
    assert check.check(check.load(folder), tmp_path) == [
        "A-001 is listed twice, in first.yaml and in first.yaml.",
        "A-001 is listed twice, in first.yaml and in second.yaml.",
    ]


def test_an_entry_without_its_texts_is_found(tmp_path: Path) -> None:
    folder = plant(tmp_path, "where: 2, superseded: Otherwise.")
    problems = check.check(check.load(folder), tmp_path)
    assert [re.findall(r"'(\w+)'", problem)[0] for problem in problems] == ["id", "promise", "where"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("requirements: [{id: A-001, test: [a], test: [b]}]", "given twice"),
        ("requirements: [", "cannot be read"),
        ("requirements: []", "lists nothing"),
        ("requirements: [A-001]", "not a mapping"),
        ("promises: []", "must have one list"),
        ("", "must have one list"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "planted.yaml").write_text(text)
    with pytest.raises(check.BadManifest, match=sentence):
        check.load(tmp_path)


def test_the_command_counts_and_exits_cleanly_when_all_is_sound(tmp_path: Path, capsys: Capture) -> None:
    folder = plant(
        tmp_path,
        entry("A-001", "test: [tests/test_a.py::test_one]"),
        entry("A-002", "status: not yet, issue: kernel"),
        entry("A-003", "status: not yet, issue: plugins"),
        entry("A-004", "superseded: Otherwise."),
    )
    assert check.main([], folder, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["manifest", "tested", "superseded", "not", "yet", "total"]
    assert lines[1].split() == ["planted.yaml", "1", "1", "2", "4"]
    assert lines[-1] == "4 promises: 1 with tests, 1 superseded, 2 without tests"


def test_the_command_lists_what_is_left_for_one_issue(tmp_path: Path, capsys: Capture) -> None:
    folder = plant(
        tmp_path,
        entry("A-001", "status: not yet, issue: kernel"),
        entry("A-002", "status: not yet, issue: plugins"),
    )
    assert check.main(["--left", "plugins"], folder, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=1) == ["A-002", "It works."]
    assert lines[-1] == "1 without tests"


def test_the_command_exits_with_one_and_a_sentence_when_broken(tmp_path: Path, capsys: Capture) -> None:
    folder = plant(tmp_path, entry("A-001", "test: [tests/test_a.py::test_gone]"))
    assert check.main([], folder, tmp_path) == 1
    assert "A-001 names tests/test_a.py::test_gone, but" in capsys.readouterr().err
    assert check.main([], tmp_path / "nowhere", tmp_path) == 1
    assert capsys.readouterr().err == "There is no manifest in nowhere.\n"
