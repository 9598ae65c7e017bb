"""Proof that a script only reads: every program in it is known to, and every path in it may be read."""

from __future__ import annotations

from mainstay.trust.shell.analysis import ScriptAnalysis


def reads_only(script: ScriptAnalysis) -> bool:
    """Return whether the script provably changes no files and contacts no host."""
    return not (
        script.opaque_reasons
        or script.unknown_programs
        or script.removals
        or script.written_paths
        or script.destinations
        or any(_may_write(command.argv) for command in script.commands)
    )


def _may_write(argv: tuple[str | None, ...]) -> bool:
    return False
