"""Files of cases: accepted fields, and every mistake is reported with its line."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.evals.plan import EvalCommandOptions, plan_cases
from mainstay.evals.suite_reader import read_script, read_suite
from mainstay.evals.suite_schema import CaseChecks, CaseJudge, CaseTurn, EvalCase, ExpectedCall, ScriptStep


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cases.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def test_a_file_says_all_that_a_case_can_have(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    suite = read_suite(
        written(
            tmp_path,
            """\
            threshold: 0.8
            judges:
              polite: {criteria: Is it polite?, weight: 2}
            cases:
              - name: sums
                turns: [Hello, {prompt: What is 2 + 3?, checks: {contains: "5"}}]
                instructions: Be brief.
                tools: [add]
                folder: project
                script: [Hi, [{call: add, input: {a: 2, b: 3}}], {say: It is 5.}]
                expected: It is 5.
                judges: [polite, accurate, {name: short, criteria: Is it short?}]
                tags: [smoke]
                repeat: 3
                passes: 2
                weight: 2
                timeout_s: 20
                checks:
                  called: [add, {tool: add, arguments: {a: 2}}]
                  json: {type: object, $defs: {"a b": {}}}
            """,
        ),
        known_judges=["accurate"],
    )
    case = suite.cases[0]
    assert case.turns[0] == "Hello"
    assert isinstance(case.turns[1], CaseTurn)
    assert case.script == ("Hi", (ScriptStep(call="add", input={"a": 2, "b": 3}),), ScriptStep(say="It is 5."))
    assert case.checks.called == ("add", ExpectedCall(tool="add", arguments={"a": 2}))
    assert case.judges == ("polite", "accurate", CaseJudge(name="short", criteria="Is it short?"))
    assert (case.repeat, case.passes, case.weight, case.timeout_s) == (3, 2, 2, 20)


CASE = "cases:\n  - name: a\n    prompt: x\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "line 1: expected a mapping with 'cases', a list"),
        ("cases: {", "line 1: did not find expected node content"),
        ("cases: []\n", "line 1: 'cases' has 0 cases; expected 1 to 1000"),
        ("cases:\n  - name: a\n", "line 2: 'cases.0' needs one of 'prompt', 'turns' and 'session'"),
        ("cases:\n  - prompt: a\n", "line 2: 'cases.0' needs 'name'"),
        (CASE + "    session: s\n", "line 2: 'cases.0' needs one of 'prompt', 'turns' and 'session'"),
        (CASE + "    promt: x\n", "line 4: unknown key 'cases.0.promt'; did you mean 'cases.0.prompt'?"),
        (
            CASE + "    checks:\n      contain: x\n",
            "line 5: unknown key 'cases.0.checks.contain'; did you mean 'cases.0.checks.contains'?",
        ),
        (
            CASE + "    checks: {contains: 5}\n",
            "line 4: 'cases.0.checks.contains': expected a list or text, got a whole number; put it in quotes",
        ),
        (
            CASE + "  - name: a\n    prompt: y\n",
            "line 4: 'cases.1.name' is a duplicate: 'a' is already the case in line 2",
        ),
        (
            CASE + "    checks: {matches: '('}\n",
            "line 4: 'cases.0.checks.matches' is not a regular expression: missing ), unterminated",
        ),
        (CASE + "    repeat: 101\n", "line 4: 'cases.0.repeat' is more than 100"),
        (CASE + "    passes: 2\n", "line 4: 'cases.0.passes' is more than 'repeat', which is 1"),
        (CASE + "    weight: .inf\n", "line 4: 'cases.0.weight' must be a finite number"),
        (CASE + "    folder: nowhere\n", "line 4: 'cases.0.folder' is not a folder beside this file"),
        (CASE + "    folder: ../..\n", "line 4: 'cases.0.folder' is not a folder beside this file"),
        (CASE + "    folder: /tmp\n", "line 4: 'cases.0.folder' is not a folder beside this file"),
        (
            CASE + "    script: [{say: x, call: y}]\n",
            "line 4: 'cases.0.script.0' needs one of 'say', 'call' and 'error'",
        ),
        (
            CASE + "    script: [[{say: x}]]\n",
            "line 4: 'cases.0.script.0' may contain only calls: a list holds the tool calls of one answer",
        ),
        (
            CASE + "    judges: [polit]\n",
            "line 4: 'cases.0.judges.0' names an unknown judge: 'polit'; did you mean 'polite'?",
        ),
        (CASE + "    judges: [{name: j}]\n", "line 4: 'cases.0.judges.0' needs either 'criteria' or 'function'"),
        (CASE + "    checks: {outcome: fine}\n", "line 4: 'cases.0.checks.outcome': expected 'answered' or"),
        (
            "cases:\n  - name: a\n    session: s\n    tools: [x]\n",
            "line 4: 'cases.0.tools' cannot be used with a recorded session",
        ),
    ],
    ids=range(23),
)
def test_a_mistake_has_its_line_and_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_suite(path, ["polite"])
    assert str(refused.value).startswith(f"cases.yaml {said}"), str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_invalid_schema_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("jsonschema_rs")
    with pytest.raises(ConfigError, match=r"line 4: 'cases.0.checks.json' cannot be used: invalid JSON Schema"):
        read_suite(written(tmp_path, CASE + "    checks: {json: {type: 5}}\n"))


def test_a_file_that_is_too_large_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_suite(path)
    path.write_text("#" * 1_100_000)
    with pytest.raises(ConfigError, match="is larger than"):
        read_suite(path)


def test_a_script_is_for_all_cases_or_for_each_by_its_name(tmp_path: Path) -> None:
    assert read_script(written(tmp_path, "[Hi, {error: no}]\n")) == {"": ("Hi", ScriptStep(error="no"))}
    assert read_script(written(tmp_path, "a case: [Hi]\nanother: [Ho]\n")) == {"a case": ("Hi",), "another": ("Ho",)}
    with pytest.raises(ConfigError, match="line 1: expected a list of answers"):
        read_script(written(tmp_path, "nothing\n"))
    with pytest.raises(ConfigError, match=r"line 1: unknown key 'a.0.sa'"):
        read_script(written(tmp_path, "a: [{sa: x}]\n"))


def test_the_judges_of_the_file_apply_to_cases_without_judges(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """\
        judges: {polite: {criteria: Is it polite?}}
        combine: min
        cases:
          - {name: none said, prompt: x, script: [y]}
          - {name: own, prompt: x, script: [y], judges: [{criteria: c}, {criteria: d}, accurate]}
          - {name: nobody, prompt: x, script: [y], judges: []}
        """,
    )
    configured = JudgeSettings(panel={"accurate": JudgeEntry(criteria="Is it right?")}, threshold=0.9)
    wanted = EvalCommandOptions(file=path)
    plan = plan_cases(wanted, read_suite(path, configured.panel), configured, {})
    found = [list(one.judges.panel) if one.judges is not None else [] for one in plan.drafts]
    assert found == [["polite"], ["judge", "judge-2", "accurate"], []]
    first = plan.drafts[0].judges
    assert first is not None
    assert (first.combine, first.threshold) == ("min", 0.9)


def test_cases_are_chosen_by_name_and_by_tag(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """\
        cases:
          - {name: sums one, prompt: x, tags: [smoke, sums]}
          - {name: sums two, prompt: x, tags: [sums]}
          - {name: greets, prompt: x, tags: [smoke]}
        """,
    )
    suite = read_suite(path)

    def chosen(**how: tuple[str, ...]) -> list[str]:
        wanted = EvalCommandOptions(file=path, case_globs=how.get("names", ()), tags=how.get("tags", ()))
        plan = plan_cases(wanted, suite, JudgeSettings(), {})
        assert plan.all_names == ("sums one", "sums two", "greets")
        return [one.task.case.name for one in plan.drafts]

    assert chosen(names=("sums*",)) == ["sums one", "sums two"]
    assert chosen(tags=("smoke",)) == ["sums one", "greets"]
    assert chosen(names=("sums*",), tags=("smoke", "other")) == ["sums one"]
    with pytest.raises(ConfigError, match=r"no case in cases.yaml matches --case and --tag"):
        chosen(tags=("other",))


PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "evaluate.md"


def test_the_files_of_the_page_are_files_of_cases(tmp_path: Path) -> None:
    found = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 3
    for text in found:
        assert read_suite(written(tmp_path, text)).cases


def test_the_page_names_every_key_and_no_other() -> None:
    for heading, struct in (("A case", EvalCase), ("Checks", CaseChecks)):
        section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] != []
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(struct.__struct_fields__)
