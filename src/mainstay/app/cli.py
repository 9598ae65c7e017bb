"""The `mainstay` command: parse, hand over to the verb's module, say in one sentence what went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstay.app.commands.tree import LEVELS, UsageError, build, parse
from mainstay.core.errors import MainstayError

if TYPE_CHECKING:
    import argparse
