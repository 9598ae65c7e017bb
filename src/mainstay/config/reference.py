"""Generates the configuration reference page from the schema: `python -m mainstay.config.reference`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, get_args

import msgspec

from mainstay.config.loader import FUTURE_SECTIONS, PREFIX, Config
from mainstay.config.schema_validator import analyse_type
from mainstay.config.type_descriptions import describe_type
from mainstay.config.yaml_file import to_yaml
from mainstay.core.component_options import ComponentOptions
from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import built_in_components, find_component
from mainstay.core.provider_manifest import ProviderComponent

LIMIT_DESCRIPTIONS = {
    "steps_max": "Model calls in one turn.",
    "tool_calls_max": "Tool calls in one turn.",
    "calls_per_response_max": "Tool calls in one response of the model.",
    "repeated_calls_max": "Identical tool calls with identical results in a row, until the turn ends (loop detection).",
    "session_turns_max": "Turns in one session; null: no limit.",
    "step_restarts_max": "Restarts of a model call whose stream broke after text was shown.",
    "resumes_max": "Resumes of one turn after crashes, without progress in between.",
    "last_attempt_delay_s": "Time that a process runs before the last resume of such a turn: if it ends earlier, the "
    "turn is not the cause.",
    "output_attempts_max": "Attempts to get an answer that fits the requested output type (structured output).",
    "model_timeout_s": "Timeout of a model call, in seconds.",
    "model_idle_timeout_s": "Timeout for silence within a model's stream, in seconds.",
    "retries_max": "Retries of a model call, whatever the reason. Time in the rate limiter's queue is no retry.",
    "retry_base_s": "Backoff before the first retry after a refusal (429, 529) without a hint, in seconds; it doubles.",
    "failure_retries_max": "Retries after a 5xx, a lost connection or a broken stream; `retries_max` bounds them, too.",
    "failure_retry_base_s": "Backoff before the first of these retries, in seconds; it doubles with each retry.",
    "retry_jitter": "Random share of each backoff (jitter), from 0 to 1.",
    "retry_wait_max_s": "Total backoff of all retries of one model call, in seconds, without the rate limiter's queue.",
    "breaker_failures_max": "Failures in a row that open the circuit breaker of a provider or tool.",
    "breaker_open_s": "How long an open circuit breaker refuses calls, in seconds.",
    "queue_wait_max_s": "How long a model call may wait in the rate limiter's queue, in seconds.",
    "response_bytes_max": "Size of one response of a model, in bytes.",
    "output_tokens_max": "Tokens of one answer (max tokens); null: the model's limit.",
    "tool_timeout_s": "Timeout of a tool call, in seconds; a tool may declare its own.",
    "tool_result_bytes_max": "Size of a tool result that the model sees, in bytes; the rest can be read in pages.",
    "tool_input_bytes_max": "Size of a tool call's arguments, in bytes.",
    "tool_name_chars_max": "Length of a tool's name, in characters.",
    "parallel_calls_max": "Tool calls of one response that run in parallel.",
    "tools_inline_max": "Tools that are sent with a request; with more, the model searches a tool catalogue.",
    "approval_expires_s": "How long an approval request stays open, in seconds; then the call is denied.",
    "spawn_depth_max": "Nesting depth of sub-agents; 1: sub-agents start no sub-agents of their own.",
    "spawn_beside_max": "Sub-agents of one session that run in parallel.",
    "agent_hops_max": "Messages that agents may pass on to each other without a person in between.",
    "kept_bytes_max": "Size of a large tool result that is stored for paging, in bytes.",
    "undo_turn_bytes_max": "Previous contents of changed files that are kept for one turn, in bytes; 0: none.",
    "undo_turn_paths_max": "Changed paths that are recorded for one turn.",
    "undo_workspace_bytes_max": "Previous contents of all sessions, in bytes; beyond it, the oldest turns are dropped.",
    "undo_kept_s": "How long previous contents are kept, in seconds.",
    "context_retries_max": "Times a request that the provider refused as too long is shortened and sent again.",
    "fold_wait_s": "How long a turn waits for a summary (compaction) that its context needs to fit, in seconds.",
    "summary_timeout_s": "Timeout for writing a summary, in seconds.",
    "summary_attempts_max": "Attempts to get a usable summary.",
    "mailbox_depth_max": "Prompts that may wait in the queue of a session; more are refused as busy.",
    "local_idle_s": "Idle time after which a local model is unloaded from memory, in seconds.",
    "lane_idle_s": "Idle time after which a session's lane is unloaded from memory, in seconds.",
    "coalesce_window_s": "Messages of one sender within this time become one prompt (debounce), in seconds; 0: off.",
    "input_bytes_max": "Size of a prompt, in bytes.",
    "attachment_bytes_max": "Size of an attachment, in bytes.",
    "session_name_bytes_max": "Length of a session's name, in bytes.",
    "watchdog_period_s": "Interval at which the watchdog checks for stuck lanes, in seconds.",
    "watchdog_grace_s": "How long a lane may exceed its timeouts before it counts as stuck, in seconds.",
    "checkpoint_period_s": "Interval at which a streaming answer is checkpointed, in seconds.",
    "ride_along_s": "How long a journal record may be buffered before it is written, in seconds.",
    "watcher_buffer_max": "Events that are buffered for a slow subscriber before it loses some.",
    "store_busy_s": "How long to wait for a locked database, in seconds.",
    "store_retry_max_s": "How long a failed write is retried, in seconds.",
    "commit_batch_max": "Writes in one transaction (group commit).",
}

SECTION_NOTES = {
    "mcpServers": """Entries of other MCP hosts can be copied: `transport` and `transportType` are read as `type`,
`httpUrl` and `serverUrl` as `url`, `timeout` as `timeout_s` (from 1000 on in milliseconds), `enabled` and `isActive`
as the opposite of `disabled`, `disabledTools` as `excludeTools`. `description`, `trust` and `envFile` have no effect.
Numbers and booleans in `env` and `headers` become text. A name may contain letters, digits, spaces and any of
`. _ - @ / + ( )`; the server's tools get a prefix in which these are replaced.""",
}

PAGE_HEAD = """# Configuration

`mainstay.yaml` in the home (`$MAINSTAY_HOME`, else `~/.mainstay`) is the configuration file. The file is optional, and
so is every key. An unknown key is an error with its line number and the most similar key.

```yaml
model: openai/gpt-4.1-mini
models:                                # failover order
  - openai/gpt-4.1-mini
  - model: openai/my-own-model         # any server with the same API
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

- `${VAR}` in a value is replaced by the environment variable, `${VAR:-default}` by the default if the variable is
  unset or empty; `${env:VAR}` is the same as `${VAR}`. An unset variable without a default is an error; in `plugins`,
  `mcpServers`, `backends` and `channels` only that entry is left out, and `mainstay config check` reports it.
  `$${` is a literal `${`. A variable can only be a value: it cannot add keys.
- Only `true` and `false` are booleans: `no`, `on` and `yes` are text, and so are dates and numbers like `0123`.
- Every key can be overridden by an environment variable: PREFIX, then the key in capitals with `__` for each dot,
  for example `MAINSTAY__LIMITS__STEPS_MAX=10` or `MAINSTAY__PROVIDERS__OPENAI__API_KEY`. Lists and mappings
  are given as JSON: `MAINSTAY__MODELS='["openai/gpt-4.1-mini"]'`.
- A file that contains an API key or another secret as plain text must not be readable by other users (`chmod 600`).
- `mainstay config show` prints the values in force and the origin of each; `mainstay config set KEY VALUE`
  changes one value and keeps comments and order.
"""


def render_page() -> str:
    """Return the page as Markdown."""
    parts = [PAGE_HEAD.replace("PREFIX", f"`{PREFIX}`")]
    top = [field for field in msgspec.structs.fields(Config) if analyse_type(field.type).struct_type is None]
    parts.append(_render_section("Top level", "", [(field.name, field) for field in top], f"`{PREFIX}<KEY>`"))
    for field in msgspec.structs.fields(Config):
        parts.extend(_render_sections(field))
    later = ", ".join(f"`{name}`" for name in sorted(FUTURE_SECTIONS, key=str.lower))
    parts.append(
        f"## Not in this release\n\nThese sections are refused until a later release supports them: {later}.\n"
    )
    return "\n".join(parts)


def _render_sections(field: Any) -> Iterator[str]:
    shape = analyse_type(field.type)
    name, variable = f"`{field.name}`", f"`{PREFIX}{field.name.upper()}__<KEY>`"
    description = describe_field(field)
    if shape.value_type is not None:
        name, variable = f"`{field.name}.<name>`", f"`{PREFIX}{field.name.upper()}__<NAME>__<KEY>`"
    if shape.item_type is not None:
        name, variable = f"`{field.name}[]`", f"`{PREFIX}{field.name.upper()}`, the whole list as JSON"
        description = "An entry is `<provider>/<model>`, or a mapping with these keys."
    description = f"{description} {SECTION_NOTES[field.name]}" if field.name in SECTION_NOTES else description
    for struct in list_structs(field.type):
        yield _render_section(name, description, list(_iter_rows(struct)), variable)
        if issubclass(struct, ComponentSettings):
            yield from _render_components(f"{field.name}.<name>", struct.NAMED_BY, struct)
        for key, options in _iter_options(struct, f"{field.name}."):
            yield from _render_components(key, options.NAMED_ABOVE, options)


def _iter_options(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, type[ComponentOptions]]]:
    """Yield the sections `options` below a struct, with their keys."""
    for field in msgspec.structs.fields(struct):
        shape = analyse_type(field.type)
        if shape.struct_type is None or shape.is_nullable:
            continue
        if issubclass(shape.struct_type, ComponentOptions):
            yield prefix + field.name, shape.struct_type
        else:
            yield from _iter_options(shape.struct_type, f"{prefix}{field.name}.")


def _render_components(section: str, naming: str, struct: type[ComponentSettings]) -> Iterator[str]:
    """Render the settings that each built-in component of a section has in addition to the common ones."""
    common = struct.__struct_fields__
    components = [find_component(struct.COMPONENT_KIND, name) for name in built_in_components(struct.COMPONENT_KIND)]
    if providers := [component for component in components if isinstance(component, ProviderComponent)]:
        yield _render_providers(providers)
    for component in components:
        heading = " ".join(filter(None, (f"### `{section}`,", naming, f"`{component.name}`")))
        lines = [heading, "", component.summary, ""]
        rows = [(key, field) for key, field in _iter_rows(component.settings) if key.partition(".")[0] not in common]
        if component in providers and not rows:
            continue
        yield "\n".join(
            [*lines, *(_render_table(rows, component.required) if rows else ["It has no settings of its own."]), ""]
        )


def _render_providers(providers: Sequence[ProviderComponent]) -> str:
    """Render the built-in providers with their defaults."""
    lines = ["| provider | API | base URL | API key | set-up |", "|---|---|---|---|---|"]
    for provider in providers:
        address = " or ".join(f"`{text}`" for text in (provider.url_variable, provider.base_url) if text)
        keys = " or ".join(f"`{variable}`" for variable in provider.key_variables)
        optional = " (optional)" if keys and not provider.needs_key else ""
        steps = "; ".join(provider.setup_steps(provider.name, {}))
        cells = (f"`{provider.name}`", provider.summary, address or "none", f"{keys or 'none'}{optional}", steps)
        lines.append(f"| {' | '.join(cells)} |")
    note = "Any other name is an OpenAI-compatible server at the `base_url` that is set for it."
    return "\n".join([*lines, "", note, ""])


def list_structs(field_type: Any) -> list[type[msgspec.Struct]]:
    """Return the structs of a field's type: the type itself, its items, or the values of its mapping."""
    shape = analyse_type(field_type)
    inner = [analyse_type(inside).struct_type for inside in (shape.item_type, shape.value_type) if inside is not None]
    return [struct for struct in (shape.struct_type, *inner) if struct is not None]


def _iter_rows(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(struct):
        shape = analyse_type(field.type)
        inner = shape.struct_type
        # a section that may be null is documented at the top level, the settings of components below the table
        if inner is None or shape.is_nullable or issubclass(inner, ComponentOptions):
            yield prefix + field.name, field
        else:
            yield from _iter_rows(inner, f"{prefix}{field.name}.")


def _render_section(title: str, description: str, rows: list[tuple[str, Any]], variable: str) -> str:
    lines = [f"## {title}", "", *([description, ""] if description else [])]
    lines += [f"Environment: {variable}.", ""]
    return "\n".join([*lines, *_render_table(rows), ""])


def _render_table(rows: list[tuple[str, Any]], required: Collection[str] = ()) -> list[str]:
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    for key, field in rows:
        default = "(required)" if field.required or key in required else _render_default(field)
        lines.append(f"| `{key}` | {describe_type(field.type)} | {default} | {describe_field(field)} |")
    return lines


def _render_default(field: Any) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{to_yaml(field.default_factory())}`"
    return f"`{to_yaml(msgspec.to_builtins(field.default))}`"


def describe_field(field: Any) -> str:
    """Return the description of a field: from its annotation, or from LIMIT_DESCRIPTIONS."""
    metas = get_args(field.type)[1:]
    description = next((meta.description for meta in metas if getattr(meta, "description", None)), None)
    return description or LIMIT_DESCRIPTIONS[field.name]


if __name__ == "__main__":
    print(render_page(), end="")
