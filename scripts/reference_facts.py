"""Three reference pages: events, errors, limits."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator

import msgspec
from source_text import code, fields_of, line, tree_of, words_of

import mainstay
from mainstay.config.reference import LIMITS as ABOUT_LIMITS
from mainstay.core import errors as errors_module
from mainstay.core import events as events_module
from mainstay.core.limits import Limits
from mainstay.core.outcome import Event

EVENTS = """\
# Events

Every event by name, with what it carries: what [a journal](../concepts/journal.md) keeps, and what is only said to
whoever watches. `agent.stream` and `agent.watch` yield both; so do the [streams over HTTP](http.md#events).

<!-- Made from src/mainstay/core/events.py by `python scripts/reference.py`; do not edit. -->

```python
from mainstay import Agent, TextDelta, ToolFinished, TurnEnded

async with Agent(model="openai/gpt-4.1-mini", home="./data") as agent:
    async for event in agent.stream("session-1", "what is 2 + 3?"):
        match event:
            case TextDelta(text=text):
                print(text, end="", flush=True)
            case TurnEnded(outcome=outcome):
                print("\\n", outcome)
```
"""

COMMON = """\
## What every event has

| field | | |
|---|---|---|
| `session` | `str` | whose it is |
| `sequence` | `int` | where it stands in the journal; 0 for what is not kept |
| `turn` | `int` | of which turn |
| `step` | `int` | of which model call in it |

In the journal itself `session` and `sequence` go without saying, and are not repeated.
"""


def events() -> str:
    parts = [EVENTS, COMMON]
    parts.append(
        "## Kept in the journal\n\nThey reach a watcher once they are on disk, in order, and are never lost.\n"
    )
    parts += [_event(one) for one in typing.get_args(events_module.DURABLE)]
    parts.append(
        "## Only said\n\nPartial things, for a screen. A watcher that is too slow loses some of them, and hears "
        "[`Lagged`](#lagged).\n"
    )
    parts += [_event(one) for one in typing.get_args(events_module.PARTIAL)]
    parts.append("## Failed\n\n" + _body(mainstay.Failed))
    return "\n".join(parts)


ALIASES = {"MessageAdded": "MessageFinished"}  # what watchers know it by


def _event(kind: type) -> str:
    name = kind.__name__
    public = name in dir(mainstay) or ALIASES.get(name) in dir(mainstay)
    also = f"Watchers know it as `{ALIASES[name]}`." if name in ALIASES else ""
    where = f"In `{'mainstay' if public else 'mainstay.core.events'}`. {also}".rstrip() + "\n"
    return f"### {name}\n\n{where}\n{_body(kind)}"


def _body(kind: type) -> str:
    own = {one.name for one in fields_of(Event)}
    rows = [one for one in fields_of(kind) if one.name not in own]
    said = _docstring(kind)
    words = f"{said}\n" if said else ""
    if not rows:
        return words or "It carries nothing else.\n"
    table = ["| field | type | default | |", "|---|---|---|---|"]
    table += [f"| `{r.name}` | {code(r.kind)} | {code(r.default)} | {line(r.about)} |" for r in rows]
    return "\n".join([*([words] if words else []), *table, ""])


def _docstring(kind: type) -> str:
    """Its own; a struct without one would show its base's."""
    _, tree = tree_of(kind)
    return words_of(next(node for node in tree.body if isinstance(node, ast.ClassDef)))


# --- errors --------------------------------------------------------------------------------------

ERRORS = """\
# Errors

Every error that a program which uses Mainstay may want to catch, named for the state of the world. They are in
`mainstay.core.errors`; their base, `MainstayError`, is in `mainstay` too. `str(error)` is one sentence for a person.

<!-- Made from src/mainstay/core/errors.py by `python scripts/reference.py`; do not edit. -->

A turn does not raise for what a model or a tool does: that is its [outcome](library.md#outcomes). What is raised is
what somebody has to mend. The command prints the sentence and ends with 1; over HTTP an error has [a status and a
kind](http.md#errors).

```python
from mainstay import Agent, MainstayError

try:
    async with Agent(model="openai/gpt-4.1-mini", home="./data") as agent:
        await agent.sessions.get("no such session")
except MainstayError as error:
    print(f"{type(error).__name__}: {error}")
```
"""

PROVIDER_ERRORS = """\
`error.retry` says whether asking again may help; that has been done by then, within
[`retries_max`](limits.md#a-model-call). `error.details` is what the provider said, for an operator. `RateLimited` and
`Overloaded` know `retry_after_s` where the provider told. In a turn all of these end as the outcome `Failed`, with the
same sentence.
"""

_TREE = re.compile(r"^ {4}[│├└─ ]*([A-Z]\w+)(?: {2,}(\S.*))?$", re.MULTILINE)


def errors() -> str:
    """As the module has them: what each says stands in its tree, and every class of it is there."""
    said = {name: re.sub(r" \(\w+/\w+\)$", "", words) for name, words in _TREE.findall(errors_module.__doc__ or "")}
    bases = {
        node.name: node.bases[0].id
        for node in tree_of(errors_module)[1].body
        if isinstance(node, ast.ClassDef) and isinstance(node.bases[0], ast.Name)
    }
    silent = [name for name in bases if name not in said]
    assert not silent, f"not in the tree of core/errors.py: {', '.join(silent)}"
    titles = {"MainstayError": "In general", "StoreError": "Of the store", "ProviderError": "Of providers"}
    parts = [ERRORS]
    for top, title in titles.items():
        names = [name for name in bases if _top(name, bases) == top and name not in titles]
        parts += [f"## {title}\n", "| error | is a | it says |", "|---|---|---|"]
        parts += [f"| `{name}` | `{bases[name]}` | {line(said[name] or _own_words(name))} |" for name in names]
        parts.append("")
    return "\n".join([*parts, PROVIDER_ERRORS])


def _top(name: str, bases: dict[str, str]) -> str:
    """The first of the three great families that it belongs to."""
    while name not in ("StoreError", "ProviderError", "MainstayError"):
        name = bases[name]
    return name


def _own_words(name: str) -> str:
    return words_of(getattr(errors_module, name)) or "the request does not fit the model's window"


# --- limits --------------------------------------------------------------------------------------

LIMITS = """\
# Limits

Everything that is bounded, and by how much. Set any of them under `limits` in
[`mainstay.yaml`](configuration.md#limits), as `MAINSTAY__LIMITS__<KEY>` in the environment, or in code.

<!-- Made from src/mainstay/core/limits.py by `python scripts/reference.py`; do not edit. -->

```python
from mainstay import Agent, Config, Limits

agent = Agent(model="openai/gpt-4.1-mini", config=Config(limits=Limits(steps_max=10, tool_timeout_s=5)))
```

Names end in their unit: `_s` seconds, `_bytes_max`, `_chars_max`; plain `_max` counts. A turn that hits a bound ends as
`Exhausted`, with an answer that says so. [Plugins](../how-to/plugins.md), [MCP servers](../how-to/mcp.md) and
[the server](configuration.md#server) have bounds of their own.
"""


def limits() -> str:
    defaults = {one.name: one.default for one in msgspec.structs.fields(Limits)}
    parts = [LIMITS]
    for title, names in _groups():
        parts += [f"## {title}\n", "| limit | default | |", "|---|---|---|"]
        parts += [f"| `{name}` | {_amount(name, defaults[name])} | {line(ABOUT_LIMITS[name])} |" for name in names]
        parts.append("")
    return "\n".join(parts)


def _groups() -> Iterator[tuple[str, list[str]]]:
    """As the class is divided: comments of a line of their own, and blank lines."""
    text, _ = tree_of(Limits)
    title, names = "", list[str]()
    titles = {"approval_expires_s": "Approvals", "agent_hops_max": "Agents that write to each other"}
    for row in text.splitlines()[1:]:
        if heading := re.match(r"    # (.+)$", row):
            if names:
                yield title, names
            title, names = heading[1].capitalize(), []
        elif field := re.match(r"    (\w+):", row):
            if field[1] in titles:
                yield title, names
                title, names = titles[field[1]], []
            names.append(field[1])
    yield title, names


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return "none"
    if "bytes" in name and value % 1024 == 0:
        return f"{value // 1024 // 1024} MB" if value % (1024 * 1024) == 0 else f"{value // 1024} KB"
    unit = " s" if name.endswith("_s") else ""
    return f"{value:,.10g}{unit}"
