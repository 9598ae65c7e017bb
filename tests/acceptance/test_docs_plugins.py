"""The pages about external tools: each command runs as written, in an empty folder with an empty home, and its
output is compared; each configuration is checked; each table is compared with the code."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.cli_support import SOURCE, Command
from support.example_model import ExampleModel, Messages, Said

from mainstay.config.schema_external_tools import McpEntry, PluginEntry
from mainstay.core.components import list_components
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.plugins.manifest import PluginAction, PluginLimits, PluginManifest, read_manifest
from mainstay.plugins.mcp.server_config import McpLimits
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem
from mainstay.server.mcp_tools import MCP_TOOLS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PLUGINS, MCP, BACKENDS = (DOCS / "how-to" / f"{name}.md" for name in ("plugins", "mcp", "backends"))
ELSEWHERE = DOCS / "concepts" / "external-tools.md"
HOSTILE = ROOT / "tests" / "unit"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SANDBOXED = pytest.mark.skipif(
    bubblewrap_problem() is not None, reason=f"no sandbox to run programs in: {bubblewrap_problem()}"
)
NONE = "\u2013"  # stands in a table for no default
ENOUGH_S = 280.0  # for a whole page, on a busy machine; five minutes are promised, with the reading


class Block(msgspec.Struct, frozen=True):
    """A fenced one. A comment with a file's name in its first line says what it is to be written to."""

    kind: str
    text: str
    line: int

    @property
    def file(self) -> str:
        found = re.match(r"# (\S+\.(?:py|yaml))\n", self.text)
        return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(one[1], one[2], text[: one.start()].count("\n") + 2) for one in BLOCK.finditer(text)]


def like(shown: str) -> re.Pattern[str]:
    """What a page shows; … stands for any text."""
    return re.compile(re.escape(shown.strip("\n")).replace("…", ".*?"), re.DOTALL)


# --- commands ------------------------------------------------------------------------------------


class Reader:
    """Runs the commands of a page, line by line."""

    def __init__(self, folder: Path, model: ExampleModel) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        bin = folder / "bin"
        bin.mkdir()
        (bin / "mainstay").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mainstay "$@"\n')
        (bin / "mainstay").chmod(0o755)
        self.env = {
            "HOME": str(folder),
            "PATH": os.pathsep.join((str(bin), os.path.dirname(sys.executable), os.environ.get("PATH", ""))),
            "PYTHONPATH": str(SOURCE),
            "MAINSTAY_HOME": str(folder / "home"),
            "PYTHONUNBUFFERED": "1",  # in the order in which a terminal shows it
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            **model.environment(),
        }

    def does(self, page: Path) -> int:
        """How many commands there were."""
        count, printed = 0, ""
        for block in blocks(page):
            where = f"{page.name}, line {block.line}"
            match block.kind:
                case "sh":
                    printed = self._run(block.text, where)
                    count += 1
                case "text":
                    assert like(block.text).fullmatch(printed), f"{where}: it is\n{printed}"
                case "python" if "/" in block.file:
                    (self.folder / block.file).parent.mkdir(exist_ok=True)
                    (self.folder / block.file).write_text(block.text)
        return count

    def _run(self, script: str, where: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ENOUGH_S,
            check=False,
        )
        assert done.returncode in (0, 1), f"{where}: {done.stdout}"
        assert done.returncode == 0 or done.stdout.startswith("mainstay: "), f"{where}: {done.stdout}"
        lines = [line.rstrip() for line in done.stdout.strip("\n").split("\n")]
        return "\n".join(line for line in lines if not re.fullmatch("mainstay: .*…", line))  # it only takes its time


def say(messages: Messages) -> Said:
    """Does what the pages ask, with the tools they are about."""
    last = messages[-1]["content"] or ""
    if messages[-1]["role"] == "tool":
        if "high water" in last:
            return "At 06:12 and at 18:37."
        return "No: some digit of it is mistaken." if "mistaken" in last else f"I could not: {last}"
    if "ISBN" in last:
        return [("books__check", {"isbn": "978-3-16-148410-1"})]
    return [("tides__high_water", {"port": "Brest"})] if "Brest" in last else "Very well."


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    model = ExampleModel(say)
    yield Reader(tmp_path, model)
    model.close()


@SANDBOXED
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("page", "least"), [(PLUGINS, 6), (MCP, 4)], ids=["plugins", "mcp"])
def test_every_command_of_the_page_does_what_the_page_says_in_far_less_than_five_minutes(
    page: Path, least: int, reader: Reader
) -> None:
    began = time.monotonic()
    assert reader.does(page) >= least
    assert time.monotonic() - began < ENOUGH_S


# --- configurations ------------------------------------------------------------------------------

CONFIGURED = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in (ROOT / "README.md", PLUGINS, MCP, BACKENDS, ELSEWHERE)
    for number, block in enumerate(block for block in blocks(page) if block.kind in ("yaml", "json"))
]


@pytest.mark.parametrize("block", CONFIGURED)
def test_every_configuration_that_a_page_shows_is_valid(block: Block, tmp_path: Path) -> None:
    if block.kind == "json":
        assert "mcpServers" in json.loads(block.text)
    if block.file == "plugin.yaml":
        (tmp_path / "plugin.yaml").write_text(block.text)
        assert read_manifest(tmp_path).actions
        return
    command = Command(tmp_path)
    command.env |= dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "a-secret-of-some-length")
    command.configure(block.text)
    done = command("config", "check")
    assert (done.returncode, done.stdout.startswith("ok: ")) == (0, True), done.stderr


# --- tables --------------------------------------------------------------------------------------


def rows(page: Path) -> list[list[str]]:
    """The cells of every row of every table, with the first one out of its quotes."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize(
    "struct", [PluginManifest, PluginAction, PluginLimits], ids=lambda struct: str(struct.__name__)
)
def test_the_page_describes_every_key_of_a_manifest_with_its_default(struct: type[msgspec.Struct]) -> None:
    told = [(row[0], row[1]) for row in rows(PLUGINS)]
    for field in msgspec.structs.fields(struct):
        said = [default for key, default in told if key == f"`{field.encode_name}`"]
        assert said, f"{field.encode_name} is not described"
        assert field.required == (said[0] == NONE)
        match field.default:
            case bool() as flag:
                assert f"`{str(flag).lower()}`" in said
            case int() | float() as number:
                assert f"{number:,.0f}" in said
            case str() as word:
                assert f"`{word}`" in said


def words(page: Path) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", page.read_text()))


@pytest.mark.parametrize(
    ("page", "struct"),
    [
        (PLUGINS, ProcessPermissions),
        (PLUGINS, PluginEntry),
        (MCP, McpEntry),
        *((BACKENDS, component.settings) for component in list_components("backend")),
        *((BACKENDS, type(component.settings().scope)) for component in list_components("backend")),
    ],
)
def test_the_pages_name_everything_that_can_be_configured(page: Path, struct: type[msgspec.Struct]) -> None:
    assert set(struct.__struct_fields__) - words(page) == set()


def test_the_page_about_mcp_names_what_other_hosts_are_offered_and_the_bounds() -> None:
    text = MCP.read_text()
    assert [name for name in MCP_TOOLS if f"| `{name}` |" not in text] == []
    limits = McpLimits()
    bounds = f"{limits.tools_max} tools", f"{limits.start_s:g} s", f"{limits.description_chars_max:,} characters"
    assert [bound for bound in bounds if bound not in text] == []


# --- misbehaviours -------------------------------------------------------------------------------


BEHAVING = {"behaves", "waits", "keeps_state"}


def modes(path: Path) -> set[str]:
    """What a test of misbehaviours starts: the rows of its table, and those that have a test of their own."""
    source = path.read_text()
    made = set(re.findall(r'lab\.host\(\s*"(\w+)"', source))
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name("CASES")], value=ast.Tuple(elts=cases)):
                made |= {case.args[0].value for case in cases}
    return made - BEHAVING


def names_of_tests(path: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def test_(\w+)", path.read_text(), re.MULTILINE))


def in_table() -> set[str]:
    return {name for row in rows(ELSEWHERE) if len(row) == 4 for name in re.findall(r"`(\w+)`", row[3])}


@pytest.mark.parametrize("name", ["test_plugin_misbehaviour.py", "test_plugin_isolation.py"])
def test_every_tested_misbehaviour_of_plugins_is_in_the_table(name: str) -> None:
    found = modes(HOSTILE / "plugins" / name)
    assert len(found) >= 9
    assert found - in_table() == set()


def test_every_tested_hostile_mcp_server_is_in_the_table() -> None:
    found = names_of_tests(HOSTILE / "plugins" / "mcp" / "test_mcp_hostile.py")
    assert len(found) >= 20
    assert found - in_table() == set()


def test_the_table_has_nothing_that_is_not_tested() -> None:
    paths = (HOSTILE / "plugins" / "mcp" / "test_mcp_hostile.py", HOSTILE / "io" / "test_json_schema.py")
    known: set[str] = set().union(*map(names_of_tests, paths))
    for name in ("misbehaviour", "isolation", "host"):
        path = HOSTILE / "plugins" / f"test_plugin_{name}.py"
        known |= modes(path) | names_of_tests(path)
    assert in_table() - known == set()


def test_the_table_names_the_faults() -> None:
    text = ELSEWHERE.read_text()
    faults = [f"F{number}" for number in (*range(21, 28), 49, 50)]
    assert [fault for fault in faults if fault not in text] == []
