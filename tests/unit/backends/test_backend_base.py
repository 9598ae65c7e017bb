"""Shared parts of backends: names from data, bounded lists, tool declarations, and the fixed section."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.api_double import context

from mainstay.backends.base import (
    BYTES_PER_TOKEN,
    SECTION_HEADING,
    SECTION_TOKENS_MAX,
    BackendContextContributor,
    BackendTool,
    BackendToolArguments,
    clean_line,
    clean_name,
    fit_lines,
    paginate,
    truncate_bytes,
)
from mainstay.core.backend_settings import BackendSettings
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, has_third_party_text, tool_origin


class _Ask(BackendToolArguments, frozen=True):
    what: str
    offset: int | None = None


class _Reading(BackendTool[_Ask]):
    action = "query"
    arguments = _Ask

    async def execute(self, arguments: _Ask, context: ToolContext) -> str:
        return arguments.what


class _Changing(_Reading):
    action = "change"
    writes = True


class _Source:
    def __init__(self, name: str, schema: str = "", **settings: Any) -> None:
        self.name = name
        self.settings = BackendSettings(kind="double", **settings)
        self.tools: tuple[Tool, ...] = ()
        self._schema = schema

    def schema_summary(self) -> str:
        return self._schema

    async def start(self) -> None: ...
    async def close(self) -> None: ...


async def test_a_tool_of_a_backend_names_its_backend_and_labels_private_data() -> None:
    tool = _Reading(_Source("sales", private=True, timeout_s=5), "Finds sales.")
    assert (tool.name, tool.untrusted, tool.sink, tool.capabilities) == (
        "sales__query",
        True,
        False,
        ("backend.sales",),
    )
    assert tool_origin(tool) == "backend:sales"
    assert not has_third_party_text(tool)
    assert tool.schema["required"] == ["what"]
    here = context()
    assert await tool.run(tool.parse('{"what": "x"}'), here) == "x"
    assert here.private
    public = context()
    await _Reading(_Source("sales"), "").run(_Ask("x"), public)
    assert not public.private


async def test_reading_is_no_sink_and_a_change_is_one_to_the_backend() -> None:
    assert _Reading(_Source("sales"), "").reach(_Ask("x"), context()) == CallDestinations()
    tool = _Changing(_Source("sales"), "")
    reach = tool.reach(_Ask("x"), context())
    assert (tool.sink, reach.sink, reach.leaves_workspace, reach.destinations) == (True, True, True, ("backend:sales",))


def test_the_fixed_section_has_every_schema_under_one_heading_and_ends() -> None:
    notes = BackendContextContributor([_Source("a", "### a\nt1"), _Source("empty", ""), _Source("b", "### b\nt2")])
    assert notes.fixed_section("s") == f"{SECTION_HEADING}\n\n### a\nt1\n\n### b\nt2"
    assert notes.sub_agent_section("s") == notes.fixed_section("s")
    assert (notes.profile_section("s"), notes.turn_notes("s", "hi"), notes.tools) == ("", (), ())
    assert BackendContextContributor([_Source("a", "")]).fixed_section("s") == ""
    endless = BackendContextContributor([_Source("a", "é" * 1_000_000)]).fixed_section("s")
    assert len(endless.encode()) <= SECTION_TOKENS_MAX * BYTES_PER_TOKEN
    assert endless.endswith("for the rest]")


def test_names_from_data_are_one_word_or_quoted_and_hide_nothing() -> None:
    assert clean_name("orders") == "orders"
    assert clean_name("/pets/{id}") == "/pets/{id}"
    assert clean_name("Größe") == "Größe"
    assert clean_name("order details") == '"order details"'
    assert clean_name('a"b') == '"a\\"b"'
    assert clean_name("a\nb") == '"a b"'
    assert clean_name("a\x1b[31mb") == '"a[31mb"'
    assert clean_name("a\u202eb\u200b\U000e0041\u3164") == "ab"
    assert clean_name("") == '""'
    assert clean_name("x" * 500) == '"' + "x" * 79 + '…"'


@given(st.text(max_size=300), st.integers(2, 50))
def test_a_line_from_data_is_one_line_and_bounded(text: str, most: int) -> None:
    line = clean_line(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert clean_line(line, most) == line


@given(st.lists(st.integers(), max_size=60), st.integers(-5, 70), st.integers(1, 20))
def test_pages_follow_each_other_without_gaps(rows: list[int], offset: int, most: int) -> None:
    shown, note = paginate(rows, offset, most)
    assert list(shown) == rows[max(offset, 0) :][:most]
    assert (note == "") == (offset <= 0 and len(shown) == len(rows))
    more = f"offset={max(offset, 0) + most}" in note
    assert more == (max(offset, 0) + most < len(rows))


@given(st.lists(st.text(max_size=40), max_size=60), st.integers(10, 300))
def test_lines_that_fit_are_whole_and_the_others_are_counted(lines: list[str], tokens: int) -> None:
    text = fit_lines(lines, tokens, "tables")
    assert len(text.encode(errors="replace")) <= tokens * BYTES_PER_TOKEN
    kept = 0
    while kept < len(lines) and fit_lines(lines[: kept + 1], tokens, "tables") == "\n".join(lines[: kept + 1]):
        kept += 1
    assert text == "\n".join([*lines[:kept], *([f"[{len(lines) - kept} more tables]"] if kept < len(lines) else [])])


@given(st.text(max_size=200), st.integers(10, 100))
def test_a_cut_text_has_its_notice_and_no_half_characters(text: str, most: int) -> None:
    short = truncate_bytes(text, most, " [cut]")
    assert len(short.encode(errors="replace")) <= most or short == text
    assert short == text or (short.endswith(" [cut]") and text.encode(errors="replace").startswith(short[:-6].encode()))
