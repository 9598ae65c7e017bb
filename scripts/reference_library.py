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
from mainstay.agent.memory import Recalling
from mainstay.agent.profile import Profile
from mainstay.agent.sessions import Sessions
from mainstay.agent.triggers import AgentTriggers
from mainstay.core import events
from mainstay.core.judging import Exhibit
from mainstay.core.ports import Tool

HEAD = """\
# The library

Every public name of `mainstay`, with its signature. [Five minutes](../start.md) shows how they fit together; names that
are not here may change without notice.

<!-- Made from the code by `python scripts/reference.py`; do not edit. -->

```python
from mainstay import Agent, tool
```

`import mainstay` loads next to nothing; a name is loaded when it is first used.
"""

PARTS = (
    ("agent.sessions", "Conversations as a whole. `key` is a session's name.", Sessions),
    ("agent.memory", "What was said and kept, in every conversation. [More about it](../how-to/memory.md).", Recalling),
    ("agent.approvals", "What waits for somebody's word. [More about it](../how-to/approvals.md).", AgentApprovals),
    ("agent.triggers", "Work that nobody typed. [More about it](../how-to/triggers.md).", AgentTriggers),
    ("agent.profile(session)", "Who the person of a session is.", Profile),
)
HIDDEN = {"do", "span", "opened", "cancel"}  # for other processes, and for those who build on it
OUTCOMES = ("Answered", "Aborted", "Exhausted", "Failed", "Paused")
MESSAGES = ("Message", "Text", "Thinking", "ToolCall", "ToolResult", "Binary", "Usage")


def render() -> str:
    parts = [HEAD, *_agent(), *_tool(), *_outcomes()]
    parts += _judge()
    parts += ["## Messages\n", "What people, models and tools say to each other, and what it is made of.\n"]
    parts += [_struct(getattr(mainstay, name)) for name in MESSAGES]
    parts += _provider()
    parts += _elsewhere()
    parts += _others(
        "mainstay.testing", mainstay.testing, "Doubles that behave. [How to test an agent](../how-to/testing.md)."
    )
    parts += _others(
        "mainstay.kit", mainstay.kit, "What a plugin's author imports. [How to write a plugin](../how-to/plugins.md)."
    )
    return "\n".join(parts)


def documented() -> set[str]:
    """Names of `mainstay` that this page has a heading or a row for."""
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
        *_ELSEWHERE,
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
    yield "[How to write one](../how-to/tools.md). An object with these attributes and methods is a tool as well:\n"
    yield _table(fields_of(Tool))
    yield from _rows(Tool)
    yield "### ToolContext\n"
    yield "A parameter of this type is filled in by the runtime; the model does not see it.\n"
    yield words_of(mainstay.ToolContext) + "\n"
    yield from _rows(mainstay.ToolContext)


def _outcomes() -> Iterator[str]:
    yield "## Outcomes\n"
    yield "How a turn ended. A turn does not raise for the model: match on what came of it.\n"
    yield from (_struct(getattr(mainstay, name)) for name in ("Reply", *OUTCOMES))


def _judge() -> Iterator[str]:
    yield "## Judges\n"
    yield "`judges=` takes functions of an `Exhibit`, and these. [How to judge answers](../how-to/judge-answers.md).\n"
    yield _struct(mainstay.Judge)
    yield "An `Exhibit` (`mainstay.core.judging`) is what a judge looks at:\n"
    yield _table(fields_of(Exhibit))


def _provider() -> Iterator[str]:
    yield "## Models\n"
    yield "`model=` takes a name, or any object that is a `Provider`. [More about them](../concepts/providers.md).\n"
    yield "### Provider\n"
    yield words_of(mainstay.Provider) + "\n"
    yield from _rows(mainstay.Provider)
    yield _struct(mainstay.ModelInfo)


_ELSEWHERE = {
    "Config": "everything that can be configured, as an object: the keys of [`mainstay.yaml`](configuration.md)",
    "Limits": "[every bound](limits.md)",
    "MainstayError": "the base of [every error](errors.md)",
    "Event": "the base of [every event](events.md)",
    "__version__": "this release",
}


def _events() -> list[str]:
    return sorted(name for name in dir(mainstay) if getattr(events, name, None) is not None and name != "Event")


def _elsewhere() -> Iterator[str]:
    yield "## The rest of `mainstay`\n"
    yield "| name | |\n|---|---|"
    yield from (f"| `{name}` | {words} |" for name, words in _ELSEWHERE.items() if name in dir(mainstay))
    names = ", ".join(f"`{name}`" for name in _events() if name not in OUTCOMES)
    yield f"| {names} | [events](events.md) |\n"


def _others(title: str, module: types.ModuleType, words: str) -> Iterator[str]:
    yield f"## {title}\n\n{words}\n\n| name | |\n|---|---|"
    for name, one in sorted(vars(module).items(), key=lambda pair: pair[0].lower()):
        if not name.startswith("_") and getattr(one, "__module__", "").startswith("mainstay."):
            yield f"| `{name}` | {line(_first(inspect.getdoc(one) if one.__doc__ else ''))} |"
    yield ""


# --- helpers -------------------------------------------------------------------------------------


def _methods(kind: type, prefix: str) -> Iterator[str]:
    for name, node in methods_of(kind):
        if name not in HIDDEN:
            call = signature(f"{prefix}.{name}", node)
            yield f"### {prefix}.{name}\n\n```py\n{call}\n```\n"
            yield words_of(node) + "\n"


def _rows(kind: type) -> Iterator[str]:
    yield "| | |\n|---|---|"
    for name, node in methods_of(kind):
        if name not in HIDDEN:
            call = name if is_property(node) else " ".join(signature(name, node).split())
            yield f"| {code(call.replace('( ', '(').replace(', )', ')'))} | {line(words_of(node))} |"
    yield ""


def _struct(kind: type[Any]) -> str:
    words = words_of(kind) if kind.__doc__ else ""
    rows = [one for base in reversed(kind.__mro__) if _ours(base) for one in fields_of(base) if _is_field(base, one)]
    where = {"session", "sequence", "turn", "step"} if issubclass(kind, mainstay.Event) else set()
    rows = [one for one in rows if one.name not in where]
    return f"### {kind.__name__}\n\n{words}\n\n{_table(rows)}" if rows else f"### {kind.__name__}\n\n{words}\n"


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
