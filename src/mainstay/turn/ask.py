"""One model call: stream it, keep what came, let it be interrupted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import aclosing
from typing import Literal

import msgspec

from mainstay.core.errors import ModelSilent, ProviderError
from mainstay.core.events import StepCheckpointed, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStarted, Waiting
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Thinking, ToolCall, Usage
from mainstay.core.ports import (
    CallPiece,
    Context,
    Emit,
    Finished,
    ModelInfo,
    Options,
    Piece,
    Scribe,
    TextPiece,
    ThinkingPiece,
)
from mainstay.core.session import Session
from mainstay.trust.guards.redact import Stream
from mainstay.turn.control import Control
from mainstay.turn.means import Means

STEPS = 20  # moments of a checkpoint's period

Provisional = Literal["", "held", "shown"]  # as of a message: what may be an answer is held back, or shown as a draft


class Answer(msgspec.Struct, frozen=True):
    """What the model said in one call, whole or as far as it was let."""

    parts: tuple[AnyPart, ...]
    reason: FinishReason
    usage: Usage
    by: ModelInfo | None = None  # where another model than the one that was meant has answered
    redacted: tuple[str, ...] = ()  # kinds of what was taken out of it
    provisional: Provisional = ""  # it may be the answer, and has not been judged

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class Interrupted(Exception):
    """The stream failed after something had been said; `draft` is what."""

    def __init__(self, error: ProviderError, draft: Draft) -> None:
        super().__init__(str(error))
        self.error = error
        self.draft = draft


class _Run:
    """Neighbouring pieces of one kind, or one call."""

    __slots__ = ("kind", "name", "pieces", "signature")

    def __init__(self, kind: Literal["text", "thinking", "call"], name: str = "") -> None:
        self.kind = kind
        self.name = name
        self.pieces: list[str] = []
        self.signature = ""


class Draft:
    """A message in the making."""

    def __init__(self, turn: int, step: int, provisional: Provisional = "") -> None:
        self.turn = turn
        self.step = step
        self._provisional: Provisional = provisional
        self._runs: list[_Run] = []
        self._calls: dict[int, _Run] = {}
        self._unsaved: list[tuple[str, str]] = []  # text, thinking

    @property
    def empty(self) -> bool:
        return not self._runs

    @property
    def provisional(self) -> Provisional:
        """What is said before a call is no answer."""
        return "" if self._calls else self._provisional

    def add_text(self, text: str) -> None:
        self._unsaved.append((text, ""))
        self._run("text").pieces.append(text)

    def add_thinking(self, text: str, signature: str) -> None:
        self._unsaved.append(("", text))
        run = self._run("thinking")
        run.pieces.append(text)
        run.signature = signature

    def add_call(self, piece: CallPiece) -> bool:
        """True if this piece began the call."""
        run = self._calls.get(piece.index)
        began = run is None
        if run is None:
            run = self._calls[piece.index] = _Run("call", piece.name)
            self._runs.append(run)
        run.name = run.name or piece.name
        run.pieces.append(piece.input)
        return began

    def call_id(self, index: int) -> str:
        """Ours, not the provider's: unique in the session whatever the model made up, the same on replay."""
        return f"call_{self.turn}_{self.step}_{list(self._calls).index(index)}"

    def parts(self, reason: FinishReason, *, with_calls: bool) -> tuple[AnyPart, ...]:
        made: list[AnyPart] = []
        calls = 0
        for run in self._runs:
            text = _keepable("".join(run.pieces))
            if run.kind == "text" and text:
                made.append(Text(text))
            elif run.kind == "thinking":
                made.append(Thinking(text, run.signature))
            elif run.kind == "call" and with_calls:
                # the output limit, or a filter, cut off whatever came last: such a call must not run
                cut = reason in (FinishReason.LENGTH, FinishReason.FILTERED)
                whole = not cut or run is not self._runs[-1]
                made.append(
                    ToolCall(f"call_{self.turn}_{self.step}_{calls}", _keepable(run.name), text, finished=whole)
                )
                calls += 1
        made.append(Finish(reason))
        return tuple(made)

    def _run(self, kind: Literal["text", "thinking"]) -> _Run:
        if self._runs and self._runs[-1].kind == kind and not self._runs[-1].signature:
            return self._runs[-1]
        self._runs.append(_Run(kind))
        return self._runs[-1]

    def checkpoint(self) -> StepCheckpointed | None:
        """What has been said since the last checkpoint."""
        if not self._unsaved:
            return None
        texts, thoughts = zip(*self._unsaved, strict=True)
        self._unsaved = []
        text, thinking = _keepable("".join(texts)), _keepable("".join(thoughts))
        held = bool(text) and self.provisional == "held"
        return StepCheckpointed(text, thinking, held, turn=self.turn, step=self.step)


def _keepable(text: str) -> str:
    """Surrogates can be neither kept nor sent: halves of a pair that came in two pieces are joined, and one
    alone is written as its escape, which a call's arguments are refused for."""
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return joined.encode(errors="backslashreplace").decode()
    return text


class Asking:
    """What `ask` needs for one call."""

    __slots__ = ("control", "emit", "guards", "limits", "provider", "provisional", "scribe", "session", "turn")

    def __init__(self, session: Session, means: Means, control: Control, scribe: Scribe, emit: Emit) -> None:
        assert session.open is not None
        self.session = session.key
        self.turn = session.open.turn
        self.provider = means.provider
        self.limits = means.limits
        self.guards = means.trust.guards
        self.control = control
        self.scribe = scribe
        self.emit = emit
        self.provisional: Provisional = ""  # what an answer to this call would be

    def notice(self, sentence: str, seconds: float) -> None:
        """A provider waits before it asks again: that is not counted as the model's time."""
        self.control.extend(seconds)
        self.emit(Waiting(sentence, seconds, session=self.session, turn=self.turn))


async def ask(
    asking: Asking, context: Context, options: Options, hear: Callable[[Piece], bool] | None = None
) -> Answer:
    """`hear` is told all that comes, and may say that it is enough. Raises ProviderError if nothing was said,
    Interrupted if something was."""
    draft = Draft(options.turn, options.step, asking.provisional)
    control = asking.control
    timeout_s = asking.limits.model_timeout_s
    control.busy("waiting for the model", timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as scope:
            control.begin_generation(scope)
            finished, redacted = await _listen(asking, context, options, draft, hear)
    except TimeoutError:
        return _interrupted(control, draft, timeout_s)
    except ProviderError as error:
        if draft.empty:
            raise
        raise Interrupted(error, draft) from error
    finally:
        control.end_generation()
    reason = finished.reason
    parts = draft.parts(reason, with_calls=True)
    return Answer(parts, reason, finished.usage, finished.by, redacted, draft.provisional)


def _interrupted(control: Control, draft: Draft, timeout_s: float) -> Answer:
    if control.aborted or control.cut:
        reason = FinishReason.ABORTED if control.aborted else FinishReason.STEERED
        return Answer(draft.parts(reason, with_calls=False), reason, Usage(), provisional=draft.provisional)
    error = ModelSilent(f"the model did not finish within {timeout_s:g} s")
    if draft.empty:
        raise error
    raise Interrupted(error, draft)


async def _listen(
    asking: Asking, context: Context, options: Options, draft: Draft, hear: Callable[[Piece], bool] | None
) -> tuple[Finished, tuple[str, ...]]:
    saving = _Checkpoints(asking, draft)
    voice = _Voice(asking, draft, options)
    try:
        async with aclosing(asking.provider.stream(context, options)) as stream:  # type: ignore[type-var]
            async for piece in stream:
                match piece:
                    case TextPiece(text=text):
                        voice.say(text)
                    case ThinkingPiece(text=text, signature=signature):
                        voice.think(text, signature)
                    case CallPiece():
                        asking.control.expect_calls()
                        voice.call(piece)
                    case Finished():
                        if hear is not None:
                            hear(piece)
                        voice.end()
                        return piece, voice.kinds
                if hear is not None and hear(piece):  # as if the provider had kept to what it was told
                    voice.end()
                    return Finished(FinishReason.LENGTH), voice.kinds
                saving.arm()
    finally:
        saving.stop()
    raise AssertionError("a provider's stream ended without Finished or an error")


class _Voice:
    """What the model says, as it may be heard: secrets are taken out before anyone sees or keeps them."""

    __slots__ = ("_asking", "_calls", "_draft", "_found", "_held", "_now", "_options", "_stream")

    def __init__(self, asking: Asking, draft: Draft, options: Options) -> None:
        self._asking = asking
        self._draft = draft
        self._options = options
        self._now: Literal["", "text", "thinking"] = ""
        self._stream: Stream | None = None
        self._calls: dict[int, Stream] = {}
        self._found: dict[str, None] = {}
        self._held: list[str] = []  # nobody is shown it before a call begins: till then it may be an answer

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of what was taken out."""
        return tuple(self._found)

    def say(self, text: str) -> None:
        if self._now != "text":
            self._turn_to("text")
        self._heard(text if self._stream is None else self._stream.feed(text))

    def think(self, text: str, signature: str) -> None:
        self._turn_to("thinking")
        if self._stream is not None:
            text = self._stream.feed(text) + (self._stream.end() if signature else "")
        self._thought(text, signature)

    def call(self, piece: CallPiece) -> None:
        self._turn_to("")
        if self._held:
            self._emit("".join(self._held))
            self._held.clear()
        guards = self._asking.guards
        stream = self._calls.get(piece.index)
        if stream is None and guards is not None and (stream := guards.beside()) is not None:
            self._calls[piece.index] = stream
            name = stream.feed(piece.name) + stream.end()
            piece = CallPiece(piece.index, name, piece.input)
        if stream is not None:
            piece = CallPiece(piece.index, piece.name, stream.feed(piece.input))
        _hear_call(self._asking, self._options, self._draft, piece)

    def end(self) -> None:
        """What was held back is whole."""
        self._turn_to("")
        for index, stream in self._calls.items():
            if held := stream.end():
                _hear_call(self._asking, self._options, self._draft, CallPiece(index, input=held))
            self._found |= dict.fromkeys(stream.kinds)

    def _turn_to(self, kind: Literal["", "text", "thinking"]) -> None:
        if kind == self._now:
            return
        before, stream = self._now, self._stream
        if stream is not None:
            if held := stream.end():
                if before == "text":
                    self._heard(held)
                else:
                    self._thought(held, "")
            self._found |= dict.fromkeys(stream.kinds)
        guards = self._asking.guards
        self._now, self._stream = kind, None
        if kind and guards is not None:  # made when something is said: by then every key is known that was used
            self._stream = guards.answer() if kind == "text" else guards.beside()

    def _heard(self, text: str) -> None:
        if not text:
            if self._draft.empty:  # it has begun to speak, even if nothing of it may be heard yet
                self._draft.add_text("")
            return
        self._draft.add_text(text)
        if self._draft.provisional == "held":
            self._held.append(text)
        else:
            self._emit(text, self._draft.provisional)

    def _emit(self, text: str, provisional: Literal["", "shown"] = "") -> None:
        emit, options = self._asking.emit, self._options
        if emit.wanted:
            emit(TextDelta(text, provisional, session=self._asking.session, turn=options.turn, step=options.step))

    def _thought(self, text: str, signature: str) -> None:
        self._draft.add_thinking(text, signature)
        emit, options = self._asking.emit, self._options
        if emit.wanted and text:
            emit(ThinkingDelta(text, session=self._asking.session, turn=options.turn, step=options.step))


class _Checkpoints:
    """While a stream goes on, what it has said is noted once a period; most answers end before the first. Those of many
    streams are due at the same few moments of it, so that one write to the disk has them all."""

    __slots__ = ("_asking", "_draft", "_timer")

    def __init__(self, asking: Asking, draft: Draft) -> None:
        self._asking = asking
        self._draft = draft
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        if self._timer is None:
            period_s = self._asking.limits.checkpoint_period_s
            loop, step_s = asyncio.get_running_loop(), period_s / STEPS
            at = math.ceil((loop.time() + period_s) / step_s) * step_s
            self._timer = loop.call_at(at, self._save)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _save(self) -> None:
        self._timer = None
        if event := self._draft.checkpoint():
            self._asking.scribe.note(event, soon=True)


def _hear_call(asking: Asking, options: Options, draft: Draft, piece: CallPiece) -> None:
    began = draft.add_call(piece)
    if not asking.emit.wanted:
        return
    session, turn, step, call_id = asking.session, options.turn, options.step, draft.call_id(piece.index)
    if began:
        asking.emit(ToolCallStarted(call_id, piece.name, session=session, turn=turn, step=step))
    if piece.input:
        asking.emit(ToolCallDelta(call_id, piece.input, session=session, turn=turn, step=step))
