"""Calls one tool from the command line: parses KEY=VALUE or JSON arguments, and prints the result."""

from __future__ import annotations

import argparse
import secrets
from typing import Any

import msgspec

from mainstay.cli.commands.output import print_json
from mainstay.cli.commands.plugin_mcp_helpers import check_utf8, parse_pairs
from mainstay.cli.parser.root import UsageError
from mainstay.core.errors import InputRefused
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tools import BadArguments
from mainstay.guards.terminal_sanitizer import sanitize_text


def check_argument_options(options: argparse.Namespace) -> None:
    if options.input is not None and options.arguments:
        raise UsageError("use either KEY=VALUE arguments or --input, not both")


def parse_arguments(options: argparse.Namespace, tool: Tool) -> Any:
    """Return the tool's parsed arguments. Raises InputRefused if they do not fit its schema."""
    input = (
        check_utf8(options.input) if options.input is not None else _encode_arguments(options.arguments, tool.schema)
    )
    try:
        return tool.parse(input)
    except BadArguments as error:
        raise InputRefused(str(error)) from None


def build_command_context() -> ToolContext:
    """Build a context for a call outside of any session."""
    return ToolContext("command", 0, 0, secrets.token_hex(8), lambda event: None)


def print_result(options: argparse.Namespace, content: str, seconds: float) -> int:
    if options.json:
        print_json({"ok": True, "content": content, "seconds": round(seconds, 3)})
    else:
        print(sanitize_text(content))
    return 0


def _encode_arguments(pairs: list[str], schema: dict[str, Any]) -> str:
    """Encode KEY=VALUE arguments as JSON: text for string parameters, otherwise JSON if the value parses, else text."""
    properties = schema.get("properties", {})
    texts = parse_pairs(pairs, "argument: write KEY=VALUE")
    arguments = {key: _parse_value(text, properties.get(key)) for key, text in texts.items()}
    return msgspec.json.encode(arguments).decode()


def _parse_value(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
