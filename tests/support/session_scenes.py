"""Random scenes of one session: actions of people, model and tools, and the invariants afterwards.

A `Scene` is plain data, drawn by hypothesis or from a seed, and played on virtual time. Everything a tool does
follows from its arguments, so that a call tells its own story; a crash drops everything that the store had not yet
been given, cancels every task and opens new lanes on the same store.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, NamedTuple

import msgspec

from mainstay.core.errors import (
    AgentClosed,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
    SessionBlocked,
    StreamBroken,
    Unauthorised,
)
from mainstay.core.errors import LaneFull as LaneFull
from mainstay.core.events import (
    MessageAdded,
    Received,
    Steered,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.journal import Record, decode_event, encode_event
from mainstay.core.limits import Limits
from mainstay.core.messages import Finish, FinishReason, ToolCall, Usage, parts_text
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Answered
from mainstay.core.ports import (
    NO_TOKEN_COUNT,
    Context,
    IdempotencyKey,
    ModelInfo,
    Options,
    Piece,
    SessionInfo,
    SessionTail,
    Store,
    StreamFinished,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    ToolContext,
)
from mainstay.core.session import Session
from mainstay.core.tools import FunctionTool
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.replay import replay_journal
from mainstay.lane.services import LaneServices
from mainstay.operations.sessions import copy_session
from mainstay.providers.anthropic.provider import AnthropicProvider
from mainstay.providers.openai.provider import OpenAIProvider
from mainstay.testing import MemoryStore, VirtualClock
from mainstay.turn.toolbox import Toolbox
from support.wire_messages import wire_messages
from support.wire_rules import check_anthropic, check_openai

SESSION = "s"
HANG_S = 50_000.0  # of virtual time: longer than everything that is bounded
LIMITS = Limits(steps_max=6, tool_calls_max=14, tool_result_bytes_max=2000)

# --- what can happen -----------------------------------------------------------------------------

WAITS = (0.0, 0.001, 0.005, 0.03, 0.4, 1.5, 8.0, 45.0, 400.0)
ACTIONS: tuple[tuple[Any, ...], ...] = (
    ("prompt",),
    *(("wait", seconds) for seconds in WAITS),
    ("steer",),
    ("abort",),
    ("crash",),
    ("again",),  # the last prompt once more under the same id
    ("twice",),  # the same prompt two times at once, under one id
    ("impatient",),  # a prompt whose sender goes away while it is being accepted
    ("sleep",),  # closed in an orderly way and opened again
)

DOINGS = ("ok", "slow", "raise", "hang", "stubborn", "odd", "rude", "large", "exit")
TOOLS = ("look", "put", "book", "charge")
CALLS: tuple[tuple[str, str], ...] = (
    *((tool, json.dumps({"do": do})) for tool in TOOLS for do in ("ok", "slow")),
    ("charge", '{"do":"hang"}'),
    ("put", '{"do":"raise"}'),
    ("look", '{"do":"stubborn"}'),
    ("charge", '{"do":"stubborn"}'),
    ("book", '{"do":"odd"}'),
    ("look", '{"do":"rude"}'),
    ("look", '{"do":"large"}'),
    ("look", '{"do":"exit"}'),
    ("charge", ""),  # no arguments at all
    ("charge", '{"do":"ok",}'),
    ("charge", '{"do":"ok","do":"ok"}'),
    ("charge", '{"do":NaN}'),
    ("charge", '{"do":"o'),
    ("charge", "[1]"),
    ("charge", "[" * 3000),
    ("charge", '{"do":"ok","extra":1}'),
    ("Charge", '{"do":"ok"}'),
    ("chаrge", '{"do":"ok"}'),  # noqa: RUF001  # a look-alike letter
    ("", "{}"),
    ("no such tool" * 20, "{}"),
)

# One answer of the model: what comes out, piece by piece. A number is a wait, an error ends it.
Answer = tuple[Any, ...]
END = ("finish", "end")
CALLED = ("finish", "tool_calls")
CUT = ("error", "StreamBroken")
ANSWERS: tuple[Answer, ...] = (
    (("text", "fine"), END),
    (("text", "one "), 0.3, ("text", "two "), 2.0, ("text", "three"), END),
    (("thinking", "hm", "signed"), ("text", "well"), END),
    (("thinking", "hm", ""), 1.2, ("thinking", "more", "s1"), ("thinking", "and more", "s2"), END),
    (END,),
    (("text", ""), END),
    (("text", " \n"), END),
    (("text", "it was lo"), ("finish", "length")),
    (("text", "I must not"), ("finish", "filtered")),
    (("text", "half an ans"), CUT),
    (("text", "half "), 1.5, ("text", "an ans"), CUT),
    (("thinking", "half a thought", ""), CUT),
    (("call", 0), CUT),
    (("error", "RequestRefused"),),
    (("error", "RateLimited"),),
    (("error", "Unauthorised"),),
    (0.5, ("error", "Overloaded")),
    (HANG_S, END),
    (("text", "and then"), HANG_S, END),
    (("call", 0), HANG_S, CALLED),
    (("bug",),),
    (("nothing",),),
)
ERRORS: dict[str, ProviderError] = {
    "StreamBroken": StreamBroken("the stream was cut"),
    "RequestRefused": RequestRefused("it will not have it", details="a reason"),
    "RateLimited": RateLimited("too much", retry_after_s=3),
    "Unauthorised": Unauthorised("no key"),
    "Overloaded": Overloaded("too busy"),
}


class Scene(NamedTuple):
    """A life, as data."""

    actions: tuple[tuple[Any, ...], ...]
    answers: tuple[Answer, ...]
    store_delay_s: float = 0.0
    window: int = 128_000
    watched: bool = False


def calling(numbers: Sequence[int], *, text: str = "", reason: str = "tool_calls") -> Answer:
    """An answer that calls these entries of CALLS."""
    said = (("text", text),) if text else ()
    return (*said, *(("call", number) for number in numbers), ("finish", reason))


def random_scene(seed: int, *, actions_max: int = 14) -> Scene:
    chance = random.Random(seed)
    prompts = [("prompt",)] * chance.randint(2, 5)
    others = [chance.choice(ACTIONS) for _ in range(chance.randint(2, actions_max))]
    actions = [*prompts, *others]
    chance.shuffle(actions)
    return Scene(
        (("prompt",), *actions),
        tuple(_random_answer(chance) for _ in range(chance.randint(1, 14))),
        chance.choice((0.0, 0.0, 0.004)),
        chance.choice((128_000, 128_000, 600)),
        chance.random() < 0.3,
    )


def _random_answer(chance: random.Random) -> Answer:
    if chance.random() < 0.5:
        return chance.choice(ANSWERS)
    numbers = [chance.randrange(len(CALLS)) for _ in range(chance.choice((1, 1, 2, 3, 12)))]
    reason = chance.choice(("tool_calls", "tool_calls", "tool_calls", "length", "end"))
    return calling(numbers, text=chance.choice(("", "let me see")), reason=reason)


# --- the doubles ---------------------------------------------------------------------------------


class ProviderEncoders:
    """Both providers' eyes on a history."""

    def __init__(self) -> None:
        self._openai = OpenAIProvider("any", api_key="k")
        self._anthropic = AnthropicProvider("any", api_key="k")

    def check(self, context: Context, *, asking: bool) -> None:
        openai = wire_messages(self._openai, context)
        check_openai(openai)
        anthropic = wire_messages(self._anthropic, context)
        check_anthropic(anthropic)
        if asking:
            assert openai, "the model is asked nothing"
            assert openai[-1]["role"] in ("user", "tool", "developer"), "the last word is the model's own"
            assert anthropic[-1]["role"] == "user"


class SceneModel:
    """Plays the scene's answers, and looks at every history it is shown with both providers' eyes."""

    def __init__(self, scene: Scene, wires: ProviderEncoders) -> None:
        self._answers = deque(scene.answers)
        self._info = ModelInfo(name="scene", window=scene.window, price_prompt=1.0, price_completion=2.0)
        self._wires = wires
        self.refused: AssertionError | None = None

    def model(self) -> ModelInfo:
        return self._info

    async def close(self) -> None: ...

    def calm(self) -> None:
        """From here on only plain answers."""
        self._answers.clear()

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        try:
            self._wires.check(context, asking=True)
        except AssertionError as refusal:  # the runtime would make an outcome of it
            self.refused = self.refused or refusal
        answer = self._answers.popleft() if self._answers else (("text", "done"), END)
        await asyncio.sleep(0)
        for number, piece in enumerate(answer):
            match piece:
                case float() | int():
                    await asyncio.sleep(piece)
                case ("text", text):
                    yield TextPiece(text)
                case ("thinking", text, signature):
                    yield ThinkingPiece(text, signature)
                case ("call", which):
                    name, written = CALLS[which]
                    yield ToolCallPiece(number, name, written[: len(written) // 2])
                    await asyncio.sleep(0)
                    yield ToolCallPiece(number, "", written[len(written) // 2 :])
                case ("error", name):
                    raise ERRORS[name]
                case ("bug",):
                    raise ZeroDivisionError("a bug in a provider")
                case ("nothing",):
                    return
                case ("finish", reason):
                    yield StreamFinished(FinishReason(reason), Usage(10, 5, 2, 1))
                    return


class Ledger:
    """What really happened in the world, by call. It outlives every crash."""

    def __init__(self) -> None:
        self.effects: list[tuple[str, str]] = []
        self.life = 0

    def tools(self) -> list[FunctionTool]:
        async def look(do: str, context: ToolContext) -> str:
            return await self._work("look", do, context)

        async def put(do: str, context: ToolContext) -> str:
            return await self._work("put", do, context)

        async def book(do: str, context: ToolContext) -> str:
            return await self._work("book", do, context)

        async def was_booked(context: ToolContext) -> str | None:
            await asyncio.sleep(0.01)
            return "booked, it seems" if ("book", context.key) in self.effects else None

        async def charge(do: str, context: ToolContext) -> str:
            return await self._work("charge", do, context)

        return [
            FunctionTool(look, effect="pure", timeout_s=5, untrusted=False, sink=False),
            FunctionTool(put, effect="idempotent", untrusted=False, sink=False),
            FunctionTool(book, reconcile=was_booked, untrusted=False, sink=False),
            FunctionTool(charge, untrusted=False, sink=False),
        ]

    async def _work(self, tool: str, do: str, context: ToolContext) -> str:
        life = self.life
        context.progress("at work")
        await asyncio.sleep(0)
        self.effects.append((tool, context.key))
        match do:
            case "slow":
                await asyncio.sleep(3)
            case "raise":
                raise ValueError("it broke: \ud800")  # half a character, which cannot be kept as it is
            case "rude":
                raise Unspeakable
            case "exit":
                raise SystemExit(3)
            case "hang":
                await asyncio.sleep(HANG_S)
            case "stubborn":
                await self._ignore_cancelling(life)
            case "odd":
                return "half a character: \udc00"
            case "large":
                return "ä" * 5000
        return f"{tool} {do}"

    async def _ignore_cancelling(self, life: int) -> None:
        until = asyncio.get_running_loop().time() + 1000
        while asyncio.get_running_loop().time() < until and life == self.life:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                if life != self.life:  # the process is gone, and so is everything in it
                    raise


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("this error cannot even say what it is")


class KillableStore:
    """A store as one process sees it: appends take a while, and after a crash nothing gets through any more."""

    def __init__(self, store: Store, delay_s: float) -> None:
        self._store = store
        self._delay_s = delay_s
        self._sending: deque[tuple[tuple[Any, ...], asyncio.Future[None]]] = deque()
        self._last = 0.0
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True

    def append(
        self,
        standing: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        once: IdempotencyKey | None = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._sending.append(((standing, expected, events, once), done))
        if not self._delay_s:
            self._arrive()
        else:
            self._last = max(self._last, loop.time() + self._delay_s)
            loop.call_at(self._last, self._arrive)
        return done

    def _arrive(self) -> None:
        arguments, done = self._sending.popleft()
        if self.is_cut:
            return
        made = asyncio.ensure_future(self._store.append(*arguments))
        assert made.done(), "the in-memory store answers at once"
        if done.done():
            return
        if (error := made.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(None)

    async def open(self) -> None: ...

    async def close(self) -> None:
        while self._sending:
            await asyncio.sleep(self._delay_s)

    async def load_tail(self, key: str, bytes_max: int) -> SessionTail | None:
        await asyncio.sleep(self._delay_s)
        return await self._store.load_tail(key, bytes_max)

    async def find_input(self, key: str, id: str) -> tuple[int, str] | None:
        await asyncio.sleep(self._delay_s)
        return await self._store.find_input(key, id)

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        return await self._store.read_records(key, after, limit)

    async def list_unfinished(self) -> list[str]:
        return await self._store.list_unfinished()

    async def list_sessions(
        self, *, limit: int = 100, offset: int = 0, include_deleted: bool = False
    ) -> list[SessionInfo]:
        return await self._store.list_sessions(limit=limit, offset=offset, include_deleted=include_deleted)

    async def get_session(self, key: str) -> SessionInfo | None:
        return await self._store.get_session(key)

    async def fork_session(self, source: str, upto: int, standing: SessionInfo, event: bytes) -> None:
        await self._store.fork_session(source, upto, standing, event)

    async def blank_session(self, key: str, at: int) -> None:
        await self._store.blank_session(key, at)


# --- the play ------------------------------------------------------------------------------------


class SceneRun:
    """One scene, from its first action to its last."""

    def __init__(self, scene: Scene, store: MemoryStore | None = None) -> None:
        self.scene = scene
        self.store = store or MemoryStore()
        self.wires = ProviderEncoders()
        self.ledger = Ledger()
        self.model = SceneModel(scene, self.wires)
        self.accepted: dict[str, int] = {}  # what was acknowledged: text, sequence
        self.refused: set[str] = set()
        self.replies: Counter[str] = Counter()
        self.heard: list[tuple[int, int]] = []  # of each life, the sequences a watcher heard of
        self._outside: set[asyncio.Task[Any]] = set()
        self._said = 0
        self._life = 0
        self._lanes: LaneRegistry
        self._cord: KillableStore
        self._waiting: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    @property
    def lanes(self) -> LaneRegistry:
        return self._lanes

    async def run(self) -> None:
        self._outside = asyncio.all_tasks()
        await self.open()
        for action in self.scene.actions:
            await self.act(action)
        await self._lanes.wait_until_settled()
        for outcome in await asyncio.gather(*self._waiting, return_exceptions=True):
            if isinstance(outcome, Exception):  # being cancelled is none
                raise outcome
        await self._lanes.wait_until_settled()  # what came of those that went away

    async def open(self) -> None:
        self._life += 1
        self.ledger.life = self._life
        self._cord = KillableStore(self.store, self.scene.store_delay_s)
        hub = EventHub(64)
        self._lanes = LaneRegistry(
            LaneServices(
                store=self._cord,
                provider_for=lambda _: self.model,
                tools=Toolbox(self.ledger.tools(), LIMITS),
                limits=LIMITS,
                clock=VirtualClock(),
                hub=hub,
                instructions="Be brief.",
            )
        )
        if self.scene.watched:
            self._watching = asyncio.ensure_future(self._watch(hub))
        await self._lanes.resume_unfinished()

    async def crash(self) -> None:
        await self.end()
        await self.open()

    async def end(self) -> None:
        """As if the process were gone: nothing more is recorded, no task goes on."""
        self._cord.cut()
        self.ledger.life = 0
        for lane in self._lanes._lanes.values():
            lane._is_closed = True  # nothing wakes it again
        tasks = sorted(asyncio.all_tasks() - self._outside, key=id_of)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiting.clear()

    async def act(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("prompt",):
                self._said += 1
                self._send(f"prompt {self._said}")
            case ("again",):
                self._send(f"prompt {self._said or 1}")
            case ("twice",):
                self._said += 1
                self._send(f"prompt {self._said}")
                self._send(f"prompt {self._said}")
            case ("impatient",):
                self._said += 1
                sending = self._send(f"prompt {self._said}")
                await asyncio.sleep(self.scene.store_delay_s * 1.5)
                sending.cancel()
            case ("steer",):
                self._said += 1
                self._send(f"steer {self._said}", steer=True)
            case ("wait", seconds):
                await asyncio.sleep(seconds)
            case ("abort",):
                before = asyncio.get_running_loop().time()
                await self._lanes.get(SESSION).abort()
                assert asyncio.get_running_loop().time() - before < 5, "an abort ends the turn at once"
            case ("crash",):
                await self.crash()
            case ("sleep",):
                await self._lanes.close()
                await self._cord.close()
                await self.open()

    def _send(self, text: str, *, steer: bool = False) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._deliver(text, steer=steer))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return task

    async def _deliver(self, text: str, *, steer: bool) -> None:
        envelope = InputEnvelope(parts=to_parts(text), thread=SESSION, id="" if steer else text)
        try:
            lane = self._lanes.get(SESSION)
            ticket = await (lane.steer(envelope) if steer else lane.accept(envelope))
        except (LaneFull, SessionBlocked):
            self.refused.add(text)
            return
        except AgentClosed:
            return
        assert self.accepted.setdefault(text, ticket.seq) == ticket.seq, "accepted twice"
        try:
            reply = await ticket.reply
        except (AgentClosed, SessionBlocked):
            return
        assert reply.turn
        self.replies[text] += 1

    async def _watch(self, hub: EventHub) -> None:
        life, watcher = self._life, hub.watch(SESSION)
        try:
            async for event in watcher:
                if event.sequence:
                    self.heard.append((life, event.sequence))
        finally:
            hub.unwatch(watcher)

    async def release(self) -> None:
        """End a turn that was set aside, as a person would after such a life."""
        info = await self.store.get_session(SESSION)
        if info is not None and info.set_aside:
            await self._lanes.get(SESSION).release(fail=True)
            await self._lanes.wait_until_settled()

    async def answer_one_more(self) -> None:
        """After all actions the session answers."""
        self.model.calm()
        lane = self._lanes.get(SESSION)
        ticket = await lane.accept(InputEnvelope(parts=to_parts("one more"), thread=SESSION))
        reply = await ticket.reply
        assert isinstance(reply.outcome, Answered), reply
        assert reply.text == "done"
        await self._lanes.wait_until_settled()

    async def records(self) -> list[Record]:
        """Return the journal, with what waits in memory for the next write, such as a fold in the background."""
        writer = self._lanes.get(SESSION)._writer
        if writer is not None and writer.failure is None and not self._cord.is_cut:
            await writer.flush()
            while writer.has_pending_writes:  # an append that was under way before
                await asyncio.sleep(0.001)
        return await self.store.read_records(SESSION, limit=1_000_000)


def id_of(task: asyncio.Task[Any]) -> tuple[int, str]:
    """Sets of tasks have no order; a test that is to be repeated needs one."""
    name = task.get_name()
    number = name.removeprefix("Task-")
    return (int(number) if number.isdigit() else -1, name)


async def play(scene: Scene) -> SceneRun:
    """The whole life, its last answer, and every check."""
    made = SceneRun(scene)
    async with asyncio.timeout(HANG_S):
        await made.run()
        await made.release()
        await check(made)
        await made.answer_one_more()
        await check(made)
        await check_forks(made)
    await made.end()
    return made


NOTHING_HAPPENED = ("Not run", "Skipped", "Cancelled: the turn was aborted before this call ran", "There is no tool")


# --- what must hold ------------------------------------------------------------------------------


async def check(made: SceneRun) -> None:
    if made.model.refused is not None:
        raise made.model.refused
    records = await made.records()
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    check_inputs(made, records)
    check_calls(records)
    check_effects(made, records)
    check_watched(made)
    await check_views(made, records)
    for body in (encode_event(record.event) for record in records):
        assert encode_event(decode_event(body)) == body
    for _ in range(2):
        replayed = await replay_journal(records)
        assert replayed.is_identical, replayed.difference
        assert replayed.records == len(records)


def check_inputs(made: SceneRun, records: list[Record]) -> None:
    """I1, I3: every accepted input is in exactly one turn, and every turn has one end."""
    received = {record.seq: parts_text(record.event.parts) for record in records if isinstance(record.event, Received)}
    for text, seq in made.accepted.items():
        assert received.get(seq) == text, f"{text!r} was acknowledged and lost"
    assert not set(received.values()) & (made.refused - set(made.accepted)), "a refused input is in the journal"
    texts = Counter(received.values())
    assert all(count == 1 for text, count in texts.items() if text.startswith("prompt")), "an input was accepted twice"
    taken = Counter(
        seq for record in records if isinstance(record.event, TurnStarted | Steered) for seq in record.event.inputs
    )
    assert set(taken) == set(received), "an input is in no turn"
    assert all(count == 1 for count in taken.values()), "an input is in two turns"
    started = [record.event.turn for record in records if isinstance(record.event, TurnStarted)]
    ended = [record.event.turn for record in records if isinstance(record.event, TurnEnded)]
    assert started == ended == list(range(1, len(started) + 1))


def check_calls(records: list[Record]) -> None:
    """Every call has exactly one result, in the order of the calls, and none was started twice."""
    calls = [
        part.id
        for record in records
        if isinstance(record.event, MessageAdded)
        for part in record.event.parts
        if isinstance(part, ToolCall)
    ]
    assert len(set(calls)) == len(calls), "two calls have one id"
    results = [record.event.result.call_id for record in records if isinstance(record.event, ToolFinished)]
    assert results == calls
    for event in (record.event for record in records):
        if isinstance(event, MessageAdded) and event.parts[-1] == Finish(FinishReason.LENGTH):
            last = event.parts[-2] if len(event.parts) > 1 else None
            assert not isinstance(last, ToolCall) or not last.finished, "a call that was cut off is taken for whole"
    asked_again = Counter((r.event.turn, r.event.step) for r in records if isinstance(r.event, StepRestarted))
    assert all(count <= LIMITS.step_restarts_max for count in asked_again.values())
    started = Counter(record.event.call_id for record in records if isinstance(record.event, ToolStarted))
    assert all(count == 1 for count in started.values())


def check_effects(made: SceneRun, records: list[Record]) -> None:
    """I2: an unsafe call had its effect at most once, and nothing but a pure call ran without a word in the journal."""
    started = {f"{SESSION}/{record.event.call_id}" for record in records if isinstance(record.event, ToolStarted)}
    results = {
        f"{SESSION}/{record.event.result.call_id}": record.event.result
        for record in records
        if isinstance(record.event, ToolFinished)
    }
    cut = {
        f"{SESSION}/{part.id}"
        for record in records
        if isinstance(record.event, MessageAdded)
        for part in record.event.parts
        if isinstance(part, ToolCall) and not part.finished
    }
    for (tool, key), times in Counter(made.ledger.effects).items():
        if tool == "look":
            continue
        assert tool == "put" or times == 1, f"{tool} {key} ran {times} times"
        assert key not in cut, f"{tool} {key} ran, though it was cut off"
        assert key in started, f"{tool} {key} ran before it was written down"
        told = results[key].content
        assert not told.startswith(NOTHING_HAPPENED), f"{tool} {key} ran, and the model was told {told!r}"


def check_watched(made: SceneRun) -> None:
    """A watcher hears of what is durable once and in order."""
    for life in {life for life, _ in made.heard}:
        sequences = [sequence for when, sequence in made.heard if when == life]
        assert sequences == sorted(set(sequences))


async def check_forks(made: SceneRun) -> None:
    """A copy of any prefix is a session of its own that every provider accepts."""
    records = await made.records()
    for number, upto in enumerate(range(1, len(records) + 1, max(1, len(records) // 6))):
        target = f"fork {number}"
        await copy_session(made.store, SESSION, target, upto, 0)
        copied = await made.store.read_records(target, limit=1_000_000)
        made.wires.check(seen(rebuilt(copied, target)), asking=False)
        tail = await made.store.load_tail(target, 300)
        assert tail is not None
        made.wires.check(seen(Session.from_tail(tail)), asking=False)
        replayed = await replay_journal(copied)
        assert replayed.is_identical, replayed.difference


async def check_views(made: SceneRun, records: list[Record]) -> None:
    """I5: the journal tells the same story however often and through however small a window it is read."""
    first, second = rebuilt(records), rebuilt(records)
    assert picture(first) == picture(second)
    live = await made.lanes.get(SESSION).load_session()
    assert unweighed(live) == unweighed(first)
    if made.scene.window > 100_000:
        assert picture(live) == picture(first)
    made.wires.check(seen(live), asking=False)
    made.wires.check(seen(first), asking=False)
    for size in (0, 150, 600, 2500):
        tail = await made.store.load_tail(SESSION, size)
        assert tail is not None or not records
        if tail is None:
            continue
        part = Session.from_tail(tail)
        assert unweighed(part) == unweighed(first)
        made.wires.check(seen(part), asking=False)
        assert [m.id for m in part.messages] == [
            m.id for m in first.messages[len(first.messages) - len(part.messages) :]
        ]


def rebuilt(records: Sequence[Record], key: str = SESSION) -> Session:
    session = Session(key)
    for record in records:
        session.apply(record.seq, record.at, record.event)
    return session


def seen(session: Session) -> Context:
    return Context("Be brief.", session.messages, ())


def unweighed(session: Session) -> SessionInfo:
    """What is kept of a session, without what no event tells: token counts, and the turn that an orderly stop met."""
    return msgspec.structs.replace(session.to_info(), window_tokens=NO_TOKEN_COUNT, stopped_turn=0)


CACHES = ("window_tokens", "reported_tokens", "stopped_turn")


def picture(session: Session) -> dict[str, Any]:
    """Everything a view holds, without the caches; the events of one append share the time of the last."""
    made = {
        name: getattr(session, name) for name in Session.__slots__ if name not in (*CACHES, "messages", "open_turn")
    }
    made["usage"] = (session.usage.prompt, session.usage.completion)  # a standing keeps these two
    made["messages"] = [(m.id, m.role, m.parts, m.model) for m in session.messages]
    made["open_turn"] = session.open_turn and {name: getattr(session.open_turn, name) for name in OpenTurn.__slots__}
    return made
