"""Information flow control: which destinations a call reaches, and whether the user named or the owner allowed them.

Applies once untrusted or private content is in a conversation (taint): the defence against prompt injection that does
not depend on recognising it.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import MCP_PREFIX, CallDestinations, undeclared_fields
from mainstay.core.tools import default_of
from mainstay.trust.named_destinations import UNKNOWN_DESTINATION, is_nameable
from mainstay.trust.rule_patterns import compile_glob, path_matches, url_matches
from mainstay.trust.tool_invocation import arguments_to_dict, iterate_texts

if TYPE_CHECKING:
    from mainstay.trust.shell.analysis import ScriptAnalysis

REMOVAL_ACTION = "removes or changes things"
DESTINATION_PREFIX = "destination:"  # prefix of a grant that allows a destination
TOOL_PREFIX = "tool:"  # prefix of the destination that stands for everything a tool may do that declares no sink
_EGRESS_CAPABILITIES = ("net", "send")
# What a tool's own `reach` may raise on nonsensical arguments: then the call is a sink with unknown destinations.
_REACH_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


class SandboxGuarantees(msgspec.Struct, frozen=True):
    """What the sandbox enforces on commands: isolation, network access, deletion protection."""

    confined: bool = False  # commands cannot leave the sandbox
    network: bool = False  # commands have network access
    protects_deletions: bool = False  # removals of files that were there before can be held back


def compute_reach(tool: Tool, arguments: object, context: ToolContext) -> CallDestinations:
    """Return how far this call reaches, as the tool declares it."""
    declare_reach = getattr(tool, "reach", None)
    if declare_reach is not None:
        try:
            reach: CallDestinations = declare_reach(arguments, context)
        except _REACH_ERRORS:
            return CallDestinations(
                sink=True,
                leaves_workspace=True,
                description=f"calls {tool.name} with arguments that it cannot interpret",
            )
        return reach
    if tool.sink is False:  # an empty list names no destination, but is no statement that there is none
        return CallDestinations()
    if "sink" in undeclared_fields(tool):
        return CallDestinations(sink=True, leaves_workspace=True, destinations=(f"{TOOL_PREFIX}{tool.name}",))
    outward = any(capability.partition(".")[0] in _EGRESS_CAPABILITIES for capability in tool.capabilities)
    values = arguments_to_dict(arguments)
    names = () if isinstance(tool.sink, bool) else tool.sink
    destinations = tuple(
        text
        for name in names
        if name in values and values[name] != default_of(tool.schema, name)  # the developer chose the default
        for text in iterate_texts(values[name])
    )
    return CallDestinations(sink=True, leaves_workspace=outward, destinations=destinations)


def compute_script_reach(
    script: ScriptAnalysis, confinement: SandboxGuarantees, folder: str, cwd: str = ""
) -> CallDestinations:
    """Return how far a shell script reaches in this sandbox.

    `folder` is the directory that the call names to start in, `cwd` the session's working directory.
    """
    has_egress = confinement.network or not confinement.confined
    unclear = bool(script.opaque_reasons or script.unknown_programs)
    egress = [*script.destinations] if has_egress else []
    if has_egress and unclear:
        egress.append(UNKNOWN_DESTINATION)
    written = (
        []
        if confinement.confined
        else [target for target in script.written_paths if not is_temporary_path(target, cwd)]
    )
    removals = [_resolve_target(target, folder) for target in (*script.removals, *written)]
    removals = [target for target in removals if not is_temporary_path(target, cwd)]
    if unclear and not confinement.protects_deletions and UNKNOWN_DESTINATION not in egress:
        removals.append(UNKNOWN_DESTINATION)
    actions = [action for action, targets in (("reaches out", egress), (REMOVAL_ACTION, removals)) if targets]
    return CallDestinations(
        sink=bool(egress or removals),
        leaves_workspace=bool(egress),
        destinations=tuple(dict.fromkeys((*egress, *removals))),
        description=" and ".join(actions),
    )


def _resolve_target(target: str, folder: str) -> str:
    return (
        target
        if not folder or target == UNKNOWN_DESTINATION or target.startswith(("/", "~"))
        else posixpath.join(folder, target)
    )


def is_temporary_path(path: str, cwd: str = "") -> bool:
    """Return True for a path below /tmp without `..`, unless it is in or above the session's working directory."""
    normalised = posixpath.normpath(path)
    is_below_tmp = path.startswith("/tmp/") and normalised.startswith("/tmp/") and ".." not in path.split("/")
    overlaps_cwd = cwd and (normalised == cwd or normalised.startswith(f"{cwd}/") or cwd.startswith(f"{normalised}/"))
    return is_below_tmp and not overlaps_cwd


# --- destinations the owner allowed --------------------------------------------------------------


def is_destination_allowed(destination: str, patterns: Iterable[str], cwd: str = "") -> bool:
    """Return True if one of these patterns allows the destination. Unknown or invisible ones are never allowed."""
    if destination == UNKNOWN_DESTINATION or not is_nameable(destination):
        return False
    return any(_pattern_allows(pattern, destination, cwd) for pattern in patterns)


def _pattern_allows(pattern: str, destination: str, cwd: str) -> bool:
    if destination.startswith(MCP_PREFIX) and "/" in destination:
        server = destination.rpartition("/")[0]
        return _glob_allows(pattern, destination, cwd) or _glob_allows(pattern, server, cwd)  # all tools of the server
    return _glob_allows(pattern, destination, cwd)


def _glob_allows(pattern: str, destination: str, cwd: str) -> bool:
    if "://" in pattern:
        return url_matches(pattern, destination, broad=False)
    if "://" in destination:
        return False
    whole = unicodedata.normalize("NFC", destination)
    if ".." not in whole.split("/") and compile_glob(pattern, "/?#@\\ \t\n")(whole):
        return True
    return "/" in pattern and "@" not in destination and path_matches(pattern, destination, cwd, broad=False)
