"""The reference page of the HTTP API. Its tables of routes and events are generated from the operations table and the
event types; the rest is written here."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from types import ModuleType

import msgspec
from reference_facts import event_summary
from source_text import line

from mainstay.core.events import DurableEvent, PartialEvent
from mainstay.operations import (
    approvals,
    budgets,
    errors_and_audit,
    home,
    memory,
    people,
    session_settings,
    sessions,
    traces,
    triggers,
    turns,
)
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.table import entries_for
from mainstay.server.http_operations import OperationCodec

HEAD = """\
# HTTP

Every route of `mainstay serve`, for developers of clients. `/openapi.json` describes all requests and responses below
`/api` (OpenAPI 3.1). [How to use the API](../how-to/http-api.md).

<!-- Generated from src/mainstay/operations by `python scripts/reference.py`; do not edit. -->

Request bodies are JSON in UTF-8 with `Content-Type: application/json`, not compressed, and without unknown fields.
Send an API key as `Authorization: Bearer KEY` or `X-Api-Key: KEY`, never in the URL. A key is valid in one workspace;
the owner can select a workspace with the header `X-Workspace`.

In the tables, *parameters* are fields of the JSON body of `POST`, `PUT` and `PATCH` requests, and query parameters of
`GET` and `DELETE` requests. *Scope* is the [scope](../how-to/people.md#keys) that the key needs: `any` means every
key, and `home` means that the caller administers the home (the owner, and admins of the main workspace with the scope
`admin`). Names in paths are percent-encoded. Times are in milliseconds since 1970.
"""

# Each section: title, the modules whose operations it lists, and notes.
SECTIONS: tuple[tuple[str, tuple[ModuleType, ...], str], ...] = (
    (
        "Sessions and turns",
        (turns, sessions, session_settings, traces),
        """\
`{id}` in the path is the session's name, which the client chooses. A prompt is either `text` or `parts`; `parts` are
`{"type": "text", "text"}` and `{"type": "binary", "mime", "data"}` with base64. `id` in the body is an idempotency
key: a prompt with the same key is accepted once; the header `Idempotency-Key` does the same. With `wait: false` the
response is 202 as soon as the prompt is on disk. `tools` are tools that the client runs itself. `sender` can be
chosen by the owner only. `limit` is at most 1,000. `upto` is the sequence of the last event that a fork copies.

A client that accepts `text/event-stream` gets a [stream of events](#events) from `prompt`, `tool-results` and
`events`; `events` is a stream by default, and a page of the journal with `Accept: application/json`. `GET /api/events`
streams what happens from now on, in one session or in all sessions of the workspace. All sessions are for admins of the
workspace whose key has the scope `read`. Sequences count the events of one session, so a client that lost this stream
reads what it missed from the events of each session.

`turn` of a trace is the turn's number; without it: the last turn. [Trace a turn](../how-to/trace.md).
""",
    ),
    (
        "Approvals",
        (approvals,),
        """\
`input` replaces the arguments of the call (JSON in a string). `always: true` also adds a rule, which needs the scope
`admin`. The response comes at once, or with `wait: true` when the turn has ended.
""",
    ),
    (
        "Memory",
        (memory,),
        """\
`k` is the number of hits: 10 by default, at most 100. `start` and `end` are dates (`2026-11-02`), words (`yesterday`,
`7d`) or milliseconds. A search covers the caller's own sessions; for an admin, all sessions of the workspace.
""",
    ),
    (
        "Triggers",
        (triggers,),
        """\
A trigger prompts a `session`, or starts a thread in a `room` of a `channel` with every run. The fields are those of
[a trigger file](../how-to/triggers.md#the-trigger-file). A trigger runs with the permissions of the person who added
it. Only the owner can set `check`, which is a command.
""",
    ),
    (
        "People and keys",
        (people,),
        """\
The `{name}` of a key is its id. [Users, roles and keys](../how-to/people.md).
""",
    ),
    (
        "Errors, problems and audit log",
        (errors_and_audit,),
        """\
An admin sees the errors and audit entries of their own workspace; callers who administer the home see those of all
workspaces. [Find errors](../how-to/find-errors.md), [the audit log](../how-to/audit.md).
""",
    ),
    (
        "Budgets",
        (budgets,),
        """\
`spent` has the current hour, day and month, `budgets` how much of each budget is used, `each` the limits of each turn
and session, and `reserved` what is reserved for calls in progress. Money is in dollars. A caller sees their own
spending and budgets; an admin with the scope `admin` also those of the workspace, but of no other person; callers who
administer the home see everything. `workspace` selects the budgets of one workspace; another one than the caller's
needs the right to administer the home. [Limit spending](../how-to/limit-spending.md).
""",
    ),
    (
        "Caller, workspaces and status",
        (home,),
        """\
`GET /metrics` returns the [metrics](../how-to/metrics.md) for Prometheus: to the owner on this machine, or with a key
of an admin of the main workspace with the scope `read`.
""",
    ),
)

REST = """\
## WebSocket

`/api/ws` carries several sessions on one connection, one JSON message per frame. Send the key as a header, or as a
subprotocol, `bearer.KEY`.

| command | fields | |
|---|---|---|
| `{"do": "prompt"}` | `session`, `text` or `parts`, `id` | send a prompt and receive the events of its turn |
| `{"do": "steer"}` | `session`, `text` or `parts`, `id` | add a message to the running turn |
| `{"do": "abort"}` | `session` | stop the running turn |
| `{"do": "follow"}` | `session`, `after` | receive all events after this sequence, then live events |
| `{"do": "unfollow"}` | `session` | stop following |

The response to each command is `{"type": "Done", "do", "session", "id", "sequence", "aborted"}` or `{"type":
"Problem", "error", "session", "id", "retry_after_s"}`. Events have [the format below](#events). A server that stops
sends `{"type": "Bye", "retry_ms"}`. A connection can follow at most 32 sessions and turns. Close codes: 1008 the key
is no longer valid, 1011 internal error, 1012 the server is stopping.

## OpenAI's API

| | | |
|---|---|---|
| `POST /v1/chat/completions` | An answer, complete or as a stream | [supported parameters](../how-to/http-api.md#supported-ignored-and-rejected-parameters) |
| `POST /v1/responses` | The same, in the format of the Responses API | |
| `GET /v1/responses/{id}` | Read a response again | |
| `GET /v1/models` | The model names of the workspace | `mainstay`, `mainstay/WORKSPACE`, `WORKSPACE` |
| `GET /v1/models/{model}` | One of them | |

The header `X-Session` names the session, in requests and responses.

## Routes without a key

| | |
|---|---|
| `GET /healthz` | Liveness: the process answers |
| `GET /readyz` | Readiness; 503 and the reason if the server is not ready |
| `GET /openapi.json` | The OpenAPI description of `/api` |
| `POST /hooks/{name}` | A [webhook](../how-to/webhooks.md), authenticated by its signature |
| `POST /channels/{name}` | Events of a [chat platform](../how-to/channels.md), authenticated by their signature |
"""  # noqa: E501

EVENTS = """\
## Events

In a stream, `event` is the type of the event, `data` the event as JSON, and `id` its sequence, if it is durable. Each
type is described on the page [Events](events.md). Durable events are stored in the journal, and are sent exactly once
and in order:
"""

PARTIAL = """\
Partial events are not stored:
"""

END = """\
Two more events belong to the stream itself: `problem` (its data is an error) and `bye` (the server is stopping:
reconnect). A line with only a colon keeps the connection alive.

## Errors

Every error is `{"error": {"type", "message", "details"}}`; below `/v1` it has OpenAI's format, with the same message
and details. `details` has the location of the error: `session`, `turn`, `step` and `trace`, as far as they are known
and visible to the caller. The header `X-Trace-Id` has the trace id too: [find and trace
errors](../how-to/find-errors.md).

| status | type | |
|---|---|---|
| 400 | `invalid_request` | the message says what is wrong |
| 400 | `key_in_address` | an API key was sent in the URL; replace it by a new one |
| 401 | `unauthorised` | no API key, or an invalid one |
| 403 | `forbidden` | the key or the person lacks the required permission |
| 403 | `wrong_host`, `wrong_origin` | the Host or Origin header is not allowed: [keys](../how-to/serve.md#keys) |
| 404 | `not_found` | it does not exist, or belongs to another user |
| 405 | `wrong_method` | the header `Allow` lists the allowed methods |
| 409 | `archived` | the session is archived and accepts no prompts |
| 409 | `set_aside` | the session's turn was set aside because processes ended while they ran it; an administrator must release it |
| 413, 414 | `too_large`, `address_too_long` | the body or the URL is too long |
| 415 | `unsupported_type`, `unsupported_encoding` | send JSON, not compressed |
| 429 | `too_many_requests`, `too_many_streams` | the rate limit or stream limit of this key; retry after `Retry-After` |
| 429 | `busy` | too many prompts are queued in this session |
| 429 | `insufficient_quota` | a budget is used up, and the message says which; with `Retry-After` if it resets by itself |
| 500 | `internal` | an internal error; the log has it under the id in the message |
| 502 | `model_failed` | the model could not answer |
| 503 | `not_ready`, `stopping`, `unavailable`, `busy` | retry after `Retry-After` |
"""  # noqa: E501


def render() -> str:
    listed = {module.__name__ for _, modules, _ in SECTIONS for module in modules}
    missing = {entry.request.__module__ for entry in entries_for("http")} - listed
    assert not missing, f"no section lists the operations of {missing}"
    parts = [HEAD]
    for title, modules, notes in SECTIONS:
        parts += [f"## {title}\n", *_routes(modules), "", notes]
    parts += [REST, EVENTS, *_events(DurableEvent), "", PARTIAL, *_events(PartialEvent), "", END]
    return "\n".join(parts)


def _routes(modules: tuple[ModuleType, ...]) -> Iterator[str]:
    yield "| route | | parameters | scope | status |"
    yield "|---|---|---|---|---|"
    for entry in entries_for("http"):
        if entry.request.__module__ in {module.__name__ for module in modules}:
            yield route_row(entry)


def route_row(entry: OperationEntry) -> str:
    codec = OperationCodec(entry)
    fields = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(codec.rest_type))
    route = f"`{codec.route.method} {codec.route.path}`"
    return f"| {route} | {entry.summary} | {fields} | `{entry.access}` | {codec.route.status} |"


def _events(union: object) -> Iterator[str]:
    yield "| event | |"
    yield "|---|---|"
    for event in typing.get_args(union):
        name = event.__name__
        yield f"| [`{name}`](events.md#{name.lower()}) | {line(event_summary(event))} |"
