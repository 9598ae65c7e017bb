"""What every TriggerLog must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMyLog(TriggerLogSuite):
    def make(self, where: Path, runs_max: int, names_max: int) -> AbstractAsyncContextManager[TriggerLog]: ...
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.errors import InputRefused
from mainstay.core.trigger_log import NAMES_MAX, NAMES_TRIM_EVERY, RUNS_MAX, TRIM_EVERY
from mainstay.core.triggers import Mark, Name, Run, TriggerLog
from mainstay.testing.writing import expect

ODD_NAMES = ("../up", "a%b_c", "'; DROP TABLE trigger_runs; --", "käse", "キー", "\U0001f511", " ", "a" * 300)


def run_of(trigger: str, number: int) -> Run:
    return Run(trigger=trigger, key=f"time-{number}", due=number * 1000, at=number * 1000 + 5, session="s", seq=number)


class TriggerLogSuite:
    """Everything that the log of triggers promises; `make` is the one thing a subclass must say."""

    def make(
        self, where: Path, runs_max: int = RUNS_MAX, names_max: int = NAMES_MAX
    ) -> AbstractAsyncContextManager[TriggerLog]:
        raise NotImplementedError("say how to make yours")

    async def test_a_time_is_recorded_once_and_found_as_it_was(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            run = Run(
                trigger="daily", key="2026-01-01T09:00:00Z", due=1, at=2, came="failed", note="why", session="s", seq=7
            )
            assert await log.find("daily", run.key) is None
            assert await log.record(run)
            other = Run(trigger="daily", key=run.key, due=9, at=9, came="fired")
            assert not await log.record(other), "that time was there before"
            assert await log.find("daily", run.key) == run
            assert await log.find("weekly", run.key) is None
            assert await log.runs() == [run]

    async def test_a_mark_is_put_replaced_and_dropped_and_the_runs_stay(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            assert await log.marks() == {}
            await log.put(Mark(trigger="daily", upto=10, since=5, digest="a"))
            await log.put(Mark(trigger="hourly", upto=20, since=20))
            await log.put(Mark(trigger="daily", upto=3, since=3, digest="b"))
            assert await log.marks() == {
                "daily": Mark(trigger="daily", upto=3, since=3, digest="b"),
                "hourly": Mark(trigger="hourly", upto=20, since=20),
            }
            await log.record(run_of("daily", 1))
            await log.drop("daily")
            await log.drop("daily")
            assert list(await log.marks()) == ["hourly"]
            assert await log.runs("daily") == [run_of("daily", 1)]

    async def test_a_run_and_a_mark_are_written_together_and_the_mark_also_if_the_run_was_there(
        self, tmp_path: Path
    ) -> None:
        async with self.make(tmp_path) as log:
            assert await log.record(run_of("daily", 1), Mark(trigger="daily", upto=1000))
            assert (await log.marks())["daily"].upto == 1000
            assert not await log.record(run_of("daily", 1), Mark(trigger="daily", upto=2000))
            assert (await log.marks())["daily"].upto == 2000
            assert await log.record(run_of("daily", 2))
            assert (await log.marks())["daily"].upto == 2000, "a run alone moves no mark"

    async def test_what_cannot_be_kept_changes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            bad = Run(trigger="daily", key="k", note="half a character: \ud800")
            await expect(InputRefused, log.record(bad, Mark(trigger="daily", upto=1)))
            worse = Name(hook="ci", name="a", key="\ud800")
            await expect(InputRefused, log.record(run_of("ci", 1), Mark(trigger="ci", upto=1), worse))
            await expect(InputRefused, log.name(worse))
            assert await log.runs() == []
            assert await log.marks() == {}
            assert await log.named("ci", "a") is None

    async def test_how_it_ended_is_added_later_and_may_change(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            await log.record(run_of("daily", 1))
            await log.record(run_of("daily", 2))
            await log.ended("daily", "time-1", "paused")
            await log.ended("daily", "time-1", "answered")
            await log.ended("daily", "time-9", "answered")
            assert [(one.key, one.outcome) for one in await log.runs()] == [("time-2", ""), ("time-1", "answered")]

    async def test_runs_are_listed_newest_first_of_one_or_of_all(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            for number in range(1, 5):
                await log.record(run_of("even" if number % 2 == 0 else "odd", number))
            assert [one.seq for one in await log.runs()] == [4, 3, 2, 1]
            assert [one.seq for one in await log.runs("odd")] == [3, 1]
            assert [one.seq for one in await log.runs(limit=3)] == [4, 3, 2]
            assert [one.seq for one in await log.runs("even", limit=1)] == [4]
            assert await log.runs("none") == []
            assert await log.runs(limit=0) == []

    async def test_any_name_is_a_name(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            for number, name in enumerate(ODD_NAMES):
                await log.record(run_of(name, number), Mark(trigger=name, upto=number))
            assert set(await log.marks()) == set(ODD_NAMES)
            for number, name in enumerate(ODD_NAMES):
                assert await log.runs(name) == [run_of(name, number)]

    async def test_the_same_time_many_times_at_once_is_recorded_once(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            tries = (log.record(run_of("daily", 1), Mark(trigger="daily", upto=n)) for n in range(20))
            assert sorted(await asyncio.gather(*tries)) == [False] * 19 + [True]
            assert len(await log.runs()) == 1

    async def test_only_the_newest_are_kept(self, tmp_path: Path) -> None:
        async with self.make(tmp_path, 50) as log:
            last = TRIM_EVERY * 4
            for number in range(1, last + 1):
                await log.record(run_of("daily", number), Mark(trigger="daily", upto=number * 1000))
                await log.record(run_of("gone", number))  # it has no mark: whatever it did is history
            kept = await log.runs(limit=10_000)
            assert 50 <= len(kept) <= 50 + TRIM_EVERY
            assert [one.seq for one in await log.runs("daily", 20)] == list(range(last, last - 20, -1))
            assert await log.find("daily", "time-1") is None

    async def test_a_time_that_may_come_due_again_is_never_forgotten(self, tmp_path: Path) -> None:
        """The clock was set back, and the mark with it: what had run by then must still be known."""
        async with self.make(tmp_path, 50) as log:
            for number in range(1, 31):
                await log.record(run_of("daily", number), Mark(trigger="daily", upto=number * 1000))
            await log.put(Mark(trigger="daily", upto=20_000))
            for number in range(1, TRIM_EVERY * 4 + 1):
                await log.record(run_of("other", number), Mark(trigger="other", upto=number * 1000))
            assert [one.seq for one in await log.runs("daily")] == list(range(30, 20, -1))
            await log.put(Mark(trigger="daily", upto=30_000))
            for number in range(1, TRIM_EVERY + 1):
                await log.record(run_of("another", number))
            assert await log.runs("daily") == [], "by now it is history like any other"

    async def test_a_name_leads_to_what_it_was_given_for_first(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            assert await log.named("ci", "a") is None
            assert await log.name(Name(hook="ci", name="a", key="1")) == "1"
            assert await log.name(Name(hook="ci", name="a", key="2")) == "1"
            assert await log.name(Name(hook="other", name="a", key="2")) == "2"
            assert (await log.named("ci", "a"), await log.named("other", "a")) == ("1", "2")
            tries = (log.name(Name(hook="ci", name="b", key=str(number))) for number in range(20))
            assert len(set(await asyncio.gather(*tries))) == 1
            assert await log.runs() == [], "names are no runs"

    async def test_a_run_and_a_name_are_written_together_and_the_name_also_if_the_run_was_there(
        self, tmp_path: Path
    ) -> None:
        async with self.make(tmp_path) as log:
            assert await log.record(run_of("ci", 1), name=Name(hook="ci", name="a", key="a"))
            assert not await log.record(run_of("ci", 1), name=Name(hook="ci", name="b", key="b"))
            assert not await log.record(run_of("ci", 1), name=Name(hook="ci", name="a", key="c"))
            assert (await log.named("ci", "a"), await log.named("ci", "b")) == ("a", "b")

    async def test_names_do_not_go_with_the_history_of_runs(self, tmp_path: Path) -> None:
        async with self.make(tmp_path, 50) as log:
            await log.record(run_of("ci", 0), name=Name(hook="ci", name="a", key="a"))
            for number in range(1, TRIM_EVERY * 4):
                await log.record(run_of("ci", number))
            assert await log.find("ci", "time-0") is None
            assert await log.named("ci", "a") == "a"

    async def test_names_go_when_they_are_old_or_when_their_hook_has_too_many(self, tmp_path: Path) -> None:
        async with self.make(tmp_path, names_max=50) as log:
            await log.name(Name(hook="quiet", name="aged", key="1", at=1, until=100))
            await log.name(Name(hook="quiet", name="young", key="1", at=1, until=10**9))
            await log.name(Name(hook="quiet", name="ageless", key="1", at=1))
            given = NAMES_TRIM_EVERY + 20
            for number in range(given):
                await log.name(Name(hook="busy", name=f"n{number}", key="1", at=101))
            kept = [await log.named("busy", f"n{number}") is not None for number in range(given)]
            assert 50 <= sum(kept) <= 50 + NAMES_TRIM_EVERY
            assert all(kept[-50:])
            assert not any(kept[:50])
            assert await log.named("quiet", "aged") is None
            assert await log.named("quiet", "young") == await log.named("quiet", "ageless") == "1"
