"""`doctor` checks of the command line itself: names of checks, libraries of the chat, terminal and locale."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping

from mainstay.core.health import CheckFinding

_LABELS = {"Elsewhere": "External tools"}  # names of checks for people, where `--json` has another one


def check_label(check: str) -> str:
    """Return the name of a check as people see it."""
    return _LABELS.get(check, check)


def check_chat_libraries() -> CheckFinding:
    missing = [name for name in ("rich", "prompt_toolkit") if importlib.util.find_spec(name) is None]
    if missing:
        message = f"{' and '.join(missing)} not installed: the chat has no colours, completion or history"
        return CheckFinding("Chat", "warn", message, "pip install -e '.[chat]'")
    return CheckFinding("Chat", "ok", "rich and prompt_toolkit are installed")


def check_terminal(env: Mapping[str, str], encoding: str, *, is_interactive: bool) -> CheckFinding:
    """Check that locale and output are UTF-8. Without a locale Python writes UTF-8, which the terminal may not read."""
    utf8 = "export LANG=en_US.UTF-8" if sys.platform == "darwin" else "export LANG=C.UTF-8"
    if encoding.lower().replace("-", "") != "utf8":
        message = f"the output encoding is {encoding}, so characters outside of it are shown as escape codes"
        return CheckFinding("Terminal", "warn", message, f"{utf8}; and unset PYTHONIOENCODING")
    variable = "LC_ALL" if env.get("LC_ALL") else "LANG"
    named = env.get(variable, "")
    if (
        not _is_utf8(named)
        and (named or is_interactive)
        and not _is_utf8(env.get("LC_CTYPE", ""), ignore_python_default=True)
    ):
        what = f"{variable} is {named}, which is not UTF-8" if named else "no locale is set (LANG)"
        return CheckFinding("Terminal", "warn", f"{what}: some characters may be shown wrong", utf8)
    if not is_interactive:
        return CheckFinding("Terminal", "ok", "UTF-8; the output is not a terminal, so it has no colour")
    if env.get("TERM", "dumb") == "dumb":
        message = "TERM is dumb: the chat has no colours, completion or history"
        return CheckFinding("Terminal", "warn", message, "export TERM=xterm-256color")
    colour = "no colour (NO_COLOR is set)" if env.get("NO_COLOR") else "colour"
    return CheckFinding("Terminal", "ok", f"UTF-8, {colour}, {env['TERM']}")


def _is_utf8(locale: str, *, ignore_python_default: bool = False) -> bool:
    """Whether a locale is UTF-8. `ignore_python_default`: ignore the value that Python's UTF-8 mode sets itself."""
    if ignore_python_default and locale == "C.UTF-8" and sys.flags.utf8_mode:
        return False
    return "utf8" in locale.lower().replace("-", "")
