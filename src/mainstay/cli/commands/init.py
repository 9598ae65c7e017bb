"""`mainstay init`: writes a mainstay.yaml that works, after a few questions or none."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from textwrap import fill

import msgspec

from mainstay.agent.model_discovery import DiscoveredModel, explain_missing_model, find_model
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import resolve_home
from mainstay.cli.commands.init_checks import check_model, find_name_problem, refuse_secrets
from mainstay.cli.commands.output import print_json, style_text
from mainstay.cli.parser.base import UsageError
from mainstay.config import yaml_file
from mainstay.config.loader import FILE, Config, save_text
from mainstay.config.schema import check_workspace
from mainstay.config.template import ChannelChoice, InitChoices, render_config
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.io.yaml import load_yaml
from mainstay.providers.local.catalogue import DEFAULT_WEIGHTS, Weights
from mainstay.store.home import is_home_locked, prepare_home, read_lock_owner

DEFAULT_NAME = "Mainstay"


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `init` did."""

    path: Path
    choices: InitChoices
    model_reason: str = ""  # why this model was chosen; empty: the user named it
    backup: Path | None = None  # the mainstay.yaml that was replaced
    download_error: str = ""  # why the model's weights could not be downloaded; empty: they were, or are not needed


def init(options: argparse.Namespace) -> int:
    home = resolve_home(options)
    path = home / FILE
    old = yaml_file.read_file(path)
    if old is not None and not options.force:
        raise ConfigError(f"{path} exists already; change it with `mainstay config set`, or replace it with --force")
    try:
        choices, how, unpulled = _collect_choices(options)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        print_note(f"interrupted; {path} was not {'changed' if old is not None else 'written'}")
        raise
    refuse_secrets(choices)
    prepare_home(home)
    backup = _write_config(path, render_config(choices), old)
    result = InitResult(path=path, choices=choices, model_reason=how, backup=backup, download_error=unpulled)
    if options.json:
        _print_json(result)
    else:
        _print_result(result, home)
    return 0


# --- choices -------------------------------------------------------------------------------------


def _collect_choices(options: argparse.Namespace) -> tuple[InitChoices, str, str]:
    """Return the choices, why this model was chosen, and why its weights could not be downloaded."""
    discovered = _find_model(options.model, options.base_url)
    choices = _parse_options(options, discovered)
    weights = None
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.yes and not options.json:
        from mainstay.cli.commands.init_questions import ask_questions

        answers = ask_questions(choices, discovered, options)
        choices, weights = answers.choices, answers.download
    elif discovered is None:
        choices, weights = _choose_download(options, choices)
    if weights is None:
        return choices, discovered.reason if discovered is not None and discovered.spec == choices.model else "", ""
    from mainstay.cli.commands.model_download import download_weights as bring_weights

    try:
        bring_weights(weights, is_quiet=options.json)
    except MainstayError as error:  # the other answers are kept
        return choices, "", str(error)
    return choices, "its weights are on this machine", ""


def _parse_options(options: argparse.Namespace, discovered: DiscoveredModel | None) -> InitChoices:
    """Return the choices made on the command line, with the found model. Raises ConfigError before any question."""
    if options.base_url and not options.model:
        raise ConfigError("--base-url needs --model")
    if options.model:
        check_model(options.model, options.base_url)
    name = options.name or DEFAULT_NAME
    if problem := find_name_problem(name):
        raise ConfigError(f"--name: {problem}")
    return InitChoices(
        name=name,
        model=discovered.spec if discovered else None,
        base_url=discovered.base_url if discovered else None,
        workspace=check_workspace(options.workspace) if options.workspace is not None else "default",
        channel=_parse_channel(options.channel, options.set),
    )


def _parse_channel(kind: str | None, settings: list[str]) -> ChannelChoice | None:
    if kind in (None, "", "none"):
        if settings:
            raise UsageError("--set needs --channel")
        return None
    from mainstay.cli.commands.init_channel import channel_from_options  # loads the settings of all channels

    return channel_from_options(kind, settings)


def _find_model(model: str | None, base_url: str | None) -> DiscoveredModel | None:
    return DiscoveredModel(model, base_url, "given with --model") if model else find_model(Config(), os.environ)


def _choose_download(options: argparse.Namespace, choices: InitChoices) -> tuple[InitChoices, Weights | None]:
    from mainstay.cli.commands.model_download import NEEDS_RUNTIME, is_download_accepted, is_runtime_installed

    if not (options.pull or is_download_accepted()):
        return choices, None
    if not is_runtime_installed():
        raise ConfigError(NEEDS_RUNTIME)
    return msgspec.structs.replace(choices, model=f"local/{DEFAULT_WEIGHTS.name}"), DEFAULT_WEIGHTS


# --- the file ------------------------------------------------------------------------------------


def _write_config(path: Path, text: str, old: bytes | None) -> Path | None:
    """Check the new file and write it. Return the backup of the old one, if there was one."""
    with yaml_file.lock_file(path):
        if yaml_file.read_file(path) != old:
            raise ConfigError(f"{path} was changed by another command meanwhile; nothing was written")
        backup = _back_up(path, old) if old is not None else None
        try:
            save_text(path.parent, text, load_yaml(text.encode()).data)
        except ConfigError:
            if backup is not None:
                backup.unlink()
            raise
        return backup


def _back_up(path: Path, old: bytes) -> Path:
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


# --- output --------------------------------------------------------------------------------------


def _find_missing_key(choices: InitChoices) -> str:
    """Return the environment variable for the model's API key if it is not set, else ""."""
    from mainstay.providers import registry

    provider = registry.find_provider((choices.model or "").partition("/")[0])
    if choices.model is None or provider is None:
        return ""
    try:
        registry.build_provider(choices.model, ProviderSettings(base_url=choices.base_url))
    except ConfigError:
        return provider.key_variable
    return ""


def _list_variables(choices: InitChoices) -> list[dict[str, object]]:
    """Return the environment variables that the configuration needs, as in the JSON document."""
    needed: list[dict[str, object]] = []
    if variable := _find_missing_key(choices):
        needed.append({"name": variable, "for": f"the API key of {choices.model}", "set": False})
    if choices.channel is not None:
        from mainstay.cli.commands.init_channel import list_secret_variables

        needed += [
            {"name": name, "for": what, "set": is_set} for name, what, is_set in list_secret_variables(choices.channel)
        ]
    return needed


def _list_setup_steps(choices: InitChoices) -> list[str]:
    """Return what is left to do outside of Mainstay: for the API key of the model, then for the channel."""
    from mainstay.cli.commands.init_channel import remaining_steps
    from mainstay.providers import registry

    name = (choices.model or "").partition("/")[0]
    provider = registry.find_provider(name) if _find_missing_key(choices) else None
    steps = provider.setup_steps(name, {}) if provider is not None else []
    return [*steps, *(remaining_steps(choices.channel) if choices.channel is not None else [])]


def _list_next_steps(result: InitResult) -> list[tuple[str, str]]:
    """Return the commands to run next, each with its purpose."""
    choices = result.choices
    steps = []
    if result.download_error:
        steps.append((f"mainstay model pull {(choices.model or '').partition('/')[2]}", "download the model"))
    if choices.model:
        steps.append(("mainstay chat", "start a chat"))
    if choices.channel is not None:
        steps += [(f"mainstay channel test {choices.channel.kind}", "test the connection")]
        steps += [("mainstay serve", "run the gateway")]
    return [*steps, ("mainstay doctor", "check the whole setup")]


def _print_json(result: InitResult) -> None:
    choices = result.choices
    about = {"path": str(result.path), "model": choices.model, "name": choices.name, "workspace": choices.workspace}
    channel = choices.channel
    print_json(
        {
            "ok": True,
            **about,
            "channel": channel.kind if channel is not None else None,
            "backup": str(result.backup) if result.backup is not None else None,
            "variables": _list_variables(choices),
            "steps": _list_setup_steps(choices),
            "trouble": result.download_error or None,
            "next": [command for command, _ in _list_next_steps(result)],
        }
    )


def _print_result(result: InitResult, home: Path) -> None:
    choices = result.choices
    print(f"{style_text('Wrote', 'green')} {escape_line(str(result.path))}")
    if result.backup is not None:
        print(f"Backup of the old file: {escape_line(str(result.backup))}")
    if choices.model:
        reason = f" ({escape_line(result.model_reason)})" if result.model_reason else ""
        print(f"Model: {escape_line(choices.model)}{reason}")
    else:
        help = explain_missing_model(os.environ)
        print(fill(help, 100, break_on_hyphens=False) if sys.stdout.isatty() else help)
    if result.download_error:
        print(f"{style_text('Not downloaded', 'yellow')}: {escape_line(result.download_error)}")
    _print_variables_and_steps(choices)
    if is_home_locked(home):
        print_note(f"process {read_lock_owner(home).get('pid')} still uses the old {FILE}: restart it")
    print("\nNext:")
    steps = _list_next_steps(result)
    width = max(len(command) for command, _ in steps)
    for command, purpose in steps:
        print(f"  {style_text(command.ljust(width), 'bold')}  {purpose}")


def _print_variables_and_steps(choices: InitChoices) -> None:
    """Print which environment variables are needed for secrets, which are never in the file, and the set-up steps."""
    variables = _list_variables(choices)
    for variable in variables:
        state = "" if variable["set"] else " (not set yet)"
        print(f"  - {style_text(str(variable['name']), 'bold')}: {variable['for']}{state}")
    if any(not variable["set"] for variable in variables):
        print("    Set it where Mainstay is started: `export NAME=…` in a shell, EnvironmentFile= of a service.")
    for step in _list_setup_steps(choices):
        print(fill(escape_line(step), 100, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False))
