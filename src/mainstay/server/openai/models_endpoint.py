"""The models endpoint: each model name stands for the workspace of the caller."""

from __future__ import annotations

from mainstay.operations.caller import Caller
from mainstay.server.openai.errors import model_unknown

MODEL_OWNER = "mainstay"


def list_model_names(caller: Caller) -> tuple[str, ...]:
    """Return the model names that stand for the caller's workspace."""
    return tuple(dict.fromkeys((MODEL_OWNER, f"{MODEL_OWNER}/{caller.workspace}", caller.workspace)))


def check_model(caller: Caller, name: str) -> None:
    """Raise OpenAIProblem (404) for another name. Other workspaces get the same sentence as names that do not exist."""
    if name not in list_model_names(caller):
        raise model_unknown(name)


def describe_model(caller: Caller, name: str) -> dict[str, object]:
    check_model(caller, name)
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL_OWNER}


def describe_models(caller: Caller) -> dict[str, object]:
    return {"object": "list", "data": [describe_model(caller, name) for name in list_model_names(caller)]}
