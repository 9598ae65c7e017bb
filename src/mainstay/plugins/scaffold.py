"""Writes the files of a new plugin from a working template (`mainstay plugin new`)."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.plugins.installer import check_plugin_name

_MANIFEST = """\
name: {name}
version: 0.1.0
description: Greets people, and counts how often.
run: python main.py

# What `python main.py --manifest` prints, formatted for reading.
actions:
  - name: greet
    description: Greet a person by name.
    effect: unsafe        # pure: may run again and in parallel; idempotent: may run again; unsafe: never twice
    timeout_s: 10
    parameters:
      type: object
      properties:
        name: {{type: string, description: Whom to greet.}}
      required: [name]
      additionalProperties: false

# Its requests are shown to the owner before it is added. It gets nothing else.
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
    """Greet a person by name.

    Args:
        name: Whom to greet.
    """
    if not name.strip():
        raise ActionFailed("The name is empty.")
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


def test_the_first_greeting_has_no_count() -> None:
    assert greeting("Ada", 1) == "Hello Ada!"


def test_later_greetings_have_a_count() -> None:
    assert greeting("Ada", 5) == "Hello Ada, and that is 5 times!"
'''

_README = """\
# {name}

A plugin for Mainstay.

    mainstay plugin call ./{name} greet name=Ada
    mainstay plugin add ./{name}

Actions are functions in `main.py`. After changing one, copy what `python main.py --manifest` prints into
`plugin.yaml`.
"""

_FILES = {"plugin.yaml": _MANIFEST, "main.py": _MAIN, "test_{name}.py": _TEST, "README.md": _README}


def scaffold_plugin(folder: Path, name: str) -> list[Path]:
    """Write a new plugin into a folder that is empty or does not exist yet, and return its files. Raises ConfigError,
    and then nothing is changed."""
    check_plugin_name(name)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{one_line(str(folder))} is not empty")
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for file, text in _FILES.items():
            path = folder / file.format(name=name)
            path.write_text(text.format(name=name), encoding="utf-8")
            paths.append(path)
        return paths
    except OSError as error:
        raise ConfigError(f"{one_line(str(folder))} cannot be written: {error.strerror}") from None
