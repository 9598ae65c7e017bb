"""Renders a context for display: exactly what the model saw, section by section, with token counts."""

from __future__ import annotations

from mainstay.context.compiler import ContextSection, ContextView, StableSections
from mainstay.context.token_budget import TokenBudget
from mainstay.context.token_counts import count_message_tokens, count_tools_tokens, describe_tool
from mainstay.context.tokenizers import TokenCalibration
from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo
from mainstay.core.session import Session


def build_view(
    session: Session,
    context: Context,
    stable: StableSections,
    calibration: TokenCalibration,
    budget_and_model: tuple[TokenBudget, ModelInfo],
) -> ContextView:
    """Return the view of a compiled context, with the budget and the model that it was compiled for."""
    budget, model = budget_and_model
    tokenizer = calibration.tokenizer

    def scaled(count: int) -> int:
        return round(count * calibration.factor)

    history = list(context.messages)
    summary = history[:1] if session.last_fold is not None else []
    recent = history[len(summary) :]
    sections = [
        ContextSection("fixed", scaled(tokenizer.count(stable.fixed)), stable.fixed),
        ContextSection(
            "tools", scaled(count_tools_tokens(stable.tools, tokenizer)), "\n".join(map(describe_tool, stable.tools))
        ),
        ContextSection("profile", scaled(tokenizer.count(stable.profile)), stable.profile),
        ContextSection(
            "summary", _count_tokens(summary, calibration), "\n\n".join(map(render_message, summary)), len(summary)
        ),
        ContextSection(
            "recent", _count_tokens(recent, calibration), "\n\n".join(map(render_message, recent)), len(recent)
        ),
    ]
    return ContextView(sections, round(budget.total * calibration.factor), budget.window, model.name)


def _count_tokens(messages: list[Message], calibration: TokenCalibration) -> int:
    return round(sum(count_message_tokens(message, calibration.tokenizer) for message in messages) * calibration.factor)


def render_message(message: Message) -> str:
    return f"[{message.role} #{message.id}]\n" + "\n".join(filter(None, map(_render_part, message.parts)))


def _render_part(part: AnyPart) -> str:
    match part:
        case Text(text=text):
            return text
        case Thinking(text=text):
            return f"(thinking) {text}" if text else ""
        case ToolCall(id=id, name=name, input=input):
            return f"→ {name}({input})  [{id}]"
        case ToolResult(call_id=id, content=content):
            return f"← [{id}] {content}"
        case Binary(mime=mime):
            return f"({mime})"
    return ""
