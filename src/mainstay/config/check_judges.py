"""Checks of the `judges` configuration that the schema cannot express."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from mainstay.config.schema import Config
from mainstay.config.schema_judges_budgets_telemetry import JudgeEntry, JudgeSettings
from mainstay.core.errors import ConfigError
from mainstay.judges.judge_declaration import Judge, find_problem


def check_judges(config: Config, position_of: Callable[[tuple[str | int, ...]], str]) -> None:
    """Check the judges of all workspaces. `position_of` returns the position of a key, which begins the error. Raises
    ConfigError."""
    for keys, settings in _settings_by_keys(config).items():
        check_judge_settings(settings, lambda path, keys=keys: position_of((*keys, *path)))  # type: ignore[misc]


def check_judges_of_program(config: Config) -> None:
    """Check the judges of a `Config` that a program has made: types and bounds too, which loading checks in a file.
    Raises ConfigError."""
    for keys, settings in _settings_by_keys(config).items():
        name = ".".join(keys)
        if not isinstance(settings, JudgeSettings):
            raise ConfigError(
                f"{name} is a JudgeSettings, not {type(settings).__name__}; functions are given as Agent(judges=[…])"
            )
        for judge, entry in settings.panel.items():
            if not isinstance(entry, JudgeEntry):
                raise ConfigError(f"{name}.panel.{judge} is a JudgeEntry, not {type(entry).__name__}")
        try:
            msgspec.convert(msgspec.to_builtins(settings), JudgeSettings)
        except (msgspec.ValidationError, TypeError) as error:
            raise ConfigError(f"{name}: {error}") from None
        check_judge_settings(settings)


def _settings_by_keys(config: Config) -> Mapping[tuple[str, ...], JudgeSettings]:
    by_workspace: dict[tuple[str, ...], JudgeSettings | None] = {
        ("workspaces", name, "judges"): entry.judges for name, entry in config.workspaces.items()
    }
    own = {keys: settings for keys, settings in by_workspace.items() if settings is not None}
    return {("judges",): config.judges, **own}


def check_judge_settings(
    settings: JudgeSettings, position_of: Callable[[tuple[str, ...]], str] = lambda path: ""
) -> None:
    """Check what the schema cannot express. Raises ConfigError."""
    if not math.isfinite(settings.threshold):
        raise ConfigError(f"{position_of(('threshold',))}'threshold' of judges must be a number from 0 to 1")
    for name, entry in settings.panel.items():
        at = position_of(("panel", name))
        if bool(entry.criteria.strip()) == bool(entry.function):
            present = "both" if entry.function else "neither"
            raise ConfigError(
                f"{at}the judge {name!r} needs either `criteria` for a model or a `function`; it has {present}"
            )
        if entry.function and (entry.model is not None or entry.money is not None):
            raise ConfigError(f"{at}the judge {name!r} is a function: remove its `model` and `money`")
        if problem := find_problem(Judge(name, weight=entry.weight, timeout_s=entry.timeout_s, money=entry.money)):
            raise ConfigError(f"{at}{problem}")
