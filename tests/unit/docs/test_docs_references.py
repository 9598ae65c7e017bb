"""Everything that a page names exists: commands, configuration keys, variables, extras, files, figures."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest
import reference_tools
import yaml
from support.docs_pages import DOCS, READ, ROOT, Block, blocks, name_of, prose, quoted, text_of

from mainstay import ToolContext, kit
from mainstay.cli.parser.root import PLANNED_COMMANDS, UsageError, build_parser, parse_arguments
from mainstay.config.loader import FUTURE_SECTIONS, load_config
from mainstay.config.schema import Config
from mainstay.config.schema_validator import analyse_type
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS, TOOL_GROUPS

SOURCE = ROOT / "src" / "mainstay"
PARSER = build_parser()
EACH = pytest.mark.parametrize("page", READ, ids=name_of)


# --- commands ------------------------------------------------------------------------------------


def commands_in(block: Block) -> Iterator[list[str]]:
    """What a block says to `mainstay`: each command of a pipe or a list, without what the shell keeps for itself."""
    text = re.sub(r"^[$#] ", "", block.text, flags=re.MULTILINE) if block.kind == "console" else block.text
    text = re.sub(r"<<'?(\w+)'?(.*?)^\1$", r"\2", text, flags=re.MULTILINE | re.DOTALL)
    for row in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(row, posix=True, punctuation_chars=";|&<>")
        words.whitespace_split = True
        try:
            found = list(words)
        except ValueError:
            continue  # half of something that the shell reads over several lines
        for said in _split(found):
            while said and (re.fullmatch(r"\w+=.*", said[0]) or said[0] in ("as_service", "exec", "sudo")):
                said = said[1:]
            if said and re.fullmatch(r"(?:\S*/)?mainstay", said[0]):
                yield said[1:]


def _split(words: list[str]) -> Iterator[list[str]]:
    one: list[str] = []
    for word in words:
        if set(word) <= set(";|&<>"):
            yield one
            one = [] if set(word) <= set(";|&") else ["a file"]  # what follows < or > is no command
        else:
            one.append(word)
    yield one


def parsed(words: list[str]) -> str:
    """What is wrong with it, or nothing."""
    try:
        try:
            PARSER.parse_args(words)
        except UsageError:
            parse_arguments(words)  # the whole way, which makes its own parser each time and takes some more
    except UsageError as error:
        return f"mainstay {shlex.join(words)}: {error}"
    except SystemExit as end:  # --help and --version
        return "" if end.code in (0, None) else f"mainstay {shlex.join(words)}"
    return ""


@EACH
def test_every_command_line_of_a_page_makes_sense(page: Path) -> None:
    shown = [block for block in blocks(page) if block.kind in ("sh", "console")]
    said = ((block.where, parsed(words)) for block in shown for words in commands_in(block))
    wrong = [f"{where}: {trouble}" for where, trouble in said if trouble]
    assert wrong == []


def test_the_pages_show_many_commands_and_all_of_them_are_checked() -> None:
    shown = [
        words
        for page in READ
        for block in blocks(page)
        if block.kind in ("sh", "console")
        for words in commands_in(block)
    ]
    assert len(shown) > 100
    assert ["serve"] in shown


@cache
def verbs() -> dict[str, set[str]]:
    """Every noun with its verbs; a command that has none is a noun with nothing."""
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    made: dict[str, set[str]] = {}
    for path in re.findall(r"^## mainstay (.+)$", text, re.MULTILINE):
        noun, _, verb = path.partition(" ")
        made.setdefault(noun, set()).update({verb} - {""})
    return made


PLURALS = ("mainstay sessions list", "mainstay memories search …")  # where the reference says that plurals work, too


@EACH
def test_every_command_that_a_page_names_in_passing_exists(page: Path) -> None:
    known = verbs()
    for said in quoted(page):
        match said.split():
            case ["mainstay", str(noun), *rest] if re.fullmatch(r"[a-z]+", noun):
                if said in PLURALS:
                    continue
                assert noun in known or noun in PLANNED_COMMANDS, f"`{said}`: use the name that --help has"
                if rest and known.get(noun) and re.fullmatch(r"[a-z]+", rest[0]):
                    assert rest[0] in known[noun], f"`{said}`"


# --- configuration -------------------------------------------------------------------------------


def is_configuration(block: Block) -> bool:
    """Unless its first line names another file, or it is one of the few others by its keys, or names components of the
    examples, with which it is loaded in `tests/acceptance/test_component_*.py`."""
    if block.where.startswith("docs/how-to/components.md"):
        return False
    if block.kind != "yaml" or re.match(r"# (?!mainstay\.yaml)\S*\.ya?ml\b", block.text):
        return False
    keys = set(yaml.safe_load(block.text) or ())
    return not (keys >= {"name", "version"} or keys >= {"services"})


CONFIGURED = [block for page in READ for block in blocks(page) if is_configuration(block)]


@pytest.mark.parametrize("block", CONFIGURED, ids=lambda block: block.where.replace(", line ", ":"))
def test_every_configuration_that_a_page_shows_can_be_loaded(block: Block, tmp_path: Path) -> None:
    (tmp_path / "mainstay.yaml").write_text(block.text)
    (tmp_path / "mainstay.yaml").chmod(0o600)
    variables = dict.fromkeys(re.findall(r"\$\{(?:env:)?(\w+)\}", block.text), "a-secret-of-some-length")
    assert load_config(tmp_path, env=variables).config is not None


@EACH
def test_every_key_that_a_page_names_by_its_path_exists(page: Path) -> None:
    for said in quoted(page):
        first, *rest = said.split(".")
        if not rest or first not in Config.__struct_fields__ or not all(re.fullmatch(r"[a-z_]+", one) for one in rest):
            continue
        if rest[-1] in ("py", "jsonl") or (first in IN_CODE and hasattr(IN_CODE[first], rest[0])):
            continue
        assert first in FUTURE_SECTIONS or _leads(Config, said.split(".")), f"`{said}` is no key"


IN_CODE = {"state": kit.state, "context": ToolContext}  # what parameters and names in examples are called, too


def _leads(struct: type[msgspec.Struct], path: list[str]) -> bool:
    """A name chosen by the owner stands for itself: what is below it is looked at from there."""
    kinds = {one.name: one.type for one in msgspec.structs.fields(struct)}
    if path[0] not in kinds:
        return False
    if len(path) == 1:
        return True
    shape = analyse_type(kinds[path[0]])
    if shape.struct_type is not None:
        return _leads(shape.struct_type, path[1:])
    below = analyse_type(shape.value_type).struct_type if shape.value_type is not None else None
    return below is None or len(path) == 2 or _leads(below, path[1:]) or _leads(below, path[2:])


@EACH
def test_every_variable_that_a_page_names_is_read_somewhere(page: Path) -> None:
    named = set(re.findall(r"\bMAINSTAY_[A-Z][A-Z_]*[A-Z]\b", text_of(page)))
    overrides = {name for name in named if name.startswith("MAINSTAY__")}
    known = variables()
    assert sorted(named - overrides - known) == []
    for name in overrides:
        assert name.split("__")[1].lower() in {field.lower() for field in Config.__struct_fields__} | {"section"}, name


@cache
def variables() -> set[str]:
    places = [
        *SOURCE.rglob("*.py"),
        *(ROOT / "examples").glob("*.py"),
        *(ROOT / "tests").glob("*.py"),
        ROOT / "Makefile",
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in places)
    return set(re.findall(r"\bMAINSTAY_[A-Z][A-Z_]*[A-Z]\b", text))


# --- built-in tools ------------------------------------------------------------------------------


def test_the_page_of_built_in_tools_has_each_of_them_in_a_table_and_with_its_capability() -> None:
    assert sorted(reference_tools.list_documented_tools()) == sorted(BUILT_IN_TOOLS)
    page = text_of(reference_tools.PAGE)
    capabilities = page.partition("| capability | tools |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", capabilities)) >= set(BUILT_IN_TOOLS)
    *first, last = (f"`{name}`" for name in TOOL_GROUPS["readonly"])
    assert f"`readonly` stands for {', '.join(first)} and {last}," in " ".join(page.split())


# --- the rest ------------------------------------------------------------------------------------


@EACH
def test_every_extra_that_a_page_names_exists(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"(?:pip install[^\n]*?|mainstay)\[([a-z,]+)\]", text_of(page))
    named += re.findall(r"[Ee]xtras? `([a-z]+)`", prose(page))
    assert {one for group in named for one in group.split(",")} - set(project["optional-dependencies"]) == set()


@EACH
def test_every_file_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:tests|benchmarks|examples|scripts|deploy|proto|src)/[\w./-]+\.\w+)`", prose(page))
    kept_out = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()  # yours, and not in the repository
    assert [one for one in named if not (ROOT / one).exists() and f"/{one}" not in kept_out] == []


@EACH
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = [row for block in blocks(page) if block.kind in ("sh", "console") for row in block.text.splitlines()]
    named = {
        found[1] for row in (*quoted(page), *shown) if (found := re.match(r"(?:[A-Z_]+=\S+ )?make ([a-z-]+)\b", row))
    }
    assert named - made == set()


def test_the_comparison_has_the_figures_of_the_last_run_of_the_attacks() -> None:
    last = json.loads((ROOT / "benchmarks" / "results" / "obeying.json").read_text(encoding="utf-8"))
    text = " ".join(prose(DOCS / "comparison.md").split())
    attacks, benign = last["attacks"], last["benign"]
    assert attacks["contained"] == attacks["cases"]
    assert f"{attacks['cases']:,} cases over {attacks['ways']} ways in and {attacks['goals']} goals" in text
    assert f"of {benign['tasks']} honest tasks {benign['without an approval']} went through" in text


def test_the_comparison_cites_sources_for_other_products() -> None:
    """Each row about another project has a link to what that project says itself."""
    page = text_of(DOCS / "comparison.md")
    for heading in ("### What happens to a call that was running", "## One by one"):
        table = re.search(r"(?:^\|.*\n)+", page.partition(heading)[2], re.MULTILINE)
        assert table is not None
        rows = [row for row in table[0].splitlines()[2:] if not row.startswith("| Mainstay")]
        assert len(rows) >= 8
        assert [row for row in rows if "](https://" not in row] == []


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("observability", ("how-to/trace.md", "how-to/metrics.md", "how-to/find-errors.md", "glossary.md")),
        ("callback", ("how-to/streaming.md", "how-to/tools.md", "glossary.md")),
    ],
)
def test_the_usual_terms_are_on_the_pages_where_people_look_for_them(word: str, names: tuple[str, ...]) -> None:
    assert [name for name in names if word not in (DOCS / name).read_text().casefold()] == []
