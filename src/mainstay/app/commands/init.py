"""`mainstay init`: a home with a configuration that works, in a few questions or none."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from mainstay.app import config_file
from mainstay.app.chat.safe import visible
from mainstay.app.commands.homes import home_of
from mainstay.app.commands.out import paint, print_json
from mainstay.app.config import FILE, Config, load_config
from mainstay.app.discover import NO_MODEL_HELP, Found, find_model
from mainstay.core.errors import ConfigError
from mainstay.store.home import prepare

NAME = "Mainstay"


class Wishes(msgspec.Struct, frozen=True):
    """What the file is made of."""

    name: str
    model: str | None
    base_url: str | None


def init(options: argparse.Namespace) -> int:
    home = home_of(options)
    path = home / FILE
    if path.exists() and not options.force:
        raise ConfigError(f"{path} is there already; `mainstay config set` changes it, --force replaces it")
    found = _found(options.model, options.base_url)
    asking = sys.stdin.isatty() and not options.yes and not options.json
    given = Wishes(options.name or NAME, found.spec if found else None, found.base_url if found else None)
    wishes = _asked(given, found, options) if asking else given
    prepare(home)
    _write(path, wishes)
    if options.json:
        print_json({"ok": True, "path": str(path), "model": wishes.model, "name": wishes.name})
    else:
        _tell(path, wishes, found)
    return 0


def _found(model: str | None, base_url: str | None) -> Found | None:
    if model:
        return Found(model, base_url, "you asked for it")
    found = find_model(Config(), os.environ)
    return msgspec.structs.replace(found, base_url=base_url) if found and base_url else found


def _asked(given: Wishes, found: Found | None, options: argparse.Namespace) -> Wishes:
    print("A few questions; Enter takes what is in brackets.\n")
    name, model = given.name, given.model
    if not options.name:
        name = _ask("What should the agent be called?", given.name) or given.name
    if not options.model:
        print(f"Found {visible(found.spec)}: {visible(found.how)}." if found else NO_MODEL_HELP)
        model = _ask("Which model should it ask?", given.model or "none, for now") or given.model
        model = None if model == "none, for now" else model
    return Wishes(name, model, given.base_url if model == given.model else None)


def _ask(question: str, default: str) -> str:
    try:
        return input(f"{question} [{visible(default)}] ").strip() or default
    except EOFError:
        print()
        return default


def _write(path: Path, wishes: Wishes) -> None:
    """Checked before it replaces anything."""
    text = draft(wishes)
    old = config_file.read(path)
    config_file.write(path, text)
    try:
        load_config(path.parent, env=os.environ)
    except ConfigError:
        if old is None:
            path.unlink()
        else:
            config_file.write(path, old.decode("utf-8", "surrogateescape"))
        raise


def draft(wishes: Wishes) -> str:
    """The file, with what most people change next as comments."""
    written = config_file.written
    lines = [
        "# Mainstay's configuration. `mainstay config show` prints every setting, `mainstay config check` checks this.",
        "",
        "# The model to ask, as <provider>/<model>. Keys come from the environment (OPENAI_API_KEY and the like).",
        f"model: {written(wishes.model)}" if wishes.model else "# model: anthropic/claude-haiku-4-5",
        "",
        *_providers(wishes),
        "",
        "# What the agent is told before anything else.",
        f"instructions: {written(f'Your name is {wishes.name}. Be helpful, brief and honest.')}",
        "",
        "# Bounds on everything; these are the defaults.",
        "# limits:",
        "#   steps_max: 25          # model calls in one turn",
        "#   tool_timeout_s: 30     # one tool call",
        "#   model_timeout_s: 300   # one model call",
    ]
    return "\n".join(lines) + "\n"


def _providers(wishes: Wishes) -> list[str]:
    if wishes.model and wishes.base_url:
        provider = wishes.model.partition("/")[0]
        address = config_file.written(wishes.base_url)
        return ["# Where the model is reached.", "providers:", f"  {provider}:", f"    base_url: {address}"]
    return [
        "# Another address, or a key from a variable of your own:",
        "# providers:",
        "#   openai:",
        "#     base_url: http://127.0.0.1:8000/v1",
        "#     api_key: ${MY_KEY}",
    ]


def _tell(path: Path, wishes: Wishes, found: Found | None) -> None:
    print(f"{paint('Wrote', 'green')} {visible(str(path))}")
    if wishes.model:
        why = f" ({visible(found.how)})" if found and found.spec == wishes.model else ""
        print(f"Model: {visible(wishes.model)}{why}")
        print("Next: mainstay chat")
    else:
        print(NO_MODEL_HELP)
