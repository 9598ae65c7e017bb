"""All attacks of the corpus."""

from __future__ import annotations

from attack import Attack
from case_forged import FORGED
from case_patient import PATIENT
from case_product import product
from case_smuggled import SMUGGLED


def all_cases() -> list[Attack]:
    cases = [*product(), *FORGED, *SMUGGLED, *PATIENT]
    ids = [case.id for case in cases]
    assert len(set(ids)) == len(ids), [id for id in ids if ids.count(id) > 1]
    return cases
