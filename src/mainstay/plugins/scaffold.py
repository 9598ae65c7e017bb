"""`mainstay plugin new`: a small plugin that works, to be changed into another."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.errors import ConfigError
from mainstay.plugins.package import checked_name
from mainstay.trust.guards.lines import one_line

_MANIFEST = """\
name: {name}
version: 0.1.0
description: Greets people, and counts how often.
run: python main.py

# What `python main.py --manifest` prints, laid out to be read.
actions:
  - name: greet
    description: Greet somebody by name.
    effect: unsafe        # pure: may run again and beside others; idempotent: may run again; unsafe: never twice
    timeout_s: 10
    parameters:
      type: object
      properties:
        name: {{type: string, description: Who is greeted.}}
      required: [name]
      additionalProperties: false

# What it asks for is shown before it is added. It gets nothing else.
# needs:
#   network: [api.example.com]
#   read: [~/Documents/{name}]
# env:
#   API_KEY: ${{secret:{name}-key}}
# context: [session]
# limits:
#   memory_mb: 256
"""

_MAIN = '''\
"""The plugin {name}: functions that the model can call."""

from mainstay.kit import ActionFailed, action, serve, state


@action(timeout_s=10)
def greet(name: str) -> str:
    """Greet somebody by name.

    Args:
        name: Who is greeted.
    """
    if not name.strip():
        raise ActionFailed("There is nobody to greet.")
    times = int(state.get(name) or 0) + 1
    state.set(name, str(times))
    return greeting(name, times)


def greeting(name: str, times: int) -> str:
    return f"Hello {{name}}!" if times == 1 else f"Hello {{name}}, and that is {{times}} times!"


if __name__ == "__main__":
    serve()
'''

_TEST = '''\
"""Run with pytest, in this folder."""

from main import greeting


def test_the_first_greeting_counts_nothing() -> None:
    assert greeting("Ada", 1) == "Hello Ada!"


def test_later_ones_do() -> None:
    assert greeting("Ada", 5) == "Hello Ada, and that is 5 times!"
'''

_README = """\
# {name}

A plugin for Mainstay.

    mainstay plugin call ./{name} greet name=Ada
    mainstay plugin add ./{name}

Actions are functions in `main.py`; after changing one, bring `plugin.yaml` up to date with what
`python main.py --manifest` prints.
"""

_FILES = {"plugin.yaml": _MANIFEST, "main.py": _MAIN, "test_{name}.py": _TEST, "README.md": _README}


def scaffold(folder: Path, name: str) -> list[Path]:
    """Writes a plugin into a folder that is empty or not there yet. Raises ConfigError, and then changes nothing."""
    checked_name(name)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{one_line(str(folder))} is not empty")
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        for file, text in _FILES.items():
            path = folder / file.format(name=name)
            path.write_text(text.format(name=name), encoding="utf-8")
            made.append(path)
        return made
    except OSError as error:
        raise ConfigError(f"{one_line(str(folder))} cannot be written: {error.strerror}") from None
