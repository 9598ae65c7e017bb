"""Health checks of the configuration: the file, the functions of judges, the webhooks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mainstay.config.loader import FILE, Config, load_config
from mainstay.config.schema import resolve_data_folder
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckFinding
from mainstay.core.outcome_text import format_count


def check_configuration(home: Path) -> tuple[Config | None, CheckFinding]:
    """Load the configuration; None if it is not valid."""
    try:
        loaded = load_config(home, env=os.environ)
    except ConfigError as error:
        message, _, command = str(error).partition(": run `")  # an error may name the command that fixes it
        fix = error.fix or command.removesuffix("`") or f"edit {home / FILE}"
        return None, CheckFinding("Configuration", "FAIL", message, fix)
    if not loaded.path.exists():
        return loaded.config, CheckFinding("Configuration", "ok", f"{loaded.path} does not exist; using the defaults")
    return loaded.config, CheckFinding("Configuration", "ok", f"{loaded.path} is valid")


def check_judges(config: Config, home: Path) -> list[CheckFinding]:
    """Check that the functions of configured judges can be imported."""
    if not config.judges.panel and not any(space.judges is not None for space in config.workspaces.values()):
        return []
    from mainstay.config.check_judge_functions import check_judge_functions

    try:
        check_judge_functions(config, resolve_data_folder(home, config))
    except ConfigError as error:
        return [CheckFinding("Judges", "FAIL", str(error), f"create it, or edit {home / FILE}")]
    panel = len(config.judges.panel)
    message = f"{format_count(panel, 'judge')} on the panel" if panel else "some workspaces have their own panel"
    return [CheckFinding("Judges", "ok", message)]


def check_webhooks(config: Config, home: Path) -> Iterator[CheckFinding]:
    """Check that each configured webhook can be built: its scheme, secret and template."""
    for name, entry in config.triggers.webhooks.items():
        from mainstay.config.check_webhooks import build_webhook  # only needed if there are some

        try:
            build_webhook(name, entry)
        except ConfigError as error:
            yield CheckFinding("Webhook", "FAIL", str(error), f"see triggers.webhooks.{name} in {home / FILE}")
        else:
            yield CheckFinding("Webhook", "ok", f"{name}: /hooks/{name}, {entry.scheme}")
