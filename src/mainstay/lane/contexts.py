"""The requests of one session: what surrounds its history, whether it all fits, and what is done when it does not."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from mainstay.context.compile import Shown, Surroundings, compile_context, cut_to, join_sections, newest, render_profile
from mainstay.context.relief import Case, Fold, fold, squeeze, stub
from mainstay.context.rules import Budget, budget, window_of
from mainstay.context.show import show
from mainstay.context.tokens import Scale, counted
from mainstay.context.weigh import bound, forget_weights, tools_bound, weigh, weigh_tools
from mainstay.core.errors import ContextOverflow, ContextTooLong, InputRefused, RequestRefused
from mainstay.core.events import Event, Folded, MessageAdded, SessionChanged, TurnStarted, Waiting
from mainstay.core.messages import Text
from mainstay.core.ports import UNWEIGHED, Context, ModelInfo, Scribe, Tool
from mainstay.core.session import Session
from mainstay.core.spending import FRAME_TOKENS, FRAME_TOKENS_TOOLS
from mainstay.lane.folding import Folding, Task
from mainstay.lane.scribe import Pen
from mainstay.lane.services import Services
from mainstay.turn.control import Control

log = logging.getLogger("mainstay.lane")

T = TypeVar("T")
NOTHING: tuple[Text, ...] = ()

PROFILE_SHARE = 4  # of the budget: more than that a profile never takes
INLINE_SHARE = 4  # tools whose schemas take more than a quarter of the budget become a catalogue
SHRINK = 0.75  # of a request that was too long: the next one, where the provider does not say what it takes
LEAST_TOKENS = 256
TELLING_TOKENS = 4096  # of less, most may be what the provider adds
BRIEF_RESULT_BYTES = 4096  # of a tool's result, for a small model: more would take it minutes to read
_NO_TOOLS = re.compile(r"n[o'](?:t|) (?:currently )?support\b[^.]*\btools?\b|\btools?\b[^.]*\b(?:not |un)support", re.I)
ERRAND = (
    "You are a sub-agent: another agent sent you to do one thing. Do it with the tools you have, ask nobody, and end "
    "with a report that says what you found or did, and what you could not."
)


class LaneContexts:
    """One for a lane, for as long as it is awake; `of` says which session and model it is now about."""

    __slots__ = (
        "_around", "_by", "_control", "_counted", "_known", "_model", "_pen", "_scale", "_sent", "_services",
        "_telling", "_uncut", "folding", "tools",
    )  # fmt: skip

    def __init__(self, services: Services) -> None:
        self._services = services
        self._around = Surroundings("", "", ())
        self._known: tuple[tuple[ModelInfo, float, int | None], Budget] | None = None
        self._uncut = "", ""  # the profile as it was given, and as it is shown
        self._sent = 0  # what the last request weighed, where that was counted
        self._counted: tuple[int, int, str] | None = None  # if it is the session's own `weighed`, that is no bound
        self._telling = False  # what the provider reports of it says something about its tokens
        self._by = ""  # whose count the messages have
        self._control: Control | None = None
        accounts = services.accounts
        self.folding = Folding(services.summariser, services.clock, facts=services.facts, accounts=accounts)

    def of(self, pen: Pen, model: ModelInfo, control: Control | None = None) -> LaneContexts:
        """Once a turn: files of memory are read afresh here, and only here."""
        self._pen = pen
        self._model = model
        self._control = control
        self._scale: Scale = self._services.scales.of(model)
        if self._by not in ("", self._scale.tokenizer.name):
            forget_weights(pen.session.messages)
            pen.session.weighed = UNWEIGHED
        self._by = self._scale.tokenizer.name
        errand = pen.session.errand
        tools = self._services.tools
        if model.terse and errand is None and self._services.few:
            tools = tools.narrowed(self._services.few, BRIEF_RESULT_BYTES)
        self.tools = tools.joined(pen.session.guests) if errand is None else tools.narrowed(errand.tools)
        self._surround()
        return self

    # --- how a turn begins -----------------------------------------------------------------------

    def begin(self, session: Session, started: TurnStarted, prompt: str) -> tuple[Event, ...]:
        """The turn's first records: its start, the fixed section where it is new, what contributors append."""
        events: list[Event] = [started]
        turn = started.turn
        if not session.fixed:
            if fixed := self.fixed(session):
                events.append(SessionChanged(instructions=fixed, told=self._told(session), turn=turn))
        elif (changed := self._renewed(session)) and changed != session.amendment:
            events.append(SessionChanged(amended=changed, told=self._told(session), turn=turn))
        if session.partial:
            events.append(_unread(session))
        for contributor in self._services.contributors if session.errand is None else ():
            for note in _asked(contributor.turn, NOTHING, session.key, prompt):
                events.append(MessageAdded("system", (note,), turn=turn))
        return tuple(events)

    def _told(self, session: Session) -> tuple[str, ...]:
        return self._services.trust.told(session.key, ())

    def fixed(self, session: Session, *, terse: bool | None = None) -> str:
        """As it would be for a session that begins now. A sub-agent has its errand, and the rules of the house; a small
        model has few words."""
        given, key = self._services.instructions, session.key
        if session.errand is not None:
            return join_sections(ERRAND, *(_asked(one.errand, "", key) for one in self._services.contributors))
        own = given if isinstance(given, str) else given(key)
        terse = self._services.terse(session.model) if terse is None else terse
        asked = (one.brief if terse else one.fixed for one in self._services.contributors)
        return join_sections(own, *(_asked(one, "", key) for one in asked))

    def _renewed(self, session: Session) -> str:
        """The fixed section as it is now, if it is another than the session's. A function is asked only once."""
        if not isinstance(self._services.instructions, str):
            return ""
        now = self.fixed(session)
        if self._services.terse(session.model) and session.instructions == self.fixed(session, terse=False):
            return ""  # it began with a larger model, and to say it again in fewer words would only be more
        return "" if now == session.instructions else now

    def _surround(self) -> None:
        """The same object as long as nothing changes, so that nothing is encoded or counted again."""
        services, session = self._services, self._pen.session
        fixed = session.instructions or self.fixed(session)
        asked = services.contributors if session.errand is None else ()
        contributed = (_asked(one.profile, "", session.key) for one in asked)
        profile = self._bounded(join_sections(render_profile(session.profile), *contributed))
        tools: tuple[Tool, ...] = ()
        if self._scale.tools:
            inline = self._fits(self.tools.own)
            ours = not inline and self._fits(self.tools.ours)
            tools = self.tools.offer(memory=self._memory_offered(session), inline=inline, ours=ours)
        around = self._around
        if around.tools is not tools or around.fixed != fixed or around.profile != profile:
            self._around = Surroundings(fixed, profile, tools)
            self._warn(fixed, profile, tools)

    def _bounded(self, profile: str) -> str:
        """What people and files say about themselves must leave room for the conversation."""
        if profile is not self._uncut[0] and profile != self._uncut[0]:
            most = max(self._budget().profile, self._budget().total // PROFILE_SHARE)
            self._uncut = profile, cut_to(profile, most, self._scale.tokenizer)
        return self._uncut[1]

    def _warn(self, fixed: str, profile: str, tools: tuple[Tool, ...]) -> None:
        """What is paid for on every call should be small; a rough count is enough to say so."""
        rules, key = self._services.rules, self._pen.session.key
        for name, size, target in (
            ("instructions and tools", len(fixed) + tools_bound(tools), rules.fixed_tokens),
            ("profile", len(profile), rules.profile_tokens),
        ):
            if size // 4 > target:
                log.warning("session %s: its %s take about %d tokens of every call", key, name, size // 4)

    def _memory_offered(self, session: Session) -> bool:
        match self._services.memory_tools:
            case "auto":
                return bool(self.tools.own) or session.relieved
            case given:
                return given == "on"

    def _fits(self, tools: tuple[Tool, ...]) -> bool:
        """Few and small enough to be carried by every request."""
        if len(tools) > self._services.limits.tools_inline_max:
            return False
        share = self._budget().total // INLINE_SHARE
        return tools_bound(tools) <= share or weigh_tools(tools, self._scale.tokenizer) <= share

    # --- a request -------------------------------------------------------------------------------

    async def compile(self, scribe: Scribe) -> Context:
        session = self._pen.session
        if self._telling and session.reported:
            frame = FRAME_TOKENS_TOOLS if self._around.tools else FRAME_TOKENS
            self._scale.learn(self._sent, session.reported - frame)
        session.reported, self._sent, self._telling = 0, 0, False
        if self._around.bound + self._bound(session) > self._budget().high:
            await self._fit(scribe)
        return self._context(session)

    def _context(self, session: Session) -> Context:
        return compile_context(session, self._around, self._services.rules.active_window)

    def _budget(self) -> Budget:
        scale = self._scale
        basis = (self._model, scale.factor, scale.window)
        if self._known is None or self._known[0] != basis:
            self._known = basis, budget(self._model, self._services.rules, scale)
        return self._known[1]

    def _bound(self, session: Session) -> int:
        """Never less than the history weighs; only what is new since the last time is looked at."""
        if (count := self._services.rules.active_window) is not None:
            return sum(map(bound, newest(session, count)))
        seen, total, by = session.weighed
        if by and by != self._scale.tokenizer.name:  # the session has another model now
            seen, total, by = UNWEIGHED
        messages, counted = session.messages, session.weighed is self._counted and bool(by)
        for message in messages[seen:]:
            total += weigh(message, self._scale.tokenizer) if counted else bound(message)
        session.weighed = (len(messages), total, by)
        if counted:
            self._counted = session.weighed
        return total

    def _case(self) -> Case:
        around, scale = self._around, self._scale
        return Case(
            self._pen.session, around.weigh(scale.tokenizer), self._budget(), self._services.rules, scale.tokenizer
        )

    async def _fit(self, scribe: Scribe) -> None:
        """Count, and relieve as far as need be."""
        self._telling = True
        case = self._case()
        if self._weight(case) <= case.budget.high:
            return
        if (event := stub(case)) is not None:
            scribe.note(event, soon=True)
            self._surround()  # from now on there is something to recall
            case = self._case()
        if self._weight(case) > case.budget.low:
            await self._fold(case)
            case = self._case()
        if self._weight(case) > case.budget.total and not self._aborted:
            if (event := squeeze(case)) is None:
                raise ContextOverflow(self._overflow(case))
            scribe.note(event, soon=True)
            self._weight(self._case())

    def _weight(self, case: Case) -> int:
        """Counted; remembered, so that what the provider reports can be compared with it."""
        session = case.session
        shown = self._context(session).messages
        self._sent = case.total(list(shown))
        if self._services.rules.active_window is None:
            session.weighed = (len(session.messages), self._sent - case.overhead, self._scale.tokenizer.name)
            self._counted = session.weighed
        return self._sent

    async def _fold(self, case: Case) -> None:
        """Beside the conversation while there is room; if there is none, the turn waits for it, or does without."""
        over = self._weight(case) > case.budget.total
        plan = fold(case) or (fold(case, most=True) if over else None)
        if plan is None:
            return
        task = Task(plan, case.budget, self._services.rules, self._scale.tokenizer)
        renewed = self._renewal()
        if not over:
            if self.folding.rested:
                self.folding.begin(self._pen, task, renewed)
            return
        if self.folding.rested or self.folding.running is not None:
            await self._wait(self.folding.begin(self._pen, task, renewed))
        if self._pen.session.fold == plan.basis and not self._aborted:
            self.folding.outline(self._pen, task, renewed)
        self._surround()
        case = self._case()
        if self._weight(case) > case.budget.total and not self._aborted and (rest := fold(case, most=True)):
            task = msgspec.structs.replace(task, fold=rest)
            self.folding.outline(self._pen, task)

    @property
    def _aborted(self) -> bool:
        return self._control is not None and self._control.aborted

    async def _wait(self, running: asyncio.Task[bool]) -> None:
        seconds = self._services.limits.fold_wait_s
        self._pen(Waiting("the conversation is being summarised", session=self._pen.session.key))
        if self._control is not None:
            await self._control.wait_for(running, "waiting for a summary", seconds)
        else:
            await asyncio.wait((running,), timeout=seconds)

    def _renewal(self) -> tuple[Event, ...]:
        """A fold breaks the provider's cache anyway: a fixed section that has changed enters with it."""
        changed = self._renewed(self._pen.session)
        return (SessionChanged(instructions=changed, told=self._told(self._pen.session)),) if changed else ()

    def _overflow(self, case: Case) -> str:
        return (
            f"this does not fit the model's window of {case.budget.window} tokens: instructions and tools alone take "
            f"about {round(case.overhead * self._scale.factor)}; use fewer tools, shorter instructions or another model"
        )

    def prompt_tokens(self) -> int:
        """Counted; of a history that was counted for the call before, only what is new."""
        session = self._pen.session
        counted = session.weighed is self._counted and session.weighed[2] == self._scale.tokenizer.name
        if not self._sent and counted and session.weighed[0] == len(session.messages):
            self._sent = self._around.weigh(self._scale.tokenizer) + session.weighed[1]
        sent = self._sent or self._weight(self._case())
        self._telling = self._telling or sent >= TELLING_TOKENS
        return round(sent * self._scale.factor)

    def count(self, text: str) -> int:
        return counted(text, self._scale)

    def unreported(self) -> None:
        self._telling = False

    def tighten(self, error: ContextTooLong) -> bool:
        """It was too long by the provider's own count: from now on this model is believed to take less."""
        case, scale = self._case(), self._scale
        sent = self._weight(case)
        if error.window is not None and error.window < case.budget.window:
            scale.window = error.window
        else:
            scale.window = window_of(int(sent * scale.factor * SHRINK), self._services.rules)
        after = self._budget()
        session = case.session
        session.weighed = (len(session.messages), max(session.weighed[1], after.high + 1), "")  # count it again
        return LEAST_TOKENS < after.total < case.budget.total

    def do_without_tools(self, error: RequestRefused) -> bool:
        """Some models know no tools and refuse a request that has any: a plain conversation is better than none."""
        if not (self._around.tools and self._scale.tools and _NO_TOOLS.search(str(error))):
            return False
        log.warning("%s takes no tools and is asked without them from now on", self._model.name)
        self._scale.tools = False
        self._surround()
        return True

    # --- beside the turns ------------------------------------------------------------------------

    def after_turn(self) -> None:
        """A fold is begun before it is needed."""
        if not hasattr(self, "_pen"):  # the turn ended before it had a context: it was given up, or there is no model
            return
        session, rules = self._pen.session, self._services.rules
        if session.errand is not None:  # nobody asks it anything any more
            return
        if rules.active_window is not None:
            outside = len(session.messages) - rules.active_window
            if outside >= rules.batch_size and self.folding.rested:
                self._begin_fold(fold(self._case(), all_but=rules.active_window))
            return
        if self._around.bound + self._bound(session) <= self._budget().early:
            return
        case = self._case()
        if self._weight(case) > case.budget.early and self.folding.rested:
            self._begin_fold(fold(case))

    def _begin_fold(self, plan: Fold | None) -> None:
        if plan is not None:
            task = Task(plan, self._budget(), self._services.rules, self._scale.tokenizer)
            self.folding.begin(self._pen, task, self._renewal())

    async def settle_in(self) -> None:
        """What was brought from elsewhere and is more than a window is outlined, at once; its weight is kept."""
        if self._around.bound + self._bound(self._pen.session) > self._budget().high:
            case = self._case()
            if self._weight(case) > case.budget.high and (plan := fold(case)) is not None:
                self.folding.outline(self._pen, Task(plan, case.budget, self._services.rules, self._scale.tokenizer))
                self._weight(self._case())
        await self._pen.save()

    async def compact(self, focus: str) -> str | None:
        """Fold all but the newest turn now; the new summary, or None if there is nothing to fold."""
        if self._control is not None:
            raise InputRefused("this session is in the middle of a turn; compact it before or after")
        if self.folding.running is not None:
            await asyncio.wait((self.folding.running,))
        plan = fold(self._case(), most=True)
        if plan is None:
            return None
        task = Task(plan, self._budget(), self._services.rules, self._scale.tokenizer, focus)
        if not await self.folding.begin(self._pen, task, self._renewal()):
            self.folding.outline(self._pen, task, self._renewal())
        await self._pen.flush()
        return self._pen.session.summary

    def shown(self) -> Shown:
        session = self._pen.session
        return show(session, self._context(session), self._around, self._scale, (self._budget(), self._model))


def _asked(ask: Callable[..., T], otherwise: T, *words: str) -> T:
    """What a contributor says; one that fails is missed, and keeps nobody from talking."""
    try:
        return ask(*words)
    except Exception:  # files of others, a bug of ours: a prompt that was accepted is answered all the same
        log.exception("something that belongs into a context could not be had")
        return otherwise


def _unread(session: Session) -> Folded:
    """What was too much to be read when the lane awoke is left where it is: the window begins here from now on."""
    shown = session.messages[0]
    earlier = session.message_count - len(session.messages)
    text = f"About {earlier} earlier messages are not shown and were not summarised; memory_search finds them."
    upto = min((one.since or one.id for one in session.messages), default=shown.id) - 1
    return Folded(upto, text, through=max(shown.turn - 1, 0))
