"""All tasks of both sets."""

from __future__ import annotations

import tasks_builtin_code
import tasks_builtin_notes
import tasks_builtin_sessions
import tasks_builtin_shell
import tasks_world_bank
import tasks_world_calendar
import tasks_world_chat
import tasks_world_files
import tasks_world_followups
import tasks_world_mail
import tasks_world_mixed
import tasks_world_tracker
import tasks_world_travel
from builtin_rig import BuiltinTask
from world_rig import WorldTask

BUILTIN_MODULES = (tasks_builtin_code, tasks_builtin_shell, tasks_builtin_notes, tasks_builtin_sessions)
WORLD_MODULES = (
    tasks_world_mail,
    tasks_world_calendar,
    tasks_world_files,
    tasks_world_chat,
    tasks_world_travel,
    tasks_world_bank,
    tasks_world_tracker,
    tasks_world_mixed,
    tasks_world_followups,
)


def load_builtin_tasks() -> list[BuiltinTask]:
    return [task for module in BUILTIN_MODULES for task in module.TASKS]


def load_world_tasks() -> list[WorldTask]:
    return [task for module in WORLD_MODULES for task in module.book.tasks]
