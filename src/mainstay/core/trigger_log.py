"""What triggers did, held in memory: as it is for an agent that keeps nothing; and how much of it is kept."""

from __future__ import annotations

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.triggers import Mark, Name, Run

RUNS_MAX = 10_000  # the newest; and whatever may come due again, since the clock was set back
TRIM_EVERY = 64  # runs
NAMES_MAX = 1_000_000  # of each webhook: what was signed without a time can be sent again for ever
NAMES_TRIM_EVERY = 1024


class MemoryTriggerLog:
    """The TriggerLog port for as long as the process lives."""

    def __init__(self, *, runs_max: int = RUNS_MAX, names_max: int = NAMES_MAX) -> None:
        self._marks: dict[str, Mark] = {}
        self._names: dict[str, dict[str, Name]] = {}  # of each webhook, the oldest first
        self._runs: dict[tuple[str, str], Run] = {}  # the oldest first
        self._runs_max = runs_max
        self._names_max = names_max
        self._recorded = self._given = 0

    async def marks(self) -> dict[str, Mark]:
        return dict(sorted(self._marks.items()))

    async def put(self, mark: Mark) -> None:
        _check(mark.trigger, mark.digest)
        self._marks[mark.trigger] = mark

    async def drop(self, trigger: str) -> None:
        self._marks.pop(trigger, None)

    async def record(self, run: Run, mark: Mark | None = None, name: Name | None = None) -> bool:
        _check(run.trigger, run.key, run.session, run.note, run.outcome)
        if name is not None:
            await self.name(name)
        if mark is not None:
            await self.put(mark)
        place = (run.trigger, run.key)
        if place in self._runs:
            return False
        self._runs[place] = run
        self._recorded += 1
        if self._recorded % TRIM_EVERY == 0:
            self._trim()
        return True

    async def ended(self, trigger: str, key: str, outcome: str) -> None:
        _check(outcome)
        if (run := self._runs.get((trigger, key))) is not None:
            self._runs[trigger, key] = msgspec.structs.replace(run, outcome=outcome)

    async def find(self, trigger: str, key: str) -> Run | None:
        return self._runs.get((trigger, key))

    async def runs(self, trigger: str = "", limit: int = 100) -> list[Run]:
        newest = (run for run in reversed(self._runs.values()) if not trigger or run.trigger == trigger)
        return [run for run, _ in zip(newest, range(limit), strict=False)]

    async def name(self, name: Name) -> str:
        _check(name.hook, name.name, name.key)
        names = self._names.setdefault(name.hook, {})
        if (known := names.get(name.name)) is not None:
            return known.key
        names[name.name] = name
        self._given += 1
        if self._given % NAMES_TRIM_EVERY == 0:
            self._trim_names(name)
        return name.key

    async def named(self, hook: str, name: str) -> str | None:
        found = self._names.get(hook, {}).get(name)
        return found.key if found is not None else None

    def _trim_names(self, last: Name) -> None:
        for hook, names in self._names.items():
            kept = list(names.values())[-self._names_max if hook == last.hook else 0 :]
            self._names[hook] = {one.name: one for one in kept if not 0 < one.until < last.at}

    def _trim(self) -> None:
        for place in list(self._runs)[: -self._runs_max]:
            run, mark = self._runs[place], self._marks.get(place[0])
            if mark is None or run.due <= mark.upto:
                del self._runs[place]


def _check(*texts: str) -> None:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise InputRefused("this is not text that can be kept: it holds half characters") from None
