"""All tasks, and the halves of the corpus."""

from __future__ import annotations

import tasks_bank  # noqa: F401  importing adds the tasks
import tasks_calendar  # noqa: F401
import tasks_chat  # noqa: F401
import tasks_code  # noqa: F401
import tasks_desk  # noqa: F401
import tasks_files  # noqa: F401
import tasks_home  # noqa: F401
import tasks_mail  # noqa: F401
import tasks_travel  # noqa: F401
from halves import half_of
from plans import TASKS, Task

NAMES = [task.name for task in TASKS]
assert len(set(NAMES)) == len(NAMES), "the names of tasks are unique"


def tasks_of(half: str) -> list[Task]:
    return [task for task in TASKS if half in ("both", half_of(task.name))]
