"""Generates three reference pages: events, errors, limits."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator

import msgspec
from source_text import code, fields_of, line, tree_of, words_of

import mainstay
from mainstay.config.reference import LIMIT_DESCRIPTIONS
from mainstay.core import errors as errors_module
from mainstay.core import events as events_module
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown
from mainstay.core.limits import Limits
from mainstay.core.outcome import Event

EVENTS = """\
# Events

Every event type with its fields. Durable events are stored in the session's [journal](../concepts/journal.md);
partial events are only sent to subscribers. `agent.stream` and `agent.watch` yield both, and so do [streams over
HTTP](http.md#events).

<!-- Generated from src/mainstay/core/events.py by `python scripts/reference.py`; do not edit. -->

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
## Fields of every event

| field | type | |
|---|---|---|
| `session` | `str` | the session's name |
| `sequence` | `int` | the position in the journal; 0 for a partial event |
| `turn` | `int` | the number of the turn |
| `step` | `int` | the number of the model call in the turn |

The journal does not store `session` and `sequence` in the event: they are the key of the record.
"""

NO_DOCSTRING = {  # event types whose name says everything, described here
    "TurnEnded": "A turn ended with this outcome.",
    "TextDelta": "The next part of the model's text.",
    "ThinkingDelta": "The next part of the model's reasoning.",
    "ToolCallDelta": "The next part of the arguments of a tool call.",
    "ToolProgress": "A running tool reports its progress.",
}


def events() -> str:
    parts = [EVENTS, COMMON]
    parts.append("## Durable events\n\nSubscribers receive them once they are on disk, in order, and none is lost.\n")
    parts += [_event(one) for one in typing.get_args(events_module.DurableEvent)]
    parts.append(
        "## Partial events\n\nFor display while a turn runs. A subscriber that reads too slowly misses some of them, "
        "and then receives [`Lagged`](#lagged).\n"
    )
    parts += [_event(one) for one in typing.get_args(events_module.PartialEvent)]
    parts.append("## Failed\n\n" + _body(mainstay.Failed))
    return "\n".join(parts)


ALIASES = {"MessageAdded": "MessageFinished"}  # the public name, for subscribers


def _event(kind: type) -> str:
    name = kind.__name__
    public = name in dir(mainstay) or ALIASES.get(name) in dir(mainstay)
    alias = f" as `{ALIASES[name]}`" if name in ALIASES else ""
    module = "mainstay" if public else "mainstay.core.events"
    return f"### {name}\n\nIn `{module}`{alias}.\n\n{_body(kind)}"


def _body(kind: type) -> str:
    own = {one.name for one in fields_of(Event)}
    rows = [one for one in fields_of(kind) if one.name not in own]
    description = _docstring(kind)
    if not rows:
        return f"{description}\n"
    table = ["| field | type | default | |", "|---|---|---|---|"]
    table += [f"| `{r.name}` | {code(r.kind)} | {code(r.default)} | {line(r.about)} |" for r in rows]
    return "\n".join([f"{description}\n", *table, ""])


def event_summary(kind: type) -> str:
    """The first paragraph of an event type's description."""
    return _docstring(kind).split("\n\n")[0]


def _docstring(kind: type) -> str:
    """The type's own docstring: `inspect` would return that of a base class for a type without one."""
    _, tree = tree_of(kind)
    text = words_of(next(node for node in tree.body if isinstance(node, ast.ClassDef)))
    return text or NO_DOCSTRING[kind.__name__]


# --- errors --------------------------------------------------------------------------------------

ERRORS = """\
# Errors

Every exception that a program using Mainstay may want to catch. The classes are in `mainstay.core.errors`; their base
class, `MainstayError`, is also in `mainstay`. `str(error)` is one sentence for the user.

<!-- Generated from src/mainstay/core/errors.py by `python scripts/reference.py`; do not edit. -->

Failures of a model or a tool in a turn are not raised: they are the turn's [outcome](library.md#outcomes). An
exception reports a problem that the caller or the operator must solve. The command line prints the sentence and exits
with status 1; over HTTP an error has [a status and a type](http.md#errors).

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
`error.retryable` is true if a retry may succeed; Mainstay has then already retried, up to
[`retries_max`](limits.md#a-model-call) times. `error.details` is the provider's message, for operators. `RateLimited`
and `Overloaded` have `retry_after_s` if the provider sent it. In a turn, all of these become the outcome `Failed`
with the same sentence.
"""

NOT_IN_TREE = {"ContextTooLong": "the request does not fit the model's context window"}  # has no words in the tree
_TREE = re.compile(r"^ {4}[│├└─ ]*([A-Z]\w+)(?: {2,}(\S.*))?$", re.MULTILINE)


CHANNEL_ERRORS = """\
## Channel errors

What the methods of a [chat channel](../how-to/components.md#post) raise; the classes are in `mainstay.core.channels`.
The gateway catches them: a delivery is tried again, or reported as failed.
"""


def errors() -> str:
    """The error classes, with the descriptions in the tree of the module's docstring, which must list all of them."""
    described = {name: re.sub(r" \(\w+/\w+\)$", "", text) for name, text in _TREE.findall(errors_module.__doc__ or "")}
    bases = {
        node.name: node.bases[0].id
        for node in tree_of(errors_module)[1].body
        if isinstance(node, ast.ClassDef) and isinstance(node.bases[0], ast.Name)
    }
    missing = [name for name in bases if name not in described]
    assert not missing, f"not in the tree of core/errors.py: {', '.join(missing)}"
    titles = {"MainstayError": "General errors", "StoreError": "Store errors", "ProviderError": "Provider errors"}
    parts = [ERRORS]
    for top, title in titles.items():
        names = [name for name in bases if _top(name, bases) == top and name not in titles]
        parts += [f"## {title}\n", "| error | base class | meaning |", "|---|---|---|"]
        parts += [f"| `{name}` | `{bases[name]}` | {line(described[name] or NOT_IN_TREE[name])} |" for name in names]
        parts.append("")
    return "\n".join([*parts, PROVIDER_ERRORS, *_channel_errors()])


def _channel_errors() -> Iterator[str]:
    """The errors that the methods of a chat channel raise, with the first sentences of their docstrings."""
    yield CHANNEL_ERRORS
    yield from ("| error | base class | meaning |", "|---|---|---|")
    for error in (ChannelError, DeliveryDeferred, DeliveryUnknown, DeliveryRejected):
        meaning = (error.__doc__ or "").strip().removesuffix(".")
        yield f"| `{error.__name__}` | `{error.__bases__[0].__name__}` | {line(meaning[0].lower() + meaning[1:])} |"
    yield ""


def _top(name: str, bases: dict[str, str]) -> str:
    """The section that an error class belongs to: the first of the three base classes among its ancestors."""
    while name not in ("StoreError", "ProviderError", "MainstayError"):
        name = bases[name]
    return name


# --- limits --------------------------------------------------------------------------------------

LIMITS = """\
# Limits

All limits and timeouts with their defaults. Set them under `limits` in [`mainstay.yaml`](configuration.md#limits), as
`MAINSTAY__LIMITS__<KEY>` in the environment, or in code.

<!-- Generated from src/mainstay/core/limits.py by `python scripts/reference.py`; do not edit. -->

```python
from mainstay import Agent, Config, Limits

agent = Agent(model="openai/gpt-4.1-mini", config=Config(limits=Limits(steps_max=10, tool_timeout_s=5)))
```

Names end in their unit: `_s` is seconds, `_bytes_max` bytes, `_chars_max` characters; `_max` alone is a count. A turn
that reaches a limit ends with the outcome `Exhausted` and an answer that says so. [Plugins](../how-to/plugins.md),
[MCP servers](../how-to/mcp.md) and [the server](configuration.md#server) have additional limits.
"""


def limits() -> str:
    defaults = {one.name: one.default for one in msgspec.structs.fields(Limits)}
    parts = [LIMITS]
    for title, names in _groups():
        parts += [f"## {title}\n", "| limit | default | |", "|---|---|---|"]
        parts += [
            f"| `{name}` | {_amount(name, defaults[name])} | {line(LIMIT_DESCRIPTIONS[name])} |" for name in names
        ]
        parts.append("")
    return "\n".join(parts)


def _groups() -> Iterator[tuple[str, list[str]]]:
    """The limits by section; a comment on a line of its own begins a section of the class."""
    text, _ = tree_of(Limits)
    title, names = "", list[str]()
    titles = {"approval_expires_s": "Approvals", "agent_hops_max": "Messages between agents"}
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
