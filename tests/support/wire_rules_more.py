"""Rules of the younger model APIs for a history: each violation is a 400."""

from __future__ import annotations

import json
from typing import Any

from support.wire_rules import NAME


def check_responses(items: list[dict[str, Any]]) -> None:
    """Raises AssertionError where the Responses API would refuse."""
    calls: dict[str, bool] = {}  # answered or not
    thought = False
    for place, item in enumerate(items):
        where = f"item {place}"
        match item.get("type"):
            case "reasoning":
                assert item["encrypted_content"], f"{where}: nothing is stored there, so it must be here"
                assert isinstance(item["summary"], list), f"{where}: no summary"
                thought = True
                continue
            case "function_call":
                assert NAME.fullmatch(item["call_id"]), f"{where}: id {item['call_id']!r}"
                assert NAME.fullmatch(item["name"]), f"{where}: name {item['name']!r}"
                assert item["call_id"] not in calls, f"{where}: id {item['call_id']!r} was used before"
                assert isinstance(json.loads(item["arguments"]), dict), f"{where}: arguments are no object"
                calls[item["call_id"]] = False
            case "function_call_output":
                assert calls.get(item["call_id"]) is False, f"{where}: a result without a call before it"
                assert isinstance(item["output"], str), f"{where}: a result's output is text"
                calls[item["call_id"]] = True
            case _:
                _check_message(where, item)
        assert not thought or item["role" if "role" in item else "type"] in ("assistant", "function_call"), where
        thought = False
    assert not thought, "a thought without what it led to"
    assert all(calls.values()), f"calls {calls} were not all answered"


def _check_message(where: str, item: dict[str, Any]) -> None:
    role, content = item["role"], item["content"]
    assert role in ("user", "assistant", "developer"), f"{where}: role {role!r}"
    assert content, f"{where}: no content"
    if isinstance(content, str):
        return
    assert role == "user", f"{where}: parts by {role}"
    for part in content:
        if part["type"] == "input_text":
            assert part["text"], f"{where}: an empty text part"
        else:
            assert part["type"] == "input_image", f"{where}: part {part['type']!r}"
            assert part["image_url"].startswith("data:image/"), f"{where}: not an image"


def check_gemini(contents: list[dict[str, Any]]) -> None:
    """Raises AssertionError where generateContent would refuse."""
    waiting: list[tuple[str, str]] = []
    seen: set[str] = set()
    for place, content in enumerate(contents):
        where = f"content {place}"
        role, parts = content["role"], content["parts"]
        assert role in ("user", "model"), f"{where}: role {role!r}"
        assert place or role == "user", f"{where}: a history begins with the user"
        assert parts, f"{where}: no parts"
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert bool(answers) == bool(waiting), f"{where}: results stand directly after their calls"
        assert not answers or len(answers) == len(parts) == len(waiting), f"{where}: one result for every call"
        for answer, (id, name) in zip(answers, waiting, strict=True) if answers else ():
            assert (answer["id"], answer["name"]) == (id, name), f"{where}: a result for another call"
            assert set(answer["response"]) <= {"output", "error"}, f"{where}: a response is an object"
        waiting = []
        for part in parts:
            _check_part(where, role, part)
            if call := part.get("functionCall"):
                assert call["id"] not in seen, f"{where}: id {call['id']!r} was used before"
                assert NAME.fullmatch(call["name"]), f"{where}: name {call['name']!r}"
                assert call["name"][0].isalpha() or call["name"][0] == "_", f"{where}: name {call['name']!r}"
                assert isinstance(call["args"], dict), f"{where}: args are no object"
                seen.add(call["id"])
                waiting.append((call["id"], call["name"]))
    assert not waiting, f"calls {waiting} were never answered"


def _check_part(where: str, role: str, part: dict[str, Any]) -> None:
    kinds = set(part) - {"thoughtSignature"}
    assert len(kinds) == 1, f"{where}: a part is of one kind, not {kinds}"
    assert role == "model" or not {"functionCall", "thoughtSignature"} & set(part), f"{where}: {set(part)} by {role}"
    assert role == "user" or not {"functionResponse", "inlineData"} & set(part), f"{where}: {set(part)} by {role}"
    assert part.get("text") != "" or "thoughtSignature" in part, f"{where}: an empty text"


def check_ollama(messages: list[dict[str, Any]]) -> None:
    """Raises AssertionError where /api/chat would refuse, or a model's template would stumble."""
    waiting: list[tuple[str, str]] = []
    for place, message in enumerate(messages):
        where = f"message {place}"
        role = message["role"]
        assert role in ("user", "assistant", "tool") or (role == "system" and not place), f"{where}: role {role!r}"
        assert isinstance(message["content"], str), f"{where}: content is text"
        if role == "tool":
            assert (message["tool_call_id"], message["tool_name"]) == waiting.pop(0), f"{where}: no such call"
            continue
        assert not waiting, f"{where}: calls {waiting} were not answered"
        assert message["content"] or message.get("images") or message.get("tool_calls"), f"{where}: says nothing"
        for call in message.get("tool_calls", ()):
            assert NAME.fullmatch(call["function"]["name"]), f"{where}: name {call['function']['name']!r}"
            assert isinstance(call["function"]["arguments"], dict), f"{where}: arguments are no object"
            waiting.append((call["id"], call["function"]["name"]))
    assert not waiting, f"calls {waiting} were never answered"


def check_bedrock(messages: list[dict[str, Any]]) -> None:
    """Raises AssertionError where Converse would refuse."""
    waiting: set[str] = set()
    seen: set[str] = set()
    for place, message in enumerate(messages):
        where = f"message {place}"
        role, content = message["role"], message["content"]
        assert role == ("user", "assistant")[place % 2], f"{where}: roles alternate, beginning with the user"
        assert content, f"{where}: no content"
        results = {block["toolResult"]["toolUseId"] for block in content if "toolResult" in block}
        assert results == waiting, f"{where}: the results of exactly the calls before it"
        waiting = set()
        for block in content:
            match block:
                case {"text": text}:
                    assert text.strip(), f"{where}: a blank text"
                case {"toolUse": call}:
                    assert role == "assistant", f"{where}: a call by {role}"
                    assert NAME.fullmatch(call["toolUseId"]), f"{where}: id {call['toolUseId']!r}"
                    assert NAME.fullmatch(call["name"]), f"{where}: name {call['name']!r}"
                    assert isinstance(call["input"], dict), f"{where}: input is no object"
                    assert call["toolUseId"] not in seen, f"{where}: id was used before"
                    waiting.add(call["toolUseId"])
                case {"toolResult": result}:
                    assert role == "user", f"{where}: a result by {role}"
                    assert all(one["text"].strip() for one in result["content"]), f"{where}: an empty result"
                case {"image": image}:
                    assert role == "user", f"{where}: an image by {role}"
                    assert image["source"]["bytes"], f"{where}: an empty image"
                case {"reasoningContent": {"reasoningText": thought}}:
                    assert role == "assistant", f"{where}: a thought by {role}"
                    assert thought["signature"], f"{where}: a thought without a signature"
                case other:
                    raise AssertionError(f"{where}: block {other!r}")
        seen |= waiting
    assert not waiting, f"calls {waiting} were never answered"
