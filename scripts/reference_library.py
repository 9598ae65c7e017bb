"""The reference page of the library: every public name of `mainstay`, and of `mainstay.testing` and `mainstay.kit`."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from source_text import Field, code, fields_of, init_of, is_property, line, methods_of, signature, tree_of, words_of

import mainstay
import mainstay.kit
import mainstay.testing
from mainstay.agent.approvals import AgentApprovals
from mainstay.agent.memory import AgentMemory
from mainstay.agent.sessions import Sessions
from mainstay.agent.triggers import LocalAgentTriggers
from mainstay.agent.user_profile import Profile
from mainstay.core import events
from mainstay.core.judges import JudgeInput
from mainstay.core.ports import Tool

HEAD = """\
# Python library

Every public name of `mainstay`, with its signature. The [tutorial](../start.md) shows how they are used together. Names
that are not on this page may change without notice, except those that are documented for authors of
[components](../how-to/components.md) and [tests](../how-to/testing.md).

<!-- Generated from the code by `python scripts/reference.py`; do not edit. -->

```python
from mainstay import Agent, tool
```

`import mainstay` is fast: each name is imported when it is first used.
"""

PARTS = (
    ("agent.sessions", "Administration of sessions. `key` is a session's name.", Sessions),
    (
        "agent.memory",
        "Search and edit the memory of all sessions. [How to use memory](../how-to/memory.md).",
        AgentMemory,
    ),
    (
        "agent.approvals",
        "Tool calls that wait for approval. [How approvals work](../how-to/approvals.md).",
        AgentApprovals,
    ),
    ("agent.triggers", "Schedules and event files. [How to use triggers](../how-to/triggers.md).", LocalAgentTriggers),
    ("agent.profile(session)", "The profile of a session's user: name, goals, preferences.", Profile),
)
HIDDEN = {"cancel", "current", "execute", "join_gateway", "open_stream", "runtime"}  # for other packages of ours
OUTCOMES = ("Answered", "Aborted", "Exhausted", "Failed", "Paused")
MESSAGES = ("Message", "Text", "Thinking", "ToolCall", "ToolResult", "Binary", "Usage")


def render() -> str:
    parts = [HEAD, *_agent(), *_tool(), *_outcomes()]
    parts += _judge()
    parts += ["## Messages\n", "Messages of a session, and the parts that they consist of.\n"]
    parts += [_struct(getattr(mainstay, name)) for name in MESSAGES]
    parts += _provider()
    parts += _other_names()
    parts += _module_section(
        "mainstay.testing",
        mainstay.testing,
        "Test doubles and conformance suites. [How to test an agent](../how-to/testing.md). Suites of other\n"
        "components are in modules of their own: `ChannelSuite` in `mainstay.testing.channel_suite` ([how to use\n"
        "it](../how-to/components.md#conformance-suite)), `SandboxSuite` in `mainstay.testing.sandbox_suite`.",
    )
    parts += _module_section(
        "mainstay.kit", mainstay.kit, "What plugin authors import. [How to write a plugin](../how-to/plugins.md)."
    )
    return "\n".join(parts)


def documented() -> set[str]:
    """The names of `mainstay` that have a heading or a row on this page."""
    return {
        "Agent",
        "Judge",
        "tool",
        "ToolContext",
        "Reply",
        *OUTCOMES,
        *MESSAGES,
        "ModelInfo",
        "Provider",
        *_OTHER_NAMES,
        *_events(),
    }


# --- sections ------------------------------------------------------------------------------------


def _agent() -> Iterator[str]:
    yield "## Agent\n"
    made = init_of(mainstay.Agent)
    assert made is not None
    yield f"```py\n{signature('Agent', made, result=False)}\n```\n"
    yield words_of(mainstay.Agent) + "\n"
    yield from _methods(mainstay.Agent, "agent")
    for name, words, kind in PARTS:
        yield f"### {name}\n\n{words}\n"
        yield from _rows(kind)


def _tool() -> Iterator[str]:
    _, tree = tree_of(inspect.getmodule(mainstay.tool))
    made = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "tool"]
    yield "## tool\n"
    yield f"```py\n@{signature('tool', made[1], result=False)}\n```\n"
    yield words_of(made[-1]) + "\n"
    yield "[How to write a tool](../how-to/tools.md). Any object with these attributes and methods is a tool, too:\n"
    yield _table(fields_of(Tool))
    yield from _rows(Tool)
    yield "### ToolContext\n"
    yield "The runtime passes it to a tool's parameter of this type; the model does not see that parameter.\n"
    yield words_of(mainstay.ToolContext) + "\n"
    yield from _rows(mainstay.ToolContext)


def _outcomes() -> Iterator[str]:
    yield "## Outcomes\n"
    yield "How a turn ended. A failed model is an outcome, not an exception: match on the type.\n"
    yield from (_struct(getattr(mainstay, name)) for name in ("Reply", *OUTCOMES))


def _judge() -> Iterator[str]:
    yield "## Judges\n"
    yield "`judges=` takes functions of a `JudgeInput`, and `Judge` objects. [Judges](../how-to/judge-answers.md).\n"
    yield _struct(mainstay.Judge)
    yield "A `JudgeInput` (`mainstay.core.judges`) is what a judge evaluates:\n"
    yield _table(fields_of(JudgeInput))


def _provider() -> Iterator[str]:
    yield "## Models\n"
    yield "`model=` takes a model name, or an object that implements `Provider` ([more](../concepts/providers.md)).\n"
    yield "### Provider\n"
    yield words_of(mainstay.Provider) + "\n"
    yield from _rows(mainstay.Provider)
    yield _struct(mainstay.ModelInfo)


_OTHER_NAMES = {
    "Config": "the whole configuration as an object, with the keys of [`mainstay.yaml`](configuration.md)",
    "Limits": "[limits and timeouts](limits.md)",
    "MainstayError": "the base class of [all errors](errors.md)",
    "Event": "the base class of [all events](events.md)",
    "__version__": "the version of this release",
}


def _events() -> list[str]:
    other = {"Event", *OUTCOMES, *MESSAGES}
    return sorted(name for name in dir(mainstay) if getattr(events, name, None) is not None and name not in other)


def _other_names() -> Iterator[str]:
    yield "## Other names of `mainstay`\n"
    yield "| name | |\n|---|---|"
    yield from (f"| `{name}` | {words} |" for name, words in _OTHER_NAMES.items() if name in dir(mainstay))
    names = ", ".join(f"`{name}`" for name in _events())
    yield f"| {names} | [events](events.md) |\n"


def _module_section(title: str, module: types.ModuleType, words: str) -> Iterator[str]:
    yield f"## {title}\n\n{words}\n\n| name | |\n|---|---|"
    for name, one in sorted(vars(module).items(), key=lambda pair: pair[0].lower()):
        if not name.startswith("_") and getattr(one, "__module__", "").startswith("mainstay."):
            yield f"| `{name}` | {line(_first(inspect.getdoc(one) if one.__doc__ else ''))} |"
    yield ""


# --- helpers -------------------------------------------------------------------------------------


def _methods(kind: type, prefix: str) -> Iterator[str]:
    for name, node, about in methods_of(kind):
        if name not in HIDDEN and not is_property(node):
            call = signature(f"{prefix}.{name}", node)
            yield f"### {prefix}.{name}\n\n```py\n{call}\n```\n\n{about}\n"


def _rows(kind: type) -> Iterator[str]:
    yield "| | |\n|---|---|"
    for name, node, about in methods_of(kind):
        if name not in HIDDEN:
            call = name if is_property(node) else " ".join(signature(name, node).split())
            yield f"| {code(call.replace('( ', '(').replace(', )', ')'))} | {line(about)} |"
    yield ""


def _struct(kind: type[Any]) -> str:
    words = words_of(kind) if kind.__doc__ else ""
    rows = [one for base in reversed(kind.__mro__) if _ours(base) for one in fields_of(base) if _is_field(base, one)]
    where = {"session", "sequence", "turn", "step"} if issubclass(kind, mainstay.Event) else set()
    rows = [one for one in rows if one.name not in where]
    return "\n\n".join([f"### {kind.__name__}", *([words] if words else []), _table(rows) if rows else ""])


def _is_field(kind: type, one: Field) -> bool:
    return one.name in typing.cast(type[msgspec.Struct], kind).__struct_fields__


def _ours(kind: type) -> bool:
    return kind.__module__.startswith("mainstay.") and issubclass(kind, msgspec.Struct)


def _table(rows: list[Field]) -> str:
    table = ["| field | type | default | |", "|---|---|---|---|"]
    for one in rows:
        default = code(one.default)
        table.append(f"| `{one.name}` | {code(one.kind)} | {default} | {line(one.about)} |")
    return "\n".join([*table, ""])


def _first(text: str | None) -> str:
    return (text or "").split("\n\n")[0]
