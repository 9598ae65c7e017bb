"""Exception hierarchy of Mainstay; each error is named for the state that it reports.

    MainstayError
    ├── ConfigError                 the configuration cannot be used
    │   └── ComponentBroken         the manifest or the code of a component has a bug
    ├── ToolDefinitionError         a tool cannot be offered as it is declared
    ├── HomeTaken                   another process owns this home
    ├── HomeUnusable                permissions, a read-only disk, no file handles
    ├── LaneFull                    too many prompts are queued already
    ├── InputRefused                too large, empty, or its id was used for another input
    │   ├── SessionBlocked          its turn was set aside because processes ended while they ran it
    │   ├── TriggerUnknown          there is no such trigger, or the caller may not see it
    │   ├── PersonUnknown           there is no such person or account
    │   ├── KeyUnknown              there is no such API key, or it was revoked before
    │   └── ErrorUnknown            there is no such recorded error, or the caller may not see it
    ├── SessionArchived             the session accepts no more prompts
    ├── SessionUnknown              there is no such session
    ├── WorkspaceUnknown            there is no such workspace
    ├── AgentClosed                 the agent was closed while the call waited
    ├── BudgetExhausted             a spending limit is reached
    ├── AuditUnavailable            the audit log cannot be written, and the action requires it
    ├── ProviderBroken              the code of a provider has a bug
    ├── ContextOverflow             the parts that cannot be left out exceed the model's context window
    ├── SummaryUnusable             the model returned a summary that cannot be used
    ├── EmbedderMissing             no embedding model is available
    ├── MemoryUnknown               there is no memory item with this id
    ├── ApprovalUnknown             no approval with this id is pending
    ├── ProtobufMessageInvalid              a plugin's bytes are not a valid message (core/protobuf)
    ├── PluginFailed                a plugin did not execute a call (plugins/plugin)
    ├── BackendRefused              a backend refused or could not answer a request (backends/common)
    ├── StoreError
    │   ├── StaleWriter             another process has written to this session
    │   ├── DuplicateInput          this input was accepted before
    │   ├── StoreFull               no space left on the disk
    │   ├── StoreBusy               another process holds the database lock
    │   ├── StoreFailed             an I/O error; the database was reopened
    │   ├── StoreCorrupt            the file is damaged and was not modified
    │   ├── StoreLost               the database is missing, empty or older than what the home knows of it
    │   └── StoreTooNew             written by a newer release
    └── ProviderError
        ├── RateLimited             429; says when to retry if the provider does
        ├── Overloaded              529 or 5xx: the provider is temporarily unavailable
        ├── Unreachable             no connection, or lost before the first byte
        ├── Unauthorised            the API key is missing or was refused
        ├── RequestRefused          the provider will never accept this request
        │   └── ContextTooLong
        ├── StreamBroken            the response stopped after its head, or was malformed
        ├── ModelSilent             no data within the timeout
        └── CircuitOpen             the circuit breaker is open after repeated failures

Other packages define errors of their own: GuardFailed (guards), PathRefused, AddressRefused and FetchFailed (io),
SandboxUnusable (sandbox), ToolRefused (tools).

`str(error)` is one sentence for the user. Third-party exceptions are converted to these where they are caught.
"""

from __future__ import annotations

from mainstay.core.rate_limits import RateLimitStatus, bound_wait_s
from mainstay.core.turn_location import TurnLocation


class MainstayError(Exception):
    """Base class of all errors. `str(error)` is one sentence that says what to do.

    `location` is the session, turn and step in which it was raised; the lane sets it, None before that.
    `is_input_stored` is True for a caller that waits for the reply to an input on disk: its turn goes on later.
    """

    location: TurnLocation | None = None
    is_input_stored: bool = False


class ConfigError(MainstayError):
    """`fix` is what to do about it, as `mainstay doctor` prints it; empty: the configuration has to be edited."""

    def __init__(self, sentence: str, *, fix: str = "") -> None:
        super().__init__(sentence)
        self.fix = fix


class ComponentBroken(ConfigError):
    """A component's manifest or code has a bug: not the configuration is to blame, but the component's distribution."""


class ToolDefinitionError(MainstayError):
    pass


class HomeTaken(MainstayError):
    pass


class HomeUnusable(MainstayError):
    pass


class LaneFull(MainstayError):
    pass


class InputRefused(MainstayError):
    pass


class SessionArchived(MainstayError):
    pass


class SessionBlocked(InputRefused):
    """Its open turn was set aside because processes ended while they ran it: release the session."""


class SessionUnknown(MainstayError):
    pass


class WorkspaceUnknown(MainstayError):
    pass


class AgentClosed(MainstayError):
    pass


class BudgetExhausted(MainstayError):
    """`budget` is the exhausted budget's name; `frees_at` (ms) is when it is replenished, 0 for never."""

    def __init__(self, sentence: str, *, budget: str = "", frees_at: int = 0) -> None:
        super().__init__(sentence)
        self.budget = budget
        self.frees_at = frees_at


class AuditUnavailable(MainstayError):
    pass


class ProviderBroken(MainstayError):
    """A bug in a provider's code: it raised an exception that is no `ProviderError` (then its cause), or yielded what
    is no piece of an answer."""


class ContextOverflow(MainstayError):
    pass


class SummaryUnusable(MainstayError):
    pass


class EmbedderMissing(MainstayError):
    pass


class MemoryUnknown(MainstayError):
    pass


class ApprovalUnknown(MainstayError):
    pass


class StoreError(MainstayError):
    pass


class StaleWriter(StoreError):
    pass


class DuplicateInput(StoreError):
    """`sequence` is that of the input accepted first; `same` says whether it had the same content."""

    def __init__(self, sequence: int, *, same: bool) -> None:
        super().__init__("this input was accepted before" if same else "this input id was used for another input")
        self.sequence = sequence
        self.same = same


class StoreFull(StoreError):
    pass


class StoreBusy(StoreError):
    pass


class StoreFailed(StoreError):
    pass


class StoreCorrupt(StoreError):
    pass


class StoreLost(StoreError):
    pass


class StoreTooNew(StoreError):
    pass


class ProviderError(MainstayError):
    """A model call failed. `retryable`: a retry may succeed. `counts_as_failure`: it counts for the circuit breaker.

    `rate_limits` is what the provider reported with a refusal, None if nothing. `details` is for the operator.
    """

    retryable = False
    counts_as_failure = False
    rate_limits: RateLimitStatus | None = None

    def __init__(self, sentence: str, *, details: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.details = details
        self.retry_after_s = bound_wait_s(retry_after_s)


class RateLimited(ProviderError):
    retryable = True


class Overloaded(ProviderError):
    """The provider is overloaded. A 5xx counts for the circuit breaker; a 529 does not, the rate limiter handles it."""

    retryable = True

    def __init__(
        self, sentence: str, *, details: str = "", retry_after_s: float | None = None, counts_as_failure: bool = False
    ) -> None:
        super().__init__(sentence, details=details, retry_after_s=retry_after_s)
        self.counts_as_failure = counts_as_failure


class Unreachable(ProviderError):
    """No connection. `is_not_running`: this machine refused it, so no program listens there. That is found out at no
    cost, does not count for the circuit breaker, and is retried for a few seconds only."""

    retryable = True
    counts_as_failure = True
    is_not_running = False


class Unauthorised(ProviderError):
    pass


class RequestRefused(ProviderError):
    pass


class ContextTooLong(RequestRefused):
    """`window` is the model's context window in tokens, None if the provider did not say."""

    def __init__(self, sentence: str, *, details: str = "", window: int | None = None) -> None:
        super().__init__(sentence, details=details)
        self.window = window


class StreamBroken(ProviderError):
    """The response ended early or cannot be parsed. It is retried only if no output had arrived."""

    retryable = True
    counts_as_failure = True

    def __init__(self, sentence: str, *, details: str = "", retryable: bool = True) -> None:
        super().__init__(sentence, details=details)
        self.retryable = retryable


class ModelSilent(ProviderError):
    counts_as_failure = True


class CircuitOpen(ProviderError):
    pass


class TriggerUnknown(InputRefused):
    """There is no trigger of this name, or not for this caller."""


class PersonUnknown(InputRefused):
    """There is no person, or no account, of this name."""


class KeyUnknown(InputRefused):
    """There is no API key of this id, or it was revoked before."""


class ErrorUnknown(InputRefused):
    """There is no recorded error of this id, or not for this caller."""
