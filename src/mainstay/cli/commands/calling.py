"""One call of one tool from the command line: its arguments as they are typed, and its answer as it came."""

from __future__ import annotations

import argparse
import secrets
from typing import Any

import msgspec

from mainstay.cli.chat.safe import safe
from mainstay.cli.commands.foreign import pairs, text_of
from mainstay.cli.commands.out import print_json
from mainstay.cli.commands.tree import UsageError
from mainstay.core.errors import InputRefused
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tools import BadArguments


def check_given(options: argparse.Namespace) -> None:
    if options.input is not None and options.arguments:
        raise UsageError("give the arguments one by one, or all of them with --input, not both")


def arguments_of(options: argparse.Namespace, tool: Tool) -> Any:
    """Raises InputRefused if the tool would not take them."""
    input = text_of(options.input) if options.input is not None else _input(options.arguments, tool.schema)
    try:
        return tool.parse(input)
    except BadArguments as error:
        raise InputRefused(str(error)) from None


def nowhere() -> ToolContext:
    """For a call that is part of no conversation."""
    return ToolContext("command", 0, 0, secrets.token_hex(8), lambda event: None)


def tell_answer(options: argparse.Namespace, content: str, seconds: float) -> int:
    if options.json:
        print_json({"ok": True, "content": content, "seconds": round(seconds, 3)})
    else:
        print(safe(content))
    return 0


def _input(given: list[str], schema: dict[str, Any]) -> str:
    """A value is text where its parameter is; anything else is JSON if it can be."""
    properties = schema.get("properties", {})
    made = {key: _value(text, properties.get(key)) for key, text in pairs(given, "argument: write KEY=VALUE").items()}
    return msgspec.json.encode(made).decode()


def _value(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
