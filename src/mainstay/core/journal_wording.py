"""Sentences that the runtime writes into journals, by version.

A turn names the version it was recorded with (`TurnStarted.wording`; absent: 0.1). A replay and a resumed turn use the
sentences of that version, so a replay stays byte-identical when a later release says something in other words. A
version is never edited: a changed sentence is a new version.

A sentence needs a version if a replay produces it again or recognises it: results that the turn loop gives to calls
without running them, its notices and answers at a limit, bounds in outcomes, and the result of a call that a fork cut
off. All other sentences are replayed from the recording and need no version: texts of tool results (those of the
toolbox, of a policy, a budget or a circuit breaker that refused a call, of a sub-agent), corrections, verdicts, reasons
of restarts, and failures. `tests/unit/lane/test_replay_wording.py` lists the latter for the modules of the turn.
"""

from __future__ import annotations

import msgspec


class JournalWording(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sentences of one version: results of calls that did not run or did not finish, notices, bounds, answers.

    Also whether aborted answers are marked, and refused prompts leave the context, which a replay does again.
    """

    cancelled: str = "Cancelled: the turn was aborted before this call finished."
    not_started: str = "Cancelled: the turn was aborted before this call ran."
    skipped: str = "Skipped: the person added something before this call ran."
    turn_ended: str = "Not run: the turn ended before this call."
    outcome_unknown: str = (
        "Outcome unknown: the process stopped while this ran. It was not run again; find out before repeating it."
    )
    call_denied: str = "Not run: denied by the person."
    call_denied_because: str = "Not run: denied by the person. They said: {reason}"
    approval_expired: str = "Not run: nobody approved it in time."
    call_changed: str = "Not run: what was approved is not this call."
    effect_changed: str = "Not run: it would not do any more what was shown when it was approved."
    folder_changed: str = "Not run: it was approved in {where}, and this conversation works in another folder now."
    client_runs_call: str = "Whoever asked runs this call, and hands in its result."
    limit_notice: str = (
        "This turn has reached its limit ({bound}). No more tools can be used in it. Answer now with what you "
        "have: say what was done, and what is still missing because of the limit."
    )
    steps_bound: str = "{count} steps"
    tool_calls_bound: str = "{count} tool calls"
    response_calls_exceeded: str = "Not run: at most {count} calls a response. Ask again for the rest."
    turn_calls_exceeded: str = "Not run: this turn has used its {count} tool calls. Answer with what you have."
    call_repeated: str = (
        "Not run: this exact call gave the same result {count} times in a row. "
        "Do something else, or answer with what you have."
    )
    limit_answer: str = "I had to stop: this turn reached its limit ({bound})."
    budget_answer: str = "I had to stop: {bound}."
    answer_filtered: str = (
        "The model's answer was withheld by its provider's content filter; ask in other words, or another model."
    )
    changes_denied: str = "[held back, not applied: {paths}; the user denied it]"
    changes_denied_because: str = "[held back, not applied: {paths}; the user denied it, with this reason: {reason}]"
    changes_expired: str = "[held back, not applied: {paths}; it was not approved in time]"
    changes_stopped: str = "[held back, not applied: {paths}; the turn was stopped before it was approved]"
    changes_unknown: str = "[whether this was applied is not known: {paths}]"
    correction_repeated: str = ""  # instead of a correction that the model sees already; empty: it is repeated
    forked_call: str = "Outcome unknown: this conversation was copied from another before the call had a result."
    marks_aborted_answer: bool = False  # an answer whose calls an abort stopped has the finish reason `aborted`
    drops_refused_prompt: bool = False  # a prompt that a budget refused before any model call leaves the context


_FIRST = JournalWording()  # of 0.1, whose journals name no version
_SECOND = msgspec.structs.replace(
    _FIRST,
    skipped="Skipped: the user sent more input before this call ran.",
    call_denied="Not run: the user denied it.",
    call_denied_because="Not run: the user denied it, with this reason: {reason}",
    approval_expired="Not run: it was not approved in time.",
    call_changed="Not run: the approved call differs from this one.",
    effect_changed="Not run: its effect is no longer the one that was shown for approval.",
    folder_changed="Not run: it was approved in {where}, and this session now works in another folder.",
    client_runs_call="The client runs this call and submits its result.",
)
# A `pure` call is not recorded when it starts: it may have run.
_THIRD = msgspec.structs.replace(
    _SECOND, turn_ended="Not run or not finished: the turn ended before this call had a result."
)
_FOURTH = msgspec.structs.replace(
    _THIRD,
    correction_repeated="This answer is not accepted either, for the same reasons as the previous one. "
    "Answer the original request again.",
)
# An answer whose calls an abort stopped is marked.
_FIFTH = msgspec.structs.replace(_FOURTH, marks_aborted_answer=True)
# A prompt that a budget refused is not sent, and paid for, with every later one.
_SIXTH = msgspec.structs.replace(_FIFTH, drops_refused_prompt=True)
CURRENT_VERSION = "0.6"
WORDINGS: dict[str, JournalWording] = {
    "": _FIRST,
    "0.2": _SECOND,
    "0.3": _THIRD,
    "0.4": _FOURTH,
    "0.5": _FIFTH,
    CURRENT_VERSION: _SIXTH,
}
CURRENT = WORDINGS[CURRENT_VERSION]
