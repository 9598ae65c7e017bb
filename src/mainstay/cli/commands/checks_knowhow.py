"""What `doctor` looks at of know-how and triggers. Nothing is fired, and nothing is moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mainstay.agent.remembering import Place
from mainstay.agent.trust import has_knowhow
from mainstay.cli.chat.words import count
from mainstay.cli.commands.checks import Finding
from mainstay.config.schema import FILE, Config, data_home
from mainstay.core.errors import ConfigError

EVENTS = "events"
SHOWN_MAX = 5


async def knowhow(config: Config | None, home: Path) -> list[Finding]:
    if config is None:
        return []
    data = data_home(home, config)
    place = Place(data, data / "workspaces" / config.workspace)
    found = list(_known(config, place)) if has_knowhow(config, place) else []
    return found + list(_triggers(config, data, home))


def _known(config: Config, place: Place) -> Iterator[Finding]:
    from mainstay.agent.knowhow import library_of, shelf_of  # and all that they need, for those who have some

    if config.skills.enabled:
        shelf = shelf_of(config, place)
        yield from _finding("Skills", count(len(shelf.skills("")), "skill"), [*shelf.troubles(""), *shelf.warnings("")])
    if config.patterns.enabled:
        snapshot = library_of(config, place).load()
        yield from _finding(
            "Patterns", count(len(snapshot.patterns), "pattern"), [str(one) for one in snapshot.troubles]
        )


def _finding(check: str, has: str, troubles: Sequence[str]) -> Iterator[Finding]:
    if not has.startswith("0 "):
        yield Finding(check, "ok", has)
    for said in troubles[:SHOWN_MAX]:
        yield Finding(check, "warn", said, "" if "`" in said else f"mainstay {check.lower()[:-1]} list")
    if len(troubles) > SHOWN_MAX:
        yield Finding(check, "warn", f"and {len(troubles) - SHOWN_MAX} more", f"mainstay {check.lower()[:-1]} list")


def _triggers(config: Config, data: Path, home: Path) -> Iterator[Finding]:
    folder = data / EVENTS
    waiting = len(list(folder.glob("*.json"))) if folder.is_dir() else 0
    if waiting:
        yield Finding("Triggers", "ok", f"{count(waiting, 'event file')} in {folder}")
    failed = len(list((folder / "failed").glob("*.json"))) if folder.is_dir() else 0
    if failed:
        says = f"{count(failed, 'event file')} could not be used: the reasons are in {folder / 'failed'}"
        yield Finding("Triggers", "warn", says, f"mend it, and move it back to {folder}; or remove it")
    for name, entry in config.triggers.webhooks.items():
        from mainstay.config.check_webhooks import hook_of  # only for those who have some

        try:
            hook_of(name, entry)
        except ConfigError as error:
            yield Finding("Webhook", "FAIL", str(error), f"see triggers.webhooks.{name} in {home / FILE}")
        else:
            yield Finding("Webhook", "ok", f"{name}: /hooks/{name}, {entry.scheme}")
