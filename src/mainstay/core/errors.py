"""Everything that can be wrong with the world, named for its state.

    MainstayError
    ├── ConfigError                 the configuration cannot be used
    ├── ToolDefinitionError         a tool cannot be offered as it is declared
    ├── HomeTaken                   another process owns this home
    ├── HomeUnusable                permissions, a read-only disk, no file handles
    ├── LaneFull                    too many prompts wait already
    ├── InputRefused                too large, empty, or its id was used for something else
    ├── SessionArchived             the session takes no more prompts
    ├── SessionUnknown              there is no such session
    ├── WorkspaceUnknown            there is no such workspace
    ├── AgentClosed                 the agent was closed while this waited
    ├── OutputInvalid               no answer of the wanted shape came
    ├── BudgetExhausted             what may be spent is spent
    ├── AuditUnavailable            what happens cannot be put on record, and so must not happen
    ├── ContextOverflow             what cannot be left out does not fit the model's window
    ├── SummaryUnusable             a summary came back that cannot be used
    ├── EmbedderMissing             no model for vectors can be had here
    ├── MemoryUnknown               there is nothing under this id
    ├── ApprovalUnknown             nothing waits for an answer under this id
    ├── ContractBroken              a plugin's bytes are not the message they should be (core/protobuf)
    ├── PluginFailed                a plugin did not do what it was asked (plugins/plugin)
    ├── BackendRefused              what was asked of a backend cannot be had (backends/common)
    ├── StoreError
    │   ├── StaleWriter             somebody else has written to this session
    │   ├── DuplicateInput          this input was accepted before
    │   ├── StoreFull               no space left
    │   ├── StoreBusy               somebody else holds the database
    │   ├── StoreFailed             an I/O error; the database was reopened
    │   ├── StoreCorrupt            the file is damaged and was left alone
    │   └── StoreTooNew             written by a newer release
    └── ProviderError
        ├── RateLimited             429; says when to come back where it knows
        ├── Overloaded              529, 5xx: it would if it could
        ├── Unreachable             no connection, or lost before the first byte
        ├── Unauthorised            the key is missing or refused
        ├── RequestRefused          it will never accept this request
        │   └── ContextTooLong
        ├── StreamBroken            the answer stopped in the middle, or made no sense
        ├── ModelSilent             nothing came within the bound
        └── CircuitOpen             it failed so often that it is left alone for a while

Rooms that meet trouble of their own have their own: GuardFailed (guards), PathRefused, AddressRefused and FetchFailed
(edges), SandboxUnusable (sandbox), ToolRefused (tools).

Each carries one sentence for a person, and where it arose, once that is known. Foreign errors are mapped to these where
they enter.
"""

from __future__ import annotations

from mainstay.core.allowance import Allowance
from mainstay.core.where import Where


class MainstayError(Exception):
    """Base of all. `str(error)` is one sentence that says what to do; `where` is set by whoever runs the turn."""

    where: Where | None = None


class ConfigError(MainstayError):
    pass


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


class SessionUnknown(MainstayError):
    pass


class WorkspaceUnknown(MainstayError):
    pass


class AgentClosed(MainstayError):
    pass


class OutputInvalid(MainstayError):
    pass


class BudgetExhausted(MainstayError):
    """`budget` names it; `frees_at` (ms) says when there is something in it again, 0 for never by itself."""

    def __init__(self, sentence: str, *, budget: str = "", frees_at: int = 0) -> None:
        super().__init__(sentence)
        self.budget = budget
        self.frees_at = frees_at


class AuditUnavailable(MainstayError):
    pass


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
    """`sequence` is where the first one stands; `same` says whether it had the same content."""

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


class StoreTooNew(StoreError):
    pass


class ProviderError(MainstayError):
    """`retry` says whether asking again may help; `counts` whether it is the provider's own failure. `allowance` is
    what it says is left, where it says so with a refusal."""

    retry = False
    counts = False
    allowance: Allowance | None = None

    def __init__(self, sentence: str, *, details: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.details = details
        self.retry_after_s = retry_after_s


class RateLimited(ProviderError):
    retry = True


class Overloaded(ProviderError):
    """529 is the governor's business and does not count against the provider; a 5xx does."""

    retry = True

    def __init__(
        self, sentence: str, *, details: str = "", retry_after_s: float | None = None, counts: bool = False
    ) -> None:
        super().__init__(sentence, details=details, retry_after_s=retry_after_s)
        self.counts = counts


class Unreachable(ProviderError):
    retry = True
    counts = True


class Unauthorised(ProviderError):
    pass


class RequestRefused(ProviderError):
    pass


class ContextTooLong(RequestRefused):
    """`window` is how many tokens it takes, where it said so."""

    def __init__(self, sentence: str, *, details: str = "", window: int | None = None) -> None:
        super().__init__(sentence, details=details)
        self.window = window


class StreamBroken(ProviderError):
    counts = True


class ModelSilent(ProviderError):
    counts = True


class CircuitOpen(ProviderError):
    pass
