"""Delimiters that mark untrusted content as data, and neutralising of markup that imitates tool calls or chat turns.

A delimiter is keyed by the call: it cannot be guessed, and is the same on replay. The block that it delimits is built
where a result is shown to a model (core.messages).
"""

from __future__ import annotations

import hmac
import re

DELIMITER_CHARS = 12

# What some model or parser takes for a turn, a call or a control token. A backslash after the first character (before
# the colon of a turn, inside a brace) keeps it readable and disarms it.
_TAGS = (
    "tool_calls?|tool_code|tool_use|tool_outputs?|tool_results?|tool_response|function_calls?|function_results?"
    "|functions?|invoke|parameter|antml:[a-z_]{1,32}|s(?=>)|system|assistant|user|human|think|thinking|scratchpad"
)
_NAMES = "name|tool|tool_name|function|action|recipient_name"
_VALUES = "arguments|parameters|args|input|tool_input|action_input"
_LOOK_ALIKE = re.compile(
    r"<(?=\|[\w/ :.-]{1,40}\|>|\uff5c[^<>\n]{1,40}\uff5c>)"  # <|im_start|>
    r"|<(?=/?(?:" + _TAGS + r")[\s>=/])"  # <tool_call>, </function_calls>
    r"|<(?=/?data\s{1,8}[0-9a-f]{6})"  # our own block
    r"|<(?=</?sys>>|(?:start|end)_of_turn>|/?s>)"  # <<SYS>>, <start_of_turn>
    r"|\[(?=/?(?:INST|TOOL_CALLS?|TOOL_RESULTS?|AVAILABLE_TOOLS|SYSTEM_PROMPT|SYS)(?:\]|\s{0,4}:))"  # [INST]
    r'|\{(?=\s{0,16}"(?:' + _NAMES + r')"\s{0,4}:\s{0,4}"[^"\n]{1,80}"\s{0,16},\s{0,16}"(?:' + _VALUES + r')"\s{0,4}:)'
    r'|\{(?=\s{0,16}"(?:'
    + _VALUES
    + r')"\s{0,4}:\s{0,4}\{[^{}]{0,400}\}\s{0,16},\s{0,16}"(?:'
    + _NAMES
    + r')"\s{0,4}:)'
    r'|\{(?=\s{0,16}"(?:tool_calls|function_call|tool_use|tool_call)"\s{0,4}:)'
    r'|\{(?=\s{0,16}"type"\s{0,4}:\s{0,4}"(?:tool_use|function|function_call|tool_call)")'
    r"|(?<=to)=(?=functions\.)",
    re.IGNORECASE,
)
_TURN_PREFIX = re.compile(  # System: at the start of a line
    r"^[^\S\n]{0,8}(?:[#>*]{1,6}[^\S\n]{0,4})?(?:system|assistant|user|human|developer|tool|ai)"
    r"(?:[^\S\n]{1,3}(?:message|prompt|result))?\*{0,2}(?=[^\S\n]{0,2}:)",
    re.IGNORECASE | re.MULTILINE,
)


def compute_delimiter(key: bytes, call_key: str) -> str:
    """Return the delimiter for a call: stable for the same call, not predictable without the key."""
    return hmac.digest(key, call_key.encode("utf-8", "surrogatepass"), "sha256").hex()[:DELIMITER_CHARS]


def neutralise_markup(content: str) -> tuple[str, int]:
    """Disarm everything that looks like a tool call, chat turn or control token; return the text and their number."""
    calls = turns = 0
    if "<" in content or "[" in content or "{" in content or "=" in content:
        content, calls = _LOOK_ALIKE.subn(r"\g<0>\\", content)
    if ":" in content:
        content, turns = _TURN_PREFIX.subn(r"\g<0>\\", content)
    return content, calls + turns
