"""All limits and timeouts of the runtime, with their defaults; names end in their unit."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # a turn
    steps_max: int = 25
    tool_calls_max: int = 50
    calls_per_response_max: int = 10
    repeated_calls_max: int = 10  # consecutive identical calls with identical results
    session_turns_max: int | None = None
    step_restarts_max: int = 1  # repeats of a model call whose stream broke
    resumes_max: int = 2  # of one turn after crashes, without progress in between; then it is set aside
    last_attempt_delay_s: float = 5.0  # that a process runs before it begins the last attempt of such a turn
    output_attempts_max: int = 3  # answers that do not match the requested output type

    # a model call
    model_timeout_s: float = 300.0
    model_idle_timeout_s: float = 120.0  # silence within a stream
    retries_max: int = 8
    retry_base_s: float = 2.0
    failure_retries_max: int = 6  # after a 5xx, a lost connection or a broken stream; at most `retries_max`
    failure_retry_base_s: float = 0.5
    retry_jitter: float = 0.2
    retry_wait_max_s: float = 600.0
    breaker_failures_max: int = 5  # consecutive failures of a provider or a tool that open the circuit breaker
    breaker_open_s: float = 30.0
    queue_wait_max_s: float = 3600.0  # of a call in the rate limiter's queue
    response_bytes_max: int = 16 * 1024 * 1024
    output_tokens_max: int | None = None  # None: the model's limit
    local_idle_s: float = 600.0  # without a request, until a local model is unloaded

    # a tool call
    tool_timeout_s: float = 30.0
    tool_result_bytes_max: int = 64 * 1024
    tool_input_bytes_max: int = 1024 * 1024
    tool_name_chars_max: int = 64
    parallel_calls_max: int = 8
    tools_inline_max: int = 40  # with more tools, the model searches a catalogue
    kept_bytes_max: int = 8 * 1024 * 1024  # stored of a result that is too large to show, for paging

    # previous contents of changed files, for undoing
    undo_turn_bytes_max: int = 50 * 1024 * 1024  # 0: none are kept
    undo_turn_paths_max: int = 10_000
    undo_workspace_bytes_max: int = 500 * 1024 * 1024  # beyond it, the oldest turns of all sessions are dropped
    undo_kept_s: float = 7 * 24 * 3600.0

    approval_expires_s: float = 24 * 3600.0  # an approval that is not answered by then is denied

    # sub-agents
    spawn_depth_max: int = 1
    spawn_beside_max: int = 4  # of one session, concurrently

    agent_hops_max: int = 8  # messages passed on from agent to agent without a person

    # a context
    context_retries_max: int = 3  # of a request that the provider rejected as too long
    fold_wait_s: float = 90.0  # for a summary without which the context does not fit
    summary_timeout_s: float = 60.0
    summary_attempts_max: int = 2

    # a lane
    mailbox_depth_max: int = 5
    lane_idle_s: float = 300.0
    coalesce_window_s: float = 0.0
    input_bytes_max: int = 1024 * 1024
    attachment_bytes_max: int = 20 * 1024 * 1024
    session_name_bytes_max: int = 512
    watchdog_period_s: float = 30.0
    watchdog_grace_s: float = 30.0
    checkpoint_period_s: float = 1.0
    ride_along_s: float = 0.02  # how long a buffered record may stay in memory before it is written
    watcher_buffer_max: int = 64

    # the store
    store_busy_s: float = 5.0
    store_retry_max_s: float = 30.0
    commit_batch_max: int = 512


class SessionBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one session may spend in all, with its sub-agents; None: the configured budget of sessions."""

    money: float | None = None  # dollars
    tokens: int | None = None  # prompts and answers together
    tool_calls: int | None = None


NO_SESSION_BUDGET = SessionBudget()
