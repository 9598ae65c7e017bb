"""Workspaces, under names that clients take for models'."""

from __future__ import annotations

from typing import Any

from mainstay.gateway.visit import Visit
from mainstay.server.openai.refusals import model_unknown

HOUSE = "mainstay"


def names_of(visit: Visit) -> tuple[str, ...]:
    """All that mean the workspace of whoever asks, and nothing else."""
    return tuple(dict.fromkeys((HOUSE, f"{HOUSE}/{visit.workspace}", visit.workspace)))


def check_model(visit: Visit, name: str) -> None:
    """Another workspace is as unknown as one that never was."""
    if name not in names_of(visit):
        raise model_unknown(name)


def model_of(visit: Visit, name: str) -> dict[str, Any]:
    check_model(visit, name)
    return {"id": name, "object": "model", "created": 0, "owned_by": HOUSE}


def models_of(visit: Visit) -> dict[str, Any]:
    return {"object": "list", "data": [model_of(visit, name) for name in names_of(visit)]}
