"""The reference page of the configuration, made from the schema: `python -m mainstay.config.reference`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from mainstay.config.loading import PREFIX, UNAVAILABLE, Config
from mainstay.config.type_descriptions import describe
from mainstay.config.validation import shape_of
from mainstay.config.yaml_file import written

LIMITS = {
    "steps_max": "Model calls in a turn.",
    "tool_calls_max": "Tool calls in a turn.",
    "calls_per_response_max": "Tool calls in one response of the model.",
    "repeated_calls_max": "The same call with the same result, one after another, before the turn is ended.",
    "session_turns_max": "Turns in a session; null: no bound.",
    "step_restarts_max": "Times a step is asked again, visibly, after its stream broke.",
    "resumes_max": "Times one turn is resumed after a crash without any progress in between.",
    "output_attempts_max": "Answers asked for until one fits the wanted type.",
    "model_timeout_s": "How long a model call may take.",
    "model_idle_timeout_s": "How long a model may be silent within a stream.",
    "retries_max": "Retries of a call that was refused for load or found no connection.",
    "retry_base_s": "Wait before the first retry; it doubles each time.",
    "retry_jitter": "How much of a wait is left to chance, from 0 to 1.",
    "retry_wait_max_s": "Waiting for retries in all.",
    "breaker_failures_max": "Failures in a row after which a provider, or a tool, is left alone.",
    "breaker_open_s": "How long it is then left alone.",
    "queue_wait_max_s": "How long a model call may wait for a provider that has no room for it.",
    "response_bytes_max": "Size of one response of a model.",
    "output_tokens_max": "Tokens of an answer; null: what the model allows.",
    "tool_timeout_s": "How long a tool call may take unless the tool declares its own bound.",
    "tool_result_bytes_max": "Size of a tool result that the model sees.",
    "tool_input_bytes_max": "Size of a tool call's arguments.",
    "tool_name_chars_max": "Length of a tool's name.",
    "parallel_calls_max": "Calls of one response that run side by side.",
    "tools_inline_max": "Tools that a request carries; with more, the model searches a catalogue of them.",
    "approval_expires_s": "How long a question for approval stays open; unanswered, it is a no.",
    "spawn_depth_max": "How deep sub-agents may send sub-agents of their own; 1: not at all.",
    "spawn_beside_max": "How many sub-agents of a session work side by side.",
    "agent_hops_max": "How often agents may write to each other in a row without a person.",
    "kept_bytes_max": "Size of a result that is kept for paging where it is too large to be shown.",
    "context_retries_max": "Times a request that the provider found too long is made shorter and asked again.",
    "fold_wait_s": "How long a turn waits for a summary without which its context would not fit.",
    "summary_timeout_s": "How long writing a summary may take.",
    "summary_attempts_max": "Summaries asked for until one can be used.",
    "mailbox_depth_max": "Prompts that may wait in a lane; then the sender is told it is busy.",
    "local_idle_s": "How long a model on this machine keeps its memory without a question.",
    "lane_idle_s": "Idle time after which a lane goes to sleep.",
    "coalesce_window_s": "Quick messages of one sender within this time become one; 0: off.",
    "input_bytes_max": "Size of a prompt.",
    "attachment_bytes_max": "Size of an attachment.",
    "session_name_bytes_max": "Length of a session's name.",
    "watchdog_period_s": "How often lanes are looked at for being stuck.",
    "watchdog_grace_s": "How long past its bounds a lane may be before it counts as stuck.",
    "checkpoint_period_s": "How often what has streamed so far is kept.",
    "ride_along_s": "How long a record that nobody waits for may stay in memory.",
    "watcher_buffer_max": "Events kept for a slow watcher before it loses some.",
    "store_busy_s": "How long to wait for a database that somebody else holds.",
    "store_retry_max_s": "How long a write is tried again.",
    "commit_batch_max": "Writes in one commit.",
}

MORE = {
    "mcpServers": """What other hosts write is taken as it is: `transport` and `transportType` for `type`,
`httpUrl` and `serverUrl` for `url`, `timeout` for `timeout_s` (from 1000 on in milliseconds), `enabled` and `isActive`
for the opposite of `disabled`, `disabledTools` for `excludeTools`. `description`, `trust` and `envFile` change nothing.
Numbers and booleans in `env` and `headers` are text. A name may hold letters, digits, spaces and any of
`. _ - @ / + ( )`; tools of a server with such a name are called by a plain form of it.""",
}

HEAD = """# Configuration

`mainstay.yaml` in the home (`$MAINSTAY_HOME`, else `~/.mainstay`) holds everything that can be configured. The
file is optional, and so is every key. An unknown key is an error that names its line and its nearest neighbour.

```yaml
model: openai/gpt-4.1-mini
models:                                # failover order
  - openai/gpt-4.1-mini
  - model: openai/my-own-model         # any server that speaks the same API
    base_url: http://127.0.0.1:8080/v1
    window: 8192
providers:
  openai:
    api_key: ${OPENAI_API_KEY}
instructions: You are terse.
limits:
  steps_max: 25
  tool_timeout_s: ${TOOL_TIMEOUT:-30}
lanes:
  key: thread
```

- `${VAR}` in a value is replaced by that environment variable and `${VAR:-default}` by the default where it is
  unset or empty; `${env:VAR}` is the same. A variable that is unset and has no default is an error; in `plugins`,
  `mcpServers`, `backends` and `channels` only that one is left out, as `mainstay config check` says.
  `$${` is a literal `${`. What a variable holds is only ever a value; it cannot add keys.
- Only `true` and `false` are booleans: `no`, `on` and `yes` are text, and so are dates and numbers like `0123`.
- Every key can be overridden by an environment variable: PREFIX, then the path in capitals with `__` for each dot,
  for example `MAINSTAY__LIMITS__STEPS_MAX=10` or `MAINSTAY__PROVIDERS__OPENAI__API_KEY`. Lists and mappings
  are given as JSON: `MAINSTAY__MODELS='["openai/gpt-4.1-mini"]'`.
- A file with an `api_key` written out in it must not be readable by other users (`chmod 600`).
- `mainstay config show` prints what is in force and where each value came from; `mainstay config set KEY VALUE`
  changes one value and keeps comments and order.
"""


def render() -> str:
    """The page, as it is committed."""
    parts = [HEAD.replace("PREFIX", f"`{PREFIX}`")]
    top = [one for one in msgspec.structs.fields(Config) if shape_of(one.type).struct is None]
    parts.append(_section("Top level", "", [(one.name, one) for one in top], f"`{PREFIX}<KEY>`"))
    for one in msgspec.structs.fields(Config):
        parts.extend(_sections(one))
    later = ", ".join(f"`{name}`" for name in sorted(UNAVAILABLE, key=str.lower))
    parts.append(
        f"## Not in this release\n\nThese sections are refused until there is something behind them: {later}.\n"
    )
    return "\n".join(parts)


def _sections(one: Any) -> Iterator[str]:
    shape = shape_of(one.type)
    name, variable = f"`{one.name}`", f"`{PREFIX}{one.name.upper()}__<KEY>`"
    words = about(one)
    if shape.values is not None:
        name, variable = f"`{one.name}.<name>`", f"`{PREFIX}{one.name.upper()}__<NAME>__<KEY>`"
    if shape.items is not None:
        name, variable = f"`{one.name}[]`", f"`{PREFIX}{one.name.upper()}`, the whole list as JSON"
        words = "An entry is `<provider>/<model>`, or a mapping with these keys."
    words = f"{words} {MORE[one.name]}" if one.name in MORE else words
    for struct in sections_in(one.type):
        yield _section(name, words, list(_rows(struct)), variable)


def sections_in(kind: Any) -> list[type[msgspec.Struct]]:
    """The structs that a field leads to, by itself, by name or in a list."""
    shape = shape_of(kind)
    found = [shape.struct, *(shape_of(one).struct for one in (shape.items, shape.values) if one is not None)]
    return [one for one in found if one is not None]


def _rows(struct: type[msgspec.Struct], above: str = "") -> Iterator[tuple[str, Any]]:
    for one in msgspec.structs.fields(struct):
        shape = shape_of(one.type)
        inner = shape.struct
        if inner is None or shape.nullable:  # what may be left out as a whole is a section of its own elsewhere
            yield above + one.name, one
        else:
            yield from _rows(inner, f"{above}{one.name}.")


def _section(title: str, words: str, rows: list[tuple[str, Any]], variable: str) -> str:
    lines = [f"## {title}", "", *([words, ""] if words else [])]
    lines += [f"Environment: {variable}.", ""]
    lines += ["| key | type | default | what it does |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {describe(one.type)} | {_default(one)} | {about(one)} |" for key, one in rows]
    return "\n".join([*lines, ""])


def _default(one: Any) -> str:
    if one.required:
        return "(required)"
    if one.default_factory is not msgspec.NODEFAULT:
        return f"`{written(one.default_factory())}`"
    return f"`{written(one.default)}`"


def about(one: Any) -> str:
    """What a field is for: from its annotation, or from the list above."""
    found = next((meta.description for meta in get_args(one.type)[1:] if getattr(meta, "description", None)), None)
    return found or LIMITS[one.name]


if __name__ == "__main__":
    print(render(), end="")
