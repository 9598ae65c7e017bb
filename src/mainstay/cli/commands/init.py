"""`mainstay init`: a home with a configuration that works, in a few questions or none."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from textwrap import fill

import msgspec

from mainstay.agent.discover import Found, find_model, no_model_help
from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.homes import home_of
from mainstay.cli.commands.init_checks import check_model, refuse_secrets, wrong_name
from mainstay.cli.commands.init_draft import Channel, Wishes, draft
from mainstay.cli.commands.out import paint, print_json
from mainstay.cli.commands.talking import tell
from mainstay.cli.commands.verbs import UsageError
from mainstay.config import yaml_file
from mainstay.config.loading import FILE, Config, save
from mainstay.config.schema import check_workspace
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.io.yaml import load
from mainstay.providers.local.weights import FIRST, Weights
from mainstay.store.home import is_owned, owner, prepare

NAME = "Mainstay"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What there is now. `unpulled`: why the weights of the model are not here after all."""

    path: Path
    wishes: Wishes
    how: str = ""
    backup: Path | None = None
    unpulled: str = ""


def init(options: argparse.Namespace) -> int:
    home = home_of(options)
    path = home / FILE
    old = yaml_file.read(path)
    if old is not None and not options.force:
        raise ConfigError(f"{path} is there already; `mainstay config set` changes it, --force replaces it")
    try:
        wishes, how, unpulled = _wanted(options)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        tell(f"stopped; {path} {'is as it was' if old is not None else 'was not written'}")
        raise
    refuse_secrets(wishes)
    prepare(home)
    backup = _replace(path, draft(wishes), old)
    made = Made(path=path, wishes=wishes, how=how, backup=backup, unpulled=unpulled)
    if options.json:
        _print_json(made)
    else:
        _tell(made, home)
    return 0


# --- what is wanted ------------------------------------------------------------------------------


def _wanted(options: argparse.Namespace) -> tuple[Wishes, str, str]:
    """What to write, why that model, and why its weights could not be brought."""
    found = _found(options.model, options.base_url)
    wishes = _given(options, found)
    bring = None
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.yes and not options.json:
        from mainstay.cli.commands.init_questions import ask_all

        answers = ask_all(wishes, found, options)
        wishes, bring = answers.wishes, answers.bring
    elif found is None:
        wishes, bring = _offered(options, wishes)
    if bring is None:
        return wishes, found.how if found is not None and found.spec == wishes.model else "", ""
    from mainstay.cli.commands.bringing import bring as bring_weights

    try:
        bring_weights(bring, quiet=options.json)
    except MainstayError as error:  # the rest of what was answered is worth keeping
        return wishes, "", str(error)
    return wishes, "its weights are on this machine", ""


def _given(options: argparse.Namespace, found: Found | None) -> Wishes:
    """What the command line says, and what was found. Raises for what makes no sense, before anybody is asked."""
    if options.base_url and not options.model:
        raise ConfigError("--base-url says where a model is reached: name it with --model")
    if options.model:
        check_model(options.model, options.base_url)
    name = options.name or NAME
    if said := wrong_name(name):
        raise ConfigError(f"--name: {said}")
    return Wishes(
        name=name,
        model=found.spec if found else None,
        base_url=found.base_url if found else None,
        workspace=check_workspace(options.workspace) if options.workspace is not None else "default",
        channel=_channel(options.channel, options.set),
    )


def _channel(kind: str | None, settings: list[str]) -> Channel | None:
    if kind in (None, "", "none"):
        if settings:
            raise UsageError("--set is about a channel: name it with --channel")
        return None
    from mainstay.cli.commands.init_channel import given  # and what channels need, for those who want one

    return given(kind, settings)


def _found(model: str | None, base_url: str | None) -> Found | None:
    return Found(model, base_url, "you asked for it") if model else find_model(Config(), os.environ)


def _offered(options: argparse.Namespace, wishes: Wishes) -> tuple[Wishes, Weights | None]:
    from mainstay.cli.commands.bringing import NEEDS_RUNTIME, accepted, can_run

    if not (options.pull or accepted()):
        return wishes, None
    if not can_run():
        raise ConfigError(NEEDS_RUNTIME)
    return msgspec.structs.replace(wishes, model=f"local/{FIRST.name}"), FIRST


# --- the file ------------------------------------------------------------------------------------


def _replace(path: Path, text: str, old: bytes | None) -> Path | None:
    """Checked before it replaces anything. The old one is kept beside it, whatever it says; where, if there was one."""
    with yaml_file.changing(path):
        if yaml_file.read(path) != old:
            raise ConfigError(f"{path} was changed by another command meanwhile, and is left as it is")
        backup = _kept(path, old) if old is not None else None
        try:
            save(path.parent, text, load(text.encode()).data)
        except ConfigError:
            if backup is not None:
                backup.unlink()
            raise
        return backup


def _kept(path: Path, old: bytes) -> Path:
    backup = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
    number = 1
    while backup.exists():
        number += 1
        backup = backup.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}-{number}.bak")
    handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(old)
        file.flush()
        os.fsync(file.fileno())
    return backup


# --- what is said --------------------------------------------------------------------------------


def _missing_key(wishes: Wishes) -> str:
    """The variable that the model's key belongs into, if it is not set."""
    from mainstay.providers import catalogue

    place = catalogue.PLACES.get((wishes.model or "").partition("/")[0])
    if wishes.model is None or place is None:
        return ""
    try:
        catalogue.make(wishes.model, base_url=wishes.base_url)
    except ConfigError:
        return place.key_variable
    return ""


def _variables(wishes: Wishes) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    if variable := _missing_key(wishes):
        found.append({"name": variable, "for": f"the key of {wishes.model}", "set": False})
    if wishes.channel is not None:
        from mainstay.cli.commands.init_channel import variables

        found += [{"name": name, "for": what, "set": there} for name, what, there in variables(wishes.channel)]
    return found


def _next(made: Made) -> list[tuple[str, str]]:
    """What to type now, and why."""
    wishes = made.wishes
    todo = []
    if made.unpulled:
        todo.append((f"mainstay model pull {(wishes.model or '').partition('/')[2]}", "bring the model"))
    if wishes.model:
        todo.append(("mainstay chat", "talk to it"))
    if wishes.channel is not None:
        todo += [(f"mainstay channel test {wishes.channel.kind}", "see whether it can be reached there")]
        todo += [("mainstay serve", "be there")]
    return [*todo, ("mainstay doctor", "see what works, and what does not")]


def _print_json(made: Made) -> None:
    from mainstay.cli.commands.init_channel import left_to_do

    wishes = made.wishes
    about = {"path": str(made.path), "model": wishes.model, "name": wishes.name, "workspace": wishes.workspace}
    channel = wishes.channel
    print_json(
        {
            "ok": True,
            **about,
            "channel": channel.kind if channel is not None else None,
            "backup": str(made.backup) if made.backup is not None else None,
            "variables": _variables(wishes),
            "steps": left_to_do(channel) if channel is not None else [],
            "trouble": made.unpulled or None,
            "next": [command for command, _ in _next(made)],
        }
    )


def _tell(made: Made, home: Path) -> None:
    wishes = made.wishes
    print(f"{paint('Wrote', 'green')} {visible(str(made.path))}")
    if made.backup is not None:
        print(f"The old one is kept: {visible(str(made.backup))}")
    if wishes.model:
        print(f"Model: {visible(wishes.model)}{f' ({visible(made.how)})' if made.how else ''}")
    else:
        said = no_model_help(os.environ)
        print(fill(said, 100, break_on_hyphens=False) if sys.stdout.isatty() else said)
    if made.unpulled:
        print(f"{paint('Not brought', 'yellow')}: {visible(made.unpulled)}")
    _tell_secrets(wishes)
    if is_owned(home):
        tell(f"process {owner(home).get('pid')} works with what {FILE} said before: start it again")
    print("\nNext:")
    todo = _next(made)
    width = max(len(command) for command, _ in todo)
    for command, why in todo:
        print(f"  {paint(command.ljust(width), 'bold')}  {why}")


def _tell_secrets(wishes: Wishes) -> None:
    """Which variables are wanted, and where they belong. None of them is in the file."""
    variables = _variables(wishes)
    for one in variables:
        print(f"  - {paint(str(one['name']), 'bold')} is {one['for']}{'' if one['set'] else ', and is not set yet'}")
    if any(not one["set"] for one in variables):
        print("    Set it where Mainstay is started: `export NAME=…` in a shell, EnvironmentFile= of a service.")
    if wishes.channel is not None:
        from mainstay.cli.commands.init_channel import left_to_do

        for step in left_to_do(wishes.channel):
            print(fill(visible(step), 100, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False))
