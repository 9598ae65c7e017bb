"""`mainstay config show|check|set|path`."""

from __future__ import annotations

import argparse
import os

from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.homes import home_of
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.config import loading as config
from mainstay.config.schema import data_home


def show(options: argparse.Namespace) -> int:
    """What is not the default comes first: that is what people look for."""
    loaded = config.load_config(home_of(options), env=os.environ)
    rows = config.show(loaded)
    if options.json:
        values = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        print_json({"ok": True, "path": str(loaded.path), "values": values})
        return 0
    rows.sort(key=lambda row: row[2] == "default")
    print_table(["KEY", "VALUE", "FROM"], [[name, visible(value, 60), origin] for name, value, origin in rows])
    return 0


def check(options: argparse.Namespace) -> int:
    from mainstay.agent.config_warn import left_out, looked_over  # and the tools that rules may name

    loaded = config.load_config(home_of(options), env=os.environ)
    found = loaded.config
    data = data_home(loaded.path.parent, found)
    warnings = [*looked_over(found), *left_out(found, data)]
    if found.judges.panel or found.workspaces:
        from mainstay.config.check_judges import check_functions  # only for those who may have some

        check_functions(found, data)
    exists = loaded.path.exists()
    if options.json:
        print_json({"ok": True, "path": str(loaded.path), "exists": exists, "warnings": warnings})
        return 0
    for warning in warnings:
        print(f"{paint('warn', 'yellow')}: {visible(warning)}")
    if exists:
        print(f"{paint('ok', 'green')}: {visible(str(loaded.path))}")
    else:
        print(f"{paint('ok', 'green')}: there is no {visible(str(loaded.path))}; the defaults hold")
    return 0


def set_value(options: argparse.Namespace) -> int:
    home = home_of(options)
    config.set_value(home, options.key, options.value)
    if options.json:
        print_json({"ok": True, "path": str(home / config.FILE), "key": options.key})
    else:
        print(f"{visible(options.key)} set in {visible(str(home / config.FILE))}")
    return 0


def path(options: argparse.Namespace) -> int:
    where = home_of(options) / config.FILE
    if options.json:
        print_json({"ok": True, "path": str(where), "exists": where.exists()})
    else:
        print(visible(str(where)))
    return 0
