"""Scripted model: answers the prompts of a case from a file."""

from __future__ import annotations

from mainstay.core.errors import RequestRefused
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.evals.suite_schema import Script, ScriptStep
from mainstay.providers.scripted import Call, Raise, Say, ScriptedProvider, Step

MODEL_NAME = "scripted"


def build_scripted_provider(script: Script) -> ScriptedProvider:
    """Return a provider that plays the script once, then raises RequestRefused, which fails the turn."""
    steps = iter(script)

    def answer(context: Context, options: Options) -> Step:
        step = next(steps, None)
        if step is None:
            return Raise(
                RequestRefused(f"the script has {format_count(len(script), 'answer')}, and another was asked for")
            )
        return _to_step(step)

    return ScriptedProvider(answer, info=ModelInfo(name=MODEL_NAME))


def _to_step(step: str | ScriptStep | tuple[ScriptStep, ...]) -> Step:
    match step:
        case str():
            return step
        case tuple():
            return [_to_call(call) for call in step]
        case ScriptStep(error=str(error)):
            return Raise(RequestRefused(error))
        case ScriptStep(call=None, say=say):
            return Say(say or "")
    return _to_call(step)


def _to_call(step: ScriptStep) -> Call:
    assert step.call is not None, "the file was checked"
    return Call(step.call, step.input)
