"""Context compiler of a lane: compiles model requests, counts their tokens and relieves contexts that do not fit."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from mainstay.context.compaction_plan import (
    CompactionInput,
    FoldPlan,
    plan_cuts,
    plan_fold,
    plan_shortest_cuts,
    plan_stubs,
)
from mainstay.context.compiler import (
    ContextView,
    StableSections,
    compile_context,
    count_conversation,
    join_sections,
    newest_messages,
    render_profile,
    truncate_to_tokens,
)
from mainstay.context.token_budget import TokenBudget, compute_budget
from mainstay.context.token_counts import (
    clear_token_counts,
    count_message_tokens,
    count_tools_tokens,
    message_token_bound,
    tools_token_bound,
)
from mainstay.context.tokenizers import TokenCalibration, count_for_model
from mainstay.context.turn_notes import select_notes
from mainstay.context.view import build_view
from mainstay.core.budgeted_side_calls import FRAME_TOKENS, FRAME_TOKENS_TOOLS
from mainstay.core.errors import ContextOverflow, ContextTooLong, InputRefused, RequestRefused
from mainstay.core.events import Event, Folded, MessageAdded, Relieved, SessionChanged, TurnStarted, Waiting
from mainstay.core.messages import Text
from mainstay.core.ports import NO_TOKEN_COUNT, Context, EventRecorder, ModelInfo, Tool
from mainstay.core.runtime_notes import MARK_SENTENCE, new_mark, remove_imitations_from_text
from mainstay.core.session import Session
from mainstay.lane.compaction_runner import FoldRunner, FoldTask
from mainstay.lane.journal_writer import JournalWriter
from mainstay.lane.services import LaneServices
from mainstay.turn.control import TurnControl

log = logging.getLogger("mainstay.lane")

T = TypeVar("T")
NO_NOTES: tuple[Text, ...] = ()

PROFILE_DIVISOR = 4  # the profile takes at most a quarter of the token budget
NOTES_BYTES_PER_WINDOW_TOKEN = 1  # notes take at most a quarter of the window: a token has about four bytes
INLINE_DIVISOR = 4  # tool schemas over a quarter of the token budget become a searchable catalogue
SHRINK_FACTOR = 0.75  # size of the next request after one was too long, if the provider does not report its window
WINDOW_TOKENS_MIN = 256  # a window with less room for the history is not tried
LEARNING_TOKENS_MIN = 4096  # calibration ignores smaller requests: the provider's own additions would dominate
SMALL_MODEL_RESULT_BYTES_MAX = 4096  # per tool result: a small model takes minutes to read more
_TOOLS_UNSUPPORTED = re.compile(
    r"n[o'](?:t|) (?:currently )?support\b[^.]*\btools?\b|\btools?\b[^.]*\b(?:not |un)support", re.I
)
SUB_AGENT_INSTRUCTIONS = (
    "You are a sub-agent: another agent sent you to do one thing. Do it with the tools you have, ask nobody, and end "
    "with a report that says what you found or did, and what you could not."
)


class LaneContextCompiler:
    """One per lane while it is in memory; `bind_session` sets the session and model it works for."""

    __slots__ = (
        "_budget_cache",
        "_calibration",
        "_can_learn",
        "_control",
        "_counted_weight",
        "_model",
        "_profile_cache",
        "_request_tokens",
        "_services",
        "_stable_sections",
        "_tokenizer_name",
        "_writer",
        "fold_runner",
        "tools",
    )  # fmt: skip

    def __init__(self, services: LaneServices) -> None:
        self._services = services
        self._stable_sections = StableSections("", "", ())
        self._budget_cache: tuple[tuple[ModelInfo, float, int | None, int | None], TokenBudget] | None = None
        self._profile_cache = "", ""  # the full profile, and as it was trimmed
        self._request_tokens = 0  # tokens of the last request; 0: not counted
        self._counted_weight: tuple[int, int, str] | None = None  # the session's `window_tokens`, if exact
        self._can_learn = False  # the last request is large enough to calibrate by its reported usage
        self._tokenizer_name = ""  # tokenizer that counted the cached message weights
        self._control: TurnControl | None = None
        accounts = services.budget_manager
        self.fold_runner = FoldRunner(
            services.summariser, services.clock, extract_facts=services.extract_facts, budget_manager=accounts
        )

    def bind_session(
        self, writer: JournalWriter, model: ModelInfo, control: TurnControl | None = None
    ) -> LaneContextCompiler:
        """Bind to a session and model; called once per turn. Memory files are read again here, and only here."""
        self._writer = writer
        self._model = model
        self._control = control
        self._calibration: TokenCalibration = self._services.calibrations.for_model(model)
        if self._tokenizer_name not in ("", self._calibration.tokenizer.name):
            clear_token_counts(writer.session.messages)
            writer.session.window_tokens = NO_TOKEN_COUNT
        self._tokenizer_name = self._calibration.tokenizer.name
        spawned = writer.session.spawned
        tools = self._services.tools
        if model.terse and spawned is None and self._services.small_model_tools:
            tools = tools.restrict_to(self._services.small_model_tools, SMALL_MODEL_RESULT_BYTES_MAX)
        self.tools = (
            tools.with_client_tools(writer.session.client_tools)
            if spawned is None
            else tools.restrict_to(spawned.tools)
        )
        self._update_sections()
        return self

    # --- start of a turn, and the stable sections ------------------------------------------------

    def build_start_events(self, session: Session, started: TurnStarted, prompt: str) -> tuple[Event, ...]:
        """Return the turn's first events: its start, a new or changed fixed section, and contributors' notes."""
        events: list[Event] = [started]
        turn = started.turn
        notes: list[Text] = []
        for contributor in self._services.contributors if session.spawned is None else ():
            notes += _call_contributor(contributor.turn_notes, NO_NOTES, session.key, prompt)
        if not session.fixed_seq:
            fixed = self.build_fixed_section(session)
            if fixed or notes:
                told = self._find_untrusted_skills(session)
                events.append(SessionChanged(instructions=fixed, told=told, note_mark=new_mark(), turn=turn))
        elif (changed := self._find_changed_fixed(session)) and changed != session.amendment:
            events.append(SessionChanged(amended=changed, told=self._find_untrusted_skills(session), turn=turn))
        if session.has_unread_history:
            events.append(_build_unread_fold(session))
        if notes:
            visible = newest_messages(session, self._services.context_rules.active_window, for_next_turn=True)
            bytes_max = self._services.find_window(session.model) * NOTES_BYTES_PER_WINDOW_TOKEN
            events += [MessageAdded("system", (text,), turn=turn) for text in select_notes(visible, notes, bytes_max)]
        return tuple(events)

    def _find_untrusted_skills(self, session: Session) -> tuple[str, ...]:
        return self._services.trust.untrusted_skills(session.key, ())

    def build_fixed_section(self, session: Session, *, for_small_model: bool | None = None) -> str:
        """Build the system prompt as for a new session: in short for a small model, with only the general rules of
        contributors for a sub-agent."""
        instructions, contributors, key = self._services.instructions, self._services.contributors, session.key
        if session.spawned is not None:
            return join_sections(
                SUB_AGENT_INSTRUCTIONS,
                *(_call_contributor(contributor.sub_agent_section, "", key) for contributor in contributors),
            )
        own = instructions if isinstance(instructions, str) else instructions(key)
        for_small_model = self._services.is_small_model(session.model) if for_small_model is None else for_small_model
        sections = (
            _call_contributor(
                contributor.small_model_section if for_small_model else contributor.fixed_section, "", key
            )
            for contributor in contributors
        )
        return join_sections(own, *sections)

    def _find_changed_fixed(self, session: Session) -> str:
        """Return the current fixed section if it differs from the session's, else ""; always "" for a function."""
        if not isinstance(self._services.instructions, str):
            return ""
        now = self.build_fixed_section(session)
        if now == session.instructions:
            return ""
        if self._services.is_small_model(session.model) and session.instructions == self.build_fixed_section(
            session, for_small_model=False
        ):
            return ""  # it began with a larger model: appending the brief version would only add tokens
        return now

    def _update_sections(self) -> None:
        """Update the stable sections; an unchanged object is kept, so that it is not encoded or counted again."""
        services, session = self._services, self._writer.session
        mark = session.note_mark
        fixed = remove_imitations_from_text(session.instructions or self.build_fixed_section(session), mark)
        contributors = services.contributors if session.spawned is None else ()
        contributed = (_call_contributor(contributor.profile_section, "", session.key) for contributor in contributors)
        about = remove_imitations_from_text(join_sections(render_profile(session.profile), *contributed), mark)
        profile = self._trim_profile(join_sections(MARK_SENTENCE.format(mark=mark) if mark else "", about))
        tools: tuple[Tool, ...] = ()
        if self._calibration.supports_tools:
            inline = self._fits_inline(self.tools.agent_tools)
            ours = not inline and self._fits_inline(self.tools.local_tools)
            tools = self.tools.select_for_request(
                memory=self._should_offer_memory(session), inline=inline, keep_local=ours
            )
        stable = self._stable_sections
        if stable.tools is not tools or stable.fixed != fixed or stable.profile != profile:
            self._stable_sections = StableSections(fixed, profile, tools)
            self._warn_of_size(fixed, profile, tools)

    def _trim_profile(self, profile: str) -> str:
        """Cut the profile to its share of the budget, so that the conversation has room."""
        if profile is not self._profile_cache[0] and profile != self._profile_cache[0]:
            most = max(self._token_budget().profile, self._token_budget().total // PROFILE_DIVISOR)
            self._profile_cache = profile, truncate_to_tokens(profile, most, self._calibration.tokenizer)
        return self._profile_cache[1]

    def _warn_of_size(self, fixed: str, profile: str, tools: tuple[Tool, ...]) -> None:
        """Warn if the sections that are sent with every call are large, by a rough count."""
        rules, key = self._services.context_rules, self._writer.session.key
        for name, size, target in (
            ("instructions and tools", len(fixed) + tools_token_bound(tools), rules.fixed_tokens),
            ("profile", len(profile), rules.profile_tokens),
        ):
            if size // 4 > target:
                log.warning("session %s: its %s take about %d tokens of every call", key, name, size // 4)

    def _should_offer_memory(self, session: Session) -> bool:
        match self._services.memory_tools:
            case "auto":
                return bool(self.tools.agent_tools) or session.is_reduced
            case mode:
                return mode == "on"

    def _fits_inline(self, tools: tuple[Tool, ...]) -> bool:
        """Return True if the tools are few and small enough to be sent with every request."""
        if len(tools) > self._services.limits.tools_inline_max:
            return False
        share = self._token_budget().total // INLINE_DIVISOR
        return tools_token_bound(tools) <= share or count_tools_tokens(tools, self._calibration.tokenizer) <= share

    # --- a request -------------------------------------------------------------------------------

    async def compile(self, recorder: EventRecorder) -> Context:
        session = self._writer.session
        if self._can_learn and session.reported_tokens:
            frame = FRAME_TOKENS_TOOLS if self._stable_sections.tools else FRAME_TOKENS
            self._calibration.learn(self._request_tokens, session.reported_tokens - frame)
        session.reported_tokens, self._request_tokens, self._can_learn = 0, 0, False
        if self._stable_sections.token_bound + self._bound_history(session) > self._token_budget().high:
            await self._relieve(recorder)
        return self._compile_context(session)

    def _compile_context(self, session: Session) -> Context:
        return compile_context(session, self._stable_sections, self._services.context_rules.active_window)

    def _token_budget(self) -> TokenBudget:
        calibration = self._calibration
        basis = (self._model, calibration.factor, calibration.window, calibration.total_guess)
        if self._budget_cache is None or self._budget_cache[0] != basis:
            self._budget_cache = basis, compute_budget(self._model, self._services.context_rules, calibration)
        return self._budget_cache[1]

    def _bound_history(self, session: Session) -> int:
        """Return an upper bound of the history's tokens; only messages since the last call are counted."""
        if (count := self._services.context_rules.active_window) is not None:
            return sum(map(message_token_bound, newest_messages(session, count)))
        seen, total, by = session.window_tokens
        if by and by != self._calibration.tokenizer.name:  # the session's model has changed
            seen, total, by = NO_TOKEN_COUNT
        messages, counted = session.messages, session.window_tokens is self._counted_weight and bool(by)
        for message in messages[seen:]:
            total += (
                count_message_tokens(message, self._calibration.tokenizer) if counted else message_token_bound(message)
            )
        session.window_tokens = (len(messages), total, by)
        if counted:
            self._counted_weight = session.window_tokens
        return total

    def _build_compaction_input(self) -> CompactionInput:
        session, tokenizer = self._writer.session, self._calibration.tokenizer
        return CompactionInput(
            session,
            self._stable_sections.count_tokens(tokenizer),
            self._token_budget(),
            self._services.context_rules,
            tokenizer,
        )

    async def _relieve(self, recorder: EventRecorder) -> None:
        """Count the request exactly; stub, fold and squeeze the history as far as needed. Raises ContextOverflow."""
        self._can_learn = True
        compaction = self._build_compaction_input()
        if self._weigh_request(compaction) <= compaction.budget.high:
            return
        if (event := plan_stubs(compaction)) is not None:
            recorder.record_nowait(event, flush_soon=True)
            self._update_sections()  # memory tools are offered once something has left the context
            compaction = self._build_compaction_input()
        if self._weigh_request(compaction) > compaction.budget.low:
            await self._fold_history(compaction)
            compaction = self._build_compaction_input()
        if self._weigh_request(compaction) > compaction.budget.total and not self._is_aborted:
            event = plan_cuts(compaction) or self._plan_cuts_above_guess()
            if event is None:
                raise ContextOverflow(self._describe_overflow(compaction))
            recorder.record_nowait(event, flush_soon=True)
            self._weigh_request(self._build_compaction_input())

    def _plan_cuts_above_guess(self) -> Relieved | None:
        """Plan the shortest possible history if the budget is a guess that is too small for it: the provider decides.

        None: the budget is no guess, or the history does not fit the model's window either.
        """
        calibration = self._calibration
        if calibration.total_guess is None:
            return None
        calibration.total_guess = None
        compaction = self._build_compaction_input()
        event, calibration.total_guess = plan_shortest_cuts(compaction)
        return event if calibration.total_guess <= compaction.budget.total else None

    def _weigh_request(self, compaction: CompactionInput) -> int:
        """Count the request's tokens, and keep the count to calibrate it by the provider's reported usage."""
        session = compaction.session
        messages = self._compile_context(session).messages
        self._request_tokens = compaction.count_total(list(messages))
        if self._services.context_rules.active_window is None:
            session.window_tokens = (
                len(session.messages),
                self._request_tokens - compaction.overhead_tokens,
                self._calibration.tokenizer.name,
            )
            self._counted_weight = session.window_tokens
        return self._request_tokens

    async def _fold_history(self, compaction: CompactionInput) -> None:
        """Fold in the background while there is room; otherwise wait for the fold, and fall back to an outline."""
        over = self._weigh_request(compaction) > compaction.budget.total
        plan = plan_fold(compaction) or (plan_fold(compaction, as_many_as_possible=True) if over else None)
        if plan is None:
            return
        task = FoldTask(plan, compaction.budget, self._services.context_rules, self._calibration.tokenizer)
        renewed = self._build_renewal()
        if not over:
            if self.fold_runner.can_retry:
                self.fold_runner.start_fold(self._writer, task, renewed)
            return
        if self.fold_runner.can_retry or self.fold_runner.running_task is not None:
            await self._wait_for_fold(self.fold_runner.start_fold(self._writer, task, renewed))
        if self._writer.session.fold_seq == plan.previous_fold_seq and not self._is_aborted:
            self.fold_runner.record_outline(self._writer, task, renewed)
        self._update_sections()
        compaction = self._build_compaction_input()
        if (
            self._weigh_request(compaction) > compaction.budget.total
            and not self._is_aborted
            and (rest := plan_fold(compaction, as_many_as_possible=True))
        ):
            task = msgspec.structs.replace(task, fold=rest)
            self.fold_runner.record_outline(self._writer, task)

    @property
    def _is_aborted(self) -> bool:
        return self._control is not None and self._control.aborted

    async def _wait_for_fold(self, running: asyncio.Task[bool]) -> None:
        seconds = self._services.limits.fold_wait_s
        self._writer(Waiting("the conversation is being summarised", session=self._writer.session.key))
        if self._control is not None:
            await self._control.wait_for(running, "waiting for a summary", seconds)
        else:
            await asyncio.wait((running,), timeout=seconds)

    def _build_renewal(self) -> tuple[Event, ...]:
        """Return the event that replaces a changed fixed section at a fold, which resets the prompt cache anyway."""
        session = self._writer.session
        changed, mark = self._find_changed_fixed(session), session.note_mark or new_mark()
        return (
            (SessionChanged(instructions=changed, told=self._find_untrusted_skills(session), note_mark=mark),)
            if changed
            else ()
        )

    def _describe_overflow(self, compaction: CompactionInput) -> str:
        overhead_tokens = round(compaction.overhead_tokens * self._calibration.factor)
        return (
            f"this does not fit the model's window of {compaction.budget.window} tokens: instructions and tools alone "
            f"take about {overhead_tokens}; use fewer tools, shorter instructions or another model"
        )

    def prompt_tokens(self) -> int:
        """Return the request's calibrated token count; counts only what is new if the history was counted before."""
        session = self._writer.session
        counted = (
            session.window_tokens is self._counted_weight
            and session.window_tokens[2] == self._calibration.tokenizer.name
        )
        if not self._request_tokens and counted and session.window_tokens[0] == len(session.messages):
            self._request_tokens = (
                self._stable_sections.count_tokens(self._calibration.tokenizer) + session.window_tokens[1]
            )
        sent = self._request_tokens or self._weigh_request(self._build_compaction_input())
        self._can_learn = self._can_learn or sent >= LEARNING_TOKENS_MIN
        return round(sent * self._calibration.factor)

    def count_tokens(self, text: str) -> int:
        return count_for_model(text, self._calibration)

    def ignore_reported_usage(self) -> None:
        self._can_learn = False

    def shrink_window(self, error: ContextTooLong) -> bool:
        """Assume a smaller window for this model from now on, after the provider refused a request as too long."""
        compaction, calibration = self._build_compaction_input(), self._calibration
        known = calibration.window, calibration.total_guess
        least = compaction.overhead_tokens + WINDOW_TOKENS_MIN  # a prompt must fit beside instructions and tools
        if error.window is not None and error.window < compaction.budget.window:
            calibration.window = error.window
        else:
            calibration.total_guess = _guess_total(self._weigh_request(compaction), compaction.overhead_tokens)
        after = self._token_budget()
        if not least <= after.total < compaction.budget.total:
            calibration.window, calibration.total_guess = known  # a refusal that names no usable size is not believed
            return False
        session = compaction.session
        # force an exact count
        session.window_tokens = (len(session.messages), max(session.window_tokens[1], after.high + 1), "")
        return True

    def drop_tools(self, error: RequestRefused) -> bool:
        """Stop offering tools if the model refused the request because of them; False if that was not the reason."""
        if not (
            self._stable_sections.tools and self._calibration.supports_tools and _TOOLS_UNSUPPORTED.search(str(error))
        ):
            return False
        log.warning("%s does not support tools; from now on it is called without them", self._model.name)
        self._calibration.supports_tools = False
        self._update_sections()
        return True

    # --- between turns ---------------------------------------------------------------------------

    def start_early_fold(self) -> None:
        """Start a fold in the background after a turn, before the context is full."""
        if not hasattr(self, "_writer"):  # the turn failed before a context was bound: too many restarts, or no model
            return
        session, rules = self._writer.session, self._services.context_rules
        if session.spawned is not None:  # a sub-agent gets no further prompt
            return
        if rules.active_window is not None:
            outside = count_conversation(session.messages) - rules.active_window
            if outside >= rules.batch_size and self.fold_runner.can_retry:
                self._start_fold(plan_fold(self._build_compaction_input(), keep_messages=rules.active_window))
            return
        if self._stable_sections.token_bound + self._bound_history(session) <= self._token_budget().early:
            return
        compaction = self._build_compaction_input()
        if self._weigh_request(compaction) > compaction.budget.early and self.fold_runner.can_retry:
            self._start_fold(plan_fold(compaction))

    def _start_fold(self, plan: FoldPlan | None) -> None:
        if plan is not None:
            task = FoldTask(plan, self._token_budget(), self._services.context_rules, self._calibration.tokenizer)
            self.fold_runner.start_fold(self._writer, task, self._build_renewal())

    async def fold_imported_history(self) -> None:
        """Outline imported history that exceeds the window, at once, and store its token count."""
        if self._stable_sections.token_bound + self._bound_history(self._writer.session) > self._token_budget().high:
            compaction = self._build_compaction_input()
            if self._weigh_request(compaction) > compaction.budget.high and (plan := plan_fold(compaction)) is not None:
                task = FoldTask(plan, compaction.budget, self._services.context_rules, self._calibration.tokenizer)
                self.fold_runner.record_outline(self._writer, task)
                self._weigh_request(self._build_compaction_input())
        await self._writer.save_session_info()

    async def compact(self, focus: str) -> str | None:
        """Fold all but the newest turn now; return the new summary, None if there is nothing. Raises InputRefused."""
        if self._control is not None:
            raise InputRefused("this session is in the middle of a turn; compact it when the turn has ended")
        if self.fold_runner.running_task is not None:
            await asyncio.wait((self.fold_runner.running_task,))
        plan = plan_fold(self._build_compaction_input(), as_many_as_possible=True)
        if plan is None:
            return None
        task = FoldTask(plan, self._token_budget(), self._services.context_rules, self._calibration.tokenizer, focus)
        if not await self.fold_runner.start_fold(self._writer, task, self._build_renewal()):
            self.fold_runner.record_outline(self._writer, task, self._build_renewal())
        await self._writer.flush()
        return self._writer.session.summary

    def describe_context(self) -> ContextView:
        session = self._writer.session
        return build_view(
            session,
            self._compile_context(session),
            self._stable_sections,
            self._calibration,
            (self._token_budget(), self._model),
        )


def _guess_total(sent: int, overhead: int) -> int:
    """Return the next size to try after a request of `sent` tokens was refused: smaller, and with room for a prompt."""
    guess, least = int(sent * SHRINK_FACTOR), overhead + WINDOW_TOKENS_MIN
    if guess < least < sent:  # instructions and tools are most of the request: only the history can shrink
        return max((sent + overhead) // 2, least)
    return guess


def _call_contributor(method: Callable[..., T], default: T, *arguments: str) -> T:
    """Call a contributor's method; return the default if it fails, so that the turn goes on without it."""
    try:
        return method(*arguments)
    except Exception:  # user files or a bug of ours: an accepted prompt must still be answered
        log.exception("a context contributor failed; the context is compiled without it")
        return default


def _build_unread_fold(session: Session) -> Folded:
    """Build a fold for history that was too large to load: the window starts at the loaded messages."""
    first = session.messages[0]
    earlier = session.message_count - len(session.messages)
    text = f"About {earlier} earlier messages are not shown and were not summarised; memory_search finds them."
    upto = min((message.since or message.id for message in session.messages), default=first.id) - 1
    return Folded(upto, text, through=max(first.turn - 1, 0))
