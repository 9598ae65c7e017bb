"""`mainstay config show|check|set|path`: shows, checks and changes the configuration."""

from __future__ import annotations

import argparse
import os

from mainstay.cli.commands.home_locator import resolve_home, run_async
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.config import loader as config
from mainstay.config.schema import resolve_data_folder
from mainstay.guards.terminal_sanitizer import escape_line


def show(options: argparse.Namespace) -> int:
    """Print all settings, those that are not defaults first."""
    loaded = config.load_config(resolve_home(options), env=os.environ)
    rows = config.list_values(loaded)
    if options.json:
        values = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        print_json({"ok": True, "path": str(loaded.path), "values": values})
        return 0
    rows.sort(key=lambda row: row[2] == "default")
    print_table(["KEY", "VALUE", "FROM"], [[name, escape_line(value, 60), origin] for name, value, origin in rows])
    return 0


def check(options: argparse.Namespace) -> int:
    # imports the tools that rules may name
    from mainstay.agent.config_warnings import (
        check_without_home,
        find_misspelled_providers,
        find_unknown_providers,
        find_unusable_tools,
    )
    from mainstay.agent.external_tools_health import find_denied_plugin_tools

    loaded = config.load_config(resolve_home(options), env=os.environ)
    settings = loaded.config
    data = resolve_data_folder(loaded.path.parent, settings)
    warnings = [*check_without_home(settings), *find_unusable_tools(settings, data)]
    if settings.channels:
        from mainstay.config.check_gateway import find_unset_channels  # only needed if there are channels

        warnings += find_unset_channels(settings, loaded.origins)
    warnings += [*find_unknown_providers(settings), *find_misspelled_providers(settings)]
    warnings += run_async(find_denied_plugin_tools(settings, loaded.path.parent))
    if settings.judges.panel or settings.workspaces:
        from mainstay.config.check_judge_functions import check_judge_functions  # only needed if there may be judges

        check_judge_functions(settings, data)
    exists = loaded.path.exists()
    if options.json:
        print_json({"ok": True, "path": str(loaded.path), "exists": exists, "warnings": warnings})
        return 0
    for warning in warnings:
        print(f"{style_text('warn', 'yellow')}: {escape_line(warning)}")
    if exists:
        print(f"{style_text('ok', 'green')}: {escape_line(str(loaded.path))}")
    else:
        print(f"{style_text('ok', 'green')}: {escape_line(str(loaded.path))} does not exist; using the defaults")
    return 0


def set_value(options: argparse.Namespace) -> int:
    home = resolve_home(options)
    config.set_value(home, options.key, options.value)
    if options.json:
        print_json({"ok": True, "path": str(home / config.FILE), "key": options.key})
    else:
        print(f"{escape_line(options.key)} set in {escape_line(str(home / config.FILE))}")
    return 0


def path(options: argparse.Namespace) -> int:
    file = resolve_home(options) / config.FILE
    if options.json:
        print_json({"ok": True, "path": str(file), "exists": file.exists()})
    else:
        print(escape_line(str(file)))
    return 0
