"""One model call: streams the answer, redacts secrets, records checkpoints, and can be aborted or steered."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import aclosing
from typing import Literal

import msgspec

from mainstay.core.errors import ModelSilent, ProviderBroken, ProviderError
from mainstay.core.events import StepCheckpointed, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStarted, Waiting
from mainstay.core.messages import AnyPart, Finish, FinishReason, Text, Thinking, ToolCall, Usage
from mainstay.core.model_info import find_description_problem
from mainstay.core.ports import (
    Context,
    EventEmitter,
    EventRecorder,
    ModelInfo,
    Options,
    Piece,
    StreamFinished,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
)
from mainstay.core.session import Session
from mainstay.guards.redaction import RedactionStream
from mainstay.turn.control import TurnControl
from mainstay.turn.dependencies import TurnDependencies
from mainstay.turn.secret_display import open_answer_stream

log = logging.getLogger("mainstay.turn")

CHECKPOINT_SLOTS = 20  # instants of a period that the checkpoints of all streams are aligned to

ProvisionalState = Literal["", "held", "shown"]  # of a possible answer before its verdict:
# held back from watchers, or shown to them as a draft; "": final, or not an answer


class ModelAnswer(msgspec.Struct, frozen=True):
    """The output of one model call, complete or up to where it was interrupted."""

    parts: tuple[AnyPart, ...]
    reason: FinishReason
    usage: Usage
    model: ModelInfo | None = None  # the model that answered, if not the requested one
    redacted_kinds: tuple[str, ...] = ()  # kinds of secrets and PII that were redacted
    provisional: ProvisionalState = ""  # set if this may be the answer and has no verdict yet

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class StreamInterrupted(Exception):
    """The stream failed after output had arrived; `draft` is that output."""

    def __init__(self, error: ProviderError, draft: MessageDraft) -> None:
        super().__init__(str(error))
        self.error = error
        self.draft = draft


class _DraftSegment:
    """Consecutive pieces of one kind, or all pieces of one tool call."""

    __slots__ = ("kind", "name", "pieces", "signature")

    def __init__(self, kind: Literal["text", "thinking", "call"], name: str = "") -> None:
        self.kind = kind
        self.name = name
        self.pieces: list[str] = []
        self.signature = ""


class MessageDraft:
    """A model message that is being streamed."""

    def __init__(self, turn: int, step: int, provisional: ProvisionalState = "") -> None:
        self.turn = turn
        self.step = step
        self._provisional: ProvisionalState = provisional
        self._segments: list[_DraftSegment] = []
        self._call_segments: dict[int, _DraftSegment] = {}
        self._unsaved: list[tuple[str, str, str]] = []  # text, thinking and calls since the last checkpoint

    @property
    def is_empty(self) -> bool:
        return not self._segments

    @property
    def provisional(self) -> ProvisionalState:
        """Empty once a tool call has begun: text before a call is not an answer."""
        return "" if self._call_segments else self._provisional

    def add_text(self, text: str) -> None:
        self._unsaved.append((text, "", ""))
        self._segment_of_kind("text").pieces.append(text)

    def add_thinking(self, text: str, signature: str) -> None:
        self._unsaved.append(("", text, ""))
        segment = self._segment_of_kind("thinking")
        segment.pieces.append(text)
        segment.signature = signature

    def add_call(self, piece: ToolCallPiece) -> bool:
        """Add a piece of a tool call; return True if it is the call's first piece."""
        segment = self._call_segments.get(piece.index)
        began = segment is None
        if segment is None:
            segment = self._call_segments[piece.index] = _DraftSegment("call", piece.name)
            self._segments.append(segment)
        self._unsaved.append(("", "", f"{piece.name}({piece.input}" if began else piece.input))
        segment.name = segment.name or piece.name
        segment.pieces.append(piece.input)
        return began

    def call_id(self, index: int) -> str:
        """Return our id for the call: unique in the session, and the same on replay, unlike the provider's id."""
        return f"call_{self.turn}_{self.step}_{list(self._call_segments).index(index)}"

    def build_parts(self, reason: FinishReason) -> tuple[AnyPart, ...]:
        """Build the message's parts; `reason` becomes the `Finish` part."""
        parts: list[AnyPart] = []
        calls = 0
        for segment in self._segments:
            text = _repair_surrogates("".join(segment.pieces))
            if segment.kind == "text" and text:
                parts.append(Text(text))
            elif segment.kind == "thinking":
                parts.append(Thinking(text, segment.signature))
            elif segment.kind == "call":
                # the output limit, a filter or an abort cut off the last segment: an incomplete call must not run
                cut = reason in (FinishReason.LENGTH, FinishReason.FILTERED, FinishReason.ABORTED)
                whole = not cut or segment is not self._segments[-1]
                parts.append(
                    ToolCall(
                        f"call_{self.turn}_{self.step}_{calls}", _repair_surrogates(segment.name), text, finished=whole
                    )
                )
                calls += 1
        parts.append(Finish(reason))
        return tuple(parts)

    def _segment_of_kind(self, kind: Literal["text", "thinking"]) -> _DraftSegment:
        if self._segments and self._segments[-1].kind == kind and not self._segments[-1].signature:
            return self._segments[-1]
        self._segments.append(_DraftSegment(kind))
        return self._segments[-1]

    def take_checkpoint(self) -> StepCheckpointed | None:
        """Return the output since the last checkpoint, or None if there is none."""
        if not self._unsaved:
            return None
        text, thinking, calls = (_repair_surrogates("".join(pieces)) for pieces in zip(*self._unsaved, strict=True))
        self._unsaved = []
        held = bool(text) and self.provisional == "held"
        return StepCheckpointed(text, thinking, held, calls, turn=self.turn, step=self.step)


def _repair_surrogates(text: str) -> str:
    """Make text encodable as UTF-8: join surrogate pairs that were split over two pieces, and escape lone surrogates.

    Tool arguments that contain such an escape are refused later.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return joined.encode(errors="backslashreplace").decode()
    return text


class ModelCallEnvironment:
    """The collaborators that the model calls of one turn share."""

    __slots__ = (
        "control",
        "emit",
        "guards",
        "limits",
        "provider",
        "provisional",
        "recorder",
        "session",
        "state",
        "turn",
    )

    def __init__(
        self,
        session: Session,
        dependencies: TurnDependencies,
        control: TurnControl,
        recorder: EventRecorder,
        emit: EventEmitter,
    ) -> None:
        assert session.open_turn is not None
        self.session = session.key
        self.state = session
        self.turn = session.open_turn.turn
        self.provider = dependencies.provider
        self.limits = dependencies.limits
        self.guards = dependencies.trust.guards
        self.control = control
        self.recorder = recorder
        self.emit = emit
        self.provisional: ProvisionalState = ""  # state of an answer to the next call

    def report_waiting(self, sentence: str, seconds: float) -> None:
        """Report a wait before the provider is called again; the wait does not count against the model timeout."""
        self.control.extend_deadline(seconds)
        self.emit(Waiting(sentence, seconds, session=self.session, turn=self.turn))


async def call_model(
    environment: ModelCallEnvironment,
    context: Context,
    options: Options,
    on_piece: Callable[[Piece], bool] | None = None,
) -> ModelAnswer:
    """Call the model once and stream its answer to the journal and to watchers.

    `on_piece` receives every piece; if it returns True, the stream is cut off. An abort or a steer ends the call with
    the output so far. Raises ProviderError if the call failed without output, StreamInterrupted if there was some, and
    ProviderBroken if the provider's code yields what is no piece of an answer.
    """
    draft = MessageDraft(options.turn, options.step, environment.provisional)
    control = environment.control
    timeout_s = environment.limits.model_timeout_s
    control.set_activity("waiting for the model", timeout_s)
    try:
        async with asyncio.timeout(timeout_s) as scope:
            control.begin_generation(scope)
            finished, redacted = await _consume_stream(environment, context, options, draft, on_piece)
    except TimeoutError:
        if not scope.expired():  # of the provider's code
            raise
        return _conclude_timeout(control, draft, timeout_s)
    except ProviderError as error:
        if draft.is_empty:
            raise
        raise StreamInterrupted(error, draft) from error
    finally:
        control.end_generation()
    reason = finished.reason
    parts = draft.build_parts(reason)
    return ModelAnswer(parts, reason, finished.usage, finished.model, redacted, draft.provisional)


def _conclude_timeout(control: TurnControl, draft: MessageDraft, timeout_s: float) -> ModelAnswer:
    if control.aborted or control.is_generation_cut:
        reason = FinishReason.ABORTED if control.aborted else FinishReason.STEERED
        return ModelAnswer(draft.build_parts(reason), reason, Usage(), provisional=draft.provisional)
    error = ModelSilent(f"the model did not finish within {timeout_s:g} s")
    if draft.is_empty:
        raise error
    raise StreamInterrupted(error, draft)


async def _consume_stream(
    environment: ModelCallEnvironment,
    context: Context,
    options: Options,
    draft: MessageDraft,
    on_piece: Callable[[Piece], bool] | None,
) -> tuple[StreamFinished, tuple[str, ...]]:
    checkpoints = _CheckpointTimer(environment, draft)
    output = _RedactingOutput(environment, draft, options)
    try:
        async with aclosing(environment.provider.stream(context, options)) as stream:  # type: ignore[type-var]
            async for piece in stream:
                match piece:
                    case TextPiece(text=str(text)):
                        output.add_text(text)
                    case ThinkingPiece(text=str(text), signature=str(signature)):
                        output.add_thinking(text, signature)
                    case ToolCallPiece(index=int(), name=str(), input=str()):
                        await environment.control.expect_calls()
                        output.add_call_piece(piece)
                    case StreamFinished(reason=FinishReason(), usage=Usage(), model=model) if (
                        model is None or not find_description_problem(model)
                    ):
                        if on_piece is not None:
                            on_piece(piece)
                        output.finish()
                        usage = (piece.model or environment.provider.model()).check_usage(piece.usage)
                        if usage.correction:
                            piece = _correct_usage(environment, piece, usage)
                        return piece, output.redacted_kinds
                    case _:  # its record could not be read back
                        raise ProviderBroken(_describe_wrong_piece(environment.provider.model().name, piece))
                if on_piece is not None and on_piece(piece):  # treated as if the provider had kept to its output limit
                    output.finish()
                    return StreamFinished(FinishReason.LENGTH), output.redacted_kinds
                checkpoints.arm()
    finally:
        checkpoints.stop()
    raise ProviderBroken(f"The code of the provider of {environment.provider.model().name} ended its answer too early.")


def _describe_wrong_piece(model: str, piece: object) -> str:
    names = getattr(piece, "__struct_fields__", ())
    fields = ", ".join(f"{name}: {type(getattr(piece, name)).__name__}" for name in names)
    return (
        f"The code of the provider of {model} yielded {type(piece).__name__}({fields}), which is no piece of an answer."
    )


def _correct_usage(environment: ModelCallEnvironment, finished: StreamFinished, usage: Usage) -> StreamFinished:
    """Return the last piece with the checked usage, and log what was wrong with the reported one."""
    model = finished.model or environment.provider.model()
    log.warning("session %s: the usage of %s was corrected: %s", environment.session, model.name, usage.correction)
    return msgspec.structs.replace(finished, usage=usage)


class _RedactingOutput:
    """Redacts secrets from the model's output before it is stored or emitted."""

    __slots__ = (
        "_call_streams",
        "_current_kind",
        "_draft",
        "_environment",
        "_held_text",
        "_options",
        "_redacted",
        "_stream",
    )

    def __init__(self, environment: ModelCallEnvironment, draft: MessageDraft, options: Options) -> None:
        self._environment = environment
        self._draft = draft
        self._options = options
        self._current_kind: Literal["", "text", "thinking"] = ""
        self._stream: RedactionStream | None = None
        self._call_streams: dict[int, RedactionStream] = {}
        self._redacted: dict[str, None] = {}
        self._held_text: list[str] = []  # not emitted until a tool call begins: until then it may be the answer

    @property
    def redacted_kinds(self) -> tuple[str, ...]:
        """Kinds of secrets and PII that were redacted so far."""
        return tuple(self._redacted)

    def add_text(self, text: str) -> None:
        if self._current_kind != "text":
            self._switch_to("text")
        self._accept_text(text if self._stream is None else self._stream.feed(text))

    def add_thinking(self, text: str, signature: str) -> None:
        self._switch_to("thinking")
        if self._stream is not None:
            text = self._stream.feed(text) + (self._stream.finish() if signature else "")
        self._accept_thinking(text, signature)

    def add_call_piece(self, piece: ToolCallPiece) -> None:
        self._switch_to("")
        if self._held_text:
            self._emit_text("".join(self._held_text))
            self._held_text.clear()
        guards = self._environment.guards
        stream = self._call_streams.get(piece.index)
        if stream is None and guards is not None and (stream := guards.open_thinking_stream()) is not None:
            self._call_streams[piece.index] = stream
            name = stream.feed(piece.name) + stream.finish()
            piece = ToolCallPiece(piece.index, name, piece.input)
        if stream is not None:
            piece = ToolCallPiece(piece.index, piece.name, stream.feed(piece.input))
        _add_call_piece(self._environment, self._options, self._draft, piece)

    def finish(self) -> None:
        """Flush the text that the redaction filters still hold; the output is complete."""
        self._switch_to("")
        for index, stream in self._call_streams.items():
            if held := stream.finish():
                _add_call_piece(self._environment, self._options, self._draft, ToolCallPiece(index, input=held))
            self._redacted |= dict.fromkeys(stream.kinds)

    def _switch_to(self, kind: Literal["", "text", "thinking"]) -> None:
        if kind == self._current_kind:
            return
        before, stream = self._current_kind, self._stream
        if stream is not None:
            if held := stream.finish():
                if before == "text":
                    self._accept_text(held)
                else:
                    self._accept_thinking(held, "")
            self._redacted |= dict.fromkeys(stream.kinds)
        guards = self._environment.guards
        self._current_kind, self._stream = kind, None
        if kind and guards is not None:  # created on first output: by then every API key in use is known
            self._stream = (
                open_answer_stream(guards, self._environment.state) if kind == "text" else guards.open_thinking_stream()
            )

    def _accept_text(self, text: str) -> None:
        if not text:
            if self._draft.is_empty:  # output has begun, although the filter still holds all of it
                self._draft.add_text("")
            return
        self._draft.add_text(text)
        if self._draft.provisional == "held":
            self._held_text.append(text)
        else:
            self._emit_text(text, self._draft.provisional)

    def _emit_text(self, text: str, provisional: Literal["", "shown"] = "") -> None:
        emit, options = self._environment.emit, self._options
        if emit.has_watchers:
            emit(TextDelta(text, provisional, session=self._environment.session, turn=options.turn, step=options.step))

    def _accept_thinking(self, text: str, signature: str) -> None:
        self._draft.add_thinking(text, signature)
        emit, options = self._environment.emit, self._options
        if emit.has_watchers and text:
            emit(ThinkingDelta(text, session=self._environment.session, turn=options.turn, step=options.step))


class _CheckpointTimer:
    """Records a checkpoint of the draft once a period; most answers end before the first one.

    Checkpoints are aligned to a few instants of the period, so that many streams share one disk write.
    """

    __slots__ = ("_draft", "_environment", "_timer")

    def __init__(self, environment: ModelCallEnvironment, draft: MessageDraft) -> None:
        self._environment = environment
        self._draft = draft
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        if self._timer is None:
            period_s = self._environment.limits.checkpoint_period_s
            loop, step_s = asyncio.get_running_loop(), period_s / CHECKPOINT_SLOTS
            at = math.ceil((loop.time() + period_s) / step_s) * step_s
            self._timer = loop.call_at(at, self._save)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _save(self) -> None:
        self._timer = None
        if event := self._draft.take_checkpoint():
            self._environment.recorder.record_nowait(event, flush_soon=True)


def _add_call_piece(
    environment: ModelCallEnvironment, options: Options, draft: MessageDraft, piece: ToolCallPiece
) -> None:
    began = draft.add_call(piece)
    if not environment.emit.has_watchers:
        return
    session, turn, step, call_id = environment.session, options.turn, options.step, draft.call_id(piece.index)
    if began:
        environment.emit(ToolCallStarted(call_id, piece.name, session=session, turn=turn, step=step))
    if piece.input:
        environment.emit(ToolCallDelta(call_id, piece.input, session=session, turn=turn, step=step))
