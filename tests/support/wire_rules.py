"""Rules of model APIs for a history, as far as documented: each violation is a 400."""

from __future__ import annotations

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_openai(messages: list[dict[str, Any]]) -> None:
    """Raises AssertionError where chat completions would refuse."""
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"message {place}"
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in waiting, f"{where}: a result without a call directly before it"
            waiting.remove(message["tool_call_id"])
            assert isinstance(message["content"], str), f"{where}: a result's content is text"
            continue
        assert not waiting, f"{where}: calls {waiting} were not answered"
        assert role in ("system", "developer", "user", "assistant"), f"{where}: role {role!r}"
        assert role != "system" or place == 0, f"{where}: a system message inside the history"
        calls = message.get("tool_calls")
        if calls is None:
            _check_openai_content(where, message["content"])
            continue
        assert role == "assistant", f"{where}: calls by {role}"
        assert calls, f"{where}: an empty list of calls"
        assert message["content"] is None or message["content"], f"{where}: empty text beside calls"
        for call in calls:
            _check_call(where, call["id"], call["function"]["name"], seen)
            assert isinstance(json.loads(call["function"]["arguments"]), dict), f"{where}: arguments are no object"
            waiting.append(call["id"])
    assert not waiting, f"calls {waiting} were never answered"


def _check_openai_content(where: str, content: Any) -> None:
    if isinstance(content, str):
        assert content, f"{where}: empty text"
        return
    assert isinstance(content, list), f"{where}: content is neither text nor parts"
    assert content, f"{where}: no content"
    for part in content:
        if part["type"] == "text":
            assert part["text"], f"{where}: an empty text part"
        else:
            assert part["type"] == "image_url", f"{where}: part {part['type']!r}"
            assert part["image_url"]["url"].startswith("data:image/"), f"{where}: not an image"


def check_anthropic(messages: list[dict[str, Any]]) -> None:
    """Raises AssertionError where the messages API would refuse."""
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"message {place}"
        role, content = message["role"], message["content"]
        assert role == ("user", "assistant")[place % 2], f"{where}: roles alternate, beginning with the user"
        assert isinstance(content, list), f"{where}: content is a list of blocks"
        assert content, f"{where}: no content"
        others = False
        for block in content:
            others = others or block["type"] != "tool_result"
            if block["type"] == "tool_result":
                assert not others, f"{where}: results come first"
                assert block["tool_use_id"] in waiting, f"{where}: a result without a call directly before it"
                waiting.remove(block["tool_use_id"])
            else:
                _check_block(where, role, block)
        assert not waiting, f"{where}: calls {waiting} were not answered"
        for block in content:
            if block["type"] == "tool_use":
                _check_call(where, block["id"], block["name"], seen)
                assert isinstance(block["input"], dict), f"{where}: input is no object"
                waiting.append(block["id"])
    assert not waiting, f"calls {waiting} were never answered"


def _check_block(where: str, role: str, block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), f"{where}: a blank text block"
        case "image":
            assert role == "user", f"{where}: an image by {role}"
            assert block["source"]["data"], f"{where}: an empty image"
        case "thinking":
            assert role == "assistant", f"{where}: thinking by {role}"
            assert block["signature"], f"{where}: thinking without a signature"
            assert "cache_control" not in block, f"{where}: thinking cannot be marked for the cache"
        case "tool_use":
            assert role == "assistant", f"{where}: a call by {role}"
        case other:
            raise AssertionError(f"{where}: block {other!r}")


def _check_call(where: str, id: str, name: str, seen: set[str]) -> None:
    assert NAME.fullmatch(id), f"{where}: id {id!r}"
    assert NAME.fullmatch(name), f"{where}: name {name!r}"
    assert id not in seen, f"{where}: id {id!r} was used before"
    seen.add(id)
