"""Builds the judge panel of an agent: models as judges (LLM as judge), or functions."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeGuard

from mainstay.config.check_judges import check_judge_settings
from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.core.judges import AnswerJudge as AnswerJudge
from mainstay.core.ports import Provider
from mainstay.judges.aggregation import AggregationRule
from mainstay.judges.function_judge import FunctionJudge
from mainstay.judges.judge_declaration import Judge, Scorer, find_problem
from mainstay.judges.model_judge import ModelJudge, ModelJudgeOptions
from mainstay.judges.panel import ConcurrentJudgePanel

JUDGES_MAX = 20


class ProviderSource(Protocol):
    def provider_for(self, model: str) -> Provider: ...


def build_panel(
    settings: JudgeSettings,
    models: ProviderSource | None,
    home: Path | None,
    agent_judges: Sequence[Judge | Scorer | AnswerJudge] = (),
) -> ConcurrentJudgePanel:
    """Return the panel of the configured judges and of `agent_judges`. `home` has the files with judge functions, and
    the owner's version of the judge prompt. Raises ConfigError."""
    check_judge_settings(settings)
    configured = [_configured_judge(name, entry, home) for name, entry in settings.panel.items()]
    judges: list[AnswerJudge] = [_build_judge(judge, models, home) for judge in (*configured, *agent_judges)]
    names = [judge.name for judge in judges]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two judges have the same name: {', '.join(twice)}")
    if len(judges) > JUDGES_MAX:
        raise ConfigError(f"there are {len(judges)} judges; an answer can have at most {JUDGES_MAX}")
    rule = AggregationRule(settings.combine, settings.threshold)
    return ConcurrentJudgePanel(judges, rule, corrections_max=settings.corrections, streaming=settings.streaming)


def _configured_judge(name: str, entry: JudgeEntry, home: Path | None) -> Judge:
    function = load_function(entry.function, home) if entry.function else None
    return Judge(name, entry.criteria, function, entry.model, entry.weight, entry.timeout_s, entry.money)


def _build_judge(judge: Judge | Scorer | AnswerJudge, models: ProviderSource | None, home: Path | None) -> AnswerJudge:
    if _is_answer_judge(judge):
        declared = Judge(getattr(judge, "name", ""), weight=getattr(judge, "weight", 1.0))
        if problem := find_problem(declared) or _find_missing_member(judge):
            raise ConfigError(problem)
        return judge
    if not isinstance(judge, Judge):
        if not callable(judge):
            raise ConfigError(f"{judge!r} is neither a mainstay.Judge nor a function that scores an answer")
        judge = Judge(_function_name(judge), function=judge)
    if problem := find_problem(judge):
        raise ConfigError(problem)
    if judge.function is not None:
        if judge.criteria:
            raise ConfigError(f"the judge {judge.name!r} has both `criteria` and a `function`; give it one of them")
        return FunctionJudge(judge.name, judge.function, weight=judge.weight, timeout_s=judge.timeout_s)
    if not judge.criteria.strip():
        raise ConfigError(f"the judge {judge.name!r} needs `criteria` or a `function`")
    return _build_model_judge(judge, models, home)


def _is_answer_judge(judge: object) -> TypeGuard[AnswerJudge]:
    return hasattr(judge, "score")


def _find_missing_member(judge: AnswerJudge) -> str:
    if not callable(judge.score) or not hasattr(judge, "weight"):
        return f"the judge {judge.name!r} needs a `weight` and a method `score`"
    return ""


def _function_name(function: Scorer) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"[^A-Za-z0-9_-]", "", name)[:64] or "function"


def _build_model_judge(judge: Judge, models: ProviderSource | None, home: Path | None) -> ModelJudge:
    from mainstay.memory.prompt_loader import PromptLoader  # only needed for judges that are models

    prompts = PromptLoader(home)

    def instruct() -> str:
        prompt = prompts.get("judge")
        if "{criteria}" not in prompt.text:  # the owner's version does not place them
            return f"{prompt.text}\n\nCriteria:\n\n{judge.criteria}"
        return prompt.fill({"criteria": judge.criteria})

    def choose(spec: str) -> Provider:
        if models is None:
            raise ConfigError("there is no model to judge with")
        return models.provider_for(spec)

    if judge.model and models is not None:
        models.provider_for(judge.model)  # fail now if there is no such model, not at the first answer
    return ModelJudge(
        judge.name, instruct, choose, ModelJudgeOptions(judge.model or "", judge.weight, judge.timeout_s, judge.money)
    )


# --- judge functions by name ---------------------------------------------------------------------


def load_function(reference: str, home: Path | None) -> Scorer:
    """Import a judge function by `module:name`, or `file.py:name` below the home. Raises ConfigError."""
    location, _, name = reference.rpartition(":")
    if not location or not name.isidentifier():
        raise ConfigError(f"a judge's function is `module:name` or `file.py:name`, not {reference[:120]!r}")
    try:
        module = _import_file(location, home) if location.endswith(".py") else importlib.import_module(location)
    except ConfigError:
        raise
    except Exception as error:  # the user's module may raise anything while it is imported
        raise ConfigError(f"the judge {reference!r} cannot be loaded: {type(error).__name__}: {error}") from error
    function: Scorer | None = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"there is no function {name!r} in {location}")
    return function


def _import_file(path: str, home: Path | None) -> ModuleType:
    if home is None:
        raise ConfigError(f"the judge's file {path!r} cannot be found: this agent has no home")
    root = home.resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise ConfigError(f"the judge's file {path!r} is not below the home")
    if not file.is_file():
        raise ConfigError(f"there is no file {path!r} below the home {root}")
    spec = importlib.util.spec_from_file_location(f"mainstay_judges_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
