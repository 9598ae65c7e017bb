"""All attacks of the corpus."""

from __future__ import annotations

from attack import Attack
from case_product import product


def all_cases() -> list[Attack]:
    cases = product()
    ids = [case.id for case in cases]
    assert len(set(ids)) == len(ids), [id for id in ids if ids.count(id) > 1]
    return cases
