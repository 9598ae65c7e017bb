"""From a file of cases, or from recorded sessions, to what is to be run."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from mainstay.config.schema_observability import JudgeEntry, JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.core.journal import Record
from mainstay.core.judging import Panel
from mainstay.evals.reading import read_script, read_suite, unknown_judge
from mainstay.evals.running import Task
from mainstay.evals.schema import Case, OwnJudge, Script, Suite, TurnEntry
from mainstay.evals.seen import Seen, turns_of

Sessions = Mapping[str, Sequence[Record]]  # by name, each with its whole journal


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    file: Path | None = None
    replay: bool = False
    asked: bool = False  # a model or a script is named, so that recorded prompts are asked again
    script: Path | None = None
    judges: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # globs
    tags: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose judges are not made yet."""

    task: Task
    judges: JudgeSettings | None = None
    own: frozenset[str] = frozenset()  # of these, those that the file brings: its functions lie beside it
    folder: Path | None = None

    @property
    def needs_model(self) -> bool:
        return self.task.how == "ask" and self.task.script is None

    def made(self, make: Callable[[Draft], Panel]) -> Task:
        panel = make(self) if self.judges is not None else None
        return msgspec.structs.replace(self.task, panel=panel)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`all_names` are those of all cases, also of those that are not to be run."""

    name: str
    drafts: tuple[Draft, ...]
    all_names: tuple[str, ...]

    def judging_models(self) -> list[str]:
        """Which models judges ask; "" for the agent's own."""
        panels = [one.judges.panel for one in self.drafts if one.judges is not None]
        return sorted({entry.model or "" for panel in panels for entry in panel.values() if entry.criteria})


def suite_of(wanted: Wanted, judges: JudgeSettings) -> Suite:
    assert wanted.file is not None, "there is a file"
    return read_suite(wanted.file, judges.panel)


def plan_cases(wanted: Wanted, suite: Suite, judges: JudgeSettings, sessions: Sessions) -> Plan:
    """Raises ConfigError."""
    assert wanted.file is not None, "there is a file"
    scripts = read_script(wanted.script) if wanted.script is not None else {}
    _refuse_unknown(scripts, suite)
    known = {**judges.panel, **suite.judges}
    added = {name: _named(name, known) for name in wanted.judges}
    how = JudgeSettings(
        combine=suite.combine or judges.combine,
        threshold=judges.threshold if suite.threshold is None else suite.threshold,
    )
    folder = wanted.file.parent
    drafts: list[Draft] = []
    for case in suite.cases:
        if _is_chosen(case, wanted):
            task = _task(case, suite, folder, wanted, scripts.get(case.name, scripts.get("")), sessions)
            asked = {**_judges_of(case, suite, known), **added}
            own = frozenset(name for name, one in asked.items() if judges.panel.get(name) is not one)
            drafts.append(Draft(task=task, judges=_panel(how, asked), own=own, folder=folder))
    if not drafts:
        raise ConfigError(f"no case of {wanted.file.name} has such a name or tag")
    return Plan(name=wanted.file.stem, drafts=tuple(drafts), all_names=tuple(one.name for one in suite.cases))


def _refuse_unknown(scripts: Mapping[str, Script], suite: Suite) -> None:
    names = {case.name for case in suite.cases}
    for name in scripts:
        if name and name not in names:
            raise ConfigError(f"the script is for a case {name[:80]!r}, and there is none of that name")


def _is_chosen(case: Case, wanted: Wanted) -> bool:
    named = not wanted.names or any(fnmatch.fnmatchcase(case.name, glob) for glob in wanted.names)
    return named and (not wanted.tags or not set(wanted.tags).isdisjoint(case.tags))


def _named(name: str, known: Mapping[str, JudgeEntry]) -> JudgeEntry:
    if name not in known:
        raise ConfigError(f"--judge {unknown_judge(name, known)}")
    return known[name]


def _judges_of(case: Case, suite: Suite, known: Mapping[str, JudgeEntry]) -> dict[str, JudgeEntry]:
    if case.judges is None:
        return dict(suite.judges)
    found: dict[str, JudgeEntry] = {}
    for one in case.judges:
        if isinstance(one, str):
            found[one] = known[one]
        else:
            found[_free(one.name or "judge", found)] = _entry(one)
    return found


def _free(name: str, taken: Mapping[str, object]) -> str:
    return next(one for n in range(1, len(taken) + 2) if (one := name if n == 1 else f"{name}-{n}") not in taken)


def _entry(own: OwnJudge) -> JudgeEntry:
    return JudgeEntry(**{name: getattr(own, name) for name in JudgeEntry.__struct_fields__})


def _panel(how: JudgeSettings, judges: dict[str, JudgeEntry]) -> JudgeSettings | None:
    return msgspec.structs.replace(how, panel=judges) if judges else None


def _task(case: Case, suite: Suite, folder: Path, wanted: Wanted, script: Script | None, sessions: Sessions) -> Task:
    task = Task(
        case=case,
        prompts=tuple(one.prompt if isinstance(one, TurnEntry) else one for one in case.turns) or (case.prompt,),
        each=tuple(one.checks if isinstance(one, TurnEntry) else None for one in case.turns),
        script=script if script is not None else case.script,
        instructions=suite.instructions if case.instructions is None else case.instructions,
        tools=suite.tools if case.tools is None else case.tools,
        folder=folder / given if (given := case.folder or suite.folder) else None,
        timeout_s=case.timeout_s or suite.timeout_s,
    )
    if case.session:
        return _recorded(task, wanted, sessions[case.session])
    if wanted.replay and task.script is None:
        raise ConfigError(f"--replay: the case {case.name!r} has neither a 'session' nor a 'script' to repeat")
    return task


def _recorded(task: Task, wanted: Wanted, records: Sequence[Record]) -> Task:
    turns = turns_of(records)
    if not turns:
        raise ConfigError(f"session {task.case.session!r} has no turn that has ended")
    if wanted.asked:
        return msgspec.structs.replace(task, prompts=tuple(_prompt(one) for one in turns))
    how = "replay" if wanted.replay else "recorded"
    return msgspec.structs.replace(task, records=tuple(records), how=how)


def _prompt(turn: Seen) -> str:
    return turn.prompt or "(empty)"


# --- sessions, without a file --------------------------------------------------------------------


def plan_sessions(wanted: Wanted, judges: JudgeSettings, sessions: Sessions) -> Plan:
    """Every turn as it stands is a case. Replayed or asked again, a session is one. Raises ConfigError."""
    panel = {name: _named(name, judges.panel) for name in wanted.judges or (() if wanted.replay else judges.panel)}
    if not panel and not wanted.replay:
        raise ConfigError("there is nothing to judge by: configure judges (`judges.panel`), or --replay")
    script = read_script(wanted.script) if wanted.script is not None else {}
    made = _panel(judges, panel)
    drafts: list[Draft] = []
    for name, records in sessions.items():
        case = Case(name=name, session=name)
        task = Task(case=case, records=tuple(records), script=script.get(name, script.get("")))
        if wanted.asked or wanted.replay:
            drafts.append(Draft(task=_recorded(task, wanted, records), judges=made))
            continue
        for turn in turns_of(records):
            one = msgspec.structs.replace(case, name=f"{name}#{turn.turn}")
            judged = msgspec.structs.replace(task, case=one, turn=turn.turn, how="recorded")
            drafts.append(Draft(task=judged, judges=made))
    if not drafts:
        raise ConfigError("there is no session with a turn that has ended")
    return Plan(name="sessions", drafts=tuple(drafts), all_names=tuple(one.task.case.name for one in drafts))
