"""Adapters from triggers to an open agent: prompts go to lanes, wake checks run in the sandbox."""

from __future__ import annotations

import hashlib

from mainstay.agent.agent_options import ChannelThreadOpener
from mainstay.agent.builtin_tool_factory import build_sandbox
from mainstay.agent.session_folders import SessionFolderRegistry
from mainstay.config.schema import Config
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import LaneFull, MainstayError
from mainstay.core.input_envelope import InputEnvelope, check_session_name, session_key
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import AnyPart, Text
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.ports import Store
from mainstay.core.tool_ports import Sandbox, SandboxCommand
from mainstay.core.triggers import TRIGGER_ID_PREFIX, SubmittedPrompt, Trigger, WakeCheckResult
from mainstay.guards.guardrails import Guardrails
from mainstay.io.path_resolver import shorten_for_message
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.replies import find_reply

NOTHING_TO_DO = 1  # exit code of a check that found nothing to do
OUTPUT_BYTES_MAX = 64 * 1024


class LanePromptSubmitter:
    """The PromptSubmitter port: submits a trigger's prompt to the lane of its session."""

    def __init__(
        self,
        lanes: LaneRegistry,
        store: Store,
        guards: Guardrails,
        config: Config,
        channel_threads: ChannelThreadOpener | None = None,
    ) -> None:
        """`channel_threads` is None without a gateway."""
        self._lanes = lanes
        self._store = store
        self._guards = guards
        self._config = config
        self._channel_threads = channel_threads

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        # also if the trigger's text has changed since
        if (earlier := await self.find_submitted(trigger, key)) is not None:
            return earlier
        id, session = _input_id(trigger, key), await self._resolve_session(trigger, key)
        lane = self._lanes.get(session)
        approval = (await lane.load_session()).pending_approval
        if approval is not None:  # a prompt would deny the call, and only a person may do that
            raise LaneFull(f"session {session!r} waits for an approval ({approval.id})")
        parts = self._build_parts(trigger, f"{session}/{id}")
        envelope = InputEnvelope(parts=parts, thread=session, sender=trigger.person, id=id, shared=True)
        pending = await lane.accept(envelope)
        return SubmittedPrompt(session, pending.seq, pending.reply)

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        id = _input_id(trigger, key)
        if trigger.target.is_new_thread and self._channel_threads is not None:
            thread = await self._channel_threads.find_thread(self._config.workspace, id)
            if thread is None:
                return None
            session = self._thread_session_key(thread, trigger)
        else:
            session = trigger_session_key(trigger, key, self._config)
        seen = await self._store.find_input(session, id)
        return SubmittedPrompt(session, seen[0]) if seen is not None else None

    async def _resolve_session(self, trigger: Trigger, key: str) -> str:
        """Return the trigger's session; for a room of a channel, post the trigger's text there and use the thread that
        it starts."""
        if not trigger.target.is_new_thread or self._channel_threads is None:
            return trigger_session_key(trigger, key, self._config)
        room = ChatAddress(trigger.target.channel, trigger.target.room)
        text = self._guards.redact_known(trigger.text) or f"[{trigger.name}]"
        thread = await self._channel_threads.open_thread(self._config.workspace, room, text, _input_id(trigger, key))
        return self._thread_session_key(thread, trigger)

    def _thread_session_key(self, thread: ChatAddress, trigger: Trigger) -> str:
        envelope = InputEnvelope(
            parts=(), channel=thread.channel, room=thread.room, thread=thread.thread, sender=trigger.person
        )
        return check_session_name(session_key(envelope, self._config.lanes.key), self._config.limits)

    async def get_outcome(self, session: str, seq: int) -> str:
        reply = await find_reply(self._store, session, seq)
        return describe_outcome(reply.outcome) if reply is not None else ""

    def _build_parts(self, trigger: Trigger, delimiter_seed: str) -> tuple[AnyPart, ...]:
        """Return the trigger's text as a message, and its data as a marked block of untrusted content."""
        parts: list[AnyPart] = []
        if trigger.text:
            parts.append(Text(self._guards.redact_known(trigger.text), origin=trigger.origin))
        if trigger.data:
            cleaned = self._guards.check_result(trigger.data, external=True).content
            mark = self._guards.compute_delimiter(delimiter_seed)
            source = f"{TRIGGER_ID_PREFIX}{trigger.name}"
            block = f"\n<data {mark} from {source}>\n{cleaned.replace(mark, '…')}\n</data {mark}>"
            parts.append(Text(block, origin=format_origin(source, untrusted=True)))
        return tuple(parts)


def _input_id(trigger: Trigger, key: str) -> str:
    return f"{TRIGGER_ID_PREFIX}{trigger.name}:{key}"


def trigger_session_key(trigger: Trigger, key: str, config: Config) -> str:
    """Return the key of the session that a trigger prompts. In a room every run has its own thread, whose name is
    derived from `key`: a repeated run finds it again."""
    target = trigger.target
    if not target.is_new_thread:
        check_session_name(target.session, config.limits)
        return session_key(InputEnvelope(parts=(), thread=target.session, sender=trigger.person), config.lanes.key)
    digest = hashlib.sha256(f"{trigger.name}\n{key}".encode()).hexdigest()[:12]
    thread = f"{trigger.name}-{digest}"
    envelope = InputEnvelope(parts=(), channel=target.channel, room=target.room, thread=thread, sender=trigger.person)
    return check_session_name(session_key(envelope, config.lanes.key), config.limits)


def describe_outcome(outcome: Outcome) -> str:
    """Describe how a turn ended in a few words, for a list."""
    match outcome:
        case Answered():
            return "answered"
        case Aborted():
            return "aborted"
        case Exhausted(bound=bound):
            return f"exhausted: {bound}"
        case Paused():
            return "waits for an approval"
        case Failed(sentence=sentence):
            return f"failed: {sentence}"


class SandboxWakeCheck:
    """The WakeCheck port: runs a trigger's check command in the agent's sandbox, or in a new one if it has none."""

    def __init__(self, sandbox: Sandbox | None, session_folders: SessionFolderRegistry, config: Config) -> None:
        self._agent_sandbox = sandbox
        self._session_folders = session_folders
        self._config = config

    async def __call__(self, trigger: Trigger) -> WakeCheckResult:
        """Run the check. Exit code 0: wake the model and show it the output; 1: nothing to do; others: an error."""
        command = SandboxCommand(
            script=trigger.check,
            folders=self._session_folders.folders_of(trigger.target.session or f"{TRIGGER_ID_PREFIX}{trigger.name}"),
            timeout_s=self._config.triggers.check_timeout_s,
            network=self._config.sandbox.network,
            protect_obeyed=True,
        )
        try:
            sandbox = self._agent_sandbox or build_sandbox(self._config)
            try:
                result = await sandbox.exec(command)
            finally:
                if sandbox is not self._agent_sandbox:
                    await sandbox.close()
        except (MainstayError, OSError) as error:
            return WakeCheckResult(False, trouble=f"its check could not be run: {error}")
        if result.timed_out:
            return WakeCheckResult(False, trouble=f"its check did not end within {command.timeout_s:g} s")
        if result.exit_code == 0:
            return WakeCheckResult(True, result.stdout[:OUTPUT_BYTES_MAX].decode(errors="replace").strip())
        if result.exit_code == NOTHING_TO_DO:
            return WakeCheckResult(False)
        errors = result.stderr[:200].decode(errors="replace").strip().splitlines()
        reason = f": {shorten_for_message(errors[0])}" if errors else ""
        return WakeCheckResult(False, trouble=f"its check ended with exit code {result.exit_code}{reason}")
