"""The table of built-in tools, and what is derived from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mainstay.tools
from mainstay.agent.builtin_tool_factory import BuiltInTools, load_tool_builder
from mainstay.agent.config_warnings import build_inspection_tools
from mainstay.config.schema import expand_builtin_tools
from mainstay.config.template import InitChoices, render_config
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS, CHANNEL_TOOLS, NAMEABLE_TOOLS, TOOL_GROUPS, list_tool_names
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import SessionFolders
from mainstay.lane.sub_agents import SUB_AGENT_TOOLS
from mainstay.store.memory.file_labels import InMemoryFileLabels
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.dependencies import ToolDependencies


def test_each_line_of_the_table_builds_the_tool_of_its_name() -> None:
    built = {tool.name for tool in build_inspection_tools()}
    assert built >= set(BUILT_IN_TOOLS)
    for name, entry in BUILT_IN_TOOLS.items():
        assert name == entry.name
        assert callable(load_tool_builder(name))


def test_each_module_with_a_builder_has_a_line_in_the_table() -> None:
    folder = Path(mainstay.tools.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\ndef build(" in path.read_text()}
    assert {f"mainstay.tools.{module}:build" for module in modules} == {
        entry.builder for entry in BUILT_IN_TOOLS.values()
    }


def test_tools_of_the_groups_readonly_and_sub_agent_change_nothing() -> None:
    tools = {tool.name: tool for tool in build_inspection_tools()}
    for name in {*list_tool_names("readonly"), *list_tool_names("sub_agent")}:
        assert (tools[name].effect, tools[name].sink) == ("pure", False), name


def test_groups_are_derived_from_the_table() -> None:
    assert expand_builtin_tools(("readonly",)) == list_tool_names("readonly") == TOOL_GROUPS["readonly"]
    assert (
        set(expand_builtin_tools(("all", "message"))) == set(NAMEABLE_TOOLS) == set(BUILT_IN_TOOLS) - {*CHANNEL_TOOLS}
    )
    assert (*list_tool_names("sub_agent"), "memory_search", "memory_get") == SUB_AGENT_TOOLS
    assert f"# only {', '.join(list_tool_names('readonly'))}; default" in render_config(InitChoices(name="x"))


def test_an_unknown_tool_is_refused_with_where_other_tools_come_from() -> None:
    with pytest.raises(
        ConfigError, match=r"no built-in tool 'wc'; use any of none, readonly.*message\. Your own tools"
    ):
        expand_builtin_tools(("wc",))
    with pytest.raises(ConfigError, match="'upload' needs no entry"):
        expand_builtin_tools(("upload",))


def test_a_tool_that_cannot_be_offered_is_left_out() -> None:
    file_access = SessionFileAccess(lambda session: SessionFolders(cwd="/", writable=()), InMemoryFileLabels())
    built = BuiltInTools(("read", "schedule"), ToolDependencies(file_access=file_access))
    assert [tool.name for tool in built.tools] == ["read"]


def test_the_configuration_is_loaded_without_the_modules_of_the_tools() -> None:
    code = "import sys, mainstay.config.loader; print([m for m in sys.modules if m.startswith('mainstay.tools')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "[]"
