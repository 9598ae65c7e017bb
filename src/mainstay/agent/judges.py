"""Configuration in, a panel of judges out; and `Judge`, for those who bring judges of their own to an `Agent`."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import msgspec

from mainstay.config.schema import Config
from mainstay.config.schema_observability import JudgeEntry, JudgeSettings
from mainstay.core import judging
from mainstay.core.errors import ConfigError
from mainstay.core.judging import Exhibit
from mainstay.core.ports import Provider
from mainstay.evals.judges.combine import Rule
from mainstay.evals.judges.functions import FunctionJudge
from mainstay.evals.judges.jury import Jury
from mainstay.evals.judges.models import ModelJudge, Terms

JUDGES_MAX = 20
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Scorer = Callable[[Exhibit], Any]  # a float from 0 to 1, a bool, or one of these and a reason; or awaitable such


class Judge(msgspec.Struct, frozen=True):
    """A judge of your own: `criteria` for a model, or a `function` that is given an `Exhibit` (`prompt`, `answer`,
    `messages`) and returns a score from 0 to 1, a bool, or one of them with a reason."""

    name: str
    criteria: str = ""
    function: Scorer | None = None
    model: str | None = None  # that judges; None: the one that answered
    weight: float = 1.0
    timeout_s: float = 60.0
    money: float | None = None  # dollars that one verdict may cost at most


class Choosing(Protocol):
    def choose(self, spec: str) -> Provider: ...


def make_panel(
    settings: JudgeSettings,
    models: Choosing | None,
    home: Path | None,
    own: Sequence[Judge | Scorer | judging.Judge] = (),
) -> Jury:
    """Those that are configured, and an agent's `own` beside them. `home` is where files with functions are, and the
    owner's wording of the judges' prompt. Raises ConfigError."""
    check_settings(settings)
    given = [Judge(name, **_arguments(entry, home)) for name, entry in settings.panel.items()]
    judges: list[judging.Judge] = [_made(one, models, home) for one in (*given, *own)]
    names = [one.name for one in judges]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two judges have the same name: {', '.join(twice)}")
    if len(judges) > JUDGES_MAX:
        raise ConfigError(f"there are {len(judges)} judges; at most {JUDGES_MAX} can be asked about one answer")
    rule = Rule(settings.combine, settings.threshold)
    return Jury(judges, rule, corrections=settings.corrections, streaming=settings.streaming)


def check_judges(config: Config, begun: Callable[[tuple[str | int, ...]], str]) -> None:
    """Those of all workspaces. `begun` says where in the file something stands. Raises ConfigError."""
    for keys, settings in _settings(config).items():
        check_settings(settings, lambda path, keys=keys: begun((*keys, *path)))  # type: ignore[misc]


def _settings(config: Config) -> Mapping[tuple[str, ...], JudgeSettings]:
    theirs = {("workspaces", name, "judges"): one.judges for name, one in config.workspaces.items()}
    return {("judges",): config.judges, **{keys: one for keys, one in theirs.items() if one is not None}}


def check_settings(settings: JudgeSettings, begun: Callable[[tuple[str, ...]], str] = lambda path: "") -> None:
    """What the schema cannot say."""
    if not math.isfinite(settings.threshold):
        raise ConfigError(f"{begun(('threshold',))}the threshold of judges is a number from 0 to 1")
    for name, entry in settings.panel.items():
        at = begun(("panel", name))
        if bool(entry.criteria.strip()) == bool(entry.function):
            found = "both: it needs one of them" if entry.function else "neither"
            raise ConfigError(f"{at}the judge {name!r} needs `criteria` for a model or a `function`, and has {found}")
        if entry.function and (entry.model is not None or entry.money is not None):
            raise ConfigError(f"{at}the judge {name!r} is a function: it has no `model`, and costs no `money`")
        if said := _wrong(Judge(name, weight=entry.weight, timeout_s=entry.timeout_s, money=entry.money)):
            raise ConfigError(f"{at}{said}")


def _wrong(judge: Judge) -> str:
    if not isinstance(judge.name, str) or not _NAME.fullmatch(judge.name):
        return f"the judge {str(judge.name)[:80]!r} needs a name of letters, digits, - and _, 64 at most"
    numbers = {"weight": judge.weight, "timeout_s": judge.timeout_s, "money": judge.money}
    for what, number in numbers.items():
        if number is not None and not (isinstance(number, int | float) and 0 < number < math.inf):
            return f"the {what} of the judge {judge.name!r} is a number above 0"
    return ""


def _arguments(entry: JudgeEntry, home: Path | None) -> dict[str, Any]:
    function = load_function(entry.function, home) if entry.function else None
    shared = ("criteria", "model", "weight", "timeout_s", "money")
    return {"function": function, **{name: getattr(entry, name) for name in shared}}


def _made(given: Judge | Scorer | judging.Judge, models: Choosing | None, home: Path | None) -> judging.Judge:
    if hasattr(given, "score"):
        own = Judge(getattr(given, "name", ""), weight=getattr(given, "weight", 1.0))
        if said := _wrong(own) or _incomplete(given):
            raise ConfigError(said)
        return cast(judging.Judge, given)
    if not isinstance(given, Judge):
        if not callable(given):
            raise ConfigError(f"{given!r} is neither a mainstay.Judge nor a function that judges an answer")
        given = Judge(_own_name(given), function=given)
    if said := _wrong(given):
        raise ConfigError(said)
    if given.function is not None:
        if given.criteria:
            raise ConfigError(f"the judge {given.name!r} has criteria or a function, and not both")
        return FunctionJudge(given.name, given.function, weight=given.weight, timeout_s=given.timeout_s)
    if not given.criteria.strip():
        raise ConfigError(f"the judge {given.name!r} has neither criteria nor a function")
    return _model_judge(given, models, home)


def _incomplete(given: Any) -> str:
    if not callable(given.score) or not hasattr(given, "weight"):
        return f"the judge {given.name!r} needs a `weight`, and a `score` that can be called"
    return ""


def _own_name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"[^A-Za-z0-9_-]", "", name)[:64] or "function"


def _model_judge(given: Judge, models: Choosing | None, home: Path | None) -> ModelJudge:
    from mainstay.memory.prompts import Prompts  # only for those who have such a judge

    prompts = Prompts(home)

    def instruct() -> str:
        prompt = prompts.get("judge")
        if "{criteria}" not in prompt.text:  # an owner's own, that forgot them
            return f"{prompt.text}\n\nCriteria:\n\n{given.criteria}"
        return prompt.fill({"criteria": given.criteria})

    def choose(spec: str) -> Provider:
        if models is None:
            raise ConfigError("there is no model that could judge")
        return models.choose(spec)

    if given.model and models is not None:
        models.choose(given.model)  # one that cannot be had is known now, not when it is needed
    return ModelJudge(
        given.name, instruct, choose, Terms(given.model or "", given.weight, given.timeout_s, given.money)
    )


# --- functions by name ---------------------------------------------------------------------------


def load_function(named: str, home: Path | None) -> Scorer:
    """`module:name`, or `file.py:name` below the home. Raises ConfigError."""
    where, _, name = named.rpartition(":")
    if not where or not name.isidentifier():
        raise ConfigError(f"a judge's function is `module:name` or `file.py:name`, not {named[:120]!r}")
    try:
        module = _from_file(where, home) if where.endswith(".py") else importlib.import_module(where)
    except ConfigError:
        raise
    except Exception as error:  # it is somebody's code, and may raise anything while it is imported
        raise ConfigError(f"the judge {named!r} cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"there is no function {name!r} in {where}")
    return cast(Scorer, function)


def _from_file(path: str, home: Path | None) -> ModuleType:
    if home is None:
        raise ConfigError(f"an agent without a home has no file {path!r}")
    root = home.resolve()
    found = (root / path).resolve()
    if not found.is_relative_to(root):
        raise ConfigError(f"the judge's file {path!r} is not below the home")
    if not found.is_file():
        raise ConfigError(f"there is no file {path!r} below the home {root}")
    spec = importlib.util.spec_from_file_location(f"mainstay_judges_{found.stem}", found)
    assert spec is not None
    assert spec.loader is not None, "a file that ends in .py can be loaded"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
