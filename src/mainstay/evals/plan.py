"""Builds the plan of an evaluation: tasks from a file of cases, or from recorded sessions."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.core.journal import Record
from mainstay.core.judges import JudgePanel
from mainstay.evals.runner import EvalTask
from mainstay.evals.suite_reader import describe_unknown_judge, read_script, read_suite
from mainstay.evals.suite_schema import CaseJudge, CaseTurn, EvalCase, EvalSuite, Script
from mainstay.evals.transcript import Transcript, read_transcripts

SessionJournals = Mapping[str, Sequence[Record]]  # session name: all records of its journal


class EvalCommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    file: Path | None = None  # None: recorded sessions
    replay: bool = False
    is_rerun: bool = False  # a model or a script is given: recorded prompts are sent again
    script: Path | None = None
    judges: tuple[str, ...] = ()
    case_globs: tuple[str, ...] = ()  # globs
    tags: tuple[str, ...] = ()


class EvalTaskDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose judges are not built yet."""

    task: EvalTask
    judges: JudgeSettings | None = None
    # names of judges that the file defines; their functions are in files beside it
    file_judges: frozenset[str] = frozenset()
    folder: Path | None = None

    @property
    def needs_model(self) -> bool:
        return self.task.mode == "ask" and self.task.script is None

    def build_task(self, build_panel: Callable[[EvalTaskDraft], JudgePanel]) -> EvalTask:
        panel = build_panel(self) if self.judges is not None else None
        return msgspec.structs.replace(self.task, panel=panel)


class EvalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a run. `all_names`: the names of all cases, also of those that are not selected."""

    name: str
    drafts: tuple[EvalTaskDraft, ...]
    all_names: tuple[str, ...]

    def judge_models(self) -> list[str]:
        """Return the models that judges use; "" is the agent's own."""
        panels = [draft.judges.panel for draft in self.drafts if draft.judges is not None]
        return sorted({entry.model or "" for panel in panels for entry in panel.values() if entry.criteria})


def load_suite(request: EvalCommandOptions, judges: JudgeSettings) -> EvalSuite:
    assert request.file is not None, "there is a file"
    return read_suite(request.file, judges.panel)


def plan_cases(
    request: EvalCommandOptions, suite: EvalSuite, judges: JudgeSettings, sessions: SessionJournals
) -> EvalPlan:
    """Build the plan for a file of cases. Raises ConfigError."""
    assert request.file is not None, "there is a file"
    scripts = read_script(request.script) if request.script is not None else {}
    _check_script_names(scripts, suite)
    known = {**judges.panel, **suite.judges}
    added = {name: _find_judge(name, known) for name in request.judges}
    settings = JudgeSettings(
        combine=suite.combine or judges.combine,
        threshold=judges.threshold if suite.threshold is None else suite.threshold,
    )
    folder = request.file.parent
    drafts: list[EvalTaskDraft] = []
    for case in suite.cases:
        if _is_selected(case, request):
            task = _build_task(case, suite, folder, request, scripts.get(case.name, scripts.get("")), sessions)
            case_judges = {**_list_case_judges(case, suite, known), **added}
            from_file = frozenset(name for name, entry in case_judges.items() if judges.panel.get(name) is not entry)
            drafts.append(
                EvalTaskDraft(
                    task=task, judges=_with_judges(settings, case_judges), file_judges=from_file, folder=folder
                )
            )
    if not drafts:
        raise ConfigError(f"no case in {request.file.name} matches --case and --tag")
    return EvalPlan(name=request.file.stem, drafts=tuple(drafts), all_names=tuple(case.name for case in suite.cases))


def _check_script_names(scripts: Mapping[str, Script], suite: EvalSuite) -> None:
    names = {case.name for case in suite.cases}
    for name in scripts:
        if name and name not in names:
            raise ConfigError(f"the script names the case {name[:80]!r}, which does not exist")


def _is_selected(case: EvalCase, request: EvalCommandOptions) -> bool:
    is_named = not request.case_globs or any(fnmatch.fnmatchcase(case.name, glob) for glob in request.case_globs)
    return is_named and (not request.tags or not set(request.tags).isdisjoint(case.tags))


def _find_judge(name: str, known: Mapping[str, JudgeEntry]) -> JudgeEntry:
    if name not in known:
        raise ConfigError(f"--judge {describe_unknown_judge(name, known)}")
    return known[name]


def _list_case_judges(case: EvalCase, suite: EvalSuite, known: Mapping[str, JudgeEntry]) -> dict[str, JudgeEntry]:
    if case.judges is None:
        return dict(suite.judges)
    judges: dict[str, JudgeEntry] = {}
    for judge in case.judges:
        if isinstance(judge, str):
            judges[judge] = known[judge]
        else:
            judges[_make_unique(judge.name or "judge", judges)] = _to_judge_entry(judge)
    return judges


def _make_unique(name: str, taken: Mapping[str, object]) -> str:
    return next(free for n in range(1, len(taken) + 2) if (free := name if n == 1 else f"{name}-{n}") not in taken)


def _to_judge_entry(judge: CaseJudge) -> JudgeEntry:
    return JudgeEntry(**{name: getattr(judge, name) for name in JudgeEntry.__struct_fields__})


def _with_judges(settings: JudgeSettings, judges: dict[str, JudgeEntry]) -> JudgeSettings | None:
    return msgspec.structs.replace(settings, panel=judges) if judges else None


def _build_task(
    case: EvalCase,
    suite: EvalSuite,
    folder: Path,
    request: EvalCommandOptions,
    script: Script | None,
    sessions: SessionJournals,
) -> EvalTask:
    task = EvalTask(
        case=case,
        prompts=tuple(turn.prompt if isinstance(turn, CaseTurn) else turn for turn in case.turns) or (case.prompt,),
        turn_checks=tuple(turn.checks if isinstance(turn, CaseTurn) else None for turn in case.turns),
        script=script if script is not None else case.script,
        instructions=suite.instructions if case.instructions is None else case.instructions,
        tools=suite.tools if case.tools is None else case.tools,
        folder=folder / source if (source := case.folder or suite.folder) else None,
        timeout_s=case.timeout_s or suite.timeout_s,
    )
    if case.session:
        return _use_recording(task, request, sessions[case.session])
    if request.replay and task.script is None:
        raise ConfigError(f"--replay: the case {case.name!r} has neither a 'session' nor a 'script' to repeat")
    return task


def _use_recording(task: EvalTask, request: EvalCommandOptions, records: Sequence[Record]) -> EvalTask:
    turns = read_transcripts(records)
    if not turns:
        raise ConfigError(f"session {task.case.session!r} has no finished turn")
    if request.is_rerun:
        return msgspec.structs.replace(task, prompts=tuple(_prompt_text(turn) for turn in turns))
    mode = "replay" if request.replay else "recorded"
    return msgspec.structs.replace(task, records=tuple(records), mode=mode)


def _prompt_text(transcript: Transcript) -> str:
    return transcript.prompt or "(empty)"


# --- recorded sessions ---------------------------------------------------------------------------


def plan_sessions(request: EvalCommandOptions, judges: JudgeSettings, sessions: SessionJournals) -> EvalPlan:
    """Build the plan for recorded sessions. Raises ConfigError.

    Each turn is a case; if sessions are replayed or sent again, each session is one.
    """
    panel = {
        name: _find_judge(name, judges.panel) for name in request.judges or (() if request.replay else judges.panel)
    }
    if not panel and not request.replay:
        raise ConfigError("there are no judges: configure `judges.panel`, or use --replay")
    script = read_script(request.script) if request.script is not None else {}
    settings = _with_judges(judges, panel)
    drafts: list[EvalTaskDraft] = []
    for name, records in sessions.items():
        case = EvalCase(name=name, session=name)
        task = EvalTask(case=case, records=tuple(records), script=script.get(name, script.get("")))
        if request.is_rerun or request.replay:
            drafts.append(EvalTaskDraft(task=_use_recording(task, request, records), judges=settings))
            continue
        for turn in read_transcripts(records):
            turn_case = msgspec.structs.replace(case, name=f"{name}#{turn.turn}")
            turn_task = msgspec.structs.replace(task, case=turn_case, turn=turn.turn, mode="recorded")
            drafts.append(EvalTaskDraft(task=turn_task, judges=settings))
    if not drafts:
        raise ConfigError("no session has a finished turn")
    return EvalPlan(name="sessions", drafts=tuple(drafts), all_names=tuple(draft.task.case.name for draft in drafts))
