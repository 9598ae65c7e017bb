"""Models that say what a file says."""

from __future__ import annotations

from mainstay.cli.chat.words import count
from mainstay.core.errors import RequestRefused
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.evals.schema import Script, StepEntry
from mainstay.providers.scripted import Call, Raise, Say, ScriptedProvider, Step

NAME = "scripted"


def scripted(script: Script) -> ScriptedProvider:
    """Plays it once. Asked more often than it has answers, it refuses, and the turn fails in a sentence."""
    rest = iter(script)

    def answer(context: Context, options: Options) -> Step:
        step = next(rest, None)
        if step is None:
            return Raise(RequestRefused(f"the script has {count(len(script), 'answer')}, and another was asked for"))
        return _step(step)

    return ScriptedProvider(answer, info=ModelInfo(name=NAME))


def _step(step: str | StepEntry | tuple[StepEntry, ...]) -> Step:
    match step:
        case str():
            return step
        case tuple():
            return [_call(one) for one in step]
        case StepEntry(error=str(error)):
            return Raise(RequestRefused(error))
        case StepEntry(call=None, say=say):
            return Say(say or "")
    return _call(step)


def _call(step: StepEntry) -> Call:
    assert step.call is not None, "the file was checked"
    return Call(step.call, step.input)
