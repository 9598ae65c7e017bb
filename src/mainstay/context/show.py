"""A context as people can read it: exactly what the model saw, section by section."""

from __future__ import annotations

from mainstay.context.compile import Section, Shown, Surroundings
from mainstay.context.rules import Budget
from mainstay.context.tokens import Scale
from mainstay.context.weigh import describe, weigh, weigh_tools
from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo
from mainstay.core.session import Session


def show(session: Session, context: Context, around: Surroundings, scale: Scale, at: tuple[Budget, ModelInfo]) -> Shown:
    budget, model = at
    tokenizer = scale.tokenizer

    def scaled(count: int) -> int:
        return round(count * scale.factor)

    history = list(context.messages)
    summary = history[:1] if session.folded is not None else []
    recent = history[len(summary) :]
    sections = [
        Section("fixed", scaled(tokenizer.count(around.fixed)), around.fixed),
        Section("tools", scaled(weigh_tools(around.tools, tokenizer)), "\n".join(map(describe, around.tools))),
        Section("profile", scaled(tokenizer.count(around.profile)), around.profile),
        Section("summary", _weight(summary, scale), "\n\n".join(map(render, summary)), len(summary)),
        Section("recent", _weight(recent, scale), "\n\n".join(map(render, recent)), len(recent)),
    ]
    return Shown(sections, round(budget.total * scale.factor), budget.window, model.name)


def _weight(messages: list[Message], scale: Scale) -> int:
    return round(sum(weigh(message, scale.tokenizer) for message in messages) * scale.factor)


def render(message: Message) -> str:
    return f"[{message.role} #{message.id}]\n" + "\n".join(filter(None, map(_part, message.parts)))


def _part(part: AnyPart) -> str:
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
