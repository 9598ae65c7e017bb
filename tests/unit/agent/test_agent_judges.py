"""Judges of an agent: configured, given in code, and their visible results."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Answered, Config, Judge
from mainstay.agent.judges import build_panel, load_function
from mainstay.config.loader import load_config
from mainstay.config.schema import WorkspaceEntry
from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.core.events import Event, Judged, MessageAdded, Score, TextDelta
from mainstay.core.judges import JudgeBudget, JudgeInput
from mainstay.core.messages import Text, parts_text
from mainstay.core.outcome import Aborted
from mainstay.judges.panel import ConcurrentJudgePanel
from mainstay.observe.session_export import write_log
from mainstay.terminal.formatters import describe_event
from mainstay.terminal.plain_printer import PlainPrinter
from mainstay.testing import ScriptedProvider

KIND = JudgeEntry(criteria="The answer is kind.")


def is_short(exhibit: JudgeInput) -> tuple[bool, str]:
    return len(exhibit.answer) <= 10, "it is too long"


def two_voices(answers: list[str], verdicts: list[float]) -> ScriptedProvider:
    """A model that answers, and judges when it is asked to."""
    given, said = iter(answers), iter(verdicts)

    def step(context: Any, options: Any) -> str:
        judging = "You judge one answer" in context.system or "OWN JUDGE" in context.system
        return f'{{"score": {next(said)}, "reason": "so"}}' if judging else next(given)

    return ScriptedProvider(step)


# --- from a configuration ------------------------------------------------------------------------


def configured(home: Path, text: str) -> Config:
    (home / "mainstay.yaml").write_text(text)
    return load_config(home, env={}).config


def test_judges_are_configured_by_name_and_the_rest_has_its_defaults(tmp_path: Path) -> None:
    config = configured(tmp_path, "judges:\n  panel:\n    kind: {criteria: Be kind., weight: 2, timeout_s: 5}\n")
    assert config.judges.panel == {"kind": JudgeEntry(criteria="Be kind.", weight=2, timeout_s=5)}
    assert (config.judges.combine, config.judges.threshold, config.judges.corrections) == ("mean", 0.7, 3)
    assert config.judges.streaming == "hold"
    panel = build_panel(config.judges, None, tmp_path)
    assert (panel.corrections_max, panel.streaming) == (3, "hold")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("judges:\n  threshold: 1.1\n", "line 2"),
        ("judges:\n  threshold: -0.1\n", "line 2"),
        ("judges:\n  corrections: 0\n", "line 2"),
        ("judges:\n  corrections: 11\n", "line 2"),
        ("judges:\n  combine: average\n", "line 2"),
        (
            "judges:\n  panel:\n    both: {criteria: x, function: 'a:b'}\n",
            "line 3: the judge 'both' needs",
        ),
        (
            "judges:\n  panel:\n    none: {weight: 1}\n",
            "line 3: the judge 'none' needs",
        ),
        ("judges:\n  panel:\n    f: {function: 'a:b', model: openai/x}\n", "line 3: the judge 'f' is a function"),
        ("judges:\n  panel:\n    k: {criteria: x, weight: .inf}\n", "line 3: 'judges.panel.k.weight'"),
        ("workspaces:\n  w:\n    judges:\n      panel:\n        k: {weight: 1}\n", "line 5: the judge 'k' needs"),
    ],
    ids=lambda value: value[:40].replace("\n", " ") if isinstance(value, str) else None,
)
def test_an_invalid_configuration_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        configured(tmp_path, text)


@pytest.mark.parametrize("corrections", [1, 10])
@pytest.mark.parametrize("threshold", [0, 1])
def test_the_ends_of_what_can_be_configured_are_taken(tmp_path: Path, corrections: int, threshold: int) -> None:
    config = configured(tmp_path, f"judges: {{threshold: {threshold}, corrections: {corrections}}}\n")
    assert (config.judges.threshold, config.judges.corrections) == (threshold, corrections)


def test_a_workspace_may_have_judges_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mainstay.yaml").write_text(
        "judges: {threshold: 0.5}\nworkspaces:\n  law:\n    judges: {threshold: 0.9, panel: {kind: {criteria: x}}}\n"
    )
    loaded = load_config(tmp_path, env={})
    assert loaded.for_workspace("law").judges.threshold == 0.9
    assert loaded.for_workspace("other").judges == JudgeSettings(threshold=0.5)


def test_a_function_is_found_in_a_module_or_in_a_file_below_the_home(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def fine(exhibit):\n    return exhibit.answer == 'yes'\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.py").write_text("from os.path import join\n")
    assert load_function("rules.py:fine", tmp_path)(JudgeInput(prompt="", answer="yes")) is True
    assert callable(load_function("sub/more.py:join", tmp_path))
    assert callable(load_function("os.path:join", None))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("rules.py:nothing", "there is no function 'nothing'"),
        ("rules.py:NUMBER", "there is no function 'NUMBER'"),
        ("missing.py:f", "there is no file 'missing.py'"),
        ("../outside.py:f", "not below the home"),
        ("link.py:f", "not below the home"),
        ("broken.py:f", "cannot be loaded: SyntaxError"),
        ("raising.py:f", "cannot be loaded: RuntimeError: no"),
        ("no.such.module:f", "cannot be loaded: ModuleNotFoundError"),
        ("nothing", "is `module:name` or `file.py:name`"),
        ("a:b c", "is `module:name` or `file.py:name`"),
    ],
)
def test_a_function_that_cannot_be_had_is_one_clear_sentence(tmp_path: Path, named: str, said: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "outside.py").write_text("def f(exhibit): return 1\n")
    (home / "link.py").symlink_to(tmp_path / "outside.py")
    (home / "rules.py").write_text("NUMBER = 3\n")
    (home / "broken.py").write_text("def f(:\n")
    (home / "raising.py").write_text("raise RuntimeError('no')\n")
    with pytest.raises(ConfigError, match=said):
        load_function(named, home)


async def test_an_agent_that_is_configured_to_judge_does(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def short(exhibit):\n    return len(exhibit.answer) < 10, 'too long'\n")
    (tmp_path / "mainstay.yaml").write_text("judges:\n  panel:\n    short: {function: 'rules.py:short'}\n")
    async with Agent(ScriptedProvider(["much too long", "short"]), home=tmp_path) as agent:
        reply = await agent.run("s", "go")
        assert (reply.text, reply.outcome) == ("short", Answered(1.0))
        assert (await agent.sessions.replay("s")).is_identical


async def test_a_judge_with_an_unavailable_model_keeps_the_agent_from_opening(tmp_path: Path) -> None:
    entry = JudgeEntry(criteria="x", model="nonsense/none")
    config = Config(judges=JudgeSettings(panel={"k": entry}))
    with pytest.raises(ConfigError):
        await Agent(ScriptedProvider([]), home=tmp_path, config=config).run("s", "go")


# --- criteria ------------------------------------------------------------------------------------


async def test_a_model_judges_by_its_criteria_with_the_model_that_answers() -> None:
    model = two_voices(["rude", "kind"], [0.1, 0.95])
    config = Config(judges=JudgeSettings(panel={"kind": KIND}))
    async with Agent(model, home=":memory:", config=config) as agent:
        reply = await agent.run("s", "go")
        assert (reply.text, reply.outcome) == ("kind", Answered(0.95))
        judging = [one for one in model.asked if "You judge one answer" in one.system]
        assert len(judging) == 2
        assert "The answer is kind." in judging[0].system
        assert "rude" in judging[0].messages[0][1]
        assert (await agent.sessions.replay("s")).is_identical


@pytest.mark.parametrize("own", ["version: 7\nOWN JUDGE\n{criteria}\n", "OWN JUDGE\n"], ids=["with a place", "without"])
async def test_the_owner_words_the_prompt_of_judges(tmp_path: Path, own: str) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "judge.md").write_text(own)
    model = two_voices(["kind"], [0.9])
    config = Config(judges=JudgeSettings(panel={"kind": KIND}))
    async with Agent(model, home=tmp_path, config=config) as agent:
        assert (await agent.run("s", "go")).outcome == Answered(0.9)
    judging = model.asked[-1].system
    assert judging.startswith("OWN JUDGE")
    assert "The answer is kind." in judging, "criteria are never lost"


# --- in code -------------------------------------------------------------------------------------


async def test_judges_given_in_code_are_added_to_the_configured_ones() -> None:
    model = two_voices(["much too long", "short"], [0.9, 0.9, 0.8, 0.8])
    judges = [is_short, Judge("polite", criteria="It is polite.", weight=2.0)]
    config = Config(judges=JudgeSettings(panel={"kind": KIND}, combine="min"))
    async with Agent(model, home=":memory:", config=config, judges=judges) as agent:
        reply = await agent.run("s", "go")
        assert (reply.text, reply.outcome) == ("short", Answered(0.8))
        records = await agent.sessions.records("s")
        judged = [one.event for one in records if isinstance(one.event, Judged)]
        assert [[score.judge for score in one.scores] for one in judged] == [["kind", "is_short", "polite"]] * 2
        assert judged[0].scores[1].reason == "it is too long"


class _Own:
    """The port itself."""

    name, weight = "own", 1.0

    async def score(self, exhibit: JudgeInput, spending: JudgeBudget) -> Score:
        return Score("own", 1.0)


async def test_any_object_that_implements_the_port_is_a_judge() -> None:
    async with Agent(ScriptedProvider(["yes"]), home=":memory:", judges=[_Own()]) as agent:
        assert (await agent.run("s", "go")).outcome == Answered(1.0)


@pytest.mark.parametrize(
    ("judges", "said"),
    [
        ([is_short, is_short], "same name: is_short"),
        ([Judge("a b", criteria="x")], "needs a name"),
        ([Judge("a")], "needs `criteria` or a `function`"),
        ([Judge("a", criteria="x", function=is_short)], "has both `criteria` and a `function`"),
        ([Judge("a", criteria="x", weight=0)], "`weight` of the judge 'a'"),
        ([Judge("a", criteria="x", timeout_s=float("inf"))], "`timeout_s` of the judge 'a'"),
        ([3], "neither a mainstay.Judge nor a function"),
        ([Judge(f"j{n}", function=is_short) for n in range(21)], "at most 20"),
    ],
    ids=["twice", "name", "empty", "both", "weight", "for ever", "a number", "a crowd"],
)
async def test_judges_that_cannot_be_used_are_one_clear_sentence(judges: list[Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await Agent(ScriptedProvider([]), home=":memory:", judges=judges).run("s", "go")


def test_judges_are_a_list_even_if_there_is_one() -> None:
    with pytest.raises(ConfigError, match="judges is a list"):
        Agent(ScriptedProvider([]), home=":memory:", judges=is_short)  # type: ignore[arg-type]


# --- a stream ------------------------------------------------------------------------------------


async def test_a_stream_tells_only_the_answer_that_stands() -> None:
    async with Agent(ScriptedProvider(["much too long", "short"]), home=":memory:", judges=[is_short]) as agent:
        events = [event async for event in agent.stream("s", "go")]
        assert "much too long" not in repr(events)
        said = [one for one in events if isinstance(one, MessageAdded) and one.role == "assistant"]
        assert [parts_text(one.parts) for one in said] == ["", "short"]
        assert [type(one).__name__ for one in events][-3:] == ["MessageAdded", "Judged", "TurnEnded"]


async def test_a_reopened_home_judges_waiting_answers_and_streams_them(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def hangs(exhibit: JudgeInput) -> float:
        reached.set()
        await asyncio.Event().wait()
        return 0.0

    agent = Agent(ScriptedProvider(["the answer"]), home=tmp_path, judges=[Judge("j", function=hangs)])
    asked = asyncio.create_task(agent.run("s", "go", id="m1"))
    await reached.wait()
    await agent.aclose()
    await asyncio.gather(asked, return_exceptions=True)

    gate = asyncio.Event()

    async def passes(exhibit: JudgeInput) -> float:
        await gate.wait()
        return 0.8

    silent = ScriptedProvider([])
    async with Agent(silent, home=tmp_path, judges=[Judge("j", function=passes)]) as again:
        events: list[Event] = []
        async for event in _opening_the_gate(again.stream("s", "go", id="m1"), gate):
            events.append(event)
        said = [parts_text(one.parts) for one in events if isinstance(one, MessageAdded) and one.role == "assistant"]
        assert said == ["the answer"]
        assert not silent.asked
        assert (await again.run("s", "go", id="m1")).outcome == Answered(0.8)
        old = [event async for event in again.stream("s", "go", id="m1")]
        assert [parts_text(one.parts) for one in old if isinstance(one, MessageAdded)] == ["the answer"]
        assert (await again.sessions.replay("s")).is_identical


async def _opening_the_gate(stream: Any, gate: asyncio.Event) -> Any:
    """Once a watcher listens."""
    asyncio.get_running_loop().call_later(0.05, gate.set)
    async for event in stream:
        yield event


async def test_an_answer_that_was_not_shown_is_in_the_journal_and_in_no_transcript(tmp_path: Path) -> None:
    script = ["much too long", "short"]
    async with Agent(ScriptedProvider(script), home=tmp_path / "home", judges=[is_short]) as agent:
        await agent.run("s", "go")
        records = await agent.sessions.records("s")
        assert "much too long" in repr(records)
        write_log(records, tmp_path / "log.jsonl")
        told = (tmp_path / "log.jsonl").read_text()
        assert "short" in told
        assert "much too long" not in told


async def test_an_aborted_turn_returns_nothing_that_was_held() -> None:
    reached = asyncio.Event()

    async def hangs(exhibit: JudgeInput) -> float:
        reached.set()
        await asyncio.Event().wait()
        return 0.0

    async with Agent(ScriptedProvider(["unjudged"]), home=":memory:", judges=[hangs]) as agent:
        asked = asyncio.create_task(agent.run("s", "go", id="m1"))
        await reached.wait()
        await agent.abort("s")
        assert ((await asked).outcome, (await asked).text) == (Aborted(), "")
        assert (await agent.run("s", "go", id="m1")).text == ""


# --- what a person sees --------------------------------------------------------------------------


def judged(score: float, *, passed: bool = False, last: bool = False, attempt: int = 1, error: str = "") -> Judged:
    return Judged((Score("kind", score, error=error),), score, passed, attempt, last, 4, turn=1, step=attempt)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (judged(0.82, passed=True), "score 0.82"),
        (judged(0.55), "score 0.55, too low: trying again (2 of 4)"),
        (judged(0.55, attempt=3), "score 0.55, too low: trying again (4 of 4)"),
        (judged(0.55, attempt=4, last=True), "score 0.55, too low: no attempt was better"),
        (
            judged(0.0, last=True, error="it hung"),
            "score 0.00, too low: no more attempts; judge kind failed: it hung",
        ),
    ],
    ids=["passed", "again", "once more", "last", "failed"],
)
def test_a_verdict_in_words(event: Judged, said: str) -> None:
    assert describe_event(event) == said


def test_a_pipe_shows_the_answer_once_and_what_was_thought_of_it() -> None:
    out: list[str] = []
    printer = PlainPrinter(out.append, lambda line: out.append(f"<{line}>"))
    printer.show_event(MessageAdded("assistant", (), turn=1, step=1, provisional="held"))
    printer.show_event(judged(0.2))
    printer.show_event(MessageAdded("assistant", (Text("the answer"),), turn=1, step=2, provisional="held"))
    printer.show_event(judged(0.9, passed=True, attempt=2))
    assert "".join(out) == "<(score 0.20, too low: trying again (2 of 4))>the answer\n<(score 0.90)>"


async def test_a_panel_of_functions_costs_an_agent_nothing_that_is_not_judged() -> None:
    async with Agent(ScriptedProvider(["a", "b"]), home=":memory:") as agent:
        events = [event async for event in agent.stream("s", "go")]
        assert [type(one).__name__ for one in events].count("TextDelta") == 1
        assert not any(isinstance(one, TextDelta) and one.provisional for one in events)
        assert (await agent.runtime()).services.judges is None
    assert isinstance(build_panel(JudgeSettings(), None, None, [is_short]), ConcurrentJudgePanel)


class Own:
    """A judge as the port has it."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    async def score(self, exhibit: Any, spending: Any) -> Score:
        return Score("own", 1.0)


@pytest.mark.parametrize(
    "given",
    [
        {"weight": 1.0},
        {"name": "\x1b[31mred", "weight": 1.0},
        {"name": 7, "weight": 1.0},
        {"name": "own"},
        {"name": "own", "weight": float("nan")},
        {"name": "own", "weight": 0},
        {"name": "own", "weight": 1.0, "score": "high"},
    ],
    ids=["no name", "colours", "a number", "no weight", "nan", "weightless", "no function"],
)
def test_a_custom_judge_that_cannot_be_recorded_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="judge"):
        build_panel(JudgeSettings(), None, None, [Own(**given)])
    assert build_panel(JudgeSettings(), None, None, [Own(name="own", weight=2)]) is not None


@pytest.mark.parametrize(
    ("judges", "sentence"),
    [
        ([lambda answer: 1.0], "judges is a JudgeSettings, not list"),
        ({"panel": {}}, "judges is a JudgeSettings, not dict"),
        (JudgeSettings(panel={"a": {"criteria": "short"}}), "judges.panel.a is a JudgeEntry, not dict"),  # type: ignore[dict-item]
        (JudgeSettings(panel={"a": JudgeEntry(function=lambda: 1.0)}), "judges: "),  # type: ignore[arg-type]
        (JudgeSettings(panel={"a": JudgeEntry(criteria="short")}, combine="best"), "Invalid enum value 'best'"),  # type: ignore[arg-type]
        (JudgeSettings(panel={"a": JudgeEntry(criteria="short")}, corrections=-4), "corrections"),
        (JudgeSettings(threshold=5.0), "threshold"),
        (JudgeSettings(panel={"a": JudgeEntry()}), "needs either `criteria`"),
    ],
)
def test_the_judges_of_a_config_in_code_are_checked_when_the_agent_is_made(judges: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        Agent(ScriptedProvider([]), home=":memory:", config=Config(judges=judges))
    workspaces = {"lab": WorkspaceEntry(judges=judges)}
    with pytest.raises(ConfigError):
        Agent(ScriptedProvider([]), home=":memory:", config=Config(workspaces=workspaces))
