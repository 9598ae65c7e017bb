"""Cases are run in homes of their own, concurrently, and an error affects only its case."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstay.agent.agent import Agent
from mainstay.agent.system_clock import RandomIdGenerator, SystemClock
from mainstay.config.loader import load_config
from mainstay.config.schema import Config, LaneSettings, PolicySettings, ToolSettings
from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings, TelemetrySettings
from mainstay.core.errors import Overloaded, Unauthorised
from mainstay.core.events import Judged, Score, TurnEnded
from mainstay.core.journal import Record
from mainstay.core.judges import JudgeBudget, JudgeInput
from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.outcome import Exhausted
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Provider
from mainstay.core.tool_ports import FileOriginLabel
from mainstay.evals.results import CaseResult, EvalRun
from mainstay.evals.runner import EvalEnvironment, EvalTask, run_tasks
from mainstay.evals.suite_schema import CaseChecks, EvalCase, ScriptStep
from mainstay.evals.temporary_home import HomeTemplate, create_temporary_home, isolate_config
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.operations.sessions import read_journal
from mainstay.testing import Call, Raise, Say, ScriptedProvider, Stall


class Silent:
    def on_case_started(self, name: str) -> None: ...

    def on_case_finished(self, result: CaseResult) -> None: ...


class FunctionPanel:
    """A panel of one function: the score, or an exception."""

    corrections_max = 0
    streaming = "hold"

    def __init__(self, score: Any) -> None:
        self._score = score
        self.exhibits: list[JudgeInput] = []

    async def judge(self, judge_input: JudgeInput, attempt: int, budget: JudgeBudget) -> Judged:
        self.exhibits.append(judge_input)
        found = self._score(judge_input)
        scores = (Score("opinion", found, "so it seems", "" if found is not None else "no idea", cost=0.01),)
        return Judged(scores, found or 0.0, (found or 0.0) >= 0.7)

    def correction_message(self, judged: Judged) -> str:
        return ""


async def bench(
    tmp_path: Path, config: Config | None = None, provider: Provider | None = None, **more: Any
) -> EvalEnvironment:
    home = tmp_path / "home"
    return EvalEnvironment(
        home_template=await HomeTemplate.from_home(home, config or Config()), provider=provider, **more
    )


def task(name: str = "case", *script: Any, prompts: Sequence[str] = ("Hello",), **more: Any) -> EvalTask:
    case = EvalCase(
        name=name, prompt="x", **{key: more.pop(key) for key in ("checks", "repeat", "passes") if key in more}
    )
    return EvalTask(case=case, prompts=tuple(prompts), script=tuple(script) or None, **more)


async def run(bench: EvalEnvironment, *tasks: EvalTask) -> EvalRun:
    return await run_tasks(bench, "test", tasks, Silent())


def tree(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where throwaway homes are made."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


async def test_a_case_runs_in_a_home_that_is_removed_afterwards(tmp_path: Path, temporary: Path) -> None:
    home = tmp_path / "home"
    (home / "workspaces" / "default").mkdir(parents=True)
    (home / "AGENTS.md").write_text("Speak like a sailor.")
    (home / "workspaces" / "default" / "MEMORY.md").write_text("The password is swordfish.")
    before = tree(home)
    provider = ScriptedProvider([[Call("remember", {"text": "a thing"})], "Ahoy."])
    done = await run(await bench(tmp_path, provider=provider), task())
    assert [one.result for one in done.results] == ["passed"]
    assert "Speak like a sailor." in provider.asked[0].system
    assert "swordfish" not in provider.asked[0].system, "what an agent learned is no instruction"
    assert tree(home) == before
    assert list(temporary.iterdir()) == []


async def test_a_home_cancelled_during_its_copy_is_removed_too(tmp_path: Path, temporary: Path) -> None:
    secrets = tmp_path / "home" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "key").write_text("swordfish")
    copying, go = threading.Event(), threading.Event()
    original = await HomeTemplate.from_home(tmp_path / "home", Config())

    def slow(source: str, target: str, **more: Any) -> Any:
        copying.set()
        assert go.wait(120)
        return copy(source, target, **more)

    async def furnish() -> None:
        async with create_temporary_home(original):
            raise AssertionError("it was called off before")

    copy = shutil.copy2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "copy2", slow)
        doing = asyncio.create_task(furnish())
        await asyncio.to_thread(copying.wait, 30)
        doing.cancel()
        await asyncio.sleep(0)
        doing.cancel()
        await asyncio.sleep(0)
        assert not doing.done(), "it waits for what is still copied"
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await doing
    assert list(temporary.iterdir()) == []


async def test_a_case_may_have_other_instructions_and_fewer_tools(tmp_path: Path) -> None:
    provider = ScriptedProvider(["one", "two", "three"])
    config = Config(instructions="Be kind.", tools=ToolSettings(builtin=("readonly",)))
    cases = [task("a"), task("b", instructions="Be brief.", tools=("gr*", "ls")), task("c", tools=())]
    await run(await bench(tmp_path, config, provider, jobs=1), *cases)
    assert [("Be kind." in one.system, "Be brief." in one.system) for one in provider.asked] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    offered = [set(one.tools) for one in provider.asked]
    assert {"read", "grep", "glob", "ls", "remember"} <= offered[0]
    assert offered[1:] == [{"grep", "ls"}, set()]


async def test_a_case_works_on_a_copy_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("old")
    script = (
        ScriptStep(call="write", input={"path": "notes.txt", "content": "new"}),
        ScriptStep(call="read", input={"path": "notes.txt"}),
        "Done.",
    )
    done = await run(
        await bench(tmp_path), task("writes", *script, folder=folder, checks=CaseChecks(called=("write",)))
    )
    assert done.results[0].result == "passed", done.results[0].reasons
    assert (folder / "notes.txt").read_text() == "old"


async def test_a_folder_that_homes_are_made_in_is_copied_without_them(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "kept.txt").write_text("here")
    other = temporary / "mainstay-eval-another"
    other.mkdir()
    async with create_temporary_home(await HomeTemplate.from_home(tmp_path / "home", Config()), tmp_path) as (_, work):
        found = sorted(one.name for one in work.rglob("*"))
    assert found == ["kept.txt", "tmp"]


async def test_roots_of_the_configuration_are_only_read_and_what_is_hidden_in_them_stays_so(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "open.txt").write_text("open water")
    (root / ".env").write_text("hidden reef")
    config = Config(tools=ToolSettings(builtin=("all",), roots=(str(root),), protected=(".env",)))
    seen: list[str] = []

    def answer(context: Context, options: Options) -> Any:
        seen.extend(part.content for one in context.messages for part in one.parts if hasattr(part, "content"))
        wanted = [
            Call("read", {"path": str(root / "open.txt")}),
            Call("read", {"path": str(root / ".env")}),
            Call("write", {"path": str(root / "open.txt"), "content": "mine"}),
        ]
        return wanted if options.step == 1 else "Done."

    await run(await bench(tmp_path, config, ScriptedProvider(answer)), task())
    said = "\n".join(seen)
    assert "open water" in said
    assert "hidden reef" not in said
    assert (root / "open.txt").read_text() == "open water"


async def test_approval_requests_are_denied(tmp_path: Path) -> None:
    config = Config(policy=PolicySettings(ask=("bash",)))
    script = (ScriptStep(call="bash", input={"command": "echo hi"}), "I was not allowed to.")
    done = await run(await bench(tmp_path, config), task("asks", *script))
    assert done.results[0].result == "passed"
    assert done.results[0].attempts[0].answer == "I was not allowed to."


async def test_several_prompts_are_one_conversation_and_each_may_have_checks(tmp_path: Path) -> None:
    turn_checks = (None, CaseChecks(contains="never"))
    script = ("Ahoy.", "Second.", "Third.")
    done = await run(
        await bench(tmp_path),
        task("talks", *script, prompts=("a", "b", "c"), turn_checks=turn_checks, checks=CaseChecks(contains="Third")),
    )
    assert done.results[0].reasons == ("turn 2 contains 'never': the answer is 'Second.'",)
    assert done.results[0].tokens == 45


async def test_a_turn_that_fails_ends_the_case_and_says_what_was_not_done(tmp_path: Path) -> None:
    done = await run(await bench(tmp_path), task("fails", ScriptStep(error="the sea is rough"), prompts=("a", "b")))
    (one,) = done.results
    assert one.result == "failed"
    assert one.reasons == (
        "all turns: 1 of 2 were not run",
        "outcome answered: it ended as failed: The model could not answer: the sea is rough",
    )
    turn_checks = (CaseChecks(outcome="failed"), None)
    expected = task(
        "is to fail", ScriptStep(error="the sea is rough"), "Again.", prompts=("a", "b"), turn_checks=turn_checks
    )
    assert (await run(await bench(tmp_path), expected)).results[0].result == "passed"


async def test_a_model_that_cannot_be_had_is_an_error_and_no_failure_of_the_case(tmp_path: Path) -> None:
    def away(context: Context, options: Options) -> Any:
        return Raise(Unauthorised("the key is not valid"))

    provider = ScriptedProvider(away)
    expected = task("is to fail", checks=CaseChecks(outcome="failed"))
    done = await run(await bench(tmp_path, provider=provider), task("asks"), expected)
    assert [one.result for one in done.results] == ["error", "passed"]
    assert done.results[0].reasons == ("The model could not answer: the key is not valid",)


async def test_one_case_that_breaks_or_hangs_does_not_affect_the_others(tmp_path: Path) -> None:
    class Broken(FunctionPanel):
        async def judge(self, judge_input: JudgeInput, attempt: int, budget: JudgeBudget) -> Judged:
            raise KeyError("a bug")

    hanging = ScriptedProvider(lambda context, options: Stall())
    cases = [
        task("breaks", "Hi.", panel=Broken(None)),
        task("hangs", timeout_s=0.3),
        task("is fine", "Hi."),
    ]
    done = await run(await bench(tmp_path, provider=hanging), *cases)
    assert [(one.result, one.reasons) for one in done.results] == [
        ("error", ("internal error: KeyError: 'a bug'",)),
        ("error", ("timed out after 0.3 s",)),
        ("passed", ()),
    ]


async def test_a_case_that_waited_too_long_says_for_what(tmp_path: Path) -> None:
    refused = ResilientProvider(
        [ScriptedProvider(lambda context, options: Raise(Overloaded("the provider is overloaded")))],
        clock=SystemClock(),
        ids=RandomIdGenerator(),
        limits=Limits(),
    )
    done = await run(await bench(tmp_path, provider=refused), task("waits", timeout_s=3.0))
    assert done.results[0].reasons[0].startswith("timed out after 3 s; it was waiting: ")
    assert "overloaded" in done.results[0].reasons[0]


@pytest.mark.parametrize("key", ["thread", "user", "single"])
async def test_cases_run_with_any_setting_of_the_lane_key(tmp_path: Path, key: Any) -> None:
    config = Config(lanes=LaneSettings(key=key))
    done = await run(await bench(tmp_path, config), task("case", "Hi.", checks=CaseChecks(contains="Hi")))
    assert done.results[0].result == "passed", done.results[0].reasons


async def test_judges_decide_beside_the_checks_and_see_what_was_expected(tmp_path: Path) -> None:
    panel = FunctionPanel(lambda exhibit: 0.4 if "Hm" in exhibit.answer else 0.9)
    good = EvalTask(
        case=EvalCase(name="good", prompt="x", expected="an answer"), prompts=("Why?",), script=("So.",), panel=panel
    )
    cases = [good, task("bad", "Hm.", panel=panel), task("wrong", "So.", panel=panel, checks=CaseChecks(contains="x"))]
    done = await run(await bench(tmp_path, jobs=1), *cases)
    assert [(one.result, one.score, one.judge_cost) for one in done.results] == [
        ("passed", 0.9, 0.01),
        ("failed", 0.4, 0.01),
        ("failed", 0.9, 0.01),
    ]
    assert done.results[1].reasons == ("opinion gave 0.40: so it seems",)
    seen = panel.exhibits[0]
    assert (seen.prompt, seen.answer, seen.expected) == ("Why?", "So.", "an answer")
    assert [one.role for one in seen.messages] == ["user", "assistant"]


async def test_a_judge_that_could_not_say_anything_is_an_error_and_no_pass(tmp_path: Path) -> None:
    done = await run(await bench(tmp_path), task("unjudged", "So.", panel=FunctionPanel(lambda exhibit: None)))
    assert (done.results[0].result, done.results[0].reasons) == ("error", ("opinion could not judge: no idea",))


async def test_a_case_is_repeated_and_enough_passes_are_enough(tmp_path: Path) -> None:
    answers = ["yes", "no", "yes"] * 2
    provider = ScriptedProvider(answers)
    cases = [
        task("two of three", repeat=3, passes=2, checks=CaseChecks(equals="yes")),
        task("all", repeat=3, checks=CaseChecks(equals="yes")),
    ]
    done = await run(await bench(tmp_path, provider=provider, jobs=1), *cases)
    assert [one.result for one in done.results] == ["passed", "failed"]
    assert done.results[1].reasons == ("passed 2 of 3 times", "try 2: equals 'yes': the answer is 'no'")
    assert done.results[1].score == round((1 + 0.5 + 1) / 3, 4)


async def test_nothing_more_is_asked_once_the_money_is_spent(tmp_path: Path) -> None:
    info = ModelInfo(name="dear", price_prompt=1_000_000, price_completion=0)  # a dollar a token
    provider = ScriptedProvider(lambda context, options: Say("Hi.", usage=Usage(prompt=1)), info=info)
    cases = [task(f"case {n}") for n in range(5)]
    done = await run(await bench(tmp_path, provider=provider, jobs=1, cost_max=2.0), *cases)
    assert [one.result for one in done.results] == ["passed", "passed", "skipped", "skipped", "skipped"]
    assert (done.stop_reason, done.cost, len(provider.asked)) == ("money", 2.0, 2)
    assert done.results[2].reasons == ("not run: the budget (--money) is spent",)
    done = await run(await bench(tmp_path, provider=provider, jobs=1, cost_max=2.0), *cases[:2])
    assert (done.stop_reason, done.count("passed")) == ("", 2), "what was enough for all of them was enough"
    talk = task("talk", prompts=("a", "b", "c"))
    done = await run(await bench(tmp_path, provider=provider, cost_max=2.0), talk)
    assert (done.results[0].result, done.cost, done.stop_reason) == ("skipped", 2.0, "money")


async def test_an_answer_without_money_for_its_judges_has_not_passed(tmp_path: Path) -> None:
    info = ModelInfo(name="dear", price_prompt=1_000_000, price_completion=0)
    provider = ScriptedProvider(lambda context, options: Say("Hi.", usage=Usage(prompt=1)), info=info)
    panel = FunctionPanel(lambda exhibit: 1.0)
    done = await run(await bench(tmp_path, provider=provider, cost_max=1.0), task("unjudged", panel=panel))
    (one,) = done.results
    assert (one.result, one.reasons, one.cost) == ("skipped", ("not judged: the budget (--money) is spent",), 1.0)
    assert panel.exhibits == []


async def test_an_empty_answer_is_judged_too(tmp_path: Path) -> None:
    done = await run(
        await bench(tmp_path), task("silent", ScriptStep(say=""), panel=FunctionPanel(lambda exhibit: 0.0))
    )
    assert (done.results[0].result, done.results[0].reasons) == ("failed", ("opinion gave 0.00: so it seems",))


async def test_a_limited_number_of_cases_runs_concurrently(tmp_path: Path) -> None:
    class Counting:
        now = most = 0

        def model(self) -> ModelInfo:
            return ModelInfo(name="counting")

        async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.05)
            self.now -= 1
            async for piece in ScriptedProvider(["Hi."]).stream(context, options):
                yield piece

        async def close(self) -> None:
            raise AssertionError("it was only lent")

    counting = Counting()
    done = await run(await bench(tmp_path, provider=counting, jobs=3), *(task(f"case {n}") for n in range(7)))
    assert done.count("passed") == 7
    assert 2 <= counting.most <= 3


async def test_an_interrupted_run_returns_the_results_so_far(tmp_path: Path, temporary: Path) -> None:
    stall = Stall()
    cases = [task("done", "Hi."), task("hangs"), task("not begun", "Hi.")]
    bench_ = await bench(tmp_path, provider=ScriptedProvider([stall]), jobs=1)
    running = asyncio.create_task(run(bench_, *cases))
    await stall.reached.wait()
    running.cancel()
    done = await running
    assert [one.result for one in done.results] == ["passed", "skipped", "skipped"]
    assert done.stop_reason == "interrupted"
    assert list(temporary.iterdir()) == []


async def test_a_recorded_session_is_judged_as_recorded_and_replayed_on_request(tmp_path: Path) -> None:
    provider = ScriptedProvider([[Call("remember", {"text": "x"})], "Ahoy.", "Farewell."])
    config = Config(tools=ToolSettings(memory="on"))
    async with Agent(provider, home=tmp_path / "home", config=config) as agent:
        await agent.run("s", "Hello")
        await agent.run("s", "Bye")
        records = tuple(await read_journal((await agent.runtime()).services.store, "s"))
    panel = FunctionPanel(lambda exhibit: 1.0)
    case = EvalCase(name="s#1", session="s", checks=CaseChecks(called=("remember",), contains="Ahoy"))
    first = EvalTask(case=case, records=records, turn=1, mode="recorded", panel=panel)
    other = msgspec.structs.replace(first, turn=2, case=EvalCase(name="s#2", session="s"))
    again = EvalTask(case=EvalCase(name="s", session="s"), records=records, mode="replay")
    forged = msgspec.structs.replace(again, records=(*records[:-1], without(records[-1])))
    done = await run(await bench(tmp_path, jobs=1), first, other, again, forged)
    assert [one.result for one in done.results[:3]] == ["passed", "passed", "passed"], done.results
    assert [(one.prompt, one.answer) for one in panel.exhibits] == [("Hello", "Ahoy."), ("Bye", "Farewell.")]
    assert len(provider.asked) == 3, "nobody was asked anything"
    assert done.results[3].result == "failed"
    assert done.results[3].reasons[0].startswith("replays identically: record ")


def without(record: Record) -> Record:
    """The end of the last turn, as it never was."""
    assert isinstance(record.event, TurnEnded)
    return msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, outcome=Exhausted("steps")))


def test_relative_paths_are_resolved_against_the_home(tmp_path: Path) -> None:
    given = {
        "skills": {"folders": ["more", "/abs"]},
        "plugins": {"p": {"path": "plugs/p"}},
        "backends": {"b": {"kind": "sql", "url": "sqlite:///b.db"}, "d": {"kind": "documents", "path": "docs"}},
        "mcpServers": {"m": {"command": "x", "cwd": "here", "read": ["r"]}},
        "state": {"data_dir": "elsewhere"},
    }
    (tmp_path / "mainstay.yaml").write_bytes(msgspec.json.encode(given))
    config = load_config(tmp_path, env={}).config
    config = msgspec.structs.replace(
        config,
        telemetry=TelemetrySettings(endpoint="http://127.0.0.1:4318"),
        judges=JudgeSettings(panel={"j": JudgeEntry(criteria="x")}),
    )
    made = isolate_config(config, tmp_path)
    assert made.skills.folders == (str(tmp_path / "more"), "/abs")
    assert made.plugins["p"].path == str(tmp_path / "plugs/p")
    assert made.backends["b"].url == f"sqlite:///{tmp_path}/b.db"
    assert made.backends["d"].path == str(tmp_path / "docs")
    assert (made.mcpServers["m"].cwd, made.mcpServers["m"].read) == (str(tmp_path / "here"), (str(tmp_path / "r"),))
    assert (made.state.data_dir, made.telemetry.endpoint, made.judges.panel) == (None, "", {})


async def test_trusted_skills_are_copied_and_untrusted_ones_are_not(tmp_path: Path) -> None:
    def skill(name: str) -> Path:
        folder = tmp_path / "home" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: How to {name} things.\n---\nDo it.\n")
        return folder

    skill("sail")
    foreign = skill("raid")
    config = Config(tools=ToolSettings(builtin=("all",)))
    async with Agent(ScriptedProvider([]), home=tmp_path / "home", config=config) as agent:
        labels = await (await agent.runtime()).services.store.load_file_labels()  # type: ignore[attr-defined]
        await labels.save([FileOriginLabel(os.path.realpath(foreign / "SKILL.md"), "untrusted:web")])
    provider = ScriptedProvider(["Hi."])
    await run(await bench(tmp_path, config, provider), task())
    assert "How to sail things." in provider.asked[0].system
    assert "How to raid things." not in provider.asked[0].system
