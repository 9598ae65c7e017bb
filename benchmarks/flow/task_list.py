"""All tasks of both sets."""

from __future__ import annotations

import tasks_builtin_code
import tasks_builtin_notes
import tasks_builtin_shell
import tasks_world_bank
import tasks_world_calendar
import tasks_world_chat
import tasks_world_files
import tasks_world_mail
import tasks_world_mixed
import tasks_world_tracker
import tasks_world_travel
from builtin_rig import BuiltinTask
from world_rig import WorldTask


def load_builtin_tasks() -> list[BuiltinTask]:
    return [*tasks_builtin_code.TASKS, *tasks_builtin_shell.TASKS, *tasks_builtin_notes.TASKS]


WORLD_MODULES = (
    tasks_world_mail,
    tasks_world_calendar,
    tasks_world_files,
    tasks_world_chat,
    tasks_world_travel,
    tasks_world_bank,
    tasks_world_tracker,
    tasks_world_mixed,
)


def load_world_tasks() -> list[WorldTask]:
    return [task for module in WORLD_MODULES for task in module.book.tasks]
