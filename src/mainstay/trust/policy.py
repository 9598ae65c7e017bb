"""Policy engine: decides whether a tool call is allowed, needs approval, or is denied.

The decision is the strictest of two. Rules say which user may call a tool, and with which arguments. Information flow
says where data may go once untrusted content is in the conversation. Neither overrides the other.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, only_reads, tool_origin, undeclared_fields
from mainstay.core.tools import parameter_names
from mainstay.guards.line_escaping import one_line
from mainstay.trust.command_patterns import escape_pattern
from mainstay.trust.flow_checks import (
    NO_DESTINATION,
    PolicyContext,
    SkillRestriction,
    find_deviation,
    is_asked_for,
    may_run_before_question,
    read_last_answer,
    removes_something,
    weigh_evidence,
)
from mainstay.trust.information_flow import (
    DESTINATION_PREFIX,
    REMOVAL_ACTION,
    TOOL_PREFIX,
    SandboxGuarantees,
    compute_reach,
    compute_script_reach,
    is_destination_allowed,
)
from mainstay.trust.named_destinations import (
    UNKNOWN_DESTINATION,
    is_named_by_user,
    is_named_in_removal,
    is_removal_requested,
)
from mainstay.trust.rule_patterns import is_valid_url_pattern
from mainstay.trust.rules import (
    ApplicableRules,
    Decision,
    PolicyRules,
    RuleLayer,
    ToolRule,
    accepts_opaque_commands,
    find_allowing_rule,
    find_matching_rule,
    is_undecidable,
    suggest_rule,
)
from mainstay.trust.tool_declaration import format_declaration_hint
from mainstay.trust.tool_invocation import ToolInvocation, can_run_commands

__all__ = ["Policy", "PolicyContext", "PolicyRules", "PolicyVerdict", "SandboxGuarantees", "SkillRestriction"]

log = logging.getLogger("mainstay")

READ_CAPABILITIES = frozenset(("fs.read", "memory.read"))
CACHE_MAX = 4096
_SHOWN_MAX = 3
_SHOWN_CHARS_MAX = 200
_SKILL_RULES_SHOWN_MAX = 5
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


class PolicyVerdict(msgspec.Struct, frozen=True):
    """The decision about one call."""

    decision: Decision
    reason: str = ""  # a sentence for the user
    rule: str = ""  # the text of the rule that decided; empty: none did
    always_rule: str = ""  # the rule that would allow calls like this one from now on; empty: there is none
    protect_deletions: bool = False  # run the command so that files that were there before are not removed
    removable_paths: tuple[str, ...] = ()  # paths exempt from that, as the command writes them
    destinations: tuple[str, ...] = ()  # every known destination that the user did not name


ALLOWED = PolicyVerdict("allow")
ALLOWED_PROTECTED = PolicyVerdict("allow", protect_deletions=True)


class _ToolPermissions(msgspec.Struct, frozen=True):
    """What holds for every call of one tool by one user; cached."""

    tool: Tool  # referenced, so that no other object gets its id
    rules_by_layer: tuple[ApplicableRules, ...]  # one for each layer
    grants: tuple[ToolRule, ...]
    refusal: PolicyVerdict | None  # denied whatever the arguments
    is_external: bool  # from a plugin, MCP server or backend: denied unless a rule names it
    can_run_commands: bool
    confinement: SandboxGuarantees  # of its commands; those of a developer's own tool run on the host
    is_always_allowed: bool  # allowed without a check in an untainted conversation


class Policy:
    """The rules of one workspace, and the decision about each tool call.

    `people` are rules by user, which narrow those of the workspace. `grants` are permanent approvals: allow rules, or
    `destination:…`. A guest may only use tools that read. With `trust: open` (`controls_flow=False`) only rules
    decide.
    """

    def __init__(
        self,
        workspace: PolicyRules,
        *,
        people: Mapping[str, PolicyRules] | None = None,
        grants: Sequence[str] = (),
        confinement: SandboxGuarantees,
        is_guest: Callable[[str], bool] | None = None,
        controls_flow: bool = True,
    ) -> None:
        self.confinement = confinement
        self.controls_flow = controls_flow
        self._warned_tools: set[str] = set()  # undeclared tools whose first question was logged
        self._workspace_layer = RuleLayer(workspace)
        self._user_layers = {name: RuleLayer(rules) for name, rules in (people or {}).items()}
        for layer in (self._workspace_layer, *self._user_layers.values()):
            for destination in layer.rules.destinations:
                _validate_destination(destination)
        self._guest_layer = RuleLayer(PolicyRules(read_only=True))
        self._is_guest = is_guest or (lambda person: False)
        self._permissions: dict[tuple[int, str, tuple[str, ...], bool], _ToolPermissions] = {}
        self.replace_grants(grants)

    def replace_grants(self, grants: Sequence[str]) -> None:
        """Replace all grants. Raises ConfigError, and changes nothing, if one is invalid."""
        rules = tuple(ToolRule.parse(grant) for grant in grants if not grant.startswith(DESTINATION_PREFIX))
        destinations = tuple(
            _validate_destination(grant.removeprefix(DESTINATION_PREFIX))
            for grant in grants
            if grant.startswith(DESTINATION_PREFIX)
        )
        self._grant_rules, self._granted_destinations = rules, destinations
        self._permissions.clear()

    def has_rule_for(self, tool: Tool) -> bool:
        """Return True if an allow or ask rule names this tool. External tools without one are not even offered."""
        share = self._workspace_layer.select_rules(tool, tool.capabilities)
        granted = any(rule.covers_tool(tool.name, tool.capabilities, broad=False) for rule in self._grant_rules)
        return bool(share.allow or share.ask or granted)

    def may_have_rule_for(self, prefix: str, capability: str) -> bool:
        """Return True if a rule may name a tool with this name prefix, before the tool itself is known."""
        rules = (*self._workspace_layer.allow, *self._workspace_layer.ask, *self._grant_rules)
        return any(rule.may_cover_prefix(prefix, capability) for rule in rules)

    def refuses_sub_agents(self, tool: Tool, person: str) -> bool:
        """Return True if every call of this tool by a sub-agent of this person would be refused: a rule without a
        pattern denies it, or says to ask, which a sub-agent cannot."""
        guest = bool(person) and self._is_guest(person)
        permissions = self._build_permissions((id(tool), person, tool.capabilities, guest), tool)
        if permissions.refusal is not None:
            return True
        deny = [rule for share in permissions.rules_by_layer for rule in share.deny]
        ask = [rule for share in permissions.rules_by_layer for rule in share.ask] if not permissions.grants else []
        return any(not rule.arguments for rule in (*deny, *ask))

    def decide(
        self, tool: Tool, arguments: object, context: ToolContext, policy_context: PolicyContext
    ) -> PolicyVerdict:
        needs = getattr(tool, "needs", None)
        capabilities = tool.capabilities if needs is None else tuple(needs(arguments))
        person = policy_context.person
        key = (id(tool), person, capabilities, bool(person) and self._is_guest(person))
        permissions = self._permissions.get(key) or self._build_permissions(key, tool)
        careful = self.controls_flow and (policy_context.tainted or policy_context.has_private_content)
        narrowing = policy_context.skill_restrictions
        if permissions.is_always_allowed and not careful and not narrowing:
            return ALLOWED
        if permissions.refusal is not None:
            return permissions.refusal
        call = ToolInvocation(
            tool, arguments, policy_context.cwd, policy_context.read_access, policy_context.to_host_path
        )
        verdict = self._decide_by_rules(permissions, call)
        if careful and verdict.decision != "deny":
            verdict = _choose_stricter(verdict, self._decide_by_flow(permissions, call, context, policy_context))
        if narrowing and verdict.decision == "allow" and (why := _explain_violation(narrowing, call)):
            verdict = PolicyVerdict(
                "ask", why, protect_deletions=verdict.protect_deletions, removable_paths=verdict.removable_paths
            )
        if verdict.decision == "ask" and policy_context.is_sub_agent:
            return PolicyVerdict("deny", f"{verdict.reason} A sub-agent cannot ask for approval.", verdict.rule)
        return verdict

    def is_sink(self, tool: Tool, arguments: object, context: ToolContext, cwd: str = "") -> bool:
        """Return True if the call carries data out, or changes something that outlives the conversation."""
        reach = _compute_call_reach(ToolInvocation(tool, arguments, cwd), self._confinement_of(tool), context)
        return reach.sink or reach.leaves_workspace

    def _confinement_of(self, tool: Tool) -> SandboxGuarantees:
        """Return the sandbox's guarantees for a tool's commands; those of a developer's own tool run on the host."""
        return self.confinement if getattr(tool, "runs_in_sandbox", False) else SandboxGuarantees()

    # --- rules ---------------------------------------------------------------------------------

    def _build_permissions(self, key: tuple[int, str, tuple[str, ...], bool], tool: Tool) -> _ToolPermissions:
        _, person, capabilities, guest = key
        layers = [self._workspace_layer, *([self._guest_layer] if guest else [])]
        if (user_layer := self._user_layers.get(person)) is not None:
            layers.append(user_layer)
        shares = tuple(layer.select_rules(tool, capabilities) for layer in layers)
        grants = tuple(rule for rule in self._grant_rules if rule.covers_tool(tool.name, capabilities, broad=False))
        refused = next(
            (refusal for layer in layers if (refusal := _find_refusal(layer, tool, capabilities)) is not None), None
        )
        foreign = bool(tool_origin(tool))
        executes = can_run_commands(tool)
        confinement = self._confinement_of(tool)
        has_rules = any(share.deny or share.ask or share.allow for share in shares)
        free = not (has_rules or foreign or refused) and not (executes and not confinement.confined)
        permissions = _ToolPermissions(tool, shares, grants, refused, foreign, executes, confinement, free)
        if len(self._permissions) >= CACHE_MAX:
            self._permissions.clear()
        self._permissions[key] = permissions
        return permissions

    def _decide_by_rules(self, permissions: _ToolPermissions, call: ToolInvocation) -> PolicyVerdict:
        for share in permissions.rules_by_layer:
            if (rule := find_matching_rule(share.deny, call)) is not None:
                return PolicyVerdict("deny", f"A rule forbids it: {rule.text}.", rule.text)
        granted = find_allowing_rule(permissions.grants, call)
        asks = [
            verdict for share in permissions.rules_by_layer if (verdict := _find_ask_verdict(share, call)) is not None
        ]
        if granted is not None:
            return PolicyVerdict("allow", rule=granted.text)
        if asks:
            return msgspec.structs.replace(asks[0], always_rule=suggest_rule(call))
        allowed = [find_allowing_rule(share.allow, call) for share in permissions.rules_by_layer]
        if permissions.is_external and allowed[0] is None:
            return PolicyVerdict("deny", f"{call.tool.name} is a third-party tool, and no rule names it.")
        for share, rule in zip(permissions.rules_by_layer, allowed, strict=True):
            if rule is None and share.allow:
                patterns = ", ".join(allow_rule.text for allow_rule in share.allow[:_SHOWN_MAX])
                return PolicyVerdict(
                    "ask",
                    f"The rules allow {call.tool.name} only like this: {patterns}.",
                    always_rule=suggest_rule(call),
                )
        matched = next((rule for rule in allowed if rule is not None), None)
        if matched is None and self._runs_on_host(permissions, call):
            why = "Commands run on this machine itself, without a sandbox, and no rule allows this one."
            return PolicyVerdict("ask", why, always_rule=suggest_rule(call))
        return PolicyVerdict("allow", rule=matched.text if matched is not None else "")

    def _runs_on_host(self, permissions: _ToolPermissions, call: ToolInvocation) -> bool:
        if not permissions.can_run_commands or permissions.confinement.confined:
            return False
        if call.script is None:
            return "command" not in parameter_names(call.tool.schema)
        return not call.only_reads(_start_folder(call))

    # --- flow ----------------------------------------------------------------------------------

    def _decide_by_flow(
        self, permissions: _ToolPermissions, call: ToolInvocation, context: ToolContext, policy_context: PolicyContext
    ) -> PolicyVerdict:
        reach = _compute_call_reach(call, permissions.confinement, context)
        guarded = (
            call.script is not None and policy_context.tainted and permissions.confinement.protects_deletions
        )  # removals are held back under taint; checked paths are exempt by name, so that swapping a link gains nothing
        if not reach.sink or not (policy_context.tainted or reach.leaves_workspace):
            return ALLOWED_PROTECTED if guarded else ALLOWED
        removals = _removed_destinations(call, reach)
        asked_for = is_asked_for(call, policy_context)
        unnamed = self._find_unnamed(call, reach, removals, policy_context, is_requested=asked_for)
        if not unnamed:
            if why := find_deviation(call, reach, context, policy_context):
                return PolicyVerdict("ask", why, protect_deletions=guarded)
            return PolicyVerdict("allow", protect_deletions=True, removable_paths=removals) if guarded else ALLOWED
        if guarded and not reach.leaves_workspace and may_run_before_question(call, unnamed, policy_context):
            named = tuple(one for one in removals if one not in unnamed)
            return PolicyVerdict("allow", protect_deletions=True, removable_paths=named)
        always = (
            f"{DESTINATION_PREFIX}{escape_pattern(unnamed[0])}"
            if len(unnamed) == 1 and is_destination_allowed(unnamed[0], (escape_pattern(unnamed[0]),))
            else ""
        )
        if "sink" in undeclared_fields(call.tool):
            self._warn_undeclared(call.tool)
        return PolicyVerdict(
            "ask",
            _explain_flow(call, reach, unnamed, policy_context, is_requested=asked_for),
            always_rule=always,
            protect_deletions=guarded,
            destinations=tuple(one for one in unnamed if one not in (NO_DESTINATION, UNKNOWN_DESTINATION)),
        )

    def _find_unnamed(
        self,
        call: ToolInvocation,
        reach: CallDestinations,
        removals: tuple[str, ...],
        policy_context: PolicyContext,
        *,
        is_requested: bool,
    ) -> list[str]:
        """Return the destinations that neither the user nor the owner named; `NO_DESTINATION` for a call that has none,
        unless the user asked for it."""
        allowed = self._allowed_destinations(policy_context.person)
        user_texts, cwd = policy_context.read_user_texts(), policy_context.cwd
        removes = removes_something(call)
        # of several destinations one is the thing itself, the others are where it is
        has_removed = (
            any(is_named_in_removal(one, user_texts, cwd) for one in reach.destinations[1:]) if removes else False
        )
        unnamed = []
        for destination in reach.destinations:
            if destination in removals:
                is_named = policy_context.is_own_file(posixpath.join(cwd, destination)) or is_removal_requested(
                    destination, user_texts, cwd, shown=read_last_answer(policy_context)
                )
            elif removes and not has_removed:
                is_named = is_requested and is_named_in_removal(destination, user_texts, cwd)
            else:
                is_named = is_requested and is_named_by_user(
                    destination, user_texts, cwd, as_recipient=not only_reads(call.tool)
                )
            if not is_named and not is_destination_allowed(destination, allowed, cwd):
                unnamed.append(destination)
        if not reach.destinations:
            unnamed.append(NO_DESTINATION)
        if call.script is not None or not is_requested or not unnamed:
            return unnamed
        return weigh_evidence(call, unnamed, policy_context, has_others=len(reach.destinations) > 1)

    def _warn_undeclared(self, tool: Tool) -> None:
        if tool.name not in self._warned_tools:
            self._warned_tools.add(tool.name)
            log.warning(
                "the tool %s needs approval because it does not declare where it sends data; declare it: %s",
                tool.name,
                format_declaration_hint(tool.name),
            )

    def _allowed_destinations(self, person: str) -> tuple[str, ...]:
        user_layer = self._user_layers.get(person)
        return (
            *self._workspace_layer.rules.destinations,
            *(user_layer.rules.destinations if user_layer else ()),
            *self._granted_destinations,
        )


def _find_refusal(layer: RuleLayer, tool: Tool, capabilities: tuple[str, ...]) -> PolicyVerdict | None:
    if withheld := layer.find_missing_capability(capabilities):
        return PolicyVerdict("deny", f"{tool.name} needs {withheld}, which is not granted here.")
    if (
        layer.rules.read_only
        and tool.effect != "pure"
        and not (capabilities and READ_CAPABILITIES.issuperset(capabilities))
    ):
        return PolicyVerdict("deny", f"Only reading is allowed here, and {tool.name} does more.")
    return None


def _find_ask_verdict(rules: ApplicableRules, call: ToolInvocation) -> PolicyVerdict | None:
    if (rule := find_matching_rule(rules.ask, call)) is not None:
        return PolicyVerdict("ask", f"A rule says to ask: {rule.text}.", rule.text)
    if is_undecidable((*rules.deny, *rules.ask), call) and not accepts_opaque_commands(rules.allow, call):
        assert call.script is not None
        return PolicyVerdict(
            "ask", f"It is unknown whether it does what a rule forbids. {call.script.opaque_reasons[0]}"
        )
    return None


def _choose_stricter(by_rules: PolicyVerdict, by_flow: PolicyVerdict) -> PolicyVerdict:
    """Return the stricter verdict. If both ask, no single rule would allow the call from now on."""
    if _STRICTNESS[by_flow.decision] > _STRICTNESS[by_rules.decision]:
        return by_flow
    guarded, removable = by_flow.protect_deletions, by_flow.removable_paths
    if by_flow.decision == "ask":
        return msgspec.structs.replace(
            by_rules,
            reason=f"{by_flow.reason} {by_rules.reason}",
            always_rule="",
            protect_deletions=guarded,
            destinations=by_flow.destinations,
        )
    return (
        msgspec.structs.replace(by_rules, protect_deletions=guarded, removable_paths=removable) if guarded else by_rules
    )


def _compute_call_reach(call: ToolInvocation, confinement: SandboxGuarantees, context: ToolContext) -> CallDestinations:
    reach = compute_reach(call.tool, call.arguments, context)
    if call.script is None:
        return reach
    return _join_reaches(reach, compute_script_reach(call.script, confinement, _start_folder(call), call.cwd))


def _join_reaches(first: CallDestinations, second: CallDestinations) -> CallDestinations:
    if not first.sink:
        return second
    if not second.sink or not first.destinations:
        return first
    return CallDestinations(
        sink=True,
        leaves_workspace=first.leaves_workspace or second.leaves_workspace,
        destinations=(*first.destinations, *second.destinations),
        description=first.description or second.description,
    )


def _removed_destinations(call: ToolInvocation, reach: CallDestinations) -> tuple[str, ...]:
    """Return the destinations that a command would remove or change, as opposed to those that it connects to."""
    if call.script is None:
        return ()
    connections = set(call.script.destinations) - set(call.script.removals)
    return tuple(
        destination
        for destination in reach.destinations
        if destination not in connections and destination != UNKNOWN_DESTINATION
    )


def _start_folder(call: ToolInvocation) -> str:
    folder = call.arguments_by_name.get("cwd")
    return folder if isinstance(folder, str) else ""


def _explain_flow(
    call: ToolInvocation,
    reach: CallDestinations,
    unnamed: Sequence[str],
    policy_context: PolicyContext,
    *,
    is_requested: bool,
) -> str:
    content = "Content from outside" if policy_context.tainted else "Something private"
    action = f" It {reach.description}." if reach.description else ""
    if undeclared := next((one for one in unnamed if one.startswith(TOOL_PREFIX)), ""):
        name = undeclared.removeprefix(TOOL_PREFIX)
        return (
            f"{content} is in this conversation, and {name} does not declare whether it sends data out or changes "
            f"something. If it does neither, declare that once: {format_declaration_hint(name)}."
        )
    if not is_requested:
        return f"{content} is in this conversation, and the user's request does not ask for {call.tool.name}.{action}"
    if unnamed == [NO_DESTINATION]:
        return f"{content} is in this conversation, and this would pass it on or act on it.{action}"
    if all(destination == UNKNOWN_DESTINATION for destination in unnamed):
        return f"{content} is in this conversation, and the destination of this is not known before it runs.{action}"
    known = [one_line(destination[:_SHOWN_CHARS_MAX]) for destination in unnamed if destination != UNKNOWN_DESTINATION]
    more = f" and {len(known) - _SHOWN_MAX} more" if len(known) > _SHOWN_MAX else ""
    unknown = ", and more that is not known before it runs" if UNKNOWN_DESTINATION in unnamed else ""
    listed = f"{', '.join(known[:_SHOWN_MAX])}{more}{unknown}"
    if not reach.leaves_workspace and reach.description == REMOVAL_ACTION:
        return (
            f"{content} is in this conversation, and the user did not ask for this to be removed or changed: {listed}."
        )
    return f"{content} is in this conversation, and the user did not name this destination: {listed}.{action}"


def _validate_destination(pattern: str) -> str:
    if not pattern.strip() or ("://" in pattern and not is_valid_url_pattern(pattern)):
        raise ConfigError(f"The destination {pattern!r} is not valid; write an address like https://example.com/**.")
    return pattern


# --- skills ----------------------------------------------------------------------------------


def _explain_violation(restrictions: Sequence[SkillRestriction], call: ToolInvocation) -> str:
    """Return why this call needs approval; empty if the rules of every active skill allow it.

    Calls that only read are never restricted. A second skill never restores what the first one excludes.
    """
    tool = call.tool
    if tool.effect == "pure" and not tool.sink:
        return ""
    for restriction in restrictions:
        rules = [
            rule
            for rule in _parse_skill_rules(restriction.rules)
            if rule.covers_tool(tool.name, tool.capabilities, broad=False)
        ]
        if find_allowing_rule(tuple(rules), call) is None:
            listed = ", ".join(restriction.rules[:_SKILL_RULES_SHOWN_MAX]) + (
                ", …" if len(restriction.rules) > _SKILL_RULES_SHOWN_MAX else ""
            )
            return f"The skill {restriction.skill} uses only {listed}."
    return ""


def _parse_skill_rules(rules: tuple[str, ...]) -> tuple[ToolRule, ...]:
    """Parse the rules; an invalid one is skipped and so allows nothing."""
    parsed = []
    for text in rules:
        try:
            parsed.append(ToolRule.parse(text))
        except ConfigError:
            continue
    return tuple(parsed)
