"""All tasks of both sets."""

from __future__ import annotations

import tasks_builtin_code
import tasks_builtin_notes
import tasks_builtin_shell
from builtin_rig import BuiltinTask
from world_rig import WorldTask


def load_builtin_tasks() -> list[BuiltinTask]:
    return [*tasks_builtin_code.TASKS, *tasks_builtin_shell.TASKS, *tasks_builtin_notes.TASKS]


def load_world_tasks() -> list[WorldTask]:
    return []
