"""Conformance suite of the TriggerLog port. Subclass it and override `make`:

class TestMyLog(TriggerLogSuite):
    def make(self, folder: Path, runs_max: int, aliases_max: int) -> AbstractAsyncContextManager[TriggerLog]: ...
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.errors import InputRefused
from mainstay.core.triggers import (
    ALIASES_MAX,
    ALIASES_TRIM_EVERY,
    RUNS_MAX,
    RUNS_TRIM_EVERY,
    TriggerCursor,
    TriggerLog,
    TriggerRun,
    WebhookDeliveryId,
)
from mainstay.testing.store_writer import expect_error

ODD_NAMES = ("../up", "a%b_c", "'; DROP TABLE trigger_runs; --", "käse", "キー", "\U0001f511", " ", "a" * 300)


def build_run(trigger: str, number: int) -> TriggerRun:
    return TriggerRun(
        trigger=trigger, key=f"time-{number}", due=number * 1000, at=number * 1000 + 5, session="s", seq=number
    )


class TriggerLogSuite:
    """All tests of a trigger log; a subclass overrides `make`."""

    def make(
        self, folder: Path, runs_max: int = RUNS_MAX, aliases_max: int = ALIASES_MAX
    ) -> AbstractAsyncContextManager[TriggerLog]:
        raise NotImplementedError("override `make`: it creates the log")

    async def test_a_due_time_is_recorded_once_and_read_back(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            run = TriggerRun(
                trigger="daily",
                key="2026-01-01T09:00:00Z",
                due=1,
                at=2,
                result="failed",
                note="why",
                session="s",
                seq=7,
            )
            assert await log.find_run("daily", run.key) is None
            assert await log.record_run(run)
            other = TriggerRun(trigger="daily", key=run.key, due=9, at=9, result="fired")
            assert not await log.record_run(other), "that time is recorded already"
            assert await log.find_run("daily", run.key) == run
            assert await log.find_run("weekly", run.key) is None
            assert await log.list_runs() == [run]

    async def test_a_cursor_is_saved_replaced_and_deleted_and_the_runs_stay(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            assert await log.list_cursors() == {}
            await log.save_cursor(TriggerCursor(trigger="daily", upto=10, since=5, digest="a"))
            await log.save_cursor(TriggerCursor(trigger="hourly", upto=20, since=20))
            await log.save_cursor(TriggerCursor(trigger="daily", upto=3, since=3, digest="b"))
            assert await log.list_cursors() == {
                "daily": TriggerCursor(trigger="daily", upto=3, since=3, digest="b"),
                "hourly": TriggerCursor(trigger="hourly", upto=20, since=20),
            }
            await log.record_run(build_run("daily", 1))
            await log.delete_cursor("daily")
            await log.delete_cursor("daily")
            assert list(await log.list_cursors()) == ["hourly"]
            assert await log.list_runs("daily") == [build_run("daily", 1)]

    async def test_a_run_and_a_cursor_are_written_together_and_the_cursor_also_if_the_run_exists(
        self, tmp_path: Path
    ) -> None:
        async with self.make(tmp_path) as log:
            assert await log.record_run(build_run("daily", 1), TriggerCursor(trigger="daily", upto=1000))
            assert (await log.list_cursors())["daily"].upto == 1000
            assert not await log.record_run(build_run("daily", 1), TriggerCursor(trigger="daily", upto=2000))
            assert (await log.list_cursors())["daily"].upto == 2000
            assert await log.record_run(build_run("daily", 2))
            assert (await log.list_cursors())["daily"].upto == 2000, "a run alone does not move the cursor"

    async def test_invalid_text_is_refused_and_changes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            bad = TriggerRun(trigger="daily", key="k", note="half a character: \ud800")
            await expect_error(InputRefused, log.record_run(bad, TriggerCursor(trigger="daily", upto=1)))
            bad_alias = WebhookDeliveryId(hook="ci", name="a", key="\ud800")
            await expect_error(
                InputRefused, log.record_run(build_run("ci", 1), TriggerCursor(trigger="ci", upto=1), bad_alias)
            )
            await expect_error(InputRefused, log.add_alias(bad_alias))
            assert await log.list_runs() == []
            assert await log.list_cursors() == {}
            assert await log.resolve_alias("ci", "a") is None

    async def test_the_outcome_is_added_later_and_may_change(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            await log.record_run(build_run("daily", 1))
            await log.record_run(build_run("daily", 2))
            await log.set_outcome("daily", "time-1", "paused")
            await log.set_outcome("daily", "time-1", "answered")
            await log.set_outcome("daily", "time-9", "answered")
            assert [(run.key, run.outcome) for run in await log.list_runs()] == [("time-2", ""), ("time-1", "answered")]

    async def test_runs_are_listed_newest_first_of_one_or_of_all(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            for number in range(1, 5):
                await log.record_run(build_run("even" if number % 2 == 0 else "odd", number))
            assert [run.seq for run in await log.list_runs()] == [4, 3, 2, 1]
            assert [run.seq for run in await log.list_runs("odd")] == [3, 1]
            assert [run.seq for run in await log.list_runs(limit=3)] == [4, 3, 2]
            assert [run.seq for run in await log.list_runs("even", limit=1)] == [4]
            assert await log.list_runs("none") == []
            assert await log.list_runs(limit=0) == []

    async def test_trigger_names_may_be_any_text(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            for number, name in enumerate(ODD_NAMES):
                await log.record_run(build_run(name, number), TriggerCursor(trigger=name, upto=number))
            assert set(await log.list_cursors()) == set(ODD_NAMES)
            for number, name in enumerate(ODD_NAMES):
                assert await log.list_runs(name) == [build_run(name, number)]

    async def test_concurrent_runs_of_one_due_time_are_recorded_once(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            attempts = (
                log.record_run(build_run("daily", 1), TriggerCursor(trigger="daily", upto=n)) for n in range(20)
            )
            assert sorted(await asyncio.gather(*attempts)) == [False] * 19 + [True]
            assert len(await log.list_runs()) == 1

    async def test_only_the_newest_runs_are_kept(self, tmp_path: Path) -> None:
        async with self.make(tmp_path, 50) as log:
            last = RUNS_TRIM_EVERY * 4
            for number in range(1, last + 1):
                await log.record_run(build_run("daily", number), TriggerCursor(trigger="daily", upto=number * 1000))
                await log.record_run(build_run("gone", number))  # without a cursor: its runs may be removed
            remaining = await log.list_runs(limit=10_000)
            assert 50 <= len(remaining) <= 50 + RUNS_TRIM_EVERY
            assert [run.seq for run in await log.list_runs("daily", 20)] == list(range(last, last - 20, -1))
            assert await log.find_run("daily", "time-1") is None

    async def test_runs_after_the_cursor_are_never_removed(self, tmp_path: Path) -> None:
        """The clock was set back, and the cursor with it: runs after the cursor must still be found."""
        async with self.make(tmp_path, 50) as log:
            for number in range(1, 31):
                await log.record_run(build_run("daily", number), TriggerCursor(trigger="daily", upto=number * 1000))
            await log.save_cursor(TriggerCursor(trigger="daily", upto=20_000))
            for number in range(1, RUNS_TRIM_EVERY * 4 + 1):
                await log.record_run(build_run("other", number), TriggerCursor(trigger="other", upto=number * 1000))
            assert [run.seq for run in await log.list_runs("daily")] == list(range(30, 20, -1))
            await log.save_cursor(TriggerCursor(trigger="daily", upto=30_000))
            for number in range(1, RUNS_TRIM_EVERY + 1):
                await log.record_run(build_run("another", number))
            assert await log.list_runs("daily") == [], "the cursor has passed them: they may be removed"

    async def test_an_alias_resolves_to_its_first_key(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            assert await log.resolve_alias("ci", "a") is None
            assert await log.add_alias(WebhookDeliveryId(hook="ci", name="a", key="1")) == "1"
            assert await log.add_alias(WebhookDeliveryId(hook="ci", name="a", key="2")) == "1"
            assert await log.add_alias(WebhookDeliveryId(hook="other", name="a", key="2")) == "2"
            assert (await log.resolve_alias("ci", "a"), await log.resolve_alias("other", "a")) == ("1", "2")
            attempts = (log.add_alias(WebhookDeliveryId(hook="ci", name="b", key=str(number))) for number in range(20))
            assert len(set(await asyncio.gather(*attempts))) == 1
            assert await log.list_runs() == [], "aliases are not runs"

    async def test_a_run_and_an_alias_are_written_together_and_the_alias_also_if_the_run_exists(
        self, tmp_path: Path
    ) -> None:
        async with self.make(tmp_path) as log:
            assert await log.record_run(build_run("ci", 1), alias=WebhookDeliveryId(hook="ci", name="a", key="a"))
            assert not await log.record_run(build_run("ci", 1), alias=WebhookDeliveryId(hook="ci", name="b", key="b"))
            assert not await log.record_run(build_run("ci", 1), alias=WebhookDeliveryId(hook="ci", name="a", key="c"))
            assert (await log.resolve_alias("ci", "a"), await log.resolve_alias("ci", "b")) == ("a", "b")

    async def test_aliases_outlive_the_runs(self, tmp_path: Path) -> None:
        async with self.make(tmp_path, 50) as log:
            await log.record_run(build_run("ci", 0), alias=WebhookDeliveryId(hook="ci", name="a", key="a"))
            for number in range(1, RUNS_TRIM_EVERY * 4):
                await log.record_run(build_run("ci", number))
            assert await log.find_run("ci", "time-0") is None
            assert await log.resolve_alias("ci", "a") == "a"

    async def test_aliases_are_removed_when_expired_or_too_many_for_their_webhook(self, tmp_path: Path) -> None:
        async with self.make(tmp_path, aliases_max=50) as log:
            await log.add_alias(WebhookDeliveryId(hook="quiet", name="aged", key="1", at=1, until=100))
            await log.add_alias(WebhookDeliveryId(hook="quiet", name="young", key="1", at=1, until=10**9))
            await log.add_alias(WebhookDeliveryId(hook="quiet", name="ageless", key="1", at=1))
            count = ALIASES_TRIM_EVERY + 20
            for number in range(count):
                await log.add_alias(WebhookDeliveryId(hook="busy", name=f"n{number}", key="1", at=101))
            remaining = [await log.resolve_alias("busy", f"n{number}") is not None for number in range(count)]
            assert 50 <= sum(remaining) <= 50 + ALIASES_TRIM_EVERY
            assert all(remaining[-50:])
            assert not any(remaining[:50])
            assert await log.resolve_alias("quiet", "aged") is None
            assert await log.resolve_alias("quiet", "young") == await log.resolve_alias("quiet", "ageless") == "1"
