"""In-memory trigger log, for agents without a home."""

from __future__ import annotations

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.triggers import (
    ALIASES_MAX,
    ALIASES_TRIM_EVERY,
    RUNS_MAX,
    RUNS_TRIM_EVERY,
    TriggerCursor,
    TriggerRun,
    WebhookDeliveryId,
)


class InMemoryTriggerLog:
    """The TriggerLog port in memory."""

    def __init__(self, *, runs_max: int = RUNS_MAX, aliases_max: int = ALIASES_MAX) -> None:
        self._cursors: dict[str, TriggerCursor] = {}
        self._aliases: dict[str, dict[str, WebhookDeliveryId]] = {}  # by webhook and name, oldest first
        self._runs: dict[tuple[str, str], TriggerRun] = {}  # by trigger and key, oldest first
        self._runs_max = runs_max
        self._aliases_max = aliases_max
        self._runs_recorded = self._aliases_added = 0

    async def list_cursors(self) -> dict[str, TriggerCursor]:
        return dict(sorted(self._cursors.items()))

    async def save_cursor(self, cursor: TriggerCursor) -> None:
        _check_encodable(cursor.trigger, cursor.digest)
        self._cursors[cursor.trigger] = cursor

    async def delete_cursor(self, trigger: str) -> None:
        self._cursors.pop(trigger, None)

    async def record_run(
        self, run: TriggerRun, cursor: TriggerCursor | None = None, alias: WebhookDeliveryId | None = None
    ) -> bool:
        _check_encodable(run.trigger, run.key, run.session, run.note, run.outcome)
        if alias is not None:
            await self.add_alias(alias)
        if cursor is not None:
            await self.save_cursor(cursor)
        run_key = (run.trigger, run.key)
        if run_key in self._runs:
            return False
        self._runs[run_key] = run
        self._runs_recorded += 1
        if self._runs_recorded % RUNS_TRIM_EVERY == 0:
            self._trim_runs()
        return True

    async def set_outcome(self, trigger: str, key: str, outcome: str) -> None:
        _check_encodable(outcome)
        if (run := self._runs.get((trigger, key))) is not None:
            self._runs[trigger, key] = msgspec.structs.replace(run, outcome=outcome)

    async def find_run(self, trigger: str, key: str) -> TriggerRun | None:
        return self._runs.get((trigger, key))

    async def list_runs(self, trigger: str = "", limit: int = 100) -> list[TriggerRun]:
        newest = (run for run in reversed(self._runs.values()) if not trigger or run.trigger == trigger)
        return [run for run, _ in zip(newest, range(limit), strict=False)]

    async def add_alias(self, alias: WebhookDeliveryId) -> str:
        _check_encodable(alias.hook, alias.name, alias.key)
        names = self._aliases.setdefault(alias.hook, {})
        if (known := names.get(alias.name)) is not None:
            return known.key
        names[alias.name] = alias
        self._aliases_added += 1
        if self._aliases_added % ALIASES_TRIM_EVERY == 0:
            self._trim_aliases(alias)
        return alias.key

    async def resolve_alias(self, hook: str, name: str) -> str | None:
        alias = self._aliases.get(hook, {}).get(name)
        return alias.key if alias is not None else None

    def _trim_aliases(self, last: WebhookDeliveryId) -> None:
        for hook, names in self._aliases.items():
            newest = list(names.values())[-self._aliases_max if hook == last.hook else 0 :]
            self._aliases[hook] = {alias.name: alias for alias in newest if not 0 < alias.until < last.at}

    def _trim_runs(self) -> None:
        for run_key in list(self._runs)[: -self._runs_max]:
            run, cursor = self._runs[run_key], self._cursors.get(run_key[0])
            if cursor is None or run.due <= cursor.upto:
                del self._runs[run_key]


def _check_encodable(*texts: str) -> None:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise InputRefused("this text cannot be stored: it contains half characters (lone surrogates)") from None
